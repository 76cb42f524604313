"""Figures of several panels: bands of ROC curves, box plots, lines with error bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from curvewise.base.errors import InputError
from curvewise.figures.curves import Areas, color_of, plot_band, plot_spread
from curvewise.roc.curve import RocBand

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "os^Dv"
LETTER = 0.07  # inches that a letter of small print takes


@dataclass(frozen=True)
class BandPanel:
    """Bands of ROC curves by method with the AUC of every model, or a note why there are none."""

    title: str
    bands: Mapping[str, RocBand] = field(default_factory=dict)
    areas: Areas = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class RangeLine:
    """Points of a line and how far their bars reach: all of the same length."""

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    def __post_init__(self) -> None:
        sizes = {name: len(values) for name, values in vars(self).items()}
        if len(set(sizes.values())) != 1:
            raise InputError(f"x, y, low and high must be equally long, got {sizes}")


def panel_axes(
    count: int, columns: int, *, width: float = 3.0, height: float = 3.0
) -> "tuple[Figure, list[Axes]]":
    """Return a figure that needs no screen and its panels, row by row; sizes are in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if count < 1 or columns < 1:
        raise InputError(f"a figure needs at least one panel, got {count} in {columns} columns")
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * width, rows * height + 0.9), layout="constrained")
    figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.06)
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(rows, columns, number + 1) for number in range(count)]
    return figure, axes


def plot_band_panels(
    panels: Sequence[BandPanel],
    *,
    columns: int = 4,
    log: bool = False,
    misses: bool = False,
    title: str = "",
    caption: str = "",
) -> "Figure":
    """Draw a panel of bands for each, as `plot_band` does; what all share is in one legend.

    >>> band = RocBand(*(np.array([0.0, 0.0, 1.0]) for _ in range(5)))
    >>> panels = [BandPanel("a", {"VS": band}, {"VS": [0.5]}), BandPanel("b", note="no data")]
    >>> [axes.get_title() for axes in plot_band_panels(panels).axes]
    ['a', 'b']
    """
    figure, all_axes = panel_axes(len(panels), columns, height=3.6 if misses else 3.3)
    wide = min(columns, len(panels))
    handles: list[Artist] = []
    labels: list[str] = []
    own = 0
    for number, (panel, axes) in enumerate(zip(panels, all_axes, strict=True)):
        axes.set_title(panel.title, fontsize="medium")
        if not panel.bands:
            _write_note(axes, panel.note)
            continue
        plot_band(
            panel.bands, areas=panel.areas, log=log, misses=misses, title=panel.title, ax=axes
        )
        axes.title.set_fontsize("medium")
        handles, labels = axes.get_legend_handles_labels()
        own = len(panel.bands)
        if misses:  # no corner is always free of curves
            axes.legend(
                handles[:own], labels[:own], loc="upper center", bbox_to_anchor=(0.5, -0.2),
                fontsize="x-small",
            )  # fmt: skip
        else:
            axes.legend(handles[:own], labels[:own], loc="lower right", fontsize="x-small")
        if number % wide:
            axes.set_ylabel("")
        if number + wide < len(panels) and not misses:
            axes.set_xlabel("")
    if handles[own:]:
        figure.legend(
            handles[own:], labels[own:], loc="outside lower center", ncols=3, fontsize="small"
        )
    write_title(figure, title, caption)
    return figure


def plot_spread_panels(
    panels: Mapping[str, Mapping[str, Areas]],
    *,
    columns: int = 2,
    title: str = "",
    caption: str = "",
) -> "Figure":
    """Draw the box plots of `plot_spread` in one panel each: groups of methods side by side.

    >>> groups = {"per batch": {"VS": [0.7, 0.8], "VS + LCT": [0.75, 0.8]}}
    >>> figure = plot_spread_panels({"cat/dog": groups})
    >>> figure.axes[0].get_title(), figure.axes[0].get_ylabel()
    ('cat/dog', 'AUC')
    """
    figure, all_axes = panel_axes(len(panels), columns, width=5.2, height=3.2)
    for number, ((name, groups), axes) in enumerate(zip(panels.items(), all_axes, strict=True)):
        plot_spread(groups, title=name, ax=axes)
        axes.title.set_fontsize("medium")
        lines = [group.replace(", ", ",\n") for group in groups]
        axes.set_xticks(range(len(lines)), lines, rotation=0, ha="center", fontsize="small")
        legend = axes.get_legend()
        assert legend is not None
        legend.remove()
        if number % columns:
            axes.set_ylabel("")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), 4), fontsize="small"
    )
    write_title(figure, title, caption)
    return figure


def plot_ranges(
    lines: Mapping[str, RangeLine],
    *,
    xlabel: str = "beta",
    ylabel: str = "",
    title: str = "",
    zero: bool = True,
    ax: "Axes",
) -> "Axes":
    """Draw lines by name over a logarithmic x, a bar at each point, and a line at 0 if wanted.

    Points are moved apart a little, so that the bars of lines at the same x can be seen.
    """
    if zero:
        ax.axhline(0, color="0.5", linewidth=1)
    ticks: dict[float, None] = {}
    for number, (name, line) in enumerate(lines.items()):
        x, y = np.asarray(line.x, np.float64), np.asarray(line.y, np.float64)
        ticks |= dict.fromkeys(float(value) for value in x)
        moved = x * 1.06 ** (number - (len(lines) - 1) / 2)
        reach = np.array([y - np.asarray(line.low), np.asarray(line.high) - y])
        ax.errorbar(
            moved, y, yerr=np.maximum(reach, 0), color=color_of(number), capsize=2, linewidth=1.2,
            marker=MARKERS[number % len(MARKERS)], markersize=4, label=name,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
    ax.set_xticks([], minor=True)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.set_title(title, fontsize="medium")
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    return ax


def plot_range_panels(
    panels: Mapping[str, Mapping[str, RangeLine]],
    *,
    xlabel: str = "beta",
    ylabel: str = "",
    title: str = "",
    caption: str = "",
    columns: int | None = None,
    zero: bool = True,
) -> "Figure":
    """Draw `plot_ranges` in one panel each, all side by side or in columns, with one legend below.

    >>> line = RangeLine([5, 10], [0.1, 0.2], [0.0, 0.1], [0.2, 0.3])
    >>> figure = plot_range_panels({"mean": {"cat/dog": line}, "min": {"cat/dog": line}})
    >>> [axes.get_title() for axes in figure.axes]
    ['mean', 'min']
    """
    columns = columns or len(panels)
    figure, all_axes = panel_axes(len(panels), columns, width=3.6, height=3.2)
    for number, ((name, lines), axes) in enumerate(zip(panels.items(), all_axes, strict=True)):
        left = ylabel if number % columns == 0 else ""
        plot_ranges(lines, xlabel=xlabel, ylabel=left, title=name, zero=zero, ax=axes)
    names = dict.fromkeys(name for lines in panels.values() for name in lines)
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(names), 4), fontsize="small"
    )
    write_title(figure, title, caption)
    return figure


def write_title(figure: "Figure", title: str, caption: str) -> None:
    """Write a title above all panels, and a caption in small print below it, in lines that fit."""
    letters = max(int(figure.get_figwidth() / LETTER), 20)
    lines = [fill(text, letters) for text in (title, caption) if text]
    if lines:
        figure.suptitle("\n".join(lines), fontsize="small" if caption else "medium")


def _write_note(axes: "Axes", note: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, fill(note, 24), ha="center", va="center", transform=axes.transAxes)
