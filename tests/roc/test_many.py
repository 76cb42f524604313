"""Many classes: against scikit-learn and plain loops."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.metrics import recall_score, roc_auc_score

import curvewise as cw
from curvewise.roc.metrics import accuracy_by_frequency, macro_auc, one_vs_rest


@given(st.integers(0, 2**32 - 1), st.integers(3, 6), st.booleans())
def test_areas_are_those_of_scikit_learn(seed, n_classes, ties):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 60)])
    scores = rng.random((len(y), n_classes)) + 0.5 * np.eye(n_classes)[y]
    if ties:
        scores = scores.round(1)
    shares = scores / scores.sum(axis=1, keepdims=True)  # scikit-learn takes probabilities only
    assert macro_auc(y, shares) == pytest.approx(roc_auc_score(y, shares, multi_class="ovr"))
    areas = one_vs_rest(y, scores).areas
    for c in range(n_classes):
        assert areas[c] == pytest.approx(roc_auc_score(y == c, scores[:, c]))


def test_two_columns_of_two_classes_agree():
    y, score = np.array([0, 1, 0, 1, 1]), np.array([0.1, 0.4, 0.5, 0.6, 0.9])
    assert macro_auc(y, np.stack([-score, score], axis=1)) == pytest.approx(cw.auc(y, score))


def test_the_macro_curve_is_the_mean_of_the_curves():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 300)
    found = one_vs_rest(y, rng.normal(size=(300, 4)) + 1.5 * np.eye(4)[y])
    at = [curve.tpr_at(0.2) for curve in found.curves]
    where = int(np.argmin(np.abs(found.macro.fpr - 0.2)))
    assert found.macro.mean[where] == pytest.approx(np.mean(at), abs=0.01)
    assert found.macro.low[where] <= min(at) + 0.01


def test_accuracy_of_head_middle_and_tail():
    rng = np.random.default_rng(1)
    y, predicted = rng.integers(0, 7, 500), rng.integers(0, 7, 500)
    counts = [5, 100, 1, 50, 20, 10, 2]
    recalls = recall_score(y, predicted, average=None)
    head, middle, tail = accuracy_by_frequency(y, predicted, counts)
    assert head == pytest.approx(np.mean([recalls[1], recalls[3], recalls[4]]))
    assert middle == pytest.approx(np.mean([recalls[5], recalls[0]]))
    assert tail == pytest.approx(np.mean([recalls[6], recalls[2]]))
