"""Eight methods, each alone, as the best of its tries on validation, and as an ensemble of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from curvewise.figures.controls import plot_methods
from curvewise.paper.areas import without_empty_notes
from curvewise.paper.captions import caption_of
from curvewise.paper.ensembles import VALIDATION, TrainedModels, trained_models
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile
from curvewise.roc.curve import auc
from curvewise.roc.metrics import ensemble_score
from curvewise.stats.cells import CellAreas
from curvewise.stats.dyadic import holm_rows, pair_tests
from curvewise.sweep.spec import Spec

NAME = "table-methods"
PAIRS = ("0/2", "0/3", "0/6", "1/3", "2/4", "2/6", "4/6", "5/7", "7/9", "3/8")
TASKS = {
    f"{NAME}-fashion": [f"fashion-mnist:{pair}" for pair in PAIRS],
    f"{NAME}-cifar": ["cifar10:cat/dog"],
}
TRIES = 48
ALONE = 12  # models of the default setting, whose mean is what one training is worth
# Each method's own settings, the default first; repeats make up what they lack of 48 tries.
GRIDS: dict[str, dict[str, Any]] = {
    "ce": {},
    "weighted-ce": {},
    "focal": {"focus": [2.0, 0.5, 1.0, 5.0]},
    "ldam": {"max_margin": [0.5, 0.1], "scale": [30.0, 10.0, 3.0, 1.0]},
    "logit-adjustment": {"tau": [1.0, 0.5, 2.0, 3.0]},
    "vs": {"grid": "paper"},
    "lct": {"grid": "paper"},
    # Its loss is p (1 - p) times a variance, hence small: a learning rate is its own matter.
    "auc-margin": {"margin": [1.0, 0.3], "lr": [0.1, 0.3, 1.0, 3.0]},
}
MIDDLE = {"omega": 0.7, "gamma": 0.2}  # of the paper's grid, for VS and LCT alone
DEFAULTS: dict[str, dict[str, Any]] = {
    "vs": {**MIDDLE, "tau": 1.0},
    "lct": {**MIDDLE, "tau": "0:3:0.33"},
}
WAYS = ("alone", "chosen", "ensemble")
VS_ALONE, CE_ALONE = "VS, alone", "CE, alone"
SURE = 0.05


def _sweeps(profile: Profile) -> list[Spec]:
    tiny = profile.scale == "tiny"
    tries = [_with_tries(name, grid, 4 if tiny else TRIES) for name, grid in GRIDS.items()]
    alone = [
        {"method": name, **DEFAULTS.get(name, {}), "repeats": 2 if tiny else ALONE}
        for name in GRIDS
    ]
    return [
        profile.spec(name + suffix, tasks, methods, validation=VALIDATION)
        for name, tasks in TASKS.items()
        for suffix, methods in (("", tries), ("-alone", alone))
    ]


def _with_tries(method: str, grid: dict[str, Any], tries: int) -> dict[str, Any]:
    """Return a method whose settings are repeated to make a number of tries."""
    if "grid" in grid:
        return {"method": method, **grid}
    settings = int(np.prod([len(values) for values in grid.values()], dtype=int))
    return {"method": method, **grid, "repeats": max(tries // settings, 1)}


def _collect(reading: Reading) -> Data:
    rows: Rows = []
    for sweep in TASKS:
        alone = {
            (models.task, models.label): models
            for models in trained_models(reading, f"{sweep}-alone")
        }
        tried = {(models.task, models.label): models for models in trained_models(reading, sweep)}
        assert reading.store is not None
        planned: dict[tuple[str, str], int] = {}
        for record in reading.store.runs(sweep):
            place = (record.run.task, record.run.label)
            planned[place] = planned.get(place, 0) + 1
        for place, tries in planned.items():
            rows.append(_row(place, tries, alone.get(place), tried.get(place)))
    return {"": rows}


def _row(
    place: tuple[str, str], tries: int, alone: TrainedModels | None, tried: TrainedModels | None
) -> dict[str, Any]:
    """Return what a method is worth on a task; nothing where all its models diverged."""
    row: dict[str, Any] = {
        "task": place[0],
        "method": place[1],
        "tries": tries,
        "diverged": tries - (len(tried.records) if tried else 0),
        "alone": float(np.mean(alone.areas)) if alone else None,
        "alone_models": len(alone.records) if alone else 0,
        "chosen": None,
        "chosen_settings": None,
        "ensemble": None,
        "mean": None,
        "oracle": None,
    }
    if tried:
        settings = tried.records[tried.chosen].run.settings
        row |= {
            "chosen": tried.areas[tried.chosen],
            "chosen_settings": " ".join(f"{name}={value}" for name, value in settings.items())
            or None,
            "ensemble": auc(tried.y, ensemble_score(tried.scores)),
            "mean": float(np.mean(tried.areas)),
            "oracle": max(tried.areas),
        }
    return row


def _present(data: Data, profile: Profile) -> Outcome:
    rows = data[""]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    table = method_rows(rows)
    tests = compared_with(VS_ALONE, rows)
    known = {(row["method"], row["task"]): row for row in rows}
    differences = {
        method: {
            way: [
                known[method, task][way] - known["VS", task]["alone"]
                for task in tasks
                if known[method, task][way] is not None and known["VS", task]["alone"] is not None
            ]
            for way in WAYS
        }
        for method in methods
    }
    return Outcome(
        verdict=verdict(table, tests, len(tasks)),
        tables={
            f"Averages over {len(tasks)} tasks (alone: the mean of {ALONE} models of the default "
            f"setting; chosen: the try with the best AUC on validation; rank 1 is the best of "
            f"{len(methods)})": table,
            f"Against {VS_ALONE}, which is the middle of its grid (with so few pairs the p for "
            f"shared classes is below 0.05 about one time in ten by chance)": (
                without_empty_notes(tests)
            ),
            f"Against {CE_ALONE}": without_empty_notes(compared_with(CE_ALONE, rows)),
        },
        figures={
            NAME: plot_methods(
                differences,
                ylabel=f"AUC less that of {VS_ALONE}",
                title=f"{len(tasks)} tasks, beta = 100",
                caption=caption_of(profile, tasks),
            )
        },
    )


def method_rows(rows: Rows) -> Rows:
    """Return a row for each method: mean AUC and mean rank of each way of using its models."""
    tasks = dict.fromkeys(row["task"] for row in rows)
    ranks: dict[tuple[str, str], list[float]] = {}
    for task in tasks:
        own = [row for row in rows if row["task"] == task]
        for way in WAYS:
            # A method without a model left is the last.
            worse = [np.inf if row[way] is None else -row[way] for row in own]
            for row, rank in zip(own, rankdata(worse), strict=True):
                ranks.setdefault((row["method"], way), []).append(float(rank))
    found: Rows = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        found.append(
            {
                "method": method,
                "tries": max(row["tries"] for row in own),
                "diverged": sum(row["diverged"] for row in own),
                **{way: _average([row[way] for row in own]) for way in WAYS},
                **{f"rank {way}": float(np.mean(ranks[method, way])) for way in WAYS},
                "mean of tries": _average([row["mean"] for row in own]),
                "best on test (cheating)": _average([row["oracle"] for row in own]),
            }
        )
    return found


def _average(values: Sequence[float | None]) -> float:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else float("nan")


def compared_with(reference: str, rows: Rows) -> Rows:
    """Return the paired tests of every method and way against one of them, "VS, alone"."""
    tasks = dict.fromkeys(row["task"] for row in rows)
    cells = [
        CellAreas(
            task,
            None,
            0,
            {
                f"{row['method']}, {way}": np.array([row[way]])
                for row in rows
                if row["task"] == task
                for way in WAYS
                if row[way] is not None
            },
        )
        for task in tasks
    ]
    there = dict.fromkeys(label for cell in cells for label in cell.areas)
    found = [
        test
        for label in there
        if label != reference
        for test in pair_tests(cells, reference, label, ["mean"])
    ]
    return [
        {name: value for name, value in row.items() if name not in ("AUC", "against")}
        for row in holm_rows(found)
    ]


def verdict(table: Rows, tests: Rows, tasks: int) -> str:
    """Say which method is the best in each way, and what is surely better than VS alone."""
    best = {way: max(table, key=lambda row: _or_lowest(row[way])) for way in WAYS}
    told = "; ".join(f"{way}: {row['method']} ({row[way]:.4f})" for way, row in best.items())
    lct = next((row for row in tests if row["method"] == "VS + LCT, alone"), None)
    sure = [row for row in tests if row["difference"] > 0 and row["p (Holm)"] < SURE]
    by_way = ", ".join(f"{sum(r['method'].endswith(way) for r in sure)} {way}" for way in WAYS)
    middle = (
        f" LCT alone is {lct['difference']:+.4f} against VS alone (p = {lct['p (Holm)']:.2g})."
        if lct
        else ""
    )
    return (
        f"Highest mean AUC over {tasks} tasks, {told}.{middle} Surely better than VS alone after "
        f"Holm: {len(sure)} of {len(tests)} ({by_way})."
    )


def _or_lowest(value: float) -> float:
    return value if value == value else -np.inf


METHOD_TABLE = Experiment(
    name=NAME,
    shows="CE, weighted CE, focal, LDAM, logit adjustment, VS, LCT and AUC margin: alone, best of "
    "48 tries chosen on validation, and ensembled",
    published="",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
