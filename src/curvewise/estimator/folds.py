"""Which rows a member leaves out, and which the whole fit does."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    GroupShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from curvewise.base.errors import InputError

Array = NDArray[Any]
Codes = NDArray[np.int64]


def held_out(y: Codes, folds: int, seed: int, groups: Array | None = None) -> Codes:
    """Return the fold of each row, (n,), stratified and with groups in one piece; -1: no folds.

    A class of one row (or group) cannot be left out, for then nothing of it is left: there are
    as many folds as the rarest class has rows, or none.

    >>> np.bincount(held_out(np.array([0] * 9 + [1] * 3), 6, seed=0)).tolist()
    [4, 4, 4]
    """
    sizes = [
        np.sum(y == c) if groups is None else len(np.unique(groups[y == c])) for c in np.unique(y)
    ]
    folds = min(folds, int(min(sizes)))
    fold = np.full(len(y), -1)
    if folds < 2:
        return fold
    if groups is None:
        split = StratifiedKFold(folds, shuffle=True, random_state=seed).split(y, y)
    else:
        split = StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(y, y, groups)
    for k, (_, out) in enumerate(split):
        fold[out] = k
    kept = [set(y[fold != k]) for k in range(folds)]
    if any(len(classes) < len(sizes) for classes in kept):
        return np.full(len(y), -1)  # groups may put a whole class into one fold
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
