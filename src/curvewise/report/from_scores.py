"""Pages of what `train` did not make: a saved estimator on a table, and a table with scores."""

import json
from pathlib import Path

from curvewise.models.evaluate import LabelledScores
from curvewise.report.page_input import CopyTexts, PageInput
from curvewise.report.page_scores import scores_input

ESTIMATOR = """import curvewise as cw
import pandas as pd

clf = cw.load({file})
new = pd.read_csv("new.csv")  # the columns that it was fitted on
print(clf.rare_log_odds(new) >= {{threshold}})
"""


def estimator_input(scored: LabelledScores, file: Path, command: str = "") -> PageInput:
    """Return the page of an estimator on all rows of a table, which it must not have seen."""
    (name,) = scored.scores
    return scores_input(
        scored.y,
        scored.scores,
        unit="log-odds",
        title=f"table:{scored.table.name}",
        class_names=scored.class_names,
        notes=(
            f"Measured on all {len(scored.y):,} rows of {scored.table.name}: if the model was "
            "fitted on some of them, the numbers are too good.",
        ),
        copy=CopyTexts("", ESTIMATOR.format(file=json.dumps(str(file)))),
        provenance=[
            ("command", command),
            ("model", f"{file}: {name}"),
            ("measured on", f"all rows of {scored.table}"),
        ],
    )


def table_input(scored: LabelledScores, command: str = "") -> PageInput:
    """Return the page of a table that has labels and scores of one method or more."""
    return scores_input(
        scored.y,
        scored.scores,
        title=scored.table.name,
        class_names=scored.class_names,
        provenance=[("command", command), ("scores", str(scored.table))],
    )
