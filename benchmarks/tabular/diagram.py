"""The critical-difference diagram: methods on an axis of mean ranks, bars over those alike."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.tabular.ranking import alike
from matplotlib.figure import Figure
from numpy.typing import NDArray

BLUE, GREY = "#1f5fa8", "#444444"
TITLE = 2.5  # how far above the axis, where a line of names takes half


@dataclass(frozen=True)
class Label:
    """A method's name: its rank on the axis, the side where it stands and its line there."""

    method: str
    rank: float
    left: bool
    line: int


def labels(methods: list[str], mean_ranks: NDArray[np.float64]) -> list[Label]:
    """Return the better half on the left from the top, the other on the right from the bottom."""
    order = np.argsort(mean_ranks, kind="stable")
    half = (len(order) + 1) // 2
    return [
        Label(
            method=methods[place],
            rank=float(mean_ranks[place]),
            left=number < half,
            line=number if number < half else len(order) - 1 - number,
        )
        for number, place in enumerate(order)
    ]


def draw(
    methods: list[str],
    mean_ranks: NDArray[np.float64],
    difference: float,
    path: Path,
    *,
    ours: str | None = None,
    title: str = "",
) -> None:
    """Draw the diagram to a PNG file; `ours` stands out."""
    placed = labels(methods, mean_ranks)
    ordered = np.sort(mean_ranks)
    runs = alike(mean_ranks, difference)
    most = len(methods)
    top = 0.9 + 0.32 * len(runs)  # where names begin, below the bars
    depth = top + 0.5 * max(label.line for label in placed) + 0.6
    figure = Figure(figsize=(9, 0.5 * (depth + TITLE)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(1 - 0.42 * most, most + 0.42 * most)
    axes.set_ylim(depth, -TITLE)
    axes.text((1 + most) / 2, 0.15 - TITLE, title, ha="center", va="top", fontsize=12)
    axes.plot([1, most], [0, 0], color="black", lw=1.2)
    for rank in range(1, most + 1):
        axes.plot([rank, rank], [0, -0.15], color="black", lw=1.2)
        axes.text(rank, -0.25, str(rank), ha="center", va="bottom", fontsize=10)
    shown = min(difference, most - 1)
    axes.plot([1, 1 + shown], [-1.15, -1.15], color="black", lw=1.2, marker="|", ms=7)
    axes.text(
        1 + shown / 2, -1.22, f"critical difference {difference:.2f}", ha="center", va="bottom"
    )
    for number, (first, last) in enumerate(runs):
        height = 0.4 + 0.32 * number
        ends = [ordered[first] - 0.05, ordered[last] + 0.05]
        axes.plot(ends, [height, height], color=GREY, lw=4, solid_capstyle="round", zorder=3)
    for label in placed:
        height = top + 0.5 * label.line
        end = 1 - 0.06 * most if label.left else most + 0.06 * most
        color, weight = (BLUE, "bold") if label.method == ours else ("black", "normal")
        axes.plot([label.rank, label.rank, end], [0, height, height], color=color, lw=1.1)
        words = [label.method, f"{label.rank:.2f}"]
        axes.text(
            end - 0.05 if label.left else end + 0.05,
            height,
            "  ".join(words if label.left else reversed(words)),
            ha="right" if label.left else "left",
            va="center",
            color=color,
            weight=weight,
            fontsize=11,
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
