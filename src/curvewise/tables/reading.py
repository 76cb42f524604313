"""What a column of a table holds: numbers, booleans, dates or categories, read from anything."""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError

Floats = NDArray[np.float64]
Column = pd.Series  # of anything

HUGE = 1e100  # numbers beyond count as this, so that no difference or square overflows
MOSTLY = 0.9  # share of numbers from which a text column was meant to be a column of numbers
FEW_WORDS = 5  # words up to which it was: codes such as "250.8" and "V27" have more
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")
# Whole seconds, for a difference in nanoseconds ends in the year 2262.
EPOCH = pd.Timestamp("1970-01-01", tz="UTC").as_unit("s")


def level_text(value: object) -> str:
    """Return a category as text: without blanks around it, and 1.0 as "1".

    A file may say 1 where another, because a value is missing in the column, says 1.0.

    >>> level_text(1.0), level_text(" a ")
    ('1', 'a')
    """
    if isinstance(value, float | np.floating) and -1e15 < value < 1e15 and value == int(value):
        return str(int(value))
    return str(value).strip()


def column_levels(column: Column) -> tuple[NDArray[np.int64], list[str]]:
    """Return the code of each row, -1 where missing, and the text of each code.

    >>> column_levels(pd.Series(["b", " a", "b ", None]))
    (array([ 0,  1,  0, -1]), ['b', 'a'])
    """
    try:
        codes, values = pd.factorize(column)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in column})
        raise InputError(
            f"column {column.name!r} must hold numbers, text or dates, got {', '.join(kinds)}"
        ) from None
    places: dict[str, int] = {}
    texts = [level_text(value) for value in values]
    place_of = [places.setdefault(text, len(places)) if text else -1 for text in texts]
    return np.array([*place_of, -1], np.int64)[codes], list(places)


def column_kind(column: Column, *, max_levels: int = 50) -> str:
    """Return "number", "boolean", "date" or "category", or raise if it is none of them.

    >>> column_kind(pd.Series(["0", "1", "2"])), column_kind(pd.Series(["0", "1", "2+"]))
    ('number', 'category')
    """
    types = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category"
    inferred = types.infer_dtype(column, skipna=True)
    if types.is_complex_dtype(column.dtype) or inferred == "complex":
        raise InputError(f"column {column.name!r} must hold real numbers, got complex ones")
    if inferred == "boolean":
        return "boolean"
    if inferred in ("datetime64", "datetime", "date"):
        return "date"
    if types.is_numeric_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        return "number"
    codes, texts = column_levels(column)
    if not texts:
        return "category"  # and dropped, for it is empty
    if all(DATE.fullmatch(text) for text in texts) and not np.isnan(_dates(texts)).any():
        return "date"
    readable = ~np.isnan(_readings(texts))
    if readable.all():
        return "number"
    rows = codes[codes >= 0]
    words = len(texts) - int(readable.sum())
    spoilt = words <= FEW_WORDS and len(texts) > max_levels
    if readable[rows].mean() >= MOSTLY and (spoilt or len(texts) > len(rows) / 2):
        raise _unreadable(column, np.append(readable, True)[codes], "number")
    return "category"


def _readings(texts: list[str]) -> Floats:
    """Return text as numbers, NaN where it is none."""
    series = pd.Series(texts, dtype=object)
    return pd.to_numeric(series, errors="coerce").to_numpy(np.float64)


def _dates(texts: list[str]) -> Floats:
    """Return ISO dates as seconds since 1970, NaN where text is none."""
    series = pd.Series(texts, dtype=object)
    return _seconds(pd.to_datetime(series, errors="coerce", utc=True, format="ISO8601"))


def _seconds(times: Column) -> Floats:
    """Return dates, or lengths of time, in seconds."""
    if pd.api.types.is_datetime64_any_dtype(times.dtype):
        times = pd.to_datetime(times, utc=True) - EPOCH
    return np.asarray(times.dt.total_seconds(), np.float64)


def column_numbers(column: Column, kind: str) -> Floats:
    """Return a column as finite float64 numbers, NaN where a value is missing."""
    types = pd.api.types
    is_date = types.is_datetime64_any_dtype(column.dtype)
    if is_date and kind != "date":
        raise InputError(f"column {column.name!r} must hold a {kind} in every row, got dates")
    if is_date or types.is_timedelta64_dtype(column.dtype):
        return _seconds(column)
    if types.is_numeric_dtype(column.dtype) and kind != "date":
        values = np.asarray(column.to_numpy(np.float64, na_value=np.nan))
    else:
        codes, texts = column_levels(column)
        words = {"true": "1", "false": "0"} if kind == "boolean" else {}
        texts = [words.get(text.lower(), text) for text in texts]
        read = _dates(texts) if kind == "date" else _readings(texts)
        values = np.append(read, np.nan)[codes]
        if np.isnan(read).any():
            raise _unreadable(column, ~np.isnan(values) | (codes < 0), kind)
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise InputError(
            f"column {column.name!r} must be finite, got {values[infinite[0]]} in row "
            f"{column.index[infinite[0]]}"
        )
    clipped: Floats = np.clip(values, -HUGE, HUGE)
    return clipped


def _unreadable(column: Column, readable: NDArray[np.bool_], kind: str) -> InputError:
    """Return the error that names the first row that is not what its column holds."""
    rows = np.flatnonzero(~readable)
    row = column.index[rows[0]]
    return InputError(
        f"column {column.name!r} must hold a {kind} in every row, got "
        f"{str(column.iloc[rows[0]])!r} in row {row} ({len(rows)} such of {len(readable)} rows)"
    )
