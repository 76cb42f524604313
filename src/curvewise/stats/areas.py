"""The AUC of many models: in each cell, by method, and how two methods differ.

A frame of models has one row a model, with `task`, `beta` (nan: data as they are), `seed`,
`method` and `auc` (nan: the model diverged); its settings are columns of their own. A cell is one
task at one beta and one seed, so one test set.
"""

import pandas as pd

from curvewise.base.errors import require_choice

CELL = ["task", "beta", "seed"]
# The paper's statistics over the models of a cell, and the sign of a change for the better.
BETTER = {"max": 1, "mean": 1, "min": 1, "std": -1}
DECIMALS = 12  # of a difference that mean something; rounding errors would break ties


def by_cell(models: pd.DataFrame) -> pd.DataFrame:
    """Return models, diverged, mean, min, max and std of AUC for each cell and method.

    `std` is the sample's (divided by models - 1), nan for a single model.

    >>> models = pd.DataFrame({"task": "a", "beta": 10.0, "seed": 0, "method": "VS",
    ...                        "auc": [0.5, 0.75, None]})
    >>> by_cell(models)[["models", "diverged", "mean"]].values.tolist()
    [[2.0, 1.0, 0.625]]
    """
    areas = models.groupby([*CELL, "method"], sort=False, dropna=False)["auc"]
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
    for name in (a, b):
        require_choice("method", name, cells["method"].unique())
    cells = cells[cells["models"] > 0]
    first, second = (cells[cells["method"] == name] for name in (a, b))
    both = first.merge(second, on=CELL, suffixes=("", " of b"))
    for name in BETTER:
        both[name] = (both[f"{name} of b"] - both[name]).round(DECIMALS)
    return both[[*CELL, *BETTER]]
