"""AUC and ROC curves of many models: in each cell, by method, and how two methods differ.

A frame of models has one row a model, with `task`, `beta` (nan: data as they are), `seed`,
`method` and `auc` (nan: the model diverged); its settings are columns of their own. A cell is one
task at one beta and one seed, so one test set.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from curvewise.roc.curve import RocBand, RocCurve, roc_band, roc_curve

CELL = ["task", "beta", "seed"]
# The paper's statistics over the models of a cell, and the sign of a change for the better.
BETTER = {"max": 1, "mean": 1, "min": 1, "std": -1}
DECIMALS = 12  # of a difference that mean something; rounding errors would break ties
# Even steps for linear figures, and fine ones near 0 for logarithmic ones.
GRID = np.union1d(np.linspace(0, 1, 1001), np.geomspace(1e-4, 1, 401))
THIN = np.linspace(0, 1, 251)  # as fine as print shows


def by_cell(models: pd.DataFrame, by: Sequence[str] = (*CELL, "method")) -> pd.DataFrame:
    """Return models, diverged, mean, min, max and std of AUC, by default of a cell and method.

    `std` is the sample's (divided by models - 1), nan for a single model.

    >>> models = pd.DataFrame({"task": "a", "beta": 10.0, "seed": 0, "method": "VS",
    ...                        "auc": [0.5, 0.75, None]})
    >>> by_cell(models)[["models", "diverged", "mean"]].values.tolist()
    [[2.0, 1.0, 0.625]]
    """
    areas = models.groupby(list(by), sort=False, dropna=False)["auc"]
    found = areas.agg(models="count", mean="mean", min="min", max="max", std="std")
    found.insert(1, "diverged", areas.size() - found["models"])
    return found.reset_index()


def by_method(models: pd.DataFrame) -> pd.DataFrame:
    """Return the statistics of `by_cell` averaged over the cells of each method.

    `models` and `diverged` are totals, `cells` those with a model that ended; `std` averages the
    cells with two models or more. A method all of whose models diverged is there too, with nan.
    """
    cells = by_cell(models)
    cells.insert(0, "cells", (cells["models"] > 0).astype(int))
    totals, averages = ["cells", "models", "diverged"], ["mean", "min", "max", "std"]
    how = dict.fromkeys(totals, "sum") | dict.fromkeys(averages, "mean")
    return cells.groupby("method", sort=False).agg(how).reset_index()


def differences(models: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """Return max, mean, min and std of AUC of method b less those of a in each cell with both.

    >>> areas = {"VS": [0.5, 0.75], "LCT": [0.75, 0.75]}
    >>> models = pd.DataFrame([{"task": "a", "beta": 10.0, "seed": 0, "method": name, "auc": area}
    ...                        for name, own in areas.items() for area in own])
    >>> differences(models, "VS", "LCT")[["max", "mean", "min"]].values.tolist()
    [[0.0, 0.125, 0.25]]
    """
    cells = by_cell(models)
    first, second = (cells[(cells["method"] == name) & (cells["models"] > 0)] for name in (a, b))
    both = first.merge(second, on=CELL, suffixes=("", " of b"))
    for name in BETTER:
        both[name] = (both[f"{name} of b"] - both[name]).round(DECIMALS)
    return both[[*CELL, *BETTER]]


def curves_of(models: pd.DataFrame) -> list[RocCurve]:
    """Return the ROC curve of each model that has a `score` (n,) for its labels `y` (n,)."""
    there = models[models["auc"].notna()]
    return [roc_curve(y, score) for y, score in zip(there["y"], there["score"], strict=True)]


def roc_bands(models: pd.DataFrame, grid: ArrayLike = GRID) -> dict[str, RocBand]:
    """Average the ROC curves of all models of a method, of all cells, into one band.

    Give the models of one task and beta; several seeds then widen the band by their own spread.
    """
    groups = models[models["auc"].notna()].groupby("method", sort=False)
    return {str(method): roc_band(curves_of(group), grid) for method, group in groups}


def percentile_band(models: pd.DataFrame) -> pd.DataFrame:
    """Return mean, minimum and maximum of TPR at each FPR, and what holds 95 % of the models.

    `lower` and `upper` are the 2.5 and 97.5 percentiles. FPR 0 stands twice, as in `RocBand`: with
    TPR 0, then with the TPR that the curves reach there.
    """
    curves = curves_of(models)
    band = roc_band(curves, THIN)
    tpr = np.array([np.append(0.0, curve.tpr_at(band.fpr[1:])) for curve in curves])
    lower, upper = np.percentile(tpr, [2.5, 97.5], axis=0)
    edges: dict[str, Any] = {"mean": band.mean, "minimum": band.low, "maximum": band.high}
    return pd.DataFrame({"fpr": band.fpr, **edges, "lower": lower, "upper": upper})
