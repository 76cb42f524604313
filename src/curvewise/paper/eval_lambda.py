"""One LCT model scored at tau = 0, 1, 2, 3: its ROC curves, and what a fixed threshold does."""

from textwrap import fill
from typing import Any

import numpy as np

from curvewise.base.errors import InputError
from curvewise.figures.hyper import MarkedCurve, plot_marked_curves
from curvewise.paper.captions import title_of
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile
from curvewise.roc.curve import RocCurve, roc_curve
from curvewise.roc.metrics import binary_metrics
from curvewise.sweep.spec import Spec

NAME = "fig-eval-lambda"
TASK, BETA = "cifar10:cat/dog", 100
TAUS = (0.0, 1.0, 2.0, 3.0)
# The paper gives the density alone; omega and gamma are those that leave the loss to tau.
MODEL = {"method": "lct", "omega": 0.5, "gamma": 0.0, "tau": "0:3:0"}
LETTERS = 72  # of a title that fit above the figure
SAME_AREA, MOVED = 0.01, 0.1  # AUC that differs by less is the same; TPR by more has moved


def _sweeps(profile: Profile) -> list[Spec]:
    """Return one spec for each tau; seeds are the same, so all of them train the same weights."""
    return [
        profile.spec(_sweep_name(tau), [TASK], [MODEL], betas=[BETA], evaluate={"tau": tau})
        for tau in TAUS
    ]


def _sweep_name(tau: float) -> str:
    return f"{NAME}-{tau:g}"


def _collect(reading: Reading) -> Data:
    points: Rows = []
    corners: Rows = []
    for tau in TAUS:
        (cell,) = reading.cells(_sweep_name(tau))
        if not cell.scores:
            raise InputError(f"the one model of {NAME} diverged, so there is nothing to show")
        score = np.asarray(cell.scores["VS + LCT"])[0]
        metrics = binary_metrics(cell.y, score, threshold=0.0)  # z1 - z0 = 0 is t = 0.5
        points.append({"tau": tau, "auc": metrics.auroc, "tpr": metrics.tpr, "fpr": metrics.fpr})
        curve = roc_curve(cell.y, score, drop_intermediate=True)
        corners += [
            {"tau": tau, "fpr": fpr, "tpr": tpr}
            for fpr, tpr in zip(curve.fpr.tolist(), curve.tpr.tolist(), strict=True)
        ]
    return {"points": points, "curves": corners}


def _present(data: Data, profile: Profile) -> Outcome:
    curves = curves_from(data["curves"])
    marked = {
        f"tau = {row['tau']:g}": MarkedCurve(
            curves[row["tau"]].fpr, curves[row["tau"]].tpr, row["auc"], (row["fpr"], row["tpr"])
        )
        for row in data["points"]
    }
    told = fill(f"({profile.caption(TASK)})", LETTERS)
    title = f"One LCT model, {title_of(TASK)}, beta = {BETA}\n{told}"
    table = evaluation_table(data["points"], curves)
    return Outcome(
        verdict=verdict(table),
        tables={"One model (omega = 0.5, gamma = 0, tau on [0, 3] with h_b = 0)": table},
        figures={NAME: plot_marked_curves(marked, title=title)},
    )


def curves_from(rows: Rows) -> dict[float, RocCurve]:
    """Return the curves by tau; their thresholds are not known."""
    found: dict[float, list[tuple[float, float]]] = {}
    for row in rows:
        found.setdefault(row["tau"], []).append((row["fpr"], row["tpr"]))
    return {tau: _curve(corners) for tau, corners in found.items()}


def _curve(corners: list[tuple[float, float]]) -> RocCurve:
    fpr, tpr = np.array(corners, dtype=np.float64).T
    return RocCurve(fpr, tpr, np.full(len(fpr), np.nan))


def evaluation_table(points: Rows, curves: dict[float, RocCurve]) -> Rows:
    """Return AUC, the rates at t = 0.5 and the largest gap to the last tau's curve, tau by tau."""
    last = curves[points[-1]["tau"]]
    return [
        {
            "evaluated at tau": row["tau"],
            "AUC": row["auc"],
            "TPR at t = 0.5": row["tpr"],
            "FPR at t = 0.5": row["fpr"],
            f"largest difference of TPR to tau = {points[-1]['tau']:g}": largest_gap(
                curves[row["tau"]], last
            ),
        }
        for row in points
    ]


def largest_gap(a: RocCurve, b: RocCurve) -> float:
    """Return the largest difference of TPR at one FPR between two curves.

    >>> zero, one = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])
    >>> perfect = RocCurve(zero, one, zero)
    >>> largest_gap(perfect, RocCurve(np.array([0.0, 1.0]), np.array([0.0, 1.0]), zero))
    1.0
    """
    rates = np.union1d(a.fpr, b.fpr)
    return float(np.abs(np.asarray(a.tpr_at(rates)) - np.asarray(b.tpr_at(rates))).max())


def verdict(table: Rows) -> str:
    """Say whether the curves are nearly one while the points at t = 0.5 move."""
    area, tpr, fpr = (_range(table, name) for name in ("AUC", "TPR at t = 0.5", "FPR at t = 0.5"))
    same, moved = area < SAME_AREA, max(tpr, fpr) > MOVED
    holds = "holds" if same and moved else "does not hold"
    return (
        f"The paper's claim that the evaluation lambda moves the point at t = 0.5 but not the "
        f"curve {holds} here: between tau = {table[0]['evaluated at tau']:g} and "
        f"{table[-1]['evaluated at tau']:g} AUC differs by {area:.4f} at most, TPR at t = 0.5 by "
        f"{tpr:.3f} and FPR by {fpr:.3f}."
    )


def _range(table: Rows, name: str) -> Any:
    values = [row[name] for row in table]
    return max(values) - min(values)


EVAL_LAMBDA = Experiment(
    name=NAME,
    shows="One LCT model at tau = 0, 1, 2, 3: four ROC curves and the points at t = 0.5",
    published="the ROC curves are almost identical, the points at t = 0.5 move",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
