"""Scores of any tool as a page: `write_report`."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import InputError, require, require_choice
from curvewise.base.machine import VERSION
from curvewise.report.page import write_page
from curvewise.report.page_input import UNITS, CopyTexts, OwnPoint, Page, Unit, page_models
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
    page = scores_page(
        title,
        y,
        scores,
        class_names,
        unit,
        own_point=None if point is None else _own_point(point),
        chosen=None if point is None else 0,
        notes=notes,
        provenance={"written by": f"curvewise.write_report {VERSION}, {date.today()}"},
    )
    return write_page(page, Path(path))


def scores_page(
    title: str,
    y: ArrayLike,
    scores: Mapping[str, ArrayLike] | ArrayLike,
    class_names: tuple[str, str],
    unit: Unit | None = None,
    **about: Any,
) -> Page:
    """Return the page of `write_report`; `about` are fields of `Page`."""
    by_name: Mapping[str, Any] = scores if isinstance(scores, Mapping) else {"model": scores}
    require(by_name, "a report needs scores of one method or more, got none")
    checked = {str(name): check_scored(y, values) for name, values in by_name.items()}
    within = all(((each.score >= 0) & (each.score <= 1)).all() for each in checked.values())
    unit = unit or ("probability" if within else "score")
    require_choice("unit", unit, UNITS)
    require(unit != "probability" or within, "probabilities must lie in [0, 1], got others")
    labels = next(iter(checked.values())).positive.astype(np.int64)
    models = [
        {"method": name, "y": labels, "score": np.asarray(each.score), "fill": {"method": name}}
        for name, each in checked.items()
    ]
    about = {"copy": CopyTexts("", PYTHON), **about}
    return Page(title, class_names, page_models(models), unit=unit, reduction="", **about)


def _own_point(point: OperatingPoint) -> OwnPoint:
    if point.tau is not None:
        raise InputError(f"the point must be of the scores given, got one at tau = {point.tau:g}")
    text = f"{point.threshold:.6g}"  # "-inf" calls all positive
    rule = point.note.rstrip(".") or "chosen beforehand"
    return OwnPoint(0, point.threshold, text, rule, subject="The operating point")
