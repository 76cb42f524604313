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

from curvewise.errors import InputError

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


def split_off(
    y: Codes, fraction: float, seed: int, groups: Array | None = None
) -> tuple[Codes, Codes]:
    """Return rows to train on, and the share of the rows that is set aside; both ascending."""
    everything = np.arange(len(y))
    if fraction == 0:
        return everything, everything[:0]
    shuffle: Any = StratifiedShuffleSplit if groups is None else GroupShuffleSplit
    try:
        train, aside = next(
            shuffle(1, test_size=fraction, random_state=seed).split(everything, y, groups)
        )
    except ValueError as error:
        raise InputError(
            f"calibration_fraction = {fraction:g} cannot be set aside: {error}"
        ) from None
    if len(np.unique(y[train])) < len(np.unique(y)) or len(np.unique(y[aside])) < 2:
        raise InputError(
            f"calibration_fraction = {fraction:g} must leave every class on both sides, got too "
            "few rows or groups"
        )
    return np.sort(train), np.sort(aside)
