"""The ROC curve and its area against scikit-learn and a loop over pairs; curves read in between."""

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, strategies as st
from scored_cases import CASES, SCORE, Y, every_case, scored
from sklearn import metrics

from curvewise import RocCurve, auc, roc_band, roc_curve


@every_case
@pytest.mark.parametrize("drop_intermediate", [False, True])
def test_curve_is_that_of_scikit_learn(y, score, drop_intermediate):
    curve = roc_curve(y, score, drop_intermediate=drop_intermediate)
    expected = metrics.roc_curve(y, score, drop_intermediate=drop_intermediate)
    for found, own in zip((curve.fpr, curve.tpr, curve.thresholds), expected, strict=True):
        np.testing.assert_array_equal(found, own)


@every_case
def test_area_counts_pairs_ties_half(y, score):
    won = []
    for label, high in zip(y, score, strict=True):
        for other, low in zip(y, score, strict=True):
            if label == 1 and other == 0:
                won.append(1.0 if high > low else 0.5 if high == low else 0.0)
    assert auc(y, score) == pytest.approx(sum(won) / len(won), abs=1e-15)
    assert roc_curve(y, score).auc == pytest.approx(sum(won) / len(won), abs=1e-14)


@pytest.mark.parametrize("n_positive", [1, 30_000, 119_999])
def test_area_of_many_samples(n_positive):
    # Large inputs are sorted and searched in parts.
    y = np.arange(120_000) < n_positive
    score = np.random.default_rng(0).integers(0, 5_000, len(y)) + 500 * y
    assert auc(y, score) == pytest.approx(metrics.roc_auc_score(y, score), abs=1e-12)


@every_case
@pytest.mark.parametrize("with_zeros", [False, True])
def test_weights_are_those_of_scikit_learn(y, score, with_zeros):
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    if with_zeros and len(y) > 10:
        weight[::5] = 0
    expected = metrics.roc_auc_score(y, score, sample_weight=weight)
    assert auc(y, score, weight=weight) == pytest.approx(expected, abs=1e-14)
    curve = roc_curve(y, score, weight=weight)
    weighed = {"sample_weight": weight, "drop_intermediate": False}
    fpr, tpr, thresholds = metrics.roc_curve(y, score, **weighed)
    # A sample of weight 0 may leave a corner that scikit-learn does not have, on the same spot.
    mine = np.isin(curve.thresholds, thresholds)
    np.testing.assert_allclose(curve.fpr[mine], fpr, atol=1e-14)
    np.testing.assert_allclose(curve.tpr[mine], tpr, atol=1e-14)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int8", "uint8", "bool"]
)
def test_scores_of_any_type_count_as_their_own_values(dtype):
    # Coarse types tie scores that differ; the oracle sees the coarse values, too.
    own = torch.tensor(40 + 20 * SCORE).clip(0, 127)
    tensor = own > 60 if dtype == "bool" else own.to(getattr(torch, dtype))
    expected = metrics.roc_auc_score(Y, tensor.double().numpy())
    # Numpy has no bfloat16 of its own.
    for score in (tensor, (tensor.float() if dtype == "bfloat16" else tensor).numpy()):
        assert auc(Y, score) == pytest.approx(expected, abs=1e-14)
        assert roc_curve(Y, score).auc == pytest.approx(expected, abs=1e-14)


def test_containers_make_no_difference():
    expected = roc_curve(Y, SCORE)
    labels = [Y.tolist(), Y.astype(bool), Y.astype(float), torch.tensor(Y), torch.tensor(Y).bool()]
    scores = [list(SCORE), pd.Series(SCORE), torch.tensor(SCORE, requires_grad=True)]
    for y, score in [*product(labels, [SCORE]), *product([Y], scores)]:
        curve = roc_curve(y, score)
        np.testing.assert_array_equal(curve.tpr, expected.tpr)
        np.testing.assert_array_equal(curve.thresholds, expected.thresholds)
        assert auc(y, score) == auc(Y, SCORE)
    for kind in map(np.finfo, (np.float64, np.float32, np.float16)):
        # Warnings are errors here: the gap between the two overflows.
        assert roc_curve([0, 1], np.array([kind.min, kind.max])).auc == 1


@given(scored)
def test_area_is_a_share_and_only_the_order_of_scores_matters(samples):
    y, score = samples
    area = auc(y, score)
    assert 0 <= area <= 1
    assert auc(y, -score) == pytest.approx(1 - area, abs=1e-15)
    assert auc(1 - y, score) == pytest.approx(1 - area, abs=1e-15)
    stretched = score**3 + score
    assert auc(y, stretched) == area
    np.testing.assert_array_equal(roc_curve(y, stretched).tpr, roc_curve(y, score).tpr)


@given(scored, st.booleans())
def test_curve_climbs_from_corner_to_corner(samples, drop_intermediate):
    curve = roc_curve(*samples, drop_intermediate=drop_intermediate)
    assert (curve.fpr[0], curve.tpr[0], curve.thresholds[0]) == (0, 0, np.inf)
    assert (curve.fpr[-1], curve.tpr[-1]) == (1, 1)
    assert (np.diff(curve.fpr) >= 0).all()
    assert (np.diff(curve.tpr) >= 0).all()
    assert (np.diff(curve.thresholds) < 0).all()


CURVES = [roc_curve(y, score) for y, score in CASES.values()]


def highest_tpr(curve, fpr):
    """Walk the segments, straight from the definition of the curve."""
    best = 0.0
    corners = list(zip(curve.fpr, curve.tpr, strict=True))
    for (left, low), (right, high) in pairwise(corners):
        if left <= fpr <= right:
            share = 1.0 if left == right else (fpr - left) / (right - left)
            best = max(best, low + share * (high - low))
    return best


def lowest_fpr(curve, tpr):
    """Seen from the other class, the lowest FPR is the highest TPR."""
    flipped = RocCurve(1 - curve.tpr[::-1], 1 - curve.fpr[::-1], curve.thresholds[::-1])
    return 1 - highest_tpr(flipped, 1 - tpr)


@every_case
def test_rates_are_read_off_the_segments(y, score):
    curve = roc_curve(y, score)
    # Corners and points between them.
    rates = np.concatenate([np.linspace(0, 1, 37), curve.fpr, curve.tpr])
    tpr = [highest_tpr(curve, rate) for rate in rates]
    fpr = [lowest_fpr(curve, rate) for rate in rates]
    np.testing.assert_allclose(curve.tpr_at(rates), tpr, atol=1e-14)
    np.testing.assert_allclose(curve.fpr_at(rates), fpr, atol=1e-14)
    assert type(curve.tpr_at(0.75)) is float
    assert curve.tpr_at(np.full((2, 3), 0.75)).shape == (2, 3)


@every_case
@pytest.mark.parametrize("max_fpr", [0.01, 0.1, 0.5, 0.97])
def test_partial_area_is_that_of_scikit_learn(y, score, max_fpr):
    curve = roc_curve(y, score)
    expected = metrics.roc_auc_score(y, score, max_fpr=max_fpr)
    assert curve.partial_auc(max_fpr=max_fpr, standardized=True) == pytest.approx(expected)
    # For the other class with reversed scores, TPR and 1 - FPR change places.
    expected = metrics.roc_auc_score(1 - np.array(y), -np.array(score), max_fpr=max_fpr)
    assert curve.partial_auc(min_tpr=1 - max_fpr, standardized=True) == pytest.approx(expected)


@every_case
def test_partial_area_is_an_integral(y, score):
    curve = roc_curve(y, score)
    middles = (np.arange(4000) + 0.5) / 4000
    under = np.mean([0.3 * highest_tpr(curve, 0.3 * middle) for middle in middles])
    right_of = np.mean([0.3 * (1 - lowest_fpr(curve, 0.7 + 0.3 * middle)) for middle in middles])
    assert curve.partial_auc(max_fpr=0.3) == pytest.approx(under, abs=1e-4)
    assert curve.partial_auc(min_tpr=0.7) == pytest.approx(right_of, abs=1e-4)
    assert curve.partial_auc(max_fpr=1) == pytest.approx(curve.auc, abs=1e-15)


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        (None, np.linspace(0, 1, 1001)),
        ([0.9, 0.1, 0.1], [0, 0.1, 0.9, 1]),
        ([0, 1], [0, 1]),
        ([], [0, 1]),
        (np.linspace(0, 1, 23), np.linspace(0, 1, 23)),
    ],
)
def test_band_averages_vertically_on_the_grid_asked_for_and_at_both_ends(grid, expected):
    band = roc_band(CURVES, grid)
    np.testing.assert_array_equal(band.fpr, [0, *expected])
    for position, fpr in enumerate(band.fpr):
        column = [highest_tpr(curve, fpr) if position else 0.0 for curve in CURVES]
        mean = sum(column) / len(column)
        std = (sum((tpr - mean) ** 2 for tpr in column) / len(column)) ** 0.5
        assert (band.mean[position], band.std[position]) == pytest.approx((mean, std), abs=1e-12)
        ends = (band.low[position], band.high[position])
        assert ends == pytest.approx((min(column), max(column)), abs=1e-12)


whole_scores = st.lists(st.integers(-4, 4), min_size=2, max_size=12)
rates = st.lists(st.floats(0, 1), max_size=8)


@given(st.lists(whole_scores, min_size=1, max_size=4), rates)
def test_band_climbs_from_corner_to_corner_and_is_never_nan(runs, grid):
    # Every second sample is positive, so that both classes are there.
    band = roc_band([roc_curve(np.arange(len(run)) % 2, run) for run in runs], grid)
    for line in (band.fpr, band.mean, band.low, band.high):
        assert (line[0], line[-1]) == (0, 1)
        assert (np.diff(line) >= -1e-15).all()
    assert np.isfinite(band.std).all()
    assert (np.diff([band.low, band.mean, band.high], axis=0) >= -1e-15).all()
