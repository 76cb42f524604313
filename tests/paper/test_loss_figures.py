"""The figures of the loss itself: rows against formulas, and verdicts that can say no."""

from math import log

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from curvewise.paper.csv_files import rounded
from curvewise.paper.densities import LINEAR_DENSITY
from curvewise.paper.experiment import Reading
from curvewise.paper.landscapes import BREAK_EVEN_TAU, CONTOURS, landscapes_from
from curvewise.paper.omega_softmax import OMEGA_SOFTMAX
from curvewise.paper.profiles import Profile
from curvewise.paper.running import run_experiment
from curvewise.sweep import executors
from curvewise.sweep.problems import Problems

EVERY = (BREAK_EVEN_TAU, CONTOURS, LINEAR_DENSITY, OMEGA_SOFTMAX)
TOO_LARGE = 400_000  # bytes, for a file that is kept with the results


@pytest.fixture(scope="module")
def data():
    """What each of them collects, as it comes back from its files."""
    reading = Reading(Profile(), None, Problems())
    return {one.name: rounded(one.collect(reading)) for one in EVERY}


def shown(experiment, data):
    return experiment.present(data[experiment.name], Profile())


def equal_costs(omega):
    """The log-odds at which -omega log p = -(1 - omega) log(1 - p)."""

    def gap(p):
        return omega * np.log(p) - (1 - omega) * np.log1p(-p)

    p = brentq(gap, 1e-9, 1 - 1e-9, xtol=1e-14)
    return log(p / (1 - p))


@pytest.mark.parametrize("experiment", EVERY, ids=lambda one: one.name)
def test_each_leaves_small_files_and_a_picture(experiment, tmp_path):
    found = run_experiment(experiment, Profile(), tmp_path, executors.serial(), Problems())
    kinds = {file.suffix for file in found.files}
    assert kinds == {".csv", ".png", ".svg"}
    for file in found.files:
        assert file.name.startswith(experiment.name)
        if file.suffix == ".csv":
            assert 0 < file.stat().st_size < TOO_LARGE
    assert list(found.outcome.figures) == [experiment.name]
    assert experiment.needs(Profile()) == []


@pytest.mark.parametrize("experiment", [BREAK_EVEN_TAU, CONTOURS], ids=lambda one: one.name)
def test_the_table_of_lines_is_the_derivation(experiment, data):
    (table,) = shown(experiment, data).tables.values()
    for row in table:
        alpha = equal_costs(row["omega"])
        assert row["alpha"] == pytest.approx(alpha, abs=1e-6)
        assert row["slope"] == pytest.approx(10 ** row["gamma"], rel=1e-6)
        intercept = 10 ** row["gamma"] * (row["tau"] * log(10) + alpha)
        assert row["intercept"] == pytest.approx(intercept, rel=1e-6, abs=1e-6)
        odds = np.exp(intercept)
        assert row["softmax p1 on the line at z0 = 0"] == pytest.approx(odds / (1 + odds))
        assert row["p1 (published)"] == (0.99 if row["tau"] == 2 else None)


def test_the_contours_vary_one_thing_a_row(data):
    lines = data["fig-contours"]["lines"]
    plain = {"omega": 0.5, "gamma": 0, "tau": 0}
    assert [line["varied"] for line in lines] == ["omega"] * 4 + ["gamma"] * 4 + ["tau"] * 4
    for line in lines:
        changed = [name for name, value in plain.items() if line[name] != value]
        assert changed in ([], [line["varied"]])
    assert [line["panel"] for line in lines[4:8]] == [f"gamma = {v}" for v in (0, 0.2, 0.4, 0.6)]


def test_points_come_back_where_they_were(data):
    found = landscapes_from(data["fig-contours"])
    assert len(found) == 12
    z0, z1 = np.meshgrid(np.linspace(-5, 5, 41), np.linspace(-5, 5, 41))
    for panel, omega in (("omega = 0.5", 0.5), ("omega = 0.9", 0.9)):
        alpha = z1 - z0
        expected = omega * np.logaddexp(0, -alpha) - (1 - omega) * np.logaddexp(0, alpha)
        np.testing.assert_allclose(found[panel].difference, expected, rtol=1e-6, atol=1e-9)
    turned = z1 / 10**0.4 - z0
    expected = 0.5 * np.logaddexp(0, -turned) - 0.5 * np.logaddexp(0, turned)
    np.testing.assert_allclose(found["gamma = 0.4"].difference, expected, rtol=1e-6, atol=1e-9)


def test_verdicts_on_the_line_hold_and_can_fail(data):
    verdict = shown(BREAK_EVEN_TAU, data).verdict
    assert verdict.startswith("The paper's claim holds: tau shifts the line by tau log(beta), 6.9")
    assert "at 6,683 of 6,683 points" in verdict  # of 4 x 1,681, the diagonal of tau = 0 is on it
    verdict = shown(CONTOURS, data).verdict
    assert verdict.startswith(
        "The paper's description holds: omega = 0.99 lifts the line by 3.3568"
    )
    assert "slope 3.9811" in verdict
    for experiment, panel, name in (
        (BREAK_EVEN_TAU, "tau = 2", "intercept"),
        (BREAK_EVEN_TAU, "tau = 1", "slope"),
        (CONTOURS, "gamma = 0.6", "slope"),
        (CONTOURS, "tau = 3", "intercept"),
    ):
        whole = data[experiment.name]
        lines = [
            {**line, name: line[name] * 1.01} if line["panel"] == panel else line
            for line in whole["lines"]
        ]
        told = experiment.present({**whole, "lines": lines}, Profile()).verdict
        assert "does not hold" in told.partition(":")[0]


def test_the_densities_table_is_their_integrals(data):
    (table,) = shown(LINEAR_DENSITY, data).tables.values()
    assert [row["height at 3"] for row in table] == [0, 0.15, 0.33, 0.66]
    for row in table:
        high = row["height at 3"]
        low = 2 / 3 - high  # so that the trapezoid has area 1

        def pdf(x, low=low, high=high):
            return low + (high - low) * x / 3

        assert row["height at 0"] == pytest.approx(low, abs=1e-6)
        assert row["mean"] == pytest.approx(quad(lambda x, p=pdf: x * p(x), 0, 3)[0], abs=1e-6)
        assert row["P(tau > 1.5)"] == pytest.approx(quad(pdf, 1.5, 3)[0], abs=1e-6)
        median = brentq(lambda m, p=pdf: quad(p, 0, m)[0] - 0.5, 0, 3)
        assert row["median"] == pytest.approx(median, abs=1e-6)
        points = [p for p in data["fig-linear-density"][""] if p["height"] == high]
        assert len(points) == 61
        for point in points[::12]:
            assert point["pdf"] == pytest.approx(pdf(point["tau"]), abs=1e-6)
            assert point["cdf"] == pytest.approx(quad(pdf, 0, point["tau"])[0], abs=1e-6)
    verdict = shown(LINEAR_DENSITY, data).verdict
    assert "0.33 nearly uniform (0.3367 at 0, mean 1.4950)" in verdict
    assert "from 0.2500 to 0.7450" in verdict


def test_both_panels_of_the_densities_are_drawn(data):
    (figure,) = shown(LINEAR_DENSITY, data).figures.values()
    pdf, cdf = figure.axes
    assert (pdf.get_title(), cdf.get_title()) == ("PDF", "CDF")
    ends = [(line.get_ydata()[0], line.get_ydata()[-1]) for line in pdf.get_lines()]
    assert [end for _, end in ends] == [0, 0.15, 0.33, 0.66]
    assert [start for start, _ in ends] == pytest.approx([2 / 3 - end for _, end in ends])
    assert all(line.get_ydata()[-1] == 1 for line in cdf.get_lines())


def test_crossings_are_where_the_losses_are_equal(data):
    outcome = shown(OMEGA_SOFTMAX, data)
    (table,) = outcome.tables.values()
    assert [row["omega"] for row in table] == [0.5, 0.7, 0.9, 0.99]
    for row in table:
        odds = np.exp(equal_costs(row["omega"]))
        p1 = odds / (1 + odds)
        assert row["p1 where the losses cross"] == pytest.approx(p1, abs=1e-6)
        assert row["loss there"] == pytest.approx(-row["omega"] * log(p1), abs=1e-6)
        shifted = row["p1 of the plain softmax at tau = 2, beta = 10"]
        assert shifted == pytest.approx(100 * odds / (1 + 100 * odds), abs=1e-6)
    for point in data["fig-omega-softmax"][""]:
        majority, minority = point["loss 0"], point["loss 1"]
        # Near 1 the seven digits of p1 leave few for 1 - p1.
        rel = 1e-6 / min(point["p1"], 1 - point["p1"])
        assert majority == pytest.approx(-(1 - point["omega"]) * log(1 - point["p1"]), rel=rel)
        assert minority == pytest.approx(-point["omega"] * log(point["p1"]), rel=rel)
    (figure,) = outcome.figures.values()
    marked = [axes.get_lines()[2].get_xdata()[0] for axes in figure.axes]
    assert marked == [row["p1 where the losses cross"] for row in table]


def test_the_verdict_on_omega_can_fail(data):
    verdict = shown(OMEGA_SOFTMAX, data).verdict
    assert verdict.startswith("The paper's claim holds: as omega rises from 0.5 to 0.99")
    whole = data["fig-omega-softmax"]
    falling = [{**row, "p1": 1 - row["p1"]} for row in whole["crossings"]]
    told = OMEGA_SOFTMAX.present({**whole, "crossings": falling}, Profile()).verdict
    assert told.startswith("The paper's claim does not hold")
