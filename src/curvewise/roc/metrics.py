"""The other metrics of a binary classifier: what a threshold does, and whether scores calibrate.

A model is calibrated where its scores, read as log-odds, are the probabilities they claim.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvewise.base.errors import require_number
from curvewise.roc.curve import RocCurve, roc_curve
from curvewise.roc.inputs import Floats, Labels, Scored, Scores, check_scored

BINS, BARS = 10, 40  # of probability, and of scores


@dataclass(frozen=True)
class BinaryMetrics:
    """What a threshold does (tpr to gmean) and how well the scores rank (the last three).

    Precision, F1 and F-beta are 0 if nothing is called positive. `auprc` is the trapezoid area
    under the precision-recall curve, as in the paper; `average_precision` the step-wise one,
    which does not flatter.
    """

    tpr: float
    fpr: float
    precision: float
    accuracy: float
    f1: float
    fbeta: float
    gmean: float
    auroc: float
    auprc: float
    average_precision: float


def binary_metrics(
    y: Labels,
    score: Scores,
    threshold: float = 0.5,
    *,
    fbeta: float = 2.0,
    weight: Scores | None = None,
) -> BinaryMetrics:
    """All the paper's metrics, with ``score >= threshold`` called positive.

    The threshold is compared with the scores as they are: 0.5 suits probabilities, 0 suits
    log-odds. `fbeta` is how many times recall matters more than precision in F-beta.

    >>> binary_metrics([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.8]).accuracy
    0.75
    """
    require_number("fbeta", fbeta, 0)
    curve = roc_curve(y, score, weight=weight)
    return metrics_on_curve(curve, check_scored(y, score, weight), threshold, fbeta)


def metrics_on_curve(
    curve: RocCurve, data: Scored, threshold: float, fbeta: float = 2.0
) -> BinaryMetrics:
    """Return `binary_metrics` of data whose curve is known already."""
    weights = np.ones(len(data.score)) if data.weight is None else data.weight
    called = data.at_least(threshold)
    true, missed, false, rejected = (
        float(weights[part].sum())
        for part in (
            called & data.positive,
            ~called & data.positive,
            called & ~data.positive,
            ~called & ~data.positive,
        )
    )
    tpr, fpr = true / (true + missed), false / (false + rejected)
    total = true + missed + false + rejected
    precision, recall = _precision_recall(curve, (true + missed) / total)
    return BinaryMetrics(
        tpr=tpr,
        fpr=fpr,
        precision=true / (true + false) if true + false else 0.0,
        accuracy=(true + rejected) / total,
        f1=_f_score(true, false, missed, 1.0),
        fbeta=_f_score(true, false, missed, fbeta),
        gmean=sqrt(tpr * (1 - fpr)),
        auroc=curve.auc,
        auprc=float(np.trapezoid(precision, recall)),
        average_precision=float(np.sum(np.diff(recall) * precision[1:])),
    )


def _f_score(true: float, false: float, missed: float, beta: float) -> float:
    """(1 + b^2) P R / (b^2 P + R) in counts, and 0 without a true positive."""
    weight = beta * beta
    return (1 + weight) * true / ((1 + weight) * true + weight * missed + false) if true else 0.0


def _precision_recall(curve: RocCurve, share: float) -> tuple[Floats, Floats]:
    """Precision and recall at the curve's thresholds, starting at (1, 0)."""
    true, false = share * curve.tpr[1:], (1 - share) * curve.fpr[1:]
    return np.append(1.0, true / (true + false)), curve.tpr


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
