"""LCT less VS as tables and in words: what most figures are judged by."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from curvewise.paper.experiment import Rows
from curvewise.stats.cells import CellAreas, Measured
from curvewise.stats.differences import CellDifference, cell_differences, count_better, values_of
from curvewise.stats.paired import BETTER, paired_differences

VS, LCT = "VS", "VS + LCT"
STATISTICS = ("mean", "min", "max", "std")
# Of VS's four values of tau, 0 does nothing for the rare class, and LCT never stays there.
SHIFTED = f"{LCT} less {VS} without its models at tau = 0 (a control that the paper lacks)"


def gains(cells: Sequence[Measured]) -> tuple[CellDifference, ...]:
    """Return LCT less VS in each cell."""
    return cell_differences(cells, VS, LCT).lines


def shifted(cells: Sequence[CellAreas]) -> list[CellAreas]:
    """Return the cells without VS's models at tau = 0; those without any other are left out.

    >>> settings = {VS: [{"tau": 0.0}, {"tau": 2.0}]}
    >>> cell = CellAreas("a", 100.0, 0, {VS: np.array([0.7, 0.8])}, settings)
    >>> shifted([cell])[0].areas[VS]
    array([0.8])
    """
    found = []
    for cell in cells:
        settings = cell.settings.get(VS, [])
        kept = [k for k, own in enumerate(settings) if own["tau"]]
        if kept:
            found.append(
                replace(
                    cell,
                    areas={**cell.areas, VS: cell.areas[VS][kept]},
                    settings={**cell.settings, VS: [settings[k] for k in kept]},
                )
            )
    return found


def shifted_gains(cells: Sequence[CellAreas]) -> tuple[CellDifference, ...]:
    """Return LCT less VS without its models at tau = 0, in cells that have others."""
    later = shifted(cells)
    return gains(later) if later else ()


def shifted_table(control: Sequence[CellDifference]) -> dict[str, Rows]:
    """Return the table of `shifted_gains` by its title, nothing where there are none."""
    return {SHIFTED: gain_table(control)} if control else {}


def gain_table(lines: Sequence[CellDifference]) -> Rows:
    """Return one row a cell: by how much LCT differs, and in what it is ahead."""
    return [
        {
            "task": line.task,
            "beta": line.beta,
            "seed": line.seed,
            **{name: getattr(line, name) for name in STATISTICS},
            "LCT better in": ", ".join(
                name for name in STATISTICS if count_better([getattr(line, name)], name)
            )
            or "nothing",
        }
        for line in lines
    ]


def paired_table(cells: Sequence[Measured], unit: str = "cell") -> Rows:
    """Return one row a statistic: cells (or tasks) that each wins, average difference, tests."""
    return [
        {
            "AUC": line.statistic,
            "LCT better": line.wins,
            "VS better": line.losses,
            "average difference": line.difference,
            "t-test p": line.t_test_p,
            "Wilcoxon p": line.wilcoxon_p,
        }
        for line in paired_differences(cells, VS, LCT, unit=unit).lines
    ]


def told(lines: Sequence[CellDifference], statistics: Sequence[str] = STATISTICS) -> str:
    """Say how often and by how much LCT is better, statistic by statistic.

    >>> line = CellDifference("a", 10.0, 0, max=0.1, mean=0.2, min=-0.3, std=-0.1)
    >>> told([line], ["mean", "min"])
    'mean in 1 of 1 (+0.2000), min in 0 of 1 (-0.3000)'
    """
    parts = []
    for name in statistics:
        values = values_of(lines, name)
        average = f"{np.mean(values):+.4f}" if values else "nan"
        parts.append(f"{name} in {count_better(values, name)} of {len(values)} ({average})")
    return ", ".join(parts)


def ahead(lines: Sequence[CellDifference], statistics: Sequence[str], *, tie: float = 0.0) -> bool:
    """Whether LCT is better in every one of these statistics in every cell, and there is one.

    Being worse by less than `tie` counts as a tie, which will do where one is given.
    """
    return bool(lines) and all(
        BETTER[name] * getattr(line, name) > -tie for line in lines for name in statistics
    )


def beta_of(line: CellDifference) -> float:
    """Return the imbalance of a cell; data as they are count as moderate."""
    return 1.0 if line.beta is None else line.beta
