"""The moving parts of a stack's training: objective, optimiser and run, as one model has them."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from curvewise.base.errors import require
from curvewise.base.machine import keep_freed_memory
from curvewise.losses.family import LossFamily, Objective
from curvewise.losses.vector_scaling import unchecked_vs_loss
from curvewise.networks.conditioning import Conditioned
from curvewise.training.batches import TrainingData, seeded
from curvewise.training.optimizers import Steps, frozen_statistics, smoothed
from curvewise.training.recipe import Recipe, learning_rate
from curvewise.training.stacked_network import StackedNetwork

# Of torch's fused functions: what its optimisers, which `fit` uses, have as defaults.
FUSED: dict[str, Any] = {"maximize": False, "fused": True}
SGD = {"dampening": 0.0, "nesterov": False, **FUSED}
ADAMW = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, **FUSED}


@dataclass
class Member:
    """One model of a stack: what it is trained by, and what came of it."""

    network: Conditioned
    objective: Objective
    recipe: Recipe
    epoch_losses: list[float] = field(default_factory=list)
    diverged: str | None = None
    snapshots: list[Conditioned] = field(default_factory=list)


class StackedObjective:
    """The draws and losses (K,) of K members.

    Vector-scaling losses may differ from member to member, in what is fixed and in the density of
    what is drawn; other objectives must be alike, each with parameters of its own.
    """

    def __init__(self, objectives: Sequence[Any], like: Tensor) -> None:
        self.one, self.drawn = objectives[0], objectives[0].drawn
        self.parameters: list[nn.Parameter] = []
        self.fixed: dict[str, Any] = {}  # settings that are not drawn: (K, 1), or class weights
        require(
            {objective.drawn for objective in objectives} == {self.drawn},
            "members of a stack must draw the same settings",
        )
        self.scaled = all(isinstance(objective, LossFamily) for objective in objectives)
        if self.scaled:
            reductions = sorted({objective.reduction for objective in objectives})
            wrong = f"members of a stack must share the reduction, got {reductions}"
            require(len(reductions) == 1, wrong)
            for name in {"omega", "gamma", "tau"}.difference(self.drawn):
                self.fixed[name] = _column([o.settings[name] for o in objectives], like)
            return
        require(
            len({_described(objective) for objective in objectives}) == 1,
            "members of a stack must have the same loss, or all the vector-scaling loss, got "
            f"{sorted({type(objective).__name__ for objective in objectives})}",
        )
        # Parameters (K, 1) broadcast over scores (K, n), so one object serves all members.
        self.one = copy.deepcopy(self.one)
        self.parameters = list(self.one.parameters())
        members = zip(*[objective.parameters() for objective in objectives], strict=True)
        for parameter, values in zip(self.parameters, members, strict=True):
            parameter.data = torch.stack([value.detach().reshape(1) for value in values])

    def loss(
        self,
        logits: Tensor,
        target: Tensor,
        lam: Tensor,
        class_counts: tuple[float, ...],
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the losses (K,) of logits (K, n, C) at lambda, (K, 1, d) or (K, n, d).

        Sample weights are (n,) or (K, n).
        """
        if not self.scaled:
            weights = {} if sample_weight is None else {"sample_weight": sample_weight}
            loss: Tensor = self.one.loss(logits, target, lam, class_counts=class_counts, **weights)
            return loss
        settings = self.fixed | dict(zip(self.drawn, lam.unbind(-1), strict=True))
        reduction = self.one.reduction
        return unchecked_vs_loss(logits, target, class_counts, settings, reduction, sample_weight)

    def keep(self, members: list[int]) -> None:
        """Go on with these members only."""
        for name, value in self.fixed.items():
            self.fixed[name] = value[members] if isinstance(value, Tensor) else value


def _column(values: list[Any], like: Tensor) -> Any:
    """Return a setting of K members as (K, 1), or as it is if it is class weights."""
    if not any(isinstance(value, tuple) for value in values):
        return torch.tensor(values, dtype=torch.float64)[:, None].to(like)
    distinct = set(values)
    require(len(distinct) == 1, f"members of a stack must share class weights, got {distinct}")
    return values[0]


def _described(objective: Objective) -> str:
    plain = {k: v for k, v in vars(objective).items() if not k.startswith("_") and k != "training"}
    return f"{type(objective).__name__} {sorted(plain.items())}"


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


def snapshot_steps(fractions: Sequence[float], steps: int) -> list[int]:
    """Return the steps after which snapshots are taken, for fractions of all steps.

    >>> snapshot_steps((0.25, 0.5, 0.999), 10)
    [2, 5, 10]
    """
    return [max(1, round(fraction * steps)) for fraction in fractions]


class StackedRun(Steps):
    """Members that train together: one batch order, K of everything else.

    They get copies of their networks after some fractions of the steps, as far as it gets.
    """

    def __init__(
        self, members: Sequence[Member], data: TrainingData, fractions: Sequence[float] = ()
    ) -> None:
        device = data.samples.device
        if device.type == "cpu":
            keep_freed_memory()  # the members' activations together are as large as images'
        self.members = self.alive = list(members)
        networks = [member.network.to(device).train() for member in members]
        like = next(networks[0].parameters()).detach()
        self.objective = StackedObjective([member.objective for member in members], like)
        self.stack = StackedNetwork(networks, self.objective.parameters, data.scale)
        super().__init__(data, members[0].recipe, self.stack.tensors)
        self.optimizer = StackedOptimizer([m.recipe for m in members], self.stack.weights)
        self.sample_weight = None if data.weight is None else data.weight.to(like)
        self.due = snapshot_steps(fractions, self.steps)
        self.loss_sum = torch.zeros(len(members), dtype=torch.float64)

    def steps_left(self) -> Iterator[int]:
        """Train step by step, yielding how many are done."""
        for rows, place in self.batches_left(self._draw):
            self._advance(rows, place)
            yield self.step
            if not self.alive:
                return

    def _draw(self, epoch: int, number: int) -> None:
        """Draw lambda (K, number, d), each member's from its own generator."""
        lams = [
            member.objective.draw(number, generator=seeded(member.recipe.seed_lambda, epoch))
            for member in self.alive
        ]
        self.lam = torch.stack(lams).to(self.stack.weights)

    def _advance(self, rows: Tensor, place: slice) -> None:
        x, rows = self.batch(rows), rows.to(self.device)
        losses = self._backward(x, rows, place, first=True)
        if not bool(torch.isfinite(losses).all()):
            losses = self._drop(losses)
            if not self.alive:
                return
        if self.recipe.rho > 0:
            self.optimizer.ascend(self.stack.weights, self.stack.gradients)
            self._backward(x, rows, place, first=False)
        rate = learning_rate(self.recipe, self.step, self.steps, self.per_epoch)
        self.optimizer.step(self.stack.weights, self.stack.gradients, rate)
        self.loss_sum += losses.double().cpu()
        if self.count():
            for member, total in zip(self.alive, self.loss_sum.tolist(), strict=True):
                member.epoch_losses.append(total / self.per_epoch)
            self.loss_sum.zero_()
        for _ in range(self.due.count(self.step)):
            for member in self.members:
                member.snapshots.append(copy.deepcopy(member.network).eval())
            self._write([member.snapshots[-1] for member in self.alive])

    def _backward(self, x: Tensor, rows: Tensor, place: slice, *, first: bool) -> Tensor:
        """Fill the stack's gradients, clipped, and return the losses (K,)."""
        lam = self.lam[:, place]
        weight = None if self.sample_weight is None else self.sample_weight[..., rows]
        with frozen_statistics(self.stack.template, not first):
            logits = self.stack.forward(x, lam if self.recipe.draw == "sample" else lam[:, 0])
        losses = smoothed(
            lambda y: self.objective.loss(logits, y, lam, self.data.class_counts, weight),
            self.data.labels[rows],
            logits.shape[-1],
            self.recipe.label_smoothing,
        )
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.stack.collect()
        self.optimizer.clip(self.stack.gradients)
        return losses.detach()

    def _drop(self, losses: Tensor) -> Tensor:
        """Freeze members whose loss is not finite, and go on with the others."""
        kept, lost = (
            torch.nonzero(which).flatten().tolist()
            for which in (torch.isfinite(losses), ~torch.isfinite(losses))
        )
        for place in lost:
            member, loss = self.alive[place], losses[place].item()
            member.diverged = self.divergence(loss, member.recipe.lr, member.objective)
        self.stack.write([self.alive[place].network for place in lost], lost, self.tensors())
        for part in (self.stack, self.objective, self.optimizer):
            part.keep(kept)
        self.alive = [self.alive[place] for place in kept]
        self.lam, self.loss_sum = self.lam[kept], self.loss_sum[kept]
        if self.sample_weight is not None and self.sample_weight.dim() == 2:
            self.sample_weight = self.sample_weight[kept]
        if self.average is not None:
            self.average = {name: value[kept] for name, value in self.average.items()}
        return losses[kept]

    def _write(self, networks: list[Conditioned]) -> None:
        """Give networks the weights of those alive, averaged ones if the recipe keeps them."""
        self.stack.write(networks, range(len(networks)), self.average or self.tensors())

    def finish(self) -> None:
        """Give the members' networks the trained weights."""
        self._write([member.network for member in self.alive])
        for member in self.members:
            member.network.eval()
