"""The moving parts of a stack's training, as `Run` has those of one model's."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.machine import choose_device
from curvewise.losses.family import Objective
from curvewise.networks.conditioning import Conditioned
from curvewise.training.allocation import keep_freed_memory
from curvewise.training.augment import add_noise, augment
from curvewise.training.batches import (
    Samples,
    draws_per_epoch,
    epoch_rows,
    seeded,
    steps_per_epoch,
)
from curvewise.training.recipe import Recipe
from curvewise.training.run import Normalization, check_labels
from curvewise.training.schedule import learning_rate
from curvewise.training.stacked_network import StackedNetwork
from curvewise.training.stacked_objective import StackedObjective
from curvewise.training.stacked_optimizer import StackedOptimizer
from curvewise.training.step import frozen_statistics


@dataclass
class Snapshot:
    """Weights and buffers of the members that were alive after a step; none before it."""

    step: int
    alive: list[int] = field(default_factory=list)
    weights: Tensor | None = None
    buffers: dict[str, Tensor] = field(default_factory=dict)


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
        x: NDArray[Any] | Tensor,
        y: NDArray[Any] | Tensor,
        recipes: Sequence[Recipe],
        normalization: Normalization | None,
        sample_weight: Tensor | None = None,
        class_counts: tuple[float, ...] | None = None,
        snapshots: Sequence[float] = (),
        input_scale: Tensor | None = None,
    ) -> None:
        self.recipe = recipe = recipes[0]
        self.device = choose_device(recipe.device)
        if self.device.type == "cpu":
            keep_freed_memory()  # the members' activations together are as large as images'
        self.samples = Samples(x, self.device, normalization)
        self.row_labels, counts = check_labels(y, len(self.samples))
        self.labels = self.row_labels.to(self.device)
        self.class_counts: tuple[float, ...] = class_counts or counts
        self.networks, self.originals = list(networks), list(objectives)
        for network in networks:
            network.to(self.device).train()
        self.objective = StackedObjective(objectives, recipes)
        self.stack = StackedNetwork(networks, self.objective.parameters, input_scale)
        self.optimizer = StackedOptimizer(recipe, recipes, self.stack.weights)
        self.sample_weight = None if sample_weight is None else sample_weight.to(self.stack.weights)
        self.per_epoch = steps_per_epoch(counts, recipe)
        self.steps = recipe.steps or (recipe.epochs or 0) * self.per_epoch
        self.snapshots = [Snapshot(step) for step in snapshot_steps(snapshots, self.steps)]
        self.step = 0
        self.alive = torch.arange(len(networks))
        self.diverged: dict[int, str] = {}
        self.epoch_losses: list[list[float]] = [[] for _ in networks]
        self.loss_sum = torch.zeros(len(networks), dtype=torch.float64)
        self.average = self.stack.weights.clone() if recipe.ema_decay is not None else None
        self.average_buffers = {name: value.clone() for name, value in self.stack.buffers.items()}
        self.generator = torch.Generator(self.device).manual_seed(
            seeded(recipe.seed_order, 1 << 32).initial_seed()
        )

    def steps_left(self) -> Iterator[int]:
        """Train step by step, yielding how many are done."""
        n, recipe = len(self.samples), self.recipe
        while self.step < self.steps and len(self.alive):
            epoch = self.step // self.per_epoch
            batches = epoch_rows(n, epoch, recipe, self.row_labels)
            draws = self.objective.draw(epoch, draws_per_epoch(batches, recipe))
            self.lam, self.settings = self._on_device(*draws)
            start = 0  # of the batch, among the epoch's samples
            for number, rows in enumerate(batches):
                if self.step >= self.steps or not len(self.alive):
                    return
                self._advance(start if recipe.draw == "sample" else number, rows)
                start += len(rows)
                yield self.step

    def _on_device(self, lam: Tensor, settings: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        weights = self.stack.weights
        return lam.to(weights), {
            name: value.to(weights) if isinstance(value, Tensor) else value
            for name, value in settings.items()
        }

    def _advance(self, place: int, rows: Tensor) -> None:
        """Do one step; `place` is that of the batch's first draw among the epoch's."""
        recipe = self.recipe
        raw = self.samples.raw(rows)
        if recipe.augment != "none":
            raw = augment(raw, recipe.augment, self.generator)
        rows = rows.to(self.device)
        x = add_noise(self.samples.prepared(raw), recipe.input_noise, self.generator)
        y = self.labels[rows]
        losses = self._backward(x, y, rows, place, first=True)
        if not bool(torch.isfinite(losses).all()):
            losses = self._drop(losses)
            if not len(self.alive):
                return
        if recipe.rho > 0:
            with torch.no_grad():
                self.optimizer.ascend(self.stack.weights, self.stack.gradients)
            self._backward(x, y, rows, place, first=False)
        rate = learning_rate(recipe, self.step, self.steps, self.per_epoch)
        with torch.no_grad():
            self.optimizer.step(self.stack.weights, self.stack.gradients, rate)
        self.step += 1
        self._account(losses)
        self._keep_snapshots()

    def _backward(self, x: Tensor, y: Tensor, rows: Tensor, place: int, *, first: bool) -> Tensor:
        """Fill the stack's gradients, clipped, and return the losses (K,)."""
        lam, settings = self._at(place, len(y))
        weight = None if self.sample_weight is None else self.sample_weight[..., rows]
        with frozen_statistics(self.stack.template, not first):
            logits = self.stack.forward(x, lam)
        losses = self.objective.smoothed(
            logits, y, settings, self.class_counts, self.recipe.label_smoothing, weight
        )
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.stack.collect()
        with torch.no_grad():
            self.optimizer.clip(self.stack.gradients)
        return losses.detach()

    def _at(self, place: int, count: int) -> tuple[Tensor, dict[str, Any]]:
        """Return lambda (K, d) or (K, n, d) of a batch, and its settings (K, 1) or (K, n)."""
        per_sample = self.recipe.draw == "sample"
        columns = slice(place, place + (count if per_sample else 1))
        if self.lam.shape[1] == 1:
            columns = slice(0, 1)  # nothing is drawn, or an epoch has one batch
        lam = (
            self.lam[:, columns]
            if per_sample and self.lam.shape[1] > 1
            else self.lam[:, columns.start]
        )
        return lam, {
            name: value[:, columns] if isinstance(value, Tensor) and value.shape[1] > 1 else value
            for name, value in self.settings.items()
        }

    def _drop(self, losses: Tensor) -> Tensor:
        """Freeze members whose loss is not finite, and go on with the others."""
        finite = torch.isfinite(losses)
        for place in (~finite).nonzero().flatten().tolist():
            member = int(self.alive[place])
            self.diverged[member] = (
                f"the loss is {losses[place].item()} at step {self.step + 1} of {self.steps} "
                f"(lr {self.objective.recipes[place].lr:g}, {self.originals[member]!r}); try a "
                "smaller learning rate, or clip the gradient's norm"
            )
        self._write(~finite)
        kept = finite.nonzero().flatten()
        self.stack.keep(kept)
        self.objective.keep(kept.cpu())
        self.optimizer.keep(kept)
        self.lam = self.lam[kept]
        self.settings = {
            name: value[kept] if isinstance(value, Tensor) else value
            for name, value in self.settings.items()
        }
        self.alive, self.loss_sum = self.alive[kept.cpu()], self.loss_sum[kept.cpu()]
        if self.sample_weight is not None and self.sample_weight.dim() == 2:
            self.sample_weight = self.sample_weight[kept]
        if self.average is not None:
            self.average = self.average[kept]
            self.average_buffers = {n: v[kept] for n, v in self.average_buffers.items()}
        return losses[kept]

    def _account(self, losses: Tensor) -> None:
        """Keep the mean loss of each epoch, and the moving average of the weights."""
        self.loss_sum += losses.double().cpu()
        end_of_epoch = self.step % self.per_epoch == 0
        if end_of_epoch:
            for member, total in zip(self.alive.tolist(), self.loss_sum.tolist(), strict=True):
                self.epoch_losses[member].append(total / self.per_epoch)
            self.loss_sum.zero_()
        if self.average is not None and (end_of_epoch or self.recipe.ema_every == "step"):
            assert self.recipe.ema_decay is not None
            share = 1 - self.recipe.ema_decay
            self.average.lerp_(self.stack.weights, share)
            for name, value in self.stack.buffers.items():
                if value.is_floating_point():
                    self.average_buffers[name].lerp_(value, share)
                else:
                    self.average_buffers[name].copy_(value)

    def _keep_snapshots(self) -> None:
        """Copy the weights, averaged ones if the recipe keeps them, where a snapshot is due."""
        for snapshot in self.snapshots:
            if snapshot.step == self.step:
                weights, buffers = self.stack.weights, self.stack.buffers
                if self.average is not None:
                    weights, buffers = self.average, self.average_buffers
                snapshot.alive, snapshot.weights = self.alive.tolist(), weights.clone()
                snapshot.buffers = {name: value.clone() for name, value in buffers.items()}

    def snapshot_networks(self) -> list[list[Conditioned]]:
        """Return the members' networks at each snapshot, once the run is finished.

        One that a run did not get to, for it was stopped or its member diverged, has the weights
        that the network was left with.
        """
        taken = []
        for snapshot in self.snapshots:
            networks = copy.deepcopy(self.networks)
            alive = [networks[member] for member in snapshot.alive]
            self.stack.write(alive, range(len(alive)), snapshot.weights, snapshot.buffers)
            taken.append(networks)
        return taken

    def _write(self, which: Tensor) -> None:
        """Give the networks of some places their present weights."""
        places = which.nonzero().flatten()
        networks = [self.networks[int(self.alive[place])] for place in places.tolist()]
        self.stack.write(networks, places.tolist())

    def finish(self) -> None:
        """Give the networks the trained weights, averaged ones if the recipe keeps them."""
        if self.average is not None and self.step > 0:
            self.stack.weights.copy_(self.average)
            self.stack.buffers = self.average_buffers
        self._write(torch.ones(len(self.alive), dtype=torch.bool))
        for network in self.networks:
            network.eval()
