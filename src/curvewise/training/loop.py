"""`fit`: train one model. Yields and accepts state objects; files are the shells' business."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from curvewise.base.errors import CurvewiseError, InputError
from curvewise.base.machine import choose_device
from curvewise.losses.family import Objective
from curvewise.networks.conditioning import Conditioned, condition
from curvewise.networks.registry import Normalization
from curvewise.training.augment import noise_generator, training_batch
from curvewise.training.batches import (
    Array,
    TrainingData,
    epoch_batches,
    seeded,
    steps_per_epoch,
    total_steps,
)
from curvewise.training.optimizers import make_optimizer, take_step
from curvewise.training.recipe import Recipe, learning_rate
from curvewise.training.speed import (
    compiled,
    fitting_threads,
    keep_freed_memory,
    pays_to_compile,
)


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


@dataclass(frozen=True)
class Progress:
    """Where a run is; `state()` captures it for resuming."""

    step: int
    steps: int
    epoch: int
    loss: float
    seconds: float
    state: Callable[[], TrainingState]


@dataclass
class Fitted:
    """A trained model with what is needed to use it and to know how it came about."""

    network: Conditioned
    objective: Objective
    recipe: Recipe
    class_counts: tuple[float, ...]
    normalization: Normalization | None
    epoch_losses: list[float]
    steps: int
    finished: bool
    compiled: bool
    seconds: float
    state: TrainingState = field(repr=False)


def fit(
    network: nn.Module,
    family: Objective,
    x: Array,
    y: Array,
    recipe: Recipe,
    *,
    normalization: Normalization | None = None,
    sample_weight: Array | None = None,
    class_counts: Sequence[float] | None = None,
    state: TrainingState | None = None,
    on_progress: Callable[[Progress], bool | None] | None = None,
) -> Fitted:
    """Train a network over a family of losses (or with one fixed loss, or any `Objective`).

    The network is conditioned on what the family draws (see `condition`) and trained in place.
    `x` is float32 (n, d) or uint8 images (n, C, H, W), an array, a memory map or a tensor;
    `normalization` is (mean, std) per channel for images. `sample_weight` (n,) multiplies the
    samples' losses (see `vs_loss`); one with mean 1 keeps their scale. The class counts that the
    loss is told are its sums per class, or those of the labels, unless `class_counts` says others.
    `state` goes on with a stopped run, which must have had the same weights.
    `on_progress` is called after every step; returning True stops. Ctrl-C stops after the step.

    >>> from curvewise.losses.family import LossFamily
    >>> x, y = torch.randn(40, 3), torch.arange(40) % 10 // 9
    >>> fitted = fit(nn.Linear(3, 2), LossFamily(tau=1.0), x, y, Recipe(epochs=2))
    >>> fitted.steps, fitted.class_counts
    (2, (36, 4))
    """
    device = choose_device(recipe.device)
    data = TrainingData(x, y, device, normalization, sample_weight, class_counts)
    return fit_on(data, network, family, recipe, state, on_progress)


def fit_on(
    data: TrainingData,
    network: nn.Module,
    family: Objective,
    recipe: Recipe,
    state: TrainingState | None = None,
    on_progress: Callable[[Progress], bool | None] | None = None,
) -> Fitted:
    """Train as `fit` does, on data that are checked and on the device."""
    run = Run(network, family, data, recipe)
    if state is not None:
        run.restore(state)
    started = time.perf_counter()
    with (
        _interrupt_flag() as interrupted,
        _training_noise(run, state),
        fitting_threads(run.model, data.samples, recipe),
    ):
        for loss in run.steps_left():
            epoch, seconds = (run.step - 1) // run.per_epoch, time.perf_counter() - started
            progress = Progress(run.step, run.steps, epoch, loss, seconds, run.capture)
            stop = on_progress is not None and on_progress(progress)
            if stop or interrupted.is_set():
                break
        final = run.capture()
    run.finish()
    return Fitted(
        network=run.model.eval(),
        objective=family,
        recipe=recipe,
        class_counts=data.class_counts,
        normalization=data.normalization,
        epoch_losses=run.epoch_losses,
        steps=run.step,
        finished=run.step >= run.steps,
        compiled=run.compiled,
        seconds=time.perf_counter() - started,
        state=final,
    )


class Run:
    """One training run: model, optimiser, data and where it is."""

    def __init__(
        self, network: nn.Module, objective: Objective, data: TrainingData, recipe: Recipe
    ) -> None:
        self.recipe, self.objective, self.data = recipe, objective, data
        self.device = data.samples.device
        self.model = conditioned(network, objective, recipe).to(self.device)
        if isinstance(objective, nn.Module):
            objective.to(self.device)
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.sample_weight = None if data.weight is None else data.weight.to(parameters[0])
        self.optimizer = make_optimizer([*parameters, *objective.parameters()], recipe)
        self.per_epoch = steps_per_epoch(data.counts, recipe)
        self.steps = total_steps(data.counts, recipe)
        self.step, self.loss_sum = 0, 0.0
        self.epoch_losses: list[float] = []
        self.average: dict[str, Tensor] | None = None
        if recipe.ema_decay is not None:
            self.average = _copied(self.model.state_dict())
        self.generator = noise_generator(recipe, self.device)
        self.compiled = pays_to_compile(self.model, data.samples, recipe, self.steps)
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
        labels = self.data.labels
        while self.step < self.steps:
            epoch, done = divmod(self.step, self.per_epoch)
            batches = epoch_batches(len(labels), epoch, self.objective, self.recipe, labels=labels)
            for number, batch in enumerate(batches):
                if number < done:
                    continue
                if self.step >= self.steps:
                    return
                yield self._advance(model, batch.rows, batch.lam.to(self.device))

    def _advance(self, model: nn.Module, rows: Tensor, lam: Tensor) -> float:
        rate = learning_rate(self.recipe, self.step, self.steps, self.per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        x = training_batch(self.data.samples, rows, self.recipe, self.generator)
        if self.convolutions:
            x = x.contiguous(memory_format=torch.channels_last)
        rows = rows.to(self.device)
        loss = take_step(
            model,
            self.objective,
            self.optimizer,
            x,
            self.data.labels[rows],
            lam,
            class_counts=self.data.class_counts,
            recipe=self.recipe,
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
        ).item()
        if not np.isfinite(loss):
            raise DivergedError(divergence(loss, self.step + 1, self.steps, rate, self.objective))
        self.step += 1
        self.loss_sum += loss
        end_of_epoch = self.step % self.per_epoch == 0
        if end_of_epoch:
            self.epoch_losses.append(self.loss_sum / self.per_epoch)
            self.loss_sum = 0.0
        if end_of_epoch or self.recipe.ema_every == "step":
            update_average(self.average, self.model.state_dict(), self.recipe)
        return float(loss)

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
            average=_copied(self.average),
            augment_generator=self.generator.get_state(),
            global_generator=torch.get_rng_state(),
            compiled=self.compiled,
            epoch_losses=list(self.epoch_losses),
            loss_sum=self.loss_sum,
            recipe=self.recipe.model_dump(),
        )

    def restore(self, state: TrainingState) -> None:
        """Go to where a state was captured; the recipe must be the same."""
        before, now = dict(Recipe(**state.recipe)), dict(self.recipe)
        if changed := [f"{k} = {before[k]} (got {now[k]})" for k in now if before[k] != now[k]]:
            raise InputError(
                "a run can be resumed only with the recipe it was started with, with "
                f"{', '.join(changed)}"
            )
        self.model.load_state_dict(state.model)
        if isinstance(self.objective, nn.Module):
            self.objective.load_state_dict(state.objective)
        self.optimizer.load_state_dict(_copied(state.optimizer))
        self.average = _copied(state.average)
        self.generator.set_state(state.augment_generator)
        self.compiled = state.compiled
        self.epoch_losses, self.loss_sum = list(state.epoch_losses), state.loss_sum
        self.step = state.step


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


def divergence(loss: float, step: int, steps: int, rate: float, objective: Objective) -> str:
    """Return the sentence on a loss that is not finite."""
    return (
        f"the loss is {loss} at step {step} of {steps} (lr {rate:g}, {objective!r}); try a "
        "smaller learning rate, or clip the gradient's norm"
    )


def update_average(
    average: dict[str, Tensor] | None, now: dict[str, Tensor], recipe: Recipe
) -> None:
    """Move averaged tensors towards the present ones, if the recipe averages; counters follow."""
    if average is None or recipe.ema_decay is None:
        return
    for name, value in now.items():
        if value.is_floating_point():
            average[name].lerp_(value, 1 - recipe.ema_decay)
        else:
            average[name].copy_(value)


def _copied(value: Any) -> Any:
    """Return a deep copy in which tensors are detached clones."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_copied(item) for item in value)
    return value


@contextmanager
def _training_noise(run: Run, state: TrainingState | None) -> Iterator[None]:
    """Seed the global generator, which dropout uses, and give it back as it was."""
    with torch.random.fork_rng(devices=[run.device] if run.device.type == "cuda" else []):
        if state is None:
            torch.manual_seed(seeded(run.recipe.seed_order, 2 << 32).initial_seed())
        else:
            torch.set_rng_state(state.global_generator)
        yield


@contextmanager
def _interrupt_flag() -> Iterator[threading.Event]:
    """Make the first Ctrl-C a flag, so that no step is cut in half; a second one raises."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        if flag.is_set() and callable(before):
            before(number, frame)
        flag.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)
