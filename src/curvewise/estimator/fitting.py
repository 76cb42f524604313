"""Training an ensemble: who leaves out which rows, and what each is worth by them."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.model_selection import (
    GroupShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from torch import Tensor

from curvewise.base.errors import InputError
from curvewise.estimator.ensemble import SHARPNESS, Ensemble, Member, Reader, shares
from curvewise.estimator.inputs import Rows
from curvewise.estimator.settings import FOLDS, SCALINGS, SNAPSHOTS, Settings
from curvewise.estimator.trees import Trees, grow_trees, trees_for
from curvewise.networks.conditioning import Conditioned
from curvewise.networks.registry import Normalization
from curvewise.roc.curve import auc
from curvewise.roc.many import macro_auc
from curvewise.tables.quantiles import column_weights
from curvewise.training.batches import seen_class_counts
from curvewise.training.stacked import fit_stacked

Array = NDArray[Any]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
WEIGHED_ROWS = 8_000  # from which the weights of columns are taken, at most
LEAST_SHARE = 0.05  # networks that count less than this share of the best are dropped
MOST = 2  # networks that are kept of each member's training, which leaves four,
MANY_ROWS = 20_000  # and 1 above so many rows: who has them, scores more of them
# A forest of m trees ranks worse than a large one by about 1.2 / m in AUC: 50 trees lost 0.02 on
# the benchmark's development half, 9 trees 0.05 to 0.12 on generated tables. Fewer are no measure.
HANDICAP, MOST_HANDICAP = 1.2, 0.1
TREE_SHARPNESS = 0.05  # the AUC by which trees must be worse than networks to count e times less


def fit_ensemble(
    rows: Rows,
    settings: Settings,
    *,
    seed: int,
    normalization: Normalization | None = None,
    before: Ensemble | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Ensemble:
    """Train members on arrays of rows, x (n, ...) and labels y (n,) of 0 .. C-1.

    With an ensemble from `before`, only members beyond its number are trained, and join it and
    its trees.
    """
    x, y = rows.x, rows.y
    fold = held_out(y, FOLDS if settings.n_members > 1 else 1, seed, rows.group)
    members = train_members(
        new_members(settings, before),
        rows,
        fold,
        settings,
        seed,
        normalization=normalization,
        on_progress=on_progress,
    )
    ensemble = Ensemble(
        members,
        n_trained=settings.n_members,
        taus=settings.taus(),
        in_shape=x.shape[1:],
        normalization=normalization,
        out_of_fold=np.full((len(x), int(y.max()) + 1), np.nan),
    )
    if fold.max() >= 0:
        judge(ensemble, x, y, fold)
    if before is not None:
        join(ensemble, before)
    ensemble.prune(LEAST_SHARE, settings.n_members * (MOST if len(x) <= MANY_ROWS else 1))
    number = trees_for(len(x), settings.trees) if settings.is_mlp(x.shape[1:]) else 0
    if number == 0 or np.isnan(ensemble.out_of_fold).all():  # nothing could judge them
        ensemble.trees = None
        return ensemble
    if ensemble.trees is None or len(ensemble.trees.trees) != number:
        ensemble.trees = grow_trees(x, y, fold, number, seed=seed, sample_weight=rows.weight)
    weigh(ensemble.trees, ensemble.out_of_fold, y)
    return ensemble


def new_members(settings: Settings, before: Ensemble | None) -> range:
    """Return the numbers of the members to train: those that a warm start does not have yet."""
    if before is None:
        return range(settings.n_members)
    if settings.n_members <= before.n_trained:
        raise InputError(
            f"warm_start needs n_members above the {before.n_trained} there are, got "
            f"{settings.n_members}"
        )
    if not settings.match(before):
        raise InputError(
            "warm_start needs the hidden, tau_range and network of the first fit, got others"
        )
    return range(before.n_trained, settings.n_members)


def train_members(
    numbers: Sequence[int], rows: Rows, fold: Codes, settings: Settings, seed: int, **options: Any
) -> list[Member]:
    """Train members of these numbers, each without a fold, and return each at four moments."""
    x, y = rows.x, rows.y
    counts, in_shape = np.bincount(y).astype(float), x.shape[1:]
    recipe = settings.recipe(len(x), in_shape, seed)
    scalings = SCALINGS if settings.is_mlp(in_shape) else ("none",)
    # Without folds all rows are in fold -1, which nobody leaves out.
    left_out = [k // len(scalings) % max(1, int(fold.max()) + 1) for k in numbers]
    weight = np.stack([(fold != left).astype(np.float64) for left in left_out])
    if rows.weight is not None:
        weight *= rows.weight
    scale = None
    if settings.is_mlp(in_shape):
        scale = member_scales(x, y, [scalings[k % len(scalings)] for k in numbers], weight, seed)
    families = [settings.family(k) for k in numbers]
    fitted = fit_stacked(
        lambda seed_weights: settings.build(in_shape, len(counts), seed_weights),
        families,
        x,
        y,
        [recipe.changed(seed_weights=seed + k, seed_lambda=seed + k) for k in numbers],
        sample_weight=weight,
        input_scale=scale,
        snapshots=SNAPSHOTS,
        **options,
    )
    if len(fitted.diverged) == len(numbers):
        raise InputError(f"no member could be trained: {next(iter(fitted.diverged.values()))}")
    oversampling = tuple(np.array(seen_class_counts(counts.tolist(), recipe)) / counts)
    members = []
    for moment, networks in enumerate([*fitted.snapshots, fitted.networks]):
        for place, (k, network) in enumerate(zip(numbers, networks, strict=True)):
            if place in fitted.diverged:
                continue
            if scale is not None:
                take_in_scale(network, torch.from_numpy(scale[place]))
            group = moment * len(scalings) + k % len(scalings)
            member = Member(network, families[place], fitted.class_counts, oversampling)
            members.append(replace(member, left_out=left_out[place], group=group))
    return members


def member_scales(
    x: Array, y: Codes, scalings: Sequence[str], weight: Floats, seed: int
) -> NDArray[np.float32]:
    """Return the weights of the columns, (K, d), each by the rows that the member sees.

    Those it leaves out judge its scaling, too, so they have no part in it.
    """
    rows = some_rows(y, WEIGHED_ROWS, seed)
    few, labels = x[rows], y[rows]
    return np.stack(
        [
            column_weights(few, labels, scaling, sample_weight=seen)
            for scaling, seen in zip(scalings, weight[:, rows], strict=True)
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


def judge(ensemble: Ensemble, x: Array, y: Codes, fold: Codes) -> None:
    """Set the members' merit, and the ensemble's scores of rows by members that left them out."""
    _, group_of = np.unique([member.group for member in ensemble.members], return_inverse=True)
    left_out = np.array([member.left_out for member in ensemble.members])
    sizes, n_classes = np.bincount(group_of), int(y.max()) + 1
    sums = np.zeros((len(sizes), len(y), n_classes))
    judges = np.zeros((len(sizes), len(y), 1))
    for left in np.unique(left_out):
        rows, places = np.flatnonzero(fold == left), np.flatnonzero(left_out == left)
        members = [ensemble.members[place] for place in places]
        readouts = [member.calibrated_readout(ensemble.taus) for member in members]
        reader = Reader([m.network for m in members], readouts, ensemble.normalization)
        for group, scores in zip(group_of[places], reader.each(x[rows]), strict=True):
            sums[group, rows] += scores
            judges[group, rows] += 1
    judged = (judges > 0).all((0, 2))
    scores, labels = sums[:, judged] / judges[:, judged], y[judged]
    if len(np.unique(labels)) < n_classes:
        return
    merits = np.array([merit(labels, group) for group in scores])
    for member, group in zip(ensemble.members, group_of, strict=True):
        member.merit = merits[group]
    weights = shares(merits) * sizes
    ensemble.out_of_fold[judged] = np.tensordot(weights / weights.sum(), scores, 1)


def join(ensemble: Ensemble, before: Ensemble) -> None:
    """Put the members from before in front of an ensemble's, and take over their trees.

    Old and new count by their numbers of members: their merits were measured on different rows,
    so they cannot be compared. What was fitted before stays as it is.
    """

    def worth(merits: Floats, members: int) -> Floats:  # exp(merit / 0.01) sums up to members
        return np.asarray(merits - SHARPNESS * (logsumexp(merits / SHARPNESS) - np.log(members)))

    added = ensemble.n_trained - before.n_trained
    merits = np.concatenate([worth(before.merits, before.n_trained), worth(ensemble.merits, added)])
    first = float(shares(merits)[: len(before.members)].sum())
    old, new = before.out_of_fold, ensemble.out_of_fold
    if old.shape == new.shape:
        mixed = first * old + (1 - first) * new
        ensemble.out_of_fold = np.where(np.isnan(mixed), np.where(np.isnan(old), new, old), mixed)
    ensemble.members = [
        replace(member, merit=merit)
        for member, merit in zip([*before.members, *ensemble.members], merits, strict=True)
    ]
    ensemble.trees = copy(before.trees)  # to be weighed anew


def weigh(trees: Trees, networks: Floats, y: Codes) -> None:
    r"""Set the trees' share by how both rank rows that they left out, (n, C) with NaN rows.

    It is :math:`1 / (1 + e^{(A_\mathrm{networks} - A_\mathrm{trees} - h) / 0.05})` of both
    AUCs. The m trees that judge a row are fewer than the T that score, hence the handicap
    h = 1.2 (1 / m - 1 / T), at most 0.1: 0.02 for 50 and 300.
    """
    judged = ~np.isnan(networks[:, 0])
    by_networks, by_trees, labels = networks[judged], trees.out_of_fold[judged], y[judged]
    handicap = min(HANDICAP * (1 / trees.judging - 1 / len(trees.trees)), MOST_HANDICAP)
    behind = merit(labels, by_networks) - merit(labels, by_trees) - handicap
    trees.share = float(1 / (1 + np.exp(behind / TREE_SHARPNESS)))
    trees.stretch = spread(by_networks) / max(spread(by_trees), 1e-6)


def merit(y: Codes, scores: Floats) -> float:
    """Return the AUC of scores (n, C); of more classes the mean AUC of one against the rest."""
    if scores.shape[1] == 2:
        return auc(y, scores[:, 1] - scores[:, 0])
    return macro_auc(y, scores - np.logaddexp.reduce(scores, axis=1)[:, None])


def spread(scores: Floats) -> float:
    """Return how far scores (n, C) lie apart: the deviation of each class's from the row's mean."""
    centred = scores - scores.mean(axis=1, keepdims=True)
    return float(centred.std(axis=0).mean())


def held_out(y: Codes, folds: int, seed: int, groups: Array | None = None) -> Codes:
    """Return the fold of each row, (n,), stratified and with groups in one piece; -1: no folds.

    A class of one row (or group) cannot be left out, for then nothing of it is left: there are
    as many folds as the rarest class has rows, or none.

    >>> np.bincount(held_out(np.array([0] * 9 + [1] * 3), 6, seed=0)).tolist()
    [4, 4, 4]
    """
    rows = np.arange(len(y)) if groups is None else groups
    classes = np.unique(y)
    folds = min(folds, *(len(np.unique(rows[y == c])) for c in classes))
    fold = np.full(len(y), -1)
    if folds < 2:
        return fold
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    split = kind(folds, shuffle=True, random_state=seed).split(y, y, groups)
    for k, (kept, out) in enumerate(split):
        if len(np.unique(y[kept])) < len(classes):
            return np.full(len(y), -1)  # groups may put a whole class into one fold
        fold[out] = k
    return fold


def some_rows(y: Codes, most: int, seed: int) -> Codes:
    """Return rows to take statistics from: all, or a sample with the rare classes whole if it can.

    Of `most` rows, each class gets an equal share, and what a class does not need goes to others.

    >>> y = np.repeat([0, 1], [1000, 20])
    >>> np.bincount(y[some_rows(y, 100, seed=0)]).tolist()
    [80, 20]
    """
    if len(y) <= most:
        return np.arange(len(y))
    rng, kept = np.random.default_rng(seed), []
    counts = np.bincount(y)
    room, left = most, len(counts)
    for c in np.argsort(counts):
        share = min(int(counts[c]), room // left)
        kept.append(rng.choice(np.flatnonzero(y == c), share, replace=False))
        room, left = room - share, left - 1
    return np.sort(np.concatenate(kept))


def split_off(
    y: Codes, fraction: float, seed: int, groups: Array | None = None
) -> tuple[Codes, Codes]:
    """Return rows to train on, and the share of the rows that is set aside; both ascending."""
    everything = np.arange(len(y))
    if fraction == 0:
        return everything, everything[:0]
    # Groups cannot be stratified, so several splits are tried.
    shuffle: Any = StratifiedShuffleSplit(1, test_size=fraction, random_state=seed)
    if groups is not None:
        shuffle = GroupShuffleSplit(20, test_size=fraction, random_state=seed)
    try:
        for train, aside in shuffle.split(everything, y, groups):
            if len(np.unique(y[train])) == len(np.unique(y)) and len(np.unique(y[aside])) > 1:
                return np.sort(train), np.sort(aside)
    except ValueError:
        pass  # a class of one row, or fewer rows than classes
    raise InputError(
        f"calibration_fraction = {fraction:g} must leave every class on both sides, got too few "
        "rows or groups"
    )
