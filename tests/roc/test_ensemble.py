"""Many models as one score, against plain loops, and what it must not depend on."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import rankdata, zscore

from curvewise import auc, ensemble_score

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(5, 40)) * [[1], [0.01], [300], [1], [2]] + [[0], [5], [-7], [1e6], [0]]
SCORES[2] = np.round(SCORES[2] / 100)  # with ties


def loop_standardised(scores):
    total = [0.0] * len(scores[0])
    for row in scores:
        mean = sum(row) / len(row)
        std = (sum((value - mean) ** 2 for value in row) / len(row)) ** 0.5
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


def test_standardised_is_the_loop():
    rows = SCORES.tolist()
    np.testing.assert_allclose(ensemble_score(SCORES), loop_standardised(rows), atol=1e-8)
    np.testing.assert_allclose(ensemble_score(SCORES), zscore(SCORES, axis=1).mean(0), atol=1e-8)


def test_rank_is_the_loop():
    found = ensemble_score(SCORES, "rank")
    np.testing.assert_allclose(found, loop_rank(SCORES.tolist()), atol=1e-14)
    ranks = np.mean([(rankdata(row) - 0.5) / 40 for row in SCORES], axis=0)
    np.testing.assert_allclose(found, ranks, atol=1e-15)
    assert found.min() > 0
    assert found.max() < 1
    assert found.mean() == pytest.approx(0.5)


def test_samples_of_equal_rank_sums_stay_tied():
    scores = [[1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1], [1, 1, 1, 1, 1, 1, 1]]
    assert set(ensemble_score(scores, "rank")) == {0.5}  # sums of sevenths would differ


def test_a_constant_model_counts_nothing_and_dilutes_the_mean():
    for constant in (0.0, 0.1, -1e300):
        with_it = ensemble_score(np.vstack([SCORES, np.full(40, constant)]))
        np.testing.assert_allclose(with_it, ensemble_score(SCORES) * 5 / 6, atol=1e-15)
    assert ensemble_score([[0.1, 0.1, 0.1]]).tolist() == [0, 0, 0]
    assert ensemble_score([[0.1, 0.1, 0.1]], "rank").tolist() == [0.5, 0.5, 0.5]
    assert ensemble_score([[3.0]]).tolist() == [0]


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
def test_one_model_ranks_as_before_and_many_rank_better(method):
    y = RNG.random(500) < 0.2
    scores = y + RNG.normal(size=(20, 500))
    assert auc(y, ensemble_score(scores[:1], method)) == auc(y, scores[0])
    assert auc(y, ensemble_score(scores, method)) > max(auc(y, score) for score in scores)


def test_large_values_and_offsets_cost_no_digits():
    row = np.array([0.0, 1.0, 3.0])
    expected = ensemble_score([row])
    for moved in (row * 5e307, row * 5e-324, row + 2.0**50, row * 1e300 - 1e300):
        np.testing.assert_allclose(ensemble_score([moved]), expected, atol=1e-12)
    widest = ensemble_score([[-1.5e308, 0.0, 1.5e308]])
    np.testing.assert_allclose(widest, ensemble_score([[-1.0, 0.0, 1.0]]), atol=1e-12)


@pytest.mark.parametrize("method", ["standardised", "rank"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "bool"])
def test_any_numbers_and_tensors_are_combined_in_double_precision(method, dtype):
    scores = (SCORES[[0, 4]] > 0 if dtype == "bool" else SCORES[[0, 4]] * 10).astype(dtype)
    kept = scores.copy()
    found = ensemble_score(scores, method)
    assert found.dtype == np.float64
    expected = ensemble_score(scores.astype(np.float64), method)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(ensemble_score(torch.from_numpy(scores), method), expected)
    np.testing.assert_array_equal(scores, kept)  # the caller's array is not written to
    if dtype == "float32":
        doubles = scores.astype(np.float64)
        before = doubles.copy()
        ensemble_score(doubles, method)
        np.testing.assert_array_equal(doubles, before)


@pytest.mark.parametrize("method", ["standardised", "rank"])
def test_memory_grows_with_samples_not_with_models(method):
    scores = RNG.normal(size=(200, 5000)).astype(np.float32)
    tracemalloc.start()
    ensemble_score(scores, method)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 5000 * 8  # a dozen vectors; all models in float64 would be 200
