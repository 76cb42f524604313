"""`frame`: the runs of a store as one tidy table, one row a run; `export` writes it to a file.

Settings and metrics have columns of their own names (`omega`, `auc`); parts of the recipe, network,
features, lambda of evaluation and versions have theirs (`recipe.rho`).
"""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curvewise.base.errors import InputError, require, require_choice
from curvewise.base.files import require_target, whole_file
from curvewise.losses.family import LossFamily
from curvewise.losses.landscape import calibrated_log_odds
from curvewise.losses.registry import METHODS, evaluation_lambda, make_objective
from curvewise.sweep.plan import PlannedRun
from curvewise.sweep.store import Store, StoreError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

ENDINGS = (".csv", ".parquet")
OUTCOME = ("state", "attempts", "seconds", "finished", "machine", "message")
RECORD = ("identity", "fingerprint", *OUTCOME)
RUN = ("task", "beta", "seed", "label", "method", "number", "validation")
NUMBERS = dict.fromkeys(("attempts", "seed", "number"), "int64")
NUMBERS |= dict.fromkeys(("seconds", "beta", "validation"), "float64")
PLAIN = ("", "settings", "metrics")  # groups whose columns have plain names, if nothing else has
GROUPS = (*PLAIN, "recipe", "network", "features", "evaluate", "versions")

Key = tuple[str, str]  # group and name


def frame(store: Store, sweep: int | str | None = None) -> "pd.DataFrame":
    """Return all runs, or those of a sweep in its order, one row each.

    The columns are what is known of every run (identity, fingerprint, state, attempts, seconds,
    finished, machine, message, task, beta, seed, label, method, number, validation), then the
    settings and metrics, by their names alone where only one group has them, then recipe.*,
    network.*, features.*, evaluate.* and versions.*. Numbers are float64 with nan for none, whole
    ones int64 (Int64 where some are missing); texts are objects with None for none. Lists are JSON,
    and a column that holds numbers in one run and densities in another is text.

    >>> import tempfile
    >>> with Store(Path(tempfile.mkdtemp()) / "runs.db") as store:
    ...     frame(store).shape
    (0, 15)
    """
    import pandas as pd  # heavy, and the commands that train need none

    columns: dict[Key, list[Any]] = {("", name): [] for name in (*RECORD, *RUN)}
    n = 0
    for n, record in enumerate(store.runs(sweep), 1):
        known = vars(record.run) | vars(record)
        values: dict[Key, Any] = {("", name): known[name] for name in (*RECORD, *RUN)}
        for group in GROUPS[1:]:
            values |= {(group, name): value for name, value in (known[group] or {}).items()}
        for key, value in values.items():
            column = columns.setdefault(key, [])
            column += [None] * (n - 1 - len(column))  # of runs without it
            column.append(json.dumps(value) if isinstance(value, list) else value)
    shared = Counter(name for group, name in columns if group in PLAIN)
    series = {}
    for group, name in sorted(columns, key=lambda key: GROUPS.index(key[0])):
        column = columns[group, name]
        column += [None] * (n - len(column))
        dtype = NUMBERS.get(name, "object") if group == "" else _dtype(column)
        if dtype == "object":
            column = [None if value is None else str(value) for value in column]
        plain = group == "" or (group in PLAIN and shared[name] == 1)
        series[name if plain else f"{group}.{name}"] = pd.Series(column, dtype=dtype)
    return pd.DataFrame(series)


def export(
    store: Store, path: str | Path, sweep: int | str | None = None, *, overwrite: bool = False
) -> int:
    """Write the `frame` of all runs, or those of a sweep, and return their number.

    The ending of the path decides: .csv, or .parquet, which needs pyarrow. The file appears when
    it is complete; one that exists is kept unless `overwrite`.
    """
    target = Path(path)
    ending = require_choice("the ending of the exported file", target.suffix.lower(), ENDINGS)
    require(target.parent.is_dir(), f"the folder of the exported file must exist, got {target}")
    require_target("name", target, overwrite=overwrite)
    runs = frame(store, sweep)
    require(len(runs), "an export must have one run or more, the store holds none")
    try:
        with whole_file(target) as unfinished:
            if ending == ".csv":  # floats are written so that reading gives the same number
                runs.to_csv(unfinished, index=False, lineterminator="\n")
            else:
                runs.to_parquet(unfinished, engine="pyarrow", index=False)
            require_target("name", target, overwrite=overwrite)
    except ImportError:
        raise InputError(
            f'{target.name} needs pyarrow to be written: pip install "curvewise[parquet]", '
            "or choose .csv"
        ) from None
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from error
    return len(runs)


def models(store: Store, sweep: int | str, *, scores: bool = True) -> "pd.DataFrame":
    """Return the runs of a sweep that ended, as frames of models are (`stats.areas`).

    `method` is the name that people see; a model that diverged has nan for `auc`. With `scores`
    there are its labels `y` (n,) and `score` (n,), nan if it diverged, `n_train` and `n_test`, too.
    """
    runs = frame(store, sweep).drop(columns="method").rename(columns={"label": "method"})
    runs = runs[runs["state"].isin(("done", "diverged"))].reset_index(drop=True)
    if not scores:
        return runs
    data = runs["fingerprint"]
    runs["y"] = data.map(cache(store.labels))
    runs["n_train"] = data.map(cache(lambda key: sum(store.problem(key).class_counts)))
    runs["n_test"] = runs["y"].map(len)
    return runs.assign(score=runs.loc[runs["state"] == "done", "identity"].map(store.scores))


def corrected_scores(
    run: PlannedRun, class_counts: Sequence[int], score: "NDArray[np.float32]", *, prior: float
) -> "NDArray[Any] | None":
    """Return calibrated log-odds (n,) for a share of positives, from a run's scores alone.

    Scores are z1 - z0, which is all that the correction needs if gamma is 0. None where there is
    none, or a tau was drawn and never told the network, which has no value to correct by.
    """
    import torch

    method = METHODS[run.method]
    objective = make_objective(run.method, run.settings, class_counts)
    if not isinstance(objective, LossFamily) or (method.draws and not method.film):
        return None
    at = objective.hyperparameters(evaluation_lambda(objective, run.evaluate)[0])
    values = {name: float(value) for name, value in at.items()}
    if values["gamma"] != 0 or not 0 < values["omega"] < 1:
        return None
    logits = torch.stack([torch.zeros(len(score)), torch.from_numpy(score)], dim=1)
    return np.asarray(calibrated_log_odds(logits, class_counts=class_counts, prior=prior, **values))


def _dtype(column: list[Any]) -> str:
    """Return the type that holds all: tau is a number in one run and a density in another."""
    types = {type(value) for value in column} - {type(None)}
    complete = None not in column
    if types == {bool}:
        return "bool" if complete else "boolean"
    if types == {int}:
        return "int64" if complete else "Int64"
    return "float64" if types <= {int, float} else "object"
