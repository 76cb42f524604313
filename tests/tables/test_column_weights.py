"""Weights of columns by Welch's t: against scipy, and with weighted rows."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from curvewise.base.errors import InputError
from curvewise.tables.quantiles import column_weights

Table = NDArray[np.float64]


def weight_by_hand(t: float, kind: str) -> float:
    if kind == "mild":
        return max(0.1, math.sqrt(t**2 / (t**2 + 4)))
    return max(0.03, t**2 / (t**2 + 6))


def largest_t(x: Table, y: NDArray[Any]) -> list[float]:
    each = [ttest_ind(x[y == c], x[y != c], equal_var=False).statistic for c in np.unique(y)]
    return np.abs(each).max(axis=0).tolist()


@pytest.mark.parametrize("kind", ["mild", "strong"])
@pytest.mark.parametrize("classes", [["no", "yes"], [3, 5, 9]])
def test_weights_are_those_of_welch(kind: str, classes: list[Any]) -> None:
    rng = np.random.default_rng(len(classes))
    y = np.array(classes)[np.minimum(rng.geometric(0.5, 10_000), len(classes)) - 1]
    shift = np.array([0, 0.01, 0.03, 0.1, 1, 0, 0])
    x = rng.normal(size=(10_000, 7)) * (1 + 2 * (y == classes[-1]))[:, None] + 1000
    x += shift * (y == classes[-1])[:, None]
    expected = [weight_by_hand(t, kind) for t in largest_t(x, y)]
    np.testing.assert_allclose(column_weights(x, y, kind), expected, rtol=1e-9)
    assert min(expected) < 0.6 < 0.9 < max(expected)


def test_weights_of_nothing_and_of_everything_and_of_a_constant() -> None:
    y = np.repeat([0, 1], 10)
    x = np.stack([np.full(20, 0.1), y, np.tile([0.0, 1], 10)], axis=1)
    assert column_weights(x, y, "none").tolist() == [1, 1, 1]
    assert column_weights(x, y, "mild").tolist() == [0.1, 1, 0.1]
    assert column_weights(x, y, "strong").tolist() == [0.03, 1, 0.03]
    x = np.tile([0.1, 0.7, 1 / 3, 123.456, -1e8 / 3], (1000, 1))
    y = np.arange(1000) % 7 == 0
    assert column_weights(x, y, "strong").tolist() == [0.03] * 5


def test_a_lone_row_borrows_the_variance_of_the_others() -> None:
    x = np.array([[1.0], [2], [3], [4], [10]])
    t = (10 - 2.5) / math.sqrt(5 / 3 / 4 + 5 / 3)
    expected = weight_by_hand(t, "strong")
    y = np.array([0, 0, 0, 0, 1])
    assert column_weights(x, y, "strong")[0] == pytest.approx(expected)
    assert column_weights(x, 1 - y, "strong")[0] == pytest.approx(expected)
    assert column_weights(x[3:], y[3:], "strong").tolist() == [1]


def weighted_t(x: list[float], y: list[int], w: list[float]) -> float:
    means, errors = [], []
    for label in (0, 1):
        own = [(a, c) for a, b, c in zip(x, y, w, strict=True) if b == label]
        total = sum(c for _, c in own)
        mean = sum(c * a for a, c in own) / total
        size = total**2 / sum(c**2 for _, c in own)
        variance = sum(c * (a - mean) ** 2 for a, c in own) / total * size / (size - 1)
        means.append(mean)
        errors.append(variance / size)
    return (means[0] - means[1]) / math.sqrt(sum(errors))


@given(st.integers(0, 1000), st.floats(1e-6, 1e6))
def test_sample_weights(seed: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    w = rng.random(40) + 0.1
    expected = [weight_by_hand(weighted_t(c.tolist(), y.tolist(), w.tolist()), "mild") for c in x.T]
    weights = column_weights(x, y, "mild", sample_weight=w)
    np.testing.assert_allclose(weights, expected, rtol=1e-9)
    np.testing.assert_allclose(column_weights(x, y, "mild", sample_weight=factor * w), weights)
    # Equal weights are none, and rows of weight 0 are not there, whatever they hold.
    plain = column_weights(x, y, "mild")
    np.testing.assert_allclose(column_weights(x, y, "mild", sample_weight=np.full(40, 2)), plain)
    more, labels = np.vstack([[[np.nan, 7]], x]), np.append(2, y)
    with_nothing = column_weights(more, labels, "mild", sample_weight=np.append(0, np.ones(40)))
    np.testing.assert_array_equal(with_nothing, plain)


def test_one_class_has_no_weights() -> None:
    x = np.array([[1.0], [2.0], [3.0]])
    for y, weight in ([1, 1, 1], [1, 1, 1]), ([0, 1, 1], [0, 1, 1]):
        with pytest.raises(InputError, match=r"two or more classes, got \[1\]"):
            column_weights(x, np.array(y), "mild", sample_weight=np.array(weight))
