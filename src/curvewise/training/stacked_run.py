"""The moving parts of a stack's training, as `Run` has those of one model's."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.losses.family import LossFamily, Objective
from curvewise.losses.vector_scaling import unchecked_vs_loss
from curvewise.networks.conditioning import Conditioned
from curvewise.training.augment import noise_generator, training_batch
from curvewise.training.batches import (
    TrainingData,
    draws_per_epoch,
    epoch_rows,
    seeded,
    steps_per_epoch,
    total_steps,
)
from curvewise.training.loop import divergence, update_average
from curvewise.training.optimizers import StackedOptimizer, frozen_statistics, smoothed
from curvewise.training.recipe import Recipe, learning_rate
from curvewise.training.speed import keep_freed_memory
from curvewise.training.stacked_network import StackedNetwork

SETTINGS = ("omega", "gamma", "tau")
LAMBDA = "lambda"  # among the draws: lambda itself, (K, draws, d)


class StackedObjective:
    """The draws and losses (K,) of K members.

    Vector-scaling losses may differ from member to member, in what is fixed and in the density of
    what is drawn; other objectives must be alike, each with parameters of its own.
    """

    def __init__(self, objectives: Sequence[Objective], recipes: Sequence[Recipe]) -> None:
        self.members, self.recipes = list(objectives), list(recipes)
        self.scaled = all(isinstance(objective, LossFamily) for objective in objectives)
        self.one: Any = objectives[0]
        self.parameters: list[nn.Parameter] = []
        if {objective.drawn for objective in objectives} != {self.one.drawn}:
            raise InputError("members of a stack must draw the same settings")
        if self.scaled:
            reductions = {objective.reduction for objective in objectives}  # type: ignore[attr-defined]
            if len(reductions) > 1:
                raise InputError(f"members of a stack must share the reduction, got {reductions}")
            return
        if len({_described(objective) for objective in objectives}) > 1:
            raise InputError(
                "members of a stack must have the same loss, or all the vector-scaling loss, got "
                f"{sorted({type(objective).__name__ for objective in objectives})}"
            )
        # Parameters (K, 1) broadcast over scores (K, n), so one object serves all members.
        self.one = copy.deepcopy(self.one)
        self.parameters = list(self.one.parameters())
        for number, parameter in enumerate(self.parameters):
            each = [list(objective.parameters())[number].detach() for objective in objectives]
            parameter.data = torch.stack([value.reshape(1) for value in each])

    def draw(self, epoch: int, count: int) -> dict[str, Any]:
        """Return lambda (K, count, d) of an epoch, and the settings (K, count) or (K, 1) it means.

        `count` is that of the epoch's batches or samples (`draws_per_epoch`), 1 where nothing is
        drawn; each member draws from its own generator as `epoch_batches` does.
        """
        if not self.one.drawn:
            count = 1
        lams = [
            objective.draw(count, generator=seeded(recipe.seed_lambda, epoch))
            for objective, recipe in zip(self.members, self.recipes, strict=True)
        ]
        draws: dict[str, Any] = {LAMBDA: torch.stack(lams)}
        if self.scaled:
            each = [
                objective.hyperparameters(lam)  # type: ignore[attr-defined]
                for objective, lam in zip(self.members, lams, strict=True)
            ]
            draws |= {name: _columns([settings[name] for settings in each]) for name in SETTINGS}
        return draws

    def loss(
        self,
        logits: Tensor,
        target: Tensor,
        settings: dict[str, Any],
        class_counts: Sequence[float],
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the losses (K,) of logits (K, n, C); sample weights are (n,) or (K, n)."""
        more = {} if sample_weight is None else {"sample_weight": sample_weight}
        if not self.scaled:
            nothing = torch.zeros(0, device=logits.device)
            loss: Tensor = self.one.loss(logits, target, nothing, class_counts=class_counts, **more)
            return loss
        return unchecked_vs_loss(
            logits, target, tuple(class_counts), **settings, reduction=self.one.reduction, **more
        )

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


def snapshot_steps(fractions: Sequence[float], steps: int) -> list[int]:
    """Return the steps after which snapshots are taken, for fractions of all steps.

    >>> snapshot_steps((0.25, 0.5, 0.999), 10)
    [2, 5, 10]
    """
    return [max(1, round(fraction * steps)) for fraction in fractions]


class StackedRun:
    """Members that train together: one batch order, K of everything else."""

    def __init__(
        self,
        networks: Sequence[Conditioned],
        objectives: Sequence[Objective],
        data: TrainingData,
        recipes: Sequence[Recipe],
        snapshots: Sequence[float] = (),
    ) -> None:
        self.recipe, self.data = recipes[0], data
        self.device = data.samples.device
        if self.device.type == "cpu":
            keep_freed_memory()  # the members' activations together are as large as images'
        self.networks, self.originals = list(networks), list(objectives)
        for network in networks:
            network.to(self.device).train()
        self.objective = StackedObjective(objectives, recipes)
        self.stack = StackedNetwork(networks, self.objective.parameters, data.scale)
        weights = self.stack.weights
        self.optimizer = StackedOptimizer(self.recipe, recipes, weights)
        self.sample_weight = None if data.weight is None else data.weight.to(weights)
        self.per_epoch = steps_per_epoch(data.counts, self.recipe)
        self.steps = total_steps(data.counts, self.recipe)
        self.snapshots = snapshot_steps(snapshots, self.steps)
        # After a step: the members that were alive, and their tensors.
        self.taken: dict[int, tuple[list[int], dict[str, Tensor]]] = {}
        self.step = 0
        self.alive = torch.arange(len(networks))
        self.diverged: dict[int, str] = {}
        self.epoch_losses: list[list[float]] = [[] for _ in networks]
        self.loss_sum = torch.zeros(len(networks), dtype=torch.float64)
        self.average: dict[str, Tensor] | None = None
        if self.recipe.ema_decay is not None:
            self.average = _cloned(self.stack.tensors())
        self.generator = noise_generator(self.recipe, self.device)

    def steps_left(self) -> Iterator[int]:
        """Train step by step, yielding how many are done."""
        recipe, labels = self.recipe, self.data.row_labels
        while self.step < self.steps and len(self.alive):
            epoch = self.step // self.per_epoch
            batches = epoch_rows(len(labels), epoch, recipe, labels)
            draws = self.objective.draw(epoch, draws_per_epoch(batches, recipe))
            self.draws = {
                name: value.to(self.stack.weights) if isinstance(value, Tensor) else value
                for name, value in draws.items()
            }
            start = 0  # of the batch, among the epoch's samples
            for number, rows in enumerate(batches):
                if self.step >= self.steps or not len(self.alive):
                    return
                self._advance(start if recipe.draw == "sample" else number, rows)
                start += len(rows)
                yield self.step

    def _advance(self, place: int, rows: Tensor) -> None:
        """Do one step; `place` is that of the batch's first draw among the epoch's."""
        x = training_batch(self.data.samples, rows, self.recipe, self.generator)
        rows = rows.to(self.device)
        losses = self._backward(x, rows, place, first=True)
        if not bool(torch.isfinite(losses).all()):
            losses = self._drop(losses)
            if not len(self.alive):
                return
        if self.recipe.rho > 0:
            with torch.no_grad():
                self.optimizer.ascend(self.stack.weights, self.stack.gradients)
            self._backward(x, rows, place, first=False)
        rate = learning_rate(self.recipe, self.step, self.steps, self.per_epoch)
        with torch.no_grad():
            self.optimizer.step(self.stack.weights, self.stack.gradients, rate)
        self.step += 1
        self._account(losses)

    def _backward(self, x: Tensor, rows: Tensor, place: int, *, first: bool) -> Tensor:
        """Fill the stack's gradients, clipped, and return the losses (K,)."""
        lam, settings = self._drawn(place, len(rows))
        weight = None if self.sample_weight is None else self.sample_weight[..., rows]
        with frozen_statistics(self.stack.template, not first):
            logits = self.stack.forward(x, lam)
        losses = smoothed(
            lambda y: self.objective.loss(logits, y, settings, self.data.class_counts, weight),
            self.data.labels[rows],
            logits.shape[-1],
            self.recipe.label_smoothing,
        )
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.stack.collect()
        with torch.no_grad():
            self.optimizer.clip(self.stack.gradients)
        return losses.detach()

    def _drawn(self, place: int, count: int) -> tuple[Tensor, dict[str, Any]]:
        """Return lambda (K, d) or (K, n, d) of a batch, and its settings (K, 1) or (K, n)."""
        each = self.recipe.draw == "sample" and self.draws[LAMBDA].shape[1] > 1
        columns = slice(place, place + (count if each else 1))
        settings = {
            name: value[:, columns] if isinstance(value, Tensor) and value.shape[1] > 1 else value
            for name, value in self.draws.items()
        }
        lam = settings.pop(LAMBDA)
        return lam if each else lam[:, 0], settings

    def _drop(self, losses: Tensor) -> Tensor:
        """Freeze members whose loss is not finite, and go on with the others."""
        finite = torch.isfinite(losses)
        for place in (~finite).nonzero().flatten().tolist():
            member = int(self.alive[place])
            self.diverged[member] = divergence(
                losses[place].item(),
                self.step + 1,
                self.steps,
                self.objective.recipes[place].lr,
                self.originals[member],
            )
        self._write(~finite, self.stack.tensors())
        kept = finite.nonzero().flatten()
        self.stack.keep(kept)
        self.objective.keep(kept.cpu())
        self.optimizer.keep(kept)
        self.draws = {
            name: value[kept] if isinstance(value, Tensor) else value
            for name, value in self.draws.items()
        }
        self.alive, self.loss_sum = self.alive[kept.cpu()], self.loss_sum[kept.cpu()]
        if self.sample_weight is not None and self.sample_weight.dim() == 2:
            self.sample_weight = self.sample_weight[kept]
        if self.average is not None:
            self.average = {name: value[kept] for name, value in self.average.items()}
        return losses[kept]

    def _account(self, losses: Tensor) -> None:
        """Keep the mean loss of each epoch, the average of the weights, and a snapshot if due."""
        self.loss_sum += losses.double().cpu()
        end_of_epoch = self.step % self.per_epoch == 0
        if end_of_epoch:
            for member, total in zip(self.alive.tolist(), self.loss_sum.tolist(), strict=True):
                self.epoch_losses[member].append(total / self.per_epoch)
            self.loss_sum.zero_()
        if end_of_epoch or self.recipe.ema_every == "step":
            update_average(self.average, self.stack.tensors(), self.recipe)
        if self.step in self.snapshots:
            self.taken[self.step] = self.alive.tolist(), _cloned(self._trained())

    def _trained(self) -> dict[str, Tensor]:
        """Return what the networks are to have: averaged tensors if the recipe keeps them."""
        return self.stack.tensors() if self.average is None else self.average

    def snapshot_networks(self) -> list[list[Conditioned]]:
        """Return the members' networks at each snapshot, once the run is finished.

        One that a run did not get to, for it was stopped or its member diverged, has the weights
        that the network was left with.
        """
        snapshots = []
        for step in self.snapshots:
            networks = copy.deepcopy(self.networks)
            alive, tensors = self.taken.get(step, ([], {}))
            self.stack.write([networks[member] for member in alive], range(len(alive)), tensors)
            snapshots.append(networks)
        return snapshots

    def _write(self, which: Tensor, tensors: dict[str, Tensor]) -> None:
        """Give the networks of some places their weights."""
        places = which.nonzero().flatten().tolist()
        self.stack.write([self.networks[int(self.alive[k])] for k in places], places, tensors)

    def finish(self) -> None:
        """Give the networks the trained weights, averaged ones if the recipe keeps them."""
        self._write(torch.ones(len(self.alive), dtype=torch.bool), self._trained())
        for network in self.networks:
            network.eval()


def _cloned(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in tensors.items()}
