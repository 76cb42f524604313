"""Break-even line, landscapes and calibration against mpmath, loops and a known posterior."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.stats import binom
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import curvewise as cw
from curvewise.losses.landscape import loss_landscape
from curvewise.paper.untrained import plot_landscape


@pytest.mark.parametrize("omega", [1e-300, 1e-12, 0.3, 0.499999, 0.5, 0.5 + 1e-15, 1 - 1e-12])
def test_alpha_solves_its_equation_to_1e_12(omega):
    mpmath.mp.dps = 60
    alpha = cw.break_even(beta=100, omega=omega).alpha

    def log_cost(weight, a):
        return mpmath.log(weight) + mpmath.log(mpmath.log1p(mpmath.exp(a)))

    def difference(a):
        return log_cost(omega, -a) - log_cost(1 - mpmath.mpf(omega), a)

    truth = mpmath.findroot(difference, (alpha - 1e-3, alpha + 1e-3), solver="anderson")
    assert abs(alpha - truth) < 1e-12 * max(1, abs(truth))


SETTING = st.floats(0.01, 0.99), st.floats(0, 1), st.floats(0, 4)


@given(st.floats(1, 1e4), *SETTING, st.floats(-5, 5))
@settings(max_examples=50)
def test_both_labels_cost_the_same_on_the_line(beta, omega, gamma, tau, z0):
    line = cw.break_even(beta, omega, gamma, tau)
    logits = torch.tensor([[z0, line.z1(z0)]] * 2, dtype=torch.float64)
    losses = cw.VSLoss((beta, 1), omega, gamma, tau, reduction="none")(logits, torch.tensor([0, 1]))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-9, atol=1e-12)


def difference(beta, z0, z1, omega=0.5, gamma=0.0, tau=0.0):
    """The paper's equations, label 1 less label 0."""
    alpha = z1 / beta**gamma - (z0 + tau * math.log(beta))
    return omega * math.log(1 + math.exp(-alpha)) - (1 - omega) * math.log(1 + math.exp(alpha))


@pytest.mark.parametrize(
    "setting", [{}, {"tau": 3.0}, {"gamma": 0.6}, {"omega": 0.3, "gamma": 0.2, "tau": 1.5}]
)
def test_every_point_is_the_papers_formula(setting):
    found = loss_landscape(10, **setting, reach=4.0, points=9)
    assert found.z == pytest.approx(np.arange(-4, 5))
    expected = [[difference(10, z0, z1, **setting) for z0 in found.z] for z1 in found.z]
    np.testing.assert_allclose(found.difference, expected, rtol=1e-10, atol=1e-12)


@given(st.floats(1.5, 500), st.floats(0.02, 0.98), st.floats(0, 0.7), st.floats(0, 3.5))
@settings(max_examples=40)
def test_the_line_parts_the_signs(beta, omega, gamma, tau):
    found = loss_landscape(beta, omega=omega, gamma=gamma, tau=tau, points=21)
    for i, z1 in enumerate(found.z):
        for j, z0 in enumerate(found.z):
            height = found.line.slope * z0 + found.line.intercept
            if abs(z1 - height) > 1e-5:
                assert (found.difference[i, j] > 0) == (z1 < height)


def test_a_landscape_is_drawn_with_its_line_and_even_colours():
    # At beta = 10 and tau = 2 a score of 0.99 costs the same, as in the paper.
    softmax = torch.softmax(torch.tensor([0.0, cw.break_even(10, tau=2.0).z1(0.0)]), 0)
    assert float(softmax[1]) == pytest.approx(100 / 101)
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


def test_without_a_reach_the_line_is_seen_and_one_too_small_for_it_is_told():
    line_of = {10: {}, 100: {"tau": 2.0}, 200: {"tau": 3.0, "gamma": 0.4}, 101: {"omega": 0.001}}
    for beta, setting in line_of.items():
        axes = plot_landscape(beta, **setting)
        reach = axes.get_xlim()[1]
        assert reach >= 5
        z0 = np.linspace(-reach, reach, 1001)
        z1 = np.interp(z0, *axes.get_lines()[0].get_data())
        inside = np.abs(z1) <= reach
        assert np.hypot(np.ptp(z0[inside]), np.ptp(z1[inside])) > reach
        assert not axes.texts
    axes = plot_landscape(100, tau=3.0, reach=5.0)
    assert axes.get_xlim() == (-5, 5)
    (text,) = axes.texts
    assert "outside of this square" in text.get_text()
    assert f"$z_1 = z_0 + {3 * math.log(100):.3g}$" in text.get_text()
    steep = plot_landscape(100, tau=3.0, gamma=0.5, reach=5.0)
    assert f"$z_1 = 10 z_0 + {30 * math.log(100):.3g}$" in steep.texts[0].get_text()
    assert not plot_landscape(10, tau=3.0, reach=5.0).texts  # 6.9 at z0 = 0, but 1.9 at -5


@pytest.mark.parametrize(("omega", "gamma", "tau"), [(0.99, 0.0, 2.0), (0.6, 0.3, 0.0)])
def test_calibration_is_the_closed_form(omega, gamma, tau):
    logits = torch.randn(7, 2, dtype=torch.float64)
    at = {"class_counts": (100, 1), "omega": omega, "gamma": gamma, "tau": tau}
    alpha = logits[:, 1] / 100**gamma - logits[:, 0] - tau * math.log(100)
    log_odds = alpha - math.log(omega / (1 - omega))
    torch.testing.assert_close(cw.calibrated_probability(logits, **at), log_odds.sigmoid())
    shifted = (log_odds + math.log(0.2 / 0.8) - math.log(1 / 100)).sigmoid()
    torch.testing.assert_close(cw.calibrated_probability(logits, **at, prior=0.2), shifted)
    # Named the other way round, the answer is still the probability of label 1.
    swapped = cw.calibrated_probability(logits.flip(-1), **{**at, "class_counts": (1, 100)})
    torch.testing.assert_close(swapped, 1 - log_odds.sigmoid())


def test_calibration_inverts_the_minimiser_for_many_classes():
    posterior = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], dtype=torch.float64)
    at = {"class_counts": (300.0, 30.0, 3.0), "omega": 0.9, "gamma": 0.2, "tau": 1.0}
    logits = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-12)

    def expected_loss():
        optimizer.zero_grad()
        labels = [torch.full((2,), c) for c in range(3)]
        costs = [cw.vs_loss(logits, label, **at, reduction="none") for label in labels]
        loss = (posterior * torch.stack(costs, dim=1)).sum()
        loss.backward()
        return loss

    optimizer.step(expected_loss)
    found = cw.calibrated_probability(logits.detach(), **at)
    torch.testing.assert_close(found, posterior, rtol=1e-4, atol=1e-5)


def simulated(n, generator):
    """Two normal clouds at beta = 100: the true log-odds are x @ (1.5, 1) - 1.625 - log(100)."""
    y = (torch.rand(n, generator=generator) < 1 / 101).long()
    shift = torch.tensor([1.5, 1.0])
    x = torch.randn(n, 2, generator=generator) + y[:, None] * shift
    return x, y, x @ shift - shift.square().sum() / 2 - math.log(100)


def trained_log_odds(tau, reduction, lr=0.05, steps=4000, batch=128):
    """Train a logistic model in mini-batches of fresh samples; return its error in log-odds."""
    generator = torch.Generator().manual_seed(1)
    model = nn.Linear(2, 2)
    loss = cw.VSLoss((100, 1), omega=0.99, tau=tau, reduction=reduction)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    xs, ys, _ = simulated(steps * batch, generator)
    weights = []
    for x, y in zip(xs.split(batch), ys.split(batch), strict=True):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
        weights.append(parameters_to_vector(model.parameters()).detach())
    # Averaging the weights removes the noise of the steps.
    vector_to_parameters(torch.stack(weights[steps // 4 :]).mean(0), model.parameters())
    x, _, truth = simulated(20_000, generator)
    at = {"class_counts": (100, 1), "omega": 0.99, "gamma": 0.0, "tau": tau}
    return cw.calibrated_log_odds(model(x).detach().double(), **at) - truth


@pytest.mark.parametrize(("tau", "reduction"), [(0.0, "mean"), (2.0, "expected_mean")])
def test_training_in_mini_batches_recovers_the_true_posterior(tau, reduction):
    # "mean" is the same loss times the expected weight, 1.99 / 101: it needs larger steps.
    lr = 0.05 if reduction == "expected_mean" else 0.05 * 101 / 1.99
    error = trained_log_odds(tau, reduction, lr)
    assert abs(error.mean()) < 0.06
    assert error.abs().mean() < 0.08


def test_dividing_by_the_batchs_own_weights_biases_log_odds_by_minus_0_42():
    # The effective weight of a sample is E[w / (w + weights of the 127 others)].
    rare = np.arange(128)
    chance, rest = binom.pmf(rare, 127, 1 / 101), rare * 0.99 + (127 - rare) * 0.01

    def effective(weight):
        return sum(chance * weight / (weight + rest))

    bias = math.log(effective(0.99) / effective(0.01)) - math.log(99)
    assert bias == pytest.approx(-0.42, abs=0.005)
    assert float(trained_log_odds(0.0, "weighted_mean").mean()) == pytest.approx(bias, abs=0.06)


def test_log_odds_rank_where_probabilities_tie():
    logits = torch.tensor([[0.0, 30.0], [0.0, 40.0]])
    at = {"class_counts": (1, 100), "omega": 0.5, "gamma": 0.0, "tau": 0.0}
    assert cw.calibrated_probability(logits, **at).unique().numel() == 1
    assert cw.calibrated_log_odds(logits, **at).tolist() == pytest.approx([30.0, 40.0])
    at = {"class_counts": (9, 3, 1), "omega": 0.5, "gamma": 0.1, "tau": 1.0}
    many = cw.calibrated_log_odds(torch.randn(4, 3), **at)
    torch.testing.assert_close(many.exp().sum(-1), torch.ones(4))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_any_integer_dtype_serves_as_target(dtype):
    logits, target = torch.randn(6, 2), torch.tensor([0, 1, 0, 0, 1, 1])
    plain = partial(cw.vs_loss, class_counts=(9, 1), tau=1.0)
    for loss in (plain, cw.VSLoss((9, 1), tau=1.0), cw.FocalLoss()):
        assert loss(logits, target.to(dtype)) == loss(logits, target)
