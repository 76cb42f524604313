"""Beyond the paper: AUC as training goes on, networks from raw pixels, until it is flat."""

from typing import Any

import numpy as np

from curvewise.figures.panels import RangeLine, plot_range_panels
from curvewise.paper.areas import SETTINGS
from curvewise.paper.captions import title_of
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.gains import LCT, SHIFTED, VS
from curvewise.paper.profiles import Profile, both
from curvewise.paper.settled import FLAT, VALIDATION
from curvewise.stats.paired import BETTER
from curvewise.sweep.spec import Spec

NAME = "fig-epochs"
# The first two were used to choose recipes, the other four were not.
PAIRS = ("0/6", "2/4", "3/6", "4/6", "5/7", "7/9")
EPOCHS = {"laptop": [5, 10, 20, 40], "paper": [60, 125, 250, 500]}
SHOWN = ("mean", "min", "std")


def _sweeps(profile: Profile) -> list[Spec]:
    epochs = [1, 2] if profile.scale == "tiny" else EPOCHS[profile.name]
    methods = [{**arm, "epochs": epochs} for arm in both()]
    more: dict[str, Any] = {} if profile.name == "paper" else {"features": {}}
    # The cosine of this preset fits any number of epochs; milestones would not.
    recipe = {"preset": "quick", "film_init": "paper"} if profile.name == "paper" else None
    tasks = [f"fashion-mnist:{pair}" for pair in PAIRS]
    return [profile.spec(NAME, tasks, methods, validation=VALIDATION, recipe=recipe, **more)]


def _collect(reading: Reading) -> Data:
    return {
        "": [
            {
                "task": record.run.task,
                "method": record.run.label,
                "epochs": record.run.recipe["epochs"],
                **{name: record.run.settings.get(name) for name in SETTINGS},
                "validation_auc": record.metrics["validation_auc"],
                "auc": record.auc,
            }
            for record in reading.records(NAME)
        ]
    }


def _present(data: Data, profile: Profile) -> Outcome:
    rows = data[""]
    flat, gains = flat_table(rows), gain_table(rows)
    later = [row for row in rows if row["method"] != VS or row["tau"]]
    control = gain_table(later) if any(row["method"] == VS for row in later) else []
    figure = plot_range_panels(
        {title_of(task): _lines(rows, task) for task in dict.fromkeys(r["task"] for r in rows)},
        xlabel="epochs",
        ylabel="AUC on validation",
        title="AUC on validation after so many epochs: mean over settings, bars from the "
        "lowest to the highest, beta = 100",
        caption=profile.caption("fashion-mnist", pixels=True),
        columns=3,
        zero=False,
    )
    return Outcome(
        verdict=verdict(rows, gains, control),
        tables={
            "Mean AUC on validation by epochs, and its change over the last step": flat,
            f"{LCT} less {VS} on the test part, averages over tasks": gains,
            **({SHIFTED: control} if control else {}),
        },
        figures={NAME: figure},
    )


def values_of(rows: Rows, name: str, **given: Any) -> list[float]:
    """Return a column of the rows that have the given values."""
    return [row[name] for row in rows if all(row[key] == value for key, value in given.items())]


def _lines(rows: Rows, task: str) -> dict[str, RangeLine]:
    lines = {}
    for method in (VS, LCT):
        epochs = sorted(set(values_of(rows, "epochs", task=task, method=method)))
        own = [
            values_of(rows, "validation_auc", task=task, method=method, epochs=e) for e in epochs
        ]
        lines[method] = RangeLine(
            x=epochs,
            y=[float(np.mean(areas)) for areas in own],
            low=[min(areas) for areas in own],
            high=[max(areas) for areas in own],
        )
    return lines


def flat_table(rows: Rows) -> Rows:
    """Return a row for each task and method: mean validation AUC by epochs, the last change."""
    table: Rows = []
    for task in dict.fromkeys(row["task"] for row in rows):
        for method, line in _lines(rows, task).items():
            by_epochs = {f"{x:g}": y for x, y in zip(line.x, line.y, strict=True)}
            change = line.y[-1] - line.y[-2] if len(line.y) > 1 else float("nan")
            table.append({"task": task, "method": method, **by_epochs, "change": change})
    return table


def gain_table(rows: Rows) -> Rows:
    """Return a row for each number of epochs: test AUC of both, LCT's gain, tasks it leads on."""
    table: Rows = []
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    for epochs in sorted({row["epochs"] for row in rows}):
        by_task = {
            method: [
                _statistics(values_of(rows, "auc", task=task, method=method, epochs=epochs))
                for task in tasks
            ]
            for method in (VS, LCT)
        }
        row: dict[str, Any] = {"epochs": epochs}
        for name in SHOWN:
            vs, lct = (np.array([own[name] for own in by_task[m]]) for m in (VS, LCT))
            row[f"{name}, {VS}"], row[f"{name}, {LCT}"] = float(vs.mean()), float(lct.mean())
            row[f"{name}, difference"] = float((lct - vs).mean())
            better = int((BETTER[name] * (lct - vs) > 0).sum())
            row[f"{name}: LCT better"] = f"{better} of {len(tasks)}"
        table.append(row)
    return table


def _statistics(areas: list[float]) -> dict[str, float]:
    std = float(np.std(areas, ddof=1)) if len(areas) > 1 else float("nan")
    return {"mean": float(np.mean(areas)), "min": min(areas), "std": std}


def settled(rows: Rows, method: str) -> float | None:
    """Return from how many epochs on no step changes a method's mean validation AUC by 0.005."""
    epochs = sorted({row["epochs"] for row in rows})
    means = [
        float(np.mean(values_of(rows, "validation_auc", method=method, epochs=e))) for e in epochs
    ]
    changes = np.abs(np.diff(means))
    for place, start in enumerate(epochs[:-1]):
        if (changes[place:] <= FLAT).all():
            return float(start)
    return None


def verdict(rows: Rows, gains: Rows, control: Rows) -> str:
    """Say from when validation AUC is flat, and what LCT gains before and after.

    `control` is the gain over VS without its models at tau = 0.
    """
    start = {method: settled(rows, method) for method in (VS, LCT)}
    told = " and ".join(
        f"never for {m}" if e is None else f"from {e:g} epochs on for {m}" for m, e in start.items()
    )
    text = (
        f"Validation AUC is flat (within {FLAT:g} from one number to the next) {told}. LCT less "
        f"VS on the test part, and the tasks it leads on: {_told(gains)}."
    )
    return f"{text} Beside VS at tau > 0 alone: {_told(control)}." if control else text


def _told(gains: Rows) -> str:
    """Return the differences after the fewest and the most epochs in words."""
    return "; ".join(
        f"after {row['epochs']:g} epochs "
        + ", ".join(
            f"{name} {row[f'{name}, difference']:+.4f} ({row[f'{name}: LCT better']})"
            for name in SHOWN
        )
        for row in (gains[0], gains[-1])
    )


EPOCHS_FIGURE = Experiment(
    name=NAME,
    shows="AUC on validation as training goes on, VS and LCT, networks from pixels, six "
    "Fashion-MNIST pairs",
    published="",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
