"""The MLP against a plain loop over neurons."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from curvewise.base.errors import InputError
from curvewise.networks.small import MLP


def forward_by_loop(network: MLP, x: list[float]) -> list[float]:
    linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
    for linear in linears:
        out = []
        for row, bias in zip(linear.weight.tolist(), linear.bias.tolist(), strict=True):
            total = sum(weight * value for weight, value in zip(row, x, strict=True)) + bias
            out.append(total if linear is network.linear else max(total, 0.0))
        x = out
    return x


@pytest.mark.parametrize("hidden", [(), (5,), [7, 3], (4, 6, 5)])
def test_it_is_the_formula(hidden: tuple[int, ...]) -> None:
    network = MLP(6, 3, hidden).double()
    x = torch.randn(4, 6, dtype=torch.float64)
    rows = [forward_by_loop(network, row) for row in x.tolist()]
    expected = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(network(x), expected, rtol=1e-12, atol=1e-12)
    sizes = [6, *hidden, 3]
    count = sum((a + 1) * b for a, b in pairwise(sizes))
    assert sum(parameter.numel() for parameter in network.parameters()) == count


def test_features_are_the_last_hidden_layer() -> None:
    network = MLP(6)
    x = torch.randn(4, 6)
    assert network.features(x).shape == (4, 64)
    assert torch.equal(network.linear(network.features(x)), network(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 0}, "n_features must be a whole number of at least 1, got 0"),
        ({"n_features": 3.0}, "n_features must be a whole number of at least 1, got 3.0"),
        ({"n_classes": 0}, "n_classes must be"),
        ({"n_classes": True}, "n_classes must be .* got True"),
        ({"hidden": (8, 0)}, "hidden must be a whole number of at least 1, got 0"),
        ({"hidden": 64}, "hidden must be a list of layer widths, got 64"),
        ({"hidden": "64"}, "hidden must be a list of layer widths, got '64'"),
    ],
)
def test_bad_sizes(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MLP(**{"n_features": 6, **arguments})
