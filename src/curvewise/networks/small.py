"""Networks that are quick on a CPU: an MLP for tables and features, a small CNN for images."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from curvewise.base.errors import InputError, require_whole


class MLP(nn.Module):
    """Fully connected layers with ReLU between them: features (n, d) to logits (n, C).

    Parameters
    ----------
    n_features
        d, the columns of the input.
    hidden
        Width of each hidden layer; none at all makes it a logistic regression.

    >>> import torch
    >>> MLP(30, hidden=(128, 64))(torch.zeros(5, 30)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self, n_features: int, n_classes: int = 2, hidden: Sequence[int] = (128, 64)
    ) -> None:
        super().__init__()
        require_whole("n_features", n_features)
        require_whole("n_classes", n_classes)
        if isinstance(hidden, str) or not isinstance(hidden, Sequence):
            raise InputError(f"hidden must be a list of layer widths, got {hidden!r}")
        layers: list[nn.Module] = []
        for width in hidden:
            layers += [nn.Linear(n_features, require_whole("hidden", width)), nn.ReLU()]
            n_features = width
        self.body = nn.Sequential(*layers)
        self.linear = nn.Linear(n_features, n_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the output of the last hidden layer (n, F)."""
        return cast(Tensor, self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, C) of features (n, d)."""
        return cast(Tensor, self.linear(self.features(x)))


class SmallCNN(nn.Module):
    """Three convolutions with BatchNorm, average pooling, and a linear layer on 4 width features.

    Made for 28x28 and 32x32 images and fit for any size of at least 4x4; images (n, channels,
    H, W) to logits (n, C).

    Parameters
    ----------
    width
        Channels of the first stage; the next have twice and four times as many.
    stride
        Step of the first convolution, whose kernel is 2 stride + 1 wide and so sees every pixel.
        Time and memory fall with its square: 1 for 28x28, 8 for 256x256.

    >>> import torch
    >>> SmallCNN(1)(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self, n_channels: int, n_classes: int = 2, width: int = 16, *, stride: int = 1
    ) -> None:
        super().__init__()
        require_whole("n_channels", n_channels)
        require_whole("n_classes", n_classes)
        require_whole("width", width)
        require_whole("stride", stride)
        self.n_features = 4 * width
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

    def features(self, x: Tensor) -> Tensor:
        """Return the pooled features (n, 4 width)."""
        return cast(Tensor, self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, C) of images (n, channels, H, W)."""
        return cast(Tensor, self.linear(self.features(x)))
