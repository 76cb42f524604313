"""What both estimators share: scikit-learn's methods over an `Ensemble`."""

import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from reprlib import repr as brief
from typing import Any, Self

import numpy as np
import torch
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from curvewise.base.errors import InputError
from curvewise.estimator.ensemble import Ensemble
from curvewise.estimator.fitting import fit_ensemble, split_off
from curvewise.estimator.inputs import (
    Inputs,
    Rows,
    TableInputs,
    as_given,
    checked_groups,
    checked_labels,
    checked_weight,
    inputs_for,
)
from curvewise.estimator.recalibration import Recalibration, fit_recalibration, prior_shift
from curvewise.estimator.settings import Settings
from curvewise.roc.operating import OperatingPoint

Array = NDArray[Any]
Floats = NDArray[np.float64]


class FamilyClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """An ensemble over losses as a scikit-learn classifier; see `LCTClassifier`."""

    ensemble_: Ensemble
    inputs_: Inputs
    recalibration_: Recalibration
    classes_: Array
    class_counts_: Array
    _rows_sum: int

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
        again = self.warm_start and hasattr(self, "ensemble_")
        X = as_given(X)
        validate_data(self, X, y, skip_check_array=True, reset=not again)
        labels = checked_labels(y)
        check_consistent_length(X, labels)
        weight = checked_weight(sample_weight, X)
        rows = Rows(X, labels, weight, checked_groups(groups, len(labels)))
        if weight is not None and not weight.all():  # a row of weight 0 is not there
            rows = rows.some(weight > 0)
        classes, codes = np.unique(rows.y, return_inverse=True)
        if len(classes) < 2:
            where = "" if weight is None else " in rows of a weight above 0"
            raise InputError(
                f"y must hold two or more classes{where}, got one class: {classes[:1].tolist()}"
            )
        prior_shift(self.prior, np.ones(len(classes)))  # refused before the training, if at all
        if again and not np.array_equal(classes, self.classes_):
            raise InputError("warm_start needs the classes of the first fit, got others")
        if again and settings.n_members == self.ensemble_.n_trained:
            warnings.warn("warm_start without a larger n_members trains nothing", stacklevel=3)
            return self
        self.classes_ = classes
        if not again:  # later fits must set the same rows aside
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with threads(self.n_jobs):
            self._train(rows._replace(y=codes), settings, again)
        return self

    def _train(self, rows: Rows, settings: Settings, again: bool) -> None:
        train, out = split_off(rows.y, self.calibration_fraction, self._seed, rows.group)
        aside = rows.some(out)
        if len(out):
            rows = rows.some(train)
        counts = np.bincount(rows.y)
        if again:
            self.inputs_.check(rows.x)
            x = np.concatenate(list(self.inputs_.blocks(rows.x)))
        else:
            self.inputs_ = inputs_for(rows.x, self.backbone)
            x = self.inputs_.fit(rows.x)
        rows = rows._replace(x=x)
        rows_sum = rows.checksum()
        if again and rows_sum != self._rows_sum:
            before = self.class_counts_.tolist()
            raise InputError(
                "warm_start needs the rows of the first fit in their order, with their weights and "
                f"groups (class counts {brief(before)}), got others ({brief(counts.tolist())})"
            )
        if not isinstance(self.inputs_, TableInputs):
            settings = replace(settings, trees=0)  # a backbone's features are no table's columns
        self.ensemble_ = fit_ensemble(
            rows,
            settings,
            seed=self._seed,
            normalization=self.inputs_.normalization,
            before=self.ensemble_ if again else None,
            on_progress=printed(type(self).__name__) if self.verbose else None,
        )
        self._rows_sum = rows_sum
        self._grouped = rows.group is not None
        left_out = self.ensemble_.left_out_scores
        self.recalibration_ = fit_recalibration(left_out, rows.y, rows.weight)
        self.class_counts_ = counts
        self.class_weights_ = np.bincount(rows.y, rows.weight).astype(np.float64)
        judged = ~np.isnan(left_out[:, 0])
        few = "one row" if counts.min() < 2 else "the only group"
        if counts.min() < 2 or (settings.n_members > 1 and not judged.any()):
            warnings.warn(
                f"{few} of a class (class counts {brief(counts.tolist())}) cannot be left out for "
                "checking, so probabilities may be far off; the order of rows is what was learnt",
                stacklevel=4,
            )
        self.out_of_fold_ = left_out[judged]
        self.out_of_fold_labels_ = rows.y[judged]
        self.calibration_scores_ = left_out[:0]
        if len(out):
            self.calibration_scores_ = self.ensemble_.scores(self.inputs_.blocks(aside.x))
        self.calibration_labels_ = aside.y

    @property
    def tree_share_(self) -> float:
        """How much trees count beside networks, from 0 (also where none were grown) to 1."""
        check_is_fitted(self)
        return 0.0 if self.ensemble_.trees is None else self.ensemble_.trees.share

    @property
    def positive_class_(self) -> Any:
        """The rare class of two, which operating points are about."""
        check_is_fitted(self)
        return self.classes_[self._rare()]

    def _rare(self) -> int:
        self._two_classes("the rare class")
        return self._rarest()

    def _rarest(self) -> int:
        """Return the place of the rarest class, of equal ones the last."""
        return len(self.classes_) - 1 - int(np.argmin(self.class_counts_[::-1]))

    def _two_classes(self, what: str) -> None:
        check_is_fitted(self)
        if len(self.classes_) != 2:
            raise InputError(f"{what} needs two classes, got {len(self.classes_)}")

    def _adjusted(self, scores: Floats) -> Floats:
        """Return log-probabilities (n, C), up to a constant, for the wanted prior."""
        adjusted = self.recalibration_(scores)
        adjusted += self._prior_shift()
        return adjusted

    def _name_of_scores(self, tau: float | None) -> str:
        """Return a name of this fit and, for log-odds, of the prior that they are shifted to.

        It is the same for copies of the model, also through a file.
        """
        prior = np.zeros(0) if tau is not None else self._prior_shift()
        recalibration = self.recalibration_
        values = [self._rows_sum, recalibration.slope, *recalibration.offset, *prior]
        return f"{self.ensemble_.checksum(np.array(values)):08x}"

    def _prior_shift(self) -> Floats:
        """Return by how much the wanted prior raises log-probabilities (C,)."""
        return prior_shift(self.prior, self.class_weights_, self._rarest())

    def _scores(self, X: Any) -> Floats:
        rows = self._seen(X)
        with threads(self.n_jobs):
            return self._adjusted(self.ensemble_.scores(self.inputs_.blocks(rows)))

    def _seen(self, X: Any) -> Any:
        """Return rows to score, checked to be of the kind that fit has seen."""
        check_is_fitted(self)
        rows = as_given(X)
        self.inputs_.check(rows)
        validate_data(self, rows, reset=False, skip_check_array=True)
        return rows

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
        if not isinstance(at, OperatingPoint):
            raise InputError(f"at must be an OperatingPoint, got {type(at).__name__}")
        rare = self._rare()
        if at.scored_by != self._name_of_scores(at.tau):
            raise InputError(
                "at must be a point that this model's choose_operating_point gave at its present "
                "prior, got one of other scores, another model or another prior; choose it anew, "
                "or compare rare_log_odds with a threshold of your own"
            )
        score = self.rare_log_odds(X) if at.tau is None else self.score_samples(X, at.tau)
        return np.asarray(self.classes_[np.where(score >= at.threshold, rare, 1 - rare)])

    def rare_log_odds(self, X: Any) -> Floats:
        """Return the calibrated log-odds (n,) of the rare class of two, wherever that stands.

        Operating points of the estimator are thresholds of these.
        """
        self._two_classes("rare_log_odds")
        scores, rare = self._scores(X), self._rare()
        return np.asarray(scores[:, rare] - scores[:, 1 - rare])

    def score_samples(self, X: Any, tau: float | None = None) -> Floats:
        """Return z1 - z0 of the rare class, (n,), the members' mean at one tau, uncalibrated.

        Left out, tau is the top of the range that was drawn from, as in the paper. Of more
        classes it is the rarest one's logit less the logarithm of the others' summed exponentials.
        """
        return self._at_taus(X, [tau])[:, 0]

    def _at_taus(self, X: Any, taus: Any) -> Floats:
        rows = self._seen(X)
        rare = self._rarest()
        with threads(self.n_jobs):
            logits = self.ensemble_.logits(self.inputs_.blocks(rows), taus)
        others = np.delete(logits, rare, axis=2)
        return np.asarray(logits[:, :, rare] - logsumexp(others, axis=2))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.three_d_array = False
        return tags


def printed(name: str) -> Callable[[int, int], None]:
    """Return a callback that writes a line at every tenth of the steps, with the time so far."""
    started, tenths = time.perf_counter(), 0

    def tell(done: int, total: int) -> None:
        nonlocal tenths
        if 10 * done // total > tenths:
            tenths = 10 * done // total
            seconds = time.perf_counter() - started
            line = f"{name}: {10 * tenths} % of {total:,} steps, {seconds:.1f} s"
            print(line, file=sys.stderr, flush=True)

    return tell


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Let torch use so many threads meanwhile."""
    if n_jobs is not None and not isinstance(n_jobs, int | np.integer):
        raise InputError(f"n_jobs must be a whole number or None, got {n_jobs!r}")
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, effective_n_jobs(n_jobs)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
