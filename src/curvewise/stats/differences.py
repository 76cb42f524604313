"""How two methods differ in each cell, and over the seeds of a task and beta."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from curvewise.base.errors import require_choice
from curvewise.stats.cells import Measured, Place, Table, placed, require_labels
from curvewise.stats.paired import BETTER, DECIMALS
from curvewise.stats.summary import cell_statistics


@dataclass(frozen=True)
class CellDifference:
    """Statistics of AUC over the models of b less those over a's, in one cell."""

    task: str
    beta: float | None
    seed: int
    max: float
    mean: float
    min: float
    std: float


@dataclass(frozen=True)
class SeedSpread:
    """A difference at one task and beta: average, lowest and highest over its seeds.

    `better` counts the seeds at which b is better (higher; for std lower).
    """

    task: str
    beta: float | None
    statistic: str
    seeds: int
    average: float
    low: float
    high: float
    better: int


def cell_differences(cells: Iterable[Measured], a: str, b: str) -> Table[CellDifference]:
    """Return max, mean, min and std of AUC of b less those of a; std is nan for one model.

    Cells that lack one of the labels are left out.

    >>> from curvewise.stats.cells import CellAreas
    >>> cell = CellAreas("a", 10.0, 0, {"VS": [0.5, 0.75], "LCT": [0.75, 0.75]})
    >>> line = cell_differences([cell], "VS", "LCT").lines[0]
    >>> line.max, line.mean, line.min
    (0.0, 0.125, 0.25)
    """
    known = placed(cells)
    require_labels(known.values(), a, b)
    found = {
        (Place(line.task, line.beta, line.seed), line.label): line
        for line in cell_statistics(known.values()).lines
    }
    lines = []
    for place in known:
        if (place, a) in found and (place, b) in found:
            first, second = found[place, a], found[place, b]
            values = {
                name: round(getattr(second, name) - getattr(first, name), DECIMALS)
                for name in BETTER
            }
            lines.append(CellDifference(*place, **values))
    return Table(tuple(lines))


def values_of(lines: Sequence[CellDifference], statistic: str) -> list[float]:
    """Return the differences of one statistic, without those that could not be had."""
    require_choice("statistic", statistic, BETTER)
    values = [float(getattr(line, statistic)) for line in lines]
    return [value for value in values if not np.isnan(value)]


def count_better(values: Iterable[float], statistic: str) -> int:
    """Count the differences that are for the better: above 0, for std below.

    >>> count_better([0.1, 0.0, -0.1, -0.2], "std")
    2
    """
    return sum(BETTER[statistic] * value > 0 for value in values)


def over_seeds(lines: Sequence[CellDifference], statistic: str) -> Table[SeedSpread]:
    """Return average and range over the seeds of each task and beta, in their order."""
    groups: dict[tuple[str, float | None], list[CellDifference]] = {}
    for line in lines:
        groups.setdefault((line.task, line.beta), []).append(line)
    found = []
    for (task, beta), own in groups.items():
        values = values_of(own, statistic)
        if values:
            found.append(
                SeedSpread(
                    task=task,
                    beta=beta,
                    statistic=statistic,
                    seeds=len(values),
                    average=float(np.mean(values)),
                    low=min(values),
                    high=max(values),
                    better=count_better(values, statistic),
                )
            )
    return Table(tuple(found))
