"""ResNeXt-50 32x4d: the names, shapes, size and cost that are published."""

import pytest
import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.networks.residual import ResNeXt50

Shape = tuple[int, ...]


def published_layout(n_classes: int) -> dict[str, Shape]:
    """Return every name and shape of torchvision's state dict, in its order.

    Stage i of 3, 4, 6 and 3 blocks has p = 64, 128, 256, 512 planes: a block leads from its input
    through 2p channels, in 32 groups, to 4p. The first of a stage also has a projection.
    """
    layout: dict[str, Shape] = {}

    def convolution(name: str, *shape: int) -> None:
        layout[f"{name}.weight"] = shape

    def norm(name: str, channels: int) -> None:
        for part in ("weight", "bias", "running_mean", "running_var"):
            layout[f"{name}.{part}"] = (channels,)
        layout[f"{name}.num_batches_tracked"] = ()

    convolution("conv1", 64, 3, 7, 7)
    norm("bn1", 64)
    channels = 64
    for stage, (blocks, planes) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=1):
        for block in range(blocks):
            prefix, middle, out = f"layer{stage}.{block}", 2 * planes, 4 * planes
            convolution(f"{prefix}.conv1", middle, channels, 1, 1)
            norm(f"{prefix}.bn1", middle)
            convolution(f"{prefix}.conv2", middle, middle // 32, 3, 3)
            norm(f"{prefix}.bn2", middle)
            convolution(f"{prefix}.conv3", out, middle, 1, 1)
            norm(f"{prefix}.bn3", out)
            if block == 0:
                convolution(f"{prefix}.downsample.0", out, channels, 1, 1)
                norm(f"{prefix}.downsample.1", out)
            channels = out
    layout["fc.weight"], layout["fc.bias"] = (n_classes, 2048), (n_classes,)
    return layout


@pytest.fixture(scope="module")
def network() -> ResNeXt50:
    return ResNeXt50(n_classes=1000)


def test_names_and_shapes_are_those_of_torchvision(network: ResNeXt50) -> None:
    own = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    assert own == published_layout(1000)
    assert list(own) == list(published_layout(1000))
    assert len(own) == 53 * 6 + 2  # 53 convolutions, each with the five entries of a BatchNorm


def test_number_of_parameters(network: ResNeXt50) -> None:
    assert sum(parameter.numel() for parameter in network.parameters()) == 25_028_904


def test_cost_at_224_pixels() -> None:
    with torch.device("meta"):  # shapes only
        network, x = ResNeXt50(n_classes=1000), torch.zeros(1, 3, 224, 224)
    total, shapes = 0, {}

    def count(module: nn.Module, inputs: tuple[Tensor], out: Tensor) -> None:
        nonlocal total
        total += out[0].numel() * module.weight[0].numel()

    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
        if name in ("layer1", "layer2", "layer3", "layer4"):
            module.register_forward_hook(
                lambda _, __, out, name=name: shapes.update({name: tuple(out.shape[1:])})
            )
    assert network(x).shape == (1, 1000)
    assert total / 1e9 == pytest.approx(4.23, abs=0.005)  # published with the weights
    assert shapes == {
        "layer1": (256, 56, 56),
        "layer2": (512, 28, 28),
        "layer3": (1024, 14, 14),
        "layer4": (2048, 7, 7),
    }


def test_the_grouped_convolution_has_the_stride(network: ResNeXt50) -> None:
    for stage in (network.layer2, network.layer3, network.layer4):
        first = stage[0]
        assert (first.conv1.stride, first.conv2.stride) == ((1, 1), (2, 2))
        assert first.conv2.groups == 32


def test_a_block_by_hand(network: ResNeXt50) -> None:
    block = network.layer2[0].eval()
    x = torch.randn(2, 256, 6, 6)
    out = block.bn1(block.conv1(x)).clamp(min=0)
    out = block.bn2(block.conv2(out)).clamp(min=0)
    out = block.bn3(block.conv3(out)) + block.downsample(x)
    torch.testing.assert_close(block(x), out.clamp(min=0))


def test_initial_weights_have_the_deviation_of_fan_out(network: ResNeXt50) -> None:
    for name, fan_out in (("layer4.0.conv1", 1024), ("layer4.1.conv2", 9 * 1024)):
        weight = network.get_submodule(name).weight
        assert float(weight.detach().std()) == pytest.approx((2 / fan_out) ** 0.5, rel=0.01)


def test_bad_sizes() -> None:
    with pytest.raises(InputError, match="n_classes must be a whole number of at least 1, got 0"):
        ResNeXt50(n_classes=0)
