"""The moving parts of one training run, and the state that a stopped one goes on from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvewise.base.errors import CurvewiseError, InputError
from curvewise.base.machine import choose_device
from curvewise.losses.factors import check_class_counts
from curvewise.losses.family import Objective
from curvewise.networks.conditioning import Conditioned, condition
from curvewise.training.allocation import keep_freed_memory
from curvewise.training.augment import add_noise, augment
from curvewise.training.batches import Samples, epoch_batches, seeded, steps_per_epoch
from curvewise.training.compiling import compiled, pays_to_compile
from curvewise.training.recipe import Recipe
from curvewise.training.schedule import learning_rate
from curvewise.training.step import make_optimizer, take_step

Normalization = tuple[tuple[float, ...], tuple[float, ...]]


class DivergedError(CurvewiseError):
    """The loss was not finite; the message names the step and the settings."""


@dataclass
class TrainingState:
    """All that a run needs to go on: after `step` steps, with these tensors.

    Order, lambda and learning rate are functions of seeds and step, so they are not in here.
    """

    step: int
    model: dict[str, Tensor]
    objective: dict[str, Tensor]
    optimizer: dict[str, Any]
    average: dict[str, Tensor] | None
    augment_generator: Tensor
    global_generator: Tensor
    compiled: bool
    epoch_losses: list[float]
    loss_sum: float
    recipe: dict[str, Any]


class Run:
    """One training run: model, optimiser, data and where it is."""

    def __init__(
        self,
        network: nn.Module,
        objective: Objective,
        x: NDArray[Any] | Tensor,
        y: NDArray[Any] | Tensor,
        recipe: Recipe,
        normalization: Normalization | None,
        sample_weight: NDArray[Any] | Tensor | None = None,
        class_counts: Sequence[float] | None = None,
    ) -> None:
        self.recipe, self.objective = recipe, objective
        self.device = choose_device(recipe.device)
        self.samples = Samples(x, self.device, normalization)
        labels, counts = check_labels(y, len(self.samples))
        self.labels = labels.to(self.device)
        self.class_counts: tuple[float, ...] = counts
        weight = None
        if sample_weight is not None:
            weight, self.class_counts = check_sample_weight(sample_weight, labels)
        if class_counts is not None:
            self.class_counts = check_told_counts(class_counts, len(counts))
        self.model = conditioned(network, objective, recipe).to(self.device)
        if isinstance(objective, nn.Module):
            objective.to(self.device)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.sample_weight = None if weight is None else weight.to(self.parameters[0])
        self.optimizer = make_optimizer([*self.parameters, *objective.parameters()], recipe)
        self.per_epoch = steps_per_epoch(counts, recipe)
        self.steps = recipe.steps or (recipe.epochs or 0) * self.per_epoch
        self.step, self.loss_sum = 0, 0.0
        self.epoch_losses: list[float] = []
        self.average: dict[str, Tensor] | None = None
        if recipe.ema_decay is not None:
            self.average = _copied(self.model.state_dict())
        self.generator = torch.Generator(self.device).manual_seed(
            seeded(recipe.seed_order, 1 << 32).initial_seed()
        )
        self.compiled = pays_to_compile(self.model, self.samples, recipe, self.steps)
        self.convolutions = any(isinstance(m, nn.Conv2d) for m in self.model.modules())

    def steps_left(self) -> Iterator[float]:
        """Train step by step, yielding each loss."""
        self.model.train()
        model = compiled(self.model) if self.compiled else self.model
        if self.convolutions:
            # A third faster on a CPU, compiled or not: no copies into the kernels' own layout.
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            if self.device.type == "cpu":
                keep_freed_memory()
        while self.step < self.steps:
            epoch, done = divmod(self.step, self.per_epoch)
            batches = epoch_batches(
                len(self.samples), epoch, self.objective, self.recipe, labels=self.labels
            )
            for number, batch in enumerate(batches):
                if number < done:
                    continue
                if self.step >= self.steps:
                    return
                yield self._advance(model, batch.rows, batch.lam.to(self.device))

    def _batch(self, rows: Tensor) -> Tensor:
        """Return a batch as the network takes it; what it was made of is not kept."""
        x = self.samples.raw(rows)
        if self.recipe.augment != "none":
            x = augment(x, self.recipe.augment, self.generator)
        x = add_noise(self.samples.prepared(x), self.recipe.input_noise, self.generator)
        return x.contiguous(memory_format=torch.channels_last) if self.convolutions else x

    def _advance(self, model: nn.Module, rows: Tensor, lam: Tensor) -> float:
        rate = learning_rate(self.recipe, self.step, self.steps, self.per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        x = self._batch(rows)
        rows = rows.to(self.device)
        loss = take_step(
            model,
            self.objective,
            self.optimizer,
            x,
            self.labels[rows],
            lam,
            class_counts=self.class_counts,
            recipe=self.recipe,
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
        ).item()
        if not np.isfinite(loss):
            raise DivergedError(
                f"the loss is {loss} at step {self.step + 1} of {self.steps} (lr {rate:g}, "
                f"{self.objective!r}); try a smaller learning rate, or clip the gradient's norm"
            )
        self.step += 1
        self.loss_sum += loss
        end_of_epoch = self.step % self.per_epoch == 0
        if end_of_epoch:
            self.epoch_losses.append(self.loss_sum / self.per_epoch)
            self.loss_sum = 0.0
        if self.average is not None and (end_of_epoch or self.recipe.ema_every == "step"):
            self._update_average(self.average)
        return float(loss)

    def _update_average(self, average: dict[str, Tensor]) -> None:
        decay = self.recipe.ema_decay
        assert decay is not None
        for name, value in self.model.state_dict().items():
            if value.is_floating_point():
                average[name].lerp_(value, 1 - decay)
            else:
                average[name].copy_(value)

    def finish(self) -> None:
        """Give the model the averaged weights, if the recipe keeps them, in the usual layout."""
        if self.convolutions:
            self.model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        if self.average is not None and self.step > 0:
            self.model.load_state_dict(self.average)

    def capture(self) -> TrainingState:
        """Return the state after the last step."""
        objective = self.objective
        return TrainingState(
            step=self.step,
            model=_copied(self.model.state_dict()),
            objective=_copied(objective.state_dict()) if isinstance(objective, nn.Module) else {},
            optimizer=_copied(self.optimizer.state_dict()),
            average=None if self.average is None else _copied(self.average),
            augment_generator=self.generator.get_state(),
            global_generator=torch.get_rng_state(),
            compiled=self.compiled,
            epoch_losses=list(self.epoch_losses),
            loss_sum=self.loss_sum,
            recipe=self.recipe.model_dump(),
        )

    def restore(self, state: TrainingState) -> None:
        """Go to where a state was captured; the recipe must be the same."""
        if changed := _changes(Recipe(**state.recipe), self.recipe):
            raise InputError(
                f"a run can be resumed only with the recipe it was started with, with {changed}"
            )
        self.model.load_state_dict(state.model)
        if isinstance(self.objective, nn.Module):
            self.objective.load_state_dict(state.objective)
        self.optimizer.load_state_dict(_copied(state.optimizer))
        self.average = None if state.average is None else _copied(state.average)
        self.generator.set_state(state.augment_generator)
        self.compiled = state.compiled
        self.epoch_losses, self.loss_sum = list(state.epoch_losses), state.loss_sum
        self.step = state.step


def _changes(begun: Recipe, given: Recipe) -> str:
    """Return the settings that differ, such as "lr = 0.1 (got 0.2)", or ""."""
    before, now = dict(begun), dict(given)
    return ", ".join(f"{k} = {before[k]} (got {now[k]})" for k in now if before[k] != now[k])


def conditioned(network: nn.Module, objective: Objective, recipe: Recipe) -> Conditioned:
    """Return the network with the recipe's FiLM, its weights from the recipe's seed."""
    if isinstance(network, Conditioned):
        return network
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeded(recipe.seed_weights, 1).initial_seed())
        return condition(
            network,
            objective,
            recipe.film_at,
            hidden=recipe.film_hidden,
            init=recipe.film_init,
            scale_lambda=recipe.scale_lambda,
        )


def check_labels(y: NDArray[Any] | Tensor, n: int) -> tuple[Tensor, tuple[int, ...]]:
    """Return labels (n,) as a tensor, and the count of each class."""
    labels = torch.as_tensor(y)
    if labels.shape != (n,):
        raise InputError(
            f"y must have one label for each of {n} samples, got {tuple(labels.shape)}"
        )
    if labels.is_floating_point() or int(labels.min()) < 0:
        raise InputError(f"y must hold labels 0, 1, ..., got {labels.dtype} from {labels.min()}")
    labels = labels.long()
    counts = torch.bincount(labels, minlength=2).tolist()
    if min(counts) == 0:
        raise InputError(f"y must hold every class at least once, got counts {counts}")
    return labels, tuple(counts)


def check_sample_weight(
    sample_weight: NDArray[Any] | Tensor, labels: Tensor, members: int | None = None
) -> tuple[Tensor, tuple[float, ...]]:
    """Return weights (n,) in float64, and their sum in each class.

    For a stack of so many members, (members, n) is allowed too, one row each; the sums are then
    the mean over the members. Every class must have some weight, in every row.
    """
    try:
        given = sample_weight if isinstance(sample_weight, Tensor) else np.asarray(sample_weight)
    except ValueError:
        raise InputError("sample_weight must be an array, got rows of several lengths") from None
    shapes = [(len(labels),)] if members is None else [(len(labels),), (members, len(labels))]
    if tuple(given.shape) not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise InputError(f"sample_weight must have shape {wanted}, got {tuple(given.shape)}")
    try:
        weight = torch.as_tensor(given).detach().cpu().double()
    except TypeError:
        raise InputError(f"sample_weight must hold numbers, got {given.dtype}") from None
    wrong = weight[~(torch.isfinite(weight) & (weight >= 0))]
    if len(wrong):
        raise InputError(f"sample_weight must be finite and >= 0, got {wrong[0].item():g}")
    rows = weight.view(-1, len(labels))
    sums = rows.new_zeros(len(rows), int(labels.max()) + 1).index_add_(1, labels.cpu(), rows)
    for row, own in enumerate(sums.tolist()):
        if min(own) == 0:
            where = f" for member {row}" if weight.dim() == 2 else ""
            raise InputError(
                f"sample_weight must be positive somewhere in every class{where}, got sums {own}"
            )
    return weight, tuple(sums.mean(0).tolist())


def check_told_counts(class_counts: Sequence[float], n_classes: int) -> tuple[float, ...]:
    """Return given class counts as floats, one for each class of the labels."""
    counts = check_class_counts(class_counts)
    if len(counts) != n_classes:
        raise InputError(
            f"class_counts must have a number for each of {n_classes} classes, got {list(counts)}"
        )
    return counts


def _copied(value: Any) -> Any:
    """Return a deep copy in which tensors are detached clones."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_copied(item) for item in value)
    return value
