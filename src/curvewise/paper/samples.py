"""The table of sample counts: what is there, what the paper prints, what the rule gives."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.data.imbalance import subsample_to_beta
from curvewise.data.registry import load_task, source_missing
from curvewise.paper.experiment import Claim, Data, Experiment, Measured, Reading
from curvewise.paper.profiles import both, source_of

NAME = "table-samples"
SEED = 0
RULE = "floor(majority / beta), complete data"
COUNTS = ["majority", "minority"]
PRINTED = [f"{name} (published)" for name in COUNTS]


class Published(NamedTuple):
    """A line of the paper's table.

    `minority` has the training samples of class 1 by beta; `whole` is how many of them there are.
    """

    title: str
    majority: int
    minority: dict[int, int]
    test: tuple[int, int]
    whole: int


PUBLISHED = {
    "cifar10:cat/dog": Published(
        "CIFAR-10 pair", 5_000, {10: 500, 100: 50, 200: 25}, (1_000, 1_000), 5_000
    ),
    "cifar100:household": Published(
        "Household", 2_500, {10: 250, 100: 25, 200: 13}, (500, 500), 2_500
    ),
    "dogs-vs-cats": Published(
        "Dogs vs. Cats", 11_500, {10: 1_500, 100: 150, 200: 75}, (1_000, 1_000), 11_500
    ),
    # Its own imbalance, which the paper calls 12, stands in the column of 10.
    "melanoma": Published(
        "Melanoma", 41_051, {12: 4_071, 100: 410, 200: 205}, (12_300, 1_035), 4_071
    ),
}


def _collect(reading: Reading) -> Data:
    rows, sources = [], []
    for name, line in PUBLISHED.items():
        counts, state, notes = _counted(name, line, reading)
        sources.append({"task": name, "state": state, "notes": "; ".join(notes) or None})
        for beta in (*line.minority, None):
            part = {"task": name, "part": "test" if beta is None else "train", "beta": beta}
            found = dict(zip(COUNTS, counts.get(beta, (None, None)), strict=True))
            rows.append(part | found)
    return {"": pd.DataFrame(rows), "sources": pd.DataFrame(sources)}


def _counted(name: str, line: Published, reading: Reading) -> tuple[dict[Any, Any], str, list[str]]:
    """Return the counts by beta (None: for testing), whether they can be had, and deviations."""
    # The settings of the sweeps, so that images which those have decoded are not read again.
    settings = reading.profile.spec(NAME, [name], both()).data.model_dump(exclude_none=True)
    asked = reading.problems
    places: Any = {"data_dir": asked.data_dir, "cache_dir": asked.cache_dir, **settings}
    try:
        task = load_task(name, seed=SEED, progress=asked.progress, **places)
    except InputError:  # the other lines can still be counted; the message has folders' names
        missing = source_missing(source_of(name), asked.data_dir)
        why = "not there" if missing else f"not usable: `curvewise data check {name}` says why"
        return {}, why, []
    labels = {beta: thinned(task.y_train, beta) for beta in line.minority} | {None: task.y_test}
    counts = {beta: np.bincount(y, minlength=2).tolist() for beta, y in labels.items()}
    return counts, "counted", task.details.get("deviations", [])


def thinned(y: NDArray[np.int64], beta: float) -> NDArray[np.int64]:
    """Return the labels that a training part has at beta."""
    return y[subsample_to_beta(y, beta, seed=SEED, minority=1)]


def sample_table(data: Data) -> pd.DataFrame:
    """Return what was counted beside what is published and what the rule gives."""
    rows = []
    for task, _, beta, *counts in data[""].itertuples(index=False):
        line, part, rule = PUBLISHED[task], "test", None
        published = line.test
        if not np.isnan(beta):
            part, published = f"train, beta = {beta:g}", (line.majority, line.minority[int(beta)])
            rule = int(thinned(np.repeat([0, 1], [line.majority, line.whole]), beta).sum())
        known = not np.isnan(counts[0])
        ours = tuple(map(int, counts)) if known else (None, None)
        row = {"data": line.title, "part": part}
        row |= dict(zip([*COUNTS, *PRINTED], (*ours, *published), strict=True))
        agrees = "yes" if ours == published else "no" if known else None
        rows.append({**row, RULE: rule, "agrees": agrees})
    return pd.DataFrame(rows)


def _same(a: str, b: str, unit: str, data: Data) -> Measured | None:
    """Return on how many of the lines that have a it is b, if there are any."""
    table = sample_table(data).dropna(subset=a)
    if table.empty:
        return None
    count, units = int((table[a] == table.get(b, b)).sum()), len(table)
    return Measured(count / units, better=count, units=units, unit=unit, word="the same")


SAMPLES = Experiment(
    name=NAME,
    question="Are the training and test sets those of the paper?",
    collect=_collect,
    claims={
        "The counts are those of the published table": Claim(
            partial(_same, "agrees", "yes", "lines"), published="the table"
        ),
        "The published minority is floor(majority / beta)": Claim(
            partial(_same, RULE, PRINTED[1], "places")
        ),
    },
    table=sample_table,
    caveats=(
        "CIFAR-100 and Dogs vs. Cats are parts of the published sets here; Melanoma is not there.",
        "Dogs vs. Cats has in print what 15,000 of the majority would give, not 11,500.",
        "Melanoma's 4,071 are all there are: an imbalance of 10.08, not 12.",
    ),
)
