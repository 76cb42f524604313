"""ROC bands of VS and VS + LCT, panel by panel, on CIFAR and on Kaggle's photographs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from curvewise.figures.panels import BandPanel, plot_band_panels
from curvewise.paper.areas import area_rows, cells_from, statistics_table
from curvewise.paper.captions import caption_of, title_of
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.gains import (
    ahead,
    beta_of,
    gain_table,
    gains,
    paired_table,
    shifted_gains,
    shifted_table,
    told,
)
from curvewise.paper.profiles import Profile, both
from curvewise.roc.curve import RocBand
from curvewise.stats.cells import Cell
from curvewise.stats.differences import CellDifference
from curvewise.stats.summary import roc_bands
from curvewise.sweep.spec import Spec

CAT_DOG, HOUSEHOLD = "cifar10:cat/dog", "cifar100:household"
DOGS_CATS, MELANOMA = "dogs-vs-cats", "melanoma"
CIFAR_BETAS = (10, 50, 100, 200)
KAGGLE_BETAS = (100, 200)
SEVERE = 100  # the beta from which on the paper sees LCT ahead
FEWEST = 2  # training samples of the minority below which a curve says nothing of a method
GRID = np.union1d(np.linspace(0, 1, 161), np.geomspace(1e-3, 1, 91))
DECIMALS = 6  # of a rate in a file

Place = tuple[str, float | None]


@dataclass(frozen=True)
class Claim:
    """What the paper says LCT does to these statistics; `tie` is how little counts as nothing."""

    text: str
    statistics: tuple[str, ...]
    tie: float = 0.0


CLAIMS = {
    "fig-cifar-bands": Claim("improves mean, maximum and minimum", ("mean", "max", "min")),
    "fig-kaggle-bands": Claim(
        "improves or ties (to 0.0005) mean and maximum", ("mean", "max"), tie=0.0005
    ),
}


def band_rows(cells: Sequence[Cell]) -> Rows:
    """List the bands of every task, beta and method on about 250 false positive rates."""
    groups: dict[Place, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.task, cell.beta), []).append(cell)
    rows: Rows = []
    for (task, beta), own in groups.items():
        for method, band in roc_bands(own, GRID).items():
            columns = {name: np.round(values, DECIMALS) for name, values in vars(band).items()}
            rows += [
                {"task": task, "beta": beta, "method": method}
                | {name: float(values[point]) for name, values in columns.items()}
                for point in range(len(band.fpr))
            ]
    return rows


def bands_from(rows: Rows) -> dict[Place, dict[str, RocBand]]:
    """Return the bands of `band_rows` by task and beta, then method."""
    groups: dict[Place, dict[str, Rows]] = {}
    for row in rows:
        own = groups.setdefault((row["task"], row["beta"]), {})
        own.setdefault(row["method"], []).append(row)
    names = ("fpr", "mean", "low", "high", "std")
    return {
        place: {
            method: RocBand(*(np.array([float(row[name]) for row in own]) for name in names))
            for method, own in methods.items()
        }
        for place, methods in groups.items()
    }


def sample_rows(reading: Reading, sweep: str) -> Rows:
    """List how many samples of both classes each task has at each beta."""
    assert reading.store is not None
    found: dict[Place, dict[str, Any]] = {}
    for record in reading.store.runs(sweep):
        place = (record.run.task, record.run.beta)
        if place in found:
            continue
        majority, minority = reading.store.problem(record.fingerprint).class_counts
        test = np.bincount(reading.store.labels(record.fingerprint), minlength=2)
        found[place] = {
            "task": place[0],
            "beta": place[1],
            "majority": int(majority),
            "minority": int(minority),
            "test majority": int(test[0]),
            "test minority": int(test[1]),
        }
    return list(found.values())


def band_data(cells: Sequence[Cell], samples: Rows) -> Data:
    """Return bands, areas and sample counts; cells with too few minority samples have no bands."""
    enough = {(row["task"], row["beta"]) for row in samples if row["minority"] >= FEWEST}
    kept = [cell for cell in cells if (cell.task, cell.beta) in enough]
    return {"bands": band_rows(kept), "areas": area_rows(kept), "samples": samples}


def panels_of(data: Data) -> list[BandPanel]:
    """Return a panel for each task and beta, those that were left out with a word why."""
    bands = bands_from(data["bands"])
    areas = {(cell.task, cell.beta): cell.areas for cell in cells_from(data["areas"])}
    panels = []
    for row in data["samples"]:
        place = (row["task"], row["beta"])
        beta = "as is" if row["beta"] is None else f"beta = {row['beta']:g}"
        title = (
            f"{title_of(row['task'])}, {beta}\n{row['majority']:,} + {row['minority']:,} samples"
        )
        note = (
            f"left out: {row['minority']} training sample of the minority"
            if row["minority"] < FEWEST
            else "no model could be scored"
        )
        own = bands.get(place, {})
        panels.append(BandPanel(title, own, areas[place] if own else {}, note))
    return panels


def _present(name: str, columns: int, log: bool, data: Data, profile: Profile) -> Outcome:
    cells = cells_from(data["areas"])
    lines = gains(cells)
    tasks = list(dict.fromkeys(row["task"] for row in data["samples"]))
    words = _majority_cut(data["samples"]) + _melanoma_missing(name, tasks)
    figure = plot_band_panels(
        panels_of(data),
        columns=columns,
        log=log,
        misses=log,
        title=f"ROC curves of {_models(data['areas'])} models a method.{words}",
        caption=caption_of(profile, tasks),
    )
    control = shifted_gains(cells)
    said = verdict(lines, CLAIMS[name], control)
    return Outcome(
        verdict=said + _left_out(data["samples"]) + words,
        tables={
            "AUC by task, beta and method": statistics_table(cells),
            "VS + LCT less VS": gain_table(lines),
            "VS + LCT less VS over all panels": paired_table(cells),
            **shifted_table(control),
            "Samples": data["samples"],
        },
        figures={name: figure},
    )


def verdict(
    lines: Sequence[CellDifference], claim: Claim, control: Sequence[CellDifference] = ()
) -> str:
    """Say whether the claim holds at every severe imbalance, and what happens below.

    `control` is LCT less VS without its models at tau = 0.
    """
    severe = [line for line in lines if beta_of(line) >= SEVERE]
    mild = [line for line in lines if beta_of(line) < SEVERE]
    holds = ahead(severe, claim.statistics, tie=claim.tie)
    parts = [f"at beta >= {SEVERE} LCT has the better {told(severe)}"] if severe else []
    parts += [f"below that the better {told(mild)}"] if mild else []
    beside = [line for line in control if beta_of(line) >= SEVERE]
    if beside:
        parts.append(f"beside VS at tau > 0 alone, at beta >= {SEVERE}, {told(beside)}")
    return (
        f"The paper's claim that LCT {claim.text} at every high imbalance "
        f"{'holds' if holds else 'does not hold'} here: {'; '.join(parts)} (panels, average "
        f"difference of AUC, one seed)."
    )


def _models(rows: Rows) -> str:
    """Return how many models a method has in a panel, as a range where that differs."""
    counts = {len(areas) for cell in cells_from(rows) for areas in cell.areas.values()}
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _left_out(samples: Rows) -> str:
    few = [row for row in samples if row["minority"] < FEWEST]
    told_of = ", ".join(f"{title_of(row['task'])} at beta = {row['beta']:g}" for row in few)
    return f" Left out for want of minority samples: {told_of}." if few else ""


def _majority_cut(samples: Rows) -> str:
    """Say where the minority has too few samples for beta, so that the majority was cut."""
    most: dict[str, int] = {}
    for row in samples:
        most[row["task"]] = max(most.get(row["task"], 0), row["majority"])
    cut = [
        f"{title_of(row['task'])} at beta = {row['beta']:g} ({row['majority']:,} of "
        f"{most[row['task']]:,})"
        for row in samples
        if row["beta"] is not None and row["majority"] < most[row["task"]]
    ]
    return f" The majority is cut for want of minority samples: {', '.join(cut)}." if cut else ""


def _melanoma_missing(name: str, tasks: Sequence[str]) -> str:
    if name != "fig-kaggle-bands" or MELANOMA in tasks:
        return ""
    return " Melanoma is not shown: its images were not there."


def _cifar_sweeps(name: str, profile: Profile) -> list[Spec]:
    return [
        profile.spec(f"{name}-{task.partition(':')[0]}", [task], both(), betas=CIFAR_BETAS)
        for task in (CAT_DOG, HOUSEHOLD)
    ]


def _kaggle_sweeps(name: str, profile: Profile) -> list[Spec]:
    return [
        profile.spec(f"{name}-{task}", [task], both(), betas=KAGGLE_BETAS)
        for task in (DOGS_CATS, *([MELANOMA] if profile.melanoma else []))
    ]


def _collect(name: str, sweeps: Any, reading: Reading) -> Data:
    names = [spec.name for spec in sweeps(name, reading.profile)]
    cells = [cell for sweep in names for cell in reading.cells(sweep)]
    return band_data(cells, [row for sweep in names for row in sample_rows(reading, sweep)])


def _bands_experiment(
    name: str, shows: str, published: str, sweeps: Any, *, columns: int, log: bool
) -> Experiment:
    return Experiment(
        name=name,
        shows=shows,
        published=published,
        sweeps=partial(sweeps, name),
        collect=partial(_collect, name, sweeps),
        present=partial(_present, name, columns, log),
    )


CIFAR_BANDS = _bands_experiment(
    "fig-cifar-bands",
    "ROC bands of VS and VS + LCT, cat/dog and household, beta = 10, 50, 100, 200",
    "tied at beta = 10; at beta = 100 and 200 LCT is ahead in mean, maximum and minimum",
    _cifar_sweeps,
    columns=4,
    log=False,
)
KAGGLE_BANDS = _bands_experiment(
    "fig-kaggle-bands",
    "ROC bands of VS and VS + LCT, Dogs vs Cats and Melanoma, beta = 100, 200, logarithmic",
    "LCT improves or ties mean and maximum everywhere, with a large gap on Melanoma",
    _kaggle_sweeps,
    columns=2,
    log=True,
)
