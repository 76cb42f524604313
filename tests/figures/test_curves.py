"""Curves, bands, points and probabilities: what is drawn against loops and scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

import curvewise as cw
from curvewise.figures.curves import LOWEST_RATE
from curvewise.figures.sheets import COLORS, new_axes

RNG = np.random.default_rng(0)
Y = (np.arange(2000) % 10 == 0) * 1
SCORE = RNG.normal(size=2000) + 1.5 * Y
P = 1 / (1 + np.exp(2.2 - SCORE))
CURVE = cw.roc_curve(Y, SCORE)
CURVES = {
    name: [cw.roc_curve(Y[:400], RNG.normal(size=400) + shift * Y[:400]) for _ in range(5)]
    for name, shift in (("VS", 1.0), ("VS + LCT", 2.0))
}
BANDS = {name: cw.roc_band(curves) for name, curves in CURVES.items()}
AREAS = {name: [curve.auc for curve in curves] for name, curves in CURVES.items()}
POINT = cw.choose_operating_point(Y, SCORE, max_fpr=0.05)


def lines_of(axes, color):
    """Return the lines that have points, by their style."""
    drawn = [line for line in axes.get_lines() if len(line.get_xdata())]
    return {line.get_linestyle(): line for line in drawn if to_hex(line.get_color()) == color}


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def bars_of(axes):
    """Return the error bars of the first series as an array of their lower and upper ends."""
    return np.array([part[:, 1] for part in axes.containers[0][2][-1].get_segments()])


def test_curves_and_operating_points_are_drawn():
    axes = cw.plot_roc({"VS": CURVE}, points=[POINT])
    line = lines_of(axes, COLORS[0].lower())["-"]
    np.testing.assert_array_equal(line.get_xydata(), np.stack([CURVE.fpr, CURVE.tpr], axis=1))
    assert legend_of(axes)[0] == f"VS: AUC {CURVE.auc:.4f}"
    assert f"TPR {POINT.tpr:.3f}, FPR {POINT.fpr:.4f}" in legend_of(axes)[1]
    np.testing.assert_allclose(bars_of(axes), [POINT.tpr_interval])


def test_a_band_is_mean_minimum_maximum_and_one_std_within_the_square():
    axes = cw.plot_band(BANDS, areas=AREAS)
    shades = [shade for shade in axes.collections if isinstance(shade, PolyCollection)]
    corners_of = [shade.get_paths()[0].vertices for shade in shades if shade.get_paths()]
    assert len(corners_of) == 2
    for color, band, corners in zip(COLORS, BANDS.values(), corners_of, strict=False):
        lines = lines_of(axes, color.lower())
        assert set(lines) == {"-", "--", "-."}
        for style, values in (("-", band.mean), ("--", band.low), ("-.", band.high)):
            np.testing.assert_array_equal(lines[style].get_xdata(), band.fpr)
            np.testing.assert_array_equal(lines[style].get_ydata(), values)
        for position in (5, 200, 800):
            there = corners[np.isclose(corners[:, 0], band.fpr[position], atol=1e-12), 1]
            edges = np.clip([band.mean[position] - s * band.std[position] for s in (1, -1)], 0, 1)
            assert (there.min(), there.max()) == pytest.approx(tuple(edges))
    names = [f"{name}: mean AUC {np.mean(areas):.4f}" for name, areas in AREAS.items()]
    assert legend_of(axes) == [*names, "maximum", "minimum", "mean ± 1 std"]
    for name, mean in zip(legend_of(cw.plot_band(BANDS)), AREAS.values(), strict=False):
        assert float(name.split()[-1]) == pytest.approx(np.mean(mean), abs=1.5e-3)
        assert len(name.split()[-1]) == len("0.123")  # no digits that a grid cannot give
    one = cw.roc_band([cw.roc_curve([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.4])])
    assert legend_of(cw.plot_band({"VS": one})) == ["VS: mean AUC 0.750"]


@pytest.mark.parametrize("misses", [False, True])
def test_a_logarithmic_band_starts_at_the_lowest_rate_on_the_curve(misses):
    curves = CURVES["VS"]
    band = cw.roc_band(curves, np.geomspace(1e-4, 1, 300))
    axes = cw.plot_band({"VS": band}, log=True, misses=misses)
    assert (axes.get_xscale(), axes.get_xlim()) == ("log", (LOWEST_RATE, 1))
    x, y = lines_of(axes, COLORS[0].lower())["-"].get_xydata().T
    assert x[0] == LOWEST_RATE
    assert len(x) > 200
    assert (np.diff(x) > 0).all()
    expected = np.mean([curve.tpr_at(x[1:]) for curve in curves], axis=0)
    np.testing.assert_allclose(y[1:], 1 - expected if misses else expected, atol=1e-12)
    # Below the first negative, a 300th, the rate is the one at FPR 0.
    at_zero = np.mean([curve.tpr_at(0.0) for curve in curves])
    assert y[0] == pytest.approx(1 - at_zero if misses else at_zero)
    if misses:  # down to below one sample
        assert axes.get_yscale() == "log"
        assert axes.get_ylim()[0] == pytest.approx((1 - band.low)[band.low < 1 - 1e-9].min() / 10)
        perfect = cw.roc_band([cw.roc_curve([0, 0, 1, 1], [1, 2, 3, 4])])
        cw.plot_band({"perfect": perfect}, misses=True).figure.canvas.draw()


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("rule", [{"max_fpr": 0.05}, {"min_tpr": 0.8}, {"max_fpr": 1e-4}])
def test_an_operating_point_is_drawn_where_it_is_and_says_what_it_promises(rule, log):
    point = cw.choose_operating_point(Y, SCORE, **rule, confidence=0.9)
    axes = cw.plot_operating_point(CURVE, point, log=log)
    (x,), (y,) = axes.containers[0][0].get_data()
    assert (x, y) == (max(point.fpr, axes.get_xlim()[0]), point.tpr)
    np.testing.assert_allclose(bars_of(axes), [point.tpr_interval])
    text = " ".join(axes.texts[0].get_text().split())
    assert f"{1000 * np.mean(point.threshold <= SCORE):.1f} alarms per 1,000 cases" in text
    assert text.endswith(point.note)
    bound = "TPR >= 0.8" if "min_tpr" in rule else f"FPR <= {rule['max_fpr']:g}"
    assert f"{bound} " in text
    assert ("no precision" in text) == np.isinf(point.threshold) == (rule == {"max_fpr": 1e-4})
    # Without a promise there are the numbers alone.
    plain = cw.plot_operating_point(CURVE, cw.operating_point(Y, SCORE, 1.0))
    assert plain.texts[0].get_text().endswith("alarms per 1,000 cases")


@pytest.mark.parametrize("score", [SCORE, SCORE.round(0)])  # ties make slanted segments
@pytest.mark.parametrize("drop_intermediate", [False, True])
def test_every_threshold_lies_on_its_own_curve_and_no_other(score, drop_intermediate):
    curve = cw.roc_curve(Y, score, drop_intermediate=drop_intermediate)
    for threshold in [np.inf, *np.quantile(score, [0.1, 0.5, 0.9, 0.99]), -np.inf]:
        cw.plot_operating_point(curve, cw.operating_point(Y, score, threshold), ax=new_axes())
    for wrong in (
        cw.operating_point(Y[:1000], SCORE[:1000], POINT.threshold),
        replace(POINT, fpr=POINT.fpr + 1e-6, tpr=POINT.tpr - 1e-6),
    ):
        with pytest.raises(cw.InputError, match=r"lie on the curve, got FPR .* operating_point"):
            cw.plot_operating_point(curve, wrong)


@pytest.mark.parametrize("layout", ["constrained", None])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0, 4.0])
def test_words_are_not_on_the_curve_nor_on_the_legend(layout, log, shift):
    score = RNG.normal(size=2000) + shift * Y
    figure = Figure(layout=layout)
    FigureCanvasAgg(figure)
    point = cw.choose_operating_point(Y, score, max_fpr=0.05)
    axes = cw.plot_operating_point(cw.roc_curve(Y, score), point, log=log, ax=figure.add_subplot())
    figure.canvas.draw()
    legend, words = axes.get_legend().get_window_extent(), axes.texts[0].get_window_extent()
    assert not legend.overlaps(words)
    assert legend.y0 >= 0
    assert (legend.y1 < axes.get_window_extent().y0) == (layout is not None)
    if layout is not None:
        assert words.count_contains(axes.transData.transform(axes.lines[0].get_xydata())) == 0


def test_reliability_is_scikit_learns_with_exact_intervals():
    axes = cw.plot_calibration(Y, {"model": P, "base rate": np.full(2000, 0.1)})
    share, claimed = calibration_curve(Y, P, n_bins=10)
    drawn = np.array(axes.containers[0][0].get_xydata(), float)
    np.testing.assert_allclose(drawn[:, 0], claimed, rtol=1e-4)
    np.testing.assert_allclose(drawn[:, 1], share, rtol=1e-12)
    first = binomtest(int(Y[P < 0.1].sum()), int((P < 0.1).sum())).proportion_ci(0.95, "exact")
    np.testing.assert_allclose(bars_of(axes)[0], [first.low, first.high], rtol=1e-9)
    assert legend_of(axes)[0] == f"model: Brier {brier_score_loss(Y, P):.4f}"


@pytest.mark.parametrize(
    ("draw", "named"),
    [
        (lambda: cw.plot_roc({}), "curves by name.* none"),
        (lambda: cw.plot_roc(CURVE), "plot_roc .*curves by name.* RocCurve"),
        (lambda: cw.plot_roc({"VS": (P, P)}), "RocCurve, got tuple for 'VS'"),
        (lambda: cw.plot_roc({"VS": CURVE}, points=[(0.1, 0.9)]), r"points .*\[\(0.1"),
        (lambda: cw.plot_roc({"VS": CURVE}, points=POINT), "points .*OperatingPoint"),
        (lambda: cw.plot_band(BANDS["VS"]), "bands by name.* RocBand"),
        (lambda: cw.plot_band({"VS": CURVE}), "RocBand, got RocCurve for 'VS'"),
        (lambda: cw.plot_band(BANDS, areas={"VS": [0.5]}), r"areas .*'VS \+ LCT'\], got \['VS'\]"),
        (lambda: cw.plot_operating_point({"model": CURVE}, POINT), "curve .*RocCurve, got dict"),
        (lambda: cw.plot_operating_point(CURVE, (0.1, 0.9)), "point .*OperatingPoint, got tuple"),
        (lambda: cw.plot_calibration(Y, P), "probabilities by name.* ndarray"),
        (lambda: cw.plot_calibration(Y, {"m": P * 2}), r"probabilities of 'm' .*\[0, 1\].* got 1"),
        (lambda: cw.plot_calibration(Y, {"m": P[:-1]}), "2000"),
        (lambda: cw.plot_calibration(Y, {"m": P * np.nan}), "finite"),
        (lambda: cw.plot_spread([0.5, 0.6]), "plot_spread .*areas by method.* list"),
        (lambda: cw.plot_spread({"beta = 10": {}}), "areas by method.* none"),
        (lambda: cw.plot_spread({"VS": ["good"]}), "areas of 'VS' .*good"),
        (lambda: cw.plot_spread({"VS": [0.5, np.nan]}), "areas of 'VS' .*finite .*nan"),
        (lambda: cw.plot_spread({"VS": [[0.5]]}), "areas of 'VS' .*shape"),
        (lambda: cw.plot_spread({"b": {"VS": []}}), "areas of 'VS' .*none"),
        (lambda: cw.plot_spread({"b": {"VS": [0.5]}, "CE": [0.4]}), r"groups .*\['CE'\]"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(draw, named):
    with pytest.raises(cw.InputError, match=named) as caught:
        draw()
    assert "\n" not in str(caught.value)
