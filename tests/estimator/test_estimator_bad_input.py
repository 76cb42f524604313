"""What people hand in: each gives what a scikit-learn user expects, an error or a model."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
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


class Refusing(nn.Linear):
    def forward(self, x):
        raise ValueError


# What is handed to `fit`, and the words (regex) that the error, always a ValueError, must say.
HANDED = [
    ({"y": np.zeros(N)}, "y must .* one class"),
    ({"y": changed(Y, 3, np.nan)}, "y contains NaN"),
    ({"y": [None, *["ab"[c] for c in Y[1:]]]}, "y .* row 0"),
    ({"y": pd.Series([None, *Y[1:]], dtype="Int64")}, "y contains NaN"),
    ({"y": np.array([7, *["ab"[c] for c in Y[1:]]], object)}, "y must .* int, str"),
    ({"y": np.stack([Y, Y], 1)}, "1d array"),
    ({"y": Y[:-1]}, r"\[120, 119\]"),
    ({"x": changed(X, (3, 1), np.inf)}, "'1' must be finite, got inf in row 3"),
    ({"x": TABLE.set_axis(["a", "b", "a"], axis=1)}, "names must differ, got 'a'"),
    ({"x": TABLE[[]]}, r"rows and columns, got shape \(120, 0\)"),
    ({"x": X[:, :, None]}, r"X must .* \(120, 3, 1\)"),
    ({"x": np.ones((N, 2))}, r"got '0' \(constant\)"),
    ({"sample_weight": changed(np.ones(N), 3, -1)}, "Negative values"),
    ({"sample_weight": np.zeros(N)}, "(at least one non-zero|weight above 0)"),
    ({"sample_weight": np.ones(N - 1)}, r"\(119,\), expected \(120,\)"),
    ({"sample_weight": 1.0 - Y}, r"weight above 0, got one class: \[0\]"),
    ({"groups": np.zeros((N, 2))}, r"groups .* \(120,\), got \(120, 2\)"),
    ({"groups": [None, *["a"] * (N - 1)]}, "groups .* row 0"),
    ({"x": IMAGES / 128, "y": RARE}, r"\[0, 1\], got float64"),
    ({"x": np.full(IMAGES.shape, np.nan), "y": RARE}, r"\[0, 1\]"),
    ({"x": np.zeros((40, 8, 8, 2)), "y": RARE}, r"images .* \(40, 8, 8, 2\)"),
    ({"x": np.zeros((40, 2, 2, 1)), "y": RARE}, "images of at least 4x4"),
    ({"x": IMAGES[:0], "y": RARE}, "must have rows and columns"),
    *(  # chance weights are no backbone
        ({"x": IMAGES, "y": RARE, "backbone": name}, f"backbone must be .* {name!r}")
        for name in ("small-cnn", 3)
    ),
    ({"n_members": 0}, "n_members must be >= 1.*, got 0"),
    ({"n_members": 2.5}, "n_members must be .*, got 2.5"),
    *(({"trees": value}, "trees must be") for value in (-1, True)),
    ({"n_jobs": "x"}, "n_jobs must be .*, got 'x'"),
    ({"hidden": "64"}, "hidden must be .*, got '64'"),
    ({"hidden": (0,)}, "hidden must be .*, got 0"),
    ({"tau_range": (3, 0)}, r"tau_range must be \(low, high\).*, got \(3, 0\)"),
    ({"tau_range": 3}, r"tau_range must be .*, got 3"),
    ({"tau_range": (-1, 2)}, "low of tau must be >= 0"),
    ({"steps": 0}, "steps must be >= 1"),
    ({"batch_size": 0}, "batch_size must be >= 2"),
    ({"learning_rate": "1e-3"}, "learning_rate must be"),
    ({"learning_rate": 0}, "learning_rate must be greater than 0 and finite, got 0"),
    ({"learning_rate": 1e9, "steps": 30}, "no member could be trained: .* smaller learning rate"),
    ({"weight_decay": -1}, "weight_decay must be >= 0"),
    ({"prior": 2}, r"prior must lie strictly between 0 and 1, got 2"),
    ({"prior": [0.2, 0.2]}, r"prior must .* sum to 1, got \[0.2, 0.2\]"),
    ({"prior": [0.1, 0.2, 0.7]}, "prior must hold 2 probabilities"),
    ({"calibration_fraction": 2}, r"calibration_fraction must be in \[0, 0.9\]"),
    ({"calibration_fraction": 0.001}, "calibration_fraction = 0.001 must leave every class"),
    ({"verbose": "x"}, "verbose must be a whole number, got 'x'"),
    ({"warm_start": "no"}, "warm_start must be True or False, got 'no'"),
    ({"backbone": "efficientnet-lite0"}, r"backbone needs images \(n, H, W, C\), got 2 dim"),
    ({"network": "mlp"}, "network must be .*, got 'mlp'"),
    ({"network": lambda _, __: 3}, "network must return an nn.Module, got int"),
    ({"network": lambda _, __: nn.ReLU()}, "must hold an nn.Linear, got ReLU"),
    (
        {"network": lambda s, c: nn.Sequential(nn.Linear(s[0], c), nn.Softmax(1))},
        "network must end in the linear layer '0'",
    ),
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


def test_a_loss_must_weigh_both_classes_and_a_fit_comes_before_its_use():
    for omega in (0, 1.0):
        with pytest.raises(InputError, match="omega must lie strictly between 0 and 1, got"):
            cw.VSClassifier(omega=omega, n_members=1).fit(X, Y)
    for use in (cw.LCTClassifier().score_samples, cw.LCTClassifier().choose_operating_point):
        with pytest.raises(NotFittedError):
            use(X)


def twice(values):
    return lambda: (TABLE.assign(d=values), TABLE.assign(d=values))


TAKEN = {
    "NaN": lambda: (changed(X, (3, 1), np.nan), X),
    "all-missing column": twice(np.nan),
    "constant column that varies later": lambda: (TABLE.assign(d=1.0), TABLE.assign(d=X[:, 0])),
    "object that holds numbers": lambda: (X.astype(object), X),
    "text in an array": lambda: (np.array([["a", "1"], ["b", "2"]] * 60),) * 2,
    "datetime with a zone": twice(pd.date_range("2020-01-01", periods=N, tz="UTC")),
    "nullable Int64": twice(pd.array([1, None, 3] * 40, dtype="Int64")),
    "category": twice(pd.Categorical(["p", "q", "r"] * 40)),
    "1e300": lambda: (X * 1e300, X * 1e300),
    "1e-300": lambda: (X * 1e-300, X),
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


def test_new_categories_and_one_row_of_a_class_are_taken_with_a_warning():
    estimator = fit(TABLE.assign(d=pd.Categorical(["p", "q", "r"] * 40)))
    new = TABLE.assign(d=pd.Categorical(["p", "new", "other"] * 40))
    with pytest.warns(UserWarning, match=r"had none of: 'd' \(80, for instance 'new'"):
        probability = estimator.predict_proba(new)
    assert np.isfinite(probability).all()
    with pytest.warns(UserWarning, match=r"one row of a class \(class counts \[90, 1\]"):
        estimator = fit(X[:91], np.arange(91) == 7)
    assert estimator.predict_proba(X[:5]).shape == (5, 2)
    assert estimator.ensemble_.trees is None  # nothing is left to judge them by


PREDICTED = [
    (TABLE[["b", "a", "c"]], ValueError, "must be in the same order"),
    (changed(X, (3, 1), -np.inf), InputError, "got -inf in row 3"),
    (TABLE.assign(a="word"), InputError, "'a' must hold a number in every row"),
    (TABLE[:0], InputError, "must have rows and columns"),
    (IMAGES, InputError, r"X must .* \(n, d\), got \(40, 8, 8, 1\)"),
]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_rows_to_score_that_cannot_be():
    of_table, of_images = fit(TABLE), fit(IMAGES, RARE)
    for new, error, words in PREDICTED:
        with pytest.raises(error, match=words):
            of_table.predict(new)
    for other in (IMAGES[:, :6], IMAGES[:, :, :6], IMAGES[:, :, 0, 0]):
        with pytest.raises(InputError, match=r"X must have shape \(n, 8, 8, 1\), got"):
            of_images.predict(other)


LABELS = {
    "Int64": pd.Series(Y, dtype="Int64"),
    "string": pd.Series(np.where(Y, "yes", "no"), dtype="string"),
    "torch": torch.tensor(Y),
}


def test_labels_of_any_type():
    plain = fit(trees=0).predict_proba(X)
    for labels in LABELS.values():
        estimator, given = fit(y=labels, trees=0), np.asarray(labels)
        assert list(estimator.classes_) == sorted(set(given.tolist()))
        assert estimator.positive_class_ == given[Y == 1][0]
        rare = list(estimator.classes_).index(estimator.positive_class_)
        np.testing.assert_allclose(estimator.predict_proba(X)[:, rare], plain[:, 1], atol=0.2)
        assert set(estimator.predict(X)) <= set(given.tolist())


@pytest.mark.parametrize("labels", [[0, 1], [0] * 6 + [1] * 2, [0] * 98 + [1] * 2, [0, 1, 2]])
def test_few_rows_and_few_of_a_class(labels):
    probability = fit(X[: len(labels)], labels).predict_proba(X)
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1)
