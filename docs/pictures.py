"""Draw the pictures of pages that no command draws: `python docs/pictures.py` after a change.

What is drawn is read from the pages, so that they say the same. Of the rooms in architecture.md an
arrow that others imply is left out.
"""

import re
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DOCS = Path(__file__).parent
# Where the rooms stand: across, and up.
PLACES = {
    "cli": (2.4, 6),
    "report": (0.5, 5),
    "paper": (1.7, 5),
    "models": (4.2, 5),
    "sweep": (2.9, 4.3),
    "figures": (1.4, 3.6),
    "stats": (0.35, 2.3),
    "estimator": (2.75, 3),
    "data": (4.75, 3),
    "training": (3.4, 2),
    "roc": (0.9, 1),
    "losses": (2.3, 1),
    "networks": (3.6, 1),
    "tables": (4.75, 1),
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


def tables_of(page: Path) -> list[pd.DataFrame]:
    """Return the tables of a page as texts."""
    found = []
    for block in page.read_text().split("\n\n"):
        if block.startswith("|"):
            head, _, *rows = [
                [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
            ]
            found.append(pd.DataFrame(rows, columns=head))
    return found


def results_sheet(columns: int, title: str) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels beside each other under a title that says the finding."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.01, ha="left")
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def draw_training(page: Path) -> None:
    """Draw three seeds of each data set, with the intervals of the table."""
    names = ("Fashion-MNIST", "Dogs vs Cats", "CIFAR-10 cat/dog")
    title = "The seed matters more than whether the loss is drawn"
    figure, panels = results_sheet(3, title)
    for axes, name, table in zip(panels, names, tables_of(page), strict=True):
        for place, (method, rows) in enumerate(table.groupby("method", sort=False)):
            numbers = rows["AUC"].str.extract(r"(\S+) \((\S+)-(\S+)\)").astype(float)
            where = rows["seed"].astype(float) + 0.2 * place
            bars = [numbers[0] - numbers[1], numbers[2] - numbers[0]]
            axes.errorbar(where, numbers[0], bars, fmt="os"[place], capsize=3, label=method)
        axes.set(title=name, xlabel="seed", xticks=range(3))
    panels[0].set_ylabel("AUC, 95 % interval")
    panels[0].legend()
    figure.savefig(page.with_suffix(".png"), dpi=100, metadata={"Software": None})


def draw_conditioning(page: Path) -> None:
    """Draw what LCT (a draw a batch) has more than VS, for each way of training."""
    table = tables_of(page)[1]
    rows = table[table["arm less VS"] == "LCT a batch"]
    title = "Drawing the loss: less spread where training is short, weaker ensembles"
    figure, panels = results_sheet(3, title)
    ways = rows["training"] + ", length " + rows["length"]
    for axes, statistic in zip(panels, ("mean AUC", "std", "ensemble"), strict=True):
        gaps = rows[statistic].str.split().str[0].astype(float)
        axes.barh(ways, gaps, color="C0")
        axes.axvline(0, color="0.3", lw=1)
        axes.set(title=f"{statistic}: LCT less VS")
        axes.invert_yaxis()
        axes.locator_params(axis="x", nbins=4)
        if axes is not panels[0]:
            axes.set_yticklabels([])
    figure.savefig(page.with_suffix(".png"), dpi=100, metadata={"Software": None})


def draw_page_speed(page: Path) -> None:
    """Draw what was measured in the browser beside what is allowed, in milliseconds."""
    (table,) = tables_of(page)
    (figure, panels), allowed = (
        results_sheet(3, "The page is there before it has to be"),
        (2000, 50),
    )
    columns = [name for name in table if "after" in name or "drag" in name]
    for axes, name, limit in zip(panels, columns, (None, *allowed), strict=True):
        numbers = table[name].str.replace(",", "").str.findall(r"\d+(?:\.\d+)?")
        axes.barh(table["page"], [max(map(float, values)) for values in numbers], height=0.5)
        if limit:
            axes.axvline(limit, color="C3", label=f"allowed: {limit:,} ms")
            axes.legend(loc="upper center")
        axes.set(title=name.partition(":")[0].partition(" after")[0], xlabel="ms, the slowest")
        axes.set_ylim(-0.6, 2.2)
        if axes is not panels[0]:
            axes.set_yticklabels([])
    figure.savefig(page.with_suffix(".png"), dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    draw_rooms(rooms_of((DOCS / "architecture.md").read_text()), DOCS / "images" / "rooms.png")
    draw_ways(DOCS / "images" / "ways.png")
    draw_training(DOCS / "results" / "training.md")
    draw_conditioning(DOCS / "results" / "tabular_lct.md")
    draw_page_speed(DOCS / "results" / "report_page.md")
