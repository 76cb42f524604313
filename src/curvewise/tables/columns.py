"""What a column of a table holds, read from anything, and its way to numbers: `TableEncoder`."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean, require

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Features = NDArray[np.float32]
Column = pd.Series  # of anything

HUGE = 1e100  # numbers beyond count as this, so that no difference or square overflows
MOSTLY = 0.9  # share of numbers from which a text column was meant to be a column of numbers
FEW_WORDS = 5  # words up to which it was: codes such as "250.8" and "V27" have more
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")
KINDS = {"boolean": "boolean", "datetime64": "date", "datetime": "date", "date": "date"}
# Whole seconds, for a difference in nanoseconds ends in the year 2262.
EPOCH = pd.Timestamp("1970-01-01", tz="UTC").as_unit("s")
TAIL = 0.005  # share of the rows on each side that do not take part in mean and deviation
LIMIT = 5.0  # standard deviations that no standardised number exceeds
VERSION = 1


def level_text(value: object) -> str:
    """Return a category as text: without blanks around it, and 1.0 as "1".

    A file may say 1 where another, because a value is missing in the column, says 1.0.

    >>> level_text(1.0), level_text(" a ")
    ('1', 'a')
    """
    if isinstance(value, float | np.floating) and -1e15 < value < 1e15 and value == int(value):
        return str(int(value))
    return str(value).strip()


def column_levels(column: Column) -> tuple[Codes, list[str]]:
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
    # Texts may be alike where values are not; an empty one is missing.
    texts = pd.Series([level_text(value) or None for value in values], dtype=object)
    place_of, levels = pd.factorize(texts)
    return np.append(place_of, -1)[codes], levels.tolist()


def column_kind(column: Column, *, max_levels: int = 50) -> str:
    """Return "number", "boolean", "date" or "category", or raise if it is none of them.

    >>> column_kind(pd.Series(["0", "1", "2"])), column_kind(pd.Series(["0", "1", "2+"]))
    ('number', 'category')
    """
    types = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category"
    inferred = types.infer_dtype(column, skipna=True)
    real = inferred != "complex" and not types.is_complex_dtype(column.dtype)
    require(real, f"column {column.name!r} must hold real numbers, got complex ones")
    if inferred in KINDS:
        return KINDS[inferred]
    if types.is_numeric_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        return "number"
    codes, texts = column_levels(column)
    if not texts:
        return "category"  # and dropped, for it is empty
    if all(map(DATE.fullmatch, texts)) and not np.isnan(_readings(texts, "date")).any():
        return "date"
    readable = ~np.isnan(_readings(texts, "number"))
    if readable.all():
        return "number"
    rows = codes[codes >= 0]
    words = len(texts) - int(readable.sum())
    spoilt = words <= FEW_WORDS and len(texts) > max_levels
    if readable[rows].mean() >= MOSTLY and (spoilt or len(texts) > len(rows) / 2):
        raise _unreadable(column, np.append(readable, True)[codes], "number")
    return "category"


def _readings(texts: list[str], kind: str) -> Floats:
    """Return text as numbers, or ISO dates as seconds since 1970, NaN where it is none."""
    series = pd.Series(texts, dtype=object)
    if kind == "date":
        return _seconds(pd.to_datetime(series, errors="coerce", utc=True, format="ISO8601"))
    return pd.to_numeric(series, errors="coerce").to_numpy(np.float64)


def _seconds(times: Column) -> Floats:
    """Return dates, or lengths of time, in seconds."""
    if pd.api.types.is_datetime64_any_dtype(times.dtype):
        times = pd.to_datetime(times, utc=True) - EPOCH
    return np.asarray(times.dt.total_seconds(), np.float64)


def column_numbers(column: Column, kind: str) -> Floats:
    """Return a column as finite float64 numbers, NaN where a value is missing."""
    types = pd.api.types
    is_date = types.is_datetime64_any_dtype(column.dtype)
    wanted = f"column {column.name!r} must hold a {kind} in every row"
    require(kind == "date" or not is_date, f"{wanted}, got dates")
    if is_date or types.is_timedelta64_dtype(column.dtype):
        return _seconds(column)
    if types.is_numeric_dtype(column.dtype) and kind != "date":
        values = np.asarray(column.to_numpy(np.float64, na_value=np.nan))
    else:
        codes, texts = column_levels(column)
        words = {"true": "1", "false": "0"} if kind == "boolean" else {}
        texts = [words.get(text.lower(), text) for text in texts]
        values = np.append(_readings(texts, kind), np.nan)[codes]
        if np.isnan(values[codes >= 0]).any():
            raise _unreadable(column, ~np.isnan(values) | (codes < 0), kind)
    infinite = np.isinf(values)
    if infinite.any():
        value, row = values[infinite][0], column.index[infinite][0]
        raise InputError(f"column {column.name!r} must be finite, got {value} in row {row}")
    return np.asarray(np.clip(values, -HUGE, HUGE))


def _unreadable(column: Column, readable: NDArray[np.bool_], kind: str) -> InputError:
    """Return the error that names the first row that is not what its column holds."""
    rows = np.flatnonzero(~readable)
    row = column.index[rows[0]]
    return InputError(
        f"column {column.name!r} must hold a {kind} in every row, got "
        f"{str(column.iloc[rows[0]])!r} in row {row} ({len(rows)} such of {len(readable)} rows)"
    )


@dataclass(frozen=True)
class NumberColumn:
    """How a column of numbers, booleans or dates is encoded: see `TableEncoder`."""

    name: str
    kind: str  # "number" | "boolean" | "date"
    center: float
    scale: float
    fill: float
    varies: bool
    missing: bool

    @property
    def features(self) -> list[str]:
        """Names of the columns that come out."""
        return [self.name] * self.varies + [f"{self.name}=(missing)"] * self.missing

    def encode(self, column: Column) -> tuple[Features, int]:
        """Return the features (n, k), and how many values are missing unexpectedly."""
        values = column_numbers(column, self.kind)
        absent = np.isnan(values)
        z = np.where(absent, self.fill, values) - self.center
        with np.errstate(over="ignore"):  # of a tiny scale; the clip takes it back
            z = np.clip(z / self.scale, -1e6, 1e6)
        squashed = z / np.sqrt(1 + (z / LIMIT) ** 2)
        parts = [squashed] * self.varies + [absent] * self.missing
        return np.stack(parts, axis=1).astype(np.float32), 0 if self.missing else int(absent.sum())


@dataclass(frozen=True)
class CategoryColumn:
    """How a column of categories is encoded: see `TableEncoder`."""

    name: str
    kind: str  # "category"
    levels: list[str]
    other: bool
    missing: bool

    @property
    def features(self) -> list[str]:
        """Names of the features that come out."""
        last = ["(other)"] * self.other + ["(missing)"] * self.missing
        return [f"{self.name}={level}" for level in self.levels + last]

    def encode(self, column: Column) -> tuple[Features, int]:
        """Return the features (n, k), and how many values are missing unexpectedly."""
        codes, texts = column_levels(column)
        places = {level: place for place, level in enumerate(self.levels)}
        nowhere = len(self.features)
        other = len(self.levels) if self.other else nowhere
        absent = nowhere - 1 if self.missing else other
        place_of = np.array([places.get(text, other) for text in texts] + [absent], np.int64)
        one_hot = np.zeros((len(codes), nowhere + 1), np.float32)
        one_hot[np.arange(len(codes)), place_of[codes]] = 1  # code -1, missing, is the last
        return one_hot[:, :nowhere], 0 if self.missing else int((codes < 0).sum())


@dataclass(eq=False, kw_only=True)
class TableEncoder:
    """Turns the columns of a DataFrame into float32 features (n, d), none of them NaN or infinite.

    Everything is learnt from the rows given to `fit`; those should be the training part.

    - Numbers, booleans (0 and 1) and dates (seconds since 1970) are standardised,
      z = (x - mean) / deviation, with both taken after cutting the outermost 0.5 % of the rows on
      each side to the next value, and squashed by z / sqrt(1 + (z / 5)^2) against heavy tails: near
      the identity in the middle, never beyond 5, the order kept (the smooth clipping of Holzmueller
      et al. 2024, arXiv 2407.04491). Missing values become the median; a column that had some in
      `fit` gets a second feature, 1 where the value is missing.
    - Text of which every value reads as a number ("1.5", not "1,5") or as an ISO date is that.
    - Everything else is a category: one feature a level. Levels of fewer than `min_rows` rows (2 %
      of the rows, if that is less) and those after the `max_levels` most frequent are one level
      "(other)"; missing is a level of its own if `fit` saw it.
    - Constant and empty columns, and categories with more levels than half of the rows (names,
      identifiers), are dropped; `dropped` says why, and the latter with a warning.

    In `transform`, columns are found by name and others ignored. An unknown level is "(other)", or
    zero in every level if there is none. A value missing where `fit` saw none missing is taken
    as the median, or as an unknown level, with a warning. A word among numbers and an infinite
    number are errors that name column and row.

    >>> table = pd.DataFrame({"age": [30, 40, None, 60] * 5, "job": ["a", "b", "b", "a"] * 5})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.feature_names
    ['age', 'age=(missing)', 'job=a', 'job=b']
    >>> encoder.transform(pd.DataFrame({"job": ["b"], "age": [None]})).round(1)
    array([[-0.3,  1. ,  0. ,  1. ]], dtype=float32)
    """

    min_rows: int = 10
    max_levels: int = 50
    columns: tuple[NumberColumn | CategoryColumn, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)

    @property
    def feature_names(self) -> list[str]:
        """Names of the d features, in order."""
        return [feature for column in self.columns for feature in column.features]

    def fit(self, columns: pd.DataFrame) -> "TableEncoder":
        """Learn from the rows of a table; returns the encoder itself."""
        table = _named(columns)
        plans = {name: self._plan(name, table[name]) for name in table.columns}
        self.dropped = {name: plan for name, plan in plans.items() if isinstance(plan, str)}
        self.columns = tuple(plan for plan in plans.values() if not isinstance(plan, str))
        why = [f"{name!r} ({reason})" for name, reason in self.dropped.items()]
        require(
            self.columns,
            f"a table must have a column of use as a feature, got {', '.join(why[:5]) or 'none'}",
        )
        for name, reason in self.dropped.items():
            if "categories" in reason:
                warnings.warn(f"column {name!r} is dropped: {reason}", stacklevel=2)
        return self

    def _plan(self, name: str, column: Column) -> NumberColumn | CategoryColumn | str:
        """Return how a column is encoded, or why it is dropped."""
        kind = column_kind(column, max_levels=self.max_levels)
        if kind == "category":
            return self._plan_category(name, column)
        values = column_numbers(column, kind)
        present = values[~np.isnan(values)]
        missing = len(present) < len(values)
        if len(present) == 0:
            return "empty"
        varies = bool(present.max() > present.min())
        if not varies and not missing:
            return "constant"
        center, scale = _center_and_scale(present) if varies else (float(present[0]), 1.0)
        return NumberColumn(
            name, kind, center, scale, float(np.median(present)), varies=varies, missing=missing
        )

    def _plan_category(self, name: str, column: Column) -> CategoryColumn | str:
        codes, texts = column_levels(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        rows, missing = int(counts.sum()), bool((codes < 0).any())
        if rows == 0:
            return "empty"
        if len(texts) > max(1, rows / 2):
            return f"{len(texts)} categories in {rows} rows"
        if len(texts) == 1 and not missing:
            return "constant"
        enough = min(self.min_rows, ceil(0.02 * rows))
        ranked = sorted(range(len(texts)), key=lambda code: (-counts[code], texts[code]))
        kept = [texts[code] for code in ranked[: self.max_levels] if counts[code] >= enough]
        if not kept and not missing:
            return f"{len(texts)} categories, none with {enough} rows or more"
        return CategoryColumn(
            name, "category", sorted(kept), other=len(kept) < len(texts), missing=missing
        )

    def transform(self, columns: pd.DataFrame) -> Features:
        """Return the features of a table with the columns of `fit`, (n, d)."""
        table = _named(columns)
        absent = [plan.name for plan in self.columns if plan.name not in table.columns]
        if absent:
            raise InputError(
                f"the table must have every column of the training data, lacks "
                f"{', '.join(map(repr, absent))}{did_you_mean(absent[0], table.columns)}"
            )
        parts = {plan.name: plan.encode(table[plan.name]) for plan in self.columns}
        holes = [f"{name!r} ({missing})" for name, (_, missing) in parts.items() if missing]
        if holes:
            warnings.warn(
                f"values are missing where the training data had none: {', '.join(holes)}",
                stacklevel=2,
            )
        return np.concatenate([features for features, _ in parts.values()], axis=1)

    def warn_of_unknown_levels(self, columns: pd.DataFrame) -> None:
        """Warn, in one sentence for all columns, of rows with a category that `fit` did not see.

        Where `fit` had rare ones, all others count as such.
        """
        table, unknown = _named(columns), []
        for plan in self.columns:
            if isinstance(plan, CategoryColumn) and not plan.other:
                codes, texts = column_levels(table[plan.name])
                new = [code for code, text in enumerate(texts) if text not in plan.levels]
                if new:
                    rows = int(np.isin(codes, new).sum())
                    unknown.append(f"{plan.name!r} ({rows}, for instance {texts[new[0]]!r})")
        if unknown:
            warnings.warn(
                f"rows have categories that the training data had none of: {', '.join(unknown)}",
                stacklevel=2,
            )

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON; `from_dict` gives the same encoder back."""
        columns = [asdict(plan) for plan in self.columns]
        return {"version": VERSION, **vars(self), "columns": columns}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "TableEncoder":
        """Return the encoder whose `to_dict` is `state`."""
        version = state.get("version")
        require(version == VERSION, f"an encoder must be of version {VERSION}, got {version!r}")
        kinds: Any = {"category": CategoryColumn}
        try:
            columns = [kinds.get(plan["kind"], NumberColumn)(**plan) for plan in state["columns"]]
            settings = {name: state[name] for name in ("min_rows", "max_levels", "dropped")}
        except (KeyError, TypeError) as error:
            raise InputError(f"an encoder must come from to_dict, got one with {error}") from None
        return cls(columns=tuple(columns), **settings)


def _named(columns: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns have text as names."""
    return columns.set_axis(columns.columns.map(str), axis=1)


def _center_and_scale(values: Floats) -> tuple[float, float]:
    """Return mean and deviation without the tails; `values` are not all equal."""
    low = np.quantile(values, TAIL, method="higher")
    high = np.quantile(values, 1 - TAIL, method="lower")
    middle = np.clip(values, low, high)
    if middle.max() == middle.min():  # a few rows only differ, and those matter
        middle = values
    # The deviation of tiny numbers rounds to 0, their range does not.
    return float(middle.mean()), float(middle.std() or middle.max() - middle.min())
