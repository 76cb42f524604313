"""All models of a method as one score: how good it is, and which method's is better."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from curvewise.roc.interval import auc_interval, compare_auc
from curvewise.roc.many import ensemble_score
from curvewise.stats.cells import Cell, Table, placed, require_labels


@dataclass(frozen=True)
class EnsembleArea:
    """AUC of a label's models as one score, with its interval, beside the single models'.

    `beats` counts the models whose AUC is lower; `interval` names how the interval was found.
    """

    task: str
    beta: float | None
    seed: int
    label: str
    models: int
    auc: float
    low: float
    high: float
    level: float
    interval: str
    beats: int
    best_model: float
    mean_model: float


@dataclass(frozen=True)
class EnsembleDifference:
    """AUC of the ensemble of b minus that of a on the same samples, tested against 0.

    `test` is "delong", or "hoeffding" where DeLong's variance says nothing.
    """

    task: str
    beta: float | None
    seed: int
    a: str
    b: str
    difference: float
    low: float
    high: float
    level: float
    z: float
    p: float
    test: str


def ensemble_summary(
    cells: Iterable[Cell], method: str = "standardised", *, level: float = 0.95
) -> Table[EnsembleArea]:
    """Score the ensemble of each label in each cell (`method` as in `ensemble_score`).

    >>> cell = Cell("a", None, 0, [0, 0, 1, 1], {"VS": [[1, 2, 3, 2], [2, 1, 2, 3]]})
    >>> line = ensemble_summary([cell]).lines[0]
    >>> line.auc, line.beats, line.models, line.best_model
    (1.0, 2, 2, 0.875)
    """
    lines = []
    for place, cell in placed(cells).items():
        for label, areas in cell.areas.items():
            score = ensemble_score(np.asarray(cell.scores[label]), method)
            found = auc_interval(cell.y, score, level)
            lines.append(
                EnsembleArea(
                    *place,
                    label=label,
                    models=len(areas),
                    auc=found.auc,
                    low=found.low,
                    high=found.high,
                    level=level,
                    interval=found.method,
                    beats=int((areas < found.auc).sum()),
                    best_model=float(areas.max()),
                    mean_model=float(areas.mean()),
                )
            )
    return Table(tuple(lines))


def ensemble_differences(
    cells: Iterable[Cell], a: str, b: str, method: str = "standardised", *, level: float = 0.95
) -> Table[EnsembleDifference]:
    """Compare the ensembles of two labels in each cell that has both (DeLong, paired)."""
    known = placed(cells)
    require_labels(known.values(), a, b)
    lines = []
    for place, cell in known.items():
        if a in cell.scores and b in cell.scores:
            first, second = (
                ensemble_score(np.asarray(cell.scores[label]), method) for label in (a, b)
            )
            found = compare_auc(cell.y, second, first, level=level)
            lines.append(
                EnsembleDifference(
                    *place,
                    a=a,
                    b=b,
                    difference=found.difference,
                    low=found.low,
                    high=found.high,
                    level=level,
                    z=found.z,
                    p=found.p,
                    test=found.method,
                )
            )
    return Table(tuple(lines))
