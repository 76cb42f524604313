"""Parts of a `Spec` and what they must be: data, features, task names and the network."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from curvewise.base.errors import InputError, did_you_mean
from curvewise.networks.architectures import MLP
from curvewise.networks.registry import TIMM, build_network

PAIRS_OF_TEN = ("fashion-mnist", "cifar10")


def listed(value: Any) -> Any:
    """Return a scalar as a list of one; a list must hold something."""
    if not isinstance(value, list | tuple):
        return [value]
    if not value:
        raise ValueError("must list at least one value, got []")
    return value


def seed_list(value: Any) -> Any:
    """Return a list of seeds; a number alone could be meant as one seed, or as how many."""
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("seeds", "must be a list, such as [0, 1, 2]")
    return listed(value)


def require_distinct(values: Iterable[Any]) -> None:
    """Raise for a value that is there twice."""
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"must differ, got {value!r} twice")
        seen.add(value)


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class DataSettings(_Section):
    """How the sources are read, where they must be told; see `load_task`."""

    target: str | None = None
    positive: str | None = None
    group: str | None = None
    image_size: int | None = Field(default=None, ge=1)


class Features(_Section):
    """What the networks see instead of the data: principal components, or a backbone's output.

    With both it is the principal components of the backbone's output. `size` is the side in pixels
    that images are resized to for the backbone.
    """

    pca: int | None = Field(default=None, ge=1)
    embed: str | None = Field(default=None, min_length=1)
    size: int | None = Field(default=None, ge=8)

    @model_validator(mode="after")
    def _size_needs_embed(self) -> Self:
        if self.size is not None and self.embed is None:
            raise ValueError(f"size goes together with embed, got size = {self.size} alone")
        return self


def expanded_task(text: str) -> list[str]:
    """Return the 45 pairs that NAME:pairs stands for, any other task as it is.

    >>> pairs = expanded_task("cifar10:pairs")
    >>> len(pairs), pairs[0], pairs[-1]
    (45, 'cifar10:0/1', 'cifar10:8/9')
    """
    name, _, argument = text.partition(":")
    if argument != "pairs":
        return [text]
    if name not in PAIRS_OF_TEN:
        if near := did_you_mean(name, PAIRS_OF_TEN):
            sources = " and ".join(PAIRS_OF_TEN)
            raise InputError(f"NAME:pairs is for {sources}, got {text!r}{near}")
        return [text]  # a folder or a file may be called so
    return [f"{name}:{first}/{second}" for first, second in combinations(range(10), 2)]


def require_network(network: Mapping[str, Any], *, on_features: bool) -> None:
    """Raise unless the network can be built; on the "meta" device that costs no memory."""
    options = dict(network)
    name = options.pop("name")
    weights = options.pop("weights", None)
    if weights is not None and not (isinstance(weights, str) and isinstance(name, str)):
        raise InputError(f"weights must be a file for a named network, got {weights!r}")
    if name is None:
        if options:
            raise InputError(f"needs a name to take {', '.join(options)}, got none")
        return
    if not isinstance(name, str):
        raise InputError(f"name must be a text, got {name!r}")
    if name.startswith(TIMM) or options.get("pretrained"):
        made = None  # these read weights or packages, which only a machine that trains must have
    else:
        with torch.device("meta"):
            made = build_network(name, in_shape=(8,) if name == "mlp" else (3, 64, 64), **options)
    if on_features and not isinstance(made, MLP):
        raise InputError(f"must be an mlp when there are [features], got {name!r}")
