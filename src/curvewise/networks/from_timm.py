"""Networks of the package timm, which is imported only when one is asked for."""

from importlib import import_module
from typing import Any, cast

from torch import nn

from curvewise.base.errors import InputError, did_you_mean


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
