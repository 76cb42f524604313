"""The paper's main table: VS against VS + LCT on all 45 pairs of ten classes at beta = 100."""

from functools import partial
from typing import Any

from curvewise.figures.curves import figure_of, plot_differences
from curvewise.paper.areas import (
    area_rows,
    cells_from,
    summary_table,
    without_empty_notes,
)
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.gains import LCT, SHIFTED, VS, shifted
from curvewise.paper.profiles import Profile, both
from curvewise.stats.cells import CellAreas
from curvewise.stats.dyadic import pair_tests
from curvewise.stats.paired import BETTER
from curvewise.sweep.spec import Spec

SURE = 0.05
WHAT = {"cifar10": "CIFAR-10", "fashion-mnist": "Fashion-MNIST"}
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
    later = shifted(cells)
    control = pair_tests(later, VS, LCT) if later else []
    pairs = rows[0]["pairs"]
    caption = profile.caption(source)
    axes = plot_differences(
        differences_by_pair(cells),
        title=f"{WHAT[source]}, {pairs} pairs, beta = 100\nAUC of {LCT} less that of {VS}; "
        f"above 0, LCT is better\n{caption}",
    )
    name = "table-pairs" if source == "cifar10" else "table-pairs-fashion"
    return Outcome(
        verdict=verdict(rows, control),
        tables={
            f"{LCT} less {VS} over {pairs} pairs": pairs_table(rows, source == "cifar10"),
            "Averages over pairs": summary_table(cells),
            **({SHIFTED: pairs_table(control, published=False)} if control else {}),
        },
        figures={name: figure_of(axes)},
    )


def differences_by_pair(cells: list[CellAreas]) -> dict[str, list[float]]:
    """Return what LCT has more than VS in mean, min and max, and less in spread, pair by pair."""
    arms = [(cell.areas[LCT], cell.areas[VS]) for cell in cells]
    return {
        "mean": [float(lct.mean() - vs.mean()) for lct, vs in arms],
        "minimum": [float(lct.min() - vs.min()) for lct, vs in arms],
        "maximum": [float(lct.max() - vs.max()) for lct, vs in arms],
        f"standard deviation, {VS} less {LCT}": [
            float(vs.std(ddof=1) - lct.std(ddof=1)) for lct, vs in arms
        ],
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
            "note": row["note"],
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
    return without_empty_notes(table)


def verdict(rows: Rows, control: Rows) -> str:
    """Say by the paper's own test where LCT is ahead, and what remains of it with controls.

    Those are a test that allows for shared classes, corrected for four statistics, and VS without
    its models at tau = 0.
    """
    claimed = [row for row in rows if row["pairs"]]
    for_lct, for_vs = _surely(claimed, "t-test p", 1), _surely(claimed, "t-test p", -1)
    held = f"holds here for {_and(for_lct)}" if for_lct else "does not hold here"
    if len(for_lct) == len(rows):
        held = "holds here"
    elif for_vs:
        held += f" and is reversed for {_and(for_vs)}"
    elif for_lct:
        held += " only"
    text = (
        f"By the paper's own t-test its claim {held}: LCT is better in {_told(claimed)}. With p "
        "corrected, for pairs that share a class and for four tests, what remains is "
        f"{_and(_surely(claimed, 'p (Holm)', 1)) or 'nothing'} in favour of LCT and "
        f"{_and(_surely(claimed, 'p (Holm)', -1)) or 'nothing'} in favour of VS."
    )
    if control:
        text += f" Beside VS without tau = 0 it is better in {_told(control)}."
    return text


def _surely(rows: Rows, p: str, sign: int) -> list[str]:
    """Return in what LCT (or VS, with -1) is ahead by a test."""
    return [row["AUC"] for row in rows if row[p] < SURE and _leads(row, sign)]


def _leads(row: dict[str, Any], sign: int = 1) -> bool:
    """Tell whether LCT is ahead on more pairs and on average: p-values are of the average."""
    ahead = sign * BETTER[row["AUC"]] * row["difference"] > 0
    return bool(ahead and sign * (row["better"] - row["worse"]) > 0)


def _and(names: list[str]) -> str:
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _told(rows: Rows) -> str:
    return ", ".join(
        f"{row['AUC']} on {row['better']} of {row['pairs']} pairs "
        f"({row['difference']:+.4f}, p = {row['t-test p']:.2g}, corrected {row['p (Holm)']:.2g})"
        for row in rows
        if row["pairs"]
    )


def pairs_experiment(name: str, source: str, published: str) -> Experiment:
    """Return the table for a source of ten classes."""
    return Experiment(
        name=name,
        shows=f"45 {WHAT[source]} pairs: wins, differences, tests of max, mean, min, std of AUC",
        published=published,
        sweeps=partial(_sweeps, name, source),
        collect=partial(_collect, name),
        present=partial(_present, source),
    )


PAIRS = pairs_experiment(
    "table-pairs",
    "cifar10",
    "LCT ahead in max on 37, in mean on 45, in min on 43, in spread on 43 of 45 pairs",
)
PAIRS_FASHION = pairs_experiment("table-pairs-fashion", "fashion-mnist", "")
