"""The figures of the loss itself: rows against formulas."""

from math import log

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from curvewise.losses.family import LinearDensity
from curvewise.paper.experiment import Reading, results
from curvewise.paper.profiles import Profile
from curvewise.paper.running import EXPERIMENTS, read_data, write_data
from curvewise.paper.untrained import OMEGAS, sides
from curvewise.sweep.work import Problems

NAMES = ("fig-break-even-tau", "fig-contours", "fig-linear-density", "fig-omega-softmax")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What each of them collects, as it comes back from its files."""
    folder, reading = tmp_path_factory.mktemp("data"), Reading(Profile(), None, Problems(), [])
    frames = {name: EXPERIMENTS[name].collect(reading) for name in NAMES}
    return {name: read_data(name, write_data(name, frames[name], folder)) for name in NAMES}


def equal_costs(omega):
    """The log-odds at which -omega log p = -(1 - omega) log(1 - p)."""

    def gap(p):
        return omega * np.log(p) - (1 - omega) * np.log1p(-p)

    p = brentq(gap, 1e-9, 1 - 1e-9, xtol=1e-14)
    return log(p / (1 - p))


@pytest.mark.parametrize("name", NAMES[:2])
def test_lines_are_the_derivation(name, data):
    for row in data[name]["lines"].itertuples():
        alpha = equal_costs(row.omega)
        assert row.alpha == pytest.approx(alpha, abs=1e-6)
        assert row.slope == pytest.approx(10**row.gamma, rel=1e-6)
        intercept = 10**row.gamma * (row.tau * log(10) + alpha)
        assert row.intercept == pytest.approx(intercept, rel=1e-6, abs=1e-6)


def test_points_are_the_papers_formula(data):
    points = data["fig-contours"][""]
    z0, z1 = points["z0"], points["z1"]
    assert points.shape == (41**2, 2 + 12)
    for panel, omega, alpha in (
        ("omega = 0.5", 0.5, z1 - z0),
        ("omega = 0.9", 0.9, z1 - z0),
        ("gamma = 0.4", 0.5, z1 / 10**0.4 - z0),
    ):
        expected = omega * np.logaddexp(0, -alpha) - (1 - omega) * np.logaddexp(0, alpha)
        np.testing.assert_allclose(points[panel], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "panel", "column", "claim"),
    [
        ("fig-break-even-tau", "tau = 2", "intercept", 0),
        ("fig-contours", "omega = 0.9", "slope", 1),
        ("fig-contours", "gamma = 0.6", "slope", 2),
        ("fig-contours", "tau = 3", "intercept", 0),
    ],
)
def test_a_line_that_is_off_is_noticed(data, name, panel, column, claim):
    whole, lines = data[name], data[name]["lines"].copy()
    assert (results(EXPERIMENTS[name].claims, whole)["verdict"] == "holds").all()
    lines.loc[lines["panel"] == panel, column] *= 1.01
    found = results(EXPERIMENTS[name].claims, {**whole, "lines": lines})
    assert found["verdict"][claim] == "does not hold"


def test_points_on_the_wrong_side_of_a_line_are_counted(data):
    whole, lines = data["fig-break-even-tau"], data["fig-break-even-tau"]["lines"].copy()
    lines.loc[lines["panel"] == "tau = 1", "intercept"] += 1
    z = np.linspace(-5, 5, 41)
    above = np.subtract.outer(z, z) - log(10)
    wrong = np.sum((above > 0) & (above < 1))
    points = 4 * 41**2 - 41  # those on the line of tau = 0 are on neither side
    assert sides({**whole, "lines": lines}) == pytest.approx(1 - wrong / points)


def test_densities_are_their_integrals(data):
    for row in data["fig-linear-density"]["summary"].itertuples(index=False):
        density = LinearDensity(0, 3, row.height)
        mean = quad(lambda t, density=density: t * density.pdf(t), 0, 3)[0]
        assert row.mean == pytest.approx(mean, rel=1e-6)
        above = quad(density.pdf, 1.5, 3)[0]
        assert row[-1] == pytest.approx(above, abs=1e-6)
        assert quad(density.pdf, 0, row.median)[0] == pytest.approx(0.5, abs=1e-6)


def test_losses_cross_where_both_labels_cost_the_same(data):
    crossings = data["fig-omega-softmax"]["crossings"].itertuples(index=False)
    for omega, row in zip(OMEGAS, crossings, strict=True):
        odds = equal_costs(omega)
        assert row.p1 == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-6)
        assert row.loss == pytest.approx(-omega * np.log(row.p1), rel=1e-5)
        assert row[-1] == pytest.approx(1 / (1 + np.exp(-odds - 2 * log(10))), abs=1e-6)
    points = data["fig-omega-softmax"][""]
    expected = -(1 - points["omega"]) * np.log1p(-points["p1"])
    # Scores near 1 have lost digits of their distance to it.
    np.testing.assert_allclose(points["loss 0"], expected, rtol=1e-4, atol=1e-6)
    expected = -points["omega"] * np.log(points["p1"])
    np.testing.assert_allclose(points["loss 1"], expected, rtol=1e-5, atol=1e-6)
