"""What else decides: the optimiser, how lambda gets in, how long and how fast one trains."""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from curvewise.figures.frames import boxes
from curvewise.paper.experiment import SETTINGS, Claim, Data, Experiment, Measured, Reading, within
from curvewise.paper.imbalance import CAT_DOG
from curvewise.paper.measures import (
    LCT,
    VS,
    beyond_error,
    mean_difference,
    over_cells,
    title_of,
)
from curvewise.paper.profiles import Profile
from curvewise.stats.areas import by_method, differences
from curvewise.sweep.spec import Spec

SAM = "fig-sam"
RHO = (0.0, 0.05, 0.1, 0.3, 0.5, 0.8)
LCT_RHO = (0.0, 0.1)  # as in the paper
NAIVE = 0.55  # AUC below which a model hardly ranks at all


def optimizer_of(rho: float) -> str:
    """Return SAM with its rho, or SGD for 0."""
    return f"SAM {rho:g}" if rho else "SGD"


# Each arm is called by its method and optimiser: "VS, SAM 0.05".
SAM_ARMS = {
    f"{method}, {optimizer_of(rho)}": (method, rho)
    for method, every_rho in ((VS, RHO), (LCT, LCT_RHO))
    for rho in every_rho
}


def _sam_sweeps(profile: Profile) -> list[Spec]:
    methods: list[dict[str, Any]] = [
        {"method": "vs" if method == VS else "lct", "grid": "paper", "rho": rho, "label": label}
        for label, (method, rho) in SAM_ARMS.items()
    ]
    return [profile.spec(SAM, [CAT_DOG], methods)]


def _areas(data: Data, *arms: str) -> "pd.Series[float]":
    models = data[""]
    return models.loc[models["method"].isin(arms), "auc"].dropna()


def _beats(a: str, b: str, data: Data) -> Measured | None:
    first, second = _areas(data, a), _areas(data, b)
    return mean_difference(first, second) if len(first) and len(second) else None


def _best_vs(data: Data, but: str = "") -> str:
    means = by_method(data[""]).set_index("method")["mean"]
    return str(
        means[[arm for arm in means.index if arm.startswith("VS, ") and arm != but]].idxmax()
    )


def _draw_sam(data: Data, **sheet: Any) -> Any:
    rows = data[""].assign(
        rho=data[""]["method"].map(lambda arm: optimizer_of(SAM_ARMS[arm][1])),
        method=data[""]["method"].map(lambda arm: SAM_ARMS[arm][0]),
    )
    order = {optimizer_of(rho): place for place, rho in enumerate(RHO)}
    rows = rows.sort_values("rho", key=lambda names: names.map(order), kind="stable")
    return boxes(rows, x="rho", hue="method", xlabel="optimiser, SAM with its rho", **sheet)


SAM_BOX = Experiment(
    name=SAM,
    question="Does sharpness-aware minimisation (SAM) beat or help LCT, on cat/dog at beta = 100?",
    published=True,
    sweeps=_sam_sweeps,
    draw=_draw_sam,
    claims=(
        Claim(
            "Of VS, SAM with rho = 0.1 has the highest mean AUC (less the next)",
            lambda data: _beats("VS, SAM 0.1", _best_vs(data, "VS, SAM 0.1"), data),
            "best",
            holds=beyond_error,
        ),
        Claim(
            "LCT with SGD has the higher mean AUC than every VS (less the best)",
            lambda data: _beats("VS + LCT, SGD", _best_vs(data), data),
            "better on average",
            holds=beyond_error,
        ),
        Claim(
            "LCT with SAM has the lower mean AUC than LCT with SGD",
            partial(_beats, "VS + LCT, SAM 0.1", "VS + LCT, SGD"),
            "less than with SGD",
            better=-1,
            holds=beyond_error,
        ),
        Claim(
            "VS with rho = 0.5 and 0.8 hardly ranks at all: a mean AUC below 0.55",
            lambda data: Measured(float(_areas(data, "VS, SAM 0.5", "VS, SAM 0.8").mean())),
            "naive classifiers",
            holds=within(0, NAIVE),
        ),
        Claim(
            "SAM with rho = 0.1 spreads more than SGD (std of AUC)",
            lambda data: Measured(
                float(_areas(data, "VS, SAM 0.1").std() - _areas(data, "VS, SGD").std())
            ),
            "more spread out",
        ),
    ),
    table=lambda data: by_method(data[""]).drop(columns="cells"),
    caveats=("One subsample; in brackets Welch's 95 % interval over 48 settings.",),
)

FILM = "fig-film"
FILM_TASKS = (("fashion-mnist:0/6", "fashion-mnist:2/4", "fashion-mnist:1/3"), (CAT_DOG,))
# Of each setting of a recipe: the paper's value and the other, with their names.
CHOICES: dict[str, dict[str, Any]] = {
    "film_init": {"paper init": "paper", "identity init": "identity"},
    "scale_lambda": {"raw": False, "scaled": True},
    "draw": {"per batch": "batch", "per sample": "sample"},
}
VARIANTS = tuple(product(*CHOICES.values()))  # the first is the paper's


def label_of(variant: tuple[str, ...]) -> str:
    """Return how a variant is called.

    >>> label_of(VARIANTS[0])
    'LCT: paper init, raw, per batch'
    """
    return "LCT: " + ", ".join(variant)


def _film_sweeps(profile: Profile) -> list[Spec]:
    methods: list[dict[str, Any]] = [{"method": "vs", "grid": "paper"}]
    for variant in VARIANTS:
        named = zip(CHOICES.items(), variant, strict=True)
        settings = {setting: values[name] for (setting, values), name in named}
        methods.append({"method": "lct", "grid": "paper", "label": label_of(variant), **settings})
    return [
        profile.spec(f"{FILM}-{tasks[0].partition(':')[0]}", list(tasks), methods)
        for tasks in FILM_TASKS
    ]


def effect(data: Data, position: int, statistic: str) -> Measured:
    """Return what the other value of one choice changes, whatever the other two choices are."""
    known, steps = set(data[""]["method"]), []
    paper, other = list(CHOICES.values())[position]
    for variant in VARIANTS:
        changed = (*variant[:position], other, *variant[position + 1 :])
        pair = label_of(variant), label_of(changed)
        if variant[position] == paper and known.issuperset(pair):
            steps.append(differences(data[""], *pair)[statistic])
    if not steps:
        return Measured(np.nan)
    return over_cells(pd.concat(steps), statistic, "comparisons")


def _draw_film(data: Data, **sheet: Any) -> Any:
    models = data[""].assign(task=data[""]["task"].map(title_of))
    lct = models["method"] != VS
    parts = models["method"].str.extract("LCT: (.*), (.*), (.*)")[lct]
    named = models[lct].assign(way=parts[1] + ",\n" + parts[2], method="LCT, " + parts[0])
    vs = [models[~lct].assign(way=way) for way in named["way"].unique()]
    return boxes(pd.concat([*vs, named]), x="way", hue="method", panel="task", columns=2, **sheet)


FILM_CHOICES = Experiment(
    name=FILM,
    question="How should lambda get into the network: FiLM's start, its scale, its draw?",
    sweeps=_film_sweeps,
    draw=_draw_film,
    claims=(
        *(
            Claim(
                f"FiLM from the identity has the higher {name} AUC than from the paper's start",
                partial(effect, position=0, statistic=name),
            )
            for name in ("mean", "min")
        ),
        *(
            Claim(
                f"lambda scaled to [-1, 1] has the higher {name} AUC than the raw one",
                partial(effect, position=1, statistic=name),
            )
            for name in ("mean", "min")
        ),
        Claim(
            "A draw a sample has the higher mean AUC than a draw a batch",
            partial(effect, position=2, statistic="mean"),
        ),
    ),
    table=lambda data: by_method(data[""]).drop(columns="cells"),
    caveats=(
        "One subsample; most of the gain is on pullover/coat, and cat/dog alone does not decide.",
        "The three Fashion-MNIST pairs are among those that recipes were chosen on.",
    ),
)

ROBUST = "fig-robustness"
ROBUST_TASKS = [f"fashion-mnist:{pair}" for pair in ("0/6", "2/4", "1/3")]
ROBUST_EPOCHS = {("laptop", "full"): [5, 20], ("paper", "full"): [125, 500]}
CONDITION = ["epochs", "clip_norm", "lr"]


def _robust_sweeps(profile: Profile) -> list[Spec]:
    settings = {"omega": [0.5, 0.9], "gamma": [0.0, 0.2]}
    training = {
        "lr": [0.01, 0.03, 0.1, 0.3],
        "epochs": ROBUST_EPOCHS.get((profile.name, profile.scale), [1, 2]),
        "clip_norm": ["none", 0.5],
    }
    methods = [
        {"method": "vs", **settings, "tau": [0.0, 1.5, 3.0], **training},
        {"method": "lct", **settings, "tau": ["0:3:0", "0:3:0.33", "0:3:0.66"], **training},
    ]
    # The cosine of this preset fits any number of epochs; milestones would not.
    return [profile.spec(ROBUST, ROBUST_TASKS, methods, recipe={"preset": "quick"})]


def _collect_robust(reading: Reading) -> Data:
    models = reading.models(ROBUST).rename(columns=lambda name: name.removeprefix("recipe."))
    models["clip_norm"] = models["clip_norm"].map("{:g}".format).replace("nan", "none")
    return {"": models[["task", "method", *CONDITION, *SETTINGS, "auc"]]}


def condition_table(data: Data) -> pd.DataFrame:
    """Return a row for each training condition: statistics of both methods, averaged over tasks.

    Models that diverged have none, and are counted.
    """
    groups = data[""].groupby([*CONDITION, "task", "method"])["auc"]
    found = groups.agg(mean="mean", min="min", std="std")
    found["diverged"] = groups.size() - groups.count()
    how = {"mean": "mean", "min": "mean", "std": "mean", "diverged": "sum"}
    wide = found.groupby([*CONDITION, "method"]).agg(how).unstack("method")  # type: ignore[call-overload]
    named = wide.set_axis([f"{method} {name}" for name, method in wide.columns], axis=1)
    return pd.DataFrame(named.reset_index())


def _conditions(statistic: str, data: Data) -> Measured:
    table = condition_table(data)
    return over_cells(
        table[f"{LCT} {statistic}"] - table[f"{VS} {statistic}"], statistic, "conditions"
    )


def _all_together(statistic: str, data: Data) -> Measured:
    models = data[""].assign(beta=100.0, seed=0)
    return over_cells(differences(models, VS, LCT)[statistic], statistic, "pairs")


def _draw_robust(data: Data, **sheet: Any) -> Any:
    models = data[""]
    clipped = models["clip_norm"].map(lambda norm: "unclipped" if norm == "none" else "clipped")
    rows = models.assign(
        panel=models["epochs"].astype(str) + " epochs, " + clipped,
        lr=models["lr"].map("{:g}".format),
    ).sort_values(["epochs", "clip_norm"], kind="stable")
    return boxes(
        rows,
        x="lr",
        hue="method",
        panel="panel",
        columns=2,
        diverged=True,
        xlabel="learning rate",
        **sheet,
    )


ROBUSTNESS = Experiment(
    name=ROBUST,
    question="Is LCT the more robust one when learning rate, epochs and clipping vary, too?",
    sweeps=_robust_sweeps,
    collect=_collect_robust,
    draw=_draw_robust,
    claims=(
        Claim(
            "With everything varied, LCT has the lower std of AUC",
            partial(_all_together, "std"),
            better=-1,
        ),
        Claim("With everything varied, LCT has the higher min AUC", partial(_all_together, "min")),
        *(
            Claim(
                f"By condition, LCT has the {word} of AUC", partial(_conditions, name), better=sign
            )
            for name, word, sign in (
                ("mean", "higher mean", 1),
                ("min", "higher min", 1),
                ("std", "lower std", -1),
            )
        ),
        Claim(
            "Models of LCT that diverged, less those of VS",
            lambda data: Measured(
                float(data[""].loc[data[""]["auc"].isna(), "method"].map({LCT: 1, VS: -1}).sum())
            ),
            holds=within(-np.inf, 0),
        ),
    ),
    table=condition_table,
    caveats=(
        "Models that diverged are left out of averages, which flatters the arm with more of them.",
        "The three pairs are among those that recipes were chosen on; one subsample each.",
        "Statistics of a condition are over 12 settings a method, averaged over pairs.",
    ),
)
