"""Metrics against scikit-learn; many classes and many models against plain loops."""

import tracemalloc
from math import sqrt
from statistics import fmean, pstdev

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scored_cases import SCORE, Y, every_case, scored
from sklearn import metrics
from sklearn.metrics import recall_score, roc_auc_score

from curvewise import binary_metrics, ensemble_score
from curvewise.roc.metrics import accuracy_by_frequency, macro_auc, one_vs_rest


@every_case
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_metric_is_that_of_scikit_learn(y, score, threshold, weighted):
    weight = np.random.default_rng(1).random(len(y)) + 0.1 if weighted else None
    found = binary_metrics(y, score, threshold, fbeta=3, weight=weight)
    called = (np.asarray(score) >= threshold).astype(int)
    weigh = {"sample_weight": weight}
    quiet = {"sample_weight": weight, "zero_division": 0}
    tpr = metrics.recall_score(y, called, **weigh)
    tnr = metrics.recall_score(y, called, pos_label=0, **weigh)
    precision, recall, _ = metrics.precision_recall_curve(y, score, **weigh)
    expected = {
        "tpr": tpr,
        "fpr": 1 - tnr,
        "precision": metrics.precision_score(y, called, **quiet),
        "accuracy": metrics.accuracy_score(y, called, **weigh),
        "f1": metrics.f1_score(y, called, **quiet),
        "fbeta": metrics.fbeta_score(y, called, beta=3, **quiet),
        "gmean": sqrt(tpr * tnr),
        "auroc": metrics.roc_auc_score(y, score, **weigh),
        "auprc": metrics.auc(recall, precision),
        "average_precision": metrics.average_precision_score(y, score, **weigh),
    }
    for name, value in expected.items():
        # The root in gmean turns a rounding of 1e-16 under it into 1e-8.
        tolerance = 1e-7 if name == "gmean" else 1e-12
        assert getattr(found, name) == pytest.approx(value, abs=tolerance), name


def test_nothing_called_positive_gives_zeros_and_everything_no_more_than_all():
    found = binary_metrics(Y, SCORE, threshold=20.0)
    assert (found.tpr, found.fpr, found.gmean) == (0, 0, 0)
    assert (found.precision, found.f1, found.fbeta) == (0, 0, 0)
    assert found.accuracy == np.mean(Y == 0)
    # How the scores rank has nothing to do with the threshold.
    assert found.auroc == binary_metrics(Y, SCORE).auroc
    # F-beta at 0 is precision, here too.
    assert binary_metrics(Y, SCORE, threshold=20.0, fbeta=0).fbeta == 0
    for weight in np.random.default_rng(0).random((30, len(Y))):
        found = binary_metrics(Y, SCORE, threshold=-20.0, weight=weight)
        assert found.fpr == pytest.approx(1)
        assert found.fpr <= 1
        assert found.gmean == pytest.approx(0, abs=1e-7)


@given(scored, st.integers(-7, 7), st.floats(0.1, 10))
def test_every_metric_is_a_share(samples, threshold, fbeta):
    found = binary_metrics(*samples, threshold, fbeta=fbeta)
    assert all(0 <= value <= 1 + 1e-12 for value in vars(found).values()), found


@given(st.integers(0, 2**32 - 1), st.integers(3, 6), st.booleans())
@settings(max_examples=30)
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


def test_the_macro_curve_is_the_mean_and_accuracy_is_that_of_head_middle_and_tail():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 300)
    found = one_vs_rest(y, rng.normal(size=(300, 4)) + 1.5 * np.eye(4)[y])
    at = [curve.tpr_at(0.2) for curve in found.curves]
    where = int(np.argmin(np.abs(found.macro.fpr - 0.2)))
    assert found.macro.mean[where] == pytest.approx(np.mean(at), abs=0.01)
    assert found.macro.low[where] <= min(at) + 0.01
    rng = np.random.default_rng(1)
    y, predicted = rng.integers(0, 7, 500), rng.integers(0, 7, 500)
    counts = [5, 100, 1, 50, 20, 10, 2]
    recalls = recall_score(y, predicted, average=None)
    head, middle, tail = accuracy_by_frequency(y, predicted, counts)
    assert head == pytest.approx(np.mean([recalls[1], recalls[3], recalls[4]]))
    assert middle == pytest.approx(np.mean([recalls[5], recalls[0]]))
    assert tail == pytest.approx(np.mean([recalls[6], recalls[2]]))


RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(5, 40)) * [[1], [0.01], [300], [1], [2]] + [[0], [5], [-7], [1e6], [0]]
SCORES[2] = np.round(SCORES[2] / 100)  # with ties


def loop_standardised(scores):
    total = [0.0] * len(scores[0])
    for row in scores:
        mean, std = fmean(row), pstdev(row)
        for position, value in enumerate(row):
            total[position] += (value - mean) / std / len(scores)
    return total


def loop_rank(scores):
    """Count, for each sample, those below it and half of those equal to it, itself included."""
    total = [0.0] * len(scores[0])
    for row in scores:
        for position, value in enumerate(row):
            below = sum(other < value for other in row)
            same = sum(other == value for other in row)
            total[position] += (below + same / 2) / len(row) / len(scores)
    return total


def test_an_ensembles_score_is_the_loop_also_of_constants_ties_and_large_values():
    found = ensemble_score(SCORES)
    np.testing.assert_allclose(found, loop_standardised(SCORES.tolist()), atol=1e-8)
    found = ensemble_score(SCORES, "rank")
    np.testing.assert_allclose(found, loop_rank(SCORES.tolist()), atol=1e-14)
    for constant in (0.0, 0.1, -1e300):
        with_it = ensemble_score(np.vstack([SCORES, np.full(40, constant)]))
        np.testing.assert_allclose(with_it, ensemble_score(SCORES) * 5 / 6, atol=1e-15)
    assert ensemble_score([[0.1, 0.1, 0.1]]).tolist() == [0, 0, 0]
    assert ensemble_score([[0.1, 0.1, 0.1]], "rank").tolist() == [0.5, 0.5, 0.5]
    assert ensemble_score([[3.0]]).tolist() == [0]
    scores = [[1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1], [1] * 7]
    assert set(ensemble_score(scores, "rank")) == {0.5}  # sums of sevenths would differ
    # Large values and offsets cost no digits.
    row = np.array([0.0, 1.0, 3.0])
    expected = ensemble_score([row])
    for moved in (row * 5e307, row * 5e-324, row + 2.0**50, row * 1e300 - 1e300):
        np.testing.assert_allclose(ensemble_score([moved]), expected, atol=1e-12)
    widest = ensemble_score([[-1.5e308, 0.0, 1.5e308]])
    np.testing.assert_allclose(widest, ensemble_score([[-1.0, 0.0, 1.0]]), atol=1e-12)


# Multiples of 1/8 stay exact when shifted and stretched by whole numbers.
eighths = st.integers(-4000, 4000).map(lambda value: value / 8)
members = st.tuples(st.integers(1, 4), st.integers(1, 9)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=eighths)
)


@given(members, st.integers(1, 1000), st.integers(-1000, 1000))
def test_standardised_does_not_see_scale_and_offset_of_a_model(scores, scale, offset):
    moved = scores.copy()
    moved[0] = moved[0] * scale + offset
    np.testing.assert_allclose(ensemble_score(moved), ensemble_score(scores), atol=1e-9)


@given(members)
def test_rank_sees_only_the_order(scores):
    moved = scores.copy()
    moved[0] = np.arctan(moved[0] / 100)
    moved[-1] = moved[-1] ** 3
    np.testing.assert_array_equal(ensemble_score(moved, "rank"), ensemble_score(scores, "rank"))


@given(members, st.sampled_from(["standardised", "rank"]), st.randoms())
def test_order_of_models_and_samples_does_not_matter(scores, method, random):
    found = ensemble_score(scores, method)
    models = random.sample(range(len(scores)), len(scores))
    samples = random.sample(range(scores.shape[1]), scores.shape[1])
    shuffled = ensemble_score(scores[models][:, samples], method)
    np.testing.assert_allclose(shuffled, found[samples], atol=1e-12)


@pytest.mark.parametrize("method", ["standardised", "rank"])
@pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "bool"])
def test_any_numbers_and_tensors_are_combined_in_double_precision(method, dtype):
    scores = (SCORES[[0, 4]] > 0 if dtype == "bool" else SCORES[[0, 4]] * 10).astype(dtype)
    kept = scores.copy()
    found = ensemble_score(scores, method)
    assert found.dtype == np.float64
    expected = ensemble_score(scores.astype(np.float64), method)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(ensemble_score(torch.from_numpy(scores), method), expected)
    np.testing.assert_array_equal(scores, kept)  # the caller's array is not written to


@pytest.mark.parametrize("method", ["standardised", "rank"])
def test_memory_grows_with_samples_not_with_models(method):
    scores = RNG.normal(size=(200, 5000)).astype(np.float32)
    tracemalloc.start()
    ensemble_score(scores, method)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 5000 * 8  # a dozen vectors; all models in float64 would be 200
