"""One step of training: SAM, the optimisers of one model and of a stack, and label smoothing.

SAM (sharpness-aware minimisation) descends by the gradient at the worst point near by: Foret et
al. 2021, arXiv 2010.01412; the adaptive form: Kwon et al. 2021, arXiv 2102.11600.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from curvewise.base.errors import InputError, require_number
from curvewise.losses.family import Objective
from curvewise.training.recipe import Recipe

ADAM_BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8  # torch's defaults, which `fit` uses


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
        defaults = {"rho": require_number("rho", rho, 0), "adaptive": adaptive}
        super().__init__(params, defaults)
        for group in self.param_groups:
            require_number("rho", group["rho"], 0)
        self.base = base_optimizer(self.param_groups, **kwargs)
        self.defaults.update(self.base.defaults)
        self._share()
        self._climbed: list[tuple[Tensor, Tensor]] = []

    def _share(self) -> None:
        """Make groups and state one object with the base optimiser's, for schedules and saving."""
        self.base.param_groups = self.param_groups
        self.base.state = self.state

    @torch.no_grad()
    def ascend(self) -> None:
        """Go from the gradient at w to the worst point near by, and clear the gradients."""
        if self._climbed:
            raise InputError("ascend() must be followed by descend() before it is called again")
        moving = [
            (parameter, parameter.abs() if group["adaptive"] else None, group["rho"])
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        if not moving:
            raise InputError("ascend() needs gradients: call backward() on the loss first")
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
        if not self._climbed:
            raise InputError("descend() must follow ascend()")
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
        self._share()


def make_optimizer(parameters: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    """Return the recipe's optimiser, wrapped in SAM if rho > 0."""
    if recipe.optimizer == "sgd":
        base: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
        settings = {"momentum": recipe.momentum}
    else:
        base, settings = torch.optim.AdamW, {}
    settings |= {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
    if recipe.rho == 0:
        return base(parameters, **settings)
    return SAM(parameters, base, rho=recipe.rho, adaptive=recipe.adaptive, **settings)


def take_step(
    model: nn.Module,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    lam: Tensor,
    *,
    class_counts: Sequence[float],
    recipe: Recipe,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Do one optimiser step, whose closure SAM calls twice, and return the loss before it.

    BatchNorm's running statistics see the first pass only: SAM's second one is at other weights.
    """
    passes = 0
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    told: dict[str, Any] = {"class_counts": class_counts}
    if sample_weight is not None:  # else objectives that know of no weights do as well
        told["sample_weight"] = sample_weight

    def closure() -> Tensor:
        nonlocal passes
        passes += 1
        optimizer.zero_grad()
        with (
            torch.autocast(x.device.type, torch.bfloat16, enabled=recipe.precision == "bfloat16"),
            frozen_statistics(model, passes > 1),
        ):
            logits = model(x, lam)
        loss = smoothed(
            lambda labels: objective.loss(logits, labels, lam, **told),
            y,
            logits.shape[-1],
            recipe.label_smoothing,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        if recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, recipe.clip_norm)
        return loss

    loss: Tensor = optimizer.step(closure)  # type: ignore[arg-type, assignment]
    return loss.detach()


def smoothed(
    loss_of: Callable[[Tensor], Tensor], y: Tensor, n_classes: int, smoothing: float
) -> Tensor:
    """Return (1 - s) loss_of(y) + s times the mean over classes of it as if all were that one.

    Label smoothing for any loss; with s = 0 it is that loss.
    """
    loss = loss_of(y)
    if smoothing == 0:
        return loss
    others = [loss_of(torch.full_like(y, c)) for c in range(n_classes)]
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


class StackedOptimizer:
    """Updates weights (K, P) from gradients (K, P), in place, by the arithmetic of the others.

    Rates, decay, clipping and SAM's ascent are each member's own.
    """

    def __init__(self, recipe: Recipe, recipes: Sequence[Recipe], weights: Tensor) -> None:
        self.recipe = recipe

        def column(name: str) -> Tensor:
            values = [getattr(member, name) for member in recipes]
            return torch.tensor(values, dtype=torch.float64).to(weights)[:, None]

        self.rates, self.decays = column("lr") / recipe.lr, column("weight_decay")
        self.first = torch.zeros_like(weights)  # momentum, or Adam's mean
        self.second = torch.zeros_like(weights) if recipe.optimizer == "adamw" else None
        self.steps = 0.0
        self._before: Tensor | None = None
        self._group()

    def keep(self, members: Tensor) -> None:
        """Go on with these members only."""
        self.rates, self.decays = self.rates[members], self.decays[members]
        self.first = self.first[members]
        self.second = None if self.second is None else self.second[members]
        self._group()

    def clip(self, gradients: Tensor) -> None:
        """Scale each member's gradient to the norm it may have at most."""
        if self.recipe.clip_norm is not None:
            norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
            gradients.mul_((self.recipe.clip_norm / (norms + 1e-6)).clamp_max_(1.0))

    def ascend(self, weights: Tensor, gradients: Tensor) -> None:
        """Go to each member's worst point near by, as SAM does before its second pass."""
        self._before = weights.clone()
        size = weights.abs() if self.recipe.adaptive else None
        scaled = gradients if size is None else gradients * size
        norms = torch.linalg.vector_norm(scaled, dim=1, keepdim=True).clamp_min_(1e-12)
        weights.addcmul_(scaled if size is None else scaled.mul_(size), self.recipe.rho / norms)

    def step(self, weights: Tensor, gradients: Tensor, rate: float) -> None:
        """Do one step at the shared schedule's rate; each member has its own multiple of it."""
        if self._before is not None:
            weights.copy_(self._before)
            self._before = None
        buffers = [weights, gradients, self.first]
        if self.second is not None:
            buffers.append(self.second)
        for (multiple, decay), members in self._alike.items():
            if len(self._alike) == 1:
                rows = [[buffer] for buffer in buffers]
            else:
                rows = [[buffer[k] for k in members] for buffer in buffers]
            self._fused(*rows, lr=multiple * rate, weight_decay=decay, maximize=False)
        self.steps += 1

    def _fused(
        self,
        weights: list[Tensor],
        gradients: list[Tensor],
        first: list[Tensor],
        second: list[Tensor] | None = None,
        **settings: Any,
    ) -> None:
        """Do a step of torch's fused optimiser for the members of one rate and decay.

        One pass over the buffers instead of four (nine with AdamW), and quick where moments are
        denormal numbers.
        """
        if second is None:
            sgd(
                weights,
                gradients,
                list[Tensor | None](first),
                fused=True,
                momentum=self.recipe.momentum,
                dampening=0.0,
                nesterov=False,
                **settings,
            )
            return
        adamw(
            weights,
            gradients,
            first,
            second,
            max_exp_avg_sqs=[],
            state_steps=[torch.tensor(self.steps, device=p.device) for p in weights],
            fused=True,
            amsgrad=False,
            beta1=ADAM_BETAS[0],
            beta2=ADAM_BETAS[1],
            eps=ADAM_EPSILON,
            **settings,
        )

    def _group(self) -> None:
        """Find which members have the same multiple of the rate and the same decay."""
        self._alike: dict[tuple[float, float], list[int]] = {}
        pairs = zip(self.rates[:, 0].tolist(), self.decays[:, 0].tolist(), strict=True)
        for k, pair in enumerate(pairs):
            self._alike.setdefault(pair, []).append(k)
