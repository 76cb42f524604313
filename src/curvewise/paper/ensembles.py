"""Many models of a method: averaged, or the best of them chosen on validation, against others."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from curvewise.figures.frames import boxes, lines
from curvewise.paper.experiment import Claim, Data, Experiment, Measured, Reading, within
from curvewise.paper.imbalance import CAT_DOG
from curvewise.paper.measures import TITLES, VS, gain, over_cells
from curvewise.paper.profiles import Profile, both
from curvewise.roc.curve import auc
from curvewise.roc.interval import auc_interval, compare_auc
from curvewise.roc.metrics import ensemble_score
from curvewise.stats.ensembles import ensemble_growth
from curvewise.sweep.spec import Spec

VALIDATION = 0.25  # of the training data, kept to choose a model by
FEW = "Few rare samples are for validation: a choice on them is nearly one by lot."

GROWTH = "fig-ensemble"
GROWTH_TASKS = {
    f"{GROWTH}-fashion": ["fashion-mnist:0/6", "fashion-mnist:2/4"],
    f"{GROWTH}-cifar": [CAT_DOG],
}


def by_task_and_method(models: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the models that ended, by task and method."""
    there = models.dropna(subset="auc")
    for (task, method), group in there.groupby(["task", "method"], sort=False):
        yield {"task": task, "method": method}, group


def chosen_of(models: pd.DataFrame) -> "pd.Series[Any]":
    """Return the model with the best AUC on validation."""
    return models.iloc[int(np.argmax(models["validation_auc"]))]


def _growth_sweeps(profile: Profile) -> list[Spec]:
    return [
        profile.spec(name, tasks, both(), validation=VALIDATION)
        for name, tasks in GROWTH_TASKS.items()
    ]


def _collect_growth(reading: Reading) -> Data:
    assert reading.store is not None
    growth, compared = [], []
    for sweep in reading.sweeps:
        for place, models in by_task_and_method(reading.models(sweep, scores=True)):
            y, scores = models["y"].iloc[0], np.stack(models["score"].to_list())
            steps = ensemble_growth(y, scores, models["validation_auc"], models["seconds"])
            growth.append(pd.DataFrame({**place, **steps}))
            kept = reading.store.labels(models["fingerprint"].iloc[0], "validation")
            compared.append({**place, **_compared(models, int(kept.sum()))})
    return {"growth": pd.concat(growth), "comparison": pd.DataFrame(compared)}


def _compared(models: pd.DataFrame, validation_positives: int) -> dict[str, Any]:
    """Return the ensemble of all models with its interval, and the test against the chosen one."""
    y, together = models["y"].iloc[0], ensemble_score(np.stack(models["score"].to_list()))
    chosen = chosen_of(models)
    found, test = auc_interval(y, together), compare_auc(y, together, chosen["score"])
    return {
        "models": len(models),
        "validation_positives": validation_positives,
        "mean": models["auc"].mean(),
        "chosen": chosen["auc"],
        "ensemble": found.auc,
        "low": found.low,
        "high": found.high,
        "oracle": models["auc"].max(),
        "difference": test.difference,
        "p": test.p,
    }


def _ahead(less: str) -> Claim:
    def measure(data: Data) -> Measured:
        steps = data["comparison"]["ensemble"] - data["comparison"][less]
        return over_cells(steps, "mean", "cases")

    return Claim(measure)


def _draw_growth(data: Data, **sheet: Any) -> Any:
    ways = {"ensemble": "ensemble", "chosen": "best on validation", "oracle": "best on test"}
    rows = data["growth"].rename(columns=ways).replace({"task": TITLES})
    place = ["task", "method", "members"]
    long = rows.melt(place, list(ways.values()), "way", "auc").groupby([*place, "way"], sort=False)
    looks: Any = {"style": "way", "panel": "task", "log": True, "xlabel": "members trained"}
    looks["ylabel"] = "AUC, mean of 20 orders"
    means = long["auc"].mean().reset_index()
    return lines(means, x="members", y="auc", hue="method", **looks, **sheet)


ENSEMBLES = Experiment(
    name=GROWTH,
    question="Is the mean score of all settings better than the setting chosen on validation?",
    sweeps=_growth_sweeps,
    collect=_collect_growth,
    draw=_draw_growth,
    claims={
        "The ensemble of 48 has the higher AUC than the model chosen on validation": (
            _ahead("chosen")
        ),
        "The ensemble of 48 has the higher AUC than the mean single model": _ahead("mean"),
        "The ensemble of 48 has the higher AUC than the best on test, a cheat": _ahead("oracle"),
    },
    table=lambda data: data["comparison"],
    caveats=(
        FEW,
        "Cases are three tasks with VS and with LCT, one subsample each; p is DeLong's.",
        "On cat/dog the chosen VS model is surely better than the ensemble.",
    ),
)

METHODS = "table-methods"
PAIRS = ("0/2", "0/3", "0/6", "1/3", "2/4", "2/6", "4/6", "5/7", "7/9", "3/8")
METHOD_TASKS = {
    f"{METHODS}-fashion": [f"fashion-mnist:{pair}" for pair in PAIRS],
    f"{METHODS}-cifar": [CAT_DOG],
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
WAYS = ["alone", "chosen", "ensemble"]
ALONE_VS = "VS, alone"


def _method_sweeps(profile: Profile) -> list[Spec]:
    tiny = profile.scale == "tiny"
    tries = [_with_tries(name, grid, 4 if tiny else TRIES) for name, grid in GRIDS.items()]
    alone = [
        {"method": name, **DEFAULTS.get(name, {}), "repeats": 2 if tiny else ALONE}
        for name in GRIDS
    ]
    return [
        profile.spec(name + suffix, tasks, methods, validation=VALIDATION)
        for name, tasks in METHOD_TASKS.items()
        for suffix, methods in (("", tries), ("-alone", alone))
    ]


def _with_tries(method: str, grid: dict[str, Any], tries: int) -> dict[str, Any]:
    """Return a method whose settings are repeated to make a number of tries."""
    if "grid" in grid:
        return {"method": method, **grid}
    settings = int(np.prod([len(values) for values in grid.values()], dtype=int))
    return {"method": method, **grid, "repeats": max(tries // settings, 1)}


def _collect_methods(reading: Reading) -> Data:
    rows = []
    for sweep in METHOD_TASKS:
        tried = reading.models(sweep, scores=True)
        alone = reading.models(f"{sweep}-alone")
        for (task, method), models in tried.groupby(["task", "method"], sort=False):
            place = {"task": task, "method": method}
            single = alone[(alone["task"] == task) & (alone["method"] == method)]["auc"].dropna()
            ended = models.dropna(subset="auc")
            tries = {"tries": len(models), "diverged": len(models) - len(ended)}
            row = {"alone": single.mean(), "alone_models": len(single)}
            rows.append({**place, **tries, **row, **_tried(ended)})
    return {"": pd.DataFrame(rows)}


def _tried(models: pd.DataFrame) -> dict[str, Any]:
    """Return what a method's tries are worth; nothing where all of them diverged."""
    if models.empty:
        return dict.fromkeys(("chosen", "chosen_settings", "ensemble", "mean", "oracle"))
    chosen, scores = chosen_of(models), np.stack(models["score"].to_list())
    names = ("focus", "max_margin", "scale", "omega", "gamma", "tau", "margin")
    known = {name: chosen[name] for name in names if name in models}
    settings = " ".join(f"{name}={value}" for name, value in known.items() if value == value)
    return {
        "chosen": chosen["auc"],
        "chosen_settings": settings or None,
        "ensemble": auc(models["y"].iloc[0], ensemble_score(scores)),
        "mean": models["auc"].mean(),
        "oracle": models["auc"].max(),
    }


def method_table(data: Data) -> pd.DataFrame:
    """Return a row for each method: mean AUC and mean rank of each way of using its models.

    A method without a model left on a task is the last there.
    """
    rows = data[""]
    for way in WAYS:
        ranks = rows.groupby("task")[way].transform(lambda auc: rankdata(-auc.fillna(-np.inf)))
        rows = rows.assign(**{f"rank {way}": ranks})
    how = {"tries": "max", "diverged": "sum"} | dict.fromkeys(
        [*WAYS, *(f"rank {way}" for way in WAYS), "mean", "oracle"], "mean"
    )
    names = {"mean": "mean of tries", "oracle": "best on test (a cheat)"}
    return rows.groupby("method", sort=False).agg(how).reset_index().rename(columns=names)


def by_way(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each method, way and task, as models of methods called "VS, alone"."""
    long = rows.melt(["task", "method"], WAYS, "way", "auc").dropna(subset="auc")
    return long.assign(beta=100.0, seed=0, method=long["method"] + ", " + long["way"])


def _beats(b: str, a: str) -> Claim:
    return Claim(gain("mean", a=a, b=b, unit="pairs", where=by_way))


def _draw_methods(data: Data, **sheet: Any) -> Any:
    rows = data[""].melt(["task", "method"], WAYS, "way", "auc")
    reference = data[""].loc[data[""]["method"] == VS].set_index("task")["alone"]
    rows["gain"] = rows["auc"] - rows["task"].map(reference)
    looks: Any = {"box": False, "zero": True, "mean": True, "ylabel": "AUC less that of VS, alone"}
    return boxes(rows.dropna(subset="gain"), x="method", y="gain", hue="way", **looks, **sheet)


METHOD_TABLE = Experiment(
    name=METHODS,
    question="How does LCT compare with other losses: alone, chosen on validation, as an ensemble?",
    sweeps=_method_sweeps,
    collect=_collect_methods,
    draw=_draw_methods,
    claims={
        "LCT alone has the higher AUC than VS alone": _beats("VS + LCT, alone", ALONE_VS),
        "The ensemble of VS has the higher AUC than VS alone": _beats("VS, ensemble", ALONE_VS),
        "The ensemble of LCT has the higher AUC than VS alone": (
            _beats("VS + LCT, ensemble", ALONE_VS)
        ),
        "The ensemble of logit adjustment has the higher AUC than VS alone": (
            _beats("logit adjustment, ensemble", ALONE_VS)
        ),
        "VS chosen on validation has the higher AUC than VS alone": _beats("VS, chosen", ALONE_VS),
        "LCT alone has the higher AUC than cross-entropy alone": (
            _beats("VS + LCT, alone", "CE, alone")
        ),
        "Losses alone lie within 0.02 of each other in mean AUC": Claim(
            lambda data: float(np.ptp(method_table(data)["alone"])), within(0, 0.02)
        ),
    },
    table=method_table,
    caveats=(
        f"Alone: the mean of {ALONE} models of the default setting; chosen: best of 48 tries.",
        FEW,
        "Grids of LDAM and AUC margin were widened after a look at test AUC on two tasks.",
        "Five of the eleven tasks are pairs that recipes were chosen on.",
        "With so few pairs p for shared classes is below 0.05 about one time in ten by chance.",
    ),
)
