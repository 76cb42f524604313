"""The methods to compare, by name: untuned, one thread, a seed.

A method is a function of a seed that returns a scikit-learn classifier for a DataFrame with
numbers, words and gaps. All peers see the same columns: one-hot categories, medians for missing
numbers, both fitted on the training part. To add a method is one line of `METHODS`.
"""

from collections.abc import Callable

from benchmarks.tabular.adapters import (
    Classifier,
    RankAverage,
    SizedToPositives,
    SoftmaxAtTop,
    TriedAgain,
)
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from curvewise.estimator.estimators import LCTClassifier

TREES = 500  # of each forest: 100 give AUC away, for few trees tie many scores


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


def logistic(seed: int) -> Classifier:
    model = LogisticRegression(class_weight="balanced", max_iter=5000, random_state=seed)
    return make_pipeline(encoder(), StandardScaler(), model)


def forest(seed: int) -> Classifier:
    return make_pipeline(encoder(), RandomForestClassifier(TREES, n_jobs=1, random_state=seed))


def extra_trees(seed: int) -> Classifier:
    return make_pipeline(encoder(), ExtraTreesClassifier(TREES, n_jobs=1, random_state=seed))


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


def lct(seed: int) -> Classifier:
    return LCTClassifier(random_state=seed)


def lct_networks(seed: int) -> Classifier:
    return LCTClassifier(trees=0, random_state=seed)


def uncorrected(seed: int) -> Classifier:
    """Return our networks' softmax at one lambda, as the paper has it, for probabilities."""
    return SoftmaxAtTop(LCTClassifier(trees=0, random_state=seed))


METHODS: dict[str, Callable[[int], Classifier]] = {
    "logistic": logistic,
    "forest": forest,
    "extra-trees": extra_trees,
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
    "lct": lct,
    "lct-networks": lct_networks,
    "lct-uncorrected": uncorrected,
}
BLENDS = {"tree-blend"}  # not a single method
PARTS = ("lct", "lct-networks", "extra-trees")  # ours, and what it is made of
UNRANKED = {
    "isotonic-forest",
    "lct-networks",
    "lct-uncorrected",
}  # each method has one rank; these stand beside the others in tables of their own
