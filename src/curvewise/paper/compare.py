"""`compare`: methods over their settings and several subsamples, as a table and two figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from curvewise.base.errors import InputError, did_you_mean
from curvewise.base.files import write_json
from curvewise.figures.curves import plot_band
from curvewise.figures.frames import plot_spread
from curvewise.figures.sheets import new_axes, save
from curvewise.losses.registry import METHODS
from curvewise.report.page_answer import answer
from curvewise.stats.areas import CELL, by_method
from curvewise.stats.bands import roc_bands
from curvewise.stats.comparisons import paired
from curvewise.stats.ensembles import ensemble_areas, ensemble_differences
from curvewise.sweep.frame import models as models_of
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store

LEAST_EPOCHS, LEAST_STEPS, BATCH = 20, 420, 128


@dataclass(frozen=True)
class Comparison:
    """The answer in two sentences, the tables as plain rows, and the figures' files."""

    answer: list[str]
    methods: list[dict[Any, Any]]
    differences: list[Any]
    ensembles: list[Any]
    ensemble_differences: list[Any]
    files: list[Path]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return vars(self) | {"files": [str(file) for file in self.files]}


def comparison_spec(
    source: str,
    *,
    beta: float | None,
    methods: Sequence[str],
    seeds: int,
    n_train: int,
    embed: str | None = None,
    embed_size: int | None = None,
    epochs: int | None = None,
    hidden: Sequence[int] = (64, 64),
    network: str = "mlp",
    preset: str | None = None,
    changes: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
) -> Spec:
    """Return the sweep that compares methods: the paper's 48 settings where a method has them.

    Without a `preset`, training is quick, starts FiLM from the identity, and goes through small
    data more often, so that every model takes at least 420 steps. `changes` are settings of the
    recipe.

    >>> spec = comparison_spec("digits:8", beta=100, methods=["vs", "lct"], seeds=5, n_train=819)
    >>> spec.size, spec.recipe["epochs"]
    (480, 60)
    """
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}")
    for name in methods:
        if name not in METHODS:
            near = did_you_mean(name, METHODS)
            raise InputError(f"methods must be some of {', '.join(METHODS)}, got {name!r}{near}")
    steps = -(-n_train // BATCH)
    features = {"embed": embed, "size": embed_size}
    recipe: dict[str, Any] = {"preset": preset}
    if preset is None:
        length = max(LEAST_EPOCHS, -(-LEAST_STEPS // steps))
        recipe = {"preset": "quick", "epochs": length, "batch_size": BATCH}
    if epochs is not None:
        recipe["epochs"] = epochs
    return Spec.from_dict(
        {
            "name": "compare",
            "tasks": [source],
            "betas": [beta],
            "seeds": list(range(seeds)),
            "data": data or {},
            "features": {name: value for name, value in features.items() if value is not None},
            "network": {"name": network, "hidden": list(hidden)}
            if network == "mlp"
            else {"name": network},
            "recipe": recipe | (changes or {}),
            "methods": [
                {"method": name, "grid": "paper"} if METHODS[name].paper else {"method": name}
                for name in methods
            ],
        }
    )


def compare(store: Store, sweep: int | str, folder: Path) -> Comparison:
    """Read a finished sweep, draw ROC bands and box plots, and write all numbers as JSON."""
    models = models_of(store, sweep)
    first, *others = models["method"].unique()
    labelled = {"method": "label"}
    comparison = Comparison(
        answer=answer(models),
        methods=_rows([by_method(models).rename(columns=labelled)]),
        differences=_rows([paired(models, first, other) for other in others]),
        ensembles=_rows([ensemble_areas(models).rename(columns=labelled)]),
        ensemble_differences=_rows([ensemble_differences(models, first, b) for b in others]),
        files=draw(models, folder),
    )
    write_json(folder / "comparison.json", comparison.as_dict())
    comparison.files.append(folder / "comparison.json")
    return comparison


def _rows(frames: Sequence[pd.DataFrame]) -> list[dict[Any, Any]]:
    return [dict(row) for frame in frames for row in frame.to_dict("records")]


def draw(models: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the bands of all ROC curves and the spread of all AUCs; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    ended = models[models["auc"].notna()]
    task, beta, _ = models[CELL].iloc[0]
    seeds = models["seed"].nunique()
    where = task if isnan(beta) else f"{task}, beta = {beta:g}"
    title = f"{where}, {seeds} subsample{'s' if seeds > 1 else ''}"
    spread = _areas(ended)
    bands = plot_band(roc_bands(models), areas=spread, title=title, ax=new_axes(bare=True))
    by_seed = {f"seed = {seed}": _areas(own) for seed, own in ended.groupby("seed", sort=False)}
    axes = new_axes(9.0 if seeds > 1 else 5.5, bare=True)
    boxes = plot_spread(by_seed if seeds > 1 else spread, title=title, ax=axes)
    files = []
    for name, axes in (("roc_bands.png", bands), ("auc_spread.png", boxes)):
        save(axes, folder / name)
        files.append(folder / name)
    return files


def _areas(models: pd.DataFrame) -> dict[str, Any]:
    return {str(name): own.to_numpy() for name, own in models.groupby("method", sort=False)["auc"]}
