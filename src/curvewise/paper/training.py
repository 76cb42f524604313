"""What else decides: the optimiser, how lambda gets in, how fast and how safely one trains."""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from curvewise.figures.frames import boxes
from curvewise.paper.experiment import SETTINGS, Claim, Data, Experiment, Measured, Reading
from curvewise.paper.imbalance import CAT_DOG
from curvewise.paper.measures import LCT, TITLES, VS, beyond_error, lead, over_cells, welch, within
from curvewise.paper.profiles import Profile, both
from curvewise.stats.areas import by_cell, by_method
from curvewise.sweep.spec import Spec

SAM = "fig-sam"
SGD = "VS + LCT, SGD"
RHO = {VS: (0.0, 0.05, 0.1, 0.3, 0.5, 0.8), LCT: (0.0, 0.1)}  # as in the paper


def _sam_sweeps(profile: Profile) -> list[Spec]:
    methods = [
        {**arm, "rho": rho, "label": f"{name}, {f'SAM {rho:g}' if rho else 'SGD'}"}
        for arm, (name, rhos) in zip(both(), RHO.items(), strict=True)
        for rho in rhos
    ]
    return [profile.spec(SAM, [CAT_DOG], methods)]


def _of(data: Data, *arms: str) -> "pd.Series[float]":
    return data[""].loc[data[""]["method"].isin(arms), "auc"].dropna()


def ahead(arm: str, data: Data, other: str = "") -> Measured:
    """Return what an arm has more in mean AUC than another, by default the best other one of VS."""
    means = data[""].groupby("method")["auc"].mean()
    others = means[means.index.str.startswith("VS, ") & (means.index != arm)]
    return welch(_of(data, arm), _of(data, other or str(others.idxmax())))


def _draw_sam(data: Data, **sheet: Any) -> Any:
    names = data[""]["method"].str.rpartition(", ")
    rows = data[""].assign(method=names[0], rho=names[2])
    rows = rows.sort_values("rho", key=lambda names: names != "SGD", kind="stable")
    return boxes(rows, x="rho", hue="method", xlabel="optimiser, SAM with its rho", **sheet)


SAM_BOX = Experiment(
    name=SAM,
    question="Does sharpness-aware minimisation (SAM) beat or help LCT, on cat/dog at beta = 100?",
    sweeps=_sam_sweeps,
    draw=_draw_sam,
    claims={
        "Of VS, SAM with rho = 0.1 has the highest mean AUC (less the next)": Claim(
            partial(ahead, "VS, SAM 0.1"), beyond_error, "best"
        ),
        "LCT with SGD has the higher mean AUC than every VS (less the best)": Claim(
            partial(ahead, SGD), beyond_error, "better on average"
        ),
        "LCT with SAM has the lower mean AUC than LCT with SGD": Claim(
            partial(ahead, "VS + LCT, SAM 0.1", other=SGD), beyond_error, "less than SGD", better=-1
        ),
        "VS with rho = 0.5 and 0.8 hardly ranks at all: a mean AUC below 0.55": Claim(
            lambda data: _of(data, "VS, SAM 0.5", "VS, SAM 0.8").mean(), within(0, 0.55), "naive"
        ),
        "SAM with rho = 0.1 spreads more than SGD (std of AUC)": Claim(
            lambda data: _of(data, "VS, SAM 0.1").std() - _of(data, "VS, SGD").std(),
            published="more spread out",
        ),
    },
    table=lambda data: by_method(data[""]).drop(columns="cells"),
    caveats=("One subsample; in brackets Welch's 95 % interval over 48 settings.",),
)

FILM = "fig-film"
FILM_TASKS = ("fashion-mnist:0/6", "fashion-mnist:2/4", "fashion-mnist:1/3", CAT_DOG)
# Of each setting of a recipe: the paper's value and the other, with their names.
CHOICES: dict[str, dict[str, Any]] = {
    "film_init": {"paper init": "paper", "identity init": "identity"},
    "scale_lambda": {"raw": False, "scaled": True},
    "draw": {"per batch": "batch", "per sample": "sample"},
}
VARIANTS = {f"LCT: {', '.join(names)}": names for names in product(*CHOICES.values())}


def _film_sweeps(profile: Profile) -> list[Spec]:
    vs, lct = both()
    methods = [vs]
    for label, names in VARIANTS.items():
        named = zip(CHOICES.items(), names, strict=True)
        settings = {setting: values[name] for (setting, values), name in named}
        methods.append({**lct, "label": label, **settings})
    return profile.specs(FILM, FILM_TASKS, methods)


def effect(choice: str, statistic: str, data: Data) -> Measured | None:
    """Return what the other value of one choice changes, whatever the other two choices are."""
    models, (paper, other) = data[""], CHOICES[choice]
    pairs = [(label, label.replace(paper, other)) for label in VARIANTS if paper in label]
    there = [pair for pair in pairs if set(pair) <= set(models["method"])]
    steps = [lead(models, *pair)[statistic] for pair in there]
    return over_cells(pd.concat(steps), statistic, "comparisons") if steps else None


def _draw_film(data: Data, **sheet: Any) -> Any:
    models = data[""].replace({"task": TITLES})
    lct = models["method"] != VS
    parts = models["method"].str.extract("LCT: (.*), (.*), (.*)")[lct]
    named = models[lct].assign(way=parts[1] + ",\n" + parts[2], method="LCT, " + parts[0])
    rows = pd.concat([*(models[~lct].assign(way=way) for way in named["way"].unique()), named])
    return boxes(rows, x="way", hue="method", panel="task", columns=2, **sheet)


FILM_CHOICES = Experiment(
    name=FILM,
    question="How should lambda get into the network: FiLM's start, its scale, its draw?",
    sweeps=_film_sweeps,
    draw=_draw_film,
    claims={
        f"{one} has the higher {name} AUC than {other}": Claim(partial(effect, choice, name))
        for choice, name, one, other in (
            ("film_init", "mean", "FiLM from the identity", "the paper's start"),
            ("film_init", "min", "FiLM from the identity", "the paper's start"),
            ("scale_lambda", "mean", "lambda scaled to [-1, 1]", "raw"),
            ("scale_lambda", "min", "lambda scaled to [-1, 1]", "raw"),
            ("draw", "mean", "A draw a sample", "a draw a batch"),
        )
    },
    table=lambda data: by_method(data[""]).drop(columns="cells"),
    caveats=(
        "One subsample; most of the gain is on pullover/coat, and cat/dog alone does not decide.",
        "The three Fashion-MNIST pairs are among those that recipes were chosen on.",
    ),
)

ROBUST = "fig-robustness"
ROBUST_TASKS = [f"fashion-mnist:{pair}" for pair in ("0/6", "2/4", "1/3")]
ROBUST_EPOCHS = {"laptop": [5, 20], "paper": [125, 500]}
CONDITION = ["epochs", "clip_norm", "lr"]


def _robust_sweeps(profile: Profile) -> list[Spec]:
    epochs = [1, 2] if profile.scale == "tiny" else ROBUST_EPOCHS[profile.name]
    training = {"lr": [0.01, 0.03, 0.1, 0.3], "epochs": epochs, "clip_norm": ["none", 0.5]}
    settings = {"omega": [0.5, 0.9], "gamma": [0.0, 0.2], **training}
    taus = {"vs": [0.0, 1.5, 3.0], "lct": ["0:3:0", "0:3:0.33", "0:3:0.66"]}
    methods = [{"method": name, **settings, "tau": tau} for name, tau in taus.items()]
    # The cosine of this preset fits any number of epochs; milestones would not.
    return [profile.spec(ROBUST, ROBUST_TASKS, methods, recipe={"preset": "quick"})]


def _collect_robust(reading: Reading) -> Data:
    models = reading.models()
    models["clip_norm"] = models["clip_norm"].map("{:g}".format).replace("nan", "none")
    return {"": models[["task", "method", *CONDITION, *SETTINGS, "auc"]]}


def condition_table(data: Data) -> pd.DataFrame:
    """Return statistics of both methods in each condition of training, averaged over tasks."""
    found = by_cell(data[""], [*CONDITION, "task", "method"])
    how: Any = {"mean": "mean", "min": "mean", "std": "mean", "diverged": "sum"}
    wide = found.groupby([*CONDITION, "method"]).agg(how).unstack("method")
    named = wide.set_axis([f"{method} {name}" for name, method in wide.columns], axis=1)
    return pd.DataFrame(named.reset_index())


def _averaged(statistic: str, data: Data) -> Measured:
    table = condition_table(data)
    steps = table[f"{LCT} {statistic}"] - table[f"{VS} {statistic}"]
    return over_cells(steps, statistic, "conditions")


def _all_together(statistic: str, data: Data) -> Measured:
    return over_cells(lead(data[""])[statistic], statistic, "pairs")


def _draw_robust(data: Data, **sheet: Any) -> Any:
    rows = data[""].sort_values(["epochs", "clip_norm"], kind="stable")
    clipped = np.where(rows["clip_norm"].astype(str) == "none", "unclipped", "clipped")
    rows = rows.assign(panel=rows["epochs"].astype(str) + " epochs, " + clipped)
    looks: Any = {"panel": "panel", "columns": 2, "diverged": True, "xlabel": "learning rate"}
    return boxes(rows, x="lr", hue="method", **looks, **sheet)


ROBUSTNESS = Experiment(
    name=ROBUST,
    question="Is LCT the more robust one when learning rate, epochs and clipping vary, too?",
    sweeps=_robust_sweeps,
    collect=_collect_robust,
    draw=_draw_robust,
    claims={
        "With everything varied, LCT has the lower std of AUC": Claim(
            partial(_all_together, "std"), better=-1
        ),
        "With everything varied, LCT has the higher min AUC": Claim(partial(_all_together, "min")),
        "By condition, LCT has the higher mean of AUC": Claim(partial(_averaged, "mean")),
        "By condition, LCT has the higher min of AUC": Claim(partial(_averaged, "min")),
        "By condition, LCT has the lower std of AUC": Claim(partial(_averaged, "std"), better=-1),
        "No more models of LCT diverged than of VS (their number, less)": Claim(
            lambda data: (data[""]["auc"].isna() * data[""]["method"].map({LCT: 1, VS: -1})).sum(),
            within(-np.inf, 0),
        ),
    },
    table=condition_table,
    caveats=(
        "Models that diverged are left out of averages, which flatters the arm with more of them.",
        "The three pairs are among those that recipes were chosen on; one subsample each.",
        "Statistics of a condition are over 12 settings a method, averaged over pairs.",
    ),
)
