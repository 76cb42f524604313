"""Columns to numbers: `TableEncoder`, fitted on the training part of a table only."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean
from curvewise.tables.reading import Column, Floats, column_kind, column_levels, column_numbers

Features = NDArray[np.float32]

TAIL = 0.005  # share of the rows on each side that do not take part in mean and deviation
LIMIT = 5.0  # standard deviations that no standardised number exceeds
VERSION = 1


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
        """Names of the columns that come out."""
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

    def __init__(self, *, min_rows: int = 10, max_levels: int = 50) -> None:
        self.min_rows = min_rows
        self.max_levels = max_levels
        self.columns: tuple[NumberColumn | CategoryColumn, ...] = ()
        self.dropped: dict[str, str] = {}

    @property
    def feature_names(self) -> list[str]:
        """Names of the d features, in order."""
        return [feature for column in self.columns for feature in column.features]

    def fit(self, columns: pd.DataFrame) -> "TableEncoder":
        """Learn from the rows of a table; returns the encoder itself."""
        table = _named(columns)
        if len(table) == 0 or len(table.columns) == 0:
            raise InputError(f"a table must have rows and columns, got shape {table.shape}")
        plans: list[NumberColumn | CategoryColumn] = []
        dropped: dict[str, str] = {}
        for name in table.columns:
            plan = self._plan(name, table[name])
            if isinstance(plan, str):
                dropped[name] = plan
            else:
                plans.append(plan)
        if not plans:
            why = ", ".join(f"{name!r} ({reason})" for name, reason in list(dropped.items())[:5])
            raise InputError(f"a table must have a column of use as a feature, got {why}")
        for name, reason in dropped.items():
            if "categories" in reason:
                warnings.warn(f"column {name!r} is dropped: {reason}", stacklevel=2)
        self.columns, self.dropped = tuple(plans), dropped
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
        if not self.columns:
            raise InputError("a TableEncoder must be fitted before transform, got a new one")
        table = _named(columns)
        absent = [plan.name for plan in self.columns if plan.name not in table.columns]
        if absent:
            raise InputError(
                f"the table must have every column of the training data, lacks "
                f"{', '.join(map(repr, absent))}{did_you_mean(absent[0], table.columns)}"
            )
        features = np.empty((len(table), len(self.feature_names)), np.float32)
        start, holes = 0, []
        for plan in self.columns:
            stop = start + len(plan.features)
            features[:, start:stop], missing = plan.encode(table[plan.name])
            holes += [f"{plan.name!r} ({missing})"] * (missing > 0)
            start = stop
        if holes:
            warnings.warn(
                f"values are missing where the training data had none: {', '.join(holes)}",
                stacklevel=2,
            )
        return features

    def warn_of_unknown_levels(self, columns: pd.DataFrame) -> None:
        """Warn, in one sentence for all columns, of rows with a category that `fit` did not see.

        Where `fit` had rare ones, all others count as such.
        """
        table, unknown = _named(columns), []
        for plan in self.columns:
            if not isinstance(plan, CategoryColumn) or plan.other:
                continue
            codes, texts = column_levels(table[plan.name])
            new = [code for code, text in enumerate(texts) if text not in plan.levels]
            if new:
                count = int(np.isin(codes, new).sum())
                unknown.append(f"{plan.name!r} ({count}, for instance {texts[new[0]]!r})")
        if unknown:
            warnings.warn(
                f"rows have categories that the training data had none of: {', '.join(unknown)}",
                stacklevel=2,
            )

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON; `from_dict` gives the same encoder back."""
        return {
            "version": VERSION,
            "min_rows": self.min_rows,
            "max_levels": self.max_levels,
            "columns": [asdict(plan) for plan in self.columns],
            "dropped": dict(self.dropped),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "TableEncoder":
        """Return the encoder whose `to_dict` is `state`."""
        if state.get("version") != VERSION:
            raise InputError(
                f"an encoder must be of version {VERSION}, got {state.get('version')!r}"
            )
        try:
            encoder = cls(min_rows=state["min_rows"], max_levels=state["max_levels"])
            encoder.dropped = dict(state["dropped"])
            encoder.columns = tuple(
                (CategoryColumn if column["kind"] == "category" else NumberColumn)(**column)
                for column in state["columns"]
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"an encoder must come from to_dict, got one with {error}") from None
        return encoder


def _named(columns: pd.DataFrame) -> pd.DataFrame:
    if not isinstance(columns, pd.DataFrame):
        raise InputError(f"columns must be a pandas DataFrame, got {type(columns).__name__}")
    table = columns.set_axis(columns.columns.map(str), axis=1)
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise InputError(f"column names must differ, got {twice[0]!r} twice")
    return table


def _center_and_scale(values: Floats) -> tuple[float, float]:
    """Return mean and deviation without the tails; `values` are not all equal."""
    low = np.quantile(values, TAIL, method="higher")
    high = np.quantile(values, 1 - TAIL, method="lower")
    middle = np.clip(values, low, high)
    if middle.max() == middle.min():  # a few rows only differ, and those matter
        middle = values
    # The deviation of tiny numbers rounds to 0, their range does not.
    return float(middle.mean()), float(middle.std() or middle.max() - middle.min())
