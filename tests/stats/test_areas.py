"""AUC in cells, by method, its differences, and bands of curves, against plain loops."""

from itertools import pairwise
from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from model_frames import area_frame, scored_frame
from sklearn.metrics import roc_curve as sklearn_curve

from curvewise import roc_band, roc_curve
from curvewise.stats.areas import THIN, by_cell, by_method, differences, percentile_band, roc_bands

AREAS = st.lists(st.floats(0, 1), min_size=2, max_size=6)
CELLS = [
    ("a", 100.0, 0, {"VS": [0.5, 0.7, 0.9], "LCT": [0.6, 0.65]}),
    ("a", 10.0, 0, {"VS": [0.8, 0.7], "LCT": [0.9]}),
    ("a", None, 1, {"VS": [0.4], "LCT": [0.3, None]}),
]


def test_cells_have_the_statistics_of_their_models():
    found = by_cell(area_frame(CELLS))
    expected = [(*cell[:3], method, own) for cell in CELLS for method, own in cell[3].items()]
    for row, (task, beta, seed, method, areas) in zip(found.itertuples(), expected, strict=True):
        there = [area for area in areas if area is not None]
        assert (row.task, row.seed, row.method) == (task, seed, method)
        assert row.beta == beta or (np.isnan(row.beta) and beta is None)
        assert (row.models, row.diverged) == (len(there), len(areas) - len(there))
        assert (row.min, row.max) == (min(there), max(there))
        assert row.mean == pytest.approx(mean(there), abs=1e-12)
        expected_std = stdev(there) if len(there) > 1 else np.nan  # divided by models - 1
        assert row.std == pytest.approx(expected_std, abs=1e-12, nan_ok=True)


def test_a_method_is_averaged_over_cells_not_over_models():
    cells = [
        ("a", None, 0, {"VS": [0.5, 0.7, None, None], "CE": [0.6], "SAM": [None, None]}),
        ("b", None, 0, {"VS": [0.9, 0.8, 0.7, 0.8]}),
        ("c", None, 0, {"VS": [0.4]}),
    ]
    vs, ce, sam = by_method(area_frame(cells)).to_dict("records")
    assert [vs.pop(name) for name in ("method", "cells", "models", "diverged")] == ["VS", 3, 7, 2]
    means = {"mean": (0.6 + 0.8 + 0.4) / 3, "min": (0.5 + 0.7 + 0.4) / 3}
    means["max"] = (0.7 + 0.9 + 0.4) / 3
    means["std"] = (stdev([0.5, 0.7]) + stdev([0.9, 0.8, 0.7, 0.8])) / 2
    assert vs == pytest.approx(means)
    assert (ce["cells"], ce["models"], ce["mean"]) == (1, 1, 0.6)
    assert np.isnan(ce["std"])
    assert (sam["method"], sam["cells"], sam["models"], sam["diverged"]) == ("SAM", 0, 0, 2)
    assert np.isnan(sam["mean"])


@given(st.lists(st.tuples(AREAS, AREAS), min_size=1, max_size=5))
@settings(max_examples=30)
def test_differences_are_those_of_numpy(pairs):
    cells = [("a", 10.0, k, {"A": a, "B": b}) for k, (a, b) in enumerate(pairs)]
    found = differences(area_frame(cells), "A", "B")
    for row, (a, b) in zip(found.itertuples(), pairs, strict=True):
        assert row.mean == pytest.approx(np.mean(b) - np.mean(a), abs=1e-9)
        assert (row.min, row.max) == pytest.approx((min(b) - min(a), max(b) - max(a)), abs=1e-09)
        assert row.std == pytest.approx(np.std(b, ddof=1) - np.std(a, ddof=1), abs=1e-9)


def test_cells_that_lack_a_method_are_left_out_and_rounding_errors_are_no_differences():
    cells = [
        ("a", None, 0, {"A": [0.5], "B": [0.6]}),
        ("b", None, 0, {"A": [0.5], "B": [None]}),
        ("c", None, 0, {"B": [0.5]}),
    ]
    found = differences(area_frame(cells), "A", "B")
    assert found["task"].tolist() == ["a"]
    assert list(found) == ["task", "beta", "seed", "max", "mean", "min", "std"]
    assert np.isnan(found["std"]).all()  # one model has none
    assert differences(area_frame(cells), "A", "C").empty
    cells = [("a", 9.0, 0, {"A": [0.1 + 0.2], "B": [0.3]})]
    assert differences(area_frame(cells), "A", "B")["mean"].tolist() == [0.0]


Y = np.arange(300) % 3 == 0
RNG = np.random.default_rng(0)
SCORES = [RNG.normal(size=300) + shift * Y for shift in np.linspace(0.3, 2, 41)]


def test_a_band_of_percentiles_is_a_loop_over_rates_and_curves():
    band = percentile_band(scored_frame([("a", 9.0, 0, Y, {"VS": SCORES})]))
    np.testing.assert_array_equal(band["fpr"][1:], THIN)
    edges = ["minimum", "lower", "upper", "maximum"]
    for below, above in pairwise(edges):
        assert (band[below] <= band[above]).all()
    assert {(band[edge].iloc[0], band[edge].iloc[-1]) for edge in edges} == {(0.0, 1.0)}
    # Between the steps of 200 negatives, where a curve has one TPR only.
    apart = np.abs(band["fpr"] * 200 - np.round(band["fpr"] * 200)) > 0.1
    oracles = [sklearn_curve(Y, score, drop_intermediate=False) for score in SCORES]
    for row in band[apart].itertuples():
        rates = sorted(np.interp(row.fpr, fpr, tpr) for fpr, tpr, _ in oracles)
        assert row.mean == pytest.approx(sum(rates) / 41)
        assert (row.minimum, row.maximum) == pytest.approx((rates[0], rates[-1]))
        # Ranks are 0 to 40: 2.5 % of the way is the first.
        assert (row.lower, row.upper) == pytest.approx((rates[1], rates[39]))
    assert apart.sum() > 50


def test_bands_are_over_all_models_of_a_method():
    cells = [("a", 9.0, seed, Y, {"VS": SCORES[:4], "LCT": SCORES[4:6]}) for seed in (0, 1)]
    bands = roc_bands(scored_frame(cells), grid=[0.25, 0.5])
    assert list(bands) == ["VS", "LCT"]
    expected = roc_band([roc_curve(Y, np.float32(s)) for s in SCORES[:4]] * 2, [0.25, 0.5])
    for name in ("fpr", "mean", "low", "high", "std"):
        np.testing.assert_array_equal(getattr(bands["VS"], name), getattr(expected, name))
    # The usual grid serves linear and logarithmic figures.
    fpr = roc_bands(scored_frame([("a", 9.0, 0, Y, {"VS": SCORES[:1]})]))["VS"].fpr
    assert np.diff(fpr).max() < 1.001e-3
    seen = fpr[fpr > 0]
    assert seen[0] == pytest.approx(1e-4)
    assert np.diff(np.log10(seen)).max() < 0.02
