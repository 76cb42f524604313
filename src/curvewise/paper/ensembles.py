"""Ensembles over the family: AUC against members and time, beside the best model on validation."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from curvewise.figures.controls import plot_growth
from curvewise.paper.captions import caption_of, title_of
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.profiles import Profile, both
from curvewise.roc.interval import auc_interval, compare_auc
from curvewise.roc.metrics import ensemble_score
from curvewise.stats.ensemble_growth import ensemble_growth
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Record

NAME = "fig-ensemble"
TASKS = {
    f"{NAME}-fashion": ["fashion-mnist:0/6", "fashion-mnist:2/4"],
    f"{NAME}-cifar": ["cifar10:cat/dog"],
}
VALIDATION = 0.25  # of the training data, kept to choose a model by
SURE = 0.05


@dataclass(frozen=True)
class TrainedModels:
    """The finished models of a method on a task: records, test labels (n,) and scores (K, n)."""

    task: str
    label: str
    records: list[Record]
    y: NDArray[np.int64]
    scores: NDArray[np.float32]
    validation_positives: int

    @property
    def areas(self) -> list[float]:
        """AUC of each on the test part."""
        return [record.auc for record in self.records]

    @property
    def chosen(self) -> int:
        """Which has the highest AUC on the validation part."""
        return int(np.argmax([record.metrics["validation_auc"] for record in self.records]))


def trained_models(reading: Reading, sweep: str) -> list[TrainedModels]:
    """Return the finished models of a sweep that kept a validation part, by task and method."""
    assert reading.store is not None
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in reading.records(sweep):
        groups.setdefault((record.run.task, record.run.label), []).append(record)
    return [
        TrainedModels(
            task=task,
            label=label,
            records=records,
            y=reading.store.labels(records[0].fingerprint),
            scores=reading.store.score_matrix([record.identity for record in records]),
            validation_positives=int(
                reading.store.labels(records[0].fingerprint, "validation").sum()
            ),
        )
        for (task, label), records in groups.items()
    ]


def _sweeps(profile: Profile) -> list[Spec]:
    return [
        profile.spec(name, tasks, both(), validation=VALIDATION) for name, tasks in TASKS.items()
    ]


def _collect(reading: Reading) -> Data:
    growth: Rows = []
    compared: Rows = []
    for models in (models for sweep in TASKS for models in trained_models(reading, sweep)):
        place = {"task": models.task, "method": models.label}
        validation = [record.metrics["validation_auc"] for record in models.records]
        seconds = [record.seconds for record in models.records]
        steps = ensemble_growth(models.y, models.scores, validation, seconds)
        growth += [{**place, **asdict(step)} for step in steps]
        compared.append({**place, **_compared(models)})
    return {"growth": growth, "comparison": compared}


def _compared(models: TrainedModels) -> dict[str, float]:
    """Return the ensemble of all models with its interval, and the test against the chosen one."""
    together = ensemble_score(models.scores)
    found = auc_interval(models.y, together)
    test = compare_auc(models.y, together, models.scores[models.chosen])
    return {
        "models": len(models.records),
        "validation_positives": models.validation_positives,
        "mean": float(np.mean(models.areas)),
        "chosen": models.areas[models.chosen],
        "ensemble": found.auc,
        "low": found.low,
        "high": found.high,
        "oracle": max(models.areas),
        "difference": test.difference,
        "p": test.p,
    }


def _present(data: Data, profile: Profile) -> Outcome:
    curves = growth_curves(data["growth"])
    table = [_shown(row) for row in data["comparison"]]
    title = (
        "AUC of the first models of 20 random orders: mean, and range of ensembles (shaded), "
        f"beta = 100\n({caption_of(profile, curves)})"
    )
    return Outcome(
        verdict=verdict(data["comparison"], curves),
        tables={
            "All models together, and the one chosen on validation (p: DeLong)": table,
            "Means over orders": [
                {"task": task, "method": method, **line}
                for task, methods in curves.items()
                for method, lines in methods.items()
                for line in lines
            ],
        },
        figures={
            NAME: plot_growth({title_of(task): own for task, own in curves.items()}, title=title)
        },
    )


def _shown(row: dict[str, float]) -> dict[str, float]:
    names = {
        "validation_positives": "positives in validation",
        "mean": "mean of single models",
        "chosen": "best on validation",
        "oracle": "best on test (cheating)",
        "difference": "ensemble less best on validation",
    }
    return {names.get(name, name): value for name, value in row.items()}


def growth_curves(rows: Rows) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Return means over orders by task, method and number of members, and the ensembles' range."""
    groups: dict[str, dict[str, dict[int, Rows]]] = {}
    for row in rows:
        methods = groups.setdefault(row["task"], {})
        methods.setdefault(row["method"], {}).setdefault(row["members"], []).append(row)
    return {
        task: {
            method: [_line(members, own) for members, own in sorted(sizes.items())]
            for method, sizes in methods.items()
        }
        for task, methods in groups.items()
    }


def _line(members: int, rows: Rows) -> dict[str, float]:
    means = {
        name: float(np.mean([row[name] for row in rows]))
        for name in ("seconds", "ensemble", "chosen", "oracle")
    }
    ensembles = [row["ensemble"] for row in rows]
    return {"members": members, **means, "low": min(ensembles), "high": max(ensembles)}


def verdict(compared: Rows, curves: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    """Say how often the ensemble beats the chosen model, and how many members that takes."""
    ahead = [row for row in compared if row["difference"] > 0]
    sure = [row for row in ahead if row["p"] < SURE]
    cheated = [row for row in compared if row["ensemble"] >= row["oracle"]]
    told = ", ".join(
        f"{row['task']} {row['method']} {row['difference']:+.4f}"
        + _members_enough(curves[row["task"]][row["method"]], row["chosen"])
        for row in compared
    )
    return (
        f"The ensemble of all models is ahead of the one chosen on validation in {len(ahead)} of "
        f"{len(compared)} cases (DeLong p < 0.05 in {len(sure)}), and not below the best on the "
        f"test set in {len(cheated)}: {told}."
    )


def _members_enough(lines: list[dict[str, float]], wanted: float) -> str:
    """Tell the fewest members whose mean ensemble is above an AUC."""
    enough = [line["members"] for line in lines if line["ensemble"] > wanted]
    return f" (from {min(enough)} members)" if enough else ""


ENSEMBLES = Experiment(
    name=NAME,
    shows="AUC against number of members and training time: ensembles of VS and of LCT models, and "
    "the best single model chosen on validation",
    published="",
    sweeps=_sweeps,
    collect=_collect,
    present=_present,
)
