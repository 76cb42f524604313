"""What both estimators share: scikit-learn's methods over an `Ensemble`, recalibrated."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from reprlib import repr as brief
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from curvewise.base.errors import InputError, require_open
from curvewise.estimator.ensemble import Ensemble
from curvewise.estimator.fitting import Settings, fit_ensemble, printed
from curvewise.estimator.inputs import Inputs, Rows, TableInputs, as_given, inputs_for, split_off
from curvewise.roc.operating import OperatingPoint

Array = NDArray[Any]
Floats = NDArray[np.float64]
STRENGTH = 5.0  # of the belief that nothing is to be changed, in units of log-likelihood
LEAST_SLOPE = 0.05  # above 0, so that every row keeps its place


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
        again = self.warm_start and hasattr(self, "ensemble_")
        X = as_given(X)
        validate_data(self, X, y, skip_check_array=True, reset=not again)
        classes, rows = Rows.of(X, y, sample_weight, groups)
        prior_shift(self.prior, np.ones(len(classes)))  # refused before the training, if at all
        if again and not np.array_equal(classes, self.classes_):
            raise InputError("warm_start needs the classes of the first fit, got others")
        if again and settings.n_members == self.ensemble_.n_trained:
            warnings.warn("warm_start without a larger n_members trains nothing", stacklevel=3)
            return self
        self.classes_: Array = classes
        if not again:  # later fits must set the same rows aside
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with threads(self.n_jobs):
            self._train(rows, settings, again)
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
            self.inputs_: Inputs = inputs_for(rows.x, self.backbone)
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
        self.ensemble_: Ensemble = fit_ensemble(
            rows,
            settings,
            seed=self._seed,
            normalization=self.inputs_.normalization,
            before=self.ensemble_ if again else None,
            on_progress=printed(type(self).__name__) if self.verbose else None,
        )
        self._rows_sum: int = rows_sum
        self._grouped = rows.group is not None
        left_out = self.ensemble_.left_out_scores
        self.recalibration_: Recalibration = fit_recalibration(left_out, rows.y, rows.weight)
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
        if len(self.classes_) != 2:
            raise InputError(f"{what} needs two classes, got {len(self.classes_)}")
        return self._rarest()

    def _rarest(self) -> int:
        """Return the place of the rarest class, of equal ones the last."""
        return len(self.classes_) - 1 - int(np.argmin(self.class_counts_[::-1]))

    def _prior_shift(self) -> Floats:
        """Return by how much the wanted prior raises log-probabilities (C,)."""
        return prior_shift(self.prior, self.class_weights_, self._rarest())

    def _adjusted(self, scores: Floats) -> Floats:
        """Return log-probabilities (n, C), up to a constant, for the wanted prior."""
        return self.recalibration_(scores) + self._prior_shift()

    def _name_of_scores(self, tau: float | None) -> str:
        """Return a name of this fit and, for log-odds, of the prior that they are shifted to.

        It is the same for copies of the model, also through a file.
        """
        prior = np.zeros(0) if tau is not None else self._prior_shift()
        recalibration = self.recalibration_
        values = [self._rows_sum, recalibration.slope, *recalibration.offset, *prior]
        return f"{self.ensemble_.checksum(np.array(values)):08x}"

    def _seen(self, X: Any) -> Any:
        """Return rows to score, checked to be of the kind that fit has seen."""
        check_is_fitted(self)
        rows = as_given(X)
        self.inputs_.check(rows)
        validate_data(self, rows, reset=False, skip_check_array=True)
        return rows

    def _scores(self, X: Any) -> Floats:
        rows = self._seen(X)
        with threads(self.n_jobs):
            return self._adjusted(self.ensemble_.scores(self.inputs_.blocks(rows)))

    def _at_taus(self, X: Any, taus: Any) -> Floats:
        """Return `score_samples` at each of some taus, (n, len(taus))."""
        rows, rare = self._seen(X), self._rarest()
        with threads(self.n_jobs):
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
        if not isinstance(at, OperatingPoint):
            raise InputError(f"at must be an OperatingPoint, got {type(at).__name__}")
        rare = self._rare("the rare class")
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
        rare = self._rare("rare_log_odds")
        scores = self._scores(X)
        return np.asarray(scores[:, rare] - scores[:, 1 - rare])

    def score_samples(self, X: Any, tau: float | None = None) -> Floats:
        """Return z1 - z0 of the rare class, (n,), the members' mean at one tau, uncalibrated.

        Left out, tau is the top of the range that was drawn from, as in the paper. Of more
        classes it is the rarest one's logit less the logarithm of the others' summed exponentials.
        """
        return self._at_taus(X, [tau])[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.three_d_array = False
        return tags


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


class Recalibration(NamedTuple):
    """Log-probabilities (n, C), up to a constant, become ``slope * scores + offset``."""

    slope: float
    offset: Floats

    def __call__(self, scores: Floats) -> Floats:
        """Return the scores with slope and offset (C,)."""
        return scores * self.slope + self.offset


def fit_recalibration(
    scores: Floats, codes: NDArray[np.int64], weight: Floats | None = None
) -> Recalibration:
    r"""Return the slope a and the offsets b that make the labels most likely (Platt 1999).

    Weight decay leaves log-odds too flat, and few rows leave them too steep. One slope for all
    keeps the order of the rows. The penalty :math:`5 ((a-1)^2 + \sum_c b_c^2)` holds both near
    "change nothing" where there are few rows. Rows of NaN were not left out by any member; where
    those left out lack a class, nothing is changed.

    >>> scores = np.log(np.array([[0.8, 0.2], [0.4, 0.6]] * 50))
    >>> fitted = fit_recalibration(scores, np.array([0, 1] * 50))
    >>> bool(fitted.slope > 1.2)
    True
    """
    n_classes = int(codes.max()) + 1
    held = ~np.isnan(scores[:, 0])
    if len(np.unique(codes[held])) < n_classes:  # a class that is never seen would be ruled out
        return Recalibration(1.0, np.zeros(n_classes))
    own, labels = scores[held], codes[held]
    share = np.ones(len(own)) if weight is None else weight[held]
    own = own - own.mean(axis=1, keepdims=True)
    truth = np.eye(n_classes)[labels]

    def cost(values: Floats) -> tuple[float, Floats]:
        slope, offset = values[0], values[1:]
        logits = slope * own + offset
        peak = logits.max(axis=1, keepdims=True)
        log_sum = peak[:, 0] + np.log(np.exp(logits - peak).sum(axis=1))
        errors = share[:, None] * (softmax(logits, axis=1) - truth)
        gradient = np.array([(errors * own).sum(), *errors.sum(axis=0)])
        likelihood = (share * (log_sum - logits[np.arange(len(own)), labels])).sum()
        change = np.array([slope - 1, *offset])
        return float(likelihood + STRENGTH * change @ change), gradient + 2 * STRENGTH * change

    start = np.array([1.0, *np.zeros(n_classes)])
    bounds = [(LEAST_SLOPE, None)] + [(None, None)] * n_classes
    best = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Recalibration(float(best[0]), np.asarray(best[1:]))


def prior_shift(
    prior: float | Sequence[float] | None, class_counts: ArrayLike, rare: int = 1
) -> Floats:
    """Return what to add to log-probabilities (C,) for another prior than the training rows'.

    `class_counts` are those of the rows, or the sums of their weights. `prior` is the probability
    of the class `rare` of two, or of each class.

    >>> prior_shift(0.5, [75, 25]).round(2)
    array([-0.41,  0.69])
    """
    counts = np.asarray(class_counts, np.float64)
    if prior is None:
        return np.zeros(len(counts))
    if np.ndim(prior) == 0:
        if len(counts) != 2:
            raise InputError(f"prior must hold {len(counts)} probabilities, got {prior!r}")
        share = require_open("prior", prior, 0, 1)  # type: ignore[arg-type]
        wanted = np.where(np.arange(2) == rare, share, 1 - share)
    else:
        wanted = np.array([require_open("each prior", p, 0, 1) for p in prior])  # type: ignore[union-attr]
        if len(wanted) != len(counts) or abs(wanted.sum() - 1) > 1e-6:
            raise InputError(
                f"prior must hold {len(counts)} probabilities that sum to 1, got {wanted.tolist()}"
            )
    shift: Floats = np.log(wanted) - np.log(counts / counts.sum())
    return shift
