"""Tests over pairs of classes, which are not independent: pairs that share a class are alike."""

from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from curvewise.base.errors import InputError

Doubles = NDArray[np.float64]
Pair = Sequence[Any]  # two classes
NAN = float("nan")
FEWEST = 3  # differences below which a test says nothing
LEVEL = 0.95
PLAIN = "plain variance: that of shared classes is smaller"


class DyadicTest(NamedTuple):
    """A mean difference over pairs, its standard error, degrees of freedom and two-sided p.

    `low` and `high` are its interval at 95 %. `note` says what could not be had; that is nan.
    """

    mean: float
    error: float
    degrees: int
    p: float
    low: float
    high: float
    note: str


def dyadic_variance(differences: ArrayLike, pairs: Sequence[Pair]) -> float:
    """Return the variance of the mean of n differences (n,) over pairs of classes.

    That is ``sum e_p e_q / n^2`` over all couples (p, q) of pairs that share a class, p = q
    included, e being a difference less the mean (Aronow, Samii and Assenova 2015, Political
    Analysis 23). It may be negative.

    >>> dyadic_variance([1.0, 2.0, 6.0], [(0, 1), (2, 3), (4, 5)]) == (4 + 1 + 9) / 9
    True
    """
    values, shared = _read(differences, pairs)
    residuals = values - values.mean()
    return float(residuals @ shared @ residuals) / len(values) ** 2


def dyadic_test(
    differences: ArrayLike, pairs: Sequence[Pair], *, small_sample: bool = True
) -> DyadicTest:
    """Test the mean of differences (n,) over pairs of classes against 0.

    Parameters
    ----------
    pairs
        The two classes of each difference; a pair may be there more than once.
    small_sample
        Divide `dyadic_variance` by ``1 - s``, s being the share of all couples of pairs that share
        a class, and let it be no less than the plain variance of a mean. Residuals add up to 0,
        which makes the sum too small by just that factor if the differences are independent, and
        also if they are sums of class effects over all pairs of the classes (s is 0.38 for ten:
        without the factor a test at 5 % rejects 11 %). A sum that happens to be near 0 would pass
        for certainty. Few pairs of many classes remain too sure (8 to 10 % for eleven of twelve).
        Without `small_sample` the plain variance stands in only for a sum that is not positive.

    t has one degree of freedom less than there are classes (or pairs, if those are fewer). Where
    the plain variance was taken, `note` says so.

    >>> pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
    >>> test = dyadic_test([0.01, 0.02, 0.03, 0.03, 0.04, 0.05], pairs)
    >>> round(test.mean, 6), test.degrees, round(test.p, 4)
    (0.03, 3, 0.1027)
    """
    values, shared = _read(differences, pairs)
    n, mean = len(values), float(values.mean())
    degrees = min(n, len({one for pair in pairs for one in pair})) - 1
    if n < FEWEST or np.ptp(values) == 0:
        few = f"at least {FEWEST} pairs are needed, got {n}"
        note = few if n < FEWEST else "all differences are the same"
        return DyadicTest(mean, NAN, degrees, NAN, NAN, NAN, note)
    variance, plain = dyadic_variance(values, pairs), float(values.var()) / n
    share = float(shared.sum()) / n**2
    lowest = 0.0
    if small_sample:
        lowest = plain = plain * n / (n - 1)
        variance = variance / (1 - share) if share < 1 else 0.0
    # Rounding errors must not pass for a variance, nor for one below the lowest.
    taken = variance > max(lowest * (1 - 1e-9), 1e-9 * plain)
    error, note = (sqrt(variance), "") if taken else (sqrt(plain), PLAIN)
    p, half = 2 * float(stdtr(degrees, -abs(mean) / error)), error * _quantile(degrees)
    return DyadicTest(mean, error, degrees, p, mean - half, mean + half, note)


def _quantile(degrees: int) -> float:
    return float(stdtrit(degrees, (1 + LEVEL) / 2))


def classes_of(task: str) -> tuple[str, str]:
    """Return the two classes of a task, with the source they are of.

    >>> classes_of("cifar10:cat/dog")
    ('cifar10:cat', 'cifar10:dog')
    """
    source, _, pair = task.partition(":")
    first, slash, second = pair.partition("/")
    if not (first and slash and second) or first == second:
        raise InputError(f"a task must be a pair SOURCE:CLASS/CLASS, got {task!r}")
    return f"{source}:{first}", f"{source}:{second}"


def _read(differences: ArrayLike, pairs: Sequence[Pair]) -> tuple[Doubles, Doubles]:
    """Return the differences (n,) and a matrix (n, n): 1 where two pairs share a class."""
    values = np.asarray(differences, np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise InputError(f"differences must be a list of finite numbers, got {differences!r}")
    if len(pairs) != len(values):
        raise InputError(f"pairs must be as many as differences, {len(values)}, got {len(pairs)}")
    for pair in pairs:
        if len(pair) != 2 or pair[0] == pair[1]:
            raise InputError(f"a pair must be two different classes, got {pair!r}")
    numbers: dict[Any, int] = {}
    codes = np.array([[numbers.setdefault(one, len(numbers)) for one in pair] for pair in pairs])
    shared = (codes[:, None, :, None] == codes[None, :, None, :]).any(axis=(2, 3))
    return values, shared.astype(np.float64)
