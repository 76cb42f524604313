"""`SourceOptions`: what a data source is told; `Task`: what it returns, to be split and thinned."""

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, train_test_split

from curvewise.base.errors import InputError, did_you_mean, require, require_choice, require_open
from curvewise.base.files import sha256
from curvewise.data.imbalance import subsample_to_beta
from curvewise.data.mapped import mapped_rows

Progress = Callable[[str, int, int], None]

DATA_VARIABLE = "CURVEWISE_DATA"
TEST_FRACTION = 0.2  # of sources that have no split of their own
KINDS = ("image", "features")
FEW = 5  # positives below which a thinned task is hardly one
BETA_TOLERANCE = 0.05  # by which whole samples may miss the beta that was asked for


@dataclass(frozen=True)
class SourceOptions:
    """Settings of every source, as `load_task` takes them.

    `progress` is called as progress(what, done, total) during long work.
    """

    data_dir: str | PathLike[str] | None = None
    cache_dir: str | PathLike[str] | None = None
    seed: int = 0
    image_size: int | None = None
    target: str | None = None
    positive: str | None = None
    group: str | None = None
    progress: Progress | None = None

    @property
    def data_folder(self) -> Path:
        """Where downloads are looked for: `data_dir`, else CURVEWISE_DATA, else `data` here."""
        return Path(self.data_dir or os.environ.get(DATA_VARIABLE) or "data").expanduser()

    def find(self, source: str, argument: str, kind: str = "file") -> Path:
        """Return the path of a user's file or folder, as given or inside the data folder."""
        require(argument, f"{source} must name a {kind}, got none")
        given = Path(argument).expanduser()
        for path in (given, self.data_folder / given):
            if path.is_file() if kind == "file" else path.is_dir():
                return path
        near = [path.name for path in given.parent.glob("*")] if given.parent.is_dir() else []
        raise InputError(
            f"{source} must name a {kind} that is there, got {str(given)!r}: give its path, or its "
            f"name with the folder as --data-dir{did_you_mean(given.name, near)}"
        )

    @property
    def cache_folder(self) -> Path:
        """Where decoded images are kept: `cache_dir`, else the user's cache folder."""
        if self.cache_dir is not None:
            return Path(self.cache_dir)
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curvewise"


@dataclass(frozen=True)
class Task:
    """A binary (or C-class) problem as arrays: class 1 is the positive, rare one.

    Images are uint8 (n, C, H, W) arrays or memory maps, tables and features float32 (n, d), labels
    int64 (n,). `groups` names who a training row belongs to (a patient), so that no split tears
    them apart; `weights` are training sample weights. `details` holds what a reader should know
    and what a model needs later, ready for JSON (feature names, preprocessing, mean and std).
    """

    name: str
    kind: str
    x_train: NDArray[Any]
    y_train: NDArray[np.int64]
    x_test: NDArray[Any]
    y_test: NDArray[np.int64]
    class_names: tuple[str, ...]
    groups: NDArray[Any] | None = None
    weights: NDArray[np.float64] | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, KINDS)
        for part in ("train", "test"):
            x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
            require(
                len(x) == len(y),
                f"x_{part} and y_{part} must have the same length, got {len(x)} and {len(y)}",
            )
            lacking = [name for label, name in enumerate(self.class_names) if label not in y]
            require(
                not lacking,
                f"the {part} part of {self.name} must hold every class, lacks {lacking}",
            )

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Training samples per class."""
        return tuple(np.bincount(self.y_train, minlength=len(self.class_names)).tolist())

    @property
    def beta(self) -> float:
        """Count of the most frequent training class over that of the rarest."""
        return max(self.class_counts) / min(self.class_counts)

    def rows(self, index: NDArray[np.int64]) -> "Task":
        """Return the task with these training rows only."""
        return replace(
            self,
            x_train=mapped_rows(self.x_train, index),
            y_train=self.y_train[index],
            groups=None if self.groups is None else self.groups[index],
            weights=None if self.weights is None else self.weights[index],
        )

    def at_beta(self, beta: float, *, seed: int) -> "Task":
        """Return the task with its training part thinned to beta; class 1 is the rare one.

        That is as `subsample_to_beta` does it: a beta below the data's own thins class 0 instead,
        and one sample of class 1 stays whatever beta is. A warning tells of both.
        """
        thinned = self.rows(subsample_to_beta(self.y_train, beta, seed=seed, minority=1))
        if note := _thinning_note(beta, self.class_counts, thinned.class_counts):
            warnings.warn(note, stacklevel=2)
        return thinned

    def with_validation(self, fraction: float, *, seed: int) -> "Task":
        """Return a task whose test part is a split of the training part; the test set is not used.

        Stratified; groups stay on one side.
        """
        inner, outer = split_rows(self.y_train, fraction, seed=seed, groups=self.groups)
        part = self.rows(inner)
        x_test = mapped_rows(self.x_train, outer)
        return replace(part, x_test=x_test, y_test=self.y_train[outer])

    def normalization(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Return (mean, std) per channel: the source's, or of at most 2,000 training images."""
        if self.kind != "image":
            return None
        if "mean" in self.details and "std" in self.details:
            return tuple(self.details["mean"]), tuple(self.details["std"])
        some = np.linspace(0, len(self.x_train) - 1, min(2000, len(self.x_train))).astype(int)
        pixels = self.x_train[some] / 255.0
        std = np.maximum(pixels.std(axis=(0, 2, 3)), 1e-3)
        return tuple(pixels.mean(axis=(0, 2, 3)).tolist()), tuple(std.tolist())

    @property
    def fingerprint(self) -> str:
        """Hash of everything that training and testing see."""
        arrays = (self.x_train, self.y_train, self.x_test, self.y_test, self.weights)
        return arrays_digest(*arrays, about=repr((self.name, self.kind, self.class_names)))

    @property
    def test_digest(self) -> str:
        """Hash of the test part alone, which thinning leaves as it is."""
        return arrays_digest(self.x_test, self.y_test)


def arrays_digest(*arrays: NDArray[Any] | None, about: str = "") -> str:
    """Return the sha256 (hex) of a text and of the arrays that there are."""
    return sha256(chain([about], *(_pieces(array) for array in arrays if array is not None)))


def _pieces(array: NDArray[Any]) -> Iterator[str | memoryview]:
    yield repr((array.shape, array.dtype.str))
    for start in range(0, len(array), 4096):  # a memory map may not fit in memory
        yield np.ascontiguousarray(array[start : start + 4096]).data


def _thinning_note(beta: float, before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """Return what somebody who asked for beta should know of the counts (n0, n1), or ""."""
    gone, rest = before[0] - after[0], after[0] / after[1]
    if gone:
        return (
            f"beta = {beta:.10g} is below the data's own {before[0] / before[1]:.4g}: {gone:,} of "
            f"the {before[0]:,} majority samples are left out"
        )
    if after[1] < before[1] and (after[1] < FEW or abs(rest / beta - 1) > BETA_TOLERANCE):
        return f"beta = {beta:.10g} leaves {after[1]:,} of {before[1]:,} positives, beta {rest:.4g}"
    return ""


def split_task(
    x: NDArray[Any],
    y: NDArray[np.int64],
    parts: tuple[NDArray[np.int64], NDArray[np.int64]],
    *,
    groups: NDArray[Any] | None = None,
    **about: Any,
) -> Task:
    """Return the task of samples of which `parts` are the training rows and the test rows."""
    train, test = parts
    return Task(
        x_train=mapped_rows(x, train),
        y_train=y[train],
        x_test=mapped_rows(x, test),
        y_test=y[test],
        groups=None if groups is None else groups[train],
        **about,
    )


def split_rows(
    y: NDArray[np.int64],
    fraction: float = TEST_FRACTION,
    *,
    seed: int,
    groups: NDArray[Any] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sorted row indices of a stratified split, `fraction` of the rows in the second part.

    With groups, no group is on both sides, and the fraction is met as nearly as they allow.
    """
    fraction = require_open("fraction", fraction, 0, 1)
    rows = np.arange(len(y))
    try:
        if groups is None:
            parts = train_test_split(rows, test_size=fraction, stratify=y, random_state=seed)
        else:
            folds = StratifiedGroupKFold(
                max(2, round(1 / fraction)), shuffle=True, random_state=seed
            )
            parts = next(iter(folds.split(rows, y, groups)))
            if any(len(np.unique(y[part])) < len(np.unique(y)) for part in parts):
                raise ValueError(f"got {len(np.unique(groups))} groups")
    except ValueError as error:
        what = "rows" if groups is None else "groups"
        raise InputError(
            f"the {what} cannot be split with every class on both sides: {error}"
        ) from None
    first, second = map(np.sort, parts)
    return first, second
