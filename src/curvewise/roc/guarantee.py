r"""Thresholds that keep a promise on new data with stated confidence.

With :math:`n` independent scores of a class and a threshold just above the :math:`j`-th largest of
them, the share of new ones at or above it exceeds :math:`a` only if fewer than :math:`j` of the
:math:`n` lay above the score that exactly that share exceeds: with probability at most
:math:`P(\mathrm{Bin}(n, a) < j)`. This needs nothing of the scores' distribution (the tolerance
limits of Wilks 1941), and ties only make it smaller.
"""

from math import ceil, inf, log1p, nextafter

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from curvewise.base.errors import InputError, require_open


def rows_needed(rate: float, confidence: float) -> int:
    """Return how many rows of a class a promise about a rate of errors needs at the least.

    >>> rows_needed(0.01, 0.95)
    299
    """
    require_open("rate", rate, 0, 1)
    require_open("confidence", confidence, 0, 1)
    rows = max(1, ceil(log1p(-confidence) / log1p(-rate) - 1e-9))
    return rows if (1 - rate) ** rows <= 1 - confidence else rows + 1


def allowed_errors(n: int, rate: float, confidence: float) -> int:
    """Return how many of n rows may be on the wrong side; -1 if n is too small for any promise.

    It is the largest e with P(Bin(n, rate) <= e) <= 1 - confidence.

    >>> allowed_errors(298, 0.01, 0.95), allowed_errors(299, 0.01, 0.95)
    (-1, 0)
    """
    if n < rows_needed(rate, confidence):
        return -1
    guess = int(binom.ppf(1 - confidence, n, rate))
    while binom.cdf(guess, n, rate) > 1 - confidence:
        guess -= 1
    return guess


def promise_note(what: str, rate: float, confidence: float, n: int) -> str:
    """Return what n rows of a class can promise of a rate, in a sentence.

    >>> promise_note("FPR <=", 0.01, 0.95, 100)
    'FPR <= 0.01 with confidence 0.95 needs at least 299 negatives, got 100'
    """
    errors, kind = (rate, "negatives") if what == "FPR <=" else (1 - rate, "positives")
    needed = rows_needed(errors, confidence)
    if n < needed:
        return (
            f"{what} {rate:g} with confidence {confidence:g} needs at least {needed:,} {kind}, "
            f"got {n:,}"
        )
    return f"{what} {rate:g} on new data with confidence {confidence:g}, from {n:,} {kind}"


def threshold_for_fpr(negatives: ArrayLike, max_fpr: float, confidence: float) -> float:
    """Return the lowest threshold whose FPR on new data is at most `max_fpr`, with confidence.

    `negatives` are scores of rows that the model has not seen. Too few: infinity.

    >>> threshold_for_fpr(np.arange(299.0), 0.01, 0.95) > 298
    True
    """
    scores = _sorted(negatives)
    errors = allowed_errors(len(scores), max_fpr, confidence)
    if errors < 0:
        return inf
    # Just above the next largest: what lies on it is not called positive.
    return nextafter(float(scores[len(scores) - 1 - errors]), inf)


def threshold_for_tpr(positives: ArrayLike, min_tpr: float, confidence: float) -> float:
    """Return the highest threshold whose TPR on new data is at least `min_tpr`, with confidence.

    Too few positives: minus infinity, which calls everything positive.

    >>> threshold_for_tpr(np.arange(29.0), 0.9, 0.95)
    0.0
    """
    require_open("min_tpr", min_tpr, 0, 1)
    scores = _sorted(positives)
    errors = allowed_errors(len(scores), 1 - min_tpr, confidence)
    return -inf if errors < 0 else float(scores[errors])


def first_unsafe(errors: ArrayLike, n: int, rate: float, confidence: float) -> int:
    """Return how many settings, tried in a fixed order, may be promised to stay below a rate.

    `errors` counts the wrong ones among n rows at each setting. Settings are tested one after the
    other at the full level and the first that fails ends it, which keeps the chance that any of
    the promised ones is wrong at 1 - confidence (fixed-sequence testing; Angelopoulos, Bates,
    Candes, Jordan and Lei 2021, arXiv 2110.01052).

    >>> first_unsafe([0, 0, 5, 0], 299, 0.01, 0.95)
    2
    """
    counts, most = np.asarray(errors), allowed_errors(n, rate, confidence)
    failed = np.flatnonzero(counts > most)
    return int(failed[0]) if len(failed) else len(counts)


def _sorted(scores: ArrayLike) -> np.ndarray:
    values = np.asarray(scores, np.float64)
    if values.ndim != 1 or np.isnan(values).any():
        raise InputError(
            f"scores must be numbers of shape (n,), got {values.shape}"
            f"{' with NaN' if np.isnan(values).any() else ''}"
        )
    return np.sort(values)
