"""Scores as a page: those of any tool (`write_report`), of a table, of a saved estimator."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import InputError, require, require_choice
from curvewise.base.machine import VERSION
from curvewise.models.evaluate import LabelledScores
from curvewise.report.page import write_page
from curvewise.report.page_input import UNITS, CopyTexts, OwnPoint, Page, Unit, page_models
from curvewise.roc.curve import check_scored
from curvewise.roc.operating import OperatingPoint

PYTHON = """import curvewise as cw

# y: labels 0 and 1; score: what {method} says of the same samples
print(cw.operating_point(y, score, {threshold}, prevalence={prevalence}))
"""
ESTIMATOR = """import curvewise as cw
import pandas as pd

clf = cw.load({file})
new = pd.read_csv("new.csv")  # the columns that it was fitted on
print(clf.rare_log_odds(new) >= {{threshold}})
"""


def write_report(
    path: str | Path,
    y: ArrayLike,
    scores: Mapping[str, ArrayLike] | ArrayLike,
    *,
    unit: Unit | None = None,
    title: str = "scores",
    class_names: tuple[str, str] = ("negative", "positive"),
    point: OperatingPoint | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write scores as the interactive page of `curvewise report`, whatever gave them.

    Parameters
    ----------
    y
        Labels (n,), 1 for the class to be found.
    scores
        Scores (n,), higher for class 1, or several of them by the name of their method. They
        should be of samples that no model was trained on.
    unit
        What the scores are: "probability", "log-odds" (as `decision_function` has them) or
        "score", which says nothing but the order. Left out, it is "probability" if all lie in
        [0, 1], else "score".
    point
        An operating point that was chosen beforehand, of the first method; the page begins at it.
    notes
        Sentences to be shown below the answer.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(file, [0, 0, 1, 1], {"forest": [0.1, 0.6, 0.4, 0.9]}).name
    'report.html'
    """
    written_by = f"curvewise.write_report {VERSION}, {date.today()}"
    page = scores_page(
        y,
        scores,
        unit=unit,
        title=title,
        class_names=class_names,
        point=point,
        notes=notes,
        provenance=[("written by", written_by)],
    )
    return write_page(page, Path(path))


def scores_page(
    y: ArrayLike,
    scores: Mapping[str, ArrayLike] | ArrayLike,
    *,
    unit: Unit | None = None,
    title: str = "scores",
    class_names: tuple[str, str] = ("negative", "positive"),
    point: OperatingPoint | None = None,
    notes: Sequence[str] = (),
    copy: CopyTexts | None = None,
    provenance: Sequence[tuple[str, str]] = (),
) -> Page:
    """Return what the page of `write_report` is made of."""
    by_name: Mapping[str, Any] = scores if isinstance(scores, Mapping) else {"model": scores}
    require(by_name, "a report needs scores of one method or more, got none")
    checked = {str(name): check_scored(y, values) for name, values in by_name.items()}
    within = all(((each.score >= 0) & (each.score <= 1)).all() for each in checked.values())
    unit = unit or ("probability" if within else "score")
    require_choice("unit", unit, UNITS)
    require(unit != "probability" or within, "probabilities must lie in [0, 1], got others")
    labels = next(iter(checked.values())).positive.astype(np.int64)
    return Page(
        task=title,
        class_names=class_names,
        models=page_models(
            {"method": name, "y": labels, "score": np.asarray(each.score), "fill": {"method": name}}
            for name, each in checked.items()
        ),
        unit=unit,
        own_point=None if point is None else _own_point(point),
        chosen=None if point is None else 0,
        reduction="",
        notes=tuple(notes),
        copy=copy or CopyTexts("", PYTHON),
        provenance=provenance,
    )


def _own_point(point: OperatingPoint) -> OwnPoint:
    if point.tau is not None:
        raise InputError(f"the point must be of the scores given, got one at tau = {point.tau:g}")
    text = f"{point.threshold:.6g}"  # "-inf" calls all positive
    rule = point.note.rstrip(".") or "chosen beforehand"
    return OwnPoint(0, point.threshold, text, rule, subject="The operating point")


def estimator_page(scored: LabelledScores, file: Path, command: str = "") -> Page:
    """Return the page of an estimator on all rows of a table, which it must not have seen."""
    (name,) = scored.scores
    return scores_page(
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


def table_page(scored: LabelledScores, command: str = "") -> Page:
    """Return the page of a table that has labels and scores of one method or more."""
    return scores_page(
        scored.y,
        scored.scores,
        title=scored.table.name,
        class_names=scored.class_names,
        provenance=[("command", command), ("scores", str(scored.table))],
    )
