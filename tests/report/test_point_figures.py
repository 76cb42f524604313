"""Figures of an operating point and of probabilities: numbers drawn, against scikit-learn's."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

import curvewise as cw
from curvewise.report.figures import new_axes

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


def test_a_promise_is_named():
    point = cw.choose_operating_point(Y, SCORE, max_fpr=0.05, confidence=0.9)
    axes = cw.plot_operating_point(cw.roc_curve(Y, SCORE), point)
    assert axes.texts[0].get_text().endswith("promised with 90% confidence")


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
        ({"model": P * 2}, r"probabilities of 'model' must be in \[0, 1\], got 1"),
        ({"model": P[:-1]}, "2000"),
        ({"model": P * np.nan}, "finite"),
    ],
)
def test_what_is_not_a_probability_is_refused(probabilities, named):
    with pytest.raises(cw.InputError, match=named):
        cw.plot_calibration(Y, probabilities)
