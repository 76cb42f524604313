"""Metrics beside the curve: of a threshold, of calibration, of many classes and many models.

A model is calibrated where its scores, read as log-odds, are the probabilities they claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from scipy.stats import rankdata

from curvewise.base.errors import InputError, require, require_choice, require_number, require_shape
from curvewise.roc.curve import (
    Floats,
    Labels,
    RocBand,
    RocCurve,
    Scored,
    Scores,
    check_scored,
    finite,
    roc_band,
    roc_curve,
    to_array,
)

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
    called, positive = data.at_least(threshold), data.positive
    parts = (called & positive, ~called & positive, called & ~positive, ~called & ~positive)
    true, missed, false, rejected = (float(weights[part].sum()) for part in parts)
    tpr, fpr = true / (true + missed), false / (false + rejected)
    total = true + missed + false + rejected
    # At the curve's thresholds; the first, which calls nothing, has precision 1 by convention.
    share = (true + missed) / total
    found, alarmed = share * curve.tpr[1:], (1 - share) * curve.fpr[1:]
    precision = np.append(1.0, found / (found + alarmed))
    return BinaryMetrics(
        tpr=tpr,
        fpr=fpr,
        precision=true / (true + false) if true + false else 0.0,
        accuracy=(true + rejected) / total,
        f1=_f_score(true, false, missed, 1.0),
        fbeta=_f_score(true, false, missed, fbeta),
        gmean=sqrt(tpr * (1 - fpr)),
        auroc=curve.auc,
        auprc=float(np.trapezoid(precision, curve.tpr)),
        average_precision=float(np.sum(np.diff(curve.tpr) * precision[1:])),
    )


def _f_score(true: float, false: float, missed: float, beta: float) -> float:
    """(1 + b^2) P R / (b^2 P + R) in counts, and 0 without a true positive."""
    weight = beta * beta
    return (1 + weight) * true / ((1 + weight) * true + weight * missed + false) if true else 0.0


def reliability(y: Labels, log_odds: Scores) -> dict[str, Any]:
    """Return `probability_bins` of scores that are log-odds.

    >>> reliability([0, 1, 1], [-2.0, 2.0, 2.0])["n"]
    [1, 2]
    """
    data = check_scored(y, log_odds)
    return probability_bins(data.positive, expit(data.score.astype(np.float64)))


def probability_bins(positive: NDArray[np.bool_], p: NDArray[np.float64]) -> dict[str, Any]:
    """Return the Brier score, and ten equal bins of probability without the empty ones.

    Each has the mean probability `p`, the number of samples `n` and of positives `k`.
    """
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    n = np.bincount(place, minlength=BINS)
    filled = n > 0
    mean = np.bincount(place, weights=p, minlength=BINS)[filled] / n[filled]
    k = np.bincount(place[positive], minlength=BINS)[filled]
    return {
        "brier": short(float(np.mean((p - positive) ** 2))),
        "p": [short(value) for value in mean.tolist()],
        "n": n[filled].tolist(),
        "k": k.tolist(),
    }


def histogram(y: Labels, score: Scores) -> dict[str, Any]:
    """Count the scores of both classes in 40 bars from the lowest to the highest.

    >>> bars = histogram([0, 0, 1], [0.0, 1.0, 4.0])
    >>> bars["low"], bars["high"], sum(bars["negative"]), bars["positive"][-1]
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


@dataclass(frozen=True)
class ManyCurves:
    """A ROC curve for each class against the rest.

    `macro` is the mean of the curves over the classes (at equal FPR), `macro_auc` the mean of
    their areas: each class counts the same, however rare.
    """

    classes: tuple[Any, ...]
    curves: tuple[RocCurve, ...]

    @property
    def areas(self) -> dict[Any, float]:
        """The area of each class's curve."""
        return {c: curve.auc for c, curve in zip(self.classes, self.curves, strict=True)}

    @property
    def macro_auc(self) -> float:
        """The mean area over the classes."""
        return float(np.mean([curve.auc for curve in self.curves]))

    @property
    def macro(self) -> RocBand:
        """The mean curve, with the lowest and highest of the classes."""
        return roc_band(self.curves)


def one_vs_rest(y: Labels, scores: Scores, *, classes: Sequence[Any] | None = None) -> ManyCurves:
    """Return the ROC curve of each class against the rest.

    `scores` (n, C) has a column for each of `classes` (default: the labels in sorted order), higher
    for rows of that class. Every class must occur in y, and not in every row.

    >>> found = one_vs_rest(["a", "b", "c"], np.eye(3))
    >>> found.macro_auc
    1.0
    """
    labels, table = to_array(y), to_array(scores)
    shapes = f"{labels.shape} and {table.shape}"
    fits = labels.ndim == 1 and table.ndim == 2 and len(labels) == len(table)
    require(fits, f"y must have shape (n,) and scores (n, C), got {shapes}")
    names = np.unique(labels) if classes is None else np.asarray(classes)
    require_shape("scores", table, len(labels), len(names))
    for name in names:
        occurs = (labels == name).any() and not (labels == name).all()
        require(occurs, f"every class must occur in y beside others, got class {name!r}")
    curves = tuple(
        roc_curve(labels == name, column) for name, column in zip(names, table.T, strict=True)
    )
    return ManyCurves(tuple(names.tolist()), curves)


def macro_auc(y: Labels, scores: Scores, *, classes: Sequence[Any] | None = None) -> float:
    """Return the mean over classes of the AUC of one against the rest.

    >>> macro_auc([0, 1, 2, 2], np.array([[3, 1, 0], [0, 2, 1], [0, 1, 2], [1, 0, 2]]))
    1.0
    """
    return one_vs_rest(y, scores, classes=classes).macro_auc


def accuracy_by_frequency(
    y: ArrayLike, predicted: ArrayLike, class_counts: Sequence[float], parts: int = 3
) -> list[float]:
    """Return the mean recall of classes by thirds of frequency: head, middle, tail.

    Labels are 0 .. C-1; classes are ordered by their training counts, most frequent first, and
    divided as evenly as can be. Each class counts the same.

    >>> accuracy_by_frequency([0, 0, 1, 2], [0, 1, 1, 0], class_counts=[100, 10, 1])
    [0.5, 1.0, 0.0]
    """
    labels, answers = np.asarray(y), np.asarray(predicted)
    require_shape("y", labels, "n")
    require_shape("predicted", answers, len(labels))
    order: NDArray[np.intp] = np.argsort(-np.asarray(class_counts, float), kind="stable")
    require(len(order) >= parts, f"there must be {parts} classes or more, got {len(order)}")
    require(np.isin(order, labels).all(), "every class must occur in y, got one that does not")
    recalls = {c: np.mean(answers[labels == c] == c) for c in order}
    return [float(np.mean([recalls[c] for c in part])) for part in np.array_split(order, parts)]


def ensemble_score(scores: Scores, method: str = "standardised") -> Floats:
    """Combine the scores (K, n) of K models for the same n samples into one score (n,).

    "standardised" is the mean over models of ``(score - mean) / std``, mean and (population)
    std being the model's own over the n samples: models whose logits are shifted or stretched
    count alike, and a model that says the same of every sample counts 0. "rank" is the mean over
    models of ``(rank - 1/2) / n`` in (0, 1), ties sharing their average rank: only the order
    matters that a model puts the samples in.

    Either way a sample's value depends on the other samples, so score a whole set at once.
    Works in float64, one model at a time: memory grows with n, not with K n.

    >>> ensemble_score([[0.0, 1.0, 2.0], [10.0, 30.0, 20.0]], "rank")
    array([0.16666667, 0.66666667, 0.66666667])
    """
    require_choice("method", method, ("standardised", "rank"))
    try:
        members = to_array(scores)
    except ValueError:  # lists of unequal lengths
        raise InputError("scores must have shape (K, n), got rows of unequal lengths") from None
    sized = members.ndim == 2 and members.size
    require(sized, f"scores must have shape (K, n), none of them 0, got {members.shape}")
    total = np.zeros(members.shape[1])
    for number, member in enumerate(members):
        score = finite(f"scores of model {number}", member).astype(np.float64)  # a copy
        total += _standardised(score) if method == "standardised" else rankdata(score) - 0.5
    # Ranks are scaled last: their sums are exact, and samples that tie stay tied.
    return total / (len(members) if method == "standardised" else members.size)


def _standardised(score: Floats) -> Floats:
    # Brought to [0, 1] first: neither a large offset nor large values cost digits or overflow.
    score /= np.abs(score).max() or 1.0
    score -= score.min()
    width = score.max()
    if width == 0:
        return score
    score /= width
    score -= score.mean()
    score /= score.std()
    return score
