"""`compare`: methods over their settings and several subsamples, as a table and two figures."""

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from curvewise.base.errors import require_choice, require_whole
from curvewise.base.files import write_json
from curvewise.figures.curves import plot_band
from curvewise.figures.frames import plot_spread
from curvewise.figures.sheets import new_axes, save
from curvewise.losses.registry import METHODS
from curvewise.stats.areas import CELL, by_method, roc_bands
from curvewise.stats.comparisons import paired
from curvewise.stats.ensembles import ensemble_areas, ensemble_differences
from curvewise.sweep.spec import Spec

LEAST_EPOCHS, LEAST_STEPS, BATCH, HIDDEN = 20, 420, 128, [64, 64]


def comparison_spec(
    source: str,
    *,
    beta: float | None,
    methods: Sequence[str],
    seeds: int,
    n_train: int,
    network: str = "mlp",
    preset: str | None = None,
    changes: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    features: dict[str, Any] | None = None,
) -> Spec:
    """Return the sweep that compares methods: the paper's 48 settings where a method has them.

    Without a `preset`, training is quick, starts FiLM from the identity, and goes through small
    data more often, so that every model takes at least 420 steps. `changes` are settings of the
    recipe.

    >>> spec = comparison_spec("digits:8", beta=100, methods=["vs", "lct"], seeds=5, n_train=819)
    >>> spec.size, spec.recipe["epochs"]
    (480, 60)
    """
    require_whole("seeds", seeds)
    for name in methods:
        require_choice("methods", name, METHODS)
    recipe: dict[str, Any] = {"preset": preset}
    if preset is None:
        steps = -(-n_train // BATCH)
        length = max(LEAST_EPOCHS, -(-LEAST_STEPS // steps))
        recipe = {"preset": "quick", "epochs": length, "batch_size": BATCH}
    return Spec.from_dict(
        {
            "name": "compare",
            "tasks": [source],
            "betas": [beta],
            "seeds": list(range(seeds)),
            "data": data or {},
            "features": features or {},
            "network": {"name": network} | ({"hidden": HIDDEN} if network == "mlp" else {}),
            "recipe": recipe | (changes or {}),
            "methods": [
                {"method": name, **({"grid": "paper"} if METHODS[name].paper else {})}
                for name in methods
            ],
        }
    )


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
    by_seed = models.dropna(subset="auc").groupby("seed", sort=False)
    areas = groups = _areas(models.dropna(subset="auc"))
    several = models["seed"].nunique() > 1
    if several:
        groups = {f"seed = {seed}": _areas(rows) for seed, rows in by_seed}
    where = task if isnan(beta) else f"{task}, beta = {beta:g}"
    title = f"{where}, {models['seed'].nunique()} subsample{'s' * several}"
    bands, spread = new_axes(bare=True), new_axes(9.0 if several else 5.5, bare=True)
    plot_band(roc_bands(models), areas=areas, title=title, ax=bands)
    plot_spread(groups, title=title, ax=spread)
    files = [folder / "roc_bands.png", folder / "auc_spread.png"]
    for axes, file in zip((bands, spread), files, strict=True):
        save(axes, file)
    return list(map(str, files))


def _areas(models: pd.DataFrame) -> dict[str, Any]:
    return {str(name): own.to_numpy() for name, own in models.groupby("method", sort=False)["auc"]}
