"""The spread of AUC when learning rate, epochs and clipping are varied too."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from curvewise.figures.controls import plot_conditions
from curvewise.paper.captions import title_of
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile
from curvewise.sweep.spec import Spec

NAME = "fig-robustness"
VS, LCT = "VS", "VS + LCT"
TASKS = [f"fashion-mnist:{pair}" for pair in ("0/6", "2/4", "1/3")]
EPOCHS = {("laptop", "full"): [5, 20], ("paper", "full"): [125, 500]}
CONDITION = ("epochs", "clip_norm", "lr")
STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda areas: float(np.mean(areas)),
    "min": min,
    "std": lambda areas: float(np.std(areas, ddof=1)) if len(areas) > 1 else float("nan"),
}


def _sweeps(profile: Profile) -> list[Spec]:
    settings = {"omega": [0.5, 0.9], "gamma": [0.0, 0.2]}
    training = {
        "lr": [0.01, 0.03, 0.1, 0.3],
        "epochs": EPOCHS.get((profile.name, profile.scale), [1, 2]),
        "clip_norm": ["none", 0.5],
    }
    methods = [
        {"method": "vs", **settings, "tau": [0.0, 1.5, 3.0], **training},
        {"method": "lct", **settings, "tau": ["0:3:0", "0:3:0.33", "0:3:0.66"], **training},
    ]
    # The cosine of this preset fits any number of epochs; milestones would not.
    return [profile.spec(NAME, TASKS, methods, recipe={"preset": "quick"})]


def _collect(reading: Reading) -> Data:
    assert reading.store is not None
    rows: Rows = []
    for record in reading.store.runs(NAME):
        recipe = record.run.recipe
        rows.append(
            {
                "task": record.run.task,
                "method": record.run.label,
                "epochs": recipe["epochs"],
                "clip_norm": "none" if recipe["clip_norm"] is None else recipe["clip_norm"],
                "lr": recipe["lr"],
                **record.run.settings,
                "auc": record.auc if record.state == "done" else None,
            }
        )
    return {"": rows}


def _present(data: Data, profile: Profile) -> Outcome:
    rows = data[""]
    conditions = condition_table(rows)
    together = together_table(rows)
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure = plot_conditions(
        {title_of(task).replace(" ", "\n", 1): row for task, row in _panels(rows).items()},
        xlabel="learning rate",
        title=f"AUC of 12 settings a method by training condition, beta = 100; div.: models that "
        f"diverged ({profile.caption('fashion-mnist')})",
    )
    return Outcome(
        verdict=verdict(conditions, together, len(tasks)),
        tables={
            f"By training condition, averages over {len(tasks)} pairs, without the models that "
            "diverged": conditions,
            "All conditions together, without the models that diverged": together,
        },
        figures={NAME: figure},
    )


def _panels(rows: Rows) -> dict[str, dict[str, dict[str, dict[str, list[float | None]]]]]:
    """Return areas by task, epochs with clipping, learning rate and method."""
    found: dict[str, dict[str, dict[str, dict[str, list[float | None]]]]] = {}
    ordered = sorted(rows, key=lambda row: (row["epochs"], str(row["clip_norm"]), row["lr"]))
    for task in dict.fromkeys(row["task"] for row in rows):
        for row in (row for row in ordered if row["task"] == task):
            clipped = (
                f"clipped at {row['clip_norm']}" if row["clip_norm"] != "none" else "unclipped"
            )
            column = found.setdefault(task, {}).setdefault(f"{row['epochs']} epochs, {clipped}", {})
            group = column.setdefault(f"{row['lr']:g}", {VS: [], LCT: []})
            group[row["method"]].append(row["auc"])
    return found


def condition_table(rows: Rows) -> Rows:
    """Return a row for each training condition: mean, min and std of AUC, and models diverged.

    Statistics are over the settings of a method, averaged over tasks; those of which too many
    models diverged to have one are left out of the average.
    """
    found: Rows = []
    values = {name: sorted({row[name] for row in rows}, key=_numbers_first) for name in CONDITION}
    for condition in product(*values.values()):
        given = dict(zip(CONDITION, condition, strict=True))
        own = [row for row in rows if all(row[name] == given[name] for name in CONDITION)]
        if own:
            found.append({**given, **_statistics(own)})
    return found


def _numbers_first(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value


def together_table(rows: Rows) -> Rows:
    """Return a row for each task, its statistics over settings and conditions together."""
    tasks = dict.fromkeys(row["task"] for row in rows)
    by_task = [
        {"task": task, **_statistics([row for row in rows if row["task"] == task])}
        for task in tasks
    ]
    return [*by_task, {"task": "average", **_averages(by_task)}]


def _averages(rows: Rows) -> dict[str, float]:
    columns = [name for name in rows[0] if name != "task"]
    total = {name: [row[name] for row in rows] for name in columns}
    return {
        name: sum(own) if name.endswith("diverged") else _average(own)
        for name, own in total.items()
    }


def _statistics(rows: Rows) -> dict[str, Any]:
    """Return each statistic of both methods, and how many models diverged in all."""
    tasks = dict.fromkeys(row["task"] for row in rows)
    areas = {
        (task, method): [
            row["auc"]
            for row in rows
            if row["task"] == task and row["method"] == method and row["auc"] is not None
        ]
        for task, method in product(tasks, (VS, LCT))
    }
    found: dict[str, Any] = {
        f"{method} {name}": _average(
            [reduce(own) for task in tasks if (own := areas[task, method])]
        )
        for (name, reduce), method in product(STATISTICS.items(), (VS, LCT))
    }
    for method in (VS, LCT):
        lost = sum(row["auc"] is None for row in rows if row["method"] == method)
        found[f"{method} diverged"] = lost
    return found


def _average(values: list[float]) -> float:
    there = [value for value in values if value == value]
    return float(np.mean(there)) if there else float("nan")


def verdict(conditions: Rows, together: Rows, tasks: int) -> str:
    """Say in how many conditions LCT is ahead, and whether its spread is smaller altogether."""
    ahead = {
        name: sum(
            row[f"{LCT} {name}"] < row[f"{VS} {name}"]
            if name == "std"
            else row[f"{LCT} {name}"] > row[f"{VS} {name}"]
            for row in conditions
        )
        for name in STATISTICS
    }
    last = together[-1]
    smaller = last[f"{LCT} std"] < last[f"{VS} std"]
    start = "LCT is the more robust here" if smaller else "LCT is not the more robust here"
    return (
        f"{start}: with everything varied the std of AUC is {last[f'{VS} std']:.4f} for VS and "
        f"{last[f'{LCT} std']:.4f} for LCT, the minimum {last[f'{VS} min']:.4f} and "
        f"{last[f'{LCT} min']:.4f} (averages over {tasks} pairs, without the "
        f"{last[f'{VS} diverged']} and {last[f'{LCT} diverged']} models that diverged, which "
        f"flatters whichever has more); of {len(conditions)} training conditions LCT "
        f"has the higher mean in {ahead['mean']}, the higher minimum in {ahead['min']} and the "
        f"smaller std in {ahead['std']}."
    )


ROBUSTNESS = Experiment(
    name=NAME,
    shows="AUC of VS and LCT when learning rate, epochs and clipping vary as well as the settings",
    published="",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
