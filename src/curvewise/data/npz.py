"""`npz:FILE`: arrays that are features or images already."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.data.tables import binary_labels, find_file
from curvewise.data.task import SourceOptions, Task, split_rows

Arrays = dict[str, NDArray[Any]]

SPLIT = ("x_train", "y_train", "x_test", "y_test")
WHOLE = ("x", "y")


def npz(argument: str, options: SourceOptions) -> Task:
    """Return the task of the arrays in a .npz file, as they are: nothing is standardised.

    They are x_train, y_train, x_test and y_test, or x and y, of which a stratified fifth becomes
    the test part. Features are (n, d) numbers, images uint8 (n, C, H, W) or (n, H, W). `groups`
    names who a row of x_train or x belongs to. `class_names`, with labels 0 to C - 1, names the
    classes in order, the last of two being the positive one; without it, it is the rarer one in
    y_train. `options.positive` makes it another, or one against the rest.
    """
    path = find_file(argument, "npz:FILE", options)
    arrays = _read(path)
    whole = "x_train" not in arrays
    absent = [name for name in (WHOLE if whole else SPLIT) if name not in arrays]
    if absent:
        raise InputError(
            f"{path.name} must have the arrays {', '.join(SPLIT)}, or x and y, got "
            f"{', '.join(arrays) or 'none'}"
        )
    parts = ("",) if whole else ("_train", "_test")
    for part in parts:
        arrays[f"x{part}"] = _checked(arrays[f"x{part}"], f"x{part} of {path.name}")
        rows, labels = len(arrays[f"x{part}"]), arrays[f"y{part}"].shape
        if labels != (rows,):
            raise InputError(
                f"y{part} of {path.name} must have a label for each of the {rows} rows of "
                f"x{part}, got shape {labels}"
            )
    groups = arrays.get("groups")
    if groups is not None and groups.shape != arrays[f"y{parts[0]}"].shape:
        raise InputError(
            f"groups of {path.name} must be one for each row of x{parts[0]}, got {groups.shape}"
        )
    y, class_names = _labels([arrays[f"y{part}"] for part in parts], arrays, path, options)
    if whole:
        x = arrays["x"]
        train, test = split_rows(y[0], seed=options.seed, groups=groups)
        x_train, x_test, y_train, y_test = x[train], x[test], y[0][train], y[0][test]
        groups = None if groups is None else groups[train]
    else:
        (y_train, y_test), x_train, x_test = y, arrays["x_train"], arrays["x_test"]
        if x_train.shape[1:] != x_test.shape[1:]:
            raise InputError(
                f"x_train and x_test of {path.name} must have rows of the same shape, got "
                f"{x_train.shape[1:]} and {x_test.shape[1:]}"
            )
    return Task(
        name=f"npz:{path.name}",
        kind="image" if x_train.dtype == np.uint8 and x_train.ndim == 4 else "features",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        class_names=class_names,
        groups=groups,
    )


def read_samples(path: Path) -> NDArray[Any]:
    """Return the samples x of a .npz file, or x_test where it has no x, without labels."""
    arrays = _read(path)
    name = next((name for name in ("x", "x_test") if name in arrays), None)
    if name is None:
        raise InputError(
            f"{path.name} must have an array x or x_test, got {', '.join(arrays) or 'none'}"
        )
    if arrays[name].shape[:1] == (0,):
        raise InputError(f"{name} of {path.name} must have a row or more, got none")
    return _checked(arrays[name], f"{name} of {path.name}")


def _read(path: Path) -> Arrays:
    try:
        # A pickle inside could run anything.
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.ndarray):
            with file:
                return {name: file[name] for name in file.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path.name} must be a .npz file of plain arrays, got: {error}") from None
    raise InputError(f"{path.name} must be a .npz file, got a single array")


def _checked(x: NDArray[Any], what: str) -> NDArray[Any]:
    """Return images as uint8 (n, C, H, W), features as finite float32 (n, d)."""
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        images = x[:, None] if x.ndim == 3 else x
        if images.shape[1] not in (1, 3):
            raise InputError(f"{what} must have 1 or 3 channels as (n, C, H, W), got {x.shape}")
        return images
    if x.ndim != 2 or x.dtype.kind not in "biuf":
        raise InputError(
            f"{what} must be numbers (n, d) or uint8 images (n, C, H, W), got {x.dtype} {x.shape}"
        )
    with np.errstate(over="ignore"):  # of a number too large for float32, which is named below
        features = x.astype(np.float32)
    wrong = np.argwhere(~np.isfinite(features))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise InputError(
            f"{what} must be finite, got {x[row, column]} in row {row}, column {column} "
            f"({len(wrong)} such values)"
        )
    return features


def _labels(
    parts: list[NDArray[Any]], arrays: Arrays, path: Path, options: SourceOptions
) -> tuple[list[NDArray[np.int64]], tuple[str, str]]:
    """Return labels 0 and 1 of each part, and the names of both classes."""
    positive, stacked = options.positive, np.concatenate(parts)
    if "class_names" in arrays:
        names = [str(name) for name in arrays["class_names"].tolist()]
        if stacked.dtype.kind not in "biu" or not set(stacked.tolist()) <= set(range(len(names))):
            raise InputError(
                f"the labels of {path.name} must be whole numbers from 0 to {len(names) - 1}, one "
                f"for each of class_names, got {np.unique(stacked)[:5].tolist()}"
            )
        stacked = np.array(names)[stacked.astype(np.int64)]
        if positive is None and len(names) == 2:
            positive = names[1]
    if positive is None:
        _, (_, positive) = binary_labels(pd.Series(stacked[: len(parts[0])]), None, "y")
    y, class_names = binary_labels(pd.Series(stacked), positive, f"y of {path.name}")
    return np.split(y, [len(parts[0])])[: len(parts)], class_names
