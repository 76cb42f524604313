"""A small convolutional network, quick on a CPU."""

from typing import cast

from torch import Tensor, nn

from curvewise.networks.sizes import require_size


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
        for name, size in (("n_channels", n_channels), ("n_classes", n_classes)):
            require_size(name, size)
        require_size("width", width)
        require_size("stride", stride)
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
