"""Pages of what `train` did not make: a saved estimator on a table, and a table with scores."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from curvewise.base.errors import InputError, did_you_mean
from curvewise.data.tables import binary_labels, read_table
from curvewise.estimator.classifier import FamilyClassifier
from curvewise.models.evaluate import table_file
from curvewise.report.page_input import CopyTexts, PageInput
from curvewise.report.page_scores import scores_input
from curvewise.tables.reading import column_levels

SCORES = ("score", "probability")  # columns that are scores unless others are named
ESTIMATOR = """import curvewise as cw
import pandas as pd

clf = cw.load({file})
new = pd.read_csv("new.csv")  # the columns that it was fitted on
print(clf.rare_log_odds(new) >= {{threshold}})
"""


def estimator_input(
    estimator: FamilyClassifier,
    file: Path,
    source: str | None,
    *,
    target: str | None,
    data_dir: Path | None = None,
    command: str = "",
) -> PageInput:
    """Return the page of an estimator on all rows of a table, which it must not have seen."""
    kind, _, name = (source or "").partition(":")
    if kind != "table":
        raise InputError(
            f"the page of an estimator needs --data table:FILE with rows that it has not seen, and "
            f"--target, the column with their label, got {source or 'none'}; of other data, "
            "curvewise.write_report makes one in Python"
        )
    if len(estimator.classes_) != 2:
        raise InputError(f"a report needs two classes, got {len(estimator.classes_)}")
    table = table_file(name, data_dir)
    rare = str(estimator.positive_class_)
    frame, y, names = _labelled(table, target, rare)
    return scores_input(
        y,
        {type(estimator).__name__: estimator.rare_log_odds(frame)},
        unit="log-odds",
        title=f"table:{table.name}",
        class_names=names,
        notes=(
            f"Measured on all {len(y):,} rows of {table.name}: if the model was fitted on some of "
            "them, the numbers are too good.",
        ),
        copy=CopyTexts("", ESTIMATOR.format(file=json.dumps(str(file)))),
        provenance=[
            ("command", command),
            ("model", f"{file}: {type(estimator).__name__}"),
            ("measured on", f"all rows of {table}"),
        ],
    )


def table_input(
    table: Path,
    *,
    target: str | None,
    positive: str | None,
    columns: Sequence[str],
    command: str = "",
) -> PageInput:
    """Return the page of a table that has labels and scores of one method or more."""
    frame, y, names = _labelled(table, target, positive)
    chosen = list(columns) or [name for name in SCORES if name in frame]
    if not chosen:
        raise InputError(
            f"--score must name a column of scores of {table.name}, got none and there is no "
            f"{' or '.join(SCORES)}"
        )
    scores = {}
    for name in chosen:
        if name not in frame:
            near = did_you_mean(name, frame.columns)
            raise InputError(f"--score must be a column of {table.name}, got {name!r}{near}")
        scores[name] = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
        if not np.isfinite(scores[name]).all():
            raise InputError(f"{name!r} of {table.name} must hold numbers in every row")
    return scores_input(
        y,
        scores,
        title=table.name,
        class_names=names,
        provenance=[("command", command), ("scores", str(table))],
    )


def _labelled(
    table: Path, target: str | None, positive: str | None
) -> tuple[pd.DataFrame, Any, tuple[str, str]]:
    """Return the rows that have a label without it, labels (n,) and class names."""
    frame = read_table(table)
    if target is None or target not in frame.columns:
        near = "" if target is None else did_you_mean(target, frame.columns)
        got = "none" if target is None else repr(target)
        raise InputError(
            f"--target must be the column with the label of {table.name}, got {got}{near}"
        )
    frame = frame[column_levels(frame[target])[0] >= 0]
    y, names = binary_labels(frame[target], positive, f"target {target!r}")
    return frame.drop(columns=target), y, names
