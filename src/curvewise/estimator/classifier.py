"""What both estimators share: scikit-learn's methods over an `Ensemble`, and operating points."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from reprlib import repr as brief
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from curvewise.base.errors import require, require_one_of, require_open, require_shape
from curvewise.base.machine import torch_threads
from curvewise.estimator.ensemble import Ensemble, fit_recalibration, prior_shift
from curvewise.estimator.fitting import Settings, fit_ensemble, printed
from curvewise.estimator.inputs import (
    Array,
    BackboneInputs,
    Inputs,
    Rows,
    as_given,
    inputs_for,
    known_labels,
    split_off,
)
from curvewise.roc.operating import (
    OperatingPoint,
    choose_operating_point,
    first_unsafe,
    operating_point,
    promise_note,
)
from curvewise.tables.columns import Floats

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


@dataclass(eq=False, repr=False, kw_only=True)
class FamilyClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """An ensemble over losses as a scikit-learn classifier; see `LCTClassifier`."""

    n_members: int = 18
    trees: int = 0
    hidden: Sequence[int] = (64, 64)
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float = 2e-3
    weight_decay: float = 1.0
    backbone: str | None = None
    network: Callable[[tuple[int, ...], int], nn.Module] | None = None
    prior: float | Sequence[float] | None = None
    calibration_fraction: float = 0.0
    warm_start: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    @abstractmethod
    def _settings(self) -> Settings:
        """Return how members are trained, or raise for a parameter that cannot be used."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train on a table or images X and labels y of two or more classes.

        `sample_weight` (n,) multiplies the rows' losses. Rows of one of the `groups` (n,), a
        patient's or a card's, stay together when rows are held out.
        """
        before = dict(vars(self))
        try:
            return self._fit(X, y, sample_weight, groups)
        except BaseException:  # also a stop by hand: what was fitted before stays whole
            self.__dict__ = before
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        settings = self._settings()
        before = getattr(self, "ensemble_", None) if self.warm_start else None
        X = as_given(X)
        validate_data(self, X, y, skip_check_array=True, reset=before is None)
        classes, rows = Rows.of(X, y, sample_weight, groups)
        prior_shift(self.prior, np.ones(len(classes)))  # refused before the training, if at all
        if before is None:  # later fits must set the same rows aside
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        else:
            known = np.array_equal(classes, self.classes_)
            require(known, "warm_start needs the classes of the first fit, got others")
            if settings.n_members == before.n_trained:
                warnings.warn("warm_start without a larger n_members trains nothing", stacklevel=3)
                return self
        self.classes_: Array = classes
        with self._threads():
            self._train(rows, settings, before)
        return self

    def _train(self, rows: Rows, settings: Settings, before: Ensemble | None) -> None:
        train, out = split_off(rows.y, self.calibration_fraction, self._seed, rows.group)
        rows, aside = rows.some(train) if len(out) else rows, rows.some(out)
        counts = np.bincount(rows.y)
        if before is None:
            self.inputs_: Inputs = inputs_for(rows.x, self.backbone)
            x = self.inputs_.fit(rows.x)
        else:
            require_shape("X", rows.x, *self.inputs_.axes)
            x = np.concatenate(list(self.inputs_.blocks(rows.x)))
        rows = rows._replace(x=x)
        rows_sum = rows.checksum()
        require(
            before is None or rows_sum == self._rows_sum,
            "warm_start needs the rows of the first fit in their order, with their weights and "
            f"groups, got others (class counts {brief(counts.tolist())})",
        )
        if isinstance(self.inputs_, BackboneInputs):
            settings = replace(settings, trees=0)  # a backbone's features are no table's columns
        self.ensemble_: Ensemble = fit_ensemble(
            rows,
            settings,
            seed=self._seed,
            normalization=self.inputs_.normalization,
            before=before,
            on_progress=printed(type(self).__name__) if self.verbose else None,
        )
        self._rows_sum: int = rows_sum
        self._grouped = rows.group is not None
        left_out = self.ensemble_.left_out_scores
        self.recalibration_ = fit_recalibration(left_out, rows.y, rows.weight)
        self.class_counts_: Array = counts
        self.class_weights_ = np.bincount(rows.y, rows.weight).astype(np.float64)
        judged = ~np.isnan(left_out[:, 0])
        if counts.min() < 2 or (settings.n_members > 1 and not judged.any()):
            few = "one row" if counts.min() < 2 else "the only group"
            warnings.warn(
                f"{few} of a class (class counts {brief(counts.tolist())}) cannot be left out for "
                "checking, so probabilities may be far off; the order of rows is what was learnt",
                stacklevel=4,
            )
        self.out_of_fold_, self.out_of_fold_labels_ = left_out[judged], rows.y[judged]
        self.calibration_scores_, self.calibration_labels_ = left_out[:0], aside.y
        if len(out):
            self.calibration_scores_ = self.ensemble_.scores(self.inputs_.blocks(aside.x))

    def _threads(self) -> Any:
        return torch_threads(max(1, int(effective_n_jobs(self.n_jobs))))

    @property
    def tree_share_(self) -> float:
        """How much trees count beside networks, from 0 (also where none were grown) to 1."""
        check_is_fitted(self)
        return 0.0 if self.ensemble_.trees is None else self.ensemble_.trees.share

    @property
    def positive_class_(self) -> Any:
        """The rare class of two, which operating points are about."""
        return self.classes_[self._rare("the rare class")]

    def _rare(self, what: str) -> int:
        """Return the place of the rare class, which `what` needs two classes for."""
        check_is_fitted(self)
        n_classes = len(self.classes_)
        require(n_classes == 2, f"{what} needs two classes, got {n_classes}")
        return self._rarest()

    def _rarest(self) -> int:
        """Return the place of the rarest class, of equal ones the last."""
        return len(self.classes_) - 1 - int(np.argmin(self.class_counts_[::-1]))

    def _prior_shift(self) -> Floats:
        return prior_shift(self.prior, self.class_weights_, self._rarest())

    def _adjusted(self, scores: Floats) -> Floats:
        """Return log-probabilities (n, C), up to a constant, for the wanted prior."""
        slope, offset = self.recalibration_
        return scores * slope + offset + self._prior_shift()

    def _name_of_scores(self, tau: float | None) -> str:
        """Return a name of this fit and, for log-odds, of the prior that they are shifted to.

        It is the same for copies of the model, also through a file.
        """
        prior = np.zeros(0) if tau is not None else self._prior_shift()
        slope, offset = self.recalibration_
        return f"{self.ensemble_.checksum(np.array([self._rows_sum, slope, *offset, *prior])):08x}"

    def _seen(self, X: Any) -> Any:
        """Return rows to score, checked to be of the kind that fit has seen."""
        check_is_fitted(self)
        rows = as_given(X)
        require_shape("X", rows, *self.inputs_.axes)
        return validate_data(self, rows, reset=False, skip_check_array=True)

    def _scores(self, X: Any) -> Floats:
        rows = self._seen(X)
        with self._threads():
            return self._adjusted(self.ensemble_.scores(self.inputs_.blocks(rows)))

    def _at_taus(self, X: Any, taus: Any) -> Floats:
        """Return `score_samples` at each of some taus, (n, len(taus))."""
        rows, rare = self._seen(X), self._rarest()
        with self._threads():
            logits = self.ensemble_.logits(self.inputs_.blocks(rows), taus)
        others = np.delete(logits, rare, axis=2)
        return np.asarray(logits[:, :, rare] - logsumexp(others, axis=2))

    def decision_function(self, X: Any) -> Floats:
        """Return calibrated log-odds: (n,) of `classes_[1]`, or (n, C) of each class of more."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        logs = log_softmax(scores, axis=1)
        return np.asarray(logs - np.log(-np.expm1(np.minimum(logs, -1e-300))))

    def predict_proba(self, X: Any) -> Floats:
        """Return calibrated probabilities (n, C) of `classes_`."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            odds = scores[:, 1] - scores[:, 0]
            return np.stack([expit(-odds), expit(odds)], axis=1)
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of `predict_proba`, exact also where that rounds to 0."""
        return np.asarray(log_softmax(self._scores(X), axis=1))

    def predict(self, X: Any, at: OperatingPoint | None = None) -> Array:
        """Return the most probable class of each row, or what an operating point says."""
        if at is None:
            most = self._scores(X).argmax(axis=1)
            return np.asarray(self.classes_[most])
        rare = self._rare("the rare class")
        require(
            isinstance(at, OperatingPoint) and at.scored_by == self._name_of_scores(at.tau),
            "at must be a point that this model's choose_operating_point gave at its present "
            "prior, got one of other scores, another model or another prior; choose it anew, "
            "or compare rare_log_odds with a threshold of your own",
        )
        called = self._rare_scores(X, at.tau) >= at.threshold
        return np.asarray(self.classes_[np.where(called, rare, 1 - rare)])

    def rare_log_odds(self, X: Any) -> Floats:
        """Return the calibrated log-odds (n,) of the rare class of two, wherever that stands.

        Operating points of the estimator are thresholds of these.
        """
        rare = self._rare("rare_log_odds")
        scores = self._scores(X)
        return np.asarray(scores[:, rare] - scores[:, 1 - rare])

    def score_samples(self, X: Any, tau: float | None = None) -> Floats:
        """Return z1 - z0 of the rare class, (n,), the members' mean at one tau, uncalibrated.

        Left out, tau is the top of the range that was drawn from, as in the paper. Of more
        classes it is the rarest one's logit less the logarithm of the others' summed exponentials.
        """
        return self._at_taus(X, [tau])[:, 0]

    def _rare_scores(self, X: Any, tau: float | None) -> Floats:
        """Return what a threshold is for: calibrated log-odds, or z1 - z0 at one tau."""
        return self.rare_log_odds(X) if tau is None else self.score_samples(X, tau)

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
        known = by in ("threshold", "lambda")
        require(known, f'by must be "threshold" or "lambda", got {by!r}')
        require((X is None) == (y is None), "X and y go together, got one of them")
        require(
            X is not None or (by == "threshold" and tau is None),
            "an operating point of one lambda needs rows X and y, for fit keeps only the "
            "calibrated scores of the rows that it sets aside, got none",
        )
        require(
            by == "threshold" or (tau is None and cost_ratio is None and confidence is not None),
            'by="lambda" chooses tau by a rate that holds with confidence, so it goes without '
            "tau and cost_ratio, and with confidence",
        )
        if prevalence is None and self.prior is not None:
            prevalence = float(np.broadcast_to(self.prior, 2)[rare])
        rules: dict[str, Any] = {"max_fpr": max_fpr, "min_tpr": min_tpr, "prevalence": prevalence}
        rules["confidence"] = confidence if cost_ratio is None else None
        if X is None:
            point = self._point_of_fit(rare, cost_ratio=cost_ratio, **rules)
        else:
            labels = known_labels(X, y, self.classes_) == self.classes_[rare]
            if by == "lambda":
                point = self._point_of_tau(X, labels, **rules)
            else:
                score = self._rare_scores(X, tau)
                point = choose_operating_point(labels, score, cost_ratio=cost_ratio, **rules)
                point = replace(point, tau=tau)
        if np.isfinite(point.threshold):
            point = replace(point, note=point.note or UNPROMISED)
        elif cost_ratio is None:
            unkept = "no finite threshold keeps this rate on these rows"
            warnings.warn(point.note or unkept, stacklevel=2)
        return replace(point, scored_by=self._name_of_scores(point.tau))

    def _point_of_fit(self, rare: int, **rules: Any) -> OperatingPoint:
        """Choose a threshold on scores that fit has left: of rows set aside, or out of fold."""
        known = len(self.calibration_scores_) == 0
        scores = self._adjusted(self.out_of_fold_ if known else self.calibration_scores_)
        labels = self.out_of_fold_labels_ if known else self.calibration_labels_
        require(len(scores), "this model held no rows out, so X and y must be given, got none")
        odds = scores[:, rare] - scores[:, 1 - rare]
        point = choose_operating_point(labels == rare, odds, **rules)
        if known:
            # What a promise lacks is worth knowing; that it holds is not said of rows that
            # training knew.
            lacks = f"; {point.note}" if point.note and np.isinf(point.threshold) else ""
            return replace(point, confidence=None, note=f"{APPROXIMATE}{lacks}")
        if self._grouped and point.confidence is not None:
            point = replace(point, note=f"{point.note}{DEPENDENT}")
            warnings.warn(point.note, stacklevel=3)
        return point

    def _point_of_tau(
        self, X: Any, labels: Array, *, prevalence: Any, confidence: float, **rates: Any
    ) -> OperatingPoint:
        """Choose the tau at which "z1 - z0 >= 0" keeps a rate on new data with confidence.

        A larger tau calls more rows positive. So values are tried from the safe end of the range,
        one after the other, and the last before the first failure is taken (`first_unsafe`).
        """
        rule = require_one_of(**rates)
        rate = require_open(rule, rates[rule], 0, 1)
        low, high = self.ensemble_.tau_range
        taus = np.linspace(low, high, TAUS)
        if rule == "min_tpr":
            taus = taus[::-1]
        scores = self._at_taus(X, list(taus))
        if rule == "max_fpr":
            what, allowed, unkept, wrong = "FPR <=", rate, np.inf, scores[labels == 0] >= 0
        else:
            what, allowed, unkept, wrong = "TPR >=", 1 - rate, -np.inf, scores[labels == 1] < 0
        safe = first_unsafe(wrong.sum(0), len(wrong), allowed, confidence)
        note = promise_note(what, rate, confidence, len(wrong))
        if safe == 0 and "needs" not in note:
            note = f"no tau in [{low:g}, {high:g}] keeps {note}"
        threshold, place = (0.0, safe - 1) if safe else (unkept, 0)
        point = operating_point(labels, scores[:, place], threshold, prevalence=prevalence)
        return replace(point, confidence=confidence, note=note, tau=float(taus[place]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kinds = {"allow_nan": True, "string": True, "categorical": True}
        tags.input_tags = replace(tags.input_tags, **kinds)
        return tags
