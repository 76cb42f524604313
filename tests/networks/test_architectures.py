"""Networks against plain loops over neurons and pixels; published sizes and costs."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from curvewise.networks.architectures import MLP, Block, ResNetCifar, ResNeXt50, SmallCNN


def size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def multiplications(network: nn.Module, x: Tensor) -> int:
    """Return how many multiplications the convolutions and linear layers do per sample."""
    counts = []

    def count(module: nn.Module, inputs: tuple[Tensor], out: Tensor):
        counts.append(out[0].numel() * module.weight[0].numel())

    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    network(x)
    return sum(counts)


def mlp_by_loop(network: MLP, x: list[float]) -> list[float]:
    linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
    for linear in linears:
        out = []
        for row, bias in zip(linear.weight.tolist(), linear.bias.tolist(), strict=True):
            total = sum(weight * value for weight, value in zip(row, x, strict=True)) + bias
            out.append(total if linear is network.linear else max(total, 0.0))
        x = out
    return x


@pytest.mark.parametrize("hidden", [(), (5,), [7, 3], (4, 6, 5)])
def test_an_mlp_is_the_formula(hidden: tuple[int, ...]):
    network = MLP(6, 3, hidden).double()
    x = torch.randn(4, 6, dtype=torch.float64)
    expected = torch.tensor([mlp_by_loop(network, row) for row in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(network(x), expected, rtol=1e-12, atol=1e-12)
    assert size(network) == sum((a + 1) * b for a, b in pairwise([6, *hidden, 3]))


def convolve(image: np.ndarray, weight: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """Return the convolution of (C, H, W) with (F, C, k, k), one output pixel at a time."""
    kernel = weight.shape[-1]
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
    rows, columns = ((size - kernel) // stride + 1 for size in padded.shape[1:])
    out = np.zeros((len(weight), rows, columns))
    for row in range(rows):
        for column in range(columns):
            top, left = row * stride, column * stride
            patch = padded[:, top : top + kernel, left : left + kernel]
            out[:, row, column] = [(patch * one).sum() for one in weight]
    return out


def cnn_by_loop(network: SmallCNN, image: np.ndarray, stride: int) -> np.ndarray:
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    for stage, (convolution, norm) in enumerate(zip(convolutions, norms, strict=True)):
        step = stride if stage == 0 else 1
        image = convolve(image, convolution.weight.detach().numpy(), step, step)
        if stage < 2:  # the maximum of each 2x2 square
            rows, columns = (size // 2 for size in image.shape[1:])
            squares = image[:, : 2 * rows, : 2 * columns]
            image = squares.reshape(len(image), rows, 2, columns, 2).max((2, 4))
        mean, var = norm.running_mean.numpy(), norm.running_var.numpy()
        gain, shift = norm.weight.detach().numpy(), norm.bias.detach().numpy()
        scale = gain / np.sqrt(var + norm.eps)
        for channel in range(len(image)):
            normalised = (image[channel] - mean[channel]) * scale[channel] + shift[channel]
            image[channel] = np.maximum(normalised, 0)
    features = image.mean((1, 2))
    return network.linear.weight.detach().numpy() @ features + network.linear.bias.detach().numpy()


@pytest.mark.parametrize(("stride", "image"), [(1, (9, 6)), (2, (16, 17)), (3, (25, 14))])
def test_a_small_cnn_is_the_formula(stride, image):
    network = SmallCNN(2, 3, width=2, stride=stride).double()
    network(torch.randn(9, 2, *image, dtype=torch.float64))  # moves the running statistics
    for norm in (m for m in network.modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    network.eval()
    x = torch.randn(3, 2, *image, dtype=torch.float64)
    expected = np.stack([cnn_by_loop(network, image, stride) for image in x.numpy()])
    np.testing.assert_allclose(network(x).detach().numpy(), expected, rtol=1e-10, atol=1e-10)


def test_parameters_of_a_small_cnn_and_every_pixel_counts_at_any_stride():
    for width in (4, 16):
        convolutions = 9 * (3 * width + width * 2 * width + 2 * width * 4 * width)
        norms, linear = 2 * (width + 2 * width + 4 * width), 5 * 4 * width + 5
        assert size(SmallCNN(3, 5, width)) == convolutions + norms + linear
    x = torch.randn(1, 1, 64, 64, requires_grad=True)
    out = SmallCNN(1, stride=8).body[0](x)
    assert out.shape == (1, 16, 8, 8)
    out.square().sum().backward()
    assert bool((x.grad != 0).all())


@pytest.mark.parametrize(
    ("depth", "n_channels", "n_classes", "width"), [(20, 3, 2, 16), (32, 1, 10, 8), (56, 1, 2, 8)]
)
def test_number_of_parameters_of_a_resnet(depth, n_channels, n_classes, width):
    network = ResNetCifar(depth, n_channels, n_classes, width)
    n, ends = (depth - 2) // 6, 9 * n_channels * width + 4 * width * n_classes + n_classes
    norms = 2 * width + 2 * n * 2 * 7 * width
    stages = (2 * n - 1) * 9 * 21 * width**2 + 9 * (1 + 2 + 8) * width**2
    assert size(network) == ends + norms + stages
    assert len([m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]) == depth


def test_sizes_and_cost_of_the_paper_and_stages_that_halve_the_image():
    sizes = [size(ResNetCifar(depth, n_classes=10)) for depth in (20, 32, 44, 56)]
    assert [round(each / 1e6, 2) for each in sizes] == [0.27, 0.46, 0.66, 0.85]
    # Forward and backward are three products, each a multiplication and an addition.
    flop = 2 * 3 * multiplications(ResNetCifar(32), torch.zeros(2, 3, 32, 32))
    assert flop == pytest.approx(414e6, rel=0.01)
    network = ResNetCifar(20).eval()
    maps: list[Tensor] = []
    for stage in (network.stage1, network.stage2, network.stage3):
        stage.register_forward_hook(lambda _, __, out: maps.append(out))
    features = network.features(torch.randn(2, 3, 32, 32))
    assert [tuple(out.shape[1:]) for out in maps] == [(16, 32, 32), (32, 16, 16), (64, 8, 8)]
    torch.testing.assert_close(features, maps[2].flatten(2).sum(2) / 64)  # the mean over pixels
    assert bool((features >= 0).all())


def shortcut_by_loop(x: Tensor, n_out: int) -> Tensor:
    n, n_in, height, width = x.shape
    out = torch.zeros(n, n_out, (height + 1) // 2, (width + 1) // 2, dtype=x.dtype)
    for channel in range(n_in):
        for row in range(0, height, 2):
            for column in range(0, width, 2):
                value = x[:, channel, row, column]
                out[:, channel + (n_out - n_in) // 2, row // 2, column // 2] = value
    return out


@pytest.mark.parametrize("image", [(8, 8), (7, 10)])
def test_the_shortcut_is_option_a(image: tuple[int, int]):
    block = Block(4, 8, stride=2).eval()
    assert {name for name, _ in block.named_children()} == {"conv1", "bn1", "conv2", "bn2"}
    nn.init.zeros_(block.bn2.weight)  # leaves nothing but the shortcut
    x = torch.randn(3, 4, *image)
    assert torch.equal(block(x), shortcut_by_loop(x, 8).clamp(min=0))
    plain = Block(4, 4, stride=1).eval()  # adds its input as it is
    inner = plain.bn2(plain.conv2(plain.bn1(plain.conv1(x)).clamp(min=0)))
    torch.testing.assert_close(plain(x), (inner + x).clamp(min=0))


def published_layout(n_classes):
    """Every name and shape of torchvision's state dict, in its order.

    Stage i of 3, 4, 6 and 3 blocks has p = 64, 128, 256, 512 planes: a block leads from its input
    through 2p channels, in 32 groups, to 4p. The first of a stage also has a projection.
    """
    layout = {}

    def convolution_and_norm(convolution, norm, *shape):
        layout[f"{convolution}.weight"] = shape
        for part in ("weight", "bias", "running_mean", "running_var"):
            layout[f"{norm}.{part}"] = shape[:1]
        layout[f"{norm}.num_batches_tracked"] = ()

    convolution_and_norm("conv1", "bn1", 64, 3, 7, 7)
    n_in = 64
    for stage, (blocks, planes) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=1):
        for number in range(blocks):
            block, middle, out = f"layer{stage}.{number}", 2 * planes, 4 * planes
            convolution_and_norm(f"{block}.conv1", f"{block}.bn1", middle, n_in, 1, 1)
            convolution_and_norm(f"{block}.conv2", f"{block}.bn2", middle, middle // 32, 3, 3)
            convolution_and_norm(f"{block}.conv3", f"{block}.bn3", out, middle, 1, 1)
            if number == 0:
                projection = (f"{block}.downsample.{part}" for part in (0, 1))
                convolution_and_norm(*projection, out, n_in, 1, 1)
            n_in = out
    return layout | {"fc.weight": (n_classes, 2048), "fc.bias": (n_classes,)}


@pytest.fixture(scope="module")
def resnext() -> ResNeXt50:
    return ResNeXt50(n_classes=1000)


def test_names_and_shapes_are_torchvisions_and_a_bottleneck_its_formula(resnext: ResNeXt50):
    layout = [(name, tuple(value.shape)) for name, value in resnext.state_dict().items()]
    assert layout == list(published_layout(1000).items())
    assert len(layout) == 53 * 6 + 2  # 53 convolutions, each with the five entries of a BatchNorm
    assert size(resnext) == 25_028_904
    block = resnext.layer2[0].eval()
    x = torch.randn(2, 256, 6, 6)
    out = block.bn1(block.conv1(x)).clamp(min=0)
    out = block.bn2(block.conv2(out)).clamp(min=0)
    out = block.bn3(block.conv3(out)) + block.downsample(x)
    torch.testing.assert_close(block(x), out.clamp(min=0))


@torch.no_grad()
def test_cost_at_224_pixels(resnext: ResNeXt50):
    shapes = []
    for stage in (resnext.layer1, resnext.layer2, resnext.layer3, resnext.layer4):
        stage.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape[1:])))
    # The cost is published with the weights.
    cost = multiplications(resnext.eval(), torch.zeros(1, 3, 224, 224))
    assert cost / 1e9 == pytest.approx(4.23, abs=0.005)
    assert shapes == [(256, 56, 56), (512, 28, 28), (1024, 14, 14), (2048, 7, 7)]


def test_initial_weights_have_the_deviation_of_he(resnext: ResNeXt50):
    """Of the inputs in ResNets for CIFAR, of the outputs in torchvision's."""
    network = ResNetCifar(56)
    assert float(network.linear.bias.detach().abs().max()) == 0
    for module in network.stage3.modules():
        if isinstance(module, nn.Conv2d):
            expected = (2 / (9 * module.in_channels)) ** 0.5
            assert float(module.weight.detach().std()) == pytest.approx(expected, rel=0.03)
    for name, fan_out in (("layer4.0.conv1", 1024), ("layer4.1.conv2", 9 * 1024)):
        weight = resnext.get_submodule(name).weight
        assert float(weight.detach().std()) == pytest.approx((2 / fan_out) ** 0.5, rel=0.01)
