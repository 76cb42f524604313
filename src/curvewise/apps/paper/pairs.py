"""The paper's main table: VS against VS + LCT on all 45 pairs of ten classes at beta = 100."""

from functools import partial

from curvewise.apps.paper.areas import area_rows, cells_from, summary_table
from curvewise.apps.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.apps.paper.profiles import Profile, both
from curvewise.report.cells import CellAreas
from curvewise.report.figures import figure_of, plot_differences
from curvewise.report.paired import PairedDifference, paired_differences
from curvewise.sweep.spec import Spec

VS, LCT = "VS", "VS + LCT"
# Pairs that LCT wins, that VS wins, average difference, p of the paired t-test.
PUBLISHED = {
    "max": (37, 8, 0.004, 9.1e-3),
    "mean": (45, 0, 0.010, 3.9e-17),
    "min": (43, 2, 0.027, 2.6e-13),
    "std": (43, 2, -0.005, 3.2e-12),
}


def _sweeps(name: str, source: str, profile: Profile) -> list[Spec]:
    return [profile.spec(name, [f"{source}:pairs"], both())]


def _collect(name: str, reading: Reading) -> Data:
    return {"": area_rows(reading.cells(name))}


def _present(source: str, data: Data, profile: Profile) -> Outcome:
    cells = cells_from(data[""])
    lines = paired_differences(cells, VS, LCT, unit="task").lines
    mean = next(line for line in lines if line.statistic == "mean")
    caption = profile.caption(source)
    axes = plot_differences(
        differences_by_pair(cells),
        title=f"AUC of {LCT} less that of {VS}, {mean.pairs} pairs ({caption})",
    )
    name = "table-pairs" if source == "cifar10" else "table-pairs-fashion"
    return Outcome(
        verdict=verdict(lines),
        tables={
            f"{LCT} less {VS} over {mean.pairs} pairs": pairs_table(lines, source == "cifar10"),
            "Averages over pairs": summary_table(cells),
        },
        figures={name: figure_of(axes)},
    )


def differences_by_pair(cells: list[CellAreas]) -> dict[str, list[float]]:
    """Return the difference of mean and of minimal AUC, LCT less VS, pair by pair."""
    return {
        "mean": [float(cell.areas[LCT].mean() - cell.areas[VS].mean()) for cell in cells],
        "minimum": [float(cell.areas[LCT].min() - cell.areas[VS].min()) for cell in cells],
    }


def pairs_table(lines: tuple[PairedDifference, ...], published: bool) -> Rows:
    """Return the paper's table with ours beside it."""
    rows: Rows = []
    for line in lines:
        row = {
            "AUC": line.statistic,
            "LCT better": line.wins,
            "VS better": line.losses,
            "average difference": line.difference,
            "t-test p": line.t_test_p,
            "Wilcoxon p": line.wilcoxon_p,
        }
        if published:
            wins, losses, difference, p = PUBLISHED[line.statistic]
            row |= {
                "published: LCT better": wins,
                "VS better (published)": losses,
                "difference (published)": difference,
                "p (published)": p,
            }
        rows.append(row)
    return rows


def verdict(lines: tuple[PairedDifference, ...]) -> str:
    """Say whether LCT is ahead in mean, minimum and spread on most pairs, as published."""
    found = {line.statistic: line for line in lines}
    told = ", ".join(
        f"{name} on {found[name].wins} of {found[name].pairs} ({found[name].difference:+.4f}, "
        f"p = {found[name].t_test_p:.2g})"
        for name in ("mean", "min", "std")
    )
    ahead = all(
        found[name].t_test_p < 0.05 and found[name].wins > found[name].losses
        for name in ("mean", "min", "std")
    )
    start = "The paper's claim holds here" if ahead else "The paper's claim does not hold here"
    return f"{start}: LCT is better in {told}."


def pairs_experiment(name: str, source: str, what: str, published: str) -> Experiment:
    """Return the table for a source of ten classes."""
    return Experiment(
        name=name,
        shows=f"45 {what} pairs: wins, differences, tests of max, mean, min, std of AUC",
        published=published,
        sweeps=partial(_sweeps, name, source),
        collect=partial(_collect, name),
        present=partial(_present, source),
    )


PAIRS = pairs_experiment(
    "table-pairs",
    "cifar10",
    "CIFAR-10",
    "LCT ahead in mean on 45, in min on 43, in spread on 43 of 45 pairs",
)
PAIRS_FASHION = pairs_experiment("table-pairs-fashion", "fashion-mnist", "Fashion-MNIST", "")
