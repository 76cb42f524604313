"""ResNeXt-50 32x4d for large images.

Xie, Girshick, Dollar, Tu, He, "Aggregated Residual Transformations for Deep Neural Networks"
(CVPR 2017, arXiv 1611.05431). Parameters and buffers are called and shaped as in torchvision, so
that its published ImageNet weights can be loaded.
"""

from typing import ClassVar, cast

from torch import Tensor, nn
from torch.nn import functional as F

from curvewise.networks.sizes import require_size

GROUPS = 32
GROUP_WIDTH = 4
EXPANSION = 4
BLOCKS = (3, 4, 6, 3)


class Bottleneck(nn.Module):
    """1x1, grouped 3x3 and 1x1 convolutions around which the input is added.

    With p planes the middle has 2 p channels (32 groups of p / 16) and the output 4 p. Where the
    shape changes, the shortcut is a 1x1 convolution with BatchNorm.
    """

    def __init__(self, n_in: int, planes: int, stride: int) -> None:
        super().__init__()
        middle, n_out = planes * GROUP_WIDTH * GROUPS // 64, planes * EXPANSION
        self.conv1 = nn.Conv2d(n_in, middle, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride, padding=1, groups=GROUPS, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, n_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(n_out)
        self.downsample = (
            nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))
            if stride > 1 or n_in != n_out
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return features (n, 4 planes, H / stride, W / stride), rounded up."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = F.relu(self.bn2(self.conv2(out)), inplace=True)
        out = self.bn3(self.conv3(out))
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(out + shortcut, inplace=True)


class ResNeXt50(nn.Module):
    """ResNeXt-50 32x4d: images (n, channels, H, W) to logits (n, C), 25,028,904 parameters.

    That number is for three channels and 1000 classes. Made for 224x224 images, fit for any size.
    The published weights expect images in [0, 1], normalised by `input_mean` and `input_std`.

    >>> import torch
    >>> ResNeXt50().eval()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 2])
    """

    input_mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    input_std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)

    def __init__(self, n_channels: int = 3, n_classes: int = 2) -> None:
        super().__init__()
        require_size("n_channels", n_channels)
        require_size("n_classes", n_classes)
        self.conv1 = nn.Conv2d(n_channels, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _layer(BLOCKS[0], 64, 64, 1)
        self.layer2 = _layer(BLOCKS[1], 256, 128, 2)
        self.layer3 = _layer(BLOCKS[2], 512, 256, 2)
        self.layer4 = _layer(BLOCKS[3], 1024, 512, 2)
        self.n_features = 512 * EXPANSION
        self.fc = nn.Linear(self.n_features, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        """Return the pooled features (n, 2048)."""
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(x, 3, 2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, C) of images (n, channels, H, W)."""
        return cast(Tensor, self.fc(self.features(x)))


def _layer(n_blocks: int, n_in: int, planes: int, stride: int) -> nn.Sequential:
    first = Bottleneck(n_in, planes, stride)
    n_out = planes * EXPANSION
    return nn.Sequential(first, *(Bottleneck(n_out, planes, 1) for _ in range(n_blocks - 1)))
