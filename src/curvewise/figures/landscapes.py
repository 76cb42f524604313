"""Figures of the losses themselves: landscapes over the logits."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from curvewise.figures.sheets import new_axes, new_sheet
from curvewise.losses.landscape import Landscape, break_even, loss_landscape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import ContourSet
    from matplotlib.figure import Figure

COLOR_MAP = "RdBu_r"  # white in the middle; its ends are told apart by the colour-blind
COLOR_LABEL = "loss of label 1 less loss of label 0"
STEPS = 40  # of colour, at most
REACH = 5.0  # of logits, where the line needs no more


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
    axes.figure.colorbar(drawn, ax=axes, label=COLOR_LABEL)
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
    ends = landscape.z[[0, -1]]
    outline = [patheffects.withStroke(linewidth=4, foreground="black")]  # white on nearly white
    axes.plot(ends, landscape.line.z1(ends), color="white", linewidth=2.8, path_effects=outline)
    axes.set(xlim=ends, ylim=ends, aspect="equal", xlabel="$z_0$", ylabel="$z_1$")
    axes.locator_params(nbins=5)
    return drawn


def landscapes(found: Mapping[str, Landscape], **sheet: Any) -> "Figure":
    """Draw landscapes by name in panels, all on one scale of colours."""
    limit = max(landscape.limit for landscape in found.values())
    figure, panels = new_sheet(found, **{"height": 2.8, **sheet})
    for name, axes in panels.items():
        drawn = draw_landscape(found[name], axes, limit=limit)
        axes.label_outer()
    label = COLOR_LABEL.replace(" less", "\nless")  # the bar may be short
    figure.colorbar(drawn, ax=list(panels.values()), label=label, fraction=0.05, aspect=30)
    return figure
