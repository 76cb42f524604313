"""`npz:FILE`: arrays that are features or images already."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError, require
from curvewise.data.reading import Arrays, binary_labels, checked_samples, read_arrays
from curvewise.data.task import SourceOptions, Task, split_rows, split_task

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
    path = options.find("npz:FILE", argument)
    arrays = read_arrays(path)
    names = SPLIT if "x_train" in arrays else WHOLE
    require(
        set(names) <= set(arrays),
        f"{path.name} must have the arrays {', '.join(SPLIT)}, or x and y, got "
        f"{', '.join(arrays) or 'none'}",
    )
    x, y = [], []
    for samples, labels in zip(names[::2], names[1::2], strict=True):
        x.append(checked_samples(arrays[samples], f"{samples} of {path.name}"))
        y.append(arrays[labels])
        require(
            y[-1].shape == (len(x[-1]),),
            f"{labels} of {path.name} must have a label for each of the {len(x[-1])} rows of "
            f"{samples}, got shape {y[-1].shape}",
        )
    groups = arrays.get("groups")
    if groups is not None and groups.shape != y[0].shape:
        raise InputError(
            f"groups of {path.name} must be one for each row of {names[0]}, got {groups.shape}"
        )
    y, class_names = _labels(y, arrays, path, options)
    about: dict[str, Any] = {
        "name": f"npz:{path.name}",
        "kind": "image" if x[0].ndim == 4 else "features",
        "class_names": class_names,
    }
    if names == WHOLE:
        parts = split_rows(y[0], seed=options.seed, groups=groups)
        return split_task(x[0], y[0], parts, groups=groups, **about)
    require(
        x[0].shape[1:] == x[1].shape[1:],
        f"x_train and x_test of {path.name} must have rows of the same shape, got "
        f"{x[0].shape[1:]} and {x[1].shape[1:]}",
    )
    return Task(x_train=x[0], y_train=y[0], x_test=x[1], y_test=y[1], groups=groups, **about)


def _labels(
    parts: list[NDArray[Any]], arrays: Arrays, path: Path, options: SourceOptions
) -> tuple[list[NDArray[np.int64]], tuple[str, str]]:
    """Return labels 0 and 1 of each part, and the names of both classes."""
    positive, stacked = options.positive, np.concatenate(parts)
    if "class_names" in arrays:
        names = [str(name) for name in arrays["class_names"].tolist()]
        require(
            stacked.dtype.kind in "biu" and set(stacked.tolist()) <= set(range(len(names))),
            f"the labels of {path.name} must be whole numbers from 0 to {len(names) - 1}, one "
            f"for each of class_names, got {np.unique(stacked)[:5].tolist()}",
        )
        stacked = np.array(names)[stacked.astype(np.int64)]
        if positive is None and len(names) == 2:
            positive = names[1]
    if positive is None:
        _, (_, positive) = binary_labels(pd.Series(stacked[: len(parts[0])]), None, "y")
    y, class_names = binary_labels(pd.Series(stacked), positive, f"y of {path.name}")
    return np.split(y, [len(parts[0])])[: len(parts)], class_names
