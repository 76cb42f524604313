"""Two methods compared cell by cell: wins, the average difference, and three tests of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from curvewise.base.errors import require_choice
from curvewise.stats.cells import Measured, Place, Table, placed, require_labels
from curvewise.stats.comparisons import signed_rank_p
from curvewise.stats.summary import CellStatistics, cell_statistics

NAN = float("nan")
Doubles = NDArray[np.float64]
# The paper's statistics over the models of a cell, and the sign of a change for the better.
BETTER = {"max": 1, "mean": 1, "min": 1, "std": -1}
FEWEST = 3  # differences below which a test says nothing
DECIMALS = 12  # of a difference that mean something; rounding errors would break ties


@dataclass(frozen=True)
class PairedDifference:
    """One statistic of two labels, compared pair by pair.

    `wins` are the pairs where b is better (higher; for std lower), `losses` those where a is;
    `difference` is the average of b - a. A p that cannot be had is nan, and `reason` (t-test and
    Wilcoxon) or `corrected_reason` says why.
    """

    statistic: str
    a: str
    b: str
    pairs: int
    wins: int
    ties: int
    losses: int
    difference: float
    t_test_p: float
    wilcoxon_p: float
    corrected_p: float
    reason: str
    corrected_reason: str


def paired_differences(
    cells: Iterable[Measured], a: str, b: str, *, unit: str = "cell"
) -> Table[PairedDifference]:
    """Compare max, mean, min and std of AUC over the models of a and b.

    Parameters
    ----------
    cells
        Those that lack one of the labels are left out (for std also those with one model).
    unit
        What makes a pair: "cell", or "task", for which the cells of one task and beta are averaged
        first, because seeds of one task are no independent evidence beside other tasks.

    The tests are two-sided: Student's t on the pairs' differences, Wilcoxon's signed ranks (whose
    p cannot be below 2^(1 - pairs)), and where all pairs are resamples of one task, Nadeau and
    Bengio's corrected t (2003, Machine Learning 52), whose variance is that of the differences
    times ``1 / pairs + n_test / n_train``: resamples overlap, and the plain t is too sure.

    >>> from curvewise.stats.cells import CellAreas
    >>> cells = [
    ...     CellAreas("a", None, seed, {"VS": [0.8], "LCT": [high]}, n_train=90, n_test=10)
    ...     for seed, high in enumerate([0.81, 0.82, 0.83, 0.84])
    ... ]
    >>> line = paired_differences(cells, "VS", "LCT").lines[1]
    >>> line.statistic, line.wins, round(line.t_test_p, 4), round(line.corrected_p, 4)
    ('mean', 4, 0.0305, 0.0485)
    """
    require_choice("unit", unit, ("cell", "task"))
    known = placed(cells)
    require_labels(known.values(), a, b)
    by_label: dict[str, dict[Place, CellStatistics]] = {a: {}, b: {}}
    for line in cell_statistics(known.values()).lines:
        if line.label in by_label:
            by_label[line.label][Place(line.task, line.beta, line.seed)] = line
    lines = []
    for statistic in BETTER:
        differences = {
            place: getattr(by_label[b][place], statistic) - getattr(line, statistic)
            for place, line in by_label[a].items()
            if place in by_label[b]
        }
        there = {place: value for place, value in differences.items() if not np.isnan(value)}
        ratio, why = _test_to_train([known[place] for place in there])
        lines.append(_compared(statistic, a, b, _per_unit(there, unit), ratio, why))
    return Table(tuple(lines))


def _per_unit(differences: dict[Place, float], unit: str) -> Doubles:
    groups: dict[tuple[object, ...], list[float]] = {}
    for place, value in differences.items():
        groups.setdefault(place if unit == "cell" else place[:2], []).append(value)
    return np.round([float(np.mean(values)) for values in groups.values()], DECIMALS)


def _test_to_train(cells: list[Measured]) -> tuple[float, str]:
    """Return n_test / n_train of resamples of one task, or nan and why there is none."""
    tasks = {(cell.task, cell.beta) for cell in cells}
    if len(tasks) > 1:
        return NAN, f"only for resamples of one task at one beta, got {len(tasks)}"
    sizes = [(cell.n_test, cell.n_train) for cell in cells]
    ratios = [test / train for test, train in sizes if test is not None and train]
    if len(ratios) < len(sizes):
        return NAN, "n_train or n_test of a cell is not known"
    return (float(np.mean(ratios)), "") if ratios else (NAN, "")


def _compared(
    statistic: str, a: str, b: str, differences: Doubles, ratio: float, why: str
) -> PairedDifference:
    gains = BETTER[statistic] * differences
    n = len(differences)
    reason = ""
    if n < FEWEST:
        reason = f"at least {FEWEST} pairs are needed, got {n}"
    elif not differences.any():
        reason = "all differences are 0"
    elif np.ptp(differences) == 0:
        reason = "all differences are the same, so t has no variance"
    return PairedDifference(
        statistic=statistic,
        a=a,
        b=b,
        pairs=n,
        wins=int((gains > 0).sum()),
        ties=int((gains == 0).sum()),
        losses=int((gains < 0).sum()),
        difference=float(differences.mean()) if n else NAN,
        t_test_p=NAN if reason else _t_test(differences, 1 / n),
        wilcoxon_p=NAN if n < FEWEST or not differences.any() else signed_rank_p(differences),
        corrected_p=NAN if reason or why else _t_test(differences, 1 / n + ratio),
        reason=reason,
        corrected_reason=reason or why,
    )


def _t_test(differences: Doubles, share: float) -> float:
    """Return the two-sided p of a mean whose variance is `share` times that of the values."""
    error = float(differences.std(ddof=1)) * sqrt(share)
    return 2 * float(stdtr(len(differences) - 1, -abs(float(differences.mean())) / error))
