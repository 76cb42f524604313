"""The methods to compare, by name: untuned, one thread, a seed.

A method is a function of a seed that returns a scikit-learn classifier for a DataFrame with numbers,
words and gaps. All peers see the same columns: one-hot categories, medians for missing numbers, both
fitted on the training part. To add a method is one line of `METHODS`.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

TREES = 500  # of both forests: 100 give AUC away, for few trees tie many scores
TRIES = 20
Classifier = Any  # fit(X, y), predict_proba(X)


def encoder() -> ColumnTransformer:
    """Return what turns a DataFrame into numbers; unknown categories are all zeros."""
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer(
        [
            (
                "numbers",
                SimpleImputer(strategy="median", keep_empty_features=True),
                make_column_selector(dtype_include="number"),
            ),
            ("words", words, make_column_selector(dtype_exclude="number")),
        ]
    )


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
        """Fit with up to 20 seeds."""
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


def logistic(seed: int) -> Classifier:
    model = LogisticRegression(class_weight="balanced", max_iter=5000, random_state=seed)
    return make_pipeline(encoder(), StandardScaler(), model)


def forest(seed: int) -> Classifier:
    return make_pipeline(encoder(), RandomForestClassifier(TREES, n_jobs=1, random_state=seed))


def isotonic_forest(seed: int) -> Classifier:
    def make(positives: int) -> Classifier:
        trees = RandomForestClassifier(TREES, n_jobs=1, random_state=seed)
        folds = min(5, positives)
        return make_pipeline(encoder(), CalibratedClassifierCV(trees, method="isotonic", cv=folds))

    return SizedToPositives(make)


def balanced_forest(seed: int) -> Classifier:
    from imblearn.ensemble import BalancedRandomForestClassifier

    model = BalancedRandomForestClassifier(TREES, n_jobs=1, random_state=seed)
    return make_pipeline(encoder(), model)


def easy_ensemble(seed: int) -> Classifier:
    from imblearn.ensemble import EasyEnsembleClassifier

    return make_pipeline(encoder(), EasyEnsembleClassifier(n_jobs=1, random_state=seed))


def rusboost(seed: int) -> Classifier:
    from imblearn.ensemble import RUSBoostClassifier

    def make(seed: int) -> Classifier:
        return make_pipeline(encoder(), RUSBoostClassifier(random_state=seed))

    return TriedAgain(make, random_state=seed)


def hist_boosting(seed: int) -> Classifier:
    return make_pipeline(encoder(), HistGradientBoostingClassifier(random_state=seed))


def lightgbm(seed: int) -> Classifier:
    from lightgbm import LGBMClassifier

    return make_pipeline(encoder(), LGBMClassifier(n_jobs=1, random_state=seed, verbosity=-1))


def xgboost(seed: int) -> Classifier:
    from xgboost import XGBClassifier

    return make_pipeline(encoder(), XGBClassifier(n_jobs=1, random_state=seed))


def tabm(seed: int) -> Classifier:
    from benchmarks.tabular.tabm_peer import TabMClassifier

    return make_pipeline(encoder(), TabMClassifier(random_state=seed))


def smote_boosting(seed: int) -> Classifier:
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline as make_sampling_pipeline

    def make(positives: int) -> Classifier:
        sampler = SMOTE(k_neighbors=min(5, positives - 1), random_state=seed)
        model = HistGradientBoostingClassifier(random_state=seed)
        # Scaled first, for neighbours are nearest in all columns.
        return make_sampling_pipeline(encoder(), StandardScaler(), sampler, model)

    return SizedToPositives(make)


def tree_blend(seed: int) -> Classifier:
    return RankAverage([forest(seed), hist_boosting(seed), balanced_forest(seed)])


METHODS: dict[str, Callable[[int], Classifier]] = {
    "logistic": logistic,
    "forest": forest,
    "balanced-forest": balanced_forest,
    "easy-ensemble": easy_ensemble,
    "rusboost": rusboost,
    "hist-boosting": hist_boosting,
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "tabm": tabm,
    "smote-boosting": smote_boosting,
    "tree-blend": tree_blend,
    "isotonic-forest": isotonic_forest,
}
BLENDS = {"tree-blend"}  # not a single method
FOR_PROBABILITIES = {"isotonic-forest"}  # beside the others only where probabilities are judged
