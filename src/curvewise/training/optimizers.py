"""What steps are made of: optimisers (SAM), batches and averages, label smoothing, compiling.

SAM (sharpness-aware minimisation) descends by the gradient at the worst point near by: Foret et
al. 2021, arXiv 2010.01412; the adaptive form: Kwon et al. 2021, arXiv 2102.11600.
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd
from torch.utils.flop_counter import FlopCounterMode

from curvewise.base.errors import InputError, require, require_number
from curvewise.losses.family import Objective
from curvewise.training.batches import (
    Samples,
    TrainingData,
    augment,
    draw_places,
    epoch_rows,
    seeded,
    steps_per_epoch,
)
from curvewise.training.recipe import Recipe, average_reach

# Floating-point operations of a whole run from which compiling (about a minute) pays on a CPU.
WORTH_COMPILING = 2e13
LONGEST_AVERAGE = 0.1  # of the weights, as a share of the run; the paper's is 0.02

# Of torch's fused functions: what its optimisers, which `fit` uses, have as defaults.
FUSED: dict[str, Any] = {"maximize": False, "fused": True}
SGD = {"dampening": 0.0, "nesterov": False, **FUSED}
ADAMW = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, **FUSED}


class SAM(Optimizer):
    r"""Wrap an optimiser so that it uses the gradient at :math:`w + \rho\, g / \|g\|`.

    `base_optimizer` is a class (``torch.optim.SGD``); further keyword arguments go to it.
    Parameter groups may have their own `rho` and `adaptive`; the norm is over all groups.
    `adaptive` measures the neighbourhood relative to each weight,
    :math:`w + \rho\, w^2 g / \|\,|w| g\,\|`. With rho = 0 it is the base optimiser.

    Use it with a closure that clears the gradients, computes the loss, calls backward and returns
    the loss, or in two steps:

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = SAM([weight], torch.optim.SGD, rho=0.1, lr=0.5)
    >>> (weight**2).sum().backward()
    >>> optimizer.ascend()
    >>> (weight**2).sum().backward()
    >>> optimizer.descend()
    >>> weight
    tensor([-0.1000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        base_optimizer: Callable[..., Optimizer],
        rho: float = 0.05,
        *,
        adaptive: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(params, {"rho": rho, "adaptive": adaptive})
        for group in self.param_groups:
            group["rho"] = require_number("rho", group["rho"], 0)
        self.base = base_optimizer(self.param_groups, **kwargs)
        self.defaults.update(self.base.defaults)
        # One object for schedules and saving.
        self.base.param_groups, self.base.state = self.param_groups, self.state
        self._climbed: list[tuple[Tensor, Tensor]] = []

    @torch.no_grad()
    def ascend(self) -> None:
        """Go from the gradient at w to the worst point near by, and clear the gradients."""
        require(
            not self._climbed, "ascend() must be followed by descend() before it is called again"
        )
        moving = [
            (parameter, parameter.abs() if group["adaptive"] else None, group["rho"])
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        require(moving, "ascend() needs gradients: call backward() on the loss first")
        gradients = [p.grad if size is None else p.grad * size for p, size, _ in moving]
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm().clamp_min(1e-12)
        for (parameter, size, rho), gradient in zip(moving, gradients, strict=True):
            step = gradient if size is None else gradient * size
            self._climbed.append((parameter, parameter.clone()))
            parameter.add_(step * (rho / norm).to(parameter))
        self.zero_grad()

    @torch.no_grad()
    def descend(self) -> None:
        """Go back to w, step there with the gradients of the worst point, and clear them."""
        require(self._climbed, "descend() must follow ascend()")
        self._return()
        self.base.step()
        self._opt_called = True  # what a learning rate schedule looks for
        self.zero_grad()

    def _return(self) -> None:
        for parameter, before in self._climbed:
            parameter.copy_(before)
        self._climbed.clear()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do both halves with a closure; returns the loss at w."""
        if closure is None:
            raise InputError("SAM.step needs a closure; without one call ascend() and descend()")
        evaluate = torch.enable_grad()(closure)
        loss = evaluate()
        self.ascend()
        try:
            evaluate()
        except BaseException:  # Ctrl-C too: never leave the weights at the worst point
            self._return()
            raise
        self.descend()
        return loss

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "base": self.base, "_climbed": self._climbed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` gave: groups (with rho) and the base optimiser's state."""
        super().load_state_dict(state_dict)
        self.base.param_groups, self.base.state = self.param_groups, self.state


def make_optimizer(parameters: list[nn.Parameter], recipe: Recipe) -> Optimizer:
    """Return the recipe's optimiser, wrapped in SAM if rho > 0."""
    base: Callable[..., Optimizer] = torch.optim.AdamW
    settings = {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
    if recipe.optimizer == "sgd":
        base, settings["momentum"] = torch.optim.SGD, recipe.momentum
    if recipe.rho == 0:
        return base(parameters, **settings)
    return SAM(parameters, base, rho=recipe.rho, adaptive=recipe.adaptive, **settings)


class StackedOptimizer:
    """Updates weights (K, P) from gradients (K, P), in place, by the arithmetic of the others.

    Rates, decay, clipping and SAM's ascent are each member's own.
    """

    def __init__(self, recipes: Sequence[Recipe], weights: Tensor) -> None:
        self.recipe = recipe = recipes[0]
        # Of each member: the multiple of the shared rate, and the decay.
        pairs = [(member.lr, member.weight_decay) for member in recipes]
        own = torch.tensor(pairs, dtype=torch.float64).to(weights)
        own[:, 0] /= recipe.lr
        self.settings = [(multiple, decay) for multiple, decay in own.tolist()]
        # Momentum, or Adam's mean and second moment.
        self.moments = [torch.zeros_like(weights) for _ in range(1 + (recipe.optimizer == "adamw"))]
        # Torch's fused optimisers go over the buffers once instead of four times (nine with
        # AdamW), and are quick where moments are denormal numbers.
        self._update: Callable[..., None] = partial(adamw, **ADAMW)
        if recipe.optimizer == "sgd":
            self._update = partial(sgd, momentum=recipe.momentum, **SGD)
        self.steps = 0.0
        self._before: Tensor | None = None
        self.keep(range(len(recipes)))

    def keep(self, members: Sequence[int]) -> None:
        """Go on with these members only; those of the same settings step together."""
        self.settings = [self.settings[k] for k in members]
        self.moments = [moment[list(members)] for moment in self.moments]
        self._alike: dict[tuple[float, float], list[int]] = {}
        for k, settings in enumerate(self.settings):
            self._alike.setdefault(settings, []).append(k)

    @torch.no_grad()
    def clip(self, gradients: Tensor) -> None:
        """Scale each member's gradient to the norm it may have at most."""
        if self.recipe.clip_norm is not None:
            norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
            gradients.mul_((self.recipe.clip_norm / (norms + 1e-6)).clamp_max_(1.0))

    @torch.no_grad()
    def ascend(self, weights: Tensor, gradients: Tensor) -> None:
        """Go to each member's worst point near by, as SAM does before its second pass."""
        self._before = weights.clone()
        size = weights.abs() if self.recipe.adaptive else None
        scaled = gradients if size is None else gradients * size
        norms = torch.linalg.vector_norm(scaled, dim=1, keepdim=True).clamp_min_(1e-12)
        weights.addcmul_(scaled if size is None else scaled.mul_(size), self.recipe.rho / norms)

    @torch.no_grad()
    def step(self, weights: Tensor, gradients: Tensor, rate: float) -> None:
        """Do one step at the shared schedule's rate."""
        if self._before is not None:
            weights.copy_(self._before)
            self._before = None
        for (multiple, decay), members in self._alike.items():
            rows = [
                [buffer] if len(self._alike) == 1 else [buffer[k] for k in members]
                for buffer in (weights, gradients, *self.moments)
            ]
            if len(self.moments) == 2:
                rows += [[], [torch.tensor(self.steps, device=weights.device) for _ in rows[0]]]
            self._update(*rows, lr=multiple * rate, weight_decay=decay)
        self.steps += 1


class Steps:
    """The steps of a run, of one model or of a stack, and the average over them of its tensors."""

    def __init__(
        self, data: TrainingData, recipe: Recipe, tensors: Callable[[], dict[str, Tensor]]
    ) -> None:
        self.recipe, self.data, self.device = recipe, data, data.samples.device
        self.per_epoch = steps_per_epoch(data.counts, recipe)
        self.steps = recipe.steps or (recipe.epochs or 0) * self.per_epoch
        self.step = 0
        self.tensors = tensors
        reach = average_reach(recipe, self.steps, self.per_epoch)
        self.average = copy.deepcopy(dict(tensors())) if reach else None
        self.averages_steps = recipe.ema_share is not None or recipe.ema_every == "step"
        self.pull = 1 / max(1.0, reach) if recipe.ema_decay is None else 1 - recipe.ema_decay
        if reach > self.steps * LONGEST_AVERAGE:
            warnings.warn(
                f"the average of the weights reaches back over {reach:.0f} of {self.steps} steps: "
                f"the model lags behind its training; ema_share = 0.02 is the paper's share",
                stacklevel=2,
            )
        noise = seeded(recipe.seed_order, 1 << 32).initial_seed()
        self.generator = torch.Generator(self.device).manual_seed(noise)

    def batches_left(self, draw: Callable[[int, int], None]) -> Iterator[tuple[Tensor, slice]]:
        """Yield the rows of each batch, and where its lambdas are among the epoch's.

        Those are drawn by `draw(epoch, number)` when an epoch begins.
        """
        while self.step < self.steps:
            epoch, done = divmod(self.step, self.per_epoch)
            batches = epoch_rows(self.data.row_labels, epoch, self.recipe)
            places = draw_places(batches, self.recipe)
            draw(epoch, places[-1].stop)
            left = slice(done, done + self.steps - self.step)
            yield from zip(batches[left], places[left], strict=True)

    def batch(self, rows: Tensor) -> Tensor:
        """Return samples as a network takes them in training: augmented, prepared, with noise."""
        x = self.data.samples.raw(rows)
        if self.recipe.augment != "none":
            x = augment(x, self.recipe.augment, self.generator)
        x = self.data.samples.prepared(x)
        if self.recipe.input_noise > 0:
            x = x + self.recipe.input_noise * torch.empty_like(x).normal_(generator=self.generator)
        return x

    def count(self) -> bool:
        """Count a step that was done; return whether it ended an epoch."""
        self.step += 1
        end_of_epoch = self.step % self.per_epoch == 0
        if self.average is not None and (end_of_epoch or self.averages_steps):
            for name, value in self.tensors().items():
                if value.is_floating_point():
                    self.average[name].lerp_(value, self.pull)
                else:  # a counter
                    self.average[name].copy_(value)
        return end_of_epoch

    def divergence(self, loss: float, rate: float, objective: Objective) -> str:
        """Return the sentence on a loss that is not finite in the next step."""
        return (
            f"the loss is {loss} at step {self.step + 1} of {self.steps} (lr {rate:g}, "
            f"{objective!r}); try a smaller learning rate, or clip the gradient's norm"
        )


def smoothed(
    loss_of: Callable[[Tensor, Tensor], Tensor], logits: Tensor, y: Tensor, smoothing: float
) -> Tensor:
    """Smooth the labels of any loss of logits and labels.

    It is (1 - s) times the loss plus s times its mean over classes, as if all were of that one.
    """
    loss = loss_of(logits, y)
    if smoothing == 0:
        return loss
    others = [loss_of(logits, torch.full_like(y, c)) for c in range(logits.shape[-1])]
    return (1 - smoothing) * loss + smoothing * torch.stack(others).mean(0)


@contextmanager
def frozen_statistics(model: nn.Module, freeze: bool) -> Iterator[None]:
    """Let BatchNorm normalise by the batch without remembering it."""
    norms = [
        module
        for module in (model.modules() if freeze else ())
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats
    ]
    for module in norms:
        module.track_running_stats = False
    try:
        yield
    finally:
        for module in norms:
            module.track_running_stats = True


class Compiled:
    """A model's forward, compiled; where that fails, a warning, and the forward as it is."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.call = model, cast(Any, model)
        try:
            self.call = torch.compile(model)
        except Exception as error:  # whatever the compiler stumbles over, training goes on
            self._give_up(error)

    def __call__(self, x: Tensor, lam: Tensor) -> Any:
        """Return logits."""
        try:
            return self.call(x, lam)
        except torch._dynamo.exc.TorchDynamoException as error:
            self._give_up(error)
            return self.model(x, lam)

    def _give_up(self, error: Exception) -> None:
        self.call = self.model
        first, *_ = str(error).strip().splitlines() or [type(error).__name__]
        warnings.warn(f"training goes on uncompiled: {first}", stacklevel=2)


def is_long(model: nn.Module, samples: Samples, recipe: Recipe, steps: int) -> bool:
    """Return whether a run is long enough for compiling to pay.

    The length is counted in operations, not in seconds, so that the answer is the same on every
    machine and a resumed run computes the same bits.
    """
    one = samples.prepared(samples.raw(torch.arange(1)))
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model.eval()
        model.body(one)  # type: ignore[operator]
    passes = 3 * (2 if recipe.rho > 0 else 1)  # forward, and a backward of twice the size
    total = float(counter.get_total_flops()) * passes * recipe.batch_size * steps
    return total > WORTH_COMPILING
