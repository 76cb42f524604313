"""`table:FILE`: a CSV, TSV or Parquet file, and what every source of columns shares."""

import gzip
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean
from curvewise.data.task import SourceOptions, Task, split_rows
from curvewise.tables.columns import TableEncoder, column_kind, column_levels, level_text

SEPARATORS = (",", ";", "\t", "|")
ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq")


def table(argument: str, options: SourceOptions) -> Task:
    """Return the task of a file with one row a sample and `options.target` as its classes.

    The positive class is `options.positive`, which makes more than two classes one against the
    rest, or the rarer one. A stratified fifth of the rows, by seed, is the test part;
    `options.group` names a column whose values stay on one side. Columns become numbers as
    `TableEncoder` says, fitted on the training part.
    """
    path = find_file(argument, "table:FILE", options)
    frame = read_table(path)
    if options.target is None:
        raise InputError(
            f"table:{path.name} needs the column of classes as --target (in a sweep as "
            f"`target` under [data]), one of {_listed(frame.columns)}"
        )
    return frame_task(frame, name=f"table:{path.name}", target=options.target, options=options)


def find_file(argument: str, source: str, options: SourceOptions) -> Path:
    """Return the path of a user's file, as given or inside the data folder."""
    if not argument:
        raise InputError(f"{source} must name a file, got none")
    given = Path(argument).expanduser()
    for path in (given, options.data_folder / given):
        if path.is_file():
            return path
    near = [path.name for path in given.parent.glob("*")] if given.parent.is_dir() else []
    raise InputError(
        f"{source} must name a file that is there, got {str(given)!r}: give its path, or its name "
        f"with the folder as --data-dir{did_you_mean(given.name, near)}"
    )


def read_table(path: Path) -> pd.DataFrame:
    """Return the columns of a CSV, TSV (also with .gz) or Parquet file; rows count from 1.

    The separator of text files is the one of , ; | and tab that the header has most of; "?" is
    missing, as are an empty field, NA, NaN, null and None. A column without a name, as an index
    that was saved along, is left out with a warning.
    """
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"a table must be a file of {', '.join(ENDINGS)}, got {path.name!r}")
    frame = _read_parquet(path) if ending in (".parquet", ".pq") else _read_text(path)
    frame.columns = frame.columns.map(lambda name: str(name).strip())
    twice = frame.columns[frame.columns.duplicated() & (frame.columns != "")]
    if len(twice):
        raise InputError(f"the column names of {path.name} must differ, got {twice[0]!r} twice")
    nameless = np.flatnonzero(frame.columns == "")
    if len(nameless):
        warnings.warn(
            f"column {nameless[0] + 1} of {path.name} is left out: it has no name", stacklevel=2
        )
        frame = frame.loc[:, frame.columns != ""]
    if len(frame) == 0:
        raise InputError(f"{path.name} must have a header and rows below it, got no rows")
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    return frame


def _read_text(path: Path) -> pd.DataFrame:
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig") as file:
            first = next((line for line in file if line.strip()), "")
        # A comma inside a quoted name separates nothing.
        bare = re.sub(r'"[^"]*"', "", first)
        separator = max(SEPARATORS, key=bare.count)
        settings: dict[str, Any] = {"sep": separator, "encoding": "utf-8-sig"}
        header = pd.read_csv(
            path, header=None, nrows=1, dtype=str, keep_default_na=False, **settings
        )
        with warnings.catch_warnings():
            # pandas says so when rows are longer than the header, and goes on without the rest.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame: pd.DataFrame = pd.read_csv(
                path,
                header=0,
                names=list(range(header.shape[1])),
                index_col=False,
                skipinitialspace=True,
                na_values=["?"],
                low_memory=False,
                **settings,
            )
    except pd.errors.EmptyDataError:
        raise InputError(f"{path.name} must have a header and rows, got an empty file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path.name} must be text in UTF-8, got other bytes") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, OSError, EOFError) as error:
        raise InputError(
            f"{path.name} must be a table with as many fields in each row as in its header, "
            f"got: {_misshapen(str(error))}"
        ) from None
    return frame.set_axis(header.iloc[0].tolist(), axis=1)


def _misshapen(reason: str) -> str:
    """Return what a reader says of a text file, in words for those who made the file."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason):
        return f"{found[3]} fields in line {found[2]} and {found[1]} before"
    if found := re.search(r"EOF inside string starting at row (\d+)", reason):
        return f"a quotation mark in line {int(found[1]) + 1} that nothing closes"
    if reason.startswith("Length of header"):
        return "rows with more fields than the header"
    return reason.strip()


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
    except ImportError:
        raise InputError(
            f"{path.name} needs pyarrow to be read: pip install pyarrow, or save it as CSV"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name} must be a Parquet file, got: {error}") from None
    return frame if frame.index.names == [None] else frame.reset_index()


def frame_task(frame: pd.DataFrame, *, name: str, target: str, options: SourceOptions) -> Task:
    """Return the task of a DataFrame: target, groups, split, and the encoder of the rest."""
    for option, column in (("target", target), ("group", options.group)):
        if column is not None and column not in frame.columns:
            raise InputError(
                f"--{option} must be a column of {name}, got {column!r}"
                f"{did_you_mean(column, frame.columns) or '; it has ' + _listed(frame.columns)}"
            )
    if options.group == target:
        raise InputError(f"--group must be another column than the target, got {target!r} for both")
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
    return Task(
        name=name,
        kind="features",
        x_train=encoder.transform(features.iloc[train]),
        y_train=y[train],
        x_test=encoder.transform(features.iloc[test]),
        y_test=y[test],
        class_names=class_names,
        groups=None if groups is None else groups[train],
        details={
            "target": target,
            "group": options.group,
            "rows_without_target": len(frame) - len(labelled),
            "feature_names": encoder.feature_names,
            "dropped_columns": encoder.dropped,
            "encoder": encoder.to_dict(),
        },
    )


def stored_encoder(details: Mapping[str, Any], record: Mapping[str, Any]) -> TableEncoder:
    """Return the encoder in a task's details, as a model keeps them with the task in its record."""
    if "encoder" not in details:
        task = record.get("task", "arrays")
        raise InputError(f"this needs a model that was trained on a table, got one of {task}")
    return TableEncoder.from_dict(details["encoder"])


def labelled_rows(
    frame: pd.DataFrame, target: str, positive: str | None
) -> tuple[pd.DataFrame, NDArray[np.int64], tuple[str, str]]:
    """Return the rows that have a label, the labels (n,) and the class names."""
    labelled = frame[column_levels(frame[target])[0] >= 0]
    return labelled, *binary_labels(labelled[target], positive, f"target {target!r}")


def binary_labels(
    values: pd.Series, positive: str | None, what: str
) -> tuple[NDArray[np.int64], tuple[str, str]]:
    """Return labels 0 and 1 (n,), and the names of both classes.

    Class 1 is `positive`, with more than two classes against the rest, else the rarer one; of two
    equally frequent ones, the last in the order of numbers or of the alphabet.

    >>> binary_labels(pd.Series(["ill", "well", "well"]), None, "target")
    (array([1, 0, 0]), ('well', 'ill'))
    """
    codes, names = column_levels(values)
    if len(codes) == 0 or (codes < 0).any():
        raise InputError(f"{what} must have a class in every row, got {(codes < 0).sum()} without")
    try:
        order = sorted(names, key=float)
    except ValueError:
        order = sorted(names)
    if len(names) == 1:
        raise InputError(f"{what} must hold two classes, got one: {names[0]!r}")
    if positive is None:
        if len(names) > 2:
            raise InputError(
                f"{what} must hold two classes, or one of them be --positive against the rest, "
                f"got {len(names)}: {_listed(order)}"
            )
        counts = np.bincount(codes)
        positive = min(reversed(order), key=lambda name: counts[names.index(name)])
    wanted = level_text(positive)
    if wanted not in names:
        raise InputError(
            f"--positive must be a class of {what}, one of {_listed(order)}, got {wanted!r}"
            f"{did_you_mean(wanted, order)}"
        )
    rest = [name for name in order if name != wanted]
    y = (codes == names.index(wanted)).astype(np.int64)
    return y, (rest[0] if len(rest) == 1 else f"not {wanted}", wanted)


def group_names(column: pd.Series) -> NDArray[np.str_]:
    """Return the group of each row as text; every row must have one."""
    codes, names = column_levels(column)
    absent = np.flatnonzero(codes < 0)
    if len(absent):
        raise InputError(
            f"group {column.name!r} must have a value in every row, {len(absent)} rows have none, "
            f"the first is row {column.index[absent[0]]}"
        )
    return np.array(names)[codes]


def _listed(names: Any, most: int = 12) -> str:
    """Return names in quotes, the first few of many."""
    texts = [repr(str(name)) for name in names]
    return ", ".join(texts[:most]) + (", ..." if len(texts) > most else "")
