"""Many ROC curves as one band: their mean, their edges, and where most of them lie."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from curvewise.base.errors import require_open
from curvewise.roc.curve import Floats, RocBand, RocCurve, roc_band, roc_curve

# Even steps for linear figures, and fine ones near 0 for logarithmic ones.
GRID = np.union1d(np.linspace(0, 1, 1001), np.geomspace(1e-4, 1, 401))
THIN = np.linspace(0, 1, 251)  # as fine as print shows


def curves_of(models: pd.DataFrame) -> "list[RocCurve]":
    """Return the ROC curve of each model that has a `score` (n,) for its labels `y` (n,)."""
    there = models[models["auc"].notna()]
    return [roc_curve(y, score) for y, score in zip(there["y"], there["score"], strict=True)]


def roc_bands(models: pd.DataFrame, grid: ArrayLike = GRID) -> dict[str, RocBand]:
    """Average the ROC curves of all models of a method, of all cells, into one band.

    Give the models of one task and beta; several seeds then widen the band by their own spread.
    """
    groups = models[models["auc"].notna()].groupby("method", sort=False)
    return {str(method): roc_band(curves_of(group), grid) for method, group in groups}


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
