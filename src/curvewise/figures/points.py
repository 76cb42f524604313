"""Static figures for one model in use: its operating point, and its probabilities."""

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import InputError
from curvewise.figures.curves import (
    LOWEST_RATE,
    Corner,
    color_of,
    new_axes,
    place_legend,
    require_named,
)
from curvewise.roc.curve import Labels, RocCurve, check_scored
from curvewise.roc.metrics import probability_bins
from curvewise.roc.operating import OperatingPoint, rate_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SAME = 1e-9  # rates that differ by less are one: a sample of a billion would make more
LINE = 40  # letters of a note, before it is broken


def plot_operating_point(
    curve: RocCurve,
    point: OperatingPoint,
    *,
    name: str = "model",
    log: bool = False,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a ROC curve, the point chosen on it, its exact intervals, and what it means in use.

    The point must lie on the curve: one that was chosen on other data is first measured on these,
    by ``operating_point(y, score, point.threshold)``. What the point promises is its `note`.

    Parameters
    ----------
    log
        Draw the false positive rate logarithmically, which shows where rare classes are decided.

    >>> from curvewise.roc.curve import roc_curve
    >>> from curvewise.roc.operating import choose_operating_point
    >>> y, score = [0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9]
    >>> point = choose_operating_point(y, score, max_fpr=0.0)
    >>> axes = plot_operating_point(roc_curve(y, score), point)
    >>> axes.texts[0].get_text().splitlines()[1]
    'TPR 0.500 (0.013 to 0.987)'
    """
    _require_on_curve(curve, point)
    axes = ax if ax is not None else new_axes()
    lowest = LOWEST_RATE if log else 0.0
    fpr, tpr = np.maximum(curve.fpr, lowest), curve.tpr
    axes.plot(fpr, tpr, color=color_of(0), label=f"{name}: AUC {curve.auc:.4f}")
    x = max(point.fpr, lowest)
    low, high = (max(end, lowest) for end in point.fpr_interval)
    below, above = point.tpr_interval
    axes.errorbar(
        [x], [point.tpr], xerr=[[x - low], [high - x]],
        yerr=[[point.tpr - below], [above - point.tpr]], fmt="o", color="black", capsize=3,
        label=f"operating point, {point.level:.0%} intervals",
    )  # fmt: skip
    axes.plot([x, x], [0, point.tpr], color="0.6", linewidth=0.8, linestyle=":")
    axes.plot([lowest, x], [point.tpr, point.tpr], color="0.6", linewidth=0.8, linestyle=":")
    axes.set(xlabel="False positive rate", ylabel="True positive rate", title=title or "")
    axes.set(xlim=(lowest, 1) if log else (-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.set_xscale("log" if log else "linear")
    above = _free_above(curve, lowest)
    corner = (0.03, 0.97, "left", "top") if above else (0.97, 0.03, "right", "bottom")
    axes.text(
        *corner[:2], _in_words(point), ha=corner[2], va=corner[3], transform=axes.transAxes,
        fontsize="small", bbox={"facecolor": "white", "edgecolor": "0.8", "alpha": 0.85},
    )  # fmt: skip
    other: Corner = "lower right" if above else "upper left" if log else "center right"
    place_legend(axes, within=other)
    return axes


def _free_above(curve: RocCurve, lowest: float) -> bool:
    """Return whether a box of words has more room above the curve, left, than below it, right."""
    # The inner corner of the box, in shares of the axes, is what comes nearest to the curve.
    across, up = 0.62, 0.42
    left, right = (lowest ** (1 - x) if lowest else x for x in (1 - across, across))
    room_above = (1 - up) - float(np.interp(right, curve.fpr, curve.tpr))
    room_below = float(np.interp(left, curve.fpr, curve.tpr)) - up
    return room_above > room_below


def _require_on_curve(curve: RocCurve, point: OperatingPoint) -> None:
    for wanted, given in ((RocCurve, curve), (OperatingPoint, point)):
        if not isinstance(given, wanted):
            got = type(given).__name__
            raise InputError(f"plot_operating_point needs one {wanted.__name__}, got {got}")
    corners = np.stack([curve.fpr, curve.tpr], axis=1)
    way = np.array([point.fpr, point.tpr]) - corners[:-1]
    steps = np.diff(corners, axis=0)
    lengths = (steps**2).sum(axis=1)
    along = np.divide((way * steps).sum(axis=1), lengths, np.zeros(len(steps)), where=lengths > 0)
    away = np.hypot(*(way - np.clip(along, 0, 1)[:, None] * steps).T).min()
    if not away <= SAME:
        raise InputError(
            f"the point must lie on the curve, got FPR {point.fpr:.6g} and TPR {point.tpr:.6g}, "
            f"{away:.2g} away: measure its threshold on the curve's data by operating_point"
        )


def _in_words(point: OperatingPoint) -> str:
    alarms = 1000 * (point.prevalence * point.tpr + (1 - point.prevalence) * point.fpr)
    lines = [
        f"score at least {point.threshold:.4g}",
        f"TPR {point.tpr:.3f} ({point.tpr_interval[0]:.3f} to {point.tpr_interval[1]:.3f})",
        f"FPR {point.fpr:.4f} ({point.fpr_interval[0]:.4f} to {point.fpr_interval[1]:.4f})",
        f"precision {point.ppv:.3f} where {point.prevalence:.2%} are positive"
        if np.isfinite(point.ppv)
        else "no precision: nothing is called positive",
        f"{alarms:.1f} alarms per 1,000 cases",
    ]
    if point.note:  # one rate is promised, not all that stand above
        lines.append(fill(point.note, LINE))
    return "\n".join(lines)


def plot_calibration(
    y: Labels,
    probabilities: Mapping[str, ArrayLike],
    *,
    level: float = 0.95,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a reliability diagram: how often what was claimed came true, in ten bins.

    `probabilities` holds those of the rare class by name, each of shape (n,), as `y`. Bars are
    exact intervals (Clopper-Pearson) at `level`; the legend has the Brier score, lower is better.

    >>> axes = plot_calibration([0, 0, 1, 1], {"model": [0.1, 0.4, 0.4, 0.9]})
    >>> axes.get_legend_handles_labels()[1]
    ['model: Brier 0.1350']
    """
    require_named("plot_calibration", "probabilities by name, such as {'model': p}", probabilities)
    if len(probabilities) == 0:
        raise InputError("plot_calibration needs probabilities of at least one model, got none")
    axes = ax if ax is not None else new_axes()
    axes.plot([0, 1], [0, 1], color="0.8", linewidth=1, zorder=0)
    for number, (name, values) in enumerate(probabilities.items()):
        data = check_scored(y, values)
        p = np.asarray(data.score, np.float64)
        if p.min() < 0 or p.max() > 1:
            wrong = p[(p < 0) | (p > 1)][0]
            raise InputError(f"probabilities of {name!r} must be in [0, 1], got {wrong:g}")
        found = probability_bins(data.positive, p)
        k, n = np.array(found["k"]), np.array(found["n"])
        ends = np.array([rate_interval(int(a), int(b), level) for a, b in zip(k, n, strict=True)])
        rate = k / n
        axes.errorbar(
            found["p"], rate, yerr=[rate - ends[:, 0], ends[:, 1] - rate], color=color_of(number),
            marker="os^Dv"[number % 5], markersize=5, linewidth=1.2, elinewidth=0.8, capsize=2,
            label=f"{name}: Brier {found['brier']:.4f}",
        )  # fmt: skip
    axes.set(
        xlabel="Probability claimed, mean of the bin",
        ylabel="Share of positives",
        title=title or "",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        aspect="equal",
    )
    place_legend(axes)
    return axes
