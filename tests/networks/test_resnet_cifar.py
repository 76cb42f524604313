"""ResNet for CIFAR: published sizes and costs, and the block against plain loops."""

import pytest
import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.networks.residual import Block, ResNetCifar


def multiplications(network: nn.Module, x: Tensor) -> int:
    """Return how many multiplications the convolutions and linear layers do per sample."""
    total = 0

    def count(module: nn.Module, inputs: tuple[Tensor], out: Tensor) -> None:
        nonlocal total
        total += out[0].numel() * module.weight[0].numel()

    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    network(x)
    return total


@pytest.mark.parametrize("depth", [20, 32, 44, 56])
@pytest.mark.parametrize(("n_channels", "n_classes", "width"), [(3, 2, 16), (1, 10, 8)])
def test_number_of_parameters(depth: int, n_channels: int, n_classes: int, width: int) -> None:
    network = ResNetCifar(depth, n_channels, n_classes, width)
    n = (depth - 2) // 6
    expected = 9 * n_channels * width + 2 * width  # the first convolution and its BatchNorm
    n_in = width
    for n_out in (width, 2 * width, 4 * width):
        expected += 9 * n_in * n_out + (2 * n - 1) * 9 * n_out**2 + 2 * n * 2 * n_out
        n_in = n_out
    expected += 4 * width * n_classes + n_classes
    assert sum(parameter.numel() for parameter in network.parameters()) == expected
    layers = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == depth


@pytest.mark.parametrize(("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85)])
def test_sizes_of_the_paper(depth: int, millions: float) -> None:
    network = ResNetCifar(depth, n_classes=10)
    count = sum(parameter.numel() for parameter in network.parameters())
    assert round(count / 1e6, 2) == millions


def test_resnet32_for_two_classes() -> None:
    network = ResNetCifar(32)
    assert sum(parameter.numel() for parameter in network.parameters()) == 463_634
    # Forward and backward are three products, each a multiplication and an addition.
    flop = 2 * 3 * multiplications(network, torch.zeros(2, 3, 32, 32))
    assert flop == pytest.approx(414e6, rel=0.01)


def shortcut_by_loop(x: Tensor, n_out: int) -> Tensor:
    n, n_in, height, width = x.shape
    out = torch.zeros(n, n_out, (height + 1) // 2, (width + 1) // 2, dtype=x.dtype)
    for channel in range(n_in):
        for row in range(0, height, 2):
            for column in range(0, width, 2):
                value = x[:, channel, row, column]
                out[:, channel + (n_out - n_in) // 2, row // 2, column // 2] = value
    return out


@pytest.mark.parametrize("size", [(8, 8), (7, 10)])
def test_the_shortcut_is_option_a(size: tuple[int, int]) -> None:
    block = Block(4, 8, stride=2).eval()
    assert {name.split(".")[0] for name, _ in block.named_parameters()} == {
        "conv1",
        "bn1",
        "conv2",
        "bn2",
    }
    nn.init.zeros_(block.bn2.weight)  # leaves nothing but the shortcut
    x = torch.randn(3, 4, *size)
    assert torch.equal(block(x), shortcut_by_loop(x, 8).clamp(min=0))


def test_a_block_adds_its_input() -> None:
    block = Block(4, 4, stride=1).eval()
    x = torch.randn(3, 4, 6, 6)
    inner = block.bn2(block.conv2(block.bn1(block.conv1(x)).clamp(min=0)))
    torch.testing.assert_close(block(x), (inner + x).clamp(min=0))


def test_stages_halve_the_image_and_double_the_channels() -> None:
    network = ResNetCifar(20)
    shapes: list[tuple[int, ...]] = []
    for stage in (network.stage1, network.stage2, network.stage3):
        stage.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape[1:])))
    features = network.features(torch.randn(2, 3, 32, 32))
    assert shapes == [(16, 32, 32), (32, 16, 16), (64, 8, 8)]
    assert features.shape == (2, 64)
    assert bool((features >= 0).all())


def test_features_are_the_mean_over_pixels() -> None:
    network = ResNetCifar(20).eval()
    maps: list[Tensor] = []
    network.stage3.register_forward_hook(lambda _, __, out: maps.append(out))
    features = network.features(torch.randn(2, 3, 32, 32))
    torch.testing.assert_close(features, maps[0].flatten(2).sum(2) / 64)


def test_initial_weights_have_the_deviation_of_he() -> None:
    network = ResNetCifar(56)
    for module in network.stage3.modules():
        if isinstance(module, nn.Conv2d):
            expected = (2 / (9 * module.in_channels)) ** 0.5
            assert float(module.weight.detach().std()) == pytest.approx(expected, rel=0.03)
    assert float(network.linear.bias.detach().abs().max()) == 0


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"depth must be one of \(20, 32, 44, 56\), got 18"):
        ResNetCifar(18)
    with pytest.raises(InputError, match="width must be a whole number of at least 1, got 0"):
        ResNetCifar(20, width=0)
