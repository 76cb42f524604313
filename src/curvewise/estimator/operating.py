"""Operating points of a fitted estimator, on rows it has not seen or, approximately, on its own."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError, require_open
from curvewise.roc.guarantee import first_unsafe
from curvewise.roc.operating import (
    OperatingPoint,
    choose_operating_point,
    operating_point,
    promise_note,
)

Floats = NDArray[np.float64]
APPROXIMATE = (
    "approximate: chosen on out-of-fold scores, which come from other members than those that "
    "score new rows"
)

UNPROMISED = "chosen on these rows, nothing is promised of new data"


def choose_point(
    y: NDArray[Any],
    score: Floats,
    tau: float | None,
    *,
    known: bool,
    confidence: float | None,
    **rules: Any,
) -> OperatingPoint:
    """Choose a threshold on scores of the rare class (y: 1), those at `tau` if given, by one rule.

    `known` says that the rows took part in training, so that nothing is promised.
    """
    if rules.get("cost_ratio") is not None:
        confidence = None
    point = replace(choose_operating_point(y, score, confidence=confidence, **rules), tau=tau)
    if confidence is None and np.isfinite(point.threshold):
        point = replace(point, note=UNPROMISED)
    if not known:
        return point
    # What a promise lacks is worth knowing; that it holds is not said of rows that are known.
    lacks = point.note and np.isinf(point.threshold)
    note = f"{APPROXIMATE}; {point.note}" if lacks else APPROXIMATE
    return replace(point, confidence=None, note=note)


def choose_tau(
    y: NDArray[Any],
    scores_at: Callable[[Floats], Floats],
    tau_range: tuple[float, float],
    *,
    max_fpr: float | None,
    min_tpr: float | None,
    confidence: float,
    prevalence: float | None,
    steps: int = 61,
) -> OperatingPoint:
    """Choose the tau at which "z1 - z0 >= 0" keeps a rate on new data with confidence.

    A larger tau calls more rows positive. So values are tried from the safe end of the range, one
    after the other, and the last before the first failure is taken (`first_unsafe`).
    `scores_at(taus)` gives z1 - z0, (n, len(taus)).
    """
    if (max_fpr is None) == (min_tpr is None):
        raise InputError("a lambda is chosen by max_fpr or by min_tpr, got neither or both")
    taus = np.linspace(*tau_range, steps)
    positive = np.asarray(y) == 1
    if max_fpr is not None:
        what, rate, errors_allowed = "FPR <=", max_fpr, require_open("max_fpr", max_fpr, 0, 1)
    else:
        assert min_tpr is not None
        what, rate, errors_allowed = "TPR >=", min_tpr, 1 - require_open("min_tpr", min_tpr, 0, 1)
        taus = taus[::-1]
    scores = scores_at(taus)
    called = scores >= 0
    wrong = called[~positive] if max_fpr is not None else ~called[positive]
    safe = first_unsafe(wrong.sum(0), len(wrong), errors_allowed, confidence)
    note = promise_note(what, rate, confidence, len(wrong))
    if safe == 0:
        if "needs" not in note:
            note = f"no tau in [{tau_range[0]:g}, {tau_range[1]:g}] keeps {note}"
        threshold = inf if max_fpr is not None else -inf
        point = operating_point(y, scores[:, 0], threshold, prevalence=prevalence)
        return replace(point, confidence=confidence, note=note, tau=float(taus[0]))
    point = operating_point(y, scores[:, safe - 1], 0.0, prevalence=prevalence)
    return replace(point, confidence=confidence, note=note, tau=float(taus[safe - 1]))
