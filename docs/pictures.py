"""Draw the pictures of docs/architecture.md: `python docs/pictures.py` after a change of its table.

Rooms and arrows are read from the page, so that they say the same; an arrow that others imply is
left out of the picture.
"""

import re
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DOCS = Path(__file__).parent
# Where the rooms stand: across, and up.
PLACES = {
    "cli": (2.4, 6),
    "paper": (3.6, 5),
    "report": (1.2, 5),
    "models": (0.5, 4),
    "sweep": (4.0, 4),
    "figures": (1.5, 4),
    "estimator": (2.6, 3),
    "data": (4.5, 3),
    "training": (3.3, 2),
    "stats": (1.3, 2),
    "roc": (1.3, 1),
    "losses": (2.4, 1),
    "networks": (3.5, 1),
    "tables": (4.6, 1),
    "base": (2.8, 0),
}
WAY = (
    ("a file", "pictures, a table, ..."),
    ("data", "Task: arrays, classes"),
    ("sweep", "a planned run, its identity"),
    ("training", "a stack of networks"),
    ("sweep", "the store: scores, metrics"),
    ("sweep", "one frame, a row a model"),
    ("stats", "groupby: areas, tests"),
    ("figures, report, paper", "picture, page, CSV"),
)
MODEL_WAY = (
    ("a file", "pictures, a table, ..."),
    ("data", "Task: arrays, classes"),
    ("training", "one network"),
    ("models", "model, threshold: saved"),
    ("roc", "one curve, one point"),
    ("models", "predict, evaluate"),
    ("report", "the page"),
)


def rooms_of(page: str) -> dict[str, set[str]]:
    """Return what each room of the page may import."""
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", page, re.MULTILINE)
    rooms = {room: set(re.findall(r"\w+", allowed)) for room, allowed in rows}
    return {room: set(rooms) - {room} if "all" in own else own for room, own in rooms.items()}


def direct(rooms: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the arrows that no way over other rooms implies."""

    def below(room: str) -> set[str]:
        return rooms[room].union(*(below(other) for other in rooms[room]))

    return [
        (room, other)
        for room, own in rooms.items()
        for other in sorted(own)
        if not any(other in below(between) for between in own - {other})
    ]


def draw_rooms(rooms: dict[str, set[str]], path: Path) -> None:
    """Draw the rooms, and an arrow from each to those it stands on."""
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    box = {"boxstyle": "round,pad=0.5", "facecolor": "#e8eef7", "edgecolor": "#3f51b5"}
    drawn = {
        room: axes.text(*PLACES[room], room, ha="center", va="center", fontsize=12, bbox=box)
        for room in rooms
    }
    for room, other in direct(rooms):
        ends = {"patchA": drawn[room].get_bbox_patch(), "patchB": drawn[other].get_bbox_patch()}
        arrow = {"arrowstyle": "-|>", "color": "0.5", "shrinkA": 2, "shrinkB": 2, **ends}
        axes.annotate("", PLACES[other], PLACES[room], arrowprops=arrow)
    axes.set(xlim=(0, 5.1), ylim=(-0.4, 6.4))
    axes.set_axis_off()
    figure.savefig(path, dpi=120, metadata={"Software": None})


def draw_ways(path: Path) -> None:
    """Draw a sample's two ways from its file to a page: of many models, and of one."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for row, (name, way) in enumerate((("one model", MODEL_WAY), ("many models", WAY))):
        axes.text(0, 2 * row + 0.85, name, fontsize=11, fontweight="bold", ha="left")
        for place, (room, holds) in enumerate(way):
            x = place * 1.45 + 0.6
            box = {"boxstyle": "round,pad=0.4", "facecolor": "#e8eef7", "edgecolor": "#3f51b5"}
            axes.text(x, 2 * row, room.replace(", ", "\n"), ha="center", va="center", bbox=box)
            words = holds.replace(": ", ":\n").replace(", ", ",\n", 1)
            axes.text(x, 2 * row - 0.5, words, ha="center", va="top", fontsize=8.5, color="0.3")
            if place:
                arrow = {"arrowstyle": "-|>", "color": "0.4", "shrinkA": 30, "shrinkB": 30}
                axes.annotate("", (x, 2 * row), (x - 1.45, 2 * row), arrowprops=arrow)
    axes.set(xlim=(0, 11.6), ylim=(-1.1, 3.2))
    axes.set_axis_off()
    figure.savefig(path, dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    draw_rooms(rooms_of((DOCS / "architecture.md").read_text()), DOCS / "images" / "rooms.png")
    draw_ways(DOCS / "images" / "ways.png")
