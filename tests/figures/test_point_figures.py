"""Figures of an operating point and of probabilities: numbers drawn, against scikit-learn's."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

import curvewise as cw
from curvewise.figures.curves import new_axes

RNG = np.random.default_rng(0)
Y = (np.arange(2000) % 10 == 0) * 1
SCORE = RNG.normal(size=2000) + 1.5 * Y
P = 1 / (1 + np.exp(2.2 - SCORE))


def bars_of(axes):
    """Return the error bars of each series as (n, 2) arrays of their lower and upper ends."""
    return [
        np.array([[part[0][1], part[1][1]] for part in drawn[2][-1].get_segments()])
        for drawn in axes.containers
    ]


@pytest.mark.parametrize("log", [False, True])
def test_an_operating_point_is_drawn_where_it_is(log):
    point = cw.choose_operating_point(Y, SCORE, max_fpr=0.05)
    axes = cw.plot_operating_point(cw.roc_curve(Y, SCORE), point, log=log, title="A model")
    (drawn,) = axes.containers
    assert drawn[0].get_xdata() == [point.fpr]
    assert drawn[0].get_ydata() == [point.tpr]
    np.testing.assert_allclose(bars_of(axes)[0], [point.tpr_interval])
    assert axes.get_xscale() == ("log" if log else "linear")
    assert axes.get_title() == "A model"
    alarms = 1000 * np.mean(point.threshold <= SCORE)
    assert f"{alarms:.1f} alarms per 1,000 cases" in axes.texts[0].get_text()


def test_a_point_without_false_alarms_stays_on_a_logarithmic_axis():
    point = cw.choose_operating_point(Y, SCORE, max_fpr=0.0)
    axes = cw.plot_operating_point(cw.roc_curve(Y, SCORE), point, log=True)
    assert axes.containers[0][0].get_xdata()[0] == axes.get_xlim()[0] > 0
    axes.figure.canvas.draw()


@pytest.mark.parametrize("rule", [{"max_fpr": 0.05}, {"min_tpr": 0.8}, {"max_fpr": 1e-4}])
def test_the_one_rate_that_is_promised_is_named(rule):
    point = cw.choose_operating_point(Y, SCORE, **rule, confidence=0.9)
    axes = cw.plot_operating_point(cw.roc_curve(Y, SCORE), point)
    text = " ".join(axes.texts[0].get_text().split())
    assert text.endswith(point.note)
    bound = "TPR >= 0.8" if "min_tpr" in rule else f"FPR <= {rule['max_fpr']:g}"
    assert f"{bound} " in text
    assert ("no precision" in text) == np.isinf(point.threshold) == (rule == {"max_fpr": 1e-4})
    # Without a promise there are the numbers alone.
    plain = cw.operating_point(Y, SCORE, 1.0)
    drawn = cw.plot_operating_point(cw.roc_curve(Y, SCORE), plain).texts[0].get_text()
    assert drawn.endswith("alarms per 1,000 cases")


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("drop_intermediate", [False, True])
def test_every_threshold_lies_on_its_own_curve(rounded, drop_intermediate):
    score = SCORE.round(0) if rounded else SCORE  # ties make slanted segments
    curve = cw.roc_curve(Y, score, drop_intermediate=drop_intermediate)
    for threshold in [np.inf, *np.quantile(score, [0.1, 0.5, 0.9, 0.99]), -np.inf]:
        axes = new_axes()
        cw.plot_operating_point(curve, cw.operating_point(Y, score, threshold), ax=axes)


def test_a_point_beside_the_curve_is_refused():
    curve, point = cw.roc_curve(Y, SCORE), cw.choose_operating_point(Y, SCORE, max_fpr=0.05)
    other = cw.operating_point(Y[:1000], SCORE[:1000], point.threshold)
    for wrong in (other, replace(point, fpr=point.fpr + 1e-6, tpr=point.tpr - 1e-6)):
        with pytest.raises(cw.InputError, match=r"lie on the curve, got FPR .* operating_point"):
            cw.plot_operating_point(curve, wrong)
    for curves, chosen, message in (
        ({"model": curve}, point, "needs one RocCurve, got dict"),
        (curve, (0.1, 0.9), "needs one OperatingPoint, got tuple"),
    ):
        with pytest.raises(cw.InputError, match=message):
            cw.plot_operating_point(curves, chosen)


@pytest.mark.parametrize("layout", ["constrained", None])
@pytest.mark.parametrize("log", [False, True])
def test_the_legend_is_not_on_the_numbers(layout, log):
    figure = Figure(layout=layout)
    FigureCanvasAgg(figure)
    point = cw.choose_operating_point(Y, SCORE, max_fpr=0.05, confidence=0.9)
    axes = cw.plot_operating_point(cw.roc_curve(Y, SCORE), point, log=log, ax=figure.add_subplot())
    figure.canvas.draw()
    legend, text = axes.get_legend().get_window_extent(), axes.texts[0].get_window_extent()
    assert not legend.overlaps(text)
    assert legend.y0 >= 0
    assert (legend.y1 < axes.get_window_extent().y0) == (layout is not None)


def test_the_legend_of_probabilities_is_not_on_the_data():
    axes = cw.plot_calibration(Y, {"model": P, "twice": np.minimum(2 * P, 1)})
    axes.figure.canvas.draw()
    legend = axes.get_legend().get_window_extent()
    assert 0 <= legend.y0 < legend.y1 < axes.get_window_extent().y0


def test_reliability_is_scikit_learns_with_exact_intervals():
    axes = cw.plot_calibration(Y, {"model": P, "base rate": np.full(2000, 0.1)})
    share, claimed = calibration_curve(Y, P, n_bins=10)
    drawn = axes.containers[0][0]
    np.testing.assert_allclose(np.array(drawn.get_xdata(), float), claimed, rtol=1e-4)
    np.testing.assert_allclose(np.array(drawn.get_ydata(), float), share, rtol=1e-12)
    first = binomtest(int(Y[P < 0.1].sum()), int((P < 0.1).sum())).proportion_ci(0.95, "exact")
    np.testing.assert_allclose(bars_of(axes)[0][0], [first.low, first.high], rtol=1e-9)
    label = axes.get_legend_handles_labels()[1][0]
    assert label == f"model: Brier {brier_score_loss(Y, P):.4f}"


@pytest.mark.parametrize(
    "drawing",
    [
        lambda ax: cw.plot_calibration(Y, {"model": P}, ax=ax),
        lambda ax: cw.plot_landscape(10, tau=1.0, ax=ax),
        lambda ax: cw.plot_operating_point(
            cw.roc_curve(Y, SCORE), cw.choose_operating_point(Y, SCORE, min_tpr=0.9), ax=ax
        ),
    ],
)
def test_given_axes_are_used_and_returned(drawing):
    axes = new_axes()
    assert drawing(axes) is axes
    axes.figure.canvas.draw()


@pytest.mark.parametrize(
    ("probabilities", "named"),
    [
        ({}, "at least one model, got none"),
        (P, "plot_calibration needs probabilities by name, .*'model': p.*, got ndarray"),
        (list(P), "got list"),
        ({"model": P * 2}, r"probabilities of 'model' must be in \[0, 1\], got 1"),
        ({"model": P[:-1]}, "2000"),
        ({"model": P * np.nan}, "finite"),
    ],
)
def test_what_is_not_a_probability_is_refused(probabilities, named):
    with pytest.raises(cw.InputError, match=named):
        cw.plot_calibration(Y, probabilities)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0, 4.0])
def test_words_are_not_on_the_curve_however_good_it_is(log, shift):
    score = RNG.normal(size=2000) + shift * Y
    point = cw.choose_operating_point(Y, score, max_fpr=0.05)
    axes = cw.plot_operating_point(cw.roc_curve(Y, score), point, log=log)
    axes.figure.canvas.draw()
    words = axes.texts[0].get_window_extent()
    assert words.count_contains(axes.transData.transform(axes.lines[0].get_xydata())) == 0
