"""`fit_stacked`: train K models as one program."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import torch
from torch import Tensor, nn

from curvewise.base.errors import require, require_open, require_whole
from curvewise.base.machine import choose_device, keep_freed_memory, old_objects_spared
from curvewise.losses.baselines import Counts, Weight
from curvewise.losses.family import LossFamily, Objective
from curvewise.losses.vector_scaling import unchecked_vs_loss
from curvewise.networks.conditioning import Conditioned
from curvewise.networks.registry import Normalization
from curvewise.training.batches import Array, TrainingData, seeded
from curvewise.training.loop import DivergedError, Progress, conditioned, fit_on
from curvewise.training.optimizers import StackedOptimizer, Steps, frozen_statistics, smoothed
from curvewise.training.recipe import Recipe, learning_rate
from curvewise.training.stacked_network import StackedNetwork, layers_of

# What members may differ in; all else of the recipe is shared.
OWN = ("lr", "weight_decay", "seed_weights", "seed_lambda")
# Weights, gradients, momentum and activations of the members that train together should stay in
# a cache; below it a chunk is large enough to hide the cost of calling each operation.
CACHE_BYTES = {"cpu": 32 * 2**20, "cuda": 4 * 2**30}


@dataclass
class Member:
    """One model of a stack: what it is trained by, and what came of it."""

    network: Conditioned
    objective: Objective
    recipe: Recipe
    epoch_losses: list[float] = field(default_factory=list)
    diverged: str | None = None
    snapshots: list[Conditioned] = field(default_factory=list)


@dataclass
class FittedStack:
    """K trained models in the order they were asked for.

    `diverged` says of those that did what happened and when; they have the weights they had then.
    `how` says whether they were trained stacked, in chunks or one by one. `snapshots` has K
    networks for each fraction that was asked for.
    """

    networks: list[Conditioned]
    objectives: list[Objective]
    recipes: list[Recipe]
    class_counts: tuple[float, ...]
    normalization: Normalization | None
    losses: list[float]
    diverged: dict[int, str]
    how: str
    seconds: float = 0.0
    epoch_losses: list[list[float]] = field(default_factory=list, repr=False)
    snapshots: list[list[Conditioned]] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.networks)


def fit_stacked(
    network_fn: Callable[[int], nn.Module],
    families: Sequence[Objective],
    x: Array,
    y: Array,
    recipe: Recipe | Sequence[Recipe],
    *,
    normalization: Normalization | None = None,
    sample_weight: Array | None = None,
    input_scale: Array | None = None,
    snapshots: Sequence[float] = (),
    chunk: int | None = None,
    on_progress: Callable[[int, int], bool | None] | None = None,
) -> FittedStack:
    """Train a model for each family; the same as `fit` with each, but as one program.

    `network_fn(seed)` builds a member's network from its `seed_weights`. One recipe gives member k
    the seeds of weights and lambda plus k; a recipe for each may differ in learning rate, weight
    decay and these seeds. All see the same batches in the same order. `chunk` members train
    together (chosen by size and device if left out). `on_progress(done, total)` counts steps over
    all chunks; returning True stops.

    `sample_weight` is (n,) for all, or (K, n) with a row for each member, which never learns from
    the samples where its row is 0 (BatchNorm's statistics still see them). The class counts that
    all losses are told are the weights' sums per class, their mean over the rows. `input_scale`
    (K, d) multiplies the columns of a table x, for each member its own. `snapshots` are
    increasing fractions of the steps: the networks as they are after these steps are kept too
    (averaged ones, if the recipe averages).

    >>> import torch
    >>> from curvewise.losses.family import LinearDensity, LossFamily
    >>> from curvewise.networks.architectures import MLP
    >>> families = [LossFamily(0.7, gamma, LinearDensity(0.0, 3.0, 0.33)) for gamma in (0.0, 0.2)]
    >>> x, y = torch.randn(40, 3), torch.arange(40) % 10 // 9
    >>> fitted = fit_stacked(lambda seed: MLP(3), families, x, y, Recipe(epochs=2))
    >>> len(fitted), fitted.how
    (2, 'stacked: 2 models as one')
    """
    started = time.perf_counter()
    recipes = member_recipes(recipe, len(families))
    k = len(recipes)
    members = [
        Member(conditioned(network_fn(own.seed_weights), family, own), family, own)
        for family, own in zip(families, recipes, strict=True)
    ]
    size, how = choose_chunk(members[0], k, chunk)
    fractions = [require_open("each of snapshots", value, 0, 1) for value in snapshots]
    require(fractions == sorted(set(fractions)), f"snapshots must increase, got {fractions}")
    device = choose_device(recipes[0].device)
    data = TrainingData(
        x, y, device, normalization, sample_weight, input_scale=input_scale, members=k
    )
    with old_objects_spared():
        for start in range(0, k, size or 1):
            some = members[start : start + (size or 1)]

            def stop(done: int, steps: int, start: int = start, number: int = len(some)) -> bool:
                done = start * steps + done * number
                return on_progress is not None and bool(on_progress(done, steps * k))

            if size == 0:
                stopped = _train_alone(some[0], data.of(start), fractions, stop)
            else:
                run = StackedRun(some, data.of(slice(start, start + size)), fractions)
                stopped = any(stop(done, run.steps) for done in run.steps_left())
                run.finish()
            if stopped:
                break
    for member in members:
        member.network.eval()
        for _ in fractions[len(member.snapshots) :]:  # those that training did not get to
            member.snapshots.append(copy.deepcopy(member.network))
    return FittedStack(
        networks=[member.network for member in members],
        objectives=list(families),
        recipes=recipes,
        class_counts=data.class_counts,
        normalization=normalization,
        losses=[nan if m.diverged else [nan, *m.epoch_losses][-1] for m in members],
        diverged={place: m.diverged for place, m in enumerate(members) if m.diverged},
        how=how,
        seconds=time.perf_counter() - started,
        epoch_losses=[member.epoch_losses for member in members],
        snapshots=[list(taken) for taken in zip(*[m.snapshots for m in members], strict=True)],
    )


def member_recipes(recipe: Recipe | Sequence[Recipe], k: int) -> list[Recipe]:
    """Return K recipes, checked to differ only in what members may differ in."""
    require(k, "fit_stacked needs at least one family, got none")
    if isinstance(recipe, Recipe):
        return [
            recipe.changed(seed_weights=recipe.seed_weights + n, seed_lambda=recipe.seed_lambda + n)
            for n in range(k)
        ]
    recipes = list(recipe)
    require(
        len(recipes) == k, f"there must be a recipe for each of {k} families, got {len(recipes)}"
    )
    first = dict(recipes[0])
    for member in recipes:
        differing = [name for name, value in member if value != first[name] and name not in OWN]
        require(
            not differing,
            f"recipes of a stack may differ in {', '.join(OWN)} only, got other "
            f"{', '.join(differing)}",
        )
    return recipes


def choose_chunk(member: Member, k: int, wanted: int | None) -> tuple[int, str]:
    """Return how many of K such members train together (0: one by one, each by `fit`), and why.

    Grouped convolutions are slower than plain ones on a CPU, so networks that have any train one
    by one there; on a GPU any network without dropout stacks.
    """
    network, recipe = member.network, member.recipe
    size = wanted if wanted is None else require_whole("chunk", wanted)
    device = choose_device(recipe.device)
    if hasattr(member.objective, "attach"):
        return 0, "one by one: the loss mixes samples and has layers of its own"
    if recipe.precision != "float32" or any(isinstance(m, nn.Dropout) for m in network.modules()):
        return 0, f"one by one: {k} models with dropout or reduced precision"
    if size is None:
        if layers_of(network) is None and device.type == "cpu":
            return 0, f"one by one: {k} models with more than linear layers, on a CPU"
        # What a member keeps busy in a step: weights with their likes, and activations.
        weights = sum(parameter.numel() for parameter in network.parameters())
        widths = sum(m.out_features for m in network.body.modules() if isinstance(m, nn.Linear))
        busy = 4 * (3 * weights + 2 * recipe.batch_size * widths)
        chunks = -(-k // max(1, CACHE_BYTES[device.type] // busy))
        size = -(-k // chunks)  # of equal size
    if size >= k:
        return k, f"stacked: {k} models as one"
    return size, f"stacked: {k} models in chunks of {size}"


def _train_alone(
    member: Member, data: TrainingData, fractions: Sequence[float], stop: Callable[[int, int], bool]
) -> bool:
    """Train one member as `fit` does; return whether it was stopped."""
    kept: list[dict[str, Tensor]] = []

    def after(progress: Progress) -> bool:
        for _ in range(snapshot_steps(fractions, progress.steps).count(progress.step)):
            state = progress.state()
            kept.append(state.average or state.model)
        return stop(progress.step, progress.steps)

    stopped = False
    try:
        fitted = fit_on(data, member.network, member.objective, member.recipe, on_progress=after)
        member.epoch_losses, stopped = fitted.epoch_losses, not fitted.finished
    except DivergedError as error:
        member.diverged = str(error)
    for tensors in kept:
        member.snapshots.append(copy.deepcopy(member.network).eval())
        member.snapshots[-1].load_state_dict(tensors)
    return stopped


class StackedObjective:
    """The draws and losses (K,) of K members.

    Vector-scaling losses may differ from member to member, in what is fixed and in the density of
    what is drawn; other objectives must be alike, each with parameters of its own.
    """

    def __init__(self, objectives: Sequence[Any], like: Tensor) -> None:
        self.one, self.drawn = objectives[0], objectives[0].drawn
        self.parameters: list[nn.Parameter] = []
        self.fixed: dict[str, Any] = {}  # settings that are not drawn: (K, 1), or class weights
        alike = {o.drawn for o in objectives} == {self.drawn}
        require(alike, "members of a stack must draw the same settings")
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

    def loss(self, logits: Tensor, y: Tensor, lam: Tensor, counts: Counts, weight: Weight) -> Any:
        """Return the losses (K,) of logits (K, n, C) at lambda, (K, 1, d) or (K, n, d).

        Sample weights are (n,) or (K, n).
        """
        if not self.scaled:
            options = {} if weight is None else {"sample_weight": weight}
            return self.one.loss(logits, y, lam, class_counts=counts, **options)
        settings = self.fixed | dict(zip(self.drawn, lam.unbind(-1), strict=True))
        return unchecked_vs_loss(logits, y, tuple(counts), settings, self.one.reduction, weight)

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


def snapshot_steps(fractions: Sequence[float], steps: int) -> list[int]:
    """Return the steps after which snapshots are taken, for fractions of all steps.

    >>> snapshot_steps((0.25, 0.5, 0.999), 10)
    [2, 5, 10]
    """
    return [max(1, round(fraction * steps)) for fraction in fractions]


class StackedRun(Steps):
    """Members that train together, with snapshots: one batch order, K of everything else."""

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
            self.finish()
            for member in self.members:
                member.snapshots.append(copy.deepcopy(member.network).eval())

    def _backward(self, x: Tensor, rows: Tensor, place: slice, *, first: bool) -> Tensor:
        """Fill the stack's gradients, clipped, and return the losses (K,)."""
        lam = self.lam[:, place]
        weight = None if self.sample_weight is None else self.sample_weight[..., rows]
        with frozen_statistics(self.stack.template, not first):
            logits = self.stack.forward(x, lam if self.recipe.draw == "sample" else lam[:, 0])

        def loss(logits: Tensor, y: Tensor) -> Any:
            return self.objective.loss(logits, y, lam, self.data.class_counts, weight)

        losses = smoothed(loss, logits, self.data.labels[rows], self.recipe.label_smoothing)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.stack.collect()
        self.optimizer.clip(self.stack.gradients)
        return losses.detach()

    def _drop(self, losses: Tensor) -> Tensor:
        """Freeze members whose loss is not finite, and go on with the others."""
        finite = torch.isfinite(losses)
        kept, lost = (which.nonzero().flatten().tolist() for which in (finite, ~finite))
        for place in lost:
            member, loss = self.alive[place], losses[place].item()
            member.diverged = self.divergence(loss, member.recipe.lr, member.objective)
            self.stack.write(member.network, place, self.tensors())
        for part in (self.stack, self.objective, self.optimizer):
            part.keep(kept)
        self.alive = [self.alive[place] for place in kept]
        self.lam, self.loss_sum = self.lam[kept], self.loss_sum[kept]
        if self.sample_weight is not None and self.sample_weight.dim() == 2:
            self.sample_weight = self.sample_weight[kept]
        if self.average is not None:
            self.average = {name: value[kept] for name, value in self.average.items()}
        return losses[kept]

    def finish(self) -> None:
        """Give those alive their trained weights, averaged ones if the recipe keeps them."""
        for place, member in enumerate(self.alive):
            self.stack.write(member.network, place, self.average or self.tensors())
