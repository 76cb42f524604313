"""Scores of a stack are those of its members."""

import numpy as np
import pytest
import torch
from torch import nn

from curvewise.base.errors import InputError
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.architectures import MLP, SmallCNN
from curvewise.networks.conditioning import condition
from curvewise.training import stacked
from curvewise.training.stacked import stacked_scores

LCT = LossFamily(tau=LinearDensity(0.0, 3.0, 0.33))


def expected(networks, x, lams):
    """One network and one lambda at a time."""
    rows = []
    for network, own in zip(networks, lams, strict=True):
        with torch.no_grad():
            logits = [network.eval()(x, lam) for lam in own]
        rows.append(torch.stack([z[:, 1] - z[:, 0] for z in logits]))
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("at", ["penultimate", "logits", "both"])
@pytest.mark.parametrize("per_member", [False, True])
@pytest.mark.parametrize("budget", [1, 40_000, 64 * 2**20])
def test_scores_are_the_members_own(at, per_member, budget, monkeypatch):
    monkeypatch.setattr(stacked, "SCORING_BYTES", budget)
    networks = [condition(MLP(5, hidden=(16, 8)), LCT, at) for _ in range(7)]
    x = torch.randn(33, 5)
    lams = torch.rand(7, 3, 1) * 3 if per_member else torch.tensor([[0.0], [1.0], [3.0]])
    found = stacked_scores(networks, x, lams)
    assert found.dtype == np.float32
    assert found == pytest.approx(expected(networks, x, lams.expand(7, 3, 1)), abs=1e-5)


@pytest.mark.parametrize(
    "build", [lambda: SmallCNN(1, width=4), lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 2))]
)
def test_other_networks_are_scored_one_by_one(build):
    networks = [condition(build(), LCT) for _ in range(2)]
    x, lams = torch.randn(9, 1, 8, 8), torch.tensor([[3.0]])
    found = stacked_scores(networks, x, lams)
    assert found == pytest.approx(expected(networks, x, lams.expand(2, 1, 1)), abs=1e-5)


def test_networks_without_a_body_and_without_draws():
    networks = [condition(nn.Linear(4, 2), LossFamily()) for _ in range(3)]
    x, lams = torch.randn(6, 4), torch.zeros(3, 1, 0)
    assert stacked_scores(networks, x, lams) == pytest.approx(expected(networks, x, lams), abs=1e-6)


@pytest.mark.parametrize("shape", [(1,), (0, 1), (2, 1, 1), (3, 0, 1)])
def test_lambda_of_another_shape_is_refused(shape):
    networks = [condition(MLP(5), LCT) for _ in range(3)]
    with pytest.raises(InputError, match="lams must have shape"):
        stacked_scores(networks, torch.zeros(4, 5), torch.zeros(shape))


def test_three_classes_have_no_score():
    with pytest.raises(InputError, match="two classes, got 3"):
        stacked_scores([condition(MLP(5, 3), LCT)], torch.zeros(4, 5), torch.zeros(1, 1))
