"""`compare`: methods over their settings and several subsamples, as a table and two figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError, did_you_mean
from curvewise.base.files import write_json
from curvewise.figures.curves import bare_axes, plot_band, plot_spread
from curvewise.losses.registry import METHODS
from curvewise.paper.cells import cells_of, models_of
from curvewise.report.page_answer import answer
from curvewise.stats.cells import Cell
from curvewise.stats.comparisons import paired
from curvewise.stats.ensembles import ensemble_areas, ensemble_differences
from curvewise.stats.summary import method_summary, roc_bands, spread, spread_by
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store

LEAST_EPOCHS, LEAST_STEPS, BATCH = 20, 420, 128


@dataclass(frozen=True)
class Comparison:
    """The answer in two sentences, the tables as plain rows, and the figures' files."""

    answer: list[str]
    methods: list[dict[str, Any]]
    differences: list[Any]
    ensembles: list[Any]
    ensemble_differences: list[Any]
    files: list[Path]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "answer": self.answer,
            "methods": self.methods,
            "differences": self.differences,
            "ensembles": self.ensembles,
            "ensemble_differences": self.ensemble_differences,
            "files": [str(file) for file in self.files],
        }


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
    cells = cells_of(store, sweep)
    labels = list(dict.fromkeys(label for cell in cells for label in cell.scores))
    pairs = [(labels[0], other) for other in labels[1:]]
    models = models_of(cells)
    comparison = Comparison(
        answer=answer(cells),
        methods=method_summary(cells).rows(),
        differences=[row for a, b in pairs for row in paired(models, a, b).to_dict("records")],
        ensembles=ensemble_areas(models).rename(columns={"method": "label"}).to_dict("records"),
        ensemble_differences=[
            row for a, b in pairs for row in ensemble_differences(models, a, b).to_dict("records")
        ],
        files=draw(cells, folder),
    )
    write_json(folder / "comparison.json", comparison.as_dict())
    comparison.files.append(folder / "comparison.json")
    return comparison


def draw(cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Draw the bands of all ROC curves and the spread of all AUCs; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    first = cells[0]
    beta = "" if first.beta is None else f", beta = {first.beta:g}"
    title = f"{first.task}{beta}, {len(cells)} subsample{'s' if len(cells) > 1 else ''}"
    bands = plot_band(roc_bands(cells), areas=spread(cells), title=title, ax=bare_axes())
    boxes = plot_spread(
        spread_by(cells, by="seed") if len(cells) > 1 else spread(cells),
        title=title,
        ax=bare_axes(9.0 if len(cells) > 1 else 5.5),
    )
    files = []
    for name, axes in (("roc_bands.png", bands), ("auc_spread.png", boxes)):
        axes.get_figure(root=True).savefig(folder / name, dpi=150)  # type: ignore[union-attr]
        files.append(folder / name)
    return files
