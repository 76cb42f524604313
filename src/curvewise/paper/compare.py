"""`compare`: methods over their settings and several subsamples, as a table and two figures."""

from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from curvewise.base.files import write_json
from curvewise.figures.curves import plot_band
from curvewise.figures.frames import plot_spread
from curvewise.figures.sheets import new_axes, save
from curvewise.stats.areas import CELL, by_method, roc_bands
from curvewise.stats.comparisons import paired
from curvewise.stats.ensembles import ensemble_areas, ensemble_differences


def compare(models: pd.DataFrame, answer: list[str], folder: Path) -> dict[str, Any]:
    """Draw ROC bands and box plots of a finished sweep's models, and write all numbers as JSON.

    They are returned: the answer in two sentences, tables as plain rows, and the files.
    """
    first, *others = models["method"].unique()
    label, files = {"method": "label"}, _draw(models, folder)
    comparison = {
        "answer": answer,
        "methods": _rows(by_method(models).rename(columns=label)),
        "differences": _rows(*(paired(models, first, other) for other in others)),
        "ensembles": _rows(ensemble_areas(models).rename(columns=label)),
        "ensemble_differences": _rows(*(ensemble_differences(models, first, b) for b in others)),
        "files": files,
    }
    write_json(folder / "comparison.json", comparison)
    return comparison | {"files": [*files, str(folder / "comparison.json")]}


def _rows(*tables: pd.DataFrame) -> list[Any]:
    return [row for table in tables for row in table.to_dict("records")]


def _draw(models: pd.DataFrame, folder: Path) -> list[str]:
    """Draw the bands of all ROC curves and the spread of all AUCs; return the files."""
    task, beta, _ = models[CELL].iloc[0]
    ended, seeds = models.dropna(subset="auc"), models["seed"].nunique()
    areas = groups = _areas(ended)
    if seeds > 1:
        groups = {
            f"seed = {seed}": _areas(rows) for seed, rows in ended.groupby("seed", sort=False)
        }
    title = f"{task}, " if isnan(beta) else f"{task}, beta = {beta:g}, "
    title += f"{seeds} subsample{'s' * (seeds > 1)}"
    bands, spread = new_axes(bare=True), new_axes(9.0 if seeds > 1 else 5.5, bare=True)
    plot_band(roc_bands(models), areas=areas, title=title, ax=bands)
    plot_spread(groups, title=title, ax=spread)
    files = [folder / "roc_bands.png", folder / "auc_spread.png"]
    for axes, file in zip((bands, spread), files, strict=True):
        save(axes, file)
    return list(map(str, files))


def _areas(models: pd.DataFrame) -> dict[str, Any]:
    return {str(name): own.to_numpy() for name, own in models.groupby("method", sort=False)["auc"]}
