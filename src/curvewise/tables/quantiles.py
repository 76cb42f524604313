"""Numbers by their quantiles: `QuantileEncoder`, and weights that favour columns that separate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from curvewise.base.errors import InputError, require
from curvewise.tables.columns import HUGE, Codes, Features, Floats

TINY = 1e-100  # numbers below count as 0, so that no slope between two of them overflows
STORED = 1000  # quantiles that a column keeps at most
LIMIT = 3.0  # normal values end here
FLOOR = 0.2  # the least deviation of a part in [0, 1], which bounds what comes out by 1 / 0.2 = 5
SAMPLE = 100_000  # rows that quantiles are taken from at most
CHUNK = 4096  # rows at a time: what they need meanwhile stays in the cache
VERSION = 1
# For each kind: the constant beside t^2, the power, and the least weight.
SCALINGS = {"none": (0.0, 0.0, 1.0), "mild": (4.0, 0.5, 0.1), "strong": (6.0, 1.0, 0.03)}


def stored_quantiles(values: Floats, counts: Codes) -> tuple[Floats, Floats]:
    """Return at most 1,000 of the distinct sorted values, and their ranks in (0, 1).

    A value that occurs `counts` times has the middle of its rows: (rows below + half of the rows
    here) / n. All values are kept if they are so few, else those whose ranks are nearest to evenly
    spaced ones, the first and the last among them: the ranks on the two sides of one left out are
    at most 2 / 999 apart, so a line between them misses no rank by more.

    >>> stored_quantiles(np.array([3.0, 5.0, 9.0]), np.array([1, 2, 1]))[1]
    array([0.125, 0.5  , 0.875])
    """
    ranks = (np.cumsum(counts) - counts / 2) / counts.sum()
    if len(values) > STORED:
        wanted = np.linspace(ranks[0], ranks[-1], STORED)
        kept = np.unique(np.searchsorted((ranks[1:] + ranks[:-1]) / 2, wanted))
        values, ranks = values[kept], ranks[kept]
    return values, ranks


def bin_edges(values: Floats, counts: Codes, n_bins: int) -> Floats:
    """Return the edges of at most `n_bins` bins with about equally many rows.

    Edge t of T is the smallest value with at least a share t / T of the rows at or below it (the
    first edge: the smallest value). Edges that coincide, as they do on tied rows, are one.

    >>> bin_edges(np.array([0.0, 1.0, 5.0]), np.array([4, 2, 2]), 4)
    array([0., 1., 5.])
    """
    below = np.cumsum(counts)
    # Whole numbers: a share t / T in floating point may miss a count by rounding.
    wanted = -(-np.arange(n_bins + 1) * below[-1] // n_bins)
    edges: Floats = values[np.unique(np.searchsorted(below, wanted))]
    return edges


def inside_bins(x: Floats, lows: Floats, highs: Floats, out: Floats | None = None) -> Floats:
    """Return how far x is through each bin: 0 below it, 1 above it, linear inside.

    `x` (n, k) holds, or broadcasts to, one column for each of the k bins; `out` may be x itself.

    >>> inside_bins(np.array([[1.5]]), np.array([0.0, 1.0, 3.0]), np.array([1.0, 3.0, 4.0]))
    array([[1.  , 0.25, 0.  ]])
    """
    parts: Floats = np.maximum(x, lows, out=out)
    np.minimum(parts, highs, out=parts)
    parts -= lows
    parts /= highs - lows
    return parts


@dataclass(frozen=True, eq=False)
class QuantileColumn:
    """How one column that varies is encoded: see `QuantileEncoder`.

    `values` and `ranks` (m,) are the stored quantiles, m = 0 for a column of two values; `edges`
    (k + 1,) are those of k bins, none for k = 0; `means` and `deviations` (k,) standardise them.
    """

    place: int
    values: Floats
    ranks: Floats
    edges: Floats
    means: Floats
    deviations: Floats

    @classmethod
    def of_two_values(cls, place: int, low: float, high: float, share: float) -> "QuantileColumn":
        """Return the plan of a column that is `high` in a share of the rows, else `low`."""
        deviation = max(FLOOR, float(np.sqrt(share * (1 - share))))
        none, edges = np.empty(0), np.array([low, high])
        return cls(place, none, none, edges, np.array([share]), np.array([deviation]))

    @classmethod
    def of_many_values(
        cls, place: int, values: Floats, counts: Codes, edges: Floats
    ) -> "QuantileColumn":
        """Return the plan of a column with these distinct values, and bins with these edges."""
        parts = inside_bins(values[:, None], edges[:-1], edges[1:])
        shares = (counts / counts.sum())[:, None]
        means = (shares * parts).sum(axis=0)
        deviations = np.sqrt((shares * (parts - means) ** 2).sum(axis=0))
        stored = stored_quantiles(values, counts)
        return cls(place, *stored, edges, means, np.maximum(deviations, FLOOR))

    def normal(self, x: Floats) -> Floats:
        """Return x (n,) through the cdf, linear between stored ranks, and the normal's inverse."""
        order = np.argsort(x)  # sorted numbers are found so much faster that it pays
        ranks = np.interp(x[order], self.values, self.ranks)
        normal = np.empty(len(x))
        normal[order] = np.clip(ndtri(ranks), -LIMIT, LIMIT)
        return normal


@dataclass(eq=False)
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

    n_bins: int = 8
    max_columns: int = 400
    n_inputs: int = 0
    columns: tuple[QuantileColumn, ...] = ()

    @property
    def sources(self) -> NDArray[np.intp]:
        """For each of the k features the input column that it comes from."""
        normal = [column.place for column in self.columns if len(column.values)]
        bins = [column.place for column in self.columns for _ in column.means]
        return np.array(normal + bins, np.intp)

    def fit(self, x: NDArray[Any]) -> "QuantileEncoder":
        """Learn from the rows of x (n, d), of which a column varies; returns the encoder itself."""
        n, self.n_inputs = x.shape
        rows = None
        if n > SAMPLE:
            rows = np.random.default_rng(0).choice(n, SAMPLE, replace=False, shuffle=False)
        plans: dict[int, QuantileColumn] = {}
        many: dict[int, tuple[Floats, Codes]] = {}
        for place in range(self.n_inputs):
            values = _cleaned(x[:, place])
            low, high = values.min(), values.max()
            is_high = values == high
            if is_high.all():
                continue
            if (is_high | (values == low)).all():
                plans[place] = QuantileColumn.of_two_values(place, low, high, is_high.mean())
            else:
                if rows is not None:
                    values = np.append(values[rows], [low, high])
                many[place] = np.unique(values, return_counts=True)
        edges = self._edges(many, self.max_columns - len(plans) - len(many))
        for place, (values, counts) in many.items():
            plans[place] = QuantileColumn.of_many_values(place, values, counts, edges[place])
        self.columns = tuple(plans[place] for place in sorted(plans))
        return self

    def _edges(self, many: dict[int, tuple[Floats, Codes]], room: int) -> dict[int, Floats]:
        """Return the bin edges of each column with as many bins as there is room for."""
        for n_bins in range(self.n_bins, 0, -1):
            edges = {place: bin_edges(*column, n_bins) for place, column in many.items()}
            if sum(len(column) - 1 for column in edges.values()) <= room:
                return edges
        return {place: np.empty(0) for place in many}

    def transform(self, x: NDArray[Any]) -> Features:
        """Return the features (n, k) of x (n, d); needs little memory beside them."""
        normal = [column for column in self.columns if len(column.values)]
        sources = self.sources
        places = sources[len(normal) :]
        bins = [(c.edges[:-1], c.edges[1:], c.means, c.deviations) for c in self.columns]
        lows, highs, means, deviations = map(np.concatenate, zip(*bins, strict=True))
        features = np.empty((len(x), len(sources)), np.float32)
        for start in range(0, len(x), CHUNK):
            chunk = _cleaned(x[start : start + CHUNK])
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
        columns = [
            {name: np.asarray(value).tolist() for name, value in vars(column).items()}
            for column in self.columns
        ]
        return {"version": VERSION, **vars(self), "columns": columns}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "QuantileEncoder":
        """Return the encoder whose `to_dict` is `state`."""
        version = state.get("version")
        require(version == VERSION, f"an encoder must be of version {VERSION}, got {version!r}")
        try:
            columns = []
            for plan in state["columns"]:
                lists = {name: np.array(plan[name], np.float64) for name in plan if name != "place"}
                columns.append(QuantileColumn(plan["place"], **lists))
            sizes = {name: state[name] for name in ("n_bins", "max_columns", "n_inputs")}
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"an encoder must come from to_dict, got one with {error}") from None
        return cls(columns=tuple(columns), **sizes)


def column_weights(
    x: Features, y: NDArray[Any], kind: str, *, sample_weight: Floats | None = None
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
    >>> column_weights(x, np.array([0, 0, 0, 1, 1, 1]), "strong").round(2)
    array([0.92, 0.08])
    """
    constant, power, floor = SCALINGS[kind]
    weight = np.ones(len(x))
    if sample_weight is not None:
        weight = sample_weight / sample_weight.max()  # so that no square overflows
        counted = weight > TINY
        x, y, weight = x[counted], y[counted], weight[counted]
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y must hold two or more classes, got {classes.tolist()}")
    if kind == "none":
        return np.ones(x.shape[1])
    moments = _moments(x, codes, weight)
    best = np.zeros(x.shape[1])
    for label in range(len(classes) if len(classes) > 2 else 1):
        one = np.arange(len(classes)) == label
        best = np.maximum(best, _separation(one, moments, constant))
    return np.maximum(best**power, floor)


def _moments(x: Features, codes: Codes, weight: Floats) -> tuple[Floats, ...]:
    """Return each class's sums of w and w^2, (C,), its means and its sums of squares, (C, d)."""
    sizes, doubles = (np.bincount(codes, w).astype(np.float64) for w in (weight, weight**2))
    chunks = []
    for start in range(0, len(x), CHUNK):
        rows = slice(start, start + CHUNK)
        membership = (np.arange(len(sizes))[:, None] == codes[rows]) * weight[rows]
        # From the first row, so that a constant column is exactly 0.
        chunks.append((_cleaned(x[rows]) - _cleaned(x[:1]), codes[rows], membership))
    sums = sum(membership @ chunk for chunk, _, membership in chunks)
    means = np.asarray(sums / sizes[:, None])
    squares = sum(membership @ (chunk - means[of]) ** 2 for chunk, of, membership in chunks)
    return sizes, doubles, means, np.asarray(squares)


def _separation(one: NDArray[np.bool_], moments: tuple[Floats, ...], constant: float) -> Floats:
    """Return t^2 / (t^2 + constant) between some classes taken as one and the others.

    Written as difference^2 / (difference^2 + constant error^2): an error of 0 divides nothing.
    """
    sizes, doubles, means, squares = moments
    rows = [0.0, 0.0]
    mean, variance = np.empty((2, 2, means.shape[1]))
    for k, group in enumerate((one, ~one)):
        size, part = sizes[group].sum(), sizes[group, None]
        mean[k] = (part * means[group]).sum(axis=0) / size
        spread = (squares[group] + part * (means[group] - mean[k]) ** 2).sum(axis=0) / size
        rows[k] = float(size**2 / doubles[group].sum())
        variance[k] = spread / (1 - 1 / rows[k]) if rows[k] > 1 else np.nan
    variance = np.where(np.isnan(variance), variance[::-1], variance)  # one row has none
    error = np.nan_to_num(variance[0] / rows[0] + variance[1] / rows[1])
    squared = (mean[0] - mean[1]) ** 2
    total = squared + constant * error
    ratio: Floats = np.divide(squared, total, out=np.zeros_like(total), where=total > 0)
    return ratio


def _cleaned(part: NDArray[Any]) -> Floats:
    """Return finite numbers in float64, none of them huge or tiny, equal ones stored alike."""
    numbers = np.clip(part.astype(np.float64), -HUGE, HUGE)
    numbers[np.abs(numbers) < TINY] = 0  # also -0
    return numbers
