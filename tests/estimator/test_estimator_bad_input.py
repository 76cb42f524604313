"""What people hand in: each gives what a scikit-learn user expects, an error or a model."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.preprocessing import StandardScaler
from torch import nn

import curvewise as cw
from curvewise.base.errors import InputError

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=N) > 1.3).astype(int)
TABLE = pd.DataFrame(X, columns=list("abc"))
IMAGES = RNG.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8)
RARE = (np.arange(40) % 5 == 0).astype(int)
SMALL = {"n_members": 3, "trees": 10, "steps": 3, "hidden": (4,), "random_state": 0}


def fit(x=X, y=Y, sample_weight=None, groups=None, **parameters):
    estimator = cw.LCTClassifier(**{**SMALL, **parameters})
    return estimator.fit(x, y, sample_weight=sample_weight, groups=groups)


def changed(values, place, value):
    out = np.array(values, dtype=float)
    out[place] = value
    return out


class Refusing(nn.Module):
    def __init__(self, d: int, c: int) -> None:
        super().__init__()
        self.last = nn.Linear(d, c)

    def forward(self, x):
        raise ValueError


class SoftmaxAtTheEnd(Refusing):
    def forward(self, x):
        return torch.softmax(self.last(x), 1)


# What is handed to `fit`, and the words (regex) that the error, always a ValueError, must say.
HANDED = [
    ({"y": np.zeros(N)}, "y must .* one class"),
    ({"y": changed(Y, 3, np.nan)}, "y contains NaN"),
    ({"y": changed(Y, 3, np.inf)}, "y contains infinity"),
    ({"y": [None, *["ab"[c] for c in Y[1:]]]}, "y .* row 0"),
    ({"y": pd.Series([None, *Y[1:]], dtype="Int64")}, "y contains NaN"),
    ({"y": np.array([7, *["ab"[c] for c in Y[1:]]], object)}, "y must .* int, str"),
    ({"y": np.stack([Y, Y], 1)}, "1d array"),
    ({"y": X[:, 0]}, "continuous"),
    ({"y": None}, "y"),
    ({"y": Y[:-1]}, r"\[120, 119\]"),
    ({"x": changed(X, (3, 1), np.inf)}, "'1' must be finite, got inf in row 3"),
    ({"x": TABLE.set_axis(["a", "b", "a"], axis=1)}, "names must differ, got 'a'"),
    ({"x": X[:0]}, r"0 sample\(s\)"),
    ({"x": TABLE[:0]}, r"rows and columns, got shape \(0, 3\)"),
    ({"x": TABLE[[]]}, r"rows and columns, got shape \(120, 0\)"),
    ({"x": X[:, 0]}, "Expected 2D array, got 1D array"),
    ({"x": TABLE["a"]}, "2-dimensional container"),
    ({"x": X[:, :, None]}, r"X must .* \(120, 3, 1\)"),
    ({"x": np.ones((N, 2))}, r"got '0' \(constant\)"),
    ({"x": np.full((N, 2), np.nan)}, r"got '0' \(empty"),
    ({"x": X + 1j}, "Complex data not supported"),
    ({"x": TABLE + 1j}, "'a' must hold real numbers"),
    ({"x": TABLE.assign(d=[[1]] * N)}, "'d' must hold numbers"),
    ({"x": {"a": X[:, 0]}}, "Expected 2D array"),
    ({"sample_weight": changed(np.ones(N), 3, -1)}, "Negative values"),
    ({"sample_weight": np.zeros(N)}, "(at least one non-zero|weight above 0)"),
    ({"sample_weight": changed(np.ones(N), 3, np.nan)}, "sample_weight contains NaN"),
    ({"sample_weight": np.ones(N - 1)}, r"\(119,\), expected \(120,\)"),
    ({"sample_weight": 1.0 - Y}, r"weight above 0, got one class: \[0\]"),
    ({"groups": np.zeros((N, 2))}, r"groups .* \(120,\), got \(120, 2\)"),
    ({"groups": np.zeros(N - 1)}, r"groups .* \(120,\), got \(119,\)"),
    ({"groups": [None, *["a"] * (N - 1)]}, "groups .* row 0"),
    ({"groups": changed(np.ones(N), 3, np.nan)}, "groups .* row 3"),
    ({"x": IMAGES * 1.0, "y": RARE}, r"\[0, 1\], got float64"),
    ({"x": IMAGES.astype(int), "y": RARE}, r"\[0, 1\], got int64"),
    ({"x": np.full(IMAGES.shape, np.nan), "y": RARE}, r"\[0, 1\]"),
    ({"x": np.zeros((40, 8, 8, 2)), "y": RARE}, r"images .* \(40, 8, 8, 2\)"),
    ({"x": np.zeros((40, 2, 2, 1)), "y": RARE}, "images of at least 4x4"),
    ({"x": IMAGES[:0], "y": RARE}, "must have rows and columns"),
    *(  # chance weights are no backbone
        ({"x": IMAGES, "y": RARE, "backbone": name}, f"backbone must be .* {name!r}")
        for name in ("nothing", "small-cnn", "resnet20", 3)
    ),
    ({"n_members": 0}, "n_members must be >= 1.*, got 0"),
    ({"n_members": 2.5}, "n_members must be .*, got 2.5"),
    ({"n_members": True}, "n_members must be .*, got True"),
    *(({"trees": value}, "trees must be") for value in (-1, 2.5, True, "many", None)),
    ({"n_jobs": "x"}, "n_jobs must be .*, got 'x'"),
    ({"hidden": "64"}, "hidden must be .*, got '64'"),
    ({"hidden": 64}, "hidden must be .*, got 64"),
    ({"hidden": (0,)}, "hidden must be .*, got 0"),
    *(
        ({"tau_range": value}, rf"tau_range must be \(low, high\).*, got {text}")
        for value, text in (
            ((3, 0), r"\(3, 0\)"),
            ((1, 1), r"\(1, 1\)"),
            (3, "3"),
            ((0, 1, 2), r"\(0, 1, 2\)"),
        )
    ),
    ({"tau_range": (-1, 2)}, "low of tau must be >= 0"),
    ({"steps": 0}, "steps must be >= 1"),
    ({"batch_size": 0}, "batch_size must be >= 2"),
    ({"learning_rate": "1e-3"}, "learning_rate must be"),
    ({"learning_rate": -1}, "learning_rate must be greater than 0 and finite, got -1"),
    ({"learning_rate": 0}, "learning_rate must be greater than 0 and finite, got 0"),
    ({"learning_rate": 1e9, "steps": 30}, "no member could be trained: .* smaller learning rate"),
    ({"weight_decay": -1}, "weight_decay must be >= 0"),
    ({"prior": 2}, r"prior must lie strictly between 0 and 1, got 2"),
    ({"prior": 0}, "prior must lie strictly between 0 and 1"),
    ({"prior": [0.2, 0.2]}, r"prior must .* sum to 1, got \[0.2, 0.2\]"),
    ({"prior": [0.1, 0.2, 0.7]}, "prior must hold 2 probabilities"),
    ({"calibration_fraction": 2}, r"calibration_fraction must be in \[0, 0.9\]"),
    ({"calibration_fraction": 0.001}, "calibration_fraction = 0.001 must leave every class"),
    ({"warm_start": "no"}, "warm_start must be True or False, got 'no'"),
    ({"verbose": "x"}, "verbose must be a whole number, got 'x'"),
    ({"backbone": "efficientnet-lite0"}, r"backbone needs images \(n, H, W, C\), got 2 dim"),
    ({"network": "mlp"}, "network must be .*, got 'mlp'"),
    ({"network": lambda _, __: 3}, "network must return an nn.Module, got int"),
    ({"network": lambda _, __: nn.ReLU()}, "must hold an nn.Linear, got ReLU"),
    ({"network": lambda s, c: SoftmaxAtTheEnd(s[0], c)}, "must end in the linear layer 'last'"),
    ({"network": lambda s, c: Refusing(s[0], c)}, "network must .*, got: ValueError"),
    ({"network": lambda s, c: nn.Linear(s[0], c + 1)}, "network must give 2 logits, got 3"),
    ({"network": lambda s, c: nn.Linear(s[0] + 1, c)}, r"network must .*\(\d+,\) .*mat1 and mat2"),
]


@pytest.mark.parametrize(("handed", "words"), HANDED, ids=[words for _, words in HANDED])
def test_what_cannot_be_used_is_refused(handed, words):
    with pytest.raises(ValueError, match=words) as caught:
        fit(**handed)
    if not {"x", "y", "sample_weight"} & set(handed):  # scikit-learn checks those, too
        assert isinstance(caught.value, InputError)


@pytest.mark.parametrize(
    "table", [scipy.sparse.csr_matrix(X), TABLE.set_axis(["a", 1, "c"], axis=1)]
)
def test_types_that_scikit_learn_refuses(table):
    with pytest.raises(TypeError):
        fit(table)
    with pytest.raises(TypeError, match="n_estimators"):
        cw.LCTClassifier(n_estimators=3)


@pytest.mark.parametrize("omega", [0, 1.0, -0.1, 2])
def test_a_loss_must_weigh_both_classes(omega):
    with pytest.raises(InputError, match="omega must lie strictly between 0 and 1, got"):
        cw.VSClassifier(omega=omega, n_members=1).fit(X, Y)


def twice(values):
    return lambda: (TABLE.assign(d=values), TABLE.assign(d=values))


TAKEN = {
    "NaN": lambda: (changed(X, (3, 1), np.nan), X),
    "all-missing column": twice(np.nan),
    "constant column that varies later": lambda: (TABLE.assign(d=1.0), TABLE.assign(d=X[:, 0])),
    "bool": twice(X[:, 0] > 0),
    "object": twice(pd.Series(["u", "v", None] * 40, dtype=object)),
    "object that holds numbers": lambda: (X.astype(object), X),
    "numbers and words": twice(pd.Series([1, "a", 2.5] * 40, dtype=object)),
    "text in an array": lambda: (np.array([["a", "1"], ["b", "2"]] * 60),) * 2,
    "datetime": twice(pd.date_range("2020-01-01", periods=N)),
    "datetime with a zone": twice(pd.date_range("2020-01-01", periods=N, tz="UTC")),
    "timedelta": twice(pd.to_timedelta(np.arange(N), "h")),
    "nullable Int64": twice(pd.array([1, None, 3] * 40, dtype="Int64")),
    "nullable boolean": twice(pd.array([True, None, False] * 40, dtype="boolean")),
    "string": twice(pd.array(["p", "q", None] * 40, dtype="string")),
    "category": twice(pd.Categorical(["p", "q", "r"] * 40)),
    "1e300": lambda: (X * 1e300, X * 1e300),
    "1e-300": lambda: (X * 1e-300, X),
    "float16": lambda: (X.astype(np.float16), X),
    "lists": lambda: (X.tolist(), X.tolist()),
    "a tensor": lambda: (torch.tensor(X), torch.tensor(X)),
    "one index for all rows": lambda: (TABLE.set_axis([5] * N), TABLE.set_axis([5] * N)),
}


@pytest.mark.parametrize("case", TAKEN)
@pytest.mark.filterwarnings("error")
def test_tables_that_are_taken(case):
    train, new = TAKEN[case]()
    probability = fit(train).predict_proba(new)
    assert probability.shape == (len(new), 2)
    assert np.isfinite(probability).all()


def test_a_category_that_training_did_not_have_is_taken_with_a_warning():
    estimator = fit(TABLE.assign(d=pd.Categorical(["p", "q", "r"] * 40)))
    new = TABLE.assign(d=pd.Categorical(["p", "new", "other"] * 40))
    with pytest.warns(UserWarning, match=r"had none of: 'd' \(80, for instance 'new'"):
        probability = estimator.predict_proba(new)
    assert np.isfinite(probability).all()


def test_a_category_of_many_levels_is_dropped_with_a_warning():
    n = 20_000
    levels = pd.DataFrame({"name": [f"level {k}" for k in range(n)], "x": np.arange(n) % 977})
    with pytest.warns(UserWarning, match="'name' is dropped: 20000 categories in 20000 rows"):
        estimator = fit(levels, np.arange(n) % 50 == 0)
    assert estimator.predict(levels[:5]).shape == (5,)


def test_one_row_of_a_class_is_fitted_and_its_probabilities_are_warned_of():
    with pytest.warns(UserWarning, match=r"one row of a class \(class counts \[90, 1\]"):
        estimator = fit(X[:91], np.arange(91) == 7)
    assert estimator.predict_proba(X[:5]).shape == (5, 2)
    assert estimator.ensemble_.trees is None  # nothing is left to judge them by


def test_what_cannot_be_saved(tmp_path):
    for other in (StandardScaler(), 3):
        with pytest.raises(InputError, match="save takes a Model, an LCTClassifier or a VSClass"):
            cw.save(other, tmp_path / "file")
    with pytest.raises(InputError, match="a model is written to a file, got the folder"):
        cw.save(fit(X), tmp_path)
    assert list(tmp_path.iterdir()) == []


PREDICTED = {
    "fewer columns": (X, X[:, :2], ValueError, "X has 2 features, but LCTClassifier is expecting"),
    "missing column": (TABLE, TABLE[["a", "b"]], ValueError, "yet now missing:\n- c"),
    "other order": (TABLE, TABLE[["b", "a", "c"]], ValueError, "must be in the same order"),
    "further column": (TABLE, TABLE.assign(z=1), ValueError, "unseen at fit time:\n- z"),
    "sparse": (X, scipy.sparse.csr_matrix(X), TypeError, "Sparse data was passed"),
    "-inf": (X, changed(X, (3, 1), -np.inf), InputError, "got -inf in row 3"),
    "a word": (TABLE, TABLE.assign(a="word"), InputError, "'a' must hold a number in every row"),
    "no rows": (TABLE, TABLE[:0], InputError, "must have rows and columns"),
    "images": (X, IMAGES, InputError, r"X must .* \(n, d\), got \(40, 8, 8, 1\)"),
}


@pytest.mark.parametrize("case", PREDICTED)
def test_rows_to_score_that_cannot_be(case):
    train, new, error, words = PREDICTED[case]
    with pytest.raises(error, match=words):
        fit(train).predict(new)


def test_images_to_score_that_cannot_be():
    estimator = fit(IMAGES, RARE)
    for other in (IMAGES[:, :6], IMAGES[:, :, :6], IMAGES[:, :, 0, 0]):
        with pytest.raises(InputError, match=r"X must have shape \(n, 8, 8, 1\), got"):
            estimator.predict(other)


def test_a_gap_that_training_did_not_have_is_filled_with_a_warning():
    estimator = fit(TABLE)
    with pytest.warns(UserWarning, match=r"missing where the training data had none: 'b' \(1\)"):
        filled = estimator.predict_proba(TABLE.assign(b=changed(TABLE["b"], 3, np.nan)))
    median = TABLE.assign(b=changed(TABLE["b"], 3, TABLE["b"].median()))
    np.testing.assert_allclose(filled, estimator.predict_proba(median), atol=1e-6)


LABELS = {
    "strings": np.where(Y, "yes", "no"),
    "rare first": np.where(Y, "a", "b"),
    "bools": Y.astype(bool),
    "floats": Y.astype(float),
    "Int64": pd.Series(Y, dtype="Int64"),
    "category": pd.Categorical(np.where(Y, "yes", "no")),
    "string": pd.Series(np.where(Y, "yes", "no"), dtype="string"),
    "list": Y.tolist(),
    "torch": torch.tensor(Y),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_any_type(labels):
    estimator, plain = fit(y=labels, trees=0), fit(trees=0)
    given = np.asarray(labels)
    assert list(estimator.classes_) == sorted(set(given.tolist()))
    assert estimator.positive_class_ == given[Y == 1][0]
    rare = list(estimator.classes_).index(estimator.positive_class_)
    np.testing.assert_allclose(
        estimator.predict_proba(X)[:, rare], plain.predict_proba(X)[:, 1], atol=0.2
    )
    assert set(estimator.predict(X)) <= set(given.tolist())


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        estimator = fit(y=Y[:, None])
    assert np.array_equal(estimator.predict_proba(X), fit().predict_proba(X))


@pytest.mark.parametrize(
    "labels",
    [[0, 1], [0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 1], [*[0] * 99, 1], [*[0] * 98, 1, 1], [0, 1, 2]],
    ids=lambda labels: f"{len(labels)} rows",
)
def test_few_rows_and_few_of_a_class(labels):
    probability = fit(X[: len(labels)], labels).predict_proba(X)
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1)


def test_use_before_fit():
    new = cw.LCTClassifier()
    for use in (new.predict, new.predict_proba, new.predict_log_proba, new.decision_function):
        with pytest.raises(NotFittedError):
            use(X)
    with pytest.raises(NotFittedError):
        new.score_samples(X)
    with pytest.raises(NotFittedError):
        new.choose_operating_point(X, Y, max_fpr=0.1)
