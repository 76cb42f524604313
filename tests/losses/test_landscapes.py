"""Landscapes of the loss against loops over the paper's formulas and another root finder."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.special import expit

from curvewise import InputError, break_even
from curvewise.losses.landscape import loss_landscape
from curvewise.paper.loss_figures import plot_landscape

SETTINGS = [
    {},
    {"tau": 3.0},
    {"gamma": 0.6},
    {"omega": 0.99},
    {"omega": 0.3, "gamma": 0.2, "tau": 1.5},
]


def difference(beta, z0, z1, omega=0.5, gamma=0.0, tau=0.0):
    """The paper's equations, label 1 less label 0."""
    alpha = z1 / beta**gamma - (z0 + tau * log(beta))
    return omega * log(1 + exp(-alpha)) - (1 - omega) * log(1 + exp(alpha))


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_point_is_the_papers_formula(setting):
    found = loss_landscape(10, **setting, reach=4.0, points=9)
    assert found.z == pytest.approx(np.arange(-4, 5))
    for i, z1 in enumerate(range(-4, 5)):
        for j, z0 in enumerate(range(-4, 5)):
            expected = difference(10, z0, z1, **setting)
            assert found.difference[i, j] == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert found.limit == max(found.difference.max(), -found.difference.min())


@given(
    beta=st.floats(1.5, 500),
    omega=st.floats(0.02, 0.98),
    gamma=st.floats(0, 0.7),
    tau=st.floats(0, 3.5),
)
@settings(max_examples=40)
def test_the_line_parts_the_signs(beta, omega, gamma, tau):
    found = loss_landscape(beta, omega=omega, gamma=gamma, tau=tau, points=21)
    for i, z1 in enumerate(found.z):
        for j, z0 in enumerate(found.z):
            height = found.line.slope * z0 + found.line.intercept
            if abs(z1 - height) > 1e-5:
                assert (found.difference[i, j] > 0) == (z1 < height)


@pytest.mark.parametrize("omega", [0.05, 0.5, 0.7, 0.9, 0.99, 0.999])
def test_the_break_even_score_solves_the_papers_equation(omega):
    root = brentq(lambda p: p**omega - (1 - p) ** (1 - omega), 1e-12, 1 - 1e-12, xtol=1e-14)
    assert expit(break_even(10, omega).intercept) == pytest.approx(root, abs=1e-9)
    shifted = root * 100 / (root * 100 + 1 - root)  # the odds times beta^tau
    assert expit(break_even(10, omega, tau=2.0).intercept) == pytest.approx(shifted, abs=1e-9)


def test_a_landscape_is_drawn_with_its_line_and_even_colours():
    axes = plot_landscape(10, omega=0.9, tau=1.0, reach=3.0)
    (line,) = axes.get_lines()
    ends = np.array([-3.0, 3.0])
    expected = [brentq(lambda z1, z0=z0: difference(10, z0, z1, 0.9, 0, 1), -40, 40) for z0 in ends]
    np.testing.assert_allclose(line.get_xdata(), ends)
    np.testing.assert_allclose(line.get_ydata(), expected, atol=1e-9)
    assert line.get_color() == "white"
    (shades,) = axes.collections
    low, high = shades.get_clim()
    assert low == -high
    assert high >= abs(difference(10, 3, -3, 0.9, 0, 1))
    np.testing.assert_allclose(shades.cmap(shades.norm(0.0))[:3], 1, atol=0.05)
    red, blue = shades.cmap(shades.norm(high)), shades.cmap(shades.norm(low))
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    assert axes.get_xlim() == axes.get_ylim() == (-3, 3)
    assert isinstance(axes.figure.canvas, FigureCanvasAgg)
    given_axes = Figure().add_subplot()
    assert plot_landscape(10, ax=given_axes) is given_axes


@pytest.mark.parametrize(
    ("beta", "setting"),
    [(10, {}), (100, {"tau": 2.0}), (200, {"tau": 3.0, "gamma": 0.4}), (100, {"omega": 0.001})],
)
def test_without_a_reach_the_line_is_seen(beta, setting):
    axes = plot_landscape(beta, **setting)
    reach = axes.get_xlim()[1]
    assert reach >= 5
    z0 = np.linspace(-reach, reach, 1001)
    ends = axes.get_lines()[0]
    z1 = np.interp(z0, ends.get_xdata(), ends.get_ydata())
    inside = np.abs(z1) <= reach
    length = np.hypot(np.ptp(z0[inside]), np.ptp(z1[inside]))
    assert length > reach
    assert not axes.texts


def test_a_reach_too_small_for_the_line_is_told():
    axes = plot_landscape(100, tau=3.0, reach=5.0)
    assert axes.get_xlim() == (-5, 5)
    (text,) = axes.texts
    assert "outside of this square" in text.get_text()
    assert f"$z_1 = z_0 + {3 * log(100):.3g}$" in text.get_text()
    steep = plot_landscape(100, tau=3.0, gamma=0.5, reach=5.0)
    assert f"$z_1 = 10 z_0 + {30 * log(100):.3g}$" in steep.texts[0].get_text()
    assert not plot_landscape(10, tau=3.0, reach=5.0).texts  # 6.9 at z0 = 0, but 1.9 at -5


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_landscape(10, tau=-1.0), "tau must be >= 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, message):
    with pytest.raises(InputError, match=message):
        draw()
