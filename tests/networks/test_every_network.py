"""What all networks have in common: shapes, gradients, determinism, memory layouts, FiLM."""

import copy
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor, nn

import curvewise as cw
from curvewise.networks.architectures import ResNeXt50
from curvewise.networks.conditioning import find_last_linear
from curvewise.networks.registry import build_network

FAMILY = cw.LossFamily(tau=cw.LinearDensity(0.0, 3.0, 0.33))
SHAPES: dict[str, tuple[int, ...]] = {
    "mlp": (30,),
    "small-cnn": (1, 28, 28),
    "resnet20": (3, 32, 32),
    "resnet32": (3, 32, 32),
    "resnext50-32x4d": (3, 64, 64),
}
IMAGES = [name for name in SHAPES if name != "mlp"]
Built = tuple[nn.Module, Tensor]


@cache  # drawing 23 million weights takes longer than copying them
def drawn(name: str) -> nn.Module:
    return build_network(name, in_shape=SHAPES[name], seed=0)


@pytest.fixture(params=SHAPES)
def built(request: pytest.FixtureRequest) -> Built:
    return copy.deepcopy(drawn(request.param)), torch.randn(3, *SHAPES[request.param])


def test_logits_come_from_the_last_layer(built: Built) -> None:
    network, x = built
    name = find_last_linear(network)
    assert name == ("fc" if isinstance(network, ResNeXt50) else "linear")
    network.eval()
    head = network.get_submodule(name)
    features = network.features(x)
    assert features.shape == (3, head.in_features)
    assert network(x).shape == (3, 2)
    assert torch.equal(head(features), network(x))


def test_film_stands_before_the_last_layer(built: Built) -> None:
    network, x = built
    network.eval()
    conditioned = cw.condition(network, FAMILY)
    lam = FAMILY.at(tau=2.0)
    features = network.features(x)
    torch.testing.assert_close(conditioned.features(x), features, rtol=0, atol=0)
    head = network.get_submodule(find_last_linear(network))
    assert conditioned.film is not None
    expected = head(conditioned.film(features, lam))
    torch.testing.assert_close(conditioned(x, lam), expected, rtol=0, atol=0)
    fixed = cw.condition(network, cw.LossFamily(tau=2.0))
    torch.testing.assert_close(fixed(x), network(x), rtol=0, atol=0)


def test_gradients_reach_every_parameter(built: Built) -> None:
    network, x = built
    logits = network(x)
    nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1])).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
        assert float(parameter.grad.abs().max()) > 0, name


def test_the_same_input_gives_the_same_output(built: Built) -> None:
    network, x = built
    twin = copy.deepcopy(network)
    state = torch.get_rng_state()
    assert torch.equal(network.train()(x), twin.train()(x))
    assert torch.equal(torch.get_rng_state(), state)  # nothing is drawn in training either
    for (name, value), (_, other) in zip(
        network.state_dict().items(), twin.state_dict().items(), strict=True
    ):
        assert torch.equal(value, other), name
    before = copy.deepcopy(network.state_dict())
    network.eval()
    whole = network(x)
    assert torch.equal(whole, network(x))
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    # One sample alone is scored as among others.
    torch.testing.assert_close(network(x[:1]), whole[:1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", IMAGES)
def test_channels_last(name: str) -> None:
    network = copy.deepcopy(drawn(name)).double()
    x = torch.randn(3, *SHAPES[name], dtype=torch.float64)
    twin = copy.deepcopy(network).to(memory_format=torch.channels_last)
    out, other = network(x), twin(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(out, other)
    out.square().sum().backward()
    other.square().sum().backward()
    first, last = (next(iter(one.parameters())).grad for one in (network, twin))
    torch.testing.assert_close(first, last)


@pytest.mark.parametrize("name", ["resnet20", "resnet32", "resnext50-32x4d"])
def test_channels_last_stays_channels_last(name: str) -> None:
    network = copy.deepcopy(drawn(name)).to(memory_format=torch.channels_last)
    layouts: dict[str, bool] = {}

    def look(module: nn.Module, inputs: tuple[Tensor], out: Tensor) -> None:
        if out.dim() == 4 and min(out.shape[1:]) > 1:
            is_last = out.is_contiguous(memory_format=torch.channels_last)
            layouts[f"{len(layouts)} {type(module).__name__}"] = is_last

    for module in network.modules():
        module.register_forward_hook(look)
    x = torch.randn(2, *SHAPES[name]).contiguous(memory_format=torch.channels_last)
    network(x)
    assert len(layouts) > 40
    assert [where for where, is_last in layouts.items() if not is_last] == []


@pytest.mark.parametrize(
    ("name", "training"),
    [("mlp", True), ("small-cnn", False), ("small-cnn", True), ("resnet20", True)],
)
def test_the_whole_network_is_one_graph(
    name: str, training: bool, request: pytest.FixtureRequest
) -> None:
    network = copy.deepcopy(drawn(name)).train(training)
    twin, x = copy.deepcopy(network), torch.randn(3, *SHAPES[name])
    request.addfinalizer(torch.compiler.reset)
    compiled: Callable[[Tensor], Tensor] = torch.compile(twin, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), network(x), rtol=1e-5, atol=1e-5)
    network(x).sum().backward()
    compiled(x).sum().backward()
    for parameter, other in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-3, atol=1e-4)
