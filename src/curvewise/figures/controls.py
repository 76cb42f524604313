"""Figures of controls: differences by method, spreads by training condition, growing ensembles."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from curvewise.base.errors import InputError
from curvewise.figures.curves import GOLDEN, color_of, draw_box
from curvewise.figures.panels import write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Sequence[float]
COLUMN, ROW = 3.4, 2.9  # inches of a panel
DOT = 2.2  # size of a model in a panel that shows many
WAYS = {  # of using several models: style, marker, what the legend says
    "ensemble": ("-", "o", "ensemble"),
    "chosen": (":", "s", "best on validation"),
    "oracle": ("--", "", "best on the test set: cheating"),
}


def new_panels(
    rows: int, columns: int, *, width: float = COLUMN, height: float = ROW, sharey: Any = False
) -> "tuple[Figure, list[list[Axes]]]":
    """Return a figure that needs no screen and its axes, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False, sharey=sharey)
    return figure, [list(row) for row in panels]


def plot_arm_differences(
    differences: Mapping[str, Mapping[str, Values]],
    colors: Mapping[str, int],
    *,
    title: str,
    ylabels: Mapping[str, str] | None = None,
) -> "Figure":
    """Draw differences to a method, by panel (a statistic) and by method, around a line at 0.

    A diamond marks the mean; an empty list leaves its place free.

    >>> figure = plot_arm_differences({"mean": {"LCT": [0.1, 0.2]}}, {"LCT": 1}, title="to VS")
    >>> len(figure.axes)
    1
    """
    if not differences or not all(differences.values()):
        raise InputError("plot_arm_differences needs differences of one method or more, got none")
    figure, panels = new_panels(1, len(differences), width=4.0, height=4.2)
    for axes, (panel, methods) in zip(panels[0], differences.items(), strict=True):
        axes.axhline(0, color="0.4", linewidth=1)
        for x, (name, values) in enumerate(methods.items()):
            if len(values) == 0:
                continue
            draw_box(axes, x, values, width=0.7, color=color_of(colors[name]), dot=DOT)
            mean = float(np.mean(values))
            axes.plot(x, mean, "D", color="white", markeredgecolor="black", markersize=6, zorder=5)
        axes.set_xticks(range(len(methods)), list(methods), rotation=25, ha="right")
        axes.set_xlim(-0.6, len(methods) - 0.4)
        axes.set_title(panel, fontsize="medium")
        axes.set_ylabel((ylabels or {}).get(panel, "difference of AUC"))
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    panels[0][0].plot([], [], "D", color="white", markeredgecolor="black", label="mean")
    figure.legend(loc="outside lower right", fontsize="small")
    figure.suptitle(title, fontsize="medium")
    return figure


def plot_conditions(
    areas: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Sequence[float | None]]]]],
    *,
    xlabel: str,
    title: str,
) -> "Figure":
    """Draw AUC of all models by row (a task), column, group and method; None stands for diverged.

    Rows have one scale. Under a box stands how many of its models diverged, if any did.

    >>> figure = plot_conditions(
    ...     {"a": {"5 epochs": {"0.1": {"VS": [0.8, 0.9, None], "LCT": [0.9]}}}},
    ...     xlabel="learning rate", title="")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1 div.']
    """
    columns = list(dict.fromkeys(column for row in areas.values() for column in row))
    if not columns:
        raise InputError("plot_conditions needs areas of one task or more, got none")
    found = [m for row in areas.values() for column in row.values() for m in column.values()]
    methods = list(dict.fromkeys(name for group in found for name in group))
    figure, panels = new_panels(len(areas), len(columns), height=2.6, sharey="row")
    width = 0.8 / len(methods)
    for line, (task, row) in zip(panels, areas.items(), strict=True):
        for axes, column in zip(line, columns, strict=True):
            groups = row.get(column, {})
            for position, own in enumerate(groups.values()):
                for name, values in own.items():
                    number = methods.index(name)
                    x = position + (number - (len(methods) - 1) / 2) * width
                    _draw_condition(axes, x, width, values, color_of(number))
            axes.set_xticks(range(len(groups)), list(groups))
            axes.set_xlim(-0.6, max(len(groups), 1) - 0.4)
            axes.grid(axis="y", color="0.92")
            axes.set_axisbelow(True)
            if line is panels[0]:
                axes.set_title(column, fontsize="medium")
            if line is panels[-1]:
                axes.set_xlabel(xlabel)
        line[0].set_ylabel(f"{task}\nAUC")
        if any(axes.texts for axes in line):  # room for them below all dots
            low, high = line[0].get_ylim()
            line[0].set_ylim(low - 0.1 * (high - low), high)
    for number, name in enumerate(methods):
        panels[0][0].plot([], [], "s", color=color_of(number), label=name)
    figure.legend(
        *panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(methods)
    )
    figure.suptitle(title, fontsize="medium")
    return figure


def _draw_condition(
    axes: "Axes", x: float, width: float, values: Sequence[float | None], color: str
) -> None:
    there = [value for value in values if value is not None]
    if there:
        draw_box(axes, x, there, width=width, color=color, dot=DOT)
    if len(there) < len(values):
        axes.text(
            x, 0.01, f"{len(values) - len(there)} div.", transform=axes.get_xaxis_transform(),
            ha="center", va="bottom", fontsize=7, color=color,
        )  # fmt: skip


def plot_growth(
    curves: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]], *, title: str
) -> "Figure":
    """Draw AUC against the number of members (above) and training time (below), a column a task.

    `curves` holds, by task and method, lines with "members", "seconds", the means "ensemble",
    "chosen" and "oracle" over orders, and the range of the first, "low" and "high".

    >>> line = {"members": 1, "seconds": 2.0, "ensemble": 0.9, "chosen": 0.9, "oracle": 0.9,
    ...         "low": 0.8, "high": 0.95}
    >>> len(plot_growth({"a": {"VS": [line]}}, title="").axes)
    2
    """
    if not curves:
        raise InputError("plot_growth needs the curves of one task or more, got none")
    figure, panels = new_panels(2, len(curves), width=4.2, height=3.4, sharey="col")
    for column, (task, methods) in enumerate(curves.items()):
        for row, (key, label) in enumerate(
            (("members", "members trained"), ("seconds", "training time (s)"))
        ):
            axes = panels[row][column]
            for number, (name, lines) in enumerate(methods.items()):
                _draw_growth(axes, [line[key] for line in lines], lines, color_of(number), name)
            axes.set_xscale("log", base=2 if key == "members" else 10)
            axes.set(xlabel=label, ylabel="AUC")
            axes.grid(color="0.92")
            if key == "members":
                counts = sorted({line["members"] for own in methods.values() for line in own})
                axes.set_xticks(counts, [f"{count:g}" for count in counts])
                axes.minorticks_off()
                axes.set_title(task, fontsize="medium")
    figure.legend(
        *panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2,
        fontsize="small",
    )  # fmt: skip
    figure.suptitle(title, fontsize="medium")
    return figure


def _draw_growth(
    axes: "Axes", x: list[float], lines: Sequence[Mapping[str, float]], color: str, name: str
) -> None:
    low, high = ([line[key] for line in lines] for key in ("low", "high"))
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    for way, (style, marker, told) in WAYS.items():
        values = [line[way] for line in lines]
        axes.plot(x, values, linestyle=style, marker=marker, markersize=4, color=color,
                  linewidth=1.8 if way == "ensemble" else 1.2, label=f"{name}: {told}")  # fmt: skip


def plot_methods(
    differences: Mapping[str, Mapping[str, Values]], *, ylabel: str, title: str, caption: str = ""
) -> "Figure":
    """Draw differences by method and way of using its models: a dot a task, a bar at the mean.

    >>> figure = plot_methods({"CE": {"alone": [0.0, 0.1]}}, ylabel="", title="")
    >>> figure.axes[0].get_xticklabels()[0].get_text()
    'CE'
    """
    ways = list(dict.fromkeys(way for own in differences.values() for way in own))
    if not ways:
        raise InputError("plot_methods needs differences of one method or more, got none")
    figure, panels = new_panels(1, 1, width=max(6.0, 1.25 * len(differences)), height=4.4)
    axes, width = panels[0][0], 0.8 / len(ways)
    axes.axhline(0, color="0.4", linewidth=1)
    for position, own in enumerate(differences.values()):
        for way, values in own.items():
            if len(values) == 0:
                continue
            number = ways.index(way)
            x = position + (number - (len(ways) - 1) / 2) * width
            color = color_of(number + 2)  # the first two are those of VS and LCT
            across = (np.arange(1, len(values) + 1) * GOLDEN) % 1 - 0.5
            axes.plot(x + 0.6 * width * across, values, "os^"[number % 3], color=color,
                      markersize=3.5, alpha=0.7)  # fmt: skip
            axes.plot([x - 0.4 * width, x + 0.4 * width], [float(np.mean(values))] * 2,
                      color="black", linewidth=2)  # fmt: skip
    for number, way in enumerate(ways):
        axes.plot([], [], "os^"[number % 3], color=color_of(number + 2), label=way)
    axes.plot([], [], color="black", linewidth=2, label="mean over tasks")
    axes.set_xticks(range(len(differences)), list(differences), rotation=20, ha="right")
    axes.set_ylabel(ylabel)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    axes.legend(loc="best", fontsize="small", ncols=2)
    write_title(figure, title, caption)
    return figure
