"""One training step: a closure that every optimiser takes, once (SGD, AdamW) or twice (SAM)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from curvewise.losses.family import Objective
from curvewise.training.recipe import Recipe
from curvewise.training.sam import SAM


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
    """Do one optimiser step and return the loss before it.

    BatchNorm's running statistics see the first pass only: SAM's second one is at other weights.
    """
    passes = 0
    parameters = [p for group in optimizer.param_groups for p in group["params"]]

    def closure() -> Tensor:
        nonlocal passes
        passes += 1
        optimizer.zero_grad()
        with (
            torch.autocast(x.device.type, torch.bfloat16, enabled=recipe.precision == "bfloat16"),
            frozen_statistics(model, passes > 1),
        ):
            logits = model(x, lam)
        loss = smoothed_loss(
            objective,
            logits,
            y,
            lam,
            class_counts=class_counts,
            smoothing=recipe.label_smoothing,
            sample_weight=sample_weight,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        if recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, recipe.clip_norm)
        return loss

    loss: Tensor = optimizer.step(closure)  # type: ignore[arg-type, assignment]
    return loss.detach()


def smoothed_loss(
    objective: Objective,
    logits: Tensor,
    y: Tensor,
    lam: Tensor,
    *,
    class_counts: Sequence[float],
    smoothing: float,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Return (1 - s) loss(y) + s times the mean over classes of the loss as if all were that one.

    Label smoothing for any objective; with s = 0 it is the objective's loss.
    """
    settings: dict[str, Any] = {"class_counts": class_counts}
    if sample_weight is not None:  # else objectives that know of no weights do as well
        settings["sample_weight"] = sample_weight
    loss = objective.loss(logits, y, lam, **settings)
    if smoothing == 0:
        return loss
    classes = range(logits.shape[-1])
    others = [objective.loss(logits, torch.full_like(y, c), lam, **settings) for c in classes]
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
