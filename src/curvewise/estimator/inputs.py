"""What users hand in, checked: rows that members leave out, and arrays that they train on."""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.model_selection import (
    GroupShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array

from curvewise.base.errors import InputError, require, require_choice, require_shape
from curvewise.networks.registry import PRETRAINED, Normalization, build_network, input_statistics
from curvewise.tables.columns import Codes, Floats, TableEncoder
from curvewise.tables.quantiles import QuantileEncoder
from curvewise.training.batches import Samples

Array = NDArray[Any]
ROWS = 16_384  # of a table that are encoded at a time when it is scored
IMAGES = 64  # that a backbone sees at a time


class Rows(NamedTuple):
    """Rows to train on: a table, images or features x, the codes y of their classes 0 .. C-1.

    Weights and groups (n,) may be left out.
    """

    x: Any
    y: Codes
    weight: Floats | None = None
    group: Array | None = None

    @classmethod
    def of(cls, x: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[Array, "Rows"]:
        """Return the classes and rows that a user hands in, or raise for what cannot be used."""
        labels = checked_labels(y)
        check_consistent_length(x, labels)
        rows = cls(x, labels)
        if groups is not None:
            names = np.asarray(groups)
            require_shape("groups", names, len(labels))
            _require_every_row("groups", names)
            rows = rows._replace(group=pd.factorize(names)[0])
        if sample_weight is not None:  # a row of weight 0 is not there
            weight = _check_sample_weight(
                sample_weight, x, dtype=np.float64, ensure_non_negative=True
            )
            kept = weight > 0
            rows = rows.some(kept)._replace(weight=weight[kept] / weight[kept].mean())
        classes, codes = np.unique(rows.y, return_inverse=True)
        where = "" if sample_weight is None else " in rows of a weight above 0"
        one = f"y must hold two or more classes{where}, got one class: {classes[:1].tolist()}"
        require(len(classes) > 1, one)
        return classes, rows._replace(y=codes)

    def some(self, rows: Array) -> "Rows":
        """Return some of the rows."""
        x = self.x.iloc[rows] if hasattr(self.x, "iloc") else np.asarray(self.x)[rows]
        return Rows(x, *(part if part is None else part[rows] for part in self[1:]))  # type: ignore[arg-type]

    def checksum(self) -> int:
        """Return a number that tells these rows from others, or from another order of them."""
        total = 0
        for part in self:
            if part is not None:
                total = zlib.crc32(np.ascontiguousarray(part).data, total)
        return total


@dataclass(eq=False)
class TableInputs:
    """Columns of any kind to float32 features: `TableEncoder`, then `QuantileEncoder`."""

    names: list[str] = field(default_factory=list)
    table: TableEncoder = field(default_factory=TableEncoder)
    quantiles: QuantileEncoder = field(default_factory=QuantileEncoder)
    normalization: ClassVar[None] = None
    axes: ClassVar[tuple[Any, ...]] = ("n", "d")

    def fit(self, x: Any) -> Array:
        """Learn from a table, and return its features (n, d)."""
        table = self.columns(x)
        self.names = [str(name) for name in table.columns]
        numbers = self.table.fit(table).transform(table)
        return self.quantiles.fit(numbers).transform(numbers)

    def blocks(self, x: Any) -> Iterator[Array]:
        """Yield the features of some rows at a time: all at once may not fit in memory.

        Columns are found by name, or by place where only one of the tables has names.
        """
        table = self.columns(x)
        if {str(name) for name in table.columns} != set(self.names):
            table = table.set_axis(self.names, axis=1)
        numbers = self.table.transform(table)
        self.table.warn_of_unknown_levels(table)
        for start in range(0, len(numbers), ROWS):
            yield self.quantiles.transform(numbers[start : start + ROWS])

    def columns(self, x: Any) -> pd.DataFrame:
        """Return a table as a DataFrame with its own types; columns without names are numbered."""
        return x if isinstance(x, pd.DataFrame) else pd.DataFrame(x).infer_objects()

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON."""
        encoders = {"table": self.table.to_dict(), "quantiles": self.quantiles.to_dict()}
        return {"kind": "table", "names": self.names, **encoders}


@dataclass(eq=False)
class BackboneInputs(TableInputs):
    """Images (n, H, W, C) to the features of a pretrained backbone, then as a table."""

    backbone: str = PRETRAINED[0]
    axes: ClassVar[tuple[Any, ...]] = ("n", "H", "W", "C")

    @torch.no_grad()
    def columns(self, x: Any) -> pd.DataFrame:
        """Return the features of images, a column each."""
        images = as_images(x)
        network = pretrained(self.backbone, images.shape[1])
        samples = Samples(images, torch.device("cpu"), input_statistics(network))
        parts = []
        for start in range(0, len(images), IMAGES):
            # Rounding depends on the size of a batch: the last is filled up.
            rows = torch.arange(start, start + IMAGES) % len(images)
            parts.append(network.features(samples.prepared(samples.raw(rows))).numpy())
        return super().columns(np.concatenate(parts)[: len(images)])

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON."""
        return {"kind": "backbone", "backbone": self.backbone, "table": super().to_dict()}


@cache
def pretrained(backbone: str, channels: int) -> Any:
    """Return a network whose weights come with a package; no file keeps them."""
    return build_network(backbone, in_shape=(channels, IMAGES, IMAGES)).eval()


@dataclass(eq=False)
class ImageInputs:
    """Images (n, H, W, C) as they are, for a network with convolutions; n, C, H, W inside."""

    shape: tuple[int, ...] = ()
    normalization: Normalization | None = None

    def fit(self, x: Any) -> Array:
        """Learn mean and deviation of each channel, and return the images (n, C, H, W)."""
        images = as_images(x)
        means, stds = images.mean((0, 2, 3)) / 255, images.std((0, 2, 3)) / 255
        self.shape = images.shape[1:]
        self.normalization = (tuple(means.tolist()), tuple(np.maximum(stds, 1e-3).tolist()))
        return images

    @property
    def axes(self) -> tuple[Any, ...]:
        """The shape of images to score."""
        return ("n", *self.shape[1:], self.shape[0])

    def blocks(self, x: Any) -> Iterator[Array]:
        """Yield all images at once: they are bytes until they are a batch."""
        yield as_images(x)

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON."""
        return {"kind": "images", **vars(self)}


Inputs = TableInputs | ImageInputs


def inputs_for(x: Any, backbone: str | None) -> Inputs:
    """Return new inputs for a table, or images (n, H, W, C)."""
    if x.ndim != 4:
        require(backbone is None, f"a backbone needs images (n, H, W, C), got {x.ndim} dimensions")
        return TableInputs()
    if backbone is None:
        return ImageInputs()
    return BackboneInputs(backbone=require_choice("backbone", backbone, PRETRAINED))


def inputs_from_dict(state: dict[str, Any]) -> Inputs:
    """Return the inputs whose `to_dict` is `state`."""
    if state["kind"] == "images":
        means, stds = state["normalization"]
        return ImageInputs(tuple(state["shape"]), (tuple(means), tuple(stds)))
    learnt = state["table"] if state["kind"] == "backbone" else state
    table = TableEncoder.from_dict(learnt["table"])
    parts = learnt["names"], table, QuantileEncoder.from_dict(learnt["quantiles"])
    return BackboneInputs(*parts, state["backbone"]) if learnt is not state else TableInputs(*parts)


def as_given(x: Any) -> Any:
    """Return a DataFrame (also of polars' kind), images of four dimensions, or an array (n, d)."""
    if hasattr(x, "to_pandas"):
        x = x.to_pandas()
    dimensions = getattr(x, "ndim", 2)
    if dimensions == 3:
        raise InputError(
            f"X must be a table (n, d) or images (n, H, W, C), grey ones with C = 1, got an array "
            f"with dim 3, of shape {tuple(x.shape)}"
        )
    if not isinstance(x, pd.DataFrame) and dimensions != 4:
        return check_array(x, dtype=None, ensure_all_finite=False, input_name="X")
    require(0 not in x.shape, f"X must have rows and columns, got shape {tuple(x.shape)}")
    if isinstance(x, pd.DataFrame) and not x.columns.is_unique:
        twice = x.columns[x.columns.duplicated()][0]
        raise InputError(f"column names must differ, got {twice!r} twice")
    return x


def as_images(x: Any) -> Array:
    """Return images (n, H, W, C) of bytes, or of numbers in [0, 1], as bytes (n, C, H, W)."""
    images = np.asarray(x)
    fits = images.shape[3] in (1, 3) and 0 not in images.shape
    require(fits, f"images must have shape (n, H, W, 1 or 3), got {images.shape}")
    if images.dtype != np.uint8:
        is_float = images.dtype.kind == "f"
        require(
            is_float and ((images >= 0) & (images <= 1)).all(),
            f"images must be bytes (uint8), or floats in [0, 1], got {images.dtype} "
            f"{'outside of it' if is_float else 'values'}",
        )
        images = np.round(images * 255).astype(np.uint8)
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def checked_labels(y: Any) -> Array:
    """Return labels (n,), none of them missing; a column (n, 1) is taken with a warning."""
    labels: Array = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    _require_every_row("y", labels)
    try:
        np.unique(labels)
    except TypeError:  # they cannot be sorted
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise InputError(f"y must hold labels of one type, got {', '.join(kinds)}") from None
    check_classification_targets(labels)
    return labels


def known_labels(x: Any, y: Any, classes: Array) -> Array:
    """Return the labels (n,) of rows x, checked to hold both classes and no other."""
    labels = checked_labels(y)
    unknown = np.setdiff1d(labels, classes)[:3].tolist()
    require(not unknown, f"y must hold {classes.tolist()}, got {unknown}")
    one = f"y must hold both classes, got only {labels[:1].tolist()} ({len(labels)} rows)"
    require(len(np.unique(labels)) == 2, one)
    check_consistent_length(x, labels)
    return labels


def _require_every_row(name: str, values: Array) -> None:
    """Raise for the first row without a label or group."""
    missing = np.flatnonzero(pd.isna(values))
    if len(missing):
        raise InputError(f"{name} must hold one in every row, got none in row {missing[0]}")


def held_out(y: Codes, folds: int, seed: int, groups: Array | None = None) -> Codes:
    """Return the fold of each row, (n,), stratified and with groups in one piece; -1: no folds.

    A class of one row (or group) cannot be left out, for then nothing of it is left: there are
    as many folds as the rarest class has rows, or none.
    """
    rows = np.arange(len(y)) if groups is None else groups
    classes = np.unique(y)
    folds = min(folds, *(len(np.unique(rows[y == c])) for c in classes))
    fold = np.full(len(y), -1)
    if folds < 2:
        return fold
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    split = kind(folds, shuffle=True, random_state=seed).split(y, y, groups)
    for k, (kept, out) in enumerate(split):
        if len(np.unique(y[kept])) < len(classes):
            return np.full(len(y), -1)  # groups may put a whole class into one fold
        fold[out] = k
    return fold


def some_rows(y: Codes, most: int, seed: int) -> Codes:
    """Return rows to take statistics from: all, or a sample with the rare classes whole if it can.

    Of `most` rows, each class gets an equal share, and what a class does not need goes to others.

    >>> y = np.repeat([0, 1], [1000, 20])
    >>> np.bincount(y[some_rows(y, 100, seed=0)]).tolist()
    [80, 20]
    """
    if len(y) <= most:
        return np.arange(len(y))
    rng, kept = np.random.default_rng(seed), []
    counts = np.bincount(y)
    room, left = most, len(counts)
    for c in np.argsort(counts):
        share = min(int(counts[c]), room // left)
        kept.append(rng.choice(np.flatnonzero(y == c), share, replace=False))
        room, left = room - share, left - 1
    return np.sort(np.concatenate(kept))


def split_off(
    y: Codes, fraction: float, seed: int, groups: Array | None = None
) -> tuple[Codes, Codes]:
    """Return rows to train on, and the share of the rows that is set aside; both ascending."""
    everything = np.arange(len(y))
    if fraction == 0:
        return everything, everything[:0]
    # Groups cannot be stratified, so several splits are tried.
    kind, tries = (StratifiedShuffleSplit, 1) if groups is None else (GroupShuffleSplit, 20)
    shuffle = kind(tries, test_size=fraction, random_state=seed)
    with suppress(ValueError):  # of a class of one row, or fewer rows than classes
        for train, aside in shuffle.split(everything, y, groups):
            if len(np.unique(y[train])) == len(np.unique(y)) and len(np.unique(y[aside])) > 1:
                return np.sort(train), np.sort(aside)
    raise InputError(
        f"calibration_fraction = {fraction:g} must leave every class on both sides, got too few "
        "rows or groups"
    )
