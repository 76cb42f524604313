"""Many models of a method: averaged, or the best of them chosen on validation, against others."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from curvewise.figures.frames import boxes, lines
from curvewise.paper.experiment import Claim, Data, Experiment, Measured, Reading
from curvewise.paper.imbalance import CAT_DOG
from curvewise.paper.measures import LCT, TITLES, VS, over_cells, over_pairs, within
from curvewise.paper.profiles import VALIDATION, Profile, both
from curvewise.roc.curve import auc
from curvewise.roc.interval import auc_interval, compare_auc
from curvewise.stats.ensembles import ensemble_growth, joined_score
from curvewise.sweep.spec import Spec

FEW = "Few rare samples are for validation: a choice on them is nearly one by lot."
GROWTH = "fig-ensemble"
GROWTH_TASKS = ["fashion-mnist:0/6", "fashion-mnist:2/4", CAT_DOG]


def _collect_growth(reading: Reading) -> Data:
    growth, compared = [], []
    there = reading.models(scores=True).dropna(subset="auc")
    for (task, method), models in there.groupby(["task", "method"], sort=False):
        place = {"task": task, "method": method}
        y, scores = models["y"].iloc[0], np.stack(models["score"].to_list())
        steps = ensemble_growth(y, scores, models["validation_auc"], models["seconds"])
        growth.append(pd.DataFrame({**place, **steps}))
        chosen = models.iloc[int(np.argmax(models["validation_auc"]))]
        together = joined_score(models["score"])
        found, test = auc_interval(y, together), compare_auc(y, together, chosen["score"])
        kept = int(reading.store.labels(chosen["fingerprint"], "validation").sum())
        areas = {"mean": models["auc"].mean(), "chosen": chosen["auc"], "ensemble": found.auc}
        ends = {"low": found.low, "high": found.high, "oracle": models["auc"].max()}
        row = {**place, "models": len(models), "validation_positives": kept, **areas, **ends}
        compared.append({**row, "difference": test.difference, "p": test.p})
    return {"growth": pd.concat(growth), "comparison": pd.DataFrame(compared)}


def _ahead(less: str, data: Data) -> Measured:
    rows = data["comparison"]
    return over_cells(rows["ensemble"] - rows[less], "mean", "cases")


def _draw_growth(data: Data, **sheet: Any) -> Any:
    ways = {"ensemble": "ensemble", "chosen": "best on validation", "oracle": "best on test"}
    rows = data["growth"].rename(columns=ways).replace({"task": TITLES})
    place = ["task", "method", "members"]
    long = rows.melt(place, list(ways.values()), "way", "auc").groupby([*place, "way"], sort=False)
    looks: Any = {"style": "way", "panel": "task", "log": True, "xlabel": "members trained"}
    looks |= {"y": "auc", "ylabel": "AUC, mean of 20 orders"}
    return lines(long["auc"].mean().reset_index(), x="members", hue="method", **looks, **sheet)


ENSEMBLES = Experiment(
    name=GROWTH,
    question="Is the mean score of all settings better than the setting chosen on validation?",
    sweeps=lambda profile: profile.specs(GROWTH, GROWTH_TASKS, both(), validation=VALIDATION),
    collect=_collect_growth,
    draw=_draw_growth,
    claims={
        f"The ensemble of 48 has the higher AUC than the {of}": Claim(partial(_ahead, less))
        for of, less in (
            ("model chosen on validation", "chosen"),
            ("mean single model", "mean"),
            ("best on test, a cheat", "oracle"),
        )
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
METHOD_TASKS = [*(f"fashion-mnist:{pair}" for pair in PAIRS), CAT_DOG]
TRIES, ALONE = 48, 12  # ALONE: of the default setting, whose mean is what one training is worth
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
DEFAULTS: dict[str, dict[str, Any]] = {  # for VS and LCT alone, the middle of the paper's grid
    "vs": {"omega": 0.7, "gamma": 0.2, "tau": 1.0},
    "lct": {"omega": 0.7, "gamma": 0.2, "tau": "0:3:0.33"},
}
SETTINGS = ("focus", "max_margin", "scale", "omega", "gamma", "tau", "margin")
WAYS = ["alone", "chosen", "ensemble"]


def _method_sweeps(profile: Profile) -> list[Spec]:
    most, alone = (4, 2) if profile.scale == "tiny" else (TRIES, ALONE)
    tries, defaults = [], []
    for method, grid in GRIDS.items():
        settings = int(np.prod([len(values) for values in grid.values()], dtype=int))
        repeats = {} if "grid" in grid else {"repeats": max(most // settings, 1)}
        tries.append({"method": method, **grid, **repeats})
        defaults.append({"method": method, **DEFAULTS.get(method, {}), "repeats": alone})
    more: Any = {"tasks": METHOD_TASKS, "validation": VALIDATION}
    alone_specs = profile.specs(f"{METHODS}-alone", methods=defaults, **more)
    return profile.specs(METHODS, methods=tries, **more) + alone_specs


def _collect_methods(reading: Reading) -> Data:
    of_tries = len(reading.sweeps) // 2
    tried = reading.models(*reading.sweeps[:of_tries], scores=True)
    alone = reading.models(*reading.sweeps[of_tries:]).dropna(subset="auc")
    rows = []
    for (task, method), models in tried.groupby(["task", "method"], sort=False):
        single = alone[(alone["task"] == task) & (alone["method"] == method)]["auc"]
        ended = models.dropna(subset="auc")
        place = {"task": task, "method": method, "tries": len(models)}
        place["diverged"] = len(models) - len(ended)
        rows.append({**place, "alone": single.mean(), "alone_models": len(single), **_tried(ended)})
    return {"": pd.DataFrame(rows)}


def _tried(models: pd.DataFrame) -> dict[str, Any]:
    """Return what a method's tries are worth; nothing where all of them diverged."""
    if models.empty:
        return dict.fromkeys(("chosen", "chosen_settings", "ensemble", "mean", "oracle"))
    chosen = models.iloc[int(np.argmax(models["validation_auc"]))]
    known = {name: chosen[name] for name in SETTINGS if name in models}
    settings = " ".join(f"{name}={value}" for name, value in known.items() if value == value)
    return {
        "chosen": chosen["auc"],
        "chosen_settings": settings or None,
        "ensemble": auc(models["y"].iloc[0], joined_score(models["score"])),
        "mean": models["auc"].mean(),
        "oracle": models["auc"].max(),
    }


def method_table(data: Data) -> pd.DataFrame:
    """Return a row for each method: mean AUC and mean rank of each way of using its models."""
    # A method without a model left on a task is the last there.
    ranks = data[""].groupby("task")[WAYS].rank(ascending=False, na_option="bottom")
    rows = data[""].join(ranks.add_prefix("rank "))
    averaged = [*WAYS, *(f"rank {way}" for way in WAYS), "mean", "oracle"]
    how = {"tries": "max", "diverged": "sum"} | dict.fromkeys(averaged, "mean")
    names = {"mean": "mean of tries", "oracle": "best on test (a cheat)"}
    return rows.groupby("method", sort=False).agg(how).reset_index().rename(columns=names)


def _gain(b: str, way: str, a: str, data: Data) -> Measured:
    """Return what a way of using b's models has more in AUC than a's models alone."""
    first, second = (data[""][data[""]["method"] == name].set_index("task") for name in (a, b))
    return over_pairs(second[way] - first["alone"], "mean")


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
        **{
            f"{who} has the higher AUC than {of} alone": Claim(partial(_gain, b, way, a))
            for who, b, way, of, a in (
                ("LCT alone", LCT, "alone", "VS", VS),
                ("The ensemble of VS", VS, "ensemble", "VS", VS),
                ("The ensemble of LCT", LCT, "ensemble", "VS", VS),
                ("The ensemble of logit adjustment", "logit adjustment", "ensemble", "VS", VS),
                ("VS chosen on validation", VS, "chosen", "VS", VS),
                ("LCT alone", LCT, "alone", "cross-entropy", "CE"),
            )
        },
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
