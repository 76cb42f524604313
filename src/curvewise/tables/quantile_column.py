"""One column of numbers by its quantiles: stored ranks, bins, and the data that rebuild them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from curvewise.base.errors import InputError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

HUGE = 1e100  # numbers beyond count as this, so that no difference or square overflows
TINY = 1e-100  # numbers below count as 0, so that no slope between two of them overflows
STORED = 1000  # quantiles that a column keeps at most
LIMIT = 3.0  # normal values end here
FLOOR = 0.2  # the least deviation of a part in [0, 1], which bounds what comes out by 1 / 0.2 = 5


def mid_ranks(counts: Counts) -> Floats:
    """Return the empirical cdf at distinct sorted values that occur `counts` times.

    Tied rows share their middle: (rows below + half of the rows here) / n, in (0, 1).

    >>> mid_ranks(np.array([1, 2, 1]))
    array([0.125, 0.5  , 0.875])
    """
    ranks: Floats = (np.cumsum(counts) - counts / 2) / counts.sum()
    return ranks


def stored_quantiles(values: Floats, counts: Counts) -> tuple[Floats, Floats]:
    """Return at most 1,000 of the distinct sorted values, and their mid-ranks.

    All of them if they are so few, else those whose ranks are nearest to evenly spaced ones; the
    first and the last are among them. Where a value is left out, the ranks stored on its two sides
    are at most 2 / 999 apart, so a line between them misses no rank by more.
    """
    ranks = mid_ranks(counts)
    if len(values) > STORED:
        wanted = np.linspace(ranks[0], ranks[-1], STORED)
        kept = np.unique(np.searchsorted((ranks[1:] + ranks[:-1]) / 2, wanted))
        values, ranks = values[kept], ranks[kept]
    return values, ranks


def bin_edges(values: Floats, counts: Counts, n_bins: int) -> Floats:
    """Return the edges of at most `n_bins` bins with about equally many rows.

    Edge t of T is the smallest value with at least a share t / T of the rows at or below it (the
    first edge: the smallest value). Edges that coincide, as they do on tied rows, are one.

    >>> bin_edges(np.array([0.0, 1.0, 5.0]), np.array([4, 2, 2]), 4)
    array([0., 1., 5.])
    """
    if n_bins == 0:
        return np.empty(0)
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
        cls, place: int, values: Floats, counts: Counts, edges: Floats
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

    def to_dict(self) -> dict[str, Any]:
        """Return the plan, ready for JSON."""
        state = asdict(self)
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "QuantileColumn":
        """Return the plan whose `to_dict` is `state`, or raise `InputError`."""
        names = ("values", "ranks", "edges", "means", "deviations")
        if not isinstance(state, Mapping) or set(state) != {"place", *names}:
            _refuse(f"a column of {state!r:.60}")
        lists = {name: _numbers(name, state[name]) for name in names}
        column = cls(whole_number("place", state["place"], 0), **lists)
        for name, low, high in (
            ("values", -HUGE, HUGE),
            ("ranks", 0, 1),
            ("edges", -HUGE, HUGE),
            ("means", 0, 1),
            ("deviations", FLOOR, 1),
        ):
            numbers = lists[name]
            if not ((numbers >= low) & (numbers <= high)).all():  # nor is NaN
                _refuse(f"{name} outside [{low:g}, {high:g}]")
            if high == HUGE and ((numbers != 0) & (np.abs(numbers) < TINY)).any():
                _refuse(f"{name} nearer to 0 than {TINY:g}")
            if name in ("values", "ranks", "edges") and not (np.diff(numbers) > 0).all():
                _refuse(f"{name} that do not increase")
        n_stored, n_bins = len(column.values), max(len(column.edges) - 1, 0)
        if not (len(column.ranks) == n_stored != 1 and len(column.edges) != 1):
            _refuse(f"{n_stored} values, {len(column.ranks)} ranks and {len(column.edges)} edges")
        if not len(column.means) == len(column.deviations) == n_bins:
            _refuse(f"{len(column.means)} means and {len(column.deviations)} deviations")
        if n_stored == 0 and n_bins != 1:
            _refuse(f"no values and {n_bins} bins")
        return column


def whole_number(name: str, value: object, low: int) -> int:
    """Return `value` if it is a whole number, `low` or more, else raise `InputError`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InputError(f"{name} must be a whole number >= {low}, got {value!r:.60}")
    return int(value)


def _numbers(name: str, data: object) -> Floats:
    if not isinstance(data, list) or any(type(number) not in (int, float) for number in data):
        _refuse(f"{name} of {data!r:.60}")
    try:
        return np.array(data, np.float64)
    except OverflowError:  # a whole number without end
        _refuse(f"{name} outside the range of numbers")


def _refuse(what: str) -> NoReturn:
    raise InputError(f"an encoder must come from to_dict, got one with {what}")
