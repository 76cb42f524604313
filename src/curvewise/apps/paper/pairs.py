"""The paper's main table: VS against VS + LCT on all 45 pairs of ten classes at beta = 100."""

from functools import partial

from curvewise.apps.paper.areas import area_rows, cells_from, summary_table
from curvewise.apps.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.apps.paper.profiles import Profile, both
from curvewise.report.cells import CellAreas
from curvewise.report.dyadic import pair_tests
from curvewise.report.figures import figure_of, plot_differences
from curvewise.sweep.spec import Spec

VS, LCT = "VS", "VS + LCT"
TESTS = ("t-test p", "Wilcoxon p", "p (shared classes)", "p (Holm)")
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
    rows = pair_tests(cells, VS, LCT)
    pairs = rows[0]["pairs"]
    caption = profile.caption(source)
    axes = plot_differences(
        differences_by_pair(cells),
        title=f"AUC of {LCT} less that of {VS} on {pairs} pairs\n{caption}",
    )
    name = "table-pairs" if source == "cifar10" else "table-pairs-fashion"
    return Outcome(
        verdict=verdict(rows),
        tables={
            f"{LCT} less {VS} over {pairs} pairs": pairs_table(rows, source == "cifar10"),
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


def pairs_table(rows: Rows, published: bool) -> Rows:
    """Return the paper's table with its own numbers beside ours."""
    table: Rows = []
    for row in rows:
        ours = {
            "AUC": row["AUC"],
            "LCT better": row["better"],
            "VS better": row["worse"],
            "average difference": row["difference"],
            **{name: row[name] for name in TESTS},
        }
        if published:
            wins, losses, difference, p = PUBLISHED[row["AUC"]]
            ours |= {
                "published: LCT better": wins,
                "published: VS better": losses,
                "published: difference": difference,
                "published: p": p,
            }
        table.append(ours)
    return table


def verdict(rows: Rows) -> str:
    """Say by the paper's own test where LCT is ahead, and what remains for shared classes."""
    found = {row["AUC"]: row for row in rows if row["AUC"] != "max"}
    ahead = [
        name
        for name, row in found.items()
        if row["t-test p"] < 0.05 and row["better"] > row["worse"]
    ]
    held = {0: "does not hold here", len(found): "holds here"}.get(
        len(ahead), f"holds here for the {' and '.join(ahead)} only"
    )
    told = ", ".join(
        f"{name} on {row['better']} of {row['pairs']} pairs ({row['difference']:+.4f}, t-test p = "
        f"{row['t-test p']:.2g}, {row['p (shared classes)']:.2g} if pairs that share a class are "
        "not taken as independent)"
        for name, row in found.items()
    )
    return f"The paper's claim {held}: LCT is better in {told}."


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
