"""What omega, gamma and tau do to a trained model, which to draw, and where to evaluate."""

from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd

from curvewise.figures.frames import boxes, distribution, fits, lines
from curvewise.paper.experiment import (
    AREAS,
    SETTINGS,
    Claim,
    Data,
    Experiment,
    Measured,
    Reading,
    within,
)
from curvewise.paper.measures import LCT, VS, beyond_error, mean_difference
from curvewise.paper.profiles import Profile
from curvewise.roc.curve import RocCurve, roc_curve
from curvewise.roc.metrics import binary_metrics
from curvewise.stats.bands import curves_of, percentile_band
from curvewise.stats.variance import VarianceParts, polynomial_fit, variance_parts
from curvewise.sweep.spec import Spec

TASK, BETA = "cifar10:cat/dog", 100
GRID: dict[str, list[float]] = {
    "omega": [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999],
    "gamma": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7],
    "tau": [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5],
}
EDGES = ["fpr", "mean", "minimum", "maximum", "lower", "upper"]
ONE_TASK = "One pair (cat/dog at beta = 100) and one subsample."
FROZEN = "Networks are heads on frozen features; the paper's are trained from scratch."


def grid_sweep(name: str, profile: Profile) -> Spec:
    """Return the paper's 512 settings under a name; whatever it is, the runs are the same."""
    return profile.spec(name, [TASK], [{"method": "vs", **GRID}], betas=[BETA])


def _collect_distribution(reading: Reading) -> Data:
    models = reading.models("fig-hyper-distribution", scores=True)
    band = percentile_band(curves_of(models))
    return {
        "areas": models[AREAS],
        "band": pd.DataFrame({name: vars(band)[name] for name in EDGES}),
    }


def _spread(data: Data) -> "pd.Series[float]":
    return data["areas"]["auc"].dropna()


HYPER_DISTRIBUTION = Experiment(
    name="fig-hyper-distribution",
    question="How far apart do 512 VS models lie that differ in omega, gamma and tau alone?",
    published=True,
    sweeps=lambda profile: [grid_sweep("fig-hyper-distribution", profile)],
    collect=_collect_distribution,
    draw=lambda data, **sheet: distribution(data["band"], _spread(data), **sheet),
    claims=(
        Claim(
            "AUC over the settings has a std of 0.03 (half of that holds)",
            lambda data: Measured(float(_spread(data).std())),
            "0.03",
            holds=within(0.015, 1),
        ),
        Claim(
            "From the lowest to the highest AUC it is 0.16 (half of that holds)",
            lambda data: Measured(float(np.ptp(_spread(data)))),
            "0.58 to 0.74",
            holds=within(0.08, 1),
        ),
    ),
    caveats=(ONE_TASK, FROZEN),
)

METRICS_NAME = "fig-hyper-metrics"
REPEATS = f"{METRICS_NAME}-repeats"
METRICS = {"auc": "AUC", "accuracy": "accuracy", "tpr": "TPR"}  # rates at the threshold t = 0.5
# The second and the seventh of eight values: about one standard deviation to either side, so
# that these eight settings vary as much as all 512.
FEW = {name: [values[1], values[6]] for name, values in GRID.items()}


def _metric_sweeps(profile: Profile) -> list[Spec]:
    repeated = {"method": "vs", "repeats": 8 if profile.scale == "full" else 2, **FEW}
    few = profile.spec(REPEATS, [TASK], [repeated], betas=[BETA])
    return [grid_sweep(METRICS_NAME, profile), few]


def _collect_metrics(reading: Reading) -> Data:
    columns = [*SETTINGS, *METRICS]
    return {
        "": reading.models(METRICS_NAME)[columns],
        "repeats": reading.models(REPEATS)[columns],
    }


def explained(data: Data, metric: str, *, adjusted: bool = False) -> Measured:
    """Return R2 of a polynomial of degree 2 in all three settings."""
    rows = data[""].dropna(subset=[metric])
    fit = polynomial_fit(rows[SETTINGS], rows[metric])
    return Measured(fit.adjusted_r2 if adjusted else fit.r2)


def repeats_of(data: Data, metric: str) -> VarianceParts:
    """Return the variance of a metric between repeated settings and within them."""
    rows = data["repeats"].dropna(subset=[metric])
    return variance_parts([group for _, group in rows.groupby(SETTINGS)[metric]])


def chance_share(data: Data, metric: str) -> Measured:
    """Return the variance within a setting as a share of that over all settings."""
    total = float(data[""][metric].var(ddof=1))
    return Measured(repeats_of(data, metric).within / total if total else np.nan)


def variance_table(data: Data) -> pd.DataFrame:
    """Return for each metric what explains it: the settings as a polynomial, alone, and chance."""
    rows = []
    for metric, name in METRICS.items():
        known, parts = data[""].dropna(subset=[metric]), repeats_of(data, metric)
        alone = {
            f"R2, {setting} alone": polynomial_fit(known[[setting]], known[metric]).r2
            for setting in SETTINGS
        }
        rows.append(
            {"metric": name, "R2": explained(data, metric).value, **alone}
            | {"adjusted R2": explained(data, metric, adjusted=True).value}
            | {"share of chance": chance_share(data, metric).value}
            | {"std over settings": float(known[metric].std()), "std of one": sqrt(parts.within)}
        )
    return pd.DataFrame(rows)


def _settings_share(data: Data) -> Measured:
    return Measured(repeats_of(data, "auc").correlation)


HYPER_METRICS = Experiment(
    name=METRICS_NAME,
    question="How much of AUC, accuracy and TPR do omega, gamma and tau explain, and chance?",
    published=True,
    sweeps=_metric_sweeps,
    collect=_collect_metrics,
    draw=lambda data, **sheet: fits(
        data[""].dropna(), x=SETTINGS, y={"auc": "AUC", "tpr": "TPR at t = 0.5"}, **sheet
    ),
    claims=(
        Claim(
            "The settings explain less than half of AUC's variance (R2)",
            partial(explained, metric="auc"),
            "0.11",
            holds=within(0, 0.5),
        ),
        Claim(
            "They explain at least half of TPR's (R2)",
            partial(explained, metric="tpr"),
            "0.95",
            holds=within(0.5, 1),
        ),
        Claim(
            "They explain at least half of accuracy's (R2)",
            partial(explained, metric="accuracy"),
            "0.60",
            holds=within(0.5, 1),
        ),
        Claim(
            "Other initial weights make less than half of AUC's variance (share)",
            partial(chance_share, metric="auc"),
            holds=within(0, 0.5),
        ),
        Claim(
            "Where settings were repeated they explain most of AUC's variance (share)",
            _settings_share,
            holds=within(0.5, 1),
        ),
    ),
    table=variance_table,
    caveats=(ONE_TASK, FROZEN, "Chance: eight settings, eight initial weights each."),
)

CHOICE = "fig-lambda-choice"
# The paper gives neither settings nor where models are scored; these are ours. Constants are
# three a setting, densities fall to 0, are flat, or rise from 0, as far as two digits go.
CONSTANTS: dict[str, list[float]] = {
    "omega": [0.5, 0.7, 0.9],
    "gamma": [0.0, 0.2, 0.4],
    "tau": [0.0, 1.5, 3.0],
}
DENSITIES = {
    "omega": ["0.5:0.99:0", "0.5:0.99:2.04", "0.5:0.99:4.08"],
    "gamma": ["0:0.4:0", "0:0.4:2.5", "0:0.4:5"],
    "tau": ["0:3:0", "0:3:0.33", "0:3:0.66"],
}
# The paper scores lambda = tau at the top, 3; the middle shows whether that decides anything.
SCORED = {
    "top": {"omega": 0.99, "gamma": 0.4, "tau": 3.0},
    "middle": {"omega": 0.745, "gamma": 0.2, "tau": 1.5},
}
CHOICES: dict[str, tuple[str, ...]] = {
    "VS": (),
    "omega": ("omega",),
    "gamma": ("gamma",),
    "tau": ("tau",),
    "all three": ("omega", "gamma", "tau"),
}
# Every choice with where it is scored; VS has nothing to be scored at.
CHOSEN = [
    (choice, scored)
    for choice, drawn in CHOICES.items()
    for scored in SCORED
    if drawn or scored == "top"
]


def choice_sweep(choice: str, scored: str, profile: Profile) -> Spec:
    """Return the 27 models of a choice, scored at the top or the middle of what they draw."""
    drawn = CHOICES[choice]
    lists = {name: DENSITIES[name] if name in drawn else CONSTANTS[name] for name in CONSTANTS}
    return profile.spec(
        f"{CHOICE}-{choice.lower().replace(' ', '-')}-{scored}",
        [TASK],
        [{"method": "lct" if drawn else "vs", **lists}],
        betas=[BETA],
        evaluate={name: SCORED[scored][name] for name in drawn},
    )


def _collect_choices(reading: Reading) -> Data:
    parts = []
    for (choice, scored), sweep in zip(CHOSEN, reading.sweeps, strict=True):
        models = reading.models(sweep)[AREAS]
        models.insert(0, "choice", choice)
        models.insert(1, "scored", scored if CHOICES[choice] else None)
        parts.append(models)
    return {"": pd.concat(parts)}


def _choice_areas(data: Data, choice: str, scored: str = "top") -> "pd.Series[float]":
    rows = data[""]
    rows = rows[(rows["choice"] == choice) & rows["scored"].fillna(scored).eq(scored)]
    return rows["auc"].dropna()


def _tau_beats(other: str, data: Data) -> Measured:
    return mean_difference(_choice_areas(data, "tau"), _choice_areas(data, other))


def _draw_choices(data: Data, **sheet: Any) -> Any:
    rows = data[""].assign(
        choice=data[""]["choice"].map(lambda name: name if name == "VS" else f"lambda = {name}"),
        scored=data[""]["scored"]
        .map(lambda place: f"scored at the {place} of the range", na_action="ignore")
        .fillna(VS),
    )
    return boxes(rows, x="choice", hue="scored", **sheet)


def choice_table(data: Data) -> pd.DataFrame:
    """Return statistics of AUC by what is drawn and where it is scored."""
    groups = data[""].groupby(["choice", "scored"], sort=False, dropna=False)["auc"]
    return groups.agg(models="count", mean="mean", min="min", max="max", std="std").reset_index()


LAMBDA_CHOICE = Experiment(
    name=CHOICE,
    question="Which of omega, gamma and tau should be drawn: one, or all three?",
    published=True,
    sweeps=lambda profile: [choice_sweep(*place, profile) for place in CHOSEN],
    collect=_collect_choices,
    draw=_draw_choices,
    claims=(
        *(
            Claim(
                f"Drawing tau has the higher mean AUC than {text}",
                partial(_tau_beats, other),
                "best choice",
                holds=beyond_error,
            )
            for other, text in (
                ("VS", "drawing nothing (VS)"),
                ("omega", "drawing omega"),
                ("gamma", "drawing gamma"),
                ("all three", "drawing all three"),
            )
        ),
        Claim(
            "Drawing tau has the lower std of AUC than drawing nothing (VS)",
            lambda data: Measured(
                float(_choice_areas(data, "tau").std() - _choice_areas(data, "VS").std())
            ),
            better=-1,
        ),
    ),
    table=choice_table,
    caveats=(
        "Settings and where models are scored are not published: 27 of ours, at the top.",
        "Means within two standard errors are undecided, which counts as partly.",
        ONE_TASK,
    ),
)

MOVED = "fig-eval-lambda"
TAUS = (0.0, 1.0, 2.0, 3.0)
# The paper gives the density alone; omega and gamma are those that leave the loss to tau.
MODEL = {"method": "lct", "omega": 0.5, "gamma": 0.0, "tau": "0:3:0"}


def _moved_sweeps(profile: Profile) -> list[Spec]:
    """Return one spec for each tau; seeds are the same, so all of them train the same weights."""
    return [
        profile.spec(f"{MOVED}-{tau:g}", [TASK], [MODEL], betas=[BETA], evaluate={"tau": tau})
        for tau in TAUS
    ]


def _collect_moved(reading: Reading) -> Data:
    points, corners = [], []
    for tau, sweep in zip(TAUS, reading.sweeps, strict=True):
        model = reading.models(sweep, scores=True).dropna(subset="auc").iloc[0]
        metrics = binary_metrics(model["y"], model["score"], threshold=0.0)  # z1 - z0, t = 0.5
        rates = {"auc": metrics.auroc, "tpr": metrics.tpr, "fpr": metrics.fpr}
        points.append({"tau": tau, **rates})
        curve = roc_curve(model["y"], model["score"], drop_intermediate=True)
        corners.append(pd.DataFrame({"tau": tau, "fpr": curve.fpr, "tpr": curve.tpr}))
    return {"points": pd.DataFrame(points), "curves": pd.concat(corners)}


def largest_gap(data: Data) -> Measured:
    """Return the largest difference of TPR at one FPR between any curve and the last tau's."""
    curves = [
        RocCurve(corners["fpr"].to_numpy(float), corners["tpr"].to_numpy(float), np.empty(0))
        for _, corners in data["curves"].groupby("tau")
    ]
    rates = np.unique(np.concatenate([curve.fpr for curve in curves]))
    tpr = np.array([curve.tpr_at(rates) for curve in curves])
    return Measured(float(np.abs(tpr - tpr[-1]).max()))


def _range(name: str, data: Data) -> Measured:
    return Measured(float(np.ptp(data["points"][name])))


def _draw_moved(data: Data, **sheet: Any) -> Any:
    named = {
        part: rows.assign(tau=rows["tau"].map("tau = {:g}".format)) for part, rows in data.items()
    }
    return lines(
        named["curves"],
        x="fpr",
        y="tpr",
        hue="tau",
        points=named["points"],
        square=True,
        xlabel="False positive rate",
        ylabel="True positive rate",
        **sheet,
    )


EVAL_LAMBDA = Experiment(
    name=MOVED,
    question="What does the lambda do at which one trained LCT model is evaluated?",
    published=True,
    sweeps=_moved_sweeps,
    collect=_collect_moved,
    draw=_draw_moved,
    claims=(
        Claim(
            "From tau = 0 to 3 AUC hardly changes (by less than 0.01)",
            partial(_range, "auc"),
            "almost identical curves",
            holds=within(0, 0.01),
        ),
        Claim(
            "TPR at the threshold t = 0.5 moves (by more than 0.1)",
            partial(_range, "tpr"),
            "points move",
            holds=within(0.1, 1),
        ),
        Claim(
            "The curves are nearly one (largest difference of TPR below 0.05)",
            largest_gap,
            "almost identical curves",
            holds=within(0, 0.05),
        ),
    ),
    caveats=(
        "One model, omega = 0.5 and gamma = 0; a threshold does the same with any model.",
        f"Large markers: the threshold t = 0.5 at each tau; the model is of {LCT}.",
    ),
)
