"""Files in: a CSV, TSV or Parquet file to columns, a column to two classes, an .npz to arrays."""

import gzip
import re
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean, require
from curvewise.tables.columns import column_levels, level_text

Arrays = dict[str, NDArray[Any]]

SEPARATORS = (",", ";", "\t", "|")
ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq")


def read_table(path: Path) -> pd.DataFrame:
    """Return the columns of a CSV, TSV (also with .gz) or Parquet file; rows count from 1.

    The separator of text files is the one of , ; | and tab that the header has most of; "?" is
    missing, as are an empty field, NA, NaN, null and None. A column without a name, as an index
    that was saved along, is left out with a warning.
    """
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    require(ending in ENDINGS, f"a table must be a file of {', '.join(ENDINGS)}, got {path.name!r}")
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
    require(len(frame) != 0, f"{path.name} must have a header and rows below it, got no rows")
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
            f'{path.name} needs pyarrow to be read: pip install "curvewise[parquet]", '
            "or save it as CSV"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name} must be a Parquet file, got: {error}") from None
    return frame if frame.index.names == [None] else frame.reset_index()


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
    require(
        len(codes) != 0 and not (codes < 0).any(),
        f"{what} must have a class in every row, got {(codes < 0).sum()} without",
    )
    try:
        order = sorted(names, key=float)
    except ValueError:
        order = sorted(names)
    require(len(names) != 1, f"{what} must hold two classes, got one: {names[0]!r}")
    if positive is None:
        require(
            len(names) <= 2,
            f"{what} must hold two classes, or one of them be --positive against the rest, "
            f"got {len(names)}: {listed(order)}",
        )
        counts = np.bincount(codes)
        positive = min(reversed(order), key=lambda name: counts[names.index(name)])
    wanted = level_text(positive)
    if wanted not in names:
        raise InputError(
            f"--positive must be a class of {what}, one of {listed(order)}, got {wanted!r}"
            f"{did_you_mean(wanted, order)}"
        )
    rest = [name for name in order if name != wanted]
    y = (codes == names.index(wanted)).astype(np.int64)
    return y, (rest[0] if len(rest) == 1 else f"not {wanted}", wanted)


def require_column(option: str, column: str | None, table: pd.DataFrame, what: str) -> None:
    """Raise `InputError` unless a table has the column that an option names."""
    if column is None or column not in table.columns:
        wrong = "none" if column is None else repr(column)
        near = did_you_mean(column, table.columns) or f"; it has {listed(table.columns)}"
        raise InputError(f"--{option} must be a column of {what}, got {wrong}{near}")


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


def listed(names: Any, most: int = 12) -> str:
    """Return names in quotes, the first few of many."""
    texts = [repr(str(name)) for name in names]
    return ", ".join(texts[:most]) + (", ..." if len(texts) > most else "")


def read_samples(path: Path) -> NDArray[Any]:
    """Return the samples x of a .npz file, or x_test where it has no x, without labels."""
    arrays = read_arrays(path)
    name = "x" if "x" in arrays else "x_test"
    held = ", ".join(arrays) or "none"
    require(name in arrays, f"{path.name} must have an array x or x_test, got {held}")
    samples = checked_samples(arrays[name], f"{name} of {path.name}")
    require(len(samples), f"{name} of {path.name} must have a row or more, got none")
    return samples


def read_arrays(path: Path) -> Arrays:
    """Return the arrays of a .npz file by name."""
    try:
        # A pickle inside could run anything.
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.ndarray):
            with file:
                return dict(file.items())
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path.name} must be a .npz file of plain arrays, got: {error}") from None
    raise InputError(f"{path.name} must be a .npz file, got a single array")


def checked_samples(x: NDArray[Any], what: str) -> NDArray[Any]:
    """Return images as uint8 (n, C, H, W), features as finite float32 (n, d)."""
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        images = x[:, None] if x.ndim == 3 else x
        fits = images.shape[1] in (1, 3)
        require(fits, f"{what} must have 1 or 3 channels as (n, C, H, W), got {x.shape}")
        return images
    require(
        x.ndim == 2 and x.dtype.kind in "biuf",
        f"{what} must be numbers (n, d) or uint8 images (n, C, H, W), got {x.dtype} {x.shape}",
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
