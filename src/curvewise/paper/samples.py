"""The table of sample counts: what is there, what the paper prints, what the rule gives."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.data.imbalance import subsample_to_beta
from curvewise.data.registry import load_task
from curvewise.data.task import Task
from curvewise.paper.experiment import Data, Experiment, Outcome, Reading, Rows
from curvewise.paper.listing import source_missing
from curvewise.paper.profiles import Profile, both

NAME = "table-samples"
SEED = 0
RULE = "floor(majority / beta), complete data"


@dataclass(frozen=True)
class Published:
    """A line of the paper's table.

    `minority` has the training samples of class 1 by beta; `whole` is how many of them there are.
    """

    title: str
    task: str
    majority: int
    minority: dict[int, int]
    test: tuple[int, int]
    whole: int


PUBLISHED = (
    Published(
        "CIFAR-10 pair", "cifar10:cat/dog", 5_000, {10: 500, 100: 50, 200: 25}, (1_000, 1_000),
        5_000,
    ),
    Published(
        "Household", "cifar100:household", 2_500, {10: 250, 100: 25, 200: 13}, (500, 500), 2_500
    ),
    Published(
        "Dogs vs. Cats", "dogs-vs-cats", 11_500, {10: 1_500, 100: 150, 200: 75}, (1_000, 1_000),
        11_500,
    ),
    # Its own imbalance, which the paper calls 12, stands in the column of 10.
    Published(
        "Melanoma", "melanoma", 41_051, {12: 4_071, 100: 410, 200: 205}, (12_300, 1_035), 4_071
    ),
)  # fmt: skip
BY_TASK = {line.task: line for line in PUBLISHED}


def _collect(reading: Reading) -> Data:
    rows: Rows = []
    sources: Rows = []
    for line in PUBLISHED:
        task, state = _read(line.task, reading)
        for part, beta in _parts(line):
            y = None
            if task is not None:
                y = task.y_test if beta is None else thinned(task.y_train, beta)
            rows.append(_row(line.task, part, beta, y))
        notes = [] if task is None else task.details.get("deviations", [])
        sources.append({"task": line.task, "state": state, "notes": "; ".join(notes) or None})
    return {"": rows, "sources": sources}


def _read(name: str, reading: Reading) -> tuple[Task | None, str]:
    """Return a task, None if it cannot be had, and which of these it is."""
    # The settings of the sweeps, so that images which those have decoded are not read again.
    settings = reading.profile.spec(NAME, [name], both()).data
    try:
        task = load_task(
            name,
            seed=SEED,
            data_dir=reading.problems.data_dir,
            cache_dir=reading.problems.cache_dir,
            progress=reading.problems.progress,
            **settings.model_dump(exclude_none=True),
        )
    except InputError:  # the other lines can still be counted; the message has folders' names
        source = name.partition(":")[0]
        if source_missing(source, reading.problems.data_dir):
            return None, "not there"
        return None, f"not usable: `curvewise data check {name}` says why"
    return task, "counted"


def _parts(line: Published) -> list[tuple[str, int | None]]:
    return [*(("train", beta) for beta in line.minority), ("test", None)]


def _row(task: str, part: str, beta: int | None, y: NDArray[np.int64] | None) -> dict[str, object]:
    majority, minority = (None, None) if y is None else np.bincount(y, minlength=2).tolist()
    return {"task": task, "part": part, "beta": beta, "majority": majority, "minority": minority}


def thinned(y: NDArray[np.int64], beta: float) -> NDArray[np.int64]:
    """Return the labels that a training part has at beta."""
    return y[subsample_to_beta(y, beta, seed=SEED, minority=1)]


def _present(data: Data, profile: Profile) -> Outcome:
    table = [_compared(row) for row in data[""]]
    sources = [
        {
            "data": BY_TASK[row["task"]].title,
            "state": row["state"],
            "as its files are": row["notes"],
        }
        for row in data["sources"]
    ]
    return Outcome(
        verdict=_verdict(table),
        tables={
            "Samples of majority and minority, ours and published": table,
            "What was counted": sources,
        },
    )


def _compared(row: dict[str, int]) -> dict[str, object]:
    """Return a counted row beside the published one and what the rule gives for complete data."""
    line, beta = BY_TASK[str(row["task"])], row["beta"]
    rule: int | None = None
    if beta is None:
        majority, minority = line.test
    else:
        majority, minority = line.majority, line.minority[beta]
        rule = int(thinned(np.repeat([0, 1], [line.majority, line.whole]), beta).sum())
    ours = (row["majority"], row["minority"])
    return {
        "data": line.title,
        "part": "test" if beta is None else f"train, beta = {beta}",
        "majority": ours[0],
        "minority": ours[1],
        "majority (published)": majority,
        "minority (published)": minority,
        RULE: rule,
        "agrees": None if ours[0] is None else "yes" if ours == (majority, minority) else "no",
    }


def _verdict(table: Rows) -> str:
    """Say which counts agree, and why others do not."""
    by_title: dict[str, Rows] = {}
    for row in table:
        by_title.setdefault(row["data"], []).append(row)
    counted = [row for row in table if row["agrees"] is not None]
    same = sum(row["agrees"] == "yes" for row in counted)
    groups: dict[str, Callable[[Rows], bool]] = {
        "all lines of {} do": lambda rows: all(row["agrees"] == "yes" for row in rows),
        "of {} there are other samples than the paper's here (second table)": _other_samples,
        "{} cannot be counted here": lambda rows: all(row["agrees"] is None for row in rows),
    }
    parts = [f"{same} of {len(counted)} counted lines agree with the published table"]
    for text, belongs in groups.items():
        if titles := [title for title, rows in by_title.items() if belongs(rows)]:
            parts.append(text.format(" and ".join(titles)))
    ruled = [row for row in table if row[RULE] is not None]
    apart = [row for row in ruled if row[RULE] != row["minority (published)"]]
    listed = ", ".join(
        f"{row['data']} at {row['part'].rpartition(' ')[2]}: "
        f"{row['minority (published)']:,} published, {row[RULE]:,} by the rule"
        for row in apart
    )
    dogs, melanoma = BY_TASK["dogs-vs-cats"], BY_TASK["melanoma"]
    return (
        f"{'; '.join(parts)}. The published table departs from floor(majority / beta) in "
        f"{len(apart)} of {len(ruled)} places ({listed}), for Dogs vs. Cats has what "
        f"{10 * dogs.minority[10]:,} of the majority would give, and Melanoma's {melanoma.whole:,} "
        f"are all there are, an imbalance of {melanoma.majority / melanoma.whole:.2f}, not 12."
    )


def _other_samples(rows: Rows) -> bool:
    """Whether a data set's own counts differ, not only those that beta leaves of the minority."""
    return any(
        row[name] not in (None, row[f"{name} (published)"])
        for row in rows
        for name in (("majority",) if row[RULE] is not None else ("majority", "minority"))
    )


SAMPLES = Experiment(
    name=NAME,
    shows="samples of majority and minority by data set and beta",
    published="5,000, 2,500, 11,500 and 41,051 of the majority; see the table",
    collect=_collect,
    present=_present,
)
