"""Choosing a subset with a wanted imbalance: labels and beta in, indices out."""

from collections.abc import Sequence
from math import ceil, floor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvewise.base.errors import InputError, require, require_number, require_whole

Indices = NDArray[np.int64]

# n0 / beta may miss a whole number by rounding: 33 / 1.1 is 29.999...
ROUNDING = 1e-9


def subsample_to_beta(
    y: ArrayLike, beta: float, *, seed: int, minority: int | None = None
) -> Indices:
    """Return sorted indices of a subset with `beta` majority samples per minority sample.

    The minority keeps floor(n0 / beta) samples, at least 1, drawn without repetition; the
    majority stays whole. If the minority has too few for that, it stays whole and the majority
    is cut to ceil(beta * n1). The minority is the rarer of two labels (of equal ones the larger
    label), unless named by `minority`. The same seed gives the same indices.

    >>> y = [0] * 100 + [1] * 100
    >>> len(subsample_to_beta(y, beta=20, seed=0))
    105
    """
    labels = _labels(y)
    beta = require_number("beta", beta, 1)
    values, counts = np.unique(labels, return_counts=True)
    require(len(values) == 2, f"y must hold two classes, got {len(values)}: {values[:5].tolist()}")
    if minority is None:
        minority = values[0] if counts[0] < counts[1] else values[1]
    elif minority not in values:
        raise InputError(f"minority must be one of {values.tolist()}, got {minority!r}")
    rare, frequent = np.flatnonzero(labels == minority), np.flatnonzero(labels != minority)
    n_rare = max(floor(len(frequent) / beta + ROUNDING), 1)
    n_frequent = len(frequent)
    if n_rare > len(rare):
        n_rare, n_frequent = len(rare), min(ceil(beta * len(rare) - ROUNDING), len(frequent))
    return drawn_rows([rare, frequent], [n_rare, n_frequent], seed)


def subsample_long_tail(y: ArrayLike, ratio: float, *, seed: int) -> Indices:
    """Return sorted indices of an exponential long tail: class i keeps n ratio^(-i/(C-1)).

    Classes are in the order of their labels; the first is the head, the last is `ratio` times
    rarer. If a class has too few samples for that, it stays whole and n is cut to fit, as in
    `subsample_to_beta`; each class keeps at least one (Cui et al. 2019, arXiv 1901.05555).
    """
    labels = _labels(y)
    ratio = require_number("ratio", ratio, 1)
    values, counts = np.unique(labels, return_counts=True)
    require(len(values) >= 2, f"y must hold two or more classes, got {len(values)}")
    shares = ratio ** -(np.arange(len(values)) / (len(values) - 1))
    head = min(ceil(n / share - ROUNDING) for n, share in zip(counts, shares, strict=True))
    kept = [max(floor(head * share + ROUNDING), 1) for share in shares]
    return drawn_rows([np.flatnonzero(labels == value) for value in values], kept, seed)


def drawn_rows(classes: Sequence[Indices], counts: Sequence[int], seed: int) -> Indices:
    """Return so many rows of each class, sorted."""
    rng = np.random.default_rng(require_whole("seed", seed, 0))
    drawn = [rng.permutation(rows)[:count] for rows, count in zip(classes, counts, strict=True)]
    return np.sort(np.concatenate(drawn))


def _labels(y: ArrayLike) -> NDArray[np.generic]:
    labels = np.asarray(y)
    require(
        labels.ndim == 1 and labels.size != 0,
        f"y must be a non-empty list of labels, got shape {labels.shape}",
    )
    return labels
