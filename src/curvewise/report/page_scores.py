"""Scores of any tool as a page: `write_report`."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import InputError, require_choice
from curvewise.base.machine import VERSION
from curvewise.report.page import write_page
from curvewise.report.page_input import UNITS, CopyTexts, OwnPoint, PageInput, PageModel, Unit
from curvewise.roc.curve import check_scored
from curvewise.roc.operating import OperatingPoint

PYTHON = """import curvewise as cw

# y: labels 0 and 1; score: what {method} says of the same samples
print(cw.operating_point(y, score, {threshold}, prevalence={prevalence}))
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
    given = scores_input(
        y, scores, unit=unit, title=title, class_names=class_names, point=point, notes=notes,
        provenance=[("written by", f"curvewise.write_report {VERSION}, {date.today()}")],
    )  # fmt: skip
    return write_page(given, Path(path))


def scores_input(
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
) -> PageInput:
    """Return what the page of `write_report` is made of."""
    by_name: Mapping[str, Any] = scores if isinstance(scores, Mapping) else {"model": scores}
    if not by_name:
        raise InputError("a report needs scores of one method or more, got none")
    checked = {str(name): check_scored(y, own) for name, own in by_name.items()}
    values = {name: np.asarray(own.score) for name, own in checked.items()}
    within = all(((own >= 0) & (own <= 1)).all() for own in values.values())
    unit = unit or ("probability" if within else "score")
    require_choice("unit", unit, UNITS)
    if unit == "probability" and not within:
        raise InputError("probabilities must lie in [0, 1], got others")
    labels = next(iter(checked.values())).positive.astype(np.int64)
    return PageInput(
        task=title,
        class_names=class_names,
        models=[
            PageModel(name, None, 0, labels, own, fill={"method": name})
            for name, own in values.items()
        ],
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
