"""Labels and scores, checked once; the ROC curve, the area under it, many curves as one band."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from curvewise.base.errors import (
    InputError,
    require,
    require_number,
    require_numbers,
    require_one_of,
    require_shape,
)

Floats = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]
Labels = ArrayLike | torch.Tensor
Scores = ArrayLike | torch.Tensor

LARGE = 100_000  # samples from which a second thread pays


class Scored(NamedTuple):
    """Checked input: who is positive, the scores, and weights if there are any."""

    positive: NDArray[np.bool_]
    score: Floats
    weight: Floats | None

    def at_least(self, threshold: float) -> NDArray[np.bool_]:
        """Who is called positive; compared in float64, whatever the scores are."""
        number = not (isinstance(threshold, str) or threshold is None or np.isnan(threshold))
        require(number, f"threshold must be a number, got {threshold!r}")
        return np.asarray(self.score.astype(np.float64) >= float(threshold))

    @property
    def positives(self) -> Floats:
        """Scores of the positive samples."""
        return self.score[self.positive]

    @property
    def negatives(self) -> Floats:
        """Scores of the negative samples."""
        return self.score[~self.positive]


def check_scored(y: Labels, score: Scores, weight: Scores | None = None) -> Scored:
    """Return labels and scores as arrays, or raise with the first thing that is wrong.

    `y` holds 0 and 1 (or booleans), both of them; `score` finite numbers, higher for class 1;
    `weight`, if given, finite numbers >= 0 that leave weight in both classes.
    """
    labels, scores = to_array(y), to_array(score)
    shapes = f"{labels.shape} and {scores.shape}"
    same = labels.ndim == 1 and labels.shape == scores.shape
    require(same, f"y and score must be lists of the same length, got shapes {shapes}")
    require(len(labels), "y and score must not be empty, got length 0")
    positive = labels if labels.dtype == np.bool_ else labels == 1
    n_positive, n_negative = np.count_nonzero(positive), np.count_nonzero(labels == 0)
    if n_positive + n_negative != len(labels):
        first = int(np.argmax((labels != 0) & ~positive))
        value = labels[first : first + 1].tolist()[0]
        raise InputError(f"y must hold only 0 and 1, got {value!r} at position {first}")
    only = f"only {int(positive[0])} ({len(labels)} samples)"
    require(n_positive and n_negative, f"y must hold both classes, got {only}")
    scores = finite("score", scores)
    if weight is None:
        return Scored(positive, scores, None)
    weights = finite("weight", to_array(weight)).astype(np.float64)
    require_shape("weight", weights, len(scores))
    require_number("the least weight", weights.min(), 0)
    lighter = min(weights[positive].sum(), weights[~positive].sum())
    require(lighter > 0, "weight must be positive for some sample of each class, got 0 for all")
    kept = weights > 0
    return Scored(positive[kept], scores[kept], weights[kept])


def to_array(values: ArrayLike | torch.Tensor) -> NDArray[Any]:
    """Return a list, array, Series or tensor (on any device) as an array."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        if values.dtype == torch.bfloat16:
            values = values.float()
        return values.numpy()
    return np.asarray(values)


def finite(name: str, values: NDArray[Any]) -> Floats:
    """Return finite numbers as float32 or float64, or raise with the first that is not."""
    require(values.dtype.kind in "biuf", f"{name} must hold numbers, got dtype {values.dtype}")
    if values.dtype.kind != "f":
        return values.astype(np.float64)
    right = np.isfinite(values)
    if not right.all():
        first = int(np.argmin(right))
        raise InputError(f"{name} must be finite, got {values[first]} at position {first}")
    return values.astype(np.float32) if values.dtype == np.float16 else values


@dataclass(frozen=True)
class RocCurve:
    """The corners of a ROC curve, from (0, 0) to (1, 1).

    A sample is called positive if ``score >= threshold``; the first threshold is +inf, which
    calls nothing positive. Between corners the curve is a straight line.
    """

    fpr: Floats
    tpr: Floats
    thresholds: Floats

    @property
    def auc(self) -> float:
        """Area under the curve."""
        return float(np.trapezoid(self.tpr, self.fpr))

    def partial_auc(
        self,
        *,
        max_fpr: float | None = None,
        min_tpr: float | None = None,
        standardized: bool = False,
    ) -> float:
        """Area with FPR <= max_fpr under the curve, or with TPR >= min_tpr right of it.

        `standardized` maps it so that 0.5 is chance and 1 is perfect (McClish 1989).
        """
        require_one_of(max_fpr=max_fpr, min_tpr=min_tpr)
        if min_tpr is not None:
            # Seen from the other class, TPR >= t is FPR <= 1 - t.
            limit = 1 - require_number("min_tpr", min_tpr, 0, 1)
            flipped = RocCurve(1 - self.tpr[::-1], 1 - self.fpr[::-1], self.thresholds[::-1])
            return flipped.partial_auc(max_fpr=limit, standardized=standardized)
        assert max_fpr is not None
        width = require_number("max_fpr", max_fpr, 0, 1)
        require(width > 0, "a partial area needs max_fpr > 0 or min_tpr < 1, got a width of 0")
        inside = int(np.searchsorted(self.fpr, max_fpr, side="right"))
        fpr = np.append(self.fpr[:inside], max_fpr)
        tpr = np.append(self.tpr[:inside], self.tpr_at(max_fpr))
        area = float(np.trapezoid(tpr, fpr))
        if not standardized:
            return area
        chance = max_fpr**2 / 2
        return 0.5 * (1 + (area - chance) / (max_fpr - chance))

    def tpr_at(self, fpr: ArrayLike) -> Floats | float:
        """Return the highest TPR on the curve at the given FPR (a number or an array)."""
        wanted = require_numbers("fpr", fpr, 0, 1)
        left = np.searchsorted(self.fpr, wanted, side="right") - 1
        right = np.minimum(left + 1, len(self.fpr) - 1)
        return _interpolate(wanted, left, right, self.fpr, self.tpr)

    def fpr_at(self, tpr: ArrayLike) -> Floats | float:
        """Return the lowest FPR on the curve at the given TPR (a number or an array)."""
        wanted = require_numbers("tpr", tpr, 0, 1)
        right = np.searchsorted(self.tpr, wanted, side="left")
        left = np.maximum(right - 1, 0)
        # Measured from the right end, which is exact where the curve has a corner.
        return _interpolate(wanted, right, left, self.tpr, self.fpr)


def _interpolate(
    wanted: Floats, start: Counts, end: Counts, x: Floats, y: Floats
) -> Floats | float:
    """Return y at x = wanted on the segments from corner `start` to corner `end`."""
    run = x[end] - x[start]
    fraction = np.divide(wanted - x[start], run, out=np.zeros_like(wanted), where=run != 0)
    values = y[start] + fraction * (y[end] - y[start])
    return float(values) if wanted.ndim == 0 else values


def roc_curve(
    y: Labels, score: Scores, *, weight: Scores | None = None, drop_intermediate: bool = False
) -> RocCurve:
    """ROC curve of scores (higher means class 1) against labels 0 and 1.

    Arrays, lists and tensors; ties make slanted segments; `weight` weighs samples.
    `drop_intermediate` leaves out corners on a straight line, which changes no area.

    >>> curve = roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> curve.auc
    0.75
    """
    data = check_scored(y, score, weight)
    order = np.argsort(data.score)[::-1]
    score_sorted, positive = data.score[order], data.positive[order]
    weights = np.ones(len(order), np.int64) if data.weight is None else data.weight[order]
    last_of_tie = np.append(np.flatnonzero(score_sorted[1:] != score_sorted[:-1]), len(order) - 1)
    true = np.cumsum(weights * positive)[last_of_tie]
    false = np.cumsum(weights * ~positive)[last_of_tie]
    thresholds = score_sorted[last_of_tie]
    if drop_intermediate and len(thresholds) > 2:
        bends = (np.diff(false, 2) != 0) | (np.diff(true, 2) != 0)
        keep = np.concatenate([[True], bends, [True]])
        true, false, thresholds = true[keep], false[keep], thresholds[keep]
    return RocCurve(
        fpr=np.append(0.0, false / false[-1]),
        tpr=np.append(0.0, true / true[-1]),
        thresholds=np.append(np.asarray(np.inf, thresholds.dtype), thresholds),
    )


def auc(y: Labels, score: Scores, *, weight: Scores | None = None) -> float:
    """Area under the ROC curve: the probability that a positive outscores a negative.

    Ties count half. Without weights it is much faster than building the curve.

    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    if weight is not None:
        return roc_curve(y, score, weight=weight).auc
    data = check_scored(y, score)
    below, up_to = negatives_below(data)
    pairs = len(below) * (len(data.positive) - len(below))
    return (int(below.sum()) + int(up_to.sum())) / (2 * pairs)


def negatives_below(data: Scored) -> tuple[Counts, Counts]:
    """For each positive, in ascending order: how many negatives score less; less or the same."""
    if len(data.score) < LARGE:
        return _bounds(np.sort(data.negatives), np.sort(data.positives))
    # numpy lets other threads run while it sorts and searches, and the halves are independent.
    with ThreadPoolExecutor(2) as pool:
        later = pool.submit(lambda: np.sort(data.negatives))
        positives = np.sort(data.positives)
        negatives = later.result()
        halves = pool.map(lambda half: _bounds(negatives, half), np.array_split(positives, 2))
        below, up_to = (np.concatenate(parts) for parts in zip(*halves, strict=True))
    return below, up_to


def _bounds(ascending: Floats, wanted: Floats) -> tuple[Counts, Counts]:
    """Return how many of `ascending` are less than each wanted value; less or the same."""
    below = np.searchsorted(ascending, wanted, side="left")
    up_to = below.copy()
    tied = np.flatnonzero(below < len(ascending))
    tied = tied[ascending[below[tied]] == wanted[tied]]
    if len(tied):  # a second search only where it can differ: a quarter of the time
        up_to[tied] = np.searchsorted(ascending, wanted[tied], side="right")
    return below, up_to


@dataclass(frozen=True)
class RocBand:
    """Mean, minimum, maximum and standard deviation of TPR at each FPR of the grid.

    Starts at (0, 0) and ends at (1, 1). FPR 0 stands twice in the grid, first with TPR 0, then
    with the TPR that the curves reach there.
    """

    fpr: Floats
    mean: Floats
    low: Floats
    high: Floats
    std: Floats


def roc_band(curves: Sequence[RocCurve], grid: ArrayLike | None = None) -> RocBand:
    """Average curves vertically.

    `grid` holds the false positive rates (default: 1,001 evenly spaced); 0 and 1 are added where
    missing. `std` is the population's (divided by the number of curves).

    >>> curve = RocCurve(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([np.inf, 0.0]))
    >>> roc_band([curve, curve], grid=[0.5]).mean
    array([0. , 0. , 0.5, 1. ])
    """
    listed = not isinstance(curves, RocCurve) and all(isinstance(c, RocCurve) for c in curves)
    require(listed, f"roc_band needs a list of RocCurve, got {type(curves).__name__}")
    require(curves, "roc_band needs at least one curve, got none")
    wanted = np.append(np.linspace(0, 1, 1001) if grid is None else grid, [0.0, 1.0])
    rates = np.unique(require_numbers("grid", wanted, 0, 1))
    tpr = np.array([np.append(0.0, curve.tpr_at(rates)) for curve in curves])
    return RocBand(
        fpr=np.append(0.0, rates),
        mean=tpr.mean(axis=0),
        low=tpr.min(axis=0),
        high=tpr.max(axis=0),
        std=tpr.std(axis=0),
    )
