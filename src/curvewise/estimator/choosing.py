"""`choose_operating_point` of both estimators."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length

from curvewise.base.errors import InputError
from curvewise.estimator.classifier import FamilyClassifier
from curvewise.estimator.operating import choose_point, choose_tau
from curvewise.estimator.weights import checked_labels
from curvewise.roc.operating import OperatingPoint

Array = NDArray[Any]
Floats = NDArray[np.float64]


DEPENDENT = (
    "; as if rows were independent, but fit was given groups: rows of one group are alike, which "
    "the confidence does not allow for"
)


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
        self._two_classes("an operating point")
        rules: dict[str, Any] = {
            "max_fpr": max_fpr,
            "min_tpr": min_tpr,
            "prevalence": self._wanted_prevalence() if prevalence is None else prevalence,
        }
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
        labels = np.zeros(0) if y is None else self._rare_labels(y)
        if X is not None:
            check_consistent_length(X, labels)
        if by == "lambda":
            point = choose_tau(
                labels,
                lambda taus: self._at_taus(X, list(taus)),
                self.ensemble_.tau_range,
                confidence=confidence,  # type: ignore[arg-type]
                **rules,
            )
        else:
            rules["cost_ratio"] = cost_ratio
            if X is None:
                labels, score, known = self._own_scores()
            else:
                known = False
                score = self.rare_log_odds(X) if tau is None else self.score_samples(X, tau)
            point = choose_point(labels, score, tau, known=known, confidence=confidence, **rules)
            if X is None and self._grouped and point.confidence is not None:
                point = replace(point, note=f"{point.note}{DEPENDENT}")
                warnings.warn(point.note, stacklevel=2)
        if np.isinf(point.threshold) and cost_ratio is None:
            told = point.note or "no finite threshold keeps this rate on these rows"
            warnings.warn(told, stacklevel=2)
        return replace(point, scored_by=self._name_of_scores(point.tau))

    def _wanted_prevalence(self) -> float | None:
        """Return the share of the rare class that `prior` names, if it does."""
        if self.prior is None:
            return None
        return float(self.prior if np.ndim(self.prior) == 0 else self.prior[self._rare()])

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

    def _own_scores(self) -> tuple[Array, Floats, bool]:
        """Return labels and scores that fit has left, and whether training knew the rows."""
        known = len(self.calibration_scores_) == 0
        scores = self._adjusted(self.out_of_fold_ if known else self.calibration_scores_)
        labels = self.out_of_fold_labels_ if known else self.calibration_labels_
        if len(scores) == 0:
            raise InputError("this model held no rows out, so X and y must be given, got none")
        rare = self._rare()
        return (labels == rare).astype(np.int64), scores[:, rare] - scores[:, 1 - rare], known
