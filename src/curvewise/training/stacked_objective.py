"""K objectives as one: the losses (K,) of logits (K, n, C), each at its own settings."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.losses.family import LossFamily, Objective
from curvewise.losses.vector_scaling import unchecked_vs_loss
from curvewise.training.batches import seeded
from curvewise.training.recipe import Recipe

SETTINGS = ("omega", "gamma", "tau")


class StackedObjective:
    """The draws and losses of K members.

    Vector-scaling losses may differ from member to member, in what is fixed and in the density of
    what is drawn; other objectives must be alike, each with parameters of its own.
    """

    def __init__(self, objectives: Sequence[Objective], recipes: Sequence[Recipe]) -> None:
        self.members, self.recipes = list(objectives), list(recipes)
        self.scaled = all(isinstance(objective, LossFamily) for objective in objectives)
        first = objectives[0]
        if {objective.drawn for objective in objectives} != {first.drawn}:
            raise InputError("members of a stack must draw the same settings")
        if self.scaled:
            reductions = {objective.reduction for objective in objectives}  # type: ignore[attr-defined]
            if len(reductions) > 1:
                raise InputError(f"members of a stack must share the reduction, got {reductions}")
            self.parameters: list[nn.Parameter] = []
            self.one: Any = first
            return
        if len({_described(objective) for objective in objectives}) > 1:
            raise InputError(
                "members of a stack must have the same loss, or all the vector-scaling loss, got "
                f"{sorted({type(objective).__name__ for objective in objectives})}"
            )
        # Parameters (K, 1) broadcast over scores (K, n), so one object serves all members.
        self.one = copy.deepcopy(first)
        self.parameters = list(self.one.parameters())
        for number, parameter in enumerate(self.parameters):
            own = [list(objective.parameters())[number].detach() for objective in objectives]
            parameter.data = torch.stack([value.reshape(1) for value in own])

    def draw(self, epoch: int, count: int) -> tuple[Tensor, dict[str, Any]]:
        """Return lambda (K, count, d) of an epoch, and the settings (K, count) or (K, 1) it means.

        `count` is that of the epoch's batches or samples (`draws_per_epoch`); each member draws
        from its own generator as `epoch_batches` does.
        """
        if not self.members[0].drawn:
            count = 1
        draws = [
            objective.draw(count, generator=seeded(own.seed_lambda, epoch))
            for objective, own in zip(self.members, self.recipes, strict=True)
        ]
        lam = torch.stack(draws)
        if not self.scaled:
            return lam, {}
        found = [
            objective.hyperparameters(lam[k])  # type: ignore[attr-defined]
            for k, objective in enumerate(self.members)
        ]
        return lam, {name: _columns([values[name] for values in found]) for name in SETTINGS}

    def loss(
        self,
        logits: Tensor,
        target: Tensor,
        settings: dict[str, Any],
        class_counts: Sequence[float],
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the losses (K,); sample weights are (n,) or (K, n)."""
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        if not self.scaled:
            empty = torch.zeros(0, device=logits.device)
            loss: Tensor = self.one.loss(logits, target, empty, class_counts=class_counts, **given)
            return loss
        return unchecked_vs_loss(
            logits, target, tuple(class_counts), **settings, reduction=self.one.reduction, **given
        )

    def smoothed(
        self,
        logits: Tensor,
        target: Tensor,
        settings: dict[str, Any],
        class_counts: Sequence[float],
        smoothing: float,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the losses with label smoothing, as `smoothed_loss` has it."""
        loss = self.loss(logits, target, settings, class_counts, sample_weight)
        if smoothing == 0:
            return loss
        others = [
            self.loss(logits, torch.full_like(target, c), settings, class_counts, sample_weight)
            for c in range(logits.shape[-1])
        ]
        return (1 - smoothing) * loss + smoothing * torch.stack(others).mean(0)

    def keep(self, members: Tensor) -> None:
        """Go on with these members only."""
        rows = members.tolist()
        self.members = [self.members[k] for k in rows]
        self.recipes = [self.recipes[k] for k in rows]
        for parameter in self.parameters:
            parameter.data = parameter.data[members]


def _columns(values: list[Any]) -> Any:
    """Return one setting of K members as (K, draws), or (K, 1) where nothing is drawn.

    Class weights of several classes are kept as they are, if all members have the same.
    """
    if isinstance(values[0], tuple):
        if len(set(values)) > 1:
            raise InputError(f"members of a stack must share class weights, got {set(values)}")
        return values[0]
    return torch.stack([torch.as_tensor(value, dtype=torch.float64).view(-1) for value in values])


def _described(objective: Objective) -> str:
    plain = {k: v for k, v in vars(objective).items() if not k.startswith("_") and k != "training"}
    return f"{type(objective).__name__} {sorted(plain.items())}"
