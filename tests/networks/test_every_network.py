"""What all networks have in common: shapes, gradients, determinism, memory layouts, FiLM."""

import copy
from functools import cache

import pytest
import torch
from torch import nn

import curvewise as cw
from curvewise.networks.conditioning import find_last_linear
from curvewise.networks.registry import PACKAGES, build_network

FAMILY = cw.LossFamily(tau=cw.LinearDensity(0.0, 3.0, 0.33))
SHAPES = {
    "mlp": (30,),
    "small-cnn": (1, 28, 28),
    "resnet20": (3, 32, 32),
    "resnet32": (3, 32, 32),
    "resnext50-32x4d": (3, 64, 64),
    "efficientnet-lite0": (3, 64, 64),
}


@cache  # drawing 23 million weights takes longer than copying them
def drawn(name):
    if name == "efficientnet-lite0":
        for package in PACKAGES:
            pytest.importorskip(package)
    return build_network(name, in_shape=SHAPES[name], seed=0)


@pytest.fixture(params=SHAPES)
def built(request):
    return copy.deepcopy(drawn(request.param)), torch.randn(3, *SHAPES[request.param])


def test_film_stands_before_the_last_layer_which_makes_the_logits(built):
    network, x = built[0].eval(), built[1]
    name = find_last_linear(network)
    assert name in ("linear", "fc")
    head, features, lam = network.get_submodule(name), network.features(x), FAMILY.at(tau=2.0)
    assert features.shape == (3, head.in_features)
    logits = network(x)
    assert logits.shape == (3, 2)
    assert torch.equal(head(features), logits)
    conditioned = cw.condition(network, FAMILY, init="paper")
    assert torch.equal(conditioned.features(x), features)
    assert torch.equal(conditioned(x, lam), head(conditioned.film(features, lam)))
    assert torch.equal(cw.condition(network, cw.LossFamily(tau=2.0))(x), logits)


def test_gradients_reach_every_parameter(built):
    network, x = built
    nn.functional.cross_entropy(network(x), torch.tensor([0, 1, 1])).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert 0 < float(parameter.grad.abs().max()) < torch.inf, name


def test_the_same_input_gives_the_same_output(built):
    network, x = built
    twin, state = copy.deepcopy(network), torch.get_rng_state()
    assert torch.equal(network.train()(x), twin.train()(x))
    assert torch.equal(torch.get_rng_state(), state)  # nothing is drawn in training either
    before = copy.deepcopy(network.state_dict())
    whole = network.eval()(x)
    assert torch.equal(whole, network(x))
    for one in (network, twin):  # nothing is remembered in evaluation
        assert all(torch.equal(value, before[name]) for name, value in one.state_dict().items())
    # One sample alone is scored as among others.
    torch.testing.assert_close(network(x[:1]), whole[:1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "mlp"])
def test_channels_last(name):
    network = copy.deepcopy(drawn(name)).double()
    x = torch.randn(2, *SHAPES[name], dtype=torch.float64)
    twin = copy.deepcopy(network).to(memory_format=torch.channels_last)
    out, other = network(x), twin(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(out, other)
    out.square().sum().backward()
    other.square().sum().backward()
    first, last = (next(iter(one.parameters())).grad for one in (network, twin))
    torch.testing.assert_close(first, last)


@pytest.mark.parametrize("name", ["resnet20", "resnext50-32x4d"])
def test_channels_last_stays_channels_last(name):
    network = copy.deepcopy(drawn(name)).to(memory_format=torch.channels_last)
    layouts = {}

    def look(module, inputs, out):
        if out.dim() == 4 and min(out.shape[1:]) > 1:
            where = f"{len(layouts)} {type(module).__name__}"
            layouts[where] = out.is_contiguous(memory_format=torch.channels_last)

    for module in network.modules():
        module.register_forward_hook(look)
    network(torch.randn(2, *SHAPES[name]).contiguous(memory_format=torch.channels_last))
    assert len(layouts) > 40
    assert [where for where, is_last in layouts.items() if not is_last] == []


@pytest.mark.parametrize("name", ["mlp", "small-cnn", "resnet20"])
def test_the_whole_network_is_one_graph(name, request):
    network = copy.deepcopy(drawn(name)).train()
    twin, x = copy.deepcopy(network), torch.randn(3, *SHAPES[name])
    request.addfinalizer(torch.compiler.reset)
    compiled = torch.compile(twin, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), network(x), rtol=1e-5, atol=1e-5)
    network(x).sum().backward()
    compiled(x).sum().backward()
    for parameter, other in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-3, atol=1e-4)
