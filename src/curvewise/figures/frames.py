"""Figures from tidy frames, a row for each value: boxes, dots, lines, fits and bands in panels.

Columns are named as seaborn does it: `x`, `y`, what colours tell apart (`hue`), and of what there
is a panel each (`panel`). What stands first in the frame is drawn first. What all figures can be
told, a title above all, is in `Sheet`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, product
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from curvewise.figures.curves import COLORS, GOLDEN, draw_box
from curvewise.figures.sheets import (
    SMALL,
    WIDTH,
    Look,
    Sheet,
    add_legend,
    colors_of,
    name_ticks,
    new_sheet,
    split,
)
from curvewise.roc.curve import Floats
from curvewise.stats.variance import polynomial_fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

DOT = 2.5  # size of a model in a figure that shows many
MANY = 20  # values of x from which on dashes tell lines apart, not markers
MARKERS = "os^Dvx"
STYLES = ("-", "--", "-.", ":")
GRAY = "0.4"
CHANCE: Look = {"color": "0.8", "linewidth": 1, "zorder": 0}
UNIT: Look = {"xlim": (-0.02, 1.02), "ylim": (-0.02, 1.02), "aspect": "equal"}

Groups = Mapping[str, Mapping[str, Floats]]  # values by place on the axis, and by colour


def boxes(
    frame: "DataFrame",
    *,
    x: str,
    y: str = "auc",
    hue: str | None = None,
    panel: str | None = None,
    zero: bool = False,
    mean: bool = False,
    diverged: bool = False,
    **sheet: Unpack[Sheet],
) -> "Figure":
    """Draw box plots side by side: a group for each `x`, a box for each `hue`, a dot for each row.

    Parameters
    ----------
    hue
        The same column as `x` gives every box a colour of its own.
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
    sheet.setdefault("ylabel", "AUC")
    colors, panels = _grouped(frame, x, y, hue, panel)
    figure, all_axes = _group_sheet(panels, sheet)
    diamond: Look = {
        "color": "white",
        "marker": "D",
        "linestyle": "none",
        "markeredgecolor": "black",
    }
    for name, axes in all_axes.items():
        if zero:
            axes.axhline(0, color=GRAY, linewidth=1)
        for at, key, values, width in places(panels[name]):
            finite = values[np.isfinite(values)]
            if len(finite):
                draw_box(axes, at, finite, width=width, color=colors[key], dot=DOT)
                if mean:
                    axes.plot(at, finite.mean(), zorder=5, **diamond)
        if diverged:
            _count_diverged(axes, panels[name], colors)
    looks: dict[str, Look] = {
        name: {"color": c, "marker": "s", "linestyle": "none"} for name, c in colors.items()
    }
    named = hue is None or hue == x or len(colors) == 1
    add_legend(figure, ({} if named else looks) | ({"mean": diamond} if mean else {}))
    return figure


def dots(
    frame: "DataFrame",
    *,
    x: str,
    y: str,
    hue: str,
    panel: str | None = None,
    mean: str = "mean",
    **sheet: Unpack[Sheet],
) -> "Figure":
    """Draw differences around a line at 0: a dot for each row, a bar at the mean of `x` and `hue`.

    `mean` is what the legend calls the bar.

    >>> from pandas import DataFrame
    >>> frame = DataFrame({"method": "CE", "way": "alone", "gain": [0.01, -0.02]})
    >>> figure = dots(frame, x="method", y="gain", hue="way", title="One of two is better")
    >>> figure.axes[0].get_xticklabels()[0].get_text()
    'CE'
    """
    sheet.setdefault("ylabel", "difference of AUC")
    colors, panels = _grouped(frame, x, y, hue, panel)
    figure, all_axes = _group_sheet(panels, sheet)
    looks: dict[str, Look] = {
        name: {"color": color, "marker": marker, "linestyle": "none", "markersize": 4.5}
        for (name, color), marker in zip(colors.items(), cycle(MARKERS), strict=False)
    }
    bar: Look = {"color": "black", "linewidth": 2}
    for name, axes in all_axes.items():
        axes.axhline(0, color=GRAY, linewidth=1)
        for at, key, values, width in places(panels[name]):
            across = (np.arange(1, len(values) + 1) * GOLDEN) % 1 - 0.5
            axes.plot(at + 0.6 * width * across, values, alpha=0.7, **looks[key])
            axes.plot([at - 0.4 * width, at + 0.4 * width], [np.mean(values)] * 2, **bar)
    add_legend(figure, ({} if hue == x else looks) | {mean: bar})
    return figure


def _grouped(
    frame: "DataFrame", x: str, y: str, hue: str | None, panel: str | None
) -> tuple[dict[str, str], dict[str, Groups]]:
    """Return the colour of each `hue`, and by panel the values of y by `x` and `hue`."""
    colors = colors_of(split(frame, hue)) if hue else {"": colors_of(["VS"])["VS"]}
    panels: dict[str, Groups] = {}
    for name, rows in split(frame, panel).items():
        groups = {group: split(cell, hue) for group, cell in split(rows, x).items()}
        panels[name] = {
            group: {key: cells[key][y].to_numpy(float) for key in colors if key in cells}
            for group, cells in groups.items()
        }
    return colors, panels


def _group_sheet(panels: Mapping[str, Groups], sheet: Sheet) -> "tuple[Figure, dict[str, Axes]]":
    """Return a figure as wide as its groups need, and its panels with the groups' names."""
    columns = min(sheet.get("columns", 3), len(panels))
    most = max(max(2 * len(groups), sum(map(len, groups.values()))) for groups in panels.values())
    width = WIDTH if columns > 1 else min(max(6.0, 1.6 + 0.55 * most), WIDTH)
    figure, all_axes = new_sheet(panels, width, sheet)
    for name, axes in all_axes.items():
        name_ticks(axes, list(panels[name]), width / columns - 0.8)
    return figure, all_axes


def places(groups: Groups) -> Iterator[tuple[float, str, Floats, float]]:
    """Yield where each box of a group stands, its name, its values, and how wide it is.

    Groups stand about 0, 1, ...
    """
    width = min(0.8 / max(len(group) for group in groups.values()), 0.6)
    for position, group in enumerate(groups.values()):
        for number, (name, values) in enumerate(group.items()):
            yield position + (number - (len(group) - 1) / 2) * width, name, values, width


def _count_diverged(axes: "Axes", groups: Groups, colors: Mapping[str, str]) -> None:
    lost = [(at, key, int(np.isnan(values).sum())) for at, key, values, _ in places(groups)]
    for at, key, count in lost:
        if count:
            axes.text(
                at, 0.02, f"{count}\ndiv.", transform=axes.get_xaxis_transform(), ha="center",
                va="bottom", fontsize=SMALL, color=colors[key],
            )  # fmt: skip
    low, high = axes.dataLim.intervaly
    if any(count for _, _, count in lost) and high > low:  # room for them below all dots
        axes.update_datalim([(0, low - 0.25 * (high - low))])
        axes.autoscale_view(scalex=False)


def lines(
    frame: "DataFrame",
    *,
    x: str,
    y: str,
    hue: str,
    panel: str | None = None,
    style: str | None = None,
    low: str | None = None,
    high: str | None = None,
    shade: bool = False,
    points: "DataFrame | None" = None,
    log: bool = False,
    zero: bool = False,
    square: bool = False,
    **sheet: Unpack[Sheet],
) -> "Figure":
    """Draw a line for each `hue`, with markers, or with dashes where there are too many points.

    Parameters
    ----------
    style
        A column whose values dashes and markers tell apart, within a colour.
    low, high
        Columns of how far the bar at each point reaches; `shade` draws a range in their place.
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
    sheet.setdefault("xlabel", x)
    sheet.setdefault("ylabel", y)
    panels, colors = split(frame, panel), colors_of(split(frame, hue))
    width = (6.0, 8.5, WIDTH)[min(sheet.get("columns", 3), len(panels), 3) - 1]
    figure, all_axes = new_sheet(panels, width, sheet)
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
    middle, bars = (len(colors) - 1) / 2, low and high and not shade
    for name, axes in all_axes.items():
        if square:
            axes.plot([0, 1], [0, 1], **CHANCE)
            axes.set(**UNIT)
        if zero:
            axes.axhline(0, color=GRAY, linewidth=1)
        for key, own in split(panels[name], hue).items():
            # Moved apart a little, so that bars of lines at the same x are seen.
            moved = 1.06 ** (list(colors).index(key) - middle) if bars and log else 1.0
            for dash, part in split(own, style).items():
                look = {**looks[dash if style else key], "color": colors[key], "markersize": 4}
                ends = part[[low, high]].to_numpy(float).T if low and high else None
                look["markevery"] = [] if crowded else None
                _draw_line(axes, part[x] * moved, part[y], ends, shade, look)
        if points is not None:
            _mark(axes, split(points, panel)[name], x, y, hue, looks)
        if log:
            _log_ticks(axes, sorted(panels[name][x].unique()))
    if style:
        looks = {name: {"color": color} for name, color in colors.items()} | looks
    add_legend(figure, looks if len(looks) > 1 else {})
    return figure


def _draw_line(
    axes: "Axes", x: Any, y: Any, ends: Floats | None, shade: bool, look: Mapping[str, Any]
) -> None:
    if ends is None or shade:
        axes.plot(x, y, **look)
    if ends is not None and shade:
        axes.fill_between(x, *ends, color=look["color"], alpha=0.15, linewidth=0)
    elif ends is not None:
        reach = np.abs(ends - np.asarray(y))
        axes.errorbar(x, y, yerr=reach, capsize=2, linewidth=1.2, **look)


def _mark(
    axes: "Axes", rows: "DataFrame", x: str, y: str, hue: str, looks: Mapping[str, Look]
) -> None:
    """Draw a large dot for each row, as its `hue` is drawn if it has one, and its text."""
    large: Look = {"linestyle": "none", "markersize": 8, "markeredgecolor": "black", "zorder": 3}
    for key, own in split(rows, hue if hue in rows else None).items():
        axes.plot(
            own[x], own[y], **{"color": "black", "marker": "o", **looks.get(key, {}), **large}
        )
    for _, row in rows.iterrows() if "text" in rows else ():
        axes.annotate(
            row["text"], (row[x], row[y]), (-14, 34), textcoords="offset points", ha="center",
            fontsize=SMALL, arrowprops={"arrowstyle": "-", "color": GRAY},
        )  # fmt: skip


def _log_ticks(axes: "Axes", values: Sequence[float]) -> None:
    axes.set_xscale("log")
    if len(values) <= MANY // 2:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.set_xticks([], minor=True)


def fits(
    frame: "DataFrame", *, x: Sequence[str], y: Mapping[str, str], **sheet: Unpack[Sheet]
) -> "Figure":
    """Draw each column of y against each of x, a row of panels each, with a degree-2 fit and R2.

    `y` holds what each of its columns is called.

    >>> from pandas import DataFrame
    >>> frame = DataFrame({"tau": [0.0, 1.0, 2.0], "auc": [0.0, 0.1, 0.4]})
    >>> fits(frame, x=["tau"], y={"auc": "AUC"}, title="tau explains AUC").axes[0].get_title()
    '$R^2$ = 1.00'
    """
    sheet.setdefault("height", 2.2)
    names = [f"{row} {column}" for row in y for column in x]
    figure, panels = new_sheet(names, WIDTH, {**sheet, "columns": len(x)})
    below = list(y)[-1]
    for (row, column), axes in zip(product(y, x), panels.values(), strict=True):
        along, values = frame[column].to_numpy(float), frame[row].to_numpy(float)
        fit = polynomial_fit(along[:, None], values)
        grid = np.linspace(along.min(), along.max(), 101)
        axes.plot(along, values, "o", color=COLORS[0], markersize=3, alpha=0.3)
        axes.plot(grid, fit.at(grid[:, None]), color=COLORS[1], linewidth=2.2)
        known = np.isfinite(fit.r2)
        axes.set_title(f"$R^2$ = {fit.r2:.2f}" if known else "no variance", fontsize="medium")
        axes.set_xlabel(column if row == below else "")
        axes.set_ylabel(y[row] if column == x[0] else "")
    return figure
