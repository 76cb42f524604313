"""Many ROC curves as one band of percentiles: where most of them lie at each FPR."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import require_open
from curvewise.roc.curve import RocCurve, roc_band
from curvewise.roc.inputs import Floats

THIN = np.linspace(0, 1, 251)  # as fine as print shows


@dataclass(frozen=True, eq=False)
class PercentileBand:
    """Mean, minimum and maximum of TPR at each FPR, and the range that holds `level` of the curves.

    FPR 0 stands twice, as in `RocBand`: with TPR 0, then with the TPR that the curves reach there.
    """

    fpr: Floats
    mean: Floats
    minimum: Floats
    maximum: Floats
    lower: Floats
    upper: Floats
    level: float


def percentile_band(
    curves: Sequence[RocCurve], *, level: float = 0.95, grid: ArrayLike = THIN
) -> PercentileBand:
    """Return the band of curves; at level 0.95 its edges are the 2.5 and 97.5 percentiles of TPR.

    >>> from curvewise.roc.curve import roc_curve
    >>> curves = [roc_curve([0, 1], [0, 1]), roc_curve([0, 1], [1, 0])]
    >>> band = percentile_band(curves, level=0.5, grid=[0.5])
    >>> [float(edge[2]) for edge in (band.minimum, band.lower, band.upper, band.maximum)]
    [0.0, 0.25, 0.75, 1.0]
    """
    require_open("level", level, 0, 1)
    band = roc_band(curves, grid)
    rates = band.fpr[1:]
    tpr = np.array([np.append(0.0, curve.tpr_at(rates)) for curve in curves])
    lower, upper = np.percentile(tpr, [50 * (1 - level), 50 * (1 + level)], axis=0)
    return PercentileBand(band.fpr, band.mean, band.low, band.high, lower, upper, level)
