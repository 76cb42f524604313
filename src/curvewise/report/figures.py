"""Static figures by matplotlib, each drawn on given axes or new ones and returning them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from curvewise.errors import InputError
from curvewise.roc.curve import RocCurve
from curvewise.roc.operating import OperatingPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours: told apart in print and by the colour-blind.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def new_axes() -> "Axes":
    """Return axes of a figure that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def plot_roc(
    curves: Mapping[str, RocCurve],
    *,
    points: Sequence[OperatingPoint] = (),
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw ROC curves by name, with their areas, and operating points with their intervals.

    >>> from curvewise.roc.curve import roc_curve
    >>> axes = plot_roc({"model": roc_curve([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.4])})
    >>> axes.get_xlabel()
    'False positive rate'
    """
    if not curves:
        raise InputError("plot_roc needs at least one curve, got none")
    axes = ax if ax is not None else new_axes()
    axes.plot([0, 1], [0, 1], color="0.8", linewidth=1, zorder=0)
    for number, (name, curve) in enumerate(curves.items()):
        label = f"{name}: AUC {curve.auc:.4f}"
        axes.plot(curve.fpr, curve.tpr, color=COLORS[number % len(COLORS)], label=label)
    for point in points:
        below = np.array([[point.fpr - point.fpr_interval[0]], [point.fpr_interval[1] - point.fpr]])
        beside = np.array(
            [[point.tpr - point.tpr_interval[0]], [point.tpr_interval[1] - point.tpr]]
        )
        label = f"threshold {point.threshold:.4g}: TPR {point.tpr:.3f}, FPR {point.fpr:.4f}"
        axes.errorbar(
            point.fpr, point.tpr, xerr=below, yerr=beside, fmt="o", color="black", capsize=3,
            label=label,
        )  # fmt: skip
    axes.set(
        xlabel="False positive rate",
        ylabel="True positive rate",
        title=title or "",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        aspect="equal",
    )
    axes.legend(loc="lower right")
    return axes
