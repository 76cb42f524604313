"""ROC curves as the page has them: only the corners that a rule can choose, packed as text."""

import base64
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvewise.roc.curve import Floats, Labels, Scores, check_scored, roc_curve

Counts = NDArray[np.int64]


class Corners(NamedTuple):
    """Positives and negatives at or above each threshold, from (0, 0, inf) to (N, P, lowest)."""

    false: Counts
    true: Counts
    thresholds: Floats


def corners(y: Labels, score: Scores, keep_at: float | None = None) -> Corners:
    """Return the curve without the inner points of its upright and level stretches.

    No rule of `choose_operating_point` can choose one of those, whatever its target: at one FPR
    the highest TPR is better, at one TPR the lowest FPR. Points on slanted stretches, which ties
    make, stay, and so does that of the samples with scores of at least `keep_at`.

    >>> found = corners([1, 1, 1, 0, 0, 1], [6, 5, 4, 3, 2, 1])
    >>> found.true.tolist(), found.false.tolist(), found.thresholds.tolist()
    ([0, 3, 3, 4], [0, 0, 2, 2], [inf, 4.0, 2.0, 1.0])
    """
    data, curve = check_scored(y, score), roc_curve(y, score)
    positives = int(np.count_nonzero(data.positive))
    true = np.rint(curve.tpr * positives).astype(np.int64)
    false = np.rint(curve.fpr * (len(data.positive) - positives)).astype(np.int64)
    rise, run = np.diff(true), np.diff(false)
    upright = (run[:-1] == 0) & (run[1:] == 0)
    level = (rise[:-1] == 0) & (rise[1:] == 0)
    keep = np.concatenate([[True], ~(upright | level), [True]])
    if keep_at is not None:
        keep[corner_at(curve.thresholds, keep_at)] = True
    return Corners(false[keep], true[keep], np.asarray(curve.thresholds[keep]))


def corner_at(thresholds: Floats, threshold: float) -> int:
    """Return which point calls those positive whose scores are at least a threshold.

    Thresholds (k,) fall from infinity, and hold every score, or every one that matters here.

    >>> corner_at(np.array([np.inf, 3.0, 2.0, 1.0]), 2.5), corner_at(np.array([np.inf, 3.0]), 4.0)
    (1, 0)
    """
    return int(np.count_nonzero(np.asarray(thresholds, np.float64) >= threshold)) - 1


def packed_corners(curves: Sequence[Corners]) -> dict[str, object]:
    """Return many curves as one compressed text, with what is needed to unpack it.

    The steps of both counts (uint32) and the thresholds (float32 if that is exact, or float64),
    all first bytes first, deflated, in base64. The first threshold of a curve, infinity, is there.
    """
    thresholds = np.concatenate([np.asarray(curve.thresholds, np.float64) for curve in curves])
    with np.errstate(over="ignore"):
        single = np.array_equal(thresholds, thresholds.astype(np.float32).astype(np.float64))
    parts = [
        np.concatenate([np.diff(curve.false, prepend=0) for curve in curves]).astype("<u4"),
        np.concatenate([np.diff(curve.true, prepend=0) for curve in curves]).astype("<u4"),
        thresholds.astype("<f4" if single else "<f8"),
    ]
    data = zlib.compress(b"".join(_planes(part) for part in parts), 9)
    return {
        "lengths": [len(curve.false) for curve in curves],
        "bytes": 4 if single else 8,
        "data": base64.b64encode(data).decode(),
    }


def _planes(values: NDArray[np.generic]) -> bytes:
    return values.view(np.uint8).reshape(len(values), values.itemsize).T.tobytes()
