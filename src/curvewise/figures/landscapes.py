"""Figures of the losses themselves: landscapes over the logits, and lines in panels."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

import numpy as np

from curvewise.base.errors import InputError
from curvewise.figures.curves import color_of, figure_of, new_axes
from curvewise.figures.panels import panel_axes
from curvewise.figures.sheets import WIDTH, Sheet, new_sheet
from curvewise.losses.landscape import Landscape, break_even, loss_landscape
from curvewise.roc.curve import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import ContourSet
    from matplotlib.figure import Figure

COLOR_MAP = "RdBu_r"  # white in the middle; its ends are told apart by the colour-blind
COLOR_LABEL = "loss of label 1 less loss of label 0"
STEPS = 40  # of colour, at most
REACH = 5.0  # of logits, where the line needs no more
STYLES = ("-", "--", "-.", ":")

Lines = Mapping[str, tuple[Floats, Floats]]  # x and y by what the legend calls them


def plot_landscape(
    beta: float,
    *,
    omega: float = 0.5,
    gamma: float = 0.0,
    tau: float = 0.0,
    reach: float | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw by how much label 1 costs more than label 0 for all logits up to `reach`.

    Red where a sample costs more if its label is 1, the minority, blue where it costs more if it
    is 0, white where both cost the same; the white line is that of `break_even`. Without `reach`
    logits go to 5, or as far as it takes to see the line; with one that is too small, the figure
    says where the line is.

    >>> axes = plot_landscape(10, tau=1.0)
    >>> axes.get_xlabel(), axes.get_title()
    ('$z_0$', 'beta = 10, omega = 0.5, gamma = 0, tau = 1')
    """
    # Steep landscapes need more points than tables do for smooth contours.
    line = break_even(beta, omega, gamma, tau)
    if reach is None:
        where_z1_is_0 = abs(line.intercept / line.slope)  # the slope is at least 1
        reach = max(REACH, float(np.ceil(1.2 * where_z1_is_0)))
    found = loss_landscape(beta, omega=omega, gamma=gamma, tau=tau, reach=reach, points=121)
    axes = ax if ax is not None else new_axes(6.2)
    drawn = draw_landscape(found, axes, limit=found.limit)
    axes.set_title(f"beta = {beta:g}, omega = {omega:g}, gamma = {gamma:g}, tau = {tau:g}")
    figure_of(axes).colorbar(drawn, ax=axes, label=COLOR_LABEL)
    if abs(line.intercept) >= reach * (1 + line.slope):  # beyond the corner
        times = "" if line.slope == 1 else f"{line.slope:.3g} "
        sign = "-" if line.intercept < 0 else "+"
        axes.text(
            0.5, 0.5, "Both labels cost the same outside of this square:\n"
            f"$z_1 = {times}z_0 {sign} {abs(line.intercept):.3g}$", transform=axes.transAxes,
            ha="center", va="center", fontsize="small", bbox={"facecolor": "white", "alpha": 0.85},
        )  # fmt: skip
    return axes


def draw_landscape(landscape: Landscape, axes: "Axes", *, limit: float) -> "ContourSet":
    """Draw a landscape and its break-even line on axes; colours reach from -limit to limit."""
    from matplotlib import patheffects
    from matplotlib.ticker import MaxNLocator

    levels = MaxNLocator(STEPS, symmetric=True).tick_values(-limit, limit)  # round numbers
    drawn = axes.contourf(
        landscape.z, landscape.z, landscape.difference, levels=levels, cmap=COLOR_MAP
    )
    ends = np.array([-landscape.reach, landscape.reach])
    outline = [patheffects.withStroke(linewidth=4, foreground="black")]  # white on nearly white
    axes.plot(ends, landscape.line.z1(ends), color="white", linewidth=2.8, path_effects=outline)
    axes.set(xlim=ends, ylim=ends, aspect="equal", xlabel="$z_0$", ylabel="$z_1$")
    axes.locator_params(nbins=5)
    return drawn


def plot_landscapes(
    landscapes: Mapping[str, Landscape], *, columns: int = 4, title: str | None = None
) -> "Figure":
    """Draw landscapes by name, row by row, all on one scale of colours."""
    if not landscapes:
        raise InputError("plot_landscapes needs at least one landscape, got none")
    figure, panels = panel_axes(len(landscapes), columns, width=2.75, height=2.5)
    figure.set_layout_engine("compressed")  # panels keep their shape, and stay together
    limit = max(landscape.limit for landscape in landscapes.values())
    for panel, (name, landscape) in zip(panels, landscapes.items(), strict=True):
        drawn = draw_landscape(landscape, panel, limit=limit)
        panel.set_title(name, fontsize="medium")
        panel.label_outer()
    rows = -(-len(panels) // columns)
    figure.colorbar(drawn, ax=panels, label=COLOR_LABEL, fraction=0.05, pad=0.02, aspect=12 * rows)
    figure.suptitle(title or "", fontsize="medium")
    return figure


def landscapes(found: Mapping[str, Landscape], **sheet: Unpack[Sheet]) -> "Figure":
    """Draw landscapes by name in panels, all on one scale of colours.

    >>> figure = landscapes({"tau = 1": loss_landscape(10, tau=1.0)}, title="tau moves the line")
    >>> figure.axes[0].get_title()
    'tau = 1'
    """
    limit = max(landscape.limit for landscape in found.values())
    figure, panels = new_sheet(found, WIDTH, {"columns": 4, "height": 2.3, **sheet})
    layout = figure.get_layout_engine()
    assert layout is not None
    figure.set_layout_engine("compressed", **layout.get())  # panels keep their shape, together
    for name, axes in panels.items():
        drawn = draw_landscape(found[name], axes, limit=limit)
        axes.label_outer()
    label = COLOR_LABEL.replace(" less", "\nless")  # the bar may be short
    figure.colorbar(drawn, ax=list(panels.values()), label=label, fraction=0.05, aspect=30)
    return figure


def plot_line_panels(
    panels: Mapping[str, Lines],
    *,
    xlabel: str,
    ylabels: Sequence[str],
    points: Mapping[str, tuple[float, float]] | None = None,
    ylim: tuple[float, float] | None = None,
    width: float = 3.6,
    title: str | None = None,
) -> "Figure":
    """Draw lines by name, a panel for each group of them, side by side.

    `ylabels` has one label for every panel, or one for all of them; `points` marks one point in
    some of the panels, with its x. The legend, below all panels, is that of the first.
    """
    if not panels:
        raise InputError("plot_line_panels needs at least one panel, got none")
    figure, all_axes = panel_axes(len(panels), len(panels), width=width)
    for number, (axes, (name, lines)) in enumerate(zip(all_axes, panels.items(), strict=True)):
        for position, (label, (x, y)) in enumerate(lines.items()):
            style = STYLES[position % len(STYLES)]
            axes.plot(x, y, style, color=color_of(position), label=label)
        if points is not None and name in points:
            _mark(axes, *points[name])
        axes.set(xlabel=xlabel, title=name)
        if number < len(ylabels):
            axes.set_ylabel(ylabels[number])
        if ylim is not None:
            axes.set_ylim(*ylim)
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
    shown = all_axes[0].get_legend_handles_labels()
    figure.legend(*shown, loc="outside lower center", ncols=len(shown[1]), fontsize="small")
    figure.suptitle(title or "", fontsize="medium")
    return figure


def _mark(axes: "Axes", x: float, y: float) -> None:
    axes.plot(x, y, "o", color="black", markersize=5, zorder=3)
    axes.annotate(
        f"{x:.4f}",
        (x, y),
        (-14, 34),
        textcoords="offset points",
        ha="center",
        arrowprops={"arrowstyle": "-", "color": "0.4"},
    )
