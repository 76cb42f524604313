"""Operating points of fitted estimators, on new rows or, approximately, on those of fit."""

import warnings
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length

from curvewise.base.errors import InputError, require_open
from curvewise.estimator.classifier import FamilyClassifier
from curvewise.estimator.inputs import checked_labels
from curvewise.roc.operating import (
    OperatingPoint,
    choose_operating_point,
    first_unsafe,
    operating_point,
    promise_note,
)

Array = NDArray[Any]
APPROXIMATE = (
    "approximate: chosen on out-of-fold scores, which come from other members than those that "
    "score new rows"
)
UNPROMISED = "chosen on these rows, nothing is promised of new data"
DEPENDENT = (
    "; as if rows were independent, but fit was given groups: rows of one group are alike, which "
    "the confidence does not allow for"
)
TAUS = 61  # that by="lambda" tries


class PointClassifier(FamilyClassifier):
    """A `FamilyClassifier` that chooses operating points, which its `predict` then keeps to."""

    def choose_operating_point(
        self,
        X: Any = None,
        y: Any = None,
        *,
        max_fpr: float | None = None,
        min_tpr: float | None = None,
        cost_ratio: float | None = None,
        prevalence: float | None = None,
        confidence: float | None = 0.95,
        tau: float | None = None,
        by: str = "threshold",
    ) -> OperatingPoint:
        """Choose where to call a row the rare class, by one rule; use it as `predict(X, at=)`.

        Parameters
        ----------
        X, y
            Rows that the model has not seen. Left out, they are those that `fit` set aside
            (`calibration_fraction`), or else its out-of-fold scores, which makes the point
            approximate.
        max_fpr, min_tpr
            A rate that holds on new data with `confidence` (None: on these rows only). Too few rows
            for that give the threshold +inf (-inf for min_tpr), and a note and warning that
            say how many are needed.
        cost_ratio
            The lowest expected cost, a missed rare row costing so many false alarms.
        prevalence
            The share of the rare class where the point will be used; left out, it is the model's
            `prior`, or else that of these rows.
        tau
            Use the paper's score z1 - z0 at this tau instead of the calibrated log-odds.
        by
            "threshold", or "lambda": the tau at which z1 - z0 >= 0 keeps the rate.
        """
        rare = self._rare("an operating point")
        if by not in ("threshold", "lambda"):
            raise InputError(f'by must be "threshold" or "lambda", got {by!r}')
        if X is None and (by == "lambda" or tau is not None):
            raise InputError(
                "an operating point of one lambda needs rows X and y, for fit keeps only the "
                "calibrated scores of the rows that it sets aside, got none"
            )
        if (X is None) != (y is None):
            raise InputError("X and y go together, got one of them")
        if by == "lambda" and (tau is not None or cost_ratio is not None or confidence is None):
            raise InputError(
                'by="lambda" chooses tau by a rate that holds with confidence, so it goes without '
                "tau and cost_ratio, and with confidence"
            )
        if prevalence is None and self.prior is not None:
            prevalence = float(self.prior if np.ndim(self.prior) == 0 else self.prior[rare])  # type: ignore[index,arg-type]
        rules: dict[str, Any] = {
            "max_fpr": max_fpr,
            "min_tpr": min_tpr,
            "confidence": None if cost_ratio is not None else confidence,
            "prevalence": prevalence,
        }
        if X is None:
            point = self._point_of_fit(rare, cost_ratio=cost_ratio, **rules)
        else:
            labels = self._rare_labels(y)
            check_consistent_length(X, labels)
            if by == "lambda":
                point = self._point_of_tau(X, labels, **rules)
            else:
                score = self.rare_log_odds(X) if tau is None else self.score_samples(X, tau)
                point = _noted(
                    choose_operating_point(labels, score, cost_ratio=cost_ratio, **rules), tau
                )
        if np.isinf(point.threshold) and cost_ratio is None:
            unkept = "no finite threshold keeps this rate on these rows"
            warnings.warn(point.note or unkept, stacklevel=2)
        return replace(point, scored_by=self._name_of_scores(point.tau))

    def _point_of_fit(self, rare: int, **rules: Any) -> OperatingPoint:
        """Choose a threshold on scores that fit has left: of rows set aside, or out of fold."""
        known = len(self.calibration_scores_) == 0
        scores = self._adjusted(self.out_of_fold_ if known else self.calibration_scores_)
        labels = self.out_of_fold_labels_ if known else self.calibration_labels_
        if len(scores) == 0:
            raise InputError("this model held no rows out, so X and y must be given, got none")
        point = choose_operating_point(
            labels == rare, scores[:, rare] - scores[:, 1 - rare], **rules
        )
        if known:
            # What a promise lacks is worth knowing; that it holds is not said of rows that
            # training knew.
            lacks = f"; {point.note}" if point.note and np.isinf(point.threshold) else ""
            return replace(point, confidence=None, note=f"{APPROXIMATE}{lacks}")
        point = _noted(point)
        if self._grouped and point.confidence is not None:
            point = replace(point, note=f"{point.note}{DEPENDENT}")
            warnings.warn(point.note, stacklevel=3)
        return point

    def _point_of_tau(
        self,
        X: Any,
        labels: Array,
        *,
        max_fpr: float | None,
        min_tpr: float | None,
        confidence: float,
        prevalence: float | None,
    ) -> OperatingPoint:
        """Choose the tau at which "z1 - z0 >= 0" keeps a rate on new data with confidence.

        A larger tau calls more rows positive. So values are tried from the safe end of the range,
        one after the other, and the last before the first failure is taken (`first_unsafe`).
        """
        low, high = self.ensemble_.tau_range
        taus = np.linspace(low, high, TAUS)
        if max_fpr is not None and min_tpr is None:
            what, rate, allowed = "FPR <=", max_fpr, require_open("max_fpr", max_fpr, 0, 1)
        elif min_tpr is not None and max_fpr is None:
            what, rate, allowed = "TPR >=", min_tpr, 1 - require_open("min_tpr", min_tpr, 0, 1)
            taus = taus[::-1]
        else:
            raise InputError("a lambda is chosen by max_fpr or by min_tpr, got neither or both")
        scores = self._at_taus(X, list(taus))
        called = scores >= 0
        wrong = called[labels == 0] if min_tpr is None else ~called[labels == 1]
        safe = first_unsafe(wrong.sum(0), len(wrong), allowed, confidence)
        note = promise_note(what, rate, confidence, len(wrong))
        if safe == 0 and "needs" not in note:
            note = f"no tau in [{low:g}, {high:g}] keeps {note}"
        threshold = 0.0 if safe > 0 else inf if min_tpr is None else -inf
        place = max(safe - 1, 0)
        point = operating_point(labels, scores[:, place], threshold, prevalence=prevalence)
        return replace(point, confidence=confidence, note=note, tau=float(taus[place]))

    def _rare_labels(self, y: Any) -> Array:
        """Return 1 for the rare class, 0 for the other."""
        labels = checked_labels(y)
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise InputError(f"y must hold {self.classes_.tolist()}, got {unknown[:3].tolist()}")
        if len(only := np.unique(labels)) == 1:
            raise InputError(
                f"y must hold both classes, got only {only.tolist()[0]!r} ({len(labels)} rows)"
            )
        return np.asarray(labels == self.positive_class_, np.int64)


def _noted(point: OperatingPoint, tau: float | None = None) -> OperatingPoint:
    """Return a point that says what it promises of new data, or that it promises nothing."""
    bare = point.confidence is None and np.isfinite(point.threshold)
    return replace(point, tau=tau, note=UNPROMISED if bare else point.note)
