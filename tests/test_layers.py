"""The plan of the house: imports point downward only, files stay short and well named."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "curvewise"
SOURCES = sorted(PACKAGE.rglob("*.py"))
EVERYTHING = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)

CORE = (
    "version",
    "errors",
    "losses",
    "family",
    "conditioning",
    "networks",
    "roc",
    "imbalance",
    "column_values",
    "tabular",
    "quantiles",
    "quantile_column",
)
ENGINE = ("training",)
SHELLS = ("data", "artifacts", "sweep", "report")
LAYERS = (CORE, ENGINE, ("estimator",), SHELLS, ("apps",), ("cli", "__main__"))
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str, package: str) -> set[str]:
    """Return the dotted names that a module imports, wherever it does so.

    `package` is what a relative import starts from.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            start = [*above, node.module] if node.level else [node.module]
            base = ".".join(part for part in start if part)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def broken_rules(module: str, source: str, package: str) -> list[str]:
    """Return a sentence for each import that the plan forbids."""
    own, found = module.split(".")[1], []
    for name in sorted(imported(source, package)):
        root, _, rest = name.partition(".")
        part = rest.split(".")[0]
        if root != "curvewise":
            continue
        if part not in LEVEL:
            found.append(f"{module} imports {name}, not from where it lives")
        elif LEVEL[part] > LEVEL[own]:
            found.append(f"{module} imports {name}, which is above it")
        elif part != own and part in SHELLS and own in SHELLS:
            found.append(f"{module} imports {name}, another shell")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_imports_point_downward(path: Path) -> None:
    module = module_name(path)
    if module == "curvewise":  # the front door names everything, and loads it lazily
        return
    assert module.split(".")[1] in LEVEL, f"{module} has no place in the plan"
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    assert broken_rules(module, path.read_text(encoding="utf-8"), package) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("curvewise.losses.baselines", "from curvewise.training.sam import SAM"),
        ("curvewise.losses.baselines", "from ..training.sam import SAM"),
        ("curvewise.losses.baselines", "from .. import training"),
        ("curvewise.training.loop", "import curvewise.models.saving"),
        ("curvewise.training.loop", "def save():\n    from curvewise import artifacts"),
        ("curvewise.sweep.run", "from curvewise.stats.summary import table"),
        ("curvewise.report.page", "from curvewise.apps import compare"),
        ("curvewise.paper.compare", "from curvewise.cli.main import app"),
        ("curvewise.losses.family", "from curvewise import vs_loss"),
        ("curvewise.losses.family", "import curvewise"),
    ],
)
def test_a_broken_rule_is_noticed(module: str, source: str) -> None:
    assert len(broken_rules(module, source, module.rpartition(".")[0])) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("curvewise.sweep.run", "from curvewise.sweep.store import Store"),
        ("curvewise.sweep.run", "from .store import Store"),
        ("curvewise.estimator", "from curvewise.training.loop import fit\nimport numpy.random"),
        ("curvewise.losses.family", "from curvewise import errors"),
        ("curvewise.cli.main", "from curvewise.paper.compare import compare"),
    ],
)
def test_what_the_plan_allows_is_allowed(module: str, source: str) -> None:
    assert broken_rules(module, source, module.rpartition(".")[0]) == []


@pytest.mark.parametrize("path", EVERYTHING, ids=named)
def test_files_are_short_and_named_after_what_they_are_about(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 400
    words = set(path.relative_to(ROOT).with_suffix("").parts)
    assert not words & {"utils", "util", "helpers", "helper", "common"}
    # torchvision has no build beside the tested torch, and nothing here needs it.
    tops = {name.split(".")[0] for name in imported(source, "curvewise")}
    assert "torchvision" not in tops


def test_there_is_something_to_check() -> None:
    assert {"curvewise.losses.family", "curvewise.training.sam"} <= set(map(module_name, SOURCES))
    assert Path(__file__) in EVERYTHING
