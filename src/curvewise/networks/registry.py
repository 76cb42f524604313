"""Networks by name, for recipes, commands and saved models."""

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from curvewise.base.errors import InputError, did_you_mean, require_whole
from curvewise.networks.architectures import DEPTHS, MLP, ResNetCifar, ResNeXt50, SmallCNN
from curvewise.networks.pretrained import EfficientNetLite0, timm_network

Shape = tuple[int, ...]
Normalization = tuple[tuple[float, ...], tuple[float, ...]]  # mean and std of each channel
TIMM = "timm:"
# Built with weights that never change: a package brings them.
PRETRAINED = ("efficientnet-lite0",)
SMALL = 32  # pixels that the small CNN's first convolution should leave on the shorter side


class Entry(NamedTuple):
    """How a named network is built: from its first size (d or channels), classes and options.

    `options` None means that the network checks them itself.
    """

    build: Callable[..., nn.Module]
    options: tuple[str, ...] | None = ()
    takes_images: bool = True


def _efficientnet(n_channels: int, n_classes: int, **options: Any) -> nn.Module:
    if n_channels != 3:
        raise InputError(f"efficientnet-lite0 needs in_shape (3, H, W), got {n_channels} channels")
    return EfficientNetLite0(n_classes, **options)


NETWORKS = {
    "mlp": Entry(MLP, ("hidden",), takes_images=False),
    "small-cnn": Entry(SmallCNN, ("width", "stride")),
    **{f"resnet{depth}": Entry(partial(ResNetCifar, depth), ("width",)) for depth in DEPTHS},
    "resnext50-32x4d": Entry(ResNeXt50),
    "efficientnet-lite0": Entry(_efficientnet, ("pretrained",)),
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
    entry = _entry(name, options)
    if entry.takes_images != (len(shape) == 3):
        needed = "images, in_shape (channels, H, W)" if entry.takes_images else "vectors, (d,)"
        raise InputError(f"{name} needs {needed}, got in_shape {shape}")
    if name == "small-cnn":
        options = {"stride": _stride(shape), **options}
    if seed is None:
        return entry.build(shape[0], n_classes, **options)
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed < 2**63:
        raise InputError(f"seed must be a whole number in [0, 2^63) or None, got {seed!r}")
    # Only the CPU's generator is touched, so only that is put back.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(int(seed))
        return entry.build(shape[0], n_classes, **options)


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


def _entry(name: str, options: dict[str, Any]) -> Entry:
    """Return the entry of a name, once the options are known to be ones it takes."""
    if str(name).startswith(TIMM):
        return Entry(partial(timm_network, name.removeprefix(TIMM)), options=None)
    entry = NETWORKS.get(str(name))
    if entry is None:
        raise InputError(
            f"network must be one of {', '.join(NETWORKS)} or timm:NAME, got {name!r}"
            f"{did_you_mean(name, NETWORKS)}"
        )
    known = entry.options or ()
    for option in options:
        if option not in known:
            raise InputError(
                f"{name} takes these options: {', '.join(known) or 'none'}; got {option!r}"
                f"{did_you_mean(option, known)}"
            )
    return entry


def _stride(shape: Shape) -> int:
    """Return the small CNN's: the largest power of two that leaves enough pixels.

    1 up to 63 pixels, 2 up to 127, 8 for 256.
    """
    if min(shape[1:]) < 4:
        raise InputError(f"small-cnn needs images of at least 4x4, got in_shape {shape}")
    return 1 << max(0, (min(shape[1:]) // SMALL).bit_length() - 1)


def _checked_shape(in_shape: Sequence[int]) -> Shape:
    try:
        shape = tuple(require_whole("in_shape", size) for size in in_shape)
    except TypeError:
        shape = ()
    if len(shape) not in (1, 3):
        raise InputError(
            f"in_shape must be (d,) or (channels, H, W), the shape of one sample, got {in_shape!r}"
        )
    return shape
