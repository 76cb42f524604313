"""Whether scores read as log-odds are the probabilities they claim: bins, Brier, histograms."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvewise.roc.inputs import Labels, Scores, check_scored

BINS, BARS = 10, 40


def probability(log_odds: ArrayLike) -> NDArray[np.float64]:
    """Return 1 / (1 + exp(-z)) without overflow.

    >>> probability([0.0, -1000.0]).tolist()
    [0.5, 0.0]
    """
    z = np.asarray(log_odds, np.float64)
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1 + small))


def reliability(y: Labels, log_odds: Scores) -> dict[str, Any]:
    """Return the Brier score, and ten equal bins of probability without the empty ones.

    Each has the mean probability `p`, the number of samples `n` and of positives `k`.

    >>> reliability([0, 1, 1], [-2.0, 2.0, 2.0])["n"]
    [1, 2]
    """
    data = check_scored(y, log_odds)
    return probability_bins(data.positive, probability(data.score))


def probability_bins(positive: NDArray[np.bool_], p: NDArray[np.float64]) -> dict[str, Any]:
    """Return what `reliability` does, of probabilities.

    >>> probability_bins(np.array([False, True]), np.array([0.25, 0.75]))["brier"]
    0.0625
    """
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    n = np.bincount(place, minlength=BINS)
    there = n > 0
    mean = np.bincount(place, weights=p, minlength=BINS)[there] / n[there]
    k = np.bincount(place[positive], minlength=BINS)[there]
    return {
        "brier": short(float(np.mean((p - positive) ** 2))),
        "p": [short(value) for value in mean.tolist()],
        "n": n[there].tolist(),
        "k": k.tolist(),
    }


def histogram(y: Labels, score: Scores) -> dict[str, Any]:
    """Count the scores of both classes in 40 bars from the lowest to the highest.

    >>> found = histogram([0, 0, 1], [0.0, 1.0, 4.0])
    >>> found["low"], found["high"], sum(found["negative"]), found["positive"][-1]
    (0.0, 4.0, 2, 1)
    """
    data = check_scored(y, score)
    scores = np.asarray(data.score, np.float64)
    low, high = float(scores.min()), float(scores.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = {
        name: np.histogram(scores[part], bins=BARS, range=(low, high))[0].tolist()
        for name, part in (("negative", ~data.positive), ("positive", data.positive))
    }
    return {"low": short(low), "high": short(high), **counts}


def short(value: float, digits: int = 5) -> float:
    """Return a number with so many significant digits, which is what a chart can show."""
    return float(f"{value:.{digits}g}")
