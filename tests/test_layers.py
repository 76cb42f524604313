"""The house is as docs/architecture.md shows it: rooms, arrows that point down, no cycle."""

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "curvewise"
PAGE = ROOT / "docs" / "architecture.md"
FOLDERS = ("src", "tests", "benchmarks", "examples")
EVERYTHING = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def rooms_of(page: str) -> dict[str, set[str]]:
    """Return what each room of the page may import."""
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", page, re.MULTILINE))
    rooms = {room: set(re.findall(r"\w+", allowed)) for room, allowed in rows.items()}
    return {room: set(rooms) - {room} if may == {"all"} else may for room, may in rooms.items()}


def imported(source: str, package: str) -> set[str]:
    """Return the dotted names that a module imports, wherever it does so.

    `package` is what a relative import starts from.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def broken_rules(module: str, source: str, rooms: Mapping[str, set[str]]) -> list[str]:
    """Return a sentence for each import that the page does not allow to `curvewise.ROOM.NAME`."""
    own, found = module.split(".")[1], []
    for name in sorted(imported(source, module.rpartition(".")[0])):
        top, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        if top != "curvewise" or room == own:
            continue
        if room not in rooms:
            found.append(f"{module} imports {name}, not from the room where it lives")
        elif room not in rooms[own]:
            found.append(f"{module} imports {name}, and {own} may not import {room}")
    return found


def sources() -> Iterator[tuple[str, str]]:
    """Yield each module of a room, and its source."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if len(parts) > 2:
            yield ".".join(parts), path.read_text(encoding="utf-8")


ROOMS = rooms_of(PAGE.read_text(encoding="utf-8"))


def test_the_page_shows_every_room_and_what_it_names_is_there() -> None:
    assert set(ROOMS) == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}
    named = re.findall(r"`(\w+/[\w/]+\.\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 20
    places = (PACKAGE, ROOT)
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_arrows_are_those_of_the_page_and_point_down() -> None:
    assert [rule for name, text in sources() for rule in broken_rules(name, text, ROOMS)] == []
    tuple(TopologicalSorter(ROOMS).static_order())  # raises for a cycle of rooms


def test_a_broken_rule_and_a_cycle_are_noticed():
    for module, source, broken in (
        ("curvewise.losses.family", "from ..training.optimizers import SAM", 1),
        ("curvewise.losses.family", "def late():\n    import curvewise.models.saving", 1),
        ("curvewise.losses.family", "from curvewise import vs_loss", 1),
        ("curvewise.sweep.run", "from curvewise.report.page import write_page", 1),
        ("curvewise.sweep.run", "from .store import Store", 0),
        ("curvewise.estimator", "from curvewise.training.loop import fit\nimport numpy.random", 0),
        ("curvewise.cli.main", "from curvewise.paper.compare import compare", 0),
    ):
        assert len(broken_rules(module, source, ROOMS)) == broken
    page = "| `a` | x | b |\n| `b` | y | a |\n"
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(rooms_of(page)).static_order())


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_named_after_what_they_are_about(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 400
    words = set(path.relative_to(ROOT).with_suffix("").parts)
    assert not words & {"utils", "util", "helpers", "helper", "common"}
    # torchvision has no build beside the tested torch, and nothing here needs it.
    tops = {name.split(".")[0] for name in imported(source, "curvewise")}
    assert "torchvision" not in tops
