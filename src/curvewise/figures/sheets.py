"""What figures share: colours, axes, legends, and panels under a title and a caption."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from numbers import Real
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

# Okabe and Ito's colours: told apart in print and by the colour-blind.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
KNOWN = {"VS": COLORS[0], "LCT": COLORS[1], "VS + LCT": COLORS[1]}
WIDTH = 10.0  # inches, at most: shown 800 pixels wide, letters of 9 points can still be read
TITLE, SMALL = 12, 9  # points of a title, and of the smallest letters
LETTER = 0.54 / 72  # inches that a letter takes for each point of its size, on average
LINE = 1.3 / 72  # inches of a line of text for each point
HANDLE = 0.6  # inches in a legend that stand beside the words

Corner = Literal["best", "lower right", "upper left", "center right"]
Look = dict[str, Any]  # matplotlib's settings of a line
UNIT: Look = {"xlim": (-0.02, 1.02), "ylim": (-0.02, 1.02), "aspect": "equal"}
RATES: Look = {"xlabel": "False positive rate", "ylabel": "True positive rate"}
GRAY = "0.4"
CHANCE: Look = {"color": "0.8", "linewidth": 1, "zorder": 0}


def color_of(number: int) -> str:
    """Return the color of what stands at this position, the same in every figure."""
    return COLORS[number % len(COLORS)]


def colors_of(names: Iterable[str]) -> dict[str, str]:
    """Return the colour of each name: VS is blue and LCT vermilion in every figure.

    >>> colors_of(["LCT", "control"]) == {"LCT": COLORS[1], "control": COLORS[2]}
    True
    """
    free = cycle(COLORS[2:])
    return {name: KNOWN.get(name) or next(free) for name in names}


def split(frame: "DataFrame", column: str | None) -> "dict[str, DataFrame]":
    """Return the rows by the values of a column in the order of the frame; without one, all.

    >>> from pandas import DataFrame
    >>> list(split(DataFrame({"beta": [10.0, 0.5, 10.0]}), "beta"))
    ['10', '0.5']
    """
    if column is None:
        return {"": frame}
    groups = frame.groupby(column, sort=False, observed=True)
    return {f"{key:g}" if isinstance(key, Real) else str(key): rows for key, rows in groups}


def new_axes(width: float = 5.5, *, bare: bool = False) -> "Axes":
    """Return axes of a new figure, `width` inches wide, which pyplot knows if it is in use.

    Whoever calls ``plt.show()`` or ``plt.savefig()`` has imported pyplot, and expects it to find
    this figure. It keeps it until it is closed, unless the figure is to be `bare`, for a file.
    """
    return _new_figure(width, 5, bare=bare).add_subplot()


def save(axes: "Axes", path: Path) -> None:
    """Write the figure of axes to a file."""
    axes.figure.savefig(path, dpi=150)  # type: ignore[union-attr]


def _new_figure(width: float, height: float, *, bare: bool = True) -> "Figure":
    """Return a figure that needs no screen, or that of pyplot if it is in use."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    pyplot = None if bare else sys.modules.get("matplotlib.pyplot")
    new = Figure if pyplot is None else pyplot.figure
    figure: Figure = new(figsize=(width, height), layout="constrained")
    if pyplot is None:
        FigureCanvasAgg(figure)
    return figure


def new_sheet(
    panels: Iterable[str],
    *,
    place: float = 3.6,
    height: float = 3.0,
    columns: int = 3,
    title: str = "",
    caption: str = "",
    xlabel: str = "",
    ylabel: str = "",
) -> "tuple[Figure, dict[str, Axes]]":
    """Return a figure that needs no screen, and its panels by name.

    Title and caption stand on the left above all panels, in lines that fit. Panels on the left
    name the y axis, those with none below them the x axis. `place` and `height` are the inches
    that a panel needs, as far as the whole stays within `WIDTH`.
    """
    names = list(panels)
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    width = min(max(6.0, columns * place), WIDTH)
    title = _evenly(title, int((width - 0.2) / (LETTER * TITLE)))
    caption = _evenly(caption, int((width - 0.2) / (LETTER * SMALL)))
    below = 0.08 + LINE * TITLE * len(title.splitlines())
    top = below + LINE * SMALL * len(caption.splitlines()) + 0.1
    total = rows * height + top
    figure = _new_figure(width, total)
    left: Look = {"x": 0.1 / width, "ha": "left", "va": "top", "in_layout": False}
    figure.suptitle(title, y=1 - 0.08 / total, fontsize=TITLE, **left)
    figure.text(s=caption, y=1 - below / total, fontsize=SMALL, color="0.35", **left)
    figure.set_layout_engine("compressed", rect=(0, 0, 1, 1 - top / total), w_pad=0.06, h_pad=0.06)
    drawn: dict[str, Axes] = {}
    for number, name in enumerate(names):
        axes = drawn[name] = figure.add_subplot(rows, columns, number + 1)
        axes.set_title(name, fontsize="medium")
        axes.set_ylabel("" if number % columns else ylabel)
        axes.set_xlabel(xlabel if number + columns >= len(names) else "")
        axes.tick_params(labelsize=SMALL)
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    return figure, drawn


def add_legend(figure: "Figure", looks: Mapping[str, Look]) -> None:
    """Draw one legend below all panels, in as many columns as fit."""
    from matplotlib.lines import Line2D

    if looks:
        figure.legend(
            handles=[Line2D([], [], label=name, **look) for name, look in looks.items()],
            loc="outside lower center",
            ncols=_fitting(list(looks), figure.get_figwidth()),
            fontsize=SMALL,
            frameon=False,
        )


def place_legend(axes: "Axes", within: Corner = "best") -> None:
    """Draw the legend below the axes, where no data are, in one column or in two that fit.

    A figure without a layout engine would cut it off there: then it goes to the corner `within`.
    """
    if axes.figure.get_layout_engine() is None:
        axes.legend(loc=within, fontsize="small")
        return
    labels = axes.get_legend_handles_labels()[1]
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0), fontsize="small",
        borderaxespad=5,  # in letters: leaves ticks and label their place in panels of any height
        ncols=min(_fitting(labels, _inches(axes)), 2),
    )  # fmt: skip


def _evenly(text: str, letters: int) -> str:
    """Return a text in as few lines as fit, all of about the same length."""
    lines = [wrap(text, most, break_long_words=False) for most in range(1, letters + 1)]
    return "\n".join(next(some for some in lines if len(some) <= len(lines[-1])))


def _fitting(labels: Sequence[str], width: float) -> int:
    """Return how many columns of a legend with these labels fit."""
    widths = [len(label) * LETTER * SMALL + HANDLE for label in labels]
    return len(labels) if sum(widths) <= width else max(1, int(width / max(widths)))


def _inches(axes: "Axes") -> float:
    return axes.get_window_extent().width / axes.figure.dpi


def name_ticks(axes: "Axes", names: Sequence[str]) -> None:
    """Name the places 0, 1, ... of an axis in lines that fit, or slanted."""
    # Before it is laid out, an axis is less wide than it will be.
    letters = int(_inches(axes) / (len(names) + 0.2) / (0.5 * SMALL / 72) - 0.3)
    slanted: Look = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    if max(len(word) for name in names for word in name.split()) <= letters:
        names, slanted = [_evenly(name, letters) for name in names], {}
    axes.set_xticks(range(len(names)), names, **slanted)
    axes.set_xlim(-0.6, len(names) - 0.4)
