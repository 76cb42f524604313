"""Residual networks for 32x32 images.

He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition" (CVPR 2016, arXiv 1512.03385),
section 4.2: 6n + 2 layers in three stages of n blocks, with shortcuts that have no parameters.
"""

from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from curvewise.base.errors import InputError
from curvewise.networks.sizes import require_size

DEPTHS = (20, 32, 44, 56)


class Block(nn.Module):
    """Two 3x3 convolutions around which the input is added.

    Where the stride is 2, the shortcut takes every second pixel and has zeros in the channels
    that the input lacks, half of them in front and half behind ("option A").
    """

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.stride = stride
        self.front = (n_out - n_in) // 2
        self.behind = n_out - n_in - self.front

    def forward(self, x: Tensor) -> Tensor:
        """Return features (n, n_out, H / stride, W / stride), rounded up."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        if self.stride > 1:
            x = F.pad(
                x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.front, self.behind)
            )
        return F.relu(out + x, inplace=True)


class ResNetCifar(nn.Module):
    """ResNet-20, 32, 44 or 56: images (n, channels, H, W) to logits (n, C).

    Made for 32x32 images, fit for any size. All weights are drawn from N(0, 2 / fan_in), as in the
    paper. With n = (depth - 2) / 6, channels c, width w and C classes it has
    9 c w + 2 w + 378 n w^2 - 90 w^2 + 28 n w + 4 w C + C parameters: ResNet-32 with two classes
    463,634.

    Parameters
    ----------
    depth
        20, 32, 44 or 56.
    width
        Channels of the first stage; the others have twice and four times as many.

    >>> import torch
    >>> ResNetCifar(20)(torch.zeros(5, 3, 32, 32)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self, depth: int, n_channels: int = 3, n_classes: int = 2, width: int = 16
    ) -> None:
        super().__init__()
        if depth not in DEPTHS:
            raise InputError(f"depth must be one of {DEPTHS}, got {depth!r}")
        sizes = (("n_channels", n_channels), ("n_classes", n_classes), ("width", width))
        for name, size in sizes:
            require_size(name, size)
        n_blocks = (depth - 2) // 6
        self.depth, self.n_features = depth, 4 * width
        self.conv1 = nn.Conv2d(n_channels, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.stage1 = _stage(n_blocks, width, width, 1)
        self.stage2 = _stage(n_blocks, width, 2 * width, 2)
        self.stage3 = _stage(n_blocks, 2 * width, 4 * width, 2)
        self.linear = nn.Linear(4 * width, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        nn.init.zeros_(self.linear.bias)

    def features(self, x: Tensor) -> Tensor:
        """Return the pooled features (n, 4 width)."""
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.stage3(self.stage2(self.stage1(x)))
        return x.mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, C) of images (n, channels, H, W)."""
        return cast(Tensor, self.linear(self.features(x)))


def _stage(n_blocks: int, n_in: int, n_out: int, stride: int) -> nn.Sequential:
    first = Block(n_in, n_out, stride)
    return nn.Sequential(first, *(Block(n_out, n_out, 1) for _ in range(n_blocks - 1)))
