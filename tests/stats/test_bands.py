"""Bands of percentiles, against loops over curves and rates."""

from itertools import pairwise

import numpy as np
import pytest
from model_frames import scored_frame
from sklearn.metrics import roc_curve as sklearn_curve

from curvewise import InputError, roc_band, roc_curve
from curvewise.stats.bands import THIN, percentile_band, roc_bands

Y = np.arange(300) % 3 == 0
RNG = np.random.default_rng(0)
SCORES = [RNG.normal(size=300) + shift * Y for shift in np.linspace(0.3, 2, 41)]
CURVES = [roc_curve(Y, score) for score in SCORES]


def quantile(values, share):
    """Return the value at a share of the way from the lowest to the highest rank."""
    ranked = sorted(values)
    place = share * (len(ranked) - 1)
    below = int(place)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (place - below) * (ranked[above] - ranked[below])


def test_it_is_a_loop_over_rates_and_curves():
    band = percentile_band(CURVES)
    assert len(band.fpr) == len(THIN) + 1
    np.testing.assert_array_equal(band.fpr[1:], THIN)
    # Between the steps of 200 negatives, where a curve has one TPR only.
    apart = np.abs(band.fpr * 200 - np.round(band.fpr * 200)) > 0.1
    oracles = [sklearn_curve(Y, score, drop_intermediate=False) for score in SCORES]
    for k in np.flatnonzero(apart):
        rates = [np.interp(band.fpr[k], fpr, tpr) for fpr, tpr, _ in oracles]
        assert band.mean[k] == pytest.approx(sum(rates) / 41)
        assert (band.minimum[k], band.maximum[k]) == pytest.approx((min(rates), max(rates)))
        assert band.lower[k] == pytest.approx(quantile(rates, 0.025))
        assert band.upper[k] == pytest.approx(quantile(rates, 0.975))
    assert apart.sum() > 50


def test_edges_are_in_order_and_end_in_the_corners():
    band = percentile_band(CURVES, level=0.5)
    edges = [band.minimum, band.lower, band.upper, band.maximum]
    for below, above in pairwise(edges):
        assert (below <= above).all()
    assert {(edge[0], edge[-1]) for edge in edges} == {(0.0, 1.0)}
    wide = percentile_band(CURVES, level=0.95)
    assert (wide.lower <= band.lower).all()
    assert (wide.upper >= band.upper).all()
    assert (wide.upper > band.upper).any()


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="level must lie strictly between 0 and 1, got 0"):
        percentile_band(CURVES, level=0)
    with pytest.raises(InputError, match="at least one curve"):
        percentile_band([])


def test_bands_are_over_all_models_of_a_method():
    cells = [("a", 9.0, seed, Y, {"VS": SCORES[:4], "LCT": SCORES[4:6]}) for seed in (0, 1)]
    bands = roc_bands(scored_frame(cells), grid=[0.25, 0.5])
    assert list(bands) == ["VS", "LCT"]
    expected = roc_band([roc_curve(Y, np.float32(s)) for s in SCORES[:4]] * 2, [0.25, 0.5])
    for name in ("fpr", "mean", "low", "high", "std"):
        np.testing.assert_array_equal(getattr(bands["VS"], name), getattr(expected, name))


def test_the_usual_grid_serves_linear_and_logarithmic_figures():
    fpr = roc_bands(scored_frame([("a", 9.0, 0, Y, {"VS": SCORES[:1]})]))["VS"].fpr
    assert np.diff(fpr).max() < 1.001e-3
    seen = fpr[fpr > 0]
    assert seen[0] == pytest.approx(1e-4)
    assert np.diff(np.log10(seen)).max() < 0.02
