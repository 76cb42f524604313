"""Landscapes over the logits of two classes: by how much one label costs more than the other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from curvewise.figures.sheets import new_sheet
from curvewise.roc.curve import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import ContourSet
    from matplotlib.figure import Figure

COLOR_MAP = "RdBu_r"  # white in the middle; its ends are told apart by the colour-blind
COLOR_LABEL = "loss of label 1 less loss of label 0"
STEPS = 40  # of colour, at most

# The logits (n,) along both axes, the difference of losses (n, n), a row for each z1, and the z1
# (2,) of the line of equal cost at the first and the last logit.
Surface = tuple[Floats, Floats, Floats]


def draw_landscape(surface: Surface, axes: "Axes", limit: float) -> "ContourSet":
    """Draw a landscape and its break-even line on axes; colours reach from -limit to limit."""
    from matplotlib import patheffects
    from matplotlib.ticker import MaxNLocator

    z, difference, line = surface
    levels = MaxNLocator(STEPS, symmetric=True).tick_values(-limit, limit)  # round numbers
    drawn = axes.contourf(z, z, difference, levels=levels, cmap=COLOR_MAP)
    outline = [patheffects.withStroke(linewidth=4, foreground="black")]  # white on nearly white
    axes.plot(z[[0, -1]], line, color="white", linewidth=2.8, path_effects=outline)
    axes.set(xlim=z[[0, -1]], ylim=z[[0, -1]], aspect="equal", xlabel="$z_0$", ylabel="$z_1$")
    axes.locator_params(nbins=5)
    return drawn


def landscapes(found: Mapping[str, Surface], **sheet: Any) -> "Figure":
    """Draw landscapes by name in panels, all on one scale of colours."""
    limit = max(float(np.abs(difference).max()) for _, difference, _ in found.values())
    figure, panels = new_sheet(found, **{"height": 2.8, **sheet})
    for name, axes in panels.items():
        drawn = draw_landscape(found[name], axes, limit)
        axes.label_outer()
    label = COLOR_LABEL.replace(" less", "\nless")  # the bar may be short
    figure.colorbar(drawn, ax=list(panels.values()), label=label, fraction=0.05, aspect=30)
    return figure
