"""Numbers by their quantiles: `QuantileEncoder`, and weights that favour columns that separate."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvewise.base.errors import InputError, require_choice
from curvewise.tables.quantile_column import (
    HUGE,
    TINY,
    Counts,
    Floats,
    QuantileColumn,
    bin_edges,
    inside_bins,
    whole_number,
)

Features = NDArray[np.float32]
Places = NDArray[np.intp]

SAMPLE = 100_000  # rows that quantiles are taken from at most
CHUNK = 4096  # rows at a time: what they need meanwhile stays in the cache
VERSION = 1
# For each kind: the constant beside t^2, the power, and the least weight.
SCALINGS = {"none": (0.0, 0.0, 1.0), "mild": (4.0, 0.5, 0.1), "strong": (6.0, 1.0, 0.03)}


class QuantileEncoder:
    """Turns numbers (n, d) into standardised float32 features (n, k), none of them beyond 5.

    Everything is learnt from the rows given to `fit`; those should be the training part. Each
    column gives, by its distinct values there,

    - one: nothing;
    - two, as indicators have: itself, centred and divided by its deviation;
    - more: its *normal value*, the empirical cdf (tied rows share their middle rank; linear between
      at most 1,000 stored quantiles) through the normal's inverse cdf, clipped to [-3, 3]; and the
      *piecewise-linear encoding* of Gorishniy, Rubachev and Babenko (2022, arXiv 2203.05556) in up
      to `n_bins` quantile bins: part t is 0 below bin t, 1 above it, linear inside. Bin edges that
      coincide are merged. Each part is centred and divided by its deviation.

    Columns of two values are encoded as one bin from the lower to the higher. Deviations of what
    lies in [0, 1] are floored at 0.2: an indicator is 1 in 4 % of the rows where the floor starts,
    and rarer ones give at most 5. So columns that come out have mean 0 and deviation 1 on the
    training rows, or less: rare indicators, bins with a long tail, and normal values with many ties
    (these are not stretched: a row's value is what its rank says). New values outside the training
    range count as its ends, numbers beyond 1e100 as that, and those below 1e-100 as 0.

    `n_bins` is lowered, the same for all columns, to the largest number with which all features
    are at most `max_columns`, if need be to 0: then there is no piecewise part. Normal values and
    indicators are never left out, also if they alone are more than `max_columns`.

    Of more than 100,000 rows, quantiles are those of 100,000 drawn with a fixed generator, beside
    the smallest and the largest value of all. Features come in this order: normal values, then
    parts and indicators, each in the order of their columns (`sources`).

    >>> x = np.array([[0.0, 1], [1, 1], [2, 0], [9, 1]])
    >>> encoder = QuantileEncoder(n_bins=2).fit(x)
    >>> encoder.sources
    array([0, 0, 0, 1])
    >>> encoder.transform(x[:3]).round(2)
    array([[-1.15, -1.73, -0.67,  0.58],
           [-0.32,  0.58, -0.67,  0.58],
           [ 0.32,  0.58, -0.37, -1.73]], dtype=float32)
    """

    def __init__(self, n_bins: int = 8, max_columns: int = 400) -> None:
        self.n_bins = whole_number("n_bins", n_bins, 0)
        self.max_columns = whole_number("max_columns", max_columns, 1)
        self.n_inputs = 0
        self.columns: tuple[QuantileColumn, ...] = ()

    @property
    def sources(self) -> Places:
        """For each of the k features the input column that it comes from."""
        normal = [column.place for column in self.columns if len(column.values)]
        bins = [column.place for column in self.columns for _ in column.means]
        return np.array(normal + bins, np.intp)

    def fit(self, x: ArrayLike) -> "QuantileEncoder":
        """Learn from the rows of x (n, d); returns the encoder itself."""
        table = _table(x)
        n, n_inputs = table.shape
        rows = None
        if n > SAMPLE:
            rows = np.random.default_rng(0).choice(n, SAMPLE, replace=False, shuffle=False)
        plans: dict[int, QuantileColumn] = {}
        many: dict[int, tuple[Floats, Counts]] = {}
        for place in range(n_inputs):
            values = _finite(table[:, place : place + 1], 0, place)[:, 0]
            low, high = values.min(), values.max()
            is_high = values == high
            if low == high:
                continue
            if (is_high | (values == low)).all():
                plans[place] = QuantileColumn.of_two_values(place, low, high, is_high.mean())
                continue
            if rows is not None:
                values = np.append(values[rows], [low, high])
            many[place] = np.unique(values, return_counts=True)
        if not plans and not many:
            raise InputError(f"x must have a column that varies, got {n_inputs} constant ones")
        edges = self._edges(many, self.max_columns - len(plans) - len(many))
        for place, (values, counts) in many.items():
            plans[place] = QuantileColumn.of_many_values(place, values, counts, edges[place])
        self.columns = tuple(plans[place] for place in sorted(plans))
        self.n_inputs = n_inputs
        return self

    def _edges(self, many: dict[int, tuple[Floats, Counts]], room: int) -> dict[int, Floats]:
        """Return the bin edges of each column with as many bins as there is room for."""
        for n_bins in range(self.n_bins, 0, -1):
            edges = {place: bin_edges(*column, n_bins) for place, column in many.items()}
            if sum(len(column) - 1 for column in edges.values()) <= room:
                return edges
        return {place: np.empty(0) for place in many}

    def transform(self, x: ArrayLike) -> Features:
        """Return the features (n, k) of x (n, d); needs little memory beside them."""
        if not self.columns:
            raise InputError("a QuantileEncoder must be fitted before transform, got a new one")
        table = _table(x, self.n_inputs)
        normal = [column for column in self.columns if len(column.values)]
        sources = self.sources
        places = sources[len(normal) :]
        lows = np.concatenate([column.edges[:-1] for column in self.columns])
        highs = np.concatenate([column.edges[1:] for column in self.columns])
        means = np.concatenate([column.means for column in self.columns])
        deviations = np.concatenate([column.deviations for column in self.columns])
        features = np.empty((len(table), len(sources)), np.float32)
        for start in range(0, len(table), CHUNK):
            chunk = _finite(table[start : start + CHUNK], start)
            out = features[start : start + CHUNK]
            for place, column in enumerate(normal):
                out[:, place] = column.normal(chunk[:, column.place])
            parts = chunk.take(places, axis=1)
            inside_bins(parts, lows, highs, out=parts)
            parts -= means
            parts /= deviations
            out[:, len(normal) :] = parts
        return features

    def to_dict(self) -> dict[str, Any]:
        """Return everything learnt, ready for JSON; `from_dict` gives the same encoder back."""
        return {
            "version": VERSION,
            "n_bins": self.n_bins,
            "max_columns": self.max_columns,
            "n_inputs": self.n_inputs,
            "columns": [column.to_dict() for column in self.columns],
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "QuantileEncoder":
        """Return the encoder whose `to_dict` is `state`, or raise `InputError`."""
        names = {"version", "n_bins", "max_columns", "n_inputs", "columns"}
        if not isinstance(state, Mapping) or set(state) != names:
            raise InputError(f"an encoder must come from to_dict, got {state!r:.60}")
        if state["version"] != VERSION:
            raise InputError(f"an encoder must be of version {VERSION}, got {state['version']!r}")
        encoder = cls(state["n_bins"], state["max_columns"])
        encoder.n_inputs = whole_number("n_inputs", state["n_inputs"], 0)
        if not isinstance(state["columns"], list):
            raise InputError(f"columns must be a list, got {state['columns']!r:.60}")
        encoder.columns = tuple(map(QuantileColumn.from_dict, state["columns"]))
        places = [column.place for column in encoder.columns]
        if places != sorted(set(places)) or (places and places[-1] >= encoder.n_inputs):
            raise InputError(
                f"columns must be in order and among {encoder.n_inputs} inputs, got {places!r:.60}"
            )
        return encoder


def column_weights(
    x: ArrayLike, y: ArrayLike, kind: str, *, sample_weight: ArrayLike | None = None
) -> Floats:
    """Return a weight (d,) for each column of x (n, d) by how well it separates the classes.

    With Welch's t-statistic t of a column between two classes (of more classes: the largest |t| of
    one class against the rest), the weight is

    - "none": 1;
    - "mild": sqrt(t^2 / (t^2 + 4)), at least 0.1;
    - "strong": t^2 / (t^2 + 6), at least 0.03.

    A column that is constant gets the least weight. With sample weights w, means and variances are
    weighted and a class counts as (sum w)^2 / sum w^2 rows (Kish's effective size): only ratios of
    the weights matter. A class of one row, which has no variance, borrows that of the others.

    >>> x = np.array([[0.0, 5], [1, 4], [2, 5], [7, 4], [8, 5], [9, 4]])
    >>> column_weights(x, [0, 0, 0, 1, 1, 1], "strong").round(2)
    array([0.92, 0.08])
    """
    constant, power, floor = SCALINGS[require_choice("kind", kind, SCALINGS)]
    table, labels = _table(x), np.asarray(y)
    if labels.shape != table.shape[:1]:
        raise InputError(f"y must hold a label for each of {len(table)} rows, got {labels.shape}")
    weight = np.ones(len(table))
    if sample_weight is not None:
        weight = _sample_weight(sample_weight, len(table))
        counted = weight > TINY
        table, labels, weight = table[counted], labels[counted], weight[counted]
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y must hold two or more classes, got {classes.tolist()}")
    if kind == "none":
        return np.ones(table.shape[1])
    sizes, doubles = (np.bincount(codes, w).astype(np.float64) for w in (weight, weight**2))
    means, squares = _moments(table, codes, weight, sizes)
    best = np.zeros(table.shape[1])
    for label in range(len(classes) if len(classes) > 2 else 1):
        one = np.arange(len(classes)) == label
        groups = [_merged(g, sizes, doubles, means, squares) for g in (one, ~one)]
        best = np.maximum(best, _ratio(groups, constant))
    return np.maximum(best**power, floor)


def _moments(
    table: NDArray[Any], codes: Places, weight: Floats, sizes: Floats
) -> tuple[Floats, Floats]:
    """Return mean and weighted sum of squared distances from it, (C, d), of each class."""
    origin = _finite(table[:1], 0)  # so that a constant column is exactly 0

    def chunks() -> Iterator[tuple[Floats, Places, Floats]]:
        for start in range(0, len(table), CHUNK):
            chunk = _finite(table[start : start + CHUNK], start) - origin
            own = codes[start : start + CHUNK]
            membership = np.zeros((len(sizes), len(chunk)))
            membership[own, np.arange(len(chunk))] = weight[start : start + CHUNK]
            yield chunk, own, membership

    means, squares = np.zeros((2, len(sizes), table.shape[1]))
    for chunk, _, membership in chunks():
        means += membership @ chunk
    means /= sizes[:, None]
    for chunk, own, membership in chunks():
        squares += membership @ (chunk - means[own]) ** 2
    return means, squares


def _merged(
    group: NDArray[np.bool_], sizes: Floats, doubles: Floats, means: Floats, squares: Floats
) -> tuple[Floats, Floats, float]:
    """Return mean, variance (d,; NaN of one row) and effective size of classes taken as one."""
    size, part = sizes[group].sum(), sizes[group, None]
    mean = (part * means[group]).sum(axis=0) / size
    spread = (squares[group] + part * (means[group] - mean) ** 2).sum(axis=0) / size
    effective = float(size**2 / doubles[group].sum())
    variance = spread / (1 - 1 / effective) if effective > 1 else np.full_like(mean, np.nan)
    return mean, variance, effective


def _ratio(groups: list[tuple[Floats, Floats, float]], constant: float) -> Floats:
    """Return t^2 / (t^2 + constant) of two groups, each with mean, variance and effective size.

    Written as difference^2 / (difference^2 + constant error^2): an error of 0 divides nothing.
    """
    (mean, variance, size), (other_mean, other_variance, other_size) = groups
    variance, other_variance = (
        np.where(np.isnan(variance), other_variance, variance),
        np.where(np.isnan(other_variance), variance, other_variance),
    )
    error = np.nan_to_num(variance / size + other_variance / other_size)
    squared = (mean - other_mean) ** 2
    total = squared + constant * error
    ratio: Floats = np.divide(squared, total, out=np.zeros_like(total), where=total > 0)
    return ratio


def _sample_weight(sample_weight: ArrayLike, n: int) -> Floats:
    weight = np.asarray(sample_weight, np.float64)
    if weight.shape != (n,):
        raise InputError(f"sample_weight must have shape ({n},), got {weight.shape}")
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise InputError("sample_weight must be finite and >= 0 in every row, got one that is not")
    if not weight.any():
        raise InputError("sample_weight must be above 0 in some row, got 0 in all")
    relative: Floats = weight / weight.max()  # so that no square overflows
    return relative


def _table(x: ArrayLike, n_inputs: int | None = None) -> NDArray[Any]:
    """Return x as an array of numbers (n, d)."""
    try:
        table = np.asarray(x)
    except ValueError:  # rows of unequal lengths
        raise InputError("x must have shape (n, d), got rows of unequal lengths") from None
    if table.ndim != 2 or table.dtype.kind not in "biuf":
        raise InputError(
            f"x must be numbers of shape (n, d), got {table.dtype} of shape {table.shape}"
        )
    if n_inputs is not None and table.shape[1] != n_inputs:
        raise InputError(f"x must have the {n_inputs} columns of fit, got {table.shape[1]}")
    if n_inputs is None and 0 in table.shape:
        raise InputError(f"x must have rows and columns, got shape {table.shape}")
    return table


def _finite(part: NDArray[Any], row: int, column: int = 0) -> Floats:
    """Return a part of the table in float64; its first number stands in `row` and `column`."""
    finite = np.isfinite(part)
    if not finite.all():
        below, right = np.argwhere(~finite)[0]
        raise InputError(
            f"x must be finite, got {part[below, right]} in row {row + below}, "
            f"column {column + right}"
        )
    numbers = np.clip(part.astype(np.float64), -HUGE, HUGE)
    numbers[np.abs(numbers) < TINY] = 0  # also -0, so that equal numbers are stored alike
    return numbers
