"""Stacked layers and scores are those of the networks, also of ones that only look like layers."""

import numpy as np
import pytest
import torch
from small_models import DRAWN, FIXED
from torch import nn

from curvewise.losses.family import LossFamily
from curvewise.networks.architectures import MLP, SmallCNN
from curvewise.networks.conditioning import condition
from curvewise.training import stacked_network
from curvewise.training.stacked_network import StackedNetwork, layers_of, stacked_scores


class Halved(nn.Sequential):
    """Looks like a Sequential, and does something else."""

    def forward(self, x):
        return super().forward(x / 2)


def layers(twice=None, kind=nn.Sequential):
    """Two linear layers, and one of them, or a ReLU, twice."""
    first, relu, last = nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2)
    again = {"relu": (relu, nn.Linear(6, 6), relu), "layer": (relu, first, relu)}
    in_a_row = (relu, nn.ReLU())
    return kind(first, *again.get(twice, in_a_row), last)


def hooked():
    network = layers()
    network[1].register_forward_hook(lambda _, __, out: out / 2)
    return network


LOOKALIKES = {
    "one ReLU twice": lambda: layers("relu"),
    "one layer twice": lambda: layers("layer"),
    "two ReLUs in a row": layers,
    "a forward of its own": lambda: layers(kind=Halved),
    "hooked": hooked,
}


@pytest.mark.parametrize("build", LOOKALIKES.values(), ids=LOOKALIKES)
@pytest.mark.parametrize("family", [FIXED, DRAWN], ids=["VS", "LCT"])
def test_a_stack_does_what_its_networks_do(build, family):
    networks = [condition(build(), family) for _ in range(3)]
    x, lam = torch.randn(5, 6), torch.rand(3, len(family.drawn))
    expected = torch.stack([net(x, own) for net, own in zip(networks, lam, strict=True)])
    torch.testing.assert_close(StackedNetwork(networks).forward(x, lam), expected)


def test_a_network_that_does_not_end_in_its_linear_layer_is_no_stack_of_layers():
    network = condition(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2), nn.ReLU()), FIXED)
    assert layers_of(network) is None


def one_by_one(networks, x, lams):
    """Scores of one network and one lambda at a time."""
    rows = []
    for network, own in zip(networks, lams, strict=True):
        with torch.no_grad():
            logits = [network.eval()(x, lam) for lam in own]
        rows.append(torch.stack([z[:, 1] - z[:, 0] for z in logits]))
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("at", ["penultimate", "logits", "both"])
@pytest.mark.parametrize(
    "lams", [torch.linspace(0, 3, 21).view(7, 3, 1), torch.tensor([[0.0], [1.0], [3.0]])]
)
@pytest.mark.parametrize("budget", [1, 40_000, 64 * 2**20])
def test_scores_are_the_members_own(at, lams, budget, monkeypatch):
    monkeypatch.setattr(stacked_network, "SCORING_BYTES", budget)
    networks = [condition(MLP(5, hidden=(16, 8)), DRAWN, at) for _ in range(7)]
    x = torch.randn(33, 5)
    found = stacked_scores(networks, x, lams)
    assert found.dtype == np.float32
    assert found == pytest.approx(one_by_one(networks, x, lams.expand(7, 3, 1)), abs=1e-5)


@pytest.mark.parametrize(
    ("build", "family", "shape"),
    [
        (lambda: SmallCNN(1, width=4), DRAWN, (1, 8, 8)),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), DRAWN, (1, 8, 8)),
        (lambda: nn.Linear(4, 2), LossFamily(), (4,)),  # no body, nothing drawn
    ],
)
def test_other_networks_are_scored_as_well(build, family, shape):
    networks = [condition(build(), family) for _ in range(2)]
    x, lams = torch.randn(9, *shape), torch.full((2, 1, len(family.drawn)), 3.0)
    found = stacked_scores(networks, x, lams)
    assert found == pytest.approx(one_by_one(networks, x, lams), abs=1e-5)
