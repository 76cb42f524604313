"""What a user hands in, as arrays that members train on: tables and images."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from curvewise.errors import InputError
from curvewise.networks.registry import build_network, input_statistics
from curvewise.quantiles import QuantileEncoder
from curvewise.tabular import TableEncoder
from curvewise.training.batches import Samples
from curvewise.training.run import Normalization

Array = NDArray[Any]
ROWS = 16_384  # of a table that are encoded at a time when it is scored
IMAGES = 64  # that a backbone sees at a time


class Inputs(Protocol):
    """Learns from training rows how to make arrays of them, and does it for any rows."""

    normalization: Normalization | None

    def fit(self, x: Any) -> Array:
        """Learn from training rows, and return them as an array (n, ...)."""

    def blocks(self, x: Any) -> Iterator[Array]:
        """Yield rows as arrays, some at a time."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON."""


class TableInputs:
    """Columns of any kind to float32 features: `TableEncoder`, then `QuantileEncoder`."""

    normalization: Normalization | None = None

    def __init__(self) -> None:
        self.table, self.quantiles = TableEncoder(), QuantileEncoder()

    def fit(self, x: Any) -> Array:
        """Learn from a table, and return its features (n, d)."""
        table = as_frame(x)
        numbers = self.table.fit(table).transform(table)
        return self.quantiles.fit(numbers).transform(numbers)

    def blocks(self, x: Any) -> Iterator[Array]:
        """Yield the features of some rows at a time: all at once may not fit in memory."""
        numbers = self.table.transform(as_frame(x))
        for start in range(0, len(numbers), ROWS):
            yield self.quantiles.transform(numbers[start : start + ROWS])

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON."""
        return {
            "kind": "table",
            "table": self.table.to_dict(),
            "quantiles": self.quantiles.to_dict(),
        }


class BackboneInputs:
    """Images (n, H, W, C) to the features of a pretrained backbone, then as a table."""

    normalization: Normalization | None = None

    def __init__(self, backbone: str, table: TableInputs | None = None) -> None:
        self.backbone, self.table = backbone, table or TableInputs()
        self._network: Any = None

    def fit(self, x: Any) -> Array:
        """Learn from images, and return their features (n, d)."""
        return self.table.fit(self._features(as_images(x)))

    def blocks(self, x: Any) -> Iterator[Array]:
        """Yield features of some images at a time."""
        images = as_images(x)
        for start in range(0, len(images), ROWS):
            yield from self.table.blocks(self._features(images[start : start + ROWS]))

    @torch.no_grad()
    def _features(self, images: Array) -> Array:
        if self._network is None:
            self._network = build_network(self.backbone, in_shape=images.shape[1:]).eval()
        samples = Samples(images, torch.device("cpu"), input_statistics(self._network))
        parts = []
        for start in range(0, len(images), IMAGES):
            # Rounding depends on the size of a batch: the last is filled up.
            rows = torch.arange(start, start + IMAGES) % len(images)
            parts.append(self._network.features(samples.prepared(samples.raw(rows))).numpy())
        return np.concatenate(parts)[: len(images)]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_network": None}  # its weights come with a package

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON."""
        return {"kind": "backbone", "backbone": self.backbone, "table": self.table.to_dict()}


class ImageInputs:
    """Images (n, H, W, C) as they are, for a network with convolutions; n, C, H, W inside."""

    def __init__(self) -> None:
        self.normalization: Normalization | None = None
        self.shape: tuple[int, ...] = ()

    def fit(self, x: Any) -> Array:
        """Learn mean and deviation of each channel, and return the images (n, C, H, W)."""
        images = as_images(x)
        means, stds = images.mean((0, 2, 3)) / 255, images.std((0, 2, 3)) / 255
        self.shape = images.shape[1:]
        self.normalization = (tuple(means.tolist()), tuple(np.maximum(stds, 1e-3).tolist()))
        return images

    def blocks(self, x: Any) -> Iterator[Array]:
        """Yield all images at once: they are bytes until they are a batch."""
        images = as_images(x)
        if images.shape[1:] != self.shape:
            c, h, w = self.shape
            raise InputError(
                f"X must hold images of the shape of fit, ({h}, {w}, {c}), got {x.shape[1:]}"
            )
        yield images

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON."""
        return {"kind": "images", "shape": self.shape, "normalization": self.normalization}


def inputs_for(x: Any, backbone: str | None) -> Inputs:
    """Return new inputs for what a user hands in: a table, or images (n, H, W, C)."""
    dimensions = getattr(x, "ndim", 2)
    if dimensions != 4:
        if backbone is not None:
            raise InputError(f"a backbone needs images (n, H, W, C), got {dimensions} dimensions")
        return TableInputs()
    return ImageInputs() if backbone is None else BackboneInputs(backbone)


def inputs_from_dict(state: dict[str, Any]) -> Inputs:
    """Return the inputs whose `to_dict` is `state`."""
    if state["kind"] == "table":
        table = TableInputs()
        table.table = TableEncoder.from_dict(state["table"])
        table.quantiles = QuantileEncoder.from_dict(state["quantiles"])
        return table
    if state["kind"] == "backbone":
        inner = inputs_from_dict(state["table"])
        assert isinstance(inner, TableInputs)
        return BackboneInputs(state["backbone"], inner)
    images = ImageInputs()
    means, stds = state["normalization"]
    images.shape, images.normalization = tuple(state["shape"]), (tuple(means), tuple(stds))
    return images


def as_given(x: Any) -> Any:
    """Return a DataFrame (also of polars' kind), images of four dimensions, or an array (n, d)."""
    if isinstance(x, pd.DataFrame) or getattr(x, "ndim", 2) == 4:
        return x
    if hasattr(x, "to_pandas"):
        return x.to_pandas()
    return check_array(x, dtype=None, ensure_all_finite=False, input_name="X")


def as_frame(x: Any) -> pd.DataFrame:
    """Return a table as a DataFrame with its own types; columns without names are numbered."""
    return x if isinstance(x, pd.DataFrame) else pd.DataFrame(x).infer_objects()


def as_images(x: Any) -> Array:
    """Return images (n, H, W, C) of bytes, or of numbers in [0, 1], as bytes (n, C, H, W)."""
    images = np.asarray(x)
    if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape:
        raise InputError(f"images must have shape (n, H, W, 1 or 3), got {images.shape}")
    if images.dtype != np.uint8:
        if images.dtype.kind != "f" or not ((images >= 0) & (images <= 1)).all():
            raise InputError(
                f"images must be bytes, or numbers in [0, 1], got {images.dtype} outside of it"
            )
        images = np.round(images * 255).astype(np.uint8)
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
