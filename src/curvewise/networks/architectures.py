"""The networks that are built here: an MLP and a small CNN, quick on a CPU, and residual networks.

Sizes are not checked here: `build_network` does that.
"""

from collections.abc import Sequence
from typing import ClassVar, cast

from torch import Tensor, nn
from torch.nn import functional as F

from curvewise.base.errors import InputError, require_whole


class FeatureNetwork(nn.Module):
    """A body that makes features, and the linear layer that makes logits of them."""

    body: nn.Module
    linear: nn.Linear

    def features(self, x: Tensor) -> Tensor:
        """Return the input (n, F) of the last linear layer."""
        return cast(Tensor, self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, C)."""
        return cast(Tensor, self.linear(self.features(x)))


class MLP(FeatureNetwork):
    """Fully connected layers with ReLU between them: (n, n_features) to logits (n, C).

    `hidden` has the width of each hidden layer; none at all makes it a logistic regression.

    >>> import torch
    >>> MLP(30, hidden=(128, 64))(torch.zeros(5, 30)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self, n_features: int, n_classes: int = 2, hidden: Sequence[int] = (128, 64)
    ) -> None:
        super().__init__()
        if isinstance(hidden, str) or not isinstance(hidden, Sequence):
            raise InputError(f"hidden must be a list of layer widths, got {hidden!r}")
        layers: list[nn.Module] = []
        for width in hidden:
            layers += [nn.Linear(n_features, require_whole("hidden", width)), nn.ReLU()]
            n_features = width
        self.body = nn.Sequential(*layers)
        self.linear = nn.Linear(n_features, n_classes)


class SmallCNN(FeatureNetwork):
    """Three convolutions with BatchNorm, average pooling, and a linear layer on 4 width features.

    Made for 28x28 and 32x32 images and fit for any size of at least 4x4; images (n, channels,
    H, W) to logits (n, C). The first stage has `width` channels, the next twice and four times as
    many. `stride` is the step of the first convolution, whose kernel is 2 stride + 1 wide and so
    sees every pixel; time and memory fall with its square: 1 for 28x28, 8 for 256x256.

    >>> import torch
    >>> SmallCNN(1)(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self, n_channels: int, n_classes: int = 2, width: int = 16, *, stride: int = 1
    ) -> None:
        super().__init__()
        require_whole("width", width)
        require_whole("stride", stride)
        kernel = 2 * stride + 1
        self.body = nn.Sequential(
            nn.Conv2d(n_channels, width, kernel, stride, stride, bias=False),
            # Pooling first leaves a quarter of the pixels to normalise and rectify.
            nn.MaxPool2d(2),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.linear = nn.Linear(4 * width, n_classes)
        for module in self.body:
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")


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
        self.stride, missing = stride, n_out - n_in
        self.padding = (0, 0, 0, 0, missing // 2, missing - missing // 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return features (n, n_out, H / stride, W / stride), rounded up."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        if self.stride > 1:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], self.padding)
        return F.relu(out + x, inplace=True)


class ResNetCifar(FeatureNetwork):
    """ResNet of depth 20, 32, 44 or 56: images (n, channels, H, W) to logits (n, C).

    He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition" (CVPR 2016, arXiv
    1512.03385), section 4.2: 6n + 2 layers in three stages of n blocks, with shortcuts that have
    no parameters. The first stage has `width` channels, the others twice and four times as many.
    Made for 32x32 images, fit for any size. All weights are drawn from N(0, 2 / fan_in), as in the
    paper. With n = (depth - 2) / 6, channels c, width w and C classes it has 9 c w + 2 w +
    378 n w^2 - 90 w^2 + 28 n w + 4 w C + C parameters: ResNet-32 with two classes 463,634.

    >>> import torch
    >>> ResNetCifar(20)(torch.zeros(5, 3, 32, 32)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self, depth: int, n_channels: int = 3, n_classes: int = 2, width: int = 16
    ) -> None:
        super().__init__()
        require_whole("width", width)
        n_blocks = (depth - 2) // 6
        self.depth = depth
        self.conv1 = nn.Conv2d(n_channels, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.stage1 = _stage(Block, n_blocks, width, width, 1)
        self.stage2 = _stage(Block, n_blocks, width, 2 * width, 2)
        self.stage3 = _stage(Block, n_blocks, 2 * width, 4 * width, 2)
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


class Bottleneck(nn.Module):
    """1x1, grouped 3x3 and 1x1 convolutions around which the input is added.

    The middle has half as many channels as the output, in 32 groups. Where the shape changes, the
    shortcut is a 1x1 convolution with BatchNorm.
    """

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        middle = n_out // 2
        self.conv1 = nn.Conv2d(n_in, middle, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride, padding=1, groups=32, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, n_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(n_out)
        self.downsample = (
            nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))
            if stride > 1 or n_in != n_out
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return features (n, n_out, H / stride, W / stride), rounded up."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = F.relu(self.bn2(self.conv2(out)), inplace=True)
        out = self.bn3(self.conv3(out))
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(out + shortcut, inplace=True)


class ResNeXt50(nn.Module):
    """ResNeXt-50 32x4d: images (n, channels, H, W) to logits (n, C), 25,028,904 parameters.

    That number is for three channels and 1000 classes. Xie, Girshick, Dollar, Tu, He, "Aggregated
    Residual Transformations for Deep Neural Networks" (CVPR 2017, arXiv 1611.05431). Made for
    224x224 images, fit for any size. Parameters and buffers are called and shaped as in
    torchvision, so that its published ImageNet weights can be loaded; those expect images in
    [0, 1], normalised by `input_mean` and `input_std`.

    >>> import torch
    >>> ResNeXt50().eval()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 2])
    """

    input_mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    input_std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)

    def __init__(self, n_channels: int = 3, n_classes: int = 2) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_channels, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _stage(Bottleneck, 3, 64, 256, 1)
        self.layer2 = _stage(Bottleneck, 4, 256, 512, 2)
        self.layer3 = _stage(Bottleneck, 6, 512, 1024, 2)
        self.layer4 = _stage(Bottleneck, 3, 1024, 2048, 2)
        self.fc = nn.Linear(2048, n_classes)
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


def _stage(
    block: type[Block | Bottleneck], n_blocks: int, n_in: int, n_out: int, stride: int
) -> nn.Sequential:
    """Return blocks of which the first changes the channels and the size of the image."""
    rest = (block(n_out, n_out, 1) for _ in range(n_blocks - 1))
    return nn.Sequential(block(n_in, n_out, stride), *rest)
