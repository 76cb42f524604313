"""Box plots, and figures from tidy frames, a row for each value: boxes, lines, fits, landscapes.

Columns are named as seaborn does it: `x`, `y`, what colours tell apart (`hue`), and of what there
is a panel each (`panel`). What stands first in the frame is drawn first. What all figures can be
told, a title above all, is in `new_sheet`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from curvewise.base.errors import require, require_numbers, require_shape
from curvewise.figures.curves import EDGES, Areas, require_named
from curvewise.figures.sheets import (
    CHANCE,
    COLORS,
    GRAY,
    RATES,
    SMALL,
    UNIT,
    Look,
    add_legend,
    color_of,
    colors_of,
    name_ticks,
    new_axes,
    new_sheet,
    split,
)
from curvewise.roc.curve import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import ContourSet
    from matplotlib.figure import Figure
    from pandas import DataFrame, Series

GOLDEN = 0.6180339887498949  # its multiples spread evenly over [0, 1), however many there are
WIDEST = 24.0  # inches of a figure
MANY = 20  # values of x from which on dashes tell lines apart, not markers
MARKERS = "os^Dvx"
STYLES = ("-", "--", "-.", ":")
DIAMOND: Look = {"color": "white", "marker": "D", "linestyle": "none", "markeredgecolor": "black"}

COLOR_MAP = "RdBu_r"  # white in the middle; its ends are told apart by the colour-blind
COLOR_LABEL = "loss of label 1 less loss of label 0"
COLOR_STEPS = 40  # at most

Fit = Callable[[Floats, Floats], Any]
Groups = Mapping[str, Mapping[str, Floats]]  # values by place on the axis, and by colour


def plot_spread(
    areas: Areas | Mapping[str, Areas],
    *,
    ylabel: str = "AUC",
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a box plot for each method and every model as a dot.

    `areas` holds values by method, or by group (a beta, a task) and method; groups then stand
    side by side, and the legend names the methods. Boxes span the quartiles, whiskers reach the
    farthest model within 1.5 times that; the line is the median.

    >>> axes = plot_spread({"VS": [0.91, 0.93, 0.92], "VS + LCT": [0.94, 0.93, 0.95]})
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['VS', 'VS + LCT']
    """
    require_named("plot_spread", "areas by method, such as {'VS': [0.91, 0.93]}", areas)
    nested = [name for name, values in areas.items() if isinstance(values, Mapping)]
    flat = [name for name in areas if name not in nested]
    require(not (nested and flat), f"areas must all be in groups or none, got {flat} outside")
    groups = {
        key: _checked(values if isinstance(values, Mapping) else {key: values})
        for key, values in areas.items()
    }
    names = dict.fromkeys(name for group in groups.values() for name in group)
    colors = {name: color_of(number) for number, name in enumerate(names)}
    inches = 1.5 + 0.5 * sum(map(len, groups.values()))
    axes = ax if ax is not None else new_axes(min(max(5.5, inches), WIDEST))
    _draw_groups(axes, groups, colors, dot=3.0)
    name_ticks(axes, list(groups))
    axes.set(ylabel=ylabel, title=title or "")
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    if nested:
        for name, color in colors.items():
            axes.plot([], [], "s", color=color, label=name)
        axes.legend(loc="best", fontsize="small")
    return axes


def _checked(areas: Areas) -> Mapping[str, Floats]:
    """Return the areas by method as arrays; what is no list of finite numbers is refused."""
    require_named("plot_spread", "areas by method", areas)
    found = {name: require_numbers(f"areas of {name!r}", v) for name, v in areas.items()}
    for name, values in found.items():
        require_shape(f"areas of {name!r}", values, "n")
    return found


def _draw_groups(
    axes: "Axes",
    groups: Groups,
    colors: Mapping[str, str],
    *,
    dot: float = 2.5,  # size of a model in a figure that shows many
    box: bool = True,
    mean: bool = False,
    diverged: bool = False,
) -> None:
    """Draw boxes (quartiles, median, whiskers within 1.5 times that) and a dot each value."""
    from matplotlib.cbook import boxplot_stats
    from matplotlib.patches import Polygon

    # Not by Axes.boxplot: it reads all of matplotlib's settings, the backend among them, which
    # imports pyplot, and `new_axes` would take that for somebody's wish.
    width = min(0.8 / max(map(len, groups.values())), 0.6)
    places = [
        (position + (number - (len(group) - 1) / 2) * width, *named)
        for position, group in enumerate(groups.values())
        for number, named in enumerate(group.items())
    ]
    for x, name, values in places:
        finite, color = values[np.isfinite(values)], colors[name]
        left, right = x - 0.4 * width, x + 0.4 * width
        for found in boxplot_stats(finite) if box and len(finite) else ():
            low, high = found["q1"], found["q3"]
            corners = [(left, low), (right, low), (right, high), (left, high)]
            axes.add_patch(Polygon(corners, facecolor=color, edgecolor=color, alpha=0.25, zorder=2))
            for start, end in ((low, found["whislo"]), (high, found["whishi"])):
                bar = [x, x, x - width / 5, x + width / 5]
                axes.plot(bar, [start, end, end, end], color=color, linewidth=1)
            axes.plot([left, right], [found["med"]] * 2, color="black", linewidth=1, zorder=2.1)
        across = (np.arange(1, len(finite) + 1) * GOLDEN) % 1 - 0.5
        axes.plot(x + 0.6 * width * across, finite, "o", color=color, markersize=dot, alpha=0.7)
        if mean and len(finite):
            axes.plot(x, finite.mean(), zorder=5, **DIAMOND)
        if diverged and len(finite) < len(values):
            axes.text(
                x, 0.02, f"{len(values) - len(finite)}\ndiv.", fontsize=SMALL, color=color,
                ha="center", va="bottom", transform=axes.get_xaxis_transform(),
            )  # fmt: skip
    low, high = axes.dataLim.intervaly
    if diverged and axes.texts and low < high:  # room for them below all dots
        axes.update_datalim([(0, low - 0.25 * (high - low))])
        axes.autoscale_view(scalex=False)


def boxes(
    frame: "DataFrame",
    *,
    x: str,
    y: str = "auc",
    hue: str | None = None,
    panel: str | None = None,
    box: bool = True,
    zero: bool = False,
    mean: bool = False,
    diverged: bool = False,
    **sheet: Any,
) -> "Figure":
    """Draw box plots side by side: a group for each `x`, a box for each `hue`, a dot for each row.

    Parameters
    ----------
    hue
        The same column as `x` gives every box a colour of its own.
    box
        Draw the boxes, not only the dots.
    zero
        Draw a line at 0, for differences.
    mean
        Mark the mean with a diamond.
    diverged
        Write below a box how many of its rows have no `y`.

    >>> from pandas import DataFrame
    >>> frame = DataFrame({"beta": [10, 10, 100], "method": "VS", "auc": [0.9, 0.8, 0.7]})
    >>> figure = boxes(frame, x="beta", hue="method", title="VS falls with beta")
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['10', '100']
    """
    colors = colors_of(split(frame, hue)) if hue else {"": COLORS[0]}
    panels = {
        name: {group: _by_hue(cell, y, hue, colors) for group, cell in split(rows, x).items()}
        for name, rows in split(frame, panel).items()
    }
    most = max(max(2 * len(groups), sum(map(len, groups.values()))) for groups in panels.values())
    figure, all_axes = new_sheet(panels, **{"place": 1.6 + 0.55 * most, "ylabel": "AUC", **sheet})
    for name, axes in all_axes.items():
        if zero:
            axes.axhline(0, color=GRAY, linewidth=1)
        drawn = {"box": box, "mean": mean, "diverged": diverged}
        _draw_groups(axes, panels[name], colors, dot=2.5 if box else 4, **drawn)
        name_ticks(axes, list(panels[name]))
    named = hue == x or len(colors) == 1
    squares = {key: {"color": c, "marker": "s", "linestyle": "none"} for key, c in colors.items()}
    add_legend(figure, ({} if named else squares) | ({"mean": DIAMOND} if mean else {}))
    return figure


def _by_hue(rows: "DataFrame", y: str, hue: str | None, names: Iterable[str]) -> dict[str, Floats]:
    cells = split(rows, hue)
    return {name: cells[name][y].to_numpy(float) for name in names if name in cells}


def lines(
    frame: "DataFrame",
    *,
    x: str,
    y: str,
    hue: str,
    panel: str | None = None,
    style: str | None = None,
    bars: bool = False,
    points: "DataFrame | None" = None,
    log: bool = False,
    zero: bool = False,
    square: bool = False,
    **sheet: Any,
) -> "Figure":
    """Draw a line for each `hue`, with markers, or with dashes where there are too many points.

    Parameters
    ----------
    style
        A column whose values dashes and markers tell apart, within a colour.
    bars
        Draw the mean of all rows at a point, and a bar from the lowest to the highest.
    points
        Rows with the same columns that are marked by a large dot, and by their "text" if any.
    log
        Draw x logarithmically, with its values as ticks where they are few.
    zero
        Draw a line at 0, for differences.
    square
        Both axes go from 0 to 1, with a diagonal, as for ROC curves.

    >>> from pandas import DataFrame
    >>> frame = DataFrame({"beta": [5, 50], "gain": [0.1, 0.2], "task": "cat/dog"})
    >>> figure = lines(frame, x="beta", y="gain", hue="task", log=True, title="The gain grows")
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['5', '50']
    """
    sheet = {"xlabel": x, "ylabel": y} | (RATES if square else {}) | sheet
    if bars:
        together = frame.groupby([name for name in (panel, hue, style, x) if name], sort=False)
        frame, y = together[y].agg(["mean", "min", "max"]).reset_index(), "mean"
    panels, colors = split(frame, panel), colors_of(split(frame, hue))
    figure, all_axes = new_sheet(panels, **sheet)
    crowded = frame[x].nunique() > MANY
    marked = not crowded or (points is not None and hue in points)
    looks: dict[str, Look] = {
        name: {
            "color": GRAY if style else colors[name],
            "marker": MARKERS[number % len(MARKERS)] if marked else "",
            "linestyle": STYLES[number % len(STYLES)] if crowded or style else "-",
        }
        for number, name in enumerate(split(frame, style or hue))
    }
    for name, axes in all_axes.items():
        if square:
            axes.plot([0, 1], [0, 1], **CHANCE)
            axes.set(**UNIT)
        if zero:
            axes.axhline(0, color=GRAY, linewidth=1)
        for key, own in split(panels[name], hue).items():
            # Moved apart a little, so that bars of lines at the same x are seen.
            moved = 1.06 ** (list(colors).index(key) - (len(colors) - 1) / 2) if bars and log else 1
            for dash, part in split(own, style).items():
                ends = part[["min", "max"]].sub(part[y], axis=0).abs().T if bars else None
                axes.errorbar(
                    part[x] * moved, part[y], yerr=ends,
                    capsize=2, markersize=4, markevery=[] if crowded else None,
                    **looks[dash if style else key] | {"color": colors[key]},
                )  # fmt: skip
        if points is not None:
            _mark(axes, split(points, panel)[name], x, y, hue, looks)
        ticks = sorted(panels[name][x].unique()) if log else []
        axes.set_xscale("log" if log else "linear")
        if 0 < len(ticks) <= MANY // 2:
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.set_xticks([], minor=True)
    if style:
        looks = {name: {"color": color} for name, color in colors.items()} | looks
    add_legend(figure, looks if len(looks) > 1 else {})
    return figure


def _mark(
    axes: "Axes", rows: "DataFrame", x: str, y: str, hue: str, looks: Mapping[str, Look]
) -> None:
    """Draw a large dot for each row, as its `hue` is drawn if it has one, and its text."""
    large: Look = {"linestyle": "none", "markersize": 8, "markeredgecolor": "black", "zorder": 3}
    for key, own in split(rows, hue if hue in rows else None).items():
        look = looks.get(key, {"color": "black", "marker": "o"})
        axes.plot(own[x], own[y], **look | large)
    for _, row in rows.iterrows() if "text" in rows else ():
        axes.annotate(
            row["text"], (row[x], row[y]), (-14, 34), textcoords="offset points", ha="center",
            fontsize=SMALL, arrowprops={"arrowstyle": "-", "color": GRAY},
        )  # fmt: skip


def fits(
    frame: "DataFrame", *, x: Sequence[str], y: Mapping[str, str], fit: Fit, **sheet: Any
) -> "Figure":
    """Draw each column of y against each of x, a row of panels each, with a fit and its R2.

    `y` holds what each of its columns is called; `fit` makes of points (n, 1) and values (n,) what
    has an `r2` and gives values `at` other points.
    """
    places = list(product(y, x))
    names = [f"{row} {column}" for row, column in places]
    figure, panels = new_sheet(names, **{"height": 2.2, **sheet, "columns": len(x)})
    for (row, column), axes in zip(places, panels.values(), strict=True):
        along, values = frame[column].to_numpy(float), frame[row].to_numpy(float)
        found, grid = fit(along[:, None], values), np.linspace(along.min(), along.max(), 101)
        axes.plot(along, values, "o", color=COLORS[0], markersize=3, alpha=0.3)
        axes.plot(grid, found.at(grid[:, None]), color=COLORS[1], linewidth=2.2)
        share = f"$R^2$ = {found.r2:.2f}" if np.isfinite(found.r2) else "no variance"
        axes.set_title(share, fontsize="medium")
        axes.set_xlabel(column if row == list(y)[-1] else "")
        axes.set_ylabel(y[row] if column == x[0] else "")
    return figure


def distribution(band: "DataFrame", areas: "Series[float]", **sheet: Any) -> "Figure":
    """Draw many models: their ROC curves as a band on the left, their AUC as a box on the right.

    `band` has "fpr", "mean", "minimum", "maximum", and the ends "lower" and "upper" of the range
    that holds 95 % of the models.
    """
    names = ("ROC curves", f"AUC of {len(areas)} models")
    figure, panels = new_sheet(names, **{"height": 3.8, "place": 4.0, **sheet})
    left, right = panels.values()
    left.plot([0, 1], [0, 1], **CHANCE)
    looks = {name: look | {"color": COLORS[0]} for name, look in {"mean": {}, **EDGES}.items()}
    for name, look in looks.items():
        left.plot(band["fpr"], band[name], **look)
    shade: Look = {"color": COLORS[0], "alpha": 0.25}
    left.fill_between(band["fpr"], band["lower"], band["upper"], linewidth=0, **shade)
    left.set(**RATES, **UNIT)
    _draw_groups(right, {"": {"": areas.to_numpy(float)}}, {"": COLORS[0]})
    right.set(ylabel="AUC", xticks=[], xlim=(-0.6, 0.6))
    add_legend(figure, looks | {"95 % of models": {**shade, "linewidth": 8}})
    return figure


def draw_landscape(
    axes: "Axes", z: Floats, difference: Floats, line: tuple[float, float], limit: float
) -> "ContourSet":
    """Draw by how much label 1 costs more than label 0, (n, n): a row for each z1, as in z (n,).

    The white line of equal cost has a slope and an intercept; colours reach from -limit to limit.
    """
    from matplotlib import patheffects
    from matplotlib.ticker import MaxNLocator

    levels = MaxNLocator(COLOR_STEPS, symmetric=True).tick_values(-limit, limit)  # round numbers
    drawn = axes.contourf(z, z, difference, levels=levels, cmap=COLOR_MAP)
    outline = [patheffects.withStroke(linewidth=4, foreground="black")]  # white on nearly white
    ends, (slope, intercept) = z[[0, -1]], line
    axes.plot(ends, slope * ends + intercept, color="white", linewidth=2.8, path_effects=outline)
    axes.set(xlim=ends, ylim=ends, aspect="equal", xlabel="$z_0$", ylabel="$z_1$")
    axes.locator_params(nbins=5)
    return drawn


def landscapes(
    frame: "DataFrame", lines: "DataFrame", panels: Sequence[str], **sheet: Any
) -> "Figure":
    """Draw landscapes over two logits in panels, all on one scale of colours.

    `frame` has "z0", "z1" in its rows' order, and a column for each panel; `lines` has "slope" and
    "intercept" of each "panel".
    """
    z, limit = np.unique(frame["z0"]), float(frame[list(panels)].abs().to_numpy().max())
    along = lines.set_index("panel")[["slope", "intercept"]]
    figure, drawn = new_sheet(panels, **{"height": 2.8, **sheet})
    for name, axes in drawn.items():
        difference = frame[name].to_numpy(float).reshape(len(z), len(z))
        shades = draw_landscape(axes, z, difference, tuple(along.loc[name]), limit)
        axes.label_outer()
    label = COLOR_LABEL.replace(" less", "\nless")  # the bar may be short
    figure.colorbar(shades, ax=list(drawn.values()), label=label, fraction=0.05, aspect=30)
    return figure
