"""Many ROC curves as one band: vertical averaging on a shared grid of false positive rates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import InputError
from curvewise.roc.curve import RocCurve
from curvewise.roc.inputs import Floats


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
    if isinstance(curves, RocCurve) or not all(isinstance(c, RocCurve) for c in curves):
        raise InputError(f"roc_band needs a list of RocCurve, got {type(curves).__name__}")
    if not curves:
        raise InputError("roc_band needs at least one curve, got none")
    rates = np.linspace(0, 1, 1001) if grid is None else np.asarray(grid, dtype=np.float64)
    if rates.ndim != 1 or not bool(((rates >= 0) & (rates <= 1)).all()):
        raise InputError(f"grid must be a list of rates in [0, 1], got {grid!r}")
    rates = np.unique(np.concatenate([[0.0], rates, [1.0]]))
    tpr = np.array([np.append(0.0, curve.tpr_at(rates)) for curve in curves])
    return RocBand(
        fpr=np.append(0.0, rates),
        mean=tpr.mean(axis=0),
        low=tpr.min(axis=0),
        high=tpr.max(axis=0),
        std=tpr.std(axis=0),
    )
