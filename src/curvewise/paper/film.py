"""Beyond the paper: three choices in how lambda gets into the network, all combinations.

FiLM starts at the paper's initialisation or as the identity, lambda is raw or scaled to [-1, 1],
and one lambda is drawn a batch or one a sample.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from curvewise.figures.curves import Areas
from curvewise.figures.panels import plot_spread_panels
from curvewise.paper.areas import area_rows, cells_from
from curvewise.paper.bands import CAT_DOG
from curvewise.paper.captions import caption_of, title_of
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.gains import STATISTICS, VS, told
from curvewise.paper.profiles import Profile
from curvewise.stats.cells import CellAreas
from curvewise.stats.differences import CellDifference, cell_differences, count_better, values_of
from curvewise.stats.summary import MethodSummary, method_summary
from curvewise.sweep.spec import Spec

NAME = "fig-film"
TASKS = (("fashion-mnist:0/6", "fashion-mnist:2/4", "fashion-mnist:1/3"), (CAT_DOG,))
# Of each setting of a recipe: the paper's value and the other, with their names.
CHOICES: dict[str, dict[str, Any]] = {
    "film_init": {"paper init": "paper", "identity init": "identity"},
    "scale_lambda": {"raw": False, "scaled": True},
    "draw": {"per batch": "batch", "per sample": "sample"},
}
Variant = tuple[str, ...]
VARIANTS: tuple[Variant, ...] = tuple(product(*CHOICES.values()))  # the first is the paper's


def label_of(variant: Variant) -> str:
    """Return how a variant is called.

    >>> label_of(VARIANTS[0])
    'LCT: paper init, raw, per batch'
    """
    return "LCT: " + ", ".join(variant)


def _sweeps(profile: Profile) -> list[Spec]:
    methods: list[dict[str, Any]] = [{"method": "vs", "grid": "paper"}]
    for variant in VARIANTS:
        settings = {
            setting: values[name]
            for (setting, values), name in zip(CHOICES.items(), variant, strict=True)
        }
        methods.append({"method": "lct", "grid": "paper", "label": label_of(variant), **settings})
    return [profile.spec(_sweep(tasks), list(tasks), methods) for tasks in TASKS]


def _sweep(tasks: Sequence[str]) -> str:
    return f"{NAME}-{tasks[0].partition(':')[0]}"


def _collect(reading: Reading) -> Data:
    return {"": area_rows([cell for tasks in TASKS for cell in reading.cells(_sweep(tasks))])}


def _present(data: Data, profile: Profile) -> Outcome:
    cells = cells_from(data[""])
    figure = plot_spread_panels(
        {title_of(cell.task): boxes_of(cell) for cell in cells},
        title="How lambda gets into the network, beta = 100; VS is the same in every group",
        caption=caption_of(profile, [cell.task for cell in cells]),
    )
    summary = {line.label: line for line in method_summary(cells).lines}
    return Outcome(
        verdict=verdict(cells, summary),
        tables={
            f"Averages over {len(cells)} tasks": variant_table(cells, summary),
            "The other choice less the paper's, over tasks and the other two choices": (
                effect_table(cells)
            ),
        },
        figures={NAME: figure},
    )


def boxes_of(cell: CellAreas) -> dict[str, Areas]:
    """Return the areas of VS and of both initialisations, grouped by the other two choices."""
    groups: dict[str, dict[str, Any]] = {}
    for variant in VARIANTS:
        label = label_of(variant)
        if label in cell.areas:
            init, *others = variant
            reference = {VS: cell.areas[VS]} if VS in cell.areas else {}
            own = groups.setdefault(", ".join(others), reference)
            own[f"LCT, {init}"] = cell.areas[label]
    return dict(groups)


def variant_table(cells: Sequence[CellAreas], summary: Mapping[str, MethodSummary]) -> Rows:
    """Return one row a variant, VS first: its statistics, and on how many tasks it beats VS."""
    rows: Rows = []
    for label, line in summary.items():
        row: dict[str, Any] = {
            "method": label,
            "models": line.models,
            "mean AUC": line.mean,
            "min": line.min,
            "max": line.max,
            "std": line.std,
        }
        lines = () if label == VS else cell_differences(cells, VS, label).lines
        for name in ("mean", "min", "std"):
            values = values_of(lines, name)
            won = f"{count_better(values, name)} of {len(values)}"
            row[f"{name}: better than VS"] = "-" if label == VS else won
        rows.append(row)
    return rows


def effect_table(cells: Sequence[CellAreas]) -> Rows:
    """Return one row a choice: what changing it alone does, whatever the other two are."""
    rows: Rows = []
    for position, values in enumerate(CHOICES.values()):
        paper, other = values
        lines = effects(cells, position)
        if not lines:
            continue
        row: dict[str, Any] = {"change": f"{paper} to {other}", "comparisons": len(lines)}
        for name in STATISTICS:
            found = values_of(lines, name)
            row[name] = sum(found) / len(found) if found else None
            row[f"{name}: better"] = count_better(found, name)
        rows.append(row)
    return rows


def effects(cells: Sequence[CellAreas], position: int) -> list[CellDifference]:
    """Return the differences that one choice makes: a line a task and setting of the others."""
    paper, other = list(CHOICES.values())[position]
    known = {label for cell in cells for label in cell.areas}
    lines: list[CellDifference] = []
    for variant in VARIANTS:
        if variant[position] != paper:
            continue
        changed = (*variant[:position], other, *variant[position + 1 :])
        pair = label_of(variant), label_of(changed)
        if known.issuperset(pair):
            lines += cell_differences(cells, *pair).lines
    return lines


def verdict(cells: Sequence[CellAreas], summary: Mapping[str, MethodSummary]) -> str:
    """Say which variant is best, what each choice changes, and where all of it leaves VS."""
    variants = {label: line for label, line in summary.items() if label != VS}
    best = max(variants, key=lambda label: variants[label].mean)
    paper = label_of(VARIANTS[0])
    parts = [
        f"{best} has the highest mean AUC of the variants, {variants[best].mean:.4f}"
        + (f", beside {variants[paper].mean:.4f} of the paper's" if paper in variants else "")
        + (f" and {summary[VS].mean:.4f} of VS" if VS in summary else "")
    ]
    for position, values in enumerate(CHOICES.values()):
        lines = effects(cells, position)
        if lines:
            _, other = values
            parts.append(f"{other} is better in {told(lines, ('mean', 'min', 'std'))}")
    return "; ".join(parts) + " (comparisons over tasks and the other choices, one seed)."


FILM = Experiment(
    name=NAME,
    shows="identity or paper initialisation of FiLM, raw or scaled lambda, drawn per batch or "
    "per sample: AUC box plots on three Fashion-MNIST pairs and cat/dog",
    published="",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
