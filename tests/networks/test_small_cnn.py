"""The small CNN against plain loops over pixels."""

import numpy as np
import pytest
import torch
from torch import nn

from curvewise.base.errors import InputError
from curvewise.networks.small import SmallCNN


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


def halve(image: np.ndarray) -> np.ndarray:
    """Return the maximum of each 2x2 square."""
    rows, columns = (size // 2 for size in image.shape[1:])
    squares = image[:, : 2 * rows, : 2 * columns].reshape(len(image), rows, 2, columns, 2)
    return squares.max((2, 4))


def forward_by_loop(network: SmallCNN, image: np.ndarray, stride: int) -> np.ndarray:
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    for stage, (convolution, norm) in enumerate(zip(convolutions, norms, strict=True)):
        step = stride if stage == 0 else 1
        image = convolve(image, convolution.weight.detach().numpy(), step, step)
        image = halve(image) if stage < 2 else image
        mean, var = norm.running_mean.numpy(), norm.running_var.numpy()
        gain, shift = norm.weight.detach().numpy(), norm.bias.detach().numpy()
        scale = gain / np.sqrt(var + norm.eps)
        for channel in range(len(image)):
            normalised = (image[channel] - mean[channel]) * scale[channel] + shift[channel]
            image[channel] = np.maximum(normalised, 0)
    features = image.mean((1, 2))
    return network.linear.weight.detach().numpy() @ features + network.linear.bias.detach().numpy()


@pytest.mark.parametrize(
    ("stride", "size"), [(1, (8, 8)), (1, (9, 6)), (2, (16, 17)), (3, (25, 14))]
)
def test_it_is_the_formula(stride: int, size: tuple[int, int]) -> None:
    network = SmallCNN(2, 3, width=2, stride=stride).double()
    network(torch.randn(9, 2, *size, dtype=torch.float64))  # moves the running statistics
    for norm in (m for m in network.modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    network.eval()
    x = torch.randn(3, 2, *size, dtype=torch.float64)
    expected = np.stack([forward_by_loop(network, image, stride) for image in x.numpy()])
    np.testing.assert_allclose(network(x).detach().numpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("width", [4, 16])
def test_number_of_parameters(width: int) -> None:
    network = SmallCNN(3, 5, width)
    convolutions = 9 * (3 * width + width * 2 * width + 2 * width * 4 * width)
    norms = 2 * (width + 2 * width + 4 * width)
    linear = 5 * 4 * width + 5
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == convolutions + norms + linear


@pytest.mark.parametrize("size", [(4, 4), (28, 28), (32, 32), (33, 47), (96, 96)])
def test_any_size_will_do(size: tuple[int, int]) -> None:
    network = SmallCNN(1)
    assert network.features(torch.randn(2, 1, *size)).shape == (2, 64)
    assert network(torch.randn(2, 1, *size)).shape == (2, 2)


def test_every_pixel_counts_at_any_stride() -> None:
    network = SmallCNN(1, stride=8).eval()
    x = torch.randn(1, 1, 64, 64, requires_grad=True)
    first = next(module for module in network.modules() if isinstance(module, nn.Conv2d))
    assert first(x).shape == (1, 16, 8, 8)
    first(x).square().sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0).all())


@pytest.mark.parametrize("name", ["n_channels", "n_classes", "width", "stride"])
def test_bad_sizes(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be a whole number of at least 1, got 0"):
        SmallCNN(**{"n_channels": 1, name: 0})
