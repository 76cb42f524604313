"""`fit_stacked`: train K models as one program; `stacked_scores`: what they say of samples."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvewise.base.errors import require, require_open, require_whole
from curvewise.base.machine import choose_device, old_objects_spared
from curvewise.losses.family import Objective
from curvewise.networks.conditioning import Conditioned
from curvewise.networks.registry import Normalization
from curvewise.training.batches import Array, Samples, TrainingData
from curvewise.training.loop import DivergedError, Progress, conditioned, fit_on
from curvewise.training.model import logits_at
from curvewise.training.recipe import Recipe
from curvewise.training.stacked_network import StackedNetwork, layers_of
from curvewise.training.stacked_run import Member, StackedRun, snapshot_steps

# What members may differ in; all else of the recipe is shared.
OWN = ("lr", "weight_decay", "seed_weights", "seed_lambda")
# Weights, gradients, momentum and activations of the members that train together should stay in
# a cache; below it a chunk is large enough to hide the cost of calling each operation.
CACHE_BYTES = {"cpu": 32 * 2**20, "cuda": 4 * 2**30}
SCORING_BYTES = 64 * 2**20  # activations held at a time


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
    size, how = choose_chunk(members[0].network, k, recipes[0], chunk)
    if hasattr(families[0], "attach"):
        size, how = 0, "one by one: the loss mixes samples and has layers of its own"
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
    for member in members:  # what training did not get to is as it was left
        for _ in fractions[len(member.snapshots) :]:
            member.snapshots.append(copy.deepcopy(member.network).eval())
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


def choose_chunk(
    network: Conditioned, k: int, recipe: Recipe, wanted: int | None
) -> tuple[int, str]:
    """Return how many members train together (0: one by one, each by `fit`), and a sentence.

    Grouped convolutions are slower than plain ones on a CPU, so networks that have any train one
    by one there; on a GPU any network without dropout stacks.
    """
    size = wanted if wanted is None else require_whole("chunk", wanted)
    device = choose_device(recipe.device)
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
    member.network.eval()
    return stopped


@torch.no_grad()
def stacked_scores(
    networks: Sequence[Conditioned],
    x: Array,
    lams: Tensor,
    *,
    normalization: Normalization | None = None,
) -> NDArray[np.float32]:
    """Return z1 - z0 of K networks at lambdas, (K, n_lambda, n).

    `lams` is (n_lambda, d) for all members, or (K, n_lambda, d). The networks have one shape, as
    `fit_stacked` gives them.

    >>> from curvewise.networks.conditioning import condition
    >>> from curvewise.losses.family import LossFamily
    >>> from curvewise.networks.architectures import MLP
    >>> networks = [condition(MLP(3), LossFamily()) for _ in range(4)]
    >>> stacked_scores(networks, torch.zeros(5, 3), torch.zeros(1, 0)).shape
    (4, 1, 5)
    """
    k, n_classes = len(networks), networks[0].linear.out_features
    if lams.dim() == 2:
        lams = lams.expand(k, *lams.shape)
    require(
        lams.dim() == 3 and len(lams) == k and lams.shape[1],
        f"lams must have shape (n_lambda, d) or ({k}, n_lambda, d) with at least one lambda, got "
        f"{tuple(lams.shape)}",
    )
    require(n_classes == 2, f"scores need two classes, got {n_classes}")
    if layers_of(networks[0]) is None:
        each = [
            logits_at(network, x, some, normalization=normalization)
            for network, some in zip(networks, lams, strict=True)
        ]
        logits = torch.stack(each)
        return (logits[..., 1] - logits[..., 0]).float().numpy()
    samples = Samples(x, next(networks[0].parameters()).device, normalization)
    out = torch.empty(k, lams.shape[1], len(samples))
    width = max(parameter.shape[0] for parameter in networks[0].parameters())
    members = max(1, min(k, SCORING_BYTES // (16 * width * min(len(samples), 512))))
    rows = max(1, SCORING_BYTES // (16 * width * members))
    for first in range(0, k, members):
        some = slice(first, first + members)
        stack = StackedNetwork(networks[some])
        for part in torch.split(torch.arange(len(samples)), rows):
            features = stack.features(samples.prepared(samples.raw(part)))
            for number in range(lams.shape[1]):
                z = stack.head(features, lams[some, number].to(stack.weights))
                out[some, number, part] = (z[..., 1] - z[..., 0]).float().cpu()
    return out.numpy()
