"""From areas to tables and figure data: plain data in, plain data out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import require_choice
from curvewise.roc.curve import Floats, RocBand, RocCurve, roc_band, roc_curve
from curvewise.stats.cells import Cell, Measured, Table, labels_of, placed

NAN = float("nan")
# Even steps for linear figures, and fine ones near 0 for logarithmic ones.
GRID = np.union1d(np.linspace(0, 1, 1001), np.geomspace(1e-4, 1, 401))


@dataclass(frozen=True)
class ModelArea:
    """One model: its place, label, row of the label's scores, AUC, what it was trained with."""

    task: str
    beta: float | None
    seed: int
    label: str
    row: int
    auc: float
    settings: dict[str, Any]


@dataclass(frozen=True)
class CellStatistics:
    """Statistics of AUC over a label's models in one cell.

    `std` is the sample's (divided by models - 1), nan for a single model.
    """

    task: str
    beta: float | None
    seed: int
    label: str
    models: int
    diverged: int
    mean: float
    min: float
    max: float
    std: float


@dataclass(frozen=True)
class MethodSummary:
    """A label's `CellStatistics` averaged over its cells.

    `models` and `diverged` are totals. `std` averages the cells with two models or more.
    """

    label: str
    cells: int
    models: int
    diverged: int
    mean: float
    min: float
    max: float
    std: float


def model_table(cells: Iterable[Measured]) -> Table[ModelArea]:
    """List every model, cell by cell and label by label."""
    lines = []
    for place, cell in placed(cells).items():
        for label, areas in cell.areas.items():
            settings = cell.settings.get(label, [{}] * len(areas))
            lines += [
                ModelArea(*place, label, row, float(area), dict(settings[row]))
                for row, area in enumerate(areas)
            ]
    return Table(tuple(lines))


def cell_statistics(cells: Iterable[Measured]) -> Table[CellStatistics]:
    """Mean, minimum, maximum and std of AUC over the models, per cell and label."""
    lines = []
    for place, cell in placed(cells).items():
        for label, areas in cell.areas.items():
            mean, low, high = (float(value) for value in (areas.mean(), areas.min(), areas.max()))
            std = float(areas.std(ddof=1)) if len(areas) > 1 else NAN
            diverged = cell.diverged.get(label, 0)
            lines.append(CellStatistics(*place, label, len(areas), diverged, mean, low, high, std))
    return Table(tuple(lines))


def method_summary(cells: Iterable[Measured]) -> Table[MethodSummary]:
    """Average the statistics of each label over its cells.

    A label all of whose models diverged is there too, with nan.

    >>> from curvewise.stats.cells import CellAreas
    >>> areas = {"a": [0.5, 0.7], "b": [0.9]}
    >>> cells = [CellAreas(task, None, 0, {"VS": own}) for task, own in areas.items()]
    >>> line = method_summary(cells).lines[0]
    >>> line.models, round(line.mean, 6), round(line.std, 6)
    (3, 0.75, 0.141421)
    """
    known = list(placed(cells).values())
    statistics = cell_statistics(known).lines
    lines = []
    for label in labels_of(known):
        own = [line for line in statistics if line.label == label]
        lines.append(
            MethodSummary(
                label=label,
                cells=len(own),
                models=sum(line.models for line in own),
                diverged=sum(cell.diverged.get(label, 0) for cell in known),
                mean=_average([line.mean for line in own]),
                min=_average([line.min for line in own]),
                max=_average([line.max for line in own]),
                std=_average([line.std for line in own]),
            )
        )
    return Table(tuple(lines))


def _average(values: list[float]) -> float:
    there = [value for value in values if not np.isnan(value)]
    return float(np.mean(there)) if there else NAN


def roc_bands(cells: Iterable[Cell], grid: ArrayLike = GRID) -> dict[str, RocBand]:
    """Average the ROC curves of all models of a label, of all given cells, into one band.

    Give the cells of one task and beta; several seeds then widen the band by their own spread.
    """
    curves: dict[str, list[RocCurve]] = {}
    for cell in placed(cells).values():
        for label, scores in cell.scores.items():
            own = curves.setdefault(label, [])
            own += [roc_curve(cell.y, score) for score in np.asarray(scores)]
    return {label: roc_band(own, grid) for label, own in curves.items()}


def spread(cells: Iterable[Measured]) -> dict[str, Floats]:
    """Return the areas of all models by label."""
    known = list(placed(cells).values())
    parts = {
        label: [cell.areas[label] for cell in known if label in cell.areas]
        for label in labels_of(known)
    }
    return {label: np.concatenate(own) for label, own in parts.items() if own}


def spread_by(cells: Iterable[Measured], by: str = "beta") -> dict[str, dict[str, Floats]]:
    """Return the areas of all models by label within each beta, task or seed.

    >>> from curvewise.stats.cells import CellAreas
    >>> cells = [CellAreas("a", beta, 0, {"VS": [0.5, 0.7]}) for beta in (10.0, 100.0)]
    >>> list(spread_by(cells))
    ['beta = 10', 'beta = 100']
    """
    require_choice("by", by, ("beta", "task", "seed"))
    groups: dict[str, list[Measured]] = {}
    for place, cell in placed(cells).items():
        groups.setdefault(_group_name(by, getattr(place, by)), []).append(cell)
    return {name: spread(own) for name, own in groups.items()}


def _group_name(by: str, value: str | float | None) -> str:
    if isinstance(value, str):
        return value
    return "data as they are" if value is None else f"{by} = {value:g}"
