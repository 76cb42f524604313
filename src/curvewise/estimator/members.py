"""Training the members of an ensemble, and judging them by the rows that they left out."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.errors import InputError
from curvewise.estimator.ensemble import Ensemble
from curvewise.estimator.folds import held_out, some_rows
from curvewise.estimator.judging import joined, judge
from curvewise.estimator.settings import FOLDS, SCALINGS, SNAPSHOTS, Settings
from curvewise.estimator.trees import grow_trees, trees_for
from curvewise.networks.conditioning import Conditioned
from curvewise.tables.quantiles import column_weights
from curvewise.training.batches import seen_class_counts
from curvewise.training.run import Normalization
from curvewise.training.stacked import fit_stacked

Array = NDArray[Any]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
WEIGHED_ROWS = 8_000  # from which the weights of columns are taken, at most
LEAST_SHARE = 0.05  # networks that count less than this share of the best are dropped
MOST = 2  # networks that are kept for each member, of the four that its training leaves,
MANY_ROWS = 20_000  # and 1 above so many rows: who has them, scores more of them


def fit_ensemble(
    x: Array,
    y: Codes,
    settings: Settings,
    *,
    seed: int,
    sample_weight: Floats | None = None,
    groups: Array | None = None,
    normalization: Normalization | None = None,
    before: Ensemble | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Ensemble:
    """Train members on arrays x (n, ...) and labels y (n,) of 0 .. C-1.

    With an ensemble from `before`, only members beyond its number are trained, and join it and
    its trees.
    """
    members = new_members(settings, before, x.shape[1:])
    counts = np.bincount(y).astype(float)
    recipe = settings.recipe(len(x), x.shape[1:], seed)
    fold = held_out(y, FOLDS if settings.n_members > 1 else 1, seed, groups)
    folds = int(fold.max()) + 1
    own_network = x.ndim != 2 or settings.network is not None  # cannot take in a scale
    scalings = ("none",) if own_network else SCALINGS
    own_scaling = [k % len(scalings) for k in members]
    left_out = [(k // len(scalings)) % folds if folds else -1 for k in members]
    weight = np.stack([(fold != f).astype(np.float64) if folds else fold * -1.0 for f in left_out])
    if sample_weight is not None:
        weight *= sample_weight
    families = [settings.family(k) for k in members]
    kinds = [scalings[place] for place in own_scaling]
    scale = None if own_network else member_scales(x, y, kinds, weight, seed)
    fitted = fit_stacked(
        lambda own_seed: settings.build(x.shape[1:], len(counts), own_seed),
        families,
        x,
        y,
        [recipe.changed(seed_weights=seed + k, seed_lambda=seed + k) for k in members],
        normalization=normalization,
        sample_weight=weight,
        input_scale=scale,
        snapshots=SNAPSHOTS,
        on_progress=on_progress,
    )
    good = [k for k in range(len(members)) if k not in fitted.diverged]
    if not good:
        raise InputError(f"no member could be trained: {next(iter(fitted.diverged.values()))}")
    taken = [[some[k] for k in good] for some in [*fitted.snapshots, fitted.networks]]
    if scale is not None:
        for some in taken:
            for k, network in zip(good, some, strict=True):
                take_in_scale(network, torch.from_numpy(scale[k]))
    shown = np.array(seen_class_counts(counts.tolist(), recipe))
    made = Ensemble(
        [network for some in taken for network in some],
        [families[k] for k in good] * len(taken),
        np.zeros(len(good) * len(taken)),
        [fitted.class_counts] * len(good) * len(taken),
        [tuple(shown / counts)] * len(good) * len(taken),
        settings.taus(),
        settings.n_members,
        normalization,
        np.full((len(x), len(counts)), np.nan),
        x.shape[1:],
    )
    if folds:
        group_of = [t * len(scalings) + own_scaling[k] for t in range(len(taken)) for k in good]
        out = np.array([left_out[k] for k in good] * len(taken))
        judge(made, x, y, fold, out, np.array(group_of))
    most = settings.n_members * (MOST if len(x) <= MANY_ROWS else 1)
    whole = joined(before, made).pruned(LEAST_SHARE, most)
    number = 0 if own_network else trees_for(len(x), settings.trees)
    if number == 0 or np.isnan(whole.out_of_fold).all():  # nothing could judge them
        whole.trees = None
        return whole
    if whole.trees is None or len(whole.trees.trees) != number:
        whole.trees = grow_trees(x, y, fold, number, seed=seed, sample_weight=sample_weight)
    whole.trees.weigh(whole.out_of_fold, y)
    return whole


def new_members(settings: Settings, before: Ensemble | None, in_shape: tuple[int, ...]) -> range:
    """Return the numbers of the members to train: those that a warm start does not have yet."""
    first = 0 if before is None else before.n_members
    if settings.n_members <= first:
        raise InputError(
            f"warm_start needs n_members above the {first} there are, got {settings.n_members}"
        )
    if before is not None and not settings.made(before.networks[0], before.taus, in_shape):
        raise InputError(
            "warm_start needs the hidden, tau_range and network of the first fit, got others"
        )
    return range(first, settings.n_members)


def member_scales(
    x: Array, y: Codes, kinds: Sequence[str], weight: Floats, seed: int
) -> NDArray[np.float32]:
    """Return the weights of the columns, (K, d), each by the rows that the member sees.

    Those it leaves out judge its scaling, too, so they have no part in it.
    """
    rows = some_rows(y, WEIGHED_ROWS, seed)
    few, labels = x[rows], y[rows]
    return np.stack(
        [
            column_weights(few, labels, kind, sample_weight=own)
            for kind, own in zip(kinds, weight[:, rows], strict=True)
        ]
    ).astype(np.float32)


@torch.no_grad()
def take_in_scale(network: Conditioned, scale: Tensor) -> None:
    """Multiply the first layer's weights by what its inputs were multiplied by in training."""
    first = next(module for module in network.modules() if isinstance(module, torch.nn.Linear))
    if first is network.linear and network.film is not None:
        # FiLM comes before the only layer and shifts what was scaled: its factors are scaled.
        last = network.film.sigma[-1]
        assert isinstance(last, torch.nn.Linear)
        last.weight.mul_(scale[:, None])
        last.bias.mul_(scale)
    else:
        first.weight.mul_(scale)
