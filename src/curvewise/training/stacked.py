"""`fit_stacked`: train K models as one program; `stacked_scores`: what they say of samples."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvewise.base.errors import InputError, require_open, require_whole
from curvewise.base.machine import choose_device
from curvewise.losses.family import Objective
from curvewise.networks.conditioning import Conditioned
from curvewise.networks.registry import Normalization
from curvewise.training.batches import Array, Samples, TrainingData
from curvewise.training.loop import DivergedError, Progress, conditioned, fit_on
from curvewise.training.model import logits_at
from curvewise.training.recipe import Recipe
from curvewise.training.speed import old_objects_spared
from curvewise.training.stacked_network import StackedNetwork, layers_of
from curvewise.training.stacked_run import StackedRun, snapshot_steps

# What members may differ in; all else of the recipe is shared.
OWN = ("lr", "weight_decay", "seed_weights", "seed_lambda")
# Weights, gradients, momentum and activations of the members that train together should stay in
# a cache; below it a chunk is large enough to hide the cost of calling each operation.
CACHE_BYTES = {"cpu": 32 * 2**20, "cuda": 4 * 2**30}
SCORING_BYTES = 64 * 2**20  # activations held at a time

Report = Callable[[int, int], bool | None]


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
    on_progress: Report | None = None,
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
    networks = [
        conditioned(network_fn(own.seed_weights), family, own)
        for family, own in zip(families, recipes, strict=True)
    ]
    size, how = choose_chunk(networks[0], k, recipes[0], chunk)
    fractions = _checked_fractions(snapshots)
    device = choose_device(recipes[0].device)
    data = TrainingData(
        x, y, device, normalization, sample_weight, input_scale=input_scale, members=k
    )
    result = FittedStack(
        networks, list(families), recipes, data.class_counts, normalization, [], {}, how
    )
    result.snapshots = [[] for _ in fractions]
    train = _train_stacked if size else _train_alone
    with old_objects_spared():
        for start in range(0, k, size or 1):
            members = slice(start, min(start + (size or 1), k))
            if train(result, members, data, fractions, _reporting(on_progress, members, k)):
                break
    for taken in result.snapshots:  # of members that were not begun: as they are
        taken += [copy.deepcopy(network).eval() for network in networks[len(taken) :]]
    result.seconds = time.perf_counter() - started
    return result


def _checked_fractions(snapshots: Sequence[float]) -> tuple[float, ...]:
    """Return fractions of a run if they increase within (0, 1)."""
    fractions = tuple(require_open("each of snapshots", value, 0, 1) for value in snapshots)
    if list(fractions) != sorted(set(fractions)):
        raise InputError(f"snapshots must increase, got {list(fractions)}")
    return fractions


def _reporting(on_progress: Report | None, members: slice, k: int) -> Report:
    """Return a callback that counts the steps of some members within those of all."""

    def report(done: int, steps: int) -> bool | None:
        if on_progress is None:
            return None
        return on_progress(members.start * steps + done * (members.stop - members.start), steps * k)

    return report


def member_recipes(recipe: Recipe | Sequence[Recipe], k: int) -> list[Recipe]:
    """Return K recipes, checked to differ only in what members may differ in."""
    if k == 0:
        raise InputError("fit_stacked needs at least one family, got none")
    if isinstance(recipe, Recipe):
        return [
            recipe.changed(seed_weights=recipe.seed_weights + n, seed_lambda=recipe.seed_lambda + n)
            for n in range(k)
        ]
    recipes = list(recipe)
    if len(recipes) != k:
        raise InputError(f"there must be a recipe for each of {k} families, got {len(recipes)}")
    shared = [{k: value for k, value in own if k not in OWN} for own in recipes]
    for own in shared:
        differing = [name for name, value in own.items() if value != shared[0][name]]
        if differing:
            raise InputError(
                f"recipes of a stack may differ in {', '.join(OWN)} only, got other "
                f"{', '.join(differing)}"
            )
    return recipes


def choose_chunk(
    network: Conditioned, k: int, recipe: Recipe, wanted: int | None
) -> tuple[int, str]:
    """Return how many members train together (0: one by one, each by `fit`), and a sentence.

    Grouped convolutions are slower than plain ones on a CPU, so networks that have any train one
    by one there; on a GPU any network without dropout stacks.
    """
    if wanted is not None:
        require_whole("chunk", wanted)
    device = choose_device(recipe.device)
    if recipe.precision != "float32" or any(isinstance(m, nn.Dropout) for m in network.modules()):
        return 0, f"one by one: {k} models with dropout or reduced precision"
    if layers_of(network) is None and device.type == "cpu" and wanted is None:
        return 0, f"one by one: {k} models with more than linear layers, on a CPU"
    size = wanted or min(k, max(1, CACHE_BYTES[device.type] // _member_bytes(network, recipe)))
    if wanted is None:
        size = -(-k // -(-k // size))  # chunks of equal size
    if size >= k:
        return k, f"stacked: {k} models as one"
    return size, f"stacked: {k} models in chunks of {size}"


def _member_bytes(network: Conditioned, recipe: Recipe) -> int:
    """Return what one member keeps busy in a step: weights with their likes, and activations."""
    weights = sum(parameter.numel() for parameter in network.parameters())
    widths = sum(m.out_features for m in network.body.modules() if isinstance(m, nn.Linear))
    return 4 * (3 * weights + 2 * recipe.batch_size * widths)


def _train_alone(
    result: FittedStack,
    members: slice,
    data: TrainingData,
    fractions: Sequence[float],
    report: Report,
) -> bool:
    """Train one member as `fit` does; return whether it was stopped."""
    k = members.start
    network = result.networks[k]
    kept: dict[int, dict[str, Tensor]] = {}

    def after(progress: Progress) -> bool | None:
        for number, step in enumerate(snapshot_steps(fractions, progress.steps)):
            if step == progress.step:
                state = progress.state()
                kept[number] = state.model if state.average is None else state.average
        return report(progress.step, progress.steps)

    epoch_losses: list[float] = []
    stopped = False
    try:
        fitted = fit_on(
            data.of_one(k), network, result.objectives[k], result.recipes[k], on_progress=after
        )
    except DivergedError as error:
        result.diverged[k] = str(error)
        network.eval()
    else:
        epoch_losses, stopped = fitted.epoch_losses, not fitted.finished
    result.losses.append(epoch_losses[-1] if epoch_losses else float("nan"))
    result.epoch_losses.append(epoch_losses)
    for number, taken in enumerate(result.snapshots):
        taken.append(copy.deepcopy(network))
        if number in kept:
            taken[-1].load_state_dict(kept[number])
    return stopped


def _train_stacked(
    result: FittedStack,
    members: slice,
    data: TrainingData,
    fractions: Sequence[float],
    report: Report,
) -> bool:
    """Train some members together; return whether they were stopped."""
    run = StackedRun(
        result.networks[members],
        result.objectives[members],
        data.of(members),
        result.recipes[members],
        fractions,
    )
    stopped = any(report(done, run.steps) for done in run.steps_left())
    run.finish()
    for taken, networks in zip(result.snapshots, run.snapshot_networks(), strict=True):
        taken += networks
    result.diverged |= {members.start + k: reason for k, reason in run.diverged.items()}
    result.epoch_losses += run.epoch_losses
    result.losses += [
        losses[-1] if losses and k not in run.diverged else float("nan")
        for k, losses in enumerate(run.epoch_losses)
    ]
    return stopped


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
    if lams.dim() == 2:
        lams = lams.expand(len(networks), *lams.shape)
    if lams.dim() != 3 or len(lams) != len(networks) or lams.shape[1] == 0:
        raise InputError(
            f"lams must have shape (n_lambda, d) or ({len(networks)}, n_lambda, d) with at least "
            f"one lambda, got {tuple(lams.shape)}"
        )
    if networks[0].linear.out_features != 2:
        raise InputError(f"scores need two classes, got {networks[0].linear.out_features}")
    if layers_of(networks[0]) is None:
        logits = [
            logits_at(network, x, some, normalization=normalization)
            for network, some in zip(networks, lams, strict=True)
        ]
        return torch.stack([z[..., 1] - z[..., 0] for z in logits]).float().numpy()
    return _layered_scores(networks, x, lams, normalization)


@torch.no_grad()
def _layered_scores(
    networks: Sequence[Conditioned],
    x: Array,
    lams: Tensor,
    normalization: Normalization | None,
) -> NDArray[np.float32]:
    device = next(networks[0].parameters()).device
    samples = Samples(x, device, normalization)
    out = torch.empty(len(networks), lams.shape[1], len(samples))
    width = max(parameter.shape[0] for parameter in networks[0].parameters())
    members = max(1, min(len(networks), SCORING_BYTES // (16 * width * min(len(samples), 512))))
    rows = max(1, SCORING_BYTES // (16 * width * members))
    for first in range(0, len(networks), members):
        some = slice(first, first + members)
        stack = StackedNetwork(networks[some])
        for part in torch.split(torch.arange(len(samples)), rows):
            features = stack.features(samples.prepared(samples.raw(part)))
            for number in range(lams.shape[1]):
                logits = stack.head(features, lams[some, number].to(stack.weights))
                out[some, number, part] = (logits[..., 1] - logits[..., 0]).float().cpu()
    return out.numpy()
