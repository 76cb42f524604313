"""The AUC of every model as rows, and back: what most tables and box plots are made from."""

from collections.abc import Sequence
from typing import Any

from curvewise.paper.experiment import Rows
from curvewise.stats.cells import Cell, CellAreas, Measured
from curvewise.stats.summary import (
    CellStatistics,
    MethodSummary,
    cell_statistics,
    method_summary,
    model_table,
)

SETTINGS = ("omega", "gamma", "tau")


def area_rows(cells: Sequence[Cell]) -> Rows:
    """List the models of all cells: task, beta, seed, method, its settings, AUC.

    A diverged model is a row without AUC.
    """
    rows: Rows = []
    for line in model_table(cells).lines:
        settings = {name: line.settings.get(name) for name in SETTINGS}
        place = {"task": line.task, "beta": line.beta, "seed": line.seed, "method": line.label}
        rows.append({**place, **settings, "auc": line.auc})
    for cell in cells:
        place = {"task": cell.task, "beta": cell.beta, "seed": cell.seed}
        for label, count in cell.diverged.items():
            nothing = dict.fromkeys((*SETTINGS, "auc"))
            rows += [{**place, "method": label, **nothing} for _ in range(count)]
    return rows


def cells_from(rows: Rows) -> list[CellAreas]:
    """Return the cells of `area_rows`, in order.

    >>> place = {"task": "a", "beta": 100, "seed": 0, "omega": 0.5, "gamma": 0, "tau": 1}
    >>> cells_from([{**place, "method": "VS", "auc": 0.9}])[0].areas["VS"]
    array([0.9])
    """
    groups: dict[tuple[str, float | None, int], dict[str, Rows]] = {}
    for row in rows:
        place = (row["task"], row["beta"], row["seed"])
        groups.setdefault(place, {}).setdefault(row["method"], []).append(row)
    cells = []
    for place, methods in groups.items():
        done = {
            name: [row for row in own if row["auc"] is not None] for name, own in methods.items()
        }
        cells.append(
            CellAreas(
                *place,
                areas={name: [row["auc"] for row in own] for name, own in done.items() if own},  # type: ignore[misc]
                settings={
                    name: [{key: row.get(key) for key in SETTINGS} for row in own]
                    for name, own in done.items()
                    if own
                },
                diverged={name: len(own) - len(done[name]) for name, own in methods.items()},
            )
        )
    return cells


def statistics_table(cells: Sequence[Measured]) -> Rows:
    """Return one row a cell and method: models, mean, minimum, maximum and std of AUC."""
    return [
        {"task": line.task, "beta": line.beta, "seed": line.seed, **_statistics(line)}
        for line in cell_statistics(cells).lines
    ]


def summary_table(cells: Sequence[Measured]) -> Rows:
    """Return one row a method: the statistics of its cells, averaged."""
    return [_statistics(line) for line in method_summary(cells).lines]


def _statistics(line: CellStatistics | MethodSummary) -> dict[str, Any]:
    return {
        "method": line.label,
        "models": line.models,
        "mean AUC": line.mean,
        "min": line.min,
        "max": line.max,
        "std": line.std,
    }


def without_empty_notes(rows: Rows) -> Rows:
    """Return rows without their notes if none says anything."""
    if any(row["note"] for row in rows):
        return rows
    return [{name: value for name, value in row.items() if name != "note"} for row in rows]
