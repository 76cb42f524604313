"""Stacked layers do what the networks do, also networks that only look like plain layers."""

import pytest
import torch
from torch import nn

from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.conditioning import condition
from curvewise.training.stacked_network import StackedNetwork, layers_of

VS, LCT = LossFamily(0.7, 0.2, 1.0), LossFamily(0.7, 0.2, LinearDensity(0, 3, 0.33))


class Halved(nn.Sequential):
    """Looks like a Sequential, and does something else."""

    def forward(self, x):
        return super().forward(x / 2)


def one_relu_twice():
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(6, 8), relu, nn.Linear(8, 8), relu, nn.Linear(8, 2))


def one_layer_twice():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(6, 2))


def two_relus_in_a_row():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.ReLU(), nn.Linear(8, 2))


def own_forward():
    return Halved(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))


def hooked():
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    network[1].register_forward_hook(lambda _, __, out: out / 2)
    return network


@pytest.mark.parametrize(
    "build", [one_relu_twice, one_layer_twice, two_relus_in_a_row, own_forward, hooked]
)
@pytest.mark.parametrize("family", [VS, LCT], ids=["VS", "LCT"])
def test_a_stack_does_what_its_networks_do(build, family):
    torch.manual_seed(0)
    networks = [condition(build(), family) for _ in range(3)]
    x, lam = torch.randn(5, 6), torch.rand(3, len(family.drawn))
    expected = torch.stack([net(x, own) for net, own in zip(networks, lam, strict=True)])
    torch.testing.assert_close(StackedNetwork(networks).forward(x, lam), expected)


def test_a_network_that_does_not_end_in_its_linear_layer_is_no_stack_of_layers():
    network = condition(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2), nn.ReLU()), VS)
    assert layers_of(network) is None
