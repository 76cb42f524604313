"""Static figures for one model in use: its operating point, and its probabilities."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from curvewise.errors import InputError
from curvewise.report.figures import LOWEST_RATE, color_of, new_axes
from curvewise.report.page_calibration import probability_bins
from curvewise.roc.curve import RocCurve
from curvewise.roc.inputs import Labels, check_scored
from curvewise.roc.operating import OperatingPoint, rate_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize="small")
    # The corner that curves leave free.
    corner = (0.03, 0.97, "left", "top") if log else (0.97, 0.03, "right", "bottom")
    axes.text(
        *corner[:2], _in_words(point), ha=corner[2], va=corner[3], transform=axes.transAxes,
        fontsize="small", bbox={"facecolor": "white", "edgecolor": "0.8", "alpha": 0.85},
    )  # fmt: skip
    return axes


def _in_words(point: OperatingPoint) -> str:
    alarms = 1000 * (point.prevalence * point.tpr + (1 - point.prevalence) * point.fpr)
    lines = [
        f"score at least {point.threshold:.4g}",
        f"TPR {point.tpr:.3f} ({point.tpr_interval[0]:.3f} to {point.tpr_interval[1]:.3f})",
        f"FPR {point.fpr:.4f} ({point.fpr_interval[0]:.4f} to {point.fpr_interval[1]:.4f})",
        f"precision {point.ppv:.3f} where {point.prevalence:.2%} are positive",
        f"{alarms:.1f} alarms per 1,000 cases",
    ]
    if point.confidence is not None:
        lines.append(f"promised with {point.confidence:.0%} confidence")
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
    if not probabilities:
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
    axes.legend(loc="upper left", fontsize="small")
    return axes
