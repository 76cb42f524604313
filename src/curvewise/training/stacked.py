"""`fit_stacked`: train K models as one program."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvewise.base.errors import InputError, require_open
from curvewise.base.machine import choose_device
from curvewise.losses.family import Objective
from curvewise.networks.conditioning import Conditioned
from curvewise.training.allocation import old_objects_spared
from curvewise.training.loop import Progress, fit
from curvewise.training.recipe import Recipe
from curvewise.training.run import (
    DivergedError,
    Normalization,
    check_labels,
    check_sample_weight,
    conditioned,
)
from curvewise.training.stacked_layers import layers_of
from curvewise.training.stacked_run import StackedRun, snapshot_steps

# What members may differ in; all else of the recipe is shared.
OWN = ("lr", "weight_decay", "seed_weights", "seed_lambda")
# Weights, gradients, momentum and activations of the members that train together should stay in
# a cache; below it a chunk is large enough to hide the cost of calling each operation.
CACHE_BYTES = {"cpu": 32 * 2**20, "cuda": 4 * 2**30}


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
    x: NDArray[Any] | Tensor,
    y: NDArray[Any] | Tensor,
    recipe: Recipe | Sequence[Recipe],
    *,
    normalization: Normalization | None = None,
    sample_weight: NDArray[Any] | Tensor | None = None,
    input_scale: NDArray[Any] | Tensor | None = None,
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
    >>> from curvewise.networks.small import MLP
    >>> families = [LossFamily(0.7, gamma, LinearDensity(0.0, 3.0, 0.33)) for gamma in (0.0, 0.2)]
    >>> x, y = torch.randn(40, 3), torch.arange(40) % 10 // 9
    >>> fitted = fit_stacked(lambda seed: MLP(3), families, x, y, Recipe(epochs=2))
    >>> len(fitted), fitted.how
    (2, 'stacked: 2 models as one')
    """
    started = time.perf_counter()
    recipes = member_recipes(recipe, len(families))
    networks = [
        conditioned(network_fn(own.seed_weights), family, own)
        for family, own in zip(families, recipes, strict=True)
    ]
    together, how = choose_chunk(networks[0], len(networks), recipes[0], chunk)
    result = FittedStack(networks, list(families), recipes, (), normalization, [], {}, how)
    data = _Data(x, y, check_fractions(snapshots))
    result.snapshots = [[] for _ in data.snapshots]
    if sample_weight is not None:
        labels, _ = check_labels(y, len(x))
        data.weight, data.class_counts = check_sample_weight(sample_weight, labels, len(networks))
    if input_scale is not None:
        data.scale = _check_scale(input_scale, len(networks), tuple(x.shape))
    train = _stacked if together else _one_by_one
    with old_objects_spared():
        for start in range(0, len(networks), together or 1):
            members = slice(start, min(start + (together or 1), len(networks)))
            if train(result, members, data, _reporting(on_progress, members, len(networks))):
                break
    for taken in result.snapshots:  # of members that were not begun: as they are
        taken += [copy.deepcopy(network).eval() for network in networks[len(taken) :]]
    result.seconds = time.perf_counter() - started
    return result


def _check_scale(input_scale: NDArray[Any] | Tensor, k: int, shape: tuple[int, ...]) -> Tensor:
    """Return (K, d) factors of the columns of a table of this shape."""
    scale = torch.as_tensor(input_scale)
    if len(shape) != 2 or tuple(scale.shape) != (k, shape[1]) or not torch.isfinite(scale).all():
        raise InputError(
            f"input_scale must hold finite factors of shape ({k}, d) for a table (n, d), got "
            f"{tuple(scale.shape)} for x of shape {shape}"
        )
    return scale


def _scaled(x: NDArray[Any] | Tensor, scale: Tensor) -> NDArray[Any] | Tensor:
    """Return a table times factors (d,), an array as an array, which is cast where it is used."""
    if not isinstance(x, Tensor):
        scaled: NDArray[Any] = np.asarray(x) * scale.cpu().numpy()
        return scaled
    return x * scale.to(x if x.is_floating_point() else torch.get_default_dtype())


def check_fractions(snapshots: Sequence[float]) -> tuple[float, ...]:
    """Return fractions of a run if they increase within (0, 1)."""
    fractions = tuple(require_open("each of snapshots", value, 0, 1) for value in snapshots)
    if list(fractions) != sorted(set(fractions)):
        raise InputError(f"snapshots must increase, got {list(fractions)}")
    return fractions


@dataclass
class _Data:
    """What members are trained on: weights (n,) or (K, n), and what their losses are told."""

    x: Any
    y: Any
    snapshots: tuple[float, ...]
    weight: Tensor | None = None
    class_counts: tuple[float, ...] | None = None
    scale: Tensor | None = None

    def weight_of(self, members: slice) -> Tensor | None:
        """Return the weights of some members: (n,) for all, or a row each."""
        own = self.weight is not None and self.weight.dim() == 2
        return self.weight[members] if own else self.weight  # type: ignore[index]


def _reporting(
    on_progress: Callable[[int, int], bool | None] | None, members: slice, k: int
) -> Callable[[int, int], bool | None]:
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
    if wanted is not None and wanted < 1:
        raise InputError(f"chunk must be at least 1, got {wanted}")
    device = choose_device(recipe.device)
    if recipe.precision != "float32" or any(isinstance(m, nn.Dropout) for m in network.modules()):
        return 0, f"one by one: {k} models with dropout or reduced precision"
    if layers_of(network) is None and device.type == "cpu" and wanted is None:
        return 0, f"one by one: {k} models with more than linear layers, on a CPU"
    size = wanted or min(k, max(1, CACHE_BYTES[device.type] // member_bytes(network, recipe)))
    if wanted is None:
        size = -(-k // -(-k // size))  # chunks of equal size
    if size >= k:
        return k, f"stacked: {k} models as one"
    return size, f"stacked: {k} models in chunks of {size}"


def member_bytes(network: Conditioned, recipe: Recipe) -> int:
    """Return what one member keeps busy in a step: weights with their likes, and activations."""
    weights = sum(parameter.numel() for parameter in network.parameters())
    widths = sum(m.out_features for m in network.body.modules() if isinstance(m, nn.Linear))
    return 4 * (3 * weights + 2 * recipe.batch_size * widths)


def _one_by_one(
    result: FittedStack,
    members: slice,
    data: _Data,
    report: Callable[[int, int], bool | None],
) -> bool:
    k, weight = members.start, data.weight_of(members)
    kept: dict[int, dict[str, Tensor]] = {}

    def after(progress: Progress) -> bool | None:
        for number, step in enumerate(snapshot_steps(data.snapshots, progress.steps)):
            if step == progress.step:
                state = progress.state()
                kept[number] = state.model if state.average is None else state.average
        return report(progress.step, progress.steps)

    try:
        fitted = fit(
            result.networks[k],
            result.objectives[k],
            data.x if data.scale is None else _scaled(data.x, data.scale[k]),
            data.y,
            result.recipes[k],
            normalization=result.normalization,
            sample_weight=weight if weight is None else weight.view(-1),
            class_counts=data.class_counts,
            on_progress=after,
        )
    except DivergedError as error:
        result.diverged[k] = str(error)
        result.networks[k].eval()
        result.losses.append(float("nan"))
        result.epoch_losses.append([])
        stopped = False
    else:
        result.class_counts = fitted.class_counts
        result.losses.append(fitted.epoch_losses[-1] if fitted.epoch_losses else float("nan"))
        result.epoch_losses.append(fitted.epoch_losses)
        stopped = not fitted.finished
    for number, taken in enumerate(result.snapshots):
        taken.append(copy.deepcopy(result.networks[k]))
        if number in kept:
            taken[-1].load_state_dict(kept[number])
    return stopped


def _stacked(
    result: FittedStack,
    members: slice,
    data: _Data,
    report: Callable[[int, int], bool | None],
) -> bool:
    run = StackedRun(
        result.networks[members],
        result.objectives[members],
        data.x,
        data.y,
        result.recipes[members],
        result.normalization,
        data.weight_of(members),
        data.class_counts,
        data.snapshots,
        None if data.scale is None else data.scale[members],
    )
    stopped = False
    for done in run.steps_left():
        if report(done, run.steps):
            stopped = True
            break
    run.finish()
    for taken, networks in zip(result.snapshots, run.snapshot_networks(), strict=True):
        taken += networks
    result.class_counts = run.class_counts
    result.diverged |= {members.start + k: reason for k, reason in run.diverged.items()}
    result.epoch_losses += run.epoch_losses
    result.losses += [
        losses[-1] if losses and k not in run.diverged else float("nan")
        for k, losses in enumerate(run.epoch_losses)
    ]
    return stopped
