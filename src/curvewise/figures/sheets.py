"""What figures for a page share: panels under a title and a caption, over one legend for all."""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypedDict

from curvewise.figures.curves import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

WIDTH = 10.0  # inches, at most: shown 800 pixels wide, letters of 9 points can still be read
TITLE, SMALL = 12, 9  # points of a title, and of the smallest letters
LETTER = 0.58 / 72  # inches that a letter takes for each point of its size, on average
LINE = 1.3 / 72  # inches of a line of text for each point
HANDLE = 0.6  # inches in a legend that stand beside the words
KNOWN = {"VS": 0, "LCT": 1, "VS + LCT": 1}

Look = dict[str, Any]  # matplotlib's settings of a line


class Sheet(TypedDict, total=False):
    """What every figure of panels can be told: words, `columns` of panels, `height` in inches."""

    title: str
    caption: str
    xlabel: str
    ylabel: str
    columns: int
    height: float
    sharey: bool


def colors_of(names: Iterable[str]) -> dict[str, str]:
    """Return the colour of each name: VS is blue and LCT vermilion in every figure.

    >>> colors_of(["LCT", "control"]) == {"LCT": COLORS[1], "control": COLORS[2]}
    True
    """
    free = COLORS[2:]
    others = [name for name in names if name not in KNOWN]
    return {
        name: COLORS[KNOWN[name]] if name in KNOWN else free[others.index(name) % len(free)]
        for name in names
    }


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


def new_sheet(
    panels: Iterable[str], width: float, sheet: Sheet
) -> "tuple[Figure, dict[str, Axes]]":
    """Return a figure that needs no screen, and its panels by name.

    Title and caption stand on the left above all panels, in lines that fit. Panels on the left
    name the y axis, those with none below them the x axis.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(panels)
    columns = min(sheet.get("columns", 3), len(names))
    rows = -(-len(names) // columns)
    title, caption = (
        fill(sheet.get(key, ""), int((width - 0.2) / (LETTER * size)))  # type: ignore[arg-type]
        for key, size in (("title", TITLE), ("caption", SMALL))
    )
    below = 0.08 + LINE * TITLE * len(title.splitlines())
    top = below + LINE * SMALL * len(caption.splitlines()) + 0.1
    total = rows * sheet.get("height", 3.0) + top
    figure = Figure(figsize=(width, total), layout="constrained")
    FigureCanvasAgg(figure)
    edge = 0.1 / width
    words = (
        figure.suptitle(title, x=edge, y=1 - 0.08 / total, ha="left", va="top", fontsize=TITLE),
        figure.text(edge, 1 - below / total, caption, va="top", fontsize=SMALL, color="0.35"),
    )
    for text in words:  # their place is known
        text.set_in_layout(False)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - top / total), w_pad=0.06, h_pad=0.06)
    drawn: dict[str, Axes] = {}
    for number, name in enumerate(names):
        above = drawn[names[0]] if sheet.get("sharey") and drawn else None
        axes = figure.add_subplot(rows, columns, number + 1, sharey=above)
        axes.set_title(name, fontsize="medium")
        axes.set_ylabel("" if number % columns else sheet.get("ylabel", ""))
        axes.set_xlabel(sheet.get("xlabel", "") if number + columns >= len(names) else "")
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
        drawn[name] = axes
    return figure, drawn


def add_legend(figure: "Figure", looks: Mapping[str, Look]) -> None:
    """Draw one legend below all panels, in as many columns as fit."""
    from matplotlib.lines import Line2D

    if not looks:
        return
    longest = max(len(name) for name in looks)
    fitting = int(figure.get_figwidth() / (longest * LETTER * SMALL + HANDLE))
    figure.legend(
        handles=[Line2D([], [], label=name, **look) for name, look in looks.items()],
        loc="outside lower center",
        ncols=max(1, min(fitting, len(looks))),
        fontsize=SMALL,
        frameon=False,
    )


def name_ticks(axes: "Axes", names: Sequence[str], width: float) -> None:
    """Name the places 0, 1, ... of an axis `width` inches long, in lines that fit, or slanted."""
    letters = int(width / (len(names) + 0.2) / (LETTER * SMALL)) - 1  # and a space
    if max(len(word) for name in names for word in name.split()) <= letters:
        lines = ["\n".join(fill(line, letters) for line in name.split("\n")) for name in names]
        axes.set_xticks(range(len(names)), lines, fontsize=SMALL)
    else:
        slanted: Look = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(len(names)), list(names), fontsize=SMALL, **slanted)
    axes.set_xlim(-0.6, len(names) - 0.4)
