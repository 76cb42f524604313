"""What users hand in, checked: rows that members leave out, and arrays that they train on."""

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

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

from curvewise.base.errors import InputError, require_choice
from curvewise.networks.registry import PRETRAINED, Normalization, build_network, input_statistics
from curvewise.tables.encoder import TableEncoder
from curvewise.tables.quantiles import QuantileEncoder
from curvewise.training.batches import Samples

Array = NDArray[Any]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
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
        weight = _checked_weight(sample_weight, x)
        rows = cls(x, labels, weight, _checked_groups(groups, len(labels)))
        if weight is not None and not weight.all():  # a row of weight 0 is not there
            rows = rows.some(weight > 0)
        classes, codes = np.unique(rows.y, return_inverse=True)
        if len(classes) < 2:
            where = "" if weight is None else " in rows of a weight above 0"
            raise InputError(
                f"y must hold two or more classes{where}, got one class: {classes[:1].tolist()}"
            )
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
                values: Any = np.ascontiguousarray(part)  # numpy does not say that it is a buffer
                total = zlib.crc32(values, total)
        return total


class TableInputs:
    """Columns of any kind to float32 features: `TableEncoder`, then `QuantileEncoder`."""

    normalization: Normalization | None = None

    def __init__(self) -> None:
        self.table, self.quantiles = TableEncoder(), QuantileEncoder()
        self.names: list[str] = []

    def fit(self, x: Any) -> Array:
        """Learn from a table, and return its features (n, d)."""
        table = as_frame(x)
        self.names = [str(name) for name in table.columns]
        numbers = self.table.fit(table).transform(table)
        return self.quantiles.fit(numbers).transform(numbers)

    def check(self, x: Any) -> None:
        """Raise for images."""
        if getattr(x, "ndim", 2) != 2:
            raise InputError(f"X must be a table (n, d), as in fit, got shape {x.shape}")

    def blocks(self, x: Any) -> Iterator[Array]:
        """Yield the features of some rows at a time: all at once may not fit in memory.

        Columns are found by name, or by place where only one of the tables has names.
        """
        table = as_frame(x)
        if {str(name) for name in table.columns} != set(self.names):
            table = table.set_axis(self.names, axis=1)
        numbers = self.table.transform(table)
        self.table.warn_of_unknown_levels(table)
        for start in range(0, len(numbers), ROWS):
            yield self.quantiles.transform(numbers[start : start + ROWS])

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON."""
        return {
            "kind": "table",
            "names": self.names,
            "table": self.table.to_dict(),
            "quantiles": self.quantiles.to_dict(),
        }


class BackboneInputs:
    """Images (n, H, W, C) to the features of a pretrained backbone, then as a table."""

    normalization: Normalization | None = None

    def __init__(self, backbone: str, table: TableInputs | None = None) -> None:
        # Any other would have chance weights, and others after pickling: they are not kept.
        self.backbone = require_choice("backbone", backbone, PRETRAINED)
        self.table = table or TableInputs()
        self._network: Any = None

    def fit(self, x: Any) -> Array:
        """Learn from images, and return their features (n, d)."""
        return self.table.fit(self._features(as_images(x)))

    def check(self, x: Any) -> None:
        """Raise for what is no images."""
        if getattr(x, "ndim", 2) != 4:
            raise InputError("X must hold images (n, H, W, C), as in fit, got a table")

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

    def check(self, x: Any) -> None:
        """Raise for images of another shape."""
        c, h, w = self.shape
        if tuple(np.shape(x)[1:]) != (h, w, c):
            raise InputError(
                f"X must hold images of the shape of fit, ({h}, {w}, {c}), got shape {np.shape(x)}"
            )

    def blocks(self, x: Any) -> Iterator[Array]:
        """Yield all images at once: they are bytes until they are a batch."""
        yield as_images(x)

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON."""
        return {"kind": "images", "shape": self.shape, "normalization": self.normalization}


Inputs = TableInputs | BackboneInputs | ImageInputs


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
        table.names = list(state["names"])
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
    if hasattr(x, "to_pandas"):
        x = x.to_pandas()
    if isinstance(x, pd.DataFrame) or getattr(x, "ndim", 2) == 4:
        if 0 in x.shape:
            raise InputError(f"X must have rows and columns, got shape {tuple(x.shape)}")
        if isinstance(x, pd.DataFrame) and not x.columns.is_unique:
            twice = x.columns[x.columns.duplicated()][0]
            raise InputError(f"column names must differ, got {twice!r} twice")
        return x
    if getattr(x, "ndim", 2) == 3:
        raise InputError(
            f"X must be a table (n, d) or images (n, H, W, C), grey ones with C = 1, got an array "
            f"with dim 3, of shape {tuple(x.shape)}"
        )
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
                f"images must be bytes (uint8), or floats in [0, 1], got {images.dtype} "
                f"{'outside of it' if images.dtype.kind == 'f' else 'values'}"
            )
        images = np.round(images * 255).astype(np.uint8)
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def checked_labels(y: Any) -> Array:
    """Return labels (n,), none of them missing; a column (n, 1) is taken with a warning."""
    labels: Array = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        raise InputError(f"y must hold a label in every row, got none in row {missing[0]}")
    try:
        np.unique(labels)
    except TypeError:  # they cannot be sorted
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise InputError(f"y must hold labels of one type, got {', '.join(kinds)}") from None
    check_classification_targets(labels)
    return labels


def _checked_weight(sample_weight: Any, x: Any) -> Floats | None:
    """Return weights (n,) with a mean of 1 over the rows, or None for equal ones."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise InputError("sample_weight must be above 0 in some row, got 0 in all")
    return np.asarray(weight / weight[weight > 0].mean())


def _checked_groups(groups: Any, n: int) -> Array | None:
    """Return the group of each of n rows as numbers, or None."""
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (n,):
        raise InputError(f"groups must have shape ({n},), got {names.shape}")
    codes, _ = pd.factorize(names)
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise InputError(f"groups must name one in every row, got none in row {missing[0]}")
    return np.asarray(codes)


def held_out(y: Codes, folds: int, seed: int, groups: Array | None = None) -> Codes:
    """Return the fold of each row, (n,), stratified and with groups in one piece; -1: no folds.

    A class of one row (or group) cannot be left out, for then nothing of it is left: there are
    as many folds as the rarest class has rows, or none.

    >>> np.bincount(held_out(np.array([0] * 9 + [1] * 3), 6, seed=0)).tolist()
    [4, 4, 4]
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
    shuffle: Any = StratifiedShuffleSplit(1, test_size=fraction, random_state=seed)
    if groups is not None:
        shuffle = GroupShuffleSplit(20, test_size=fraction, random_state=seed)
    try:
        for train, aside in shuffle.split(everything, y, groups):
            if len(np.unique(y[train])) == len(np.unique(y)) and len(np.unique(y[aside])) > 1:
                return np.sort(train), np.sort(aside)
    except ValueError:
        pass  # a class of one row, or fewer rows than classes
    raise InputError(
        f"calibration_fraction = {fraction:g} must leave every class on both sides, got too few "
        "rows or groups"
    )
