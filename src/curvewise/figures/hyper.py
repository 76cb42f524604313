"""Figures of what hyperparameters do: the spread of many models, fits, one model at many lambda."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from curvewise.base.errors import InputError
from curvewise.figures.controls import DOT, new_panels
from curvewise.figures.curves import color_of, draw_box, plot_spread
from curvewise.roc.curve import Floats
from curvewise.stats.bands import PercentileBand
from curvewise.stats.variance import PolynomialFit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = ("-", "--", "-.", ":")
MARKERS = "os^D"


@dataclass(frozen=True, eq=False)
class Panel:
    """Dots (x, y) by the names of their axes, and the polynomial in x fitted to them."""

    x_name: str
    y_name: str
    x: Floats
    y: Floats
    fit: PolynomialFit


@dataclass(frozen=True, eq=False)
class MarkedCurve:
    """A ROC curve with its area, and the point on it where the threshold is 0.5."""

    fpr: Floats
    tpr: Floats
    area: float
    point: tuple[float, float]


def plot_distribution(
    band: PercentileBand, areas: Sequence[float] | Floats, *, name: str = "VS", title: str = ""
) -> "Figure":
    """Draw many models: their ROC curves as a band on the left, their AUC as a box on the right.

    >>> from curvewise.stats.bands import percentile_band
    >>> from curvewise.roc.curve import roc_curve
    >>> curve = roc_curve([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.4])
    >>> figure = plot_distribution(percentile_band([curve]), [curve.auc])
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['True positive rate', 'AUC']
    """
    figure, [[left, right]] = new_panels(1, 2, width=4, height=4)
    left.get_gridspec().set_width_ratios([1.7, 1])  # type: ignore[union-attr]
    left.plot([0, 1], [0, 1], color="0.8", linewidth=1, zorder=0)
    color = color_of(0)
    left.fill_between(
        band.fpr, band.lower, band.upper, color=color, alpha=0.25, linewidth=0,
        label=f"{100 * band.level:g} % of models",
    )  # fmt: skip
    for label, line, style in (("maximum", band.maximum, "-."), ("minimum", band.minimum, "--")):
        left.plot(band.fpr, line, color=color, linewidth=0.9, linestyle=style, label=label)
    left.plot(band.fpr, band.mean, color=color, label="mean")
    left.set(
        xlabel="False positive rate",
        ylabel="True positive rate",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        aspect="equal",
    )
    left.legend(loc="lower right", fontsize="small")
    plot_spread({f"{name}, {len(areas)} models": areas}, ax=right)
    figure.suptitle(title, fontsize="medium")
    return figure


def plot_fits(panels: Sequence[Sequence[Panel]], *, title: str = "") -> "Figure":
    """Draw rows of panels: dots, the fitted curve, and R2 above each.

    >>> from curvewise.stats.variance import polynomial_fit
    >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 4.0])
    >>> panel = Panel("tau", "AUC", x, y, polynomial_fit(x[:, None], y))
    >>> plot_fits([[panel]]).axes[0].get_title()
    '$R^2$ = 1.00'
    """
    if not panels or len({len(row) for row in panels}) != 1 or not panels[0]:
        raise InputError(f"panels must be rows of one length, got {[len(row) for row in panels]}")
    figure, grid = new_panels(len(panels), len(panels[0]), width=3, height=2.5, sharey="row")
    for row, line in zip(grid, panels, strict=True):
        for axes, panel in zip(row, line, strict=True):
            _draw_fit(axes, panel)
        row[0].set_ylabel(line[0].y_name)
    for axes, panel in zip(grid[-1], panels[-1], strict=True):
        axes.set_xlabel(panel.x_name)
    figure.suptitle(title, fontsize="medium")
    return figure


def _draw_fit(axes: "Axes", panel: Panel) -> None:
    axes.plot(panel.x, panel.y, "o", color=color_of(0), markersize=3, alpha=0.3, linestyle="none")
    along = np.linspace(panel.x.min(), panel.x.max(), 101)
    axes.plot(along, panel.fit.at(along[:, None]), color=color_of(1), linewidth=2.2)
    known = not np.isnan(panel.fit.r2)
    axes.set_title(f"$R^2$ = {panel.fit.r2:.2f}" if known else "no variance", fontsize="medium")
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def plot_choices(
    areas: Mapping[str, Mapping[str, Sequence[float] | Floats]], *, title: str = ""
) -> "Figure":
    """Draw box plots of AUC by choice (below the axis) and by variant of it (colours).

    Boxes of a choice stand together about its name, however many it has.

    >>> figure = plot_choices({"VS": {"VS": [0.7, 0.8]}, "tau": {"top": [0.8, 0.9]}})
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['VS', 'tau']
    """
    variants = list(dict.fromkeys(name for group in areas.values() for name in group))
    if not variants:
        raise InputError("plot_choices needs areas of at least one choice, got none")
    boxes = sum(len(group) for group in areas.values())
    width = 0.72 / max(len(group) for group in areas.values())
    figure, [[axes]] = new_panels(1, 1, width=2 + 0.85 * boxes, height=4.4)
    for position, group in enumerate(areas.values()):
        for place, (name, values) in enumerate(group.items()):
            x = position + width * (place - (len(group) - 1) / 2)
            color = color_of(variants.index(name))
            draw_box(axes, x, np.asarray(values).tolist(), width=width, color=color, dot=DOT)
    for number, name in enumerate(variants):
        axes.plot([], [], "s", color=color_of(number), label=name)
    axes.set_xticks(range(len(areas)), list(areas))
    axes.set(ylabel="AUC", xlim=(-0.6, len(areas) - 0.4))
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.set_title(title, fontsize="medium")
    if len(variants) > 1:
        figure.legend(loc="outside lower center", ncols=len(variants), fontsize="small")
    return figure


def plot_marked_curves(curves: Mapping[str, MarkedCurve], *, title: str = "") -> "Figure":
    """Draw ROC curves by name, and on each a marker where the threshold is 0.5.

    Curves that lie on each other are told apart by dashes over broader lines.

    >>> curve = MarkedCurve(np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.5, 1.0]), 0.75, (0.0, 0.5))
    >>> plot_marked_curves({"tau = 3": curve}).axes[0].get_legend_handles_labels()[1][0]
    'tau = 3: AUC 0.7500'
    """
    if not curves:
        raise InputError("plot_marked_curves needs at least one curve, got none")
    figure, [[axes]] = new_panels(1, 1, width=5.6, height=5)
    axes.plot([0, 1], [0, 1], color="0.8", linewidth=1, zorder=0)
    for number, (name, curve) in enumerate(curves.items()):
        look = number % len(STYLES)
        marked: dict[str, Any] = {
            "color": color_of(number),
            "marker": MARKERS[number % len(MARKERS)],
            "markersize": 9,
            "markeredgecolor": "black",
        }
        axes.plot(
            curve.fpr, curve.tpr, linestyle=STYLES[look], linewidth=2.6 - 0.4 * look,
            markevery=[], label=f"{name}: AUC {curve.area:.4f}", **marked,
        )  # fmt: skip
        axes.plot(*curve.point, zorder=3, **marked)
    axes.set(
        xlabel="False positive rate",
        ylabel="True positive rate",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        aspect="equal",
    )
    axes.legend(loc="lower right", fontsize="small", title="markers: threshold t = 0.5")
    axes.set_title(title, fontsize="medium")
    return figure
