"""Classifiers made of others: sized to few positives, tried again, averaged by rank."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier

Classifier = Any  # fit(X, y), predict_proba(X)
TRIES = 20


class SizedToPositives(ClassifierMixin, BaseEstimator):
    """A classifier whose folds or neighbours must not exceed the positives that it is fitted on."""

    def __init__(self, make: Callable[[int], Classifier]) -> None:
        self.make = make

    def fit(self, X: pd.DataFrame, y: ArrayLike) -> Self:  # noqa: N803
        """Build the classifier for this number of positives and fit it."""
        self.classes_ = np.unique(y)
        self.model_ = self.make(int(np.sum(y))).fit(X, y)
        return self

    def predict_proba(self, X: pd.DataFrame) -> NDArray[np.float64]:  # noqa: N803
        """Return the fitted classifier's probabilities (n, 2)."""
        return self.model_.predict_proba(X)


class TriedAgain(ClassifierMixin, BaseEstimator):
    """A classifier that some seeds cannot fit: the first seed that can, else the prior for all.

    RUSBoost gives up if its first stump is wrong on half of the rows, as it often is when 4
    positives and 4 negatives are all that it sees. A user would try another seed.
    """

    def __init__(self, make: Callable[[int], Classifier], random_state: int) -> None:
        self.make = make
        self.random_state = random_state

    def fit(self, X: pd.DataFrame, y: ArrayLike) -> Self:  # noqa: N803
        """Fit with the first of `TRIES` seeds that can."""
        self.classes_ = np.unique(y)
        for seed in np.random.default_rng(self.random_state).integers(2**31, size=TRIES):
            try:
                self.model_ = self.make(int(seed)).fit(X, y)
            except ValueError as error:
                if "worse than random" not in str(error):
                    raise
            else:
                return self
        self.model_ = DummyClassifier(strategy="prior").fit(X, y)
        return self

    def predict_proba(self, X: pd.DataFrame) -> NDArray[np.float64]:  # noqa: N803
        """Return the fitted classifier's probabilities (n, 2)."""
        return self.model_.predict_proba(X)


class SoftmaxAtTop(ClassifierMixin, BaseEstimator):
    """The softmax of logits at the top of tau's range, with nothing corrected."""

    def __init__(self, model: Classifier) -> None:
        self.model = model

    def fit(self, X: pd.DataFrame, y: ArrayLike) -> Self:  # noqa: N803
        """Fit the model."""
        self.classes_ = np.unique(y)
        self.model.fit(X, y)
        return self

    def predict_proba(self, X: pd.DataFrame) -> NDArray[np.float64]:  # noqa: N803
        """Return what the softmax gives the rare class, beside what is missing to 1."""
        chance = expit(self.model.score_samples(X))
        return np.column_stack([1 - chance, chance])


class RankAverage(ClassifierMixin, BaseEstimator):
    """The mean rank of a row among those scored with it: an order, and no probability."""

    ranks_only = True

    def __init__(self, members: list[Classifier]) -> None:
        self.members = members

    def fit(self, X: pd.DataFrame, y: ArrayLike) -> Self:  # noqa: N803
        """Fit all members."""
        self.classes_ = np.unique(y)
        self.models_ = [member.fit(X, y) for member in self.members]
        return self

    def predict_proba(self, X: pd.DataFrame) -> NDArray[np.float64]:  # noqa: N803
        """Return the mean rank over the members in (0, 1], beside what is missing to 1."""
        ranks = [rankdata(model.predict_proba(X)[:, 1]) / len(X) for model in self.models_]
        mean = np.mean(ranks, axis=0)
        return np.column_stack([1 - mean, mean])
