"""What omega, gamma and tau do to a trained model, which to draw, and where to evaluate."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from curvewise.figures.frames import boxes, distribution, fits, lines
from curvewise.paper.experiment import AREAS, SETTINGS, Claim, Data, Experiment, Measured, Reading
from curvewise.paper.measures import LCT, VS, beyond_error, welch, within
from curvewise.paper.profiles import Profile
from curvewise.roc.curve import RocCurve, roc_curve
from curvewise.roc.metrics import binary_metrics
from curvewise.stats.areas import by_cell, percentile_band
from curvewise.stats.variance import explained, polynomial_fit
from curvewise.sweep.spec import Spec

TASK = "cifar10:cat/dog"
GRID: dict[str, list[float]] = {
    "omega": [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999],
    "gamma": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7],
    "tau": [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5],
}
SPREAD = "fig-hyper-distribution"
ONE_TASK = "One pair (cat/dog at beta = 100) and one subsample."
FROZEN = "Networks are heads on frozen features; the paper's are trained from scratch."


def _grid(name: str, profile: Profile) -> Spec:
    """Return the paper's 512 settings under a name; whatever it is, the runs are the same."""
    return profile.spec(name, [TASK], [{"method": "vs", **GRID}])


HYPER_DISTRIBUTION = Experiment(
    name=SPREAD,
    question="How far apart do 512 VS models lie that differ in omega, gamma and tau alone?",
    sweeps=lambda profile: [_grid(SPREAD, profile)],
    collect=lambda reading: {
        "areas": reading.models()[AREAS],
        "band": percentile_band(reading.models(scores=True)),
    },
    draw=lambda data, **sheet: distribution(data["band"], data["areas"]["auc"].dropna(), **sheet),
    claims={
        "AUC over the settings has a std of 0.03 (half of that holds)": Claim(
            lambda data: data["areas"]["auc"].std(), within(0.015, 1), "0.03"
        ),
        "From the lowest to the highest AUC it is 0.16 (half of that holds)": Claim(
            lambda data: np.ptp(data["areas"]["auc"].dropna()), within(0.08, 1), "0.58 to 0.74"
        ),
    },
    caveats=(ONE_TASK, FROZEN),
)

EXPLAINED = "fig-hyper-metrics"
METRICS = ["auc", "accuracy", "tpr"]  # rates at the threshold t = 0.5
DRAWN_METRICS = {"auc": "AUC", "tpr": "TPR at t = 0.5"}
# The second and the seventh of eight values: about one standard deviation to either side, so
# that these eight settings vary as much as all 512.
FEW = {name: [values[1], values[6]] for name, values in GRID.items()}


def _metric_sweeps(profile: Profile) -> list[Spec]:
    repeated = {"method": "vs", "repeats": 8 if profile.scale == "full" else 2, **FEW}
    few = profile.spec(f"{EXPLAINED}-repeats", [TASK], [repeated])
    return [_grid(EXPLAINED, profile), few]


def _variance_table(data: Data) -> pd.DataFrame:
    return explained(data[""], data["repeats"], SETTINGS, METRICS)


def _of(column: str, metric: str) -> Callable[[Data], float]:
    return lambda data: float(_variance_table(data).set_index("metric")[column][metric])


HYPER_METRICS = Experiment(
    name=EXPLAINED,
    question="How much of AUC, accuracy and TPR do omega, gamma and tau explain, and chance?",
    sweeps=_metric_sweeps,
    collect=lambda reading: {
        part: reading.models(sweep)[[*SETTINGS, *METRICS]]
        for part, sweep in zip(("", "repeats"), reading.sweeps, strict=True)
    },
    draw=lambda data, **sheet: fits(
        data[""].dropna(), x=SETTINGS, y=DRAWN_METRICS, fit=polynomial_fit, **sheet
    ),
    claims={
        "The settings explain less than half of AUC's variance (R2)": Claim(
            _of("R2", "auc"), within(0, 0.5), "0.11"
        ),
        "They explain at least half of TPR's (R2)": Claim(_of("R2", "tpr"), within(0.5, 1), "0.95"),
        "They explain at least half of accuracy's (R2)": Claim(
            _of("R2", "accuracy"), within(0.5, 1), "0.60"
        ),
        "Other initial weights make less than half of AUC's variance (share)": Claim(
            _of("share of chance", "auc"), within(0, 0.5)
        ),
        "Where settings were repeated they explain most of AUC's variance (share)": Claim(
            _of("settled", "auc"), within(0.5, 1)
        ),
    },
    table=lambda data: _variance_table(data).drop(columns="settled"),
    caveats=(ONE_TASK, FROZEN, "Chance: eight settings, eight initial weights each."),
)

CHOICE = "fig-lambda-choice"
# The paper gives neither settings nor where models are scored; these are ours. Constants are
# three a setting, densities fall to 0, are flat, or rise from 0, as far as two digits go.
CONSTANTS = {"omega": [0.5, 0.7, 0.9], "gamma": [0.0, 0.2, 0.4], "tau": [0.0, 1.5, 3.0]}
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
DRAWN = {"VS": [], **{name: [name] for name in SETTINGS}, "all three": SETTINGS}
# Every choice with where it is scored; VS has nothing to be scored at.
PLACES = [(name, at) for name, drawn in DRAWN.items() for at in SCORED if drawn or at == "top"]


def _choice_sweep(choice: str, scored: str, profile: Profile) -> Spec:
    """Return the 27 models of a choice, scored at the top or the middle of what they draw."""
    drawn, name = DRAWN[choice], f"{CHOICE}-{choice.lower().replace(' ', '-')}-{scored}"
    lists = CONSTANTS | {name: DENSITIES[name] for name in drawn}
    arm, evaluate = "lct" if drawn else "vs", {name: SCORED[scored][name] for name in drawn}
    return profile.spec(name, [TASK], [{"method": arm, **lists}], evaluate=evaluate)


def _collect_choices(reading: Reading) -> Data:
    parts = []
    for (choice, scored), sweep in zip(PLACES, reading.sweeps, strict=True):
        place = {"choice": choice, "scored": scored if DRAWN[choice] else None}
        parts.append(reading.models(sweep).assign(**place)[["choice", "scored", *AREAS]])
    return {"": pd.concat(parts)}


def _at_top(choice: str, data: Data) -> "pd.Series[float]":
    rows = data[""][data[""]["choice"] == choice]
    return rows.loc[rows["scored"].fillna("top") == "top", "auc"].dropna()


def _tau_less(choice: str, data: Data) -> Measured:
    return welch(_at_top("tau", data), _at_top(choice, data))


def _draw_choices(data: Data, **sheet: Any) -> Any:
    places = {place: f"scored at the {place} of the range" for place in SCORED}
    rows = data[""].assign(scored=data[""]["scored"].map(places).fillna(VS))
    rows["choice"] = rows["choice"].where(rows["choice"] == VS, "lambda = " + rows["choice"])
    return boxes(rows, x="choice", hue="scored", **sheet)


LAMBDA_CHOICE = Experiment(
    name=CHOICE,
    question="Which of omega, gamma and tau should be drawn: one, or all three?",
    sweeps=lambda profile: [_choice_sweep(*place, profile) for place in PLACES],
    collect=_collect_choices,
    draw=_draw_choices,
    claims={
        **{
            f"Drawing tau has the higher mean AUC than drawing {choice or 'nothing (VS)'}": Claim(
                partial(_tau_less, choice or VS), beyond_error, "best choice"
            )
            for choice in ("", "omega", "gamma", "all three")
        },
        "Drawing tau has the lower std of AUC than drawing nothing (VS)": Claim(
            lambda data: _at_top("tau", data).std() - _at_top(VS, data).std(), better=-1
        ),
    },
    table=lambda data: by_cell(data[""], ["choice", "scored"]).drop(columns="diverged"),
    caveats=(
        "Settings and where models are scored are not published: 27 of ours, at the top.",
        "A mean that is higher by less than two standard errors holds partly.",
        ONE_TASK,
    ),
)

MOVED = "fig-eval-lambda"
TAUS = (0.0, 1.0, 2.0, 3.0)
# The paper gives the density alone; omega and gamma are those that leave the loss to tau.
MODEL = {"method": "lct", "omega": 0.5, "gamma": 0.0, "tau": "0:3:0"}


def _collect_moved(reading: Reading) -> Data:
    points, corners = [], []
    for tau, sweep in zip(TAUS, reading.sweeps, strict=True):
        model = reading.models(sweep, scores=True).dropna(subset="auc").iloc[0]
        rates = binary_metrics(model["y"], model["score"], threshold=0.0)  # z1 - z0: t = 0.5
        points.append({"tau": tau, "auc": rates.auroc, "tpr": rates.tpr, "fpr": rates.fpr})
        curve = roc_curve(model["y"], model["score"], drop_intermediate=True)
        corners.append(pd.DataFrame({"tau": tau, "fpr": curve.fpr, "tpr": curve.tpr}))
    return {"points": pd.DataFrame(points), "curves": pd.concat(corners)}


def largest_gap(data: Data) -> float:
    """Return the largest difference of TPR at one FPR between any curve and the last tau's."""
    corners = [rows.to_numpy(float).T for _, rows in data["curves"].groupby("tau")[["fpr", "tpr"]]]
    curves = [RocCurve(fpr, tpr, np.empty(0)) for fpr, tpr in corners]
    rates = np.unique(np.concatenate([curve.fpr for curve in curves]))
    tpr = np.array([curve.tpr_at(rates) for curve in curves])
    return float(np.abs(tpr - tpr[-1]).max())


def _draw_moved(data: Data, **sheet: Any) -> Any:
    curves, points = (
        data[part].assign(tau=data[part]["tau"].map("tau = {:g}".format))
        for part in ("curves", "points")
    )
    return lines(curves, x="fpr", y="tpr", hue="tau", points=points, square=True, **sheet)


EVAL_LAMBDA = Experiment(
    name=MOVED,
    question="What does the lambda do at which one trained LCT model is evaluated?",
    # Seeds are the same, so all of them train the same weights.
    sweeps=lambda profile: [
        profile.spec(f"{MOVED}-{tau:g}", [TASK], [MODEL], evaluate={"tau": tau}) for tau in TAUS
    ],
    collect=_collect_moved,
    draw=_draw_moved,
    claims={
        "From tau = 0 to 3 AUC hardly changes (by less than 0.01)": Claim(
            lambda data: np.ptp(data["points"]["auc"]), within(0, 0.01), "almost identical curves"
        ),
        "TPR at the threshold t = 0.5 moves (by more than 0.1)": Claim(
            lambda data: np.ptp(data["points"]["tpr"]), within(0.1, 1), "points move"
        ),
        "The curves are nearly one (largest difference of TPR below 0.05)": Claim(
            largest_gap, within(0, 0.05), "almost identical curves"
        ),
    },
    caveats=(
        "One model, omega = 0.5 and gamma = 0; a threshold does the same with any model.",
        f"Large markers: the threshold t = 0.5 at each tau; the model is of {LCT}.",
    ),
)
