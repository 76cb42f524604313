"""Curves read between their corners: rates, partial areas, and many averaged into a band."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scored_cases import CASES, every_case
from sklearn import metrics

from curvewise import RocCurve, roc_band, roc_curve

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


def test_rates_on_vertical_flat_and_slanted_segments():
    curve = roc_curve([1, 0, 1, 0], [3, 2, 1, 1])  # up to (0, .5), across to (.5, .5), slanted
    assert curve.tpr_at([0, 0.25, 0.5, 0.75, 1]).tolist() == [0.5, 0.5, 0.5, 0.75, 1]
    assert curve.fpr_at([0, 0.25, 0.5, 0.75, 1]).tolist() == [0, 0, 0, 0.75, 1]
    assert type(curve.tpr_at(0.75)) is float
    assert curve.tpr_at(np.full((2, 3), 0.75)).shape == (2, 3)


@every_case
def test_rates_are_read_off_the_segments(y, score):
    curve = roc_curve(y, score)
    # Corners and points between them.
    rates = np.concatenate([np.linspace(0, 1, 37), curve.fpr, curve.tpr])
    tpr = [highest_tpr(curve, rate) for rate in rates]
    fpr = [lowest_fpr(curve, rate) for rate in rates]
    np.testing.assert_allclose(curve.tpr_at(rates), tpr, atol=1e-14)
    np.testing.assert_allclose(curve.fpr_at(rates), fpr, atol=1e-14)


@every_case
@pytest.mark.parametrize("max_fpr", [0.01, 0.1, 0.5, 0.97])
def test_partial_area_is_that_of_scikit_learn(y, score, max_fpr):
    curve = roc_curve(y, score)
    expected = metrics.roc_auc_score(y, score, max_fpr=max_fpr)
    assert curve.partial_auc(max_fpr=max_fpr, standardized=True) == pytest.approx(expected)
    # For the other class with reversed scores, TPR and 1 - FPR change places.
    expected = metrics.roc_auc_score(1 - np.array(y), -np.array(score), max_fpr=max_fpr)
    found = curve.partial_auc(min_tpr=1 - max_fpr, standardized=True)
    assert found == pytest.approx(expected)


@every_case
def test_partial_area_is_an_integral(y, score):
    curve = roc_curve(y, score)
    middles = (np.arange(4000) + 0.5) / 4000
    under = np.mean([0.3 * highest_tpr(curve, 0.3 * middle) for middle in middles])
    right_of = np.mean([0.3 * (1 - lowest_fpr(curve, 0.7 + 0.3 * middle)) for middle in middles])
    assert curve.partial_auc(max_fpr=0.3) == pytest.approx(under, abs=1e-4)
    assert curve.partial_auc(min_tpr=0.7) == pytest.approx(right_of, abs=1e-4)
    assert curve.partial_auc(max_fpr=1) == pytest.approx(curve.auc, abs=1e-15)


@pytest.mark.parametrize("grid", [None, [0.5], [0.9, 0.1, 0.1], [], np.linspace(0, 1, 23)])
def test_band_averages_vertically(grid):
    band = roc_band(CURVES, grid)
    for position, fpr in enumerate(band.fpr):
        column = [highest_tpr(curve, fpr) if position else 0.0 for curve in CURVES]
        mean = sum(column) / len(column)
        std = (sum((tpr - mean) ** 2 for tpr in column) / len(column)) ** 0.5
        assert band.mean[position] == pytest.approx(mean, abs=1e-12)
        assert band.std[position] == pytest.approx(std, abs=1e-12)
        assert band.low[position] == pytest.approx(min(column), abs=1e-12)
        assert band.high[position] == pytest.approx(max(column), abs=1e-12)


def test_band_has_the_grid_asked_for_and_both_ends():
    assert roc_band(CURVES, [0.9, 0.1, 0.1]).fpr.tolist() == [0, 0, 0.1, 0.9, 1]
    assert roc_band(CURVES, [0, 1]).fpr.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(roc_band(CURVES).fpr[1:], np.linspace(0, 1, 1001))


def test_band_of_one_curve_is_that_curve():
    curve = CURVES[0]
    band = roc_band([curve], curve.fpr)
    np.testing.assert_array_equal(band.mean[1:], curve.tpr_at(band.fpr[1:]))
    np.testing.assert_array_equal(band.low, band.high)
    assert not band.std.any()


def test_area_under_the_mean_is_the_mean_of_areas():
    # Averaging is linear; the one error is that a step climbs over a whole grid cell, not at once.
    expected = np.mean([curve.auc for curve in CURVES])
    band = roc_band(CURVES)
    assert np.trapezoid(band.mean, band.fpr) == pytest.approx(expected, abs=1e-3)
    finer = roc_band(CURVES, np.linspace(0, 1, 100_001))
    assert np.trapezoid(finer.mean, finer.fpr) == pytest.approx(expected, abs=1e-5)


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
    assert (band.low <= band.mean + 1e-15).all()
    assert (band.mean <= band.high + 1e-15).all()
