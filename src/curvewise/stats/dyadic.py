"""Tests over pairs of classes, which are not independent: pairs that share a class are alike."""

from collections.abc import Iterable, Mapping, Sequence
from math import isnan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from curvewise.base.errors import InputError
from curvewise.stats.cells import Measured, Place, placed, require_labels
from curvewise.stats.paired import BETTER, DECIMALS, FEWEST, NAN, paired_differences
from curvewise.stats.summary import cell_statistics

Doubles = NDArray[np.float64]
Pair = Sequence[Any]  # two classes
PLAIN = "plain variance: that of shared classes is smaller"


class DyadicTest(NamedTuple):
    """A mean difference over pairs, its standard error, degrees of freedom and two-sided p.

    `note` says what could not be had; a p that cannot be had is nan.
    """

    mean: float
    error: float
    degrees: int
    p: float
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
    if n < FEWEST:
        return DyadicTest(mean, NAN, degrees, NAN, f"at least {FEWEST} pairs are needed, got {n}")
    if np.ptp(values) == 0:
        return DyadicTest(mean, NAN, degrees, NAN, "all differences are the same")
    variance, plain = dyadic_variance(values, pairs), float(values.var()) / n
    share = float(shared.sum()) / n**2
    lowest = 0.0
    if small_sample:
        lowest = plain = plain * n / (n - 1)
        variance = variance / (1 - share) if share < 1 else 0.0
    # Rounding errors must not pass for a variance, nor for one below the lowest.
    taken = variance > max(lowest * (1 - 1e-9), 1e-9 * plain)
    error, note = (sqrt(variance), "") if taken else (sqrt(plain), PLAIN)
    return DyadicTest(mean, error, degrees, 2 * float(stdtr(degrees, -abs(mean) / error)), note)


def dyadic_p(differences: ArrayLike, pairs: Sequence[Pair], *, small_sample: bool = True) -> float:
    """Return the two-sided p of `dyadic_test`."""
    return dyadic_test(differences, pairs, small_sample=small_sample).p


def holm(p_values: Iterable[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's steps (1979); nan stays and is not one.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    given = [float(p) for p in p_values]
    for p in given:
        if not (isnan(p) or 0 <= p <= 1):
            raise InputError(f"p-values must be in [0, 1], got {p:g}")
    order = sorted((k for k, p in enumerate(given) if not isnan(p)), key=lambda k: given[k])
    corrected, highest = list(given), 0.0
    for done, k in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - done) * given[k]))
        corrected[k] = highest
    return corrected


def pair_tests(
    cells: Iterable[Measured], a: str, b: str, statistics: Sequence[str] = tuple(BETTER)
) -> list[dict[str, Any]]:
    """Compare b with a over pairs of classes: one row for max, mean, min and std of AUC.

    Tasks must be named SOURCE:CLASS/CLASS; seeds of a task are averaged first. A row has "AUC"
    (the statistic), "method" (b), "against" (a), "pairs", "better", "worse", "difference" (the
    average of b - a), "t-test p", "Wilcoxon p", "p (shared classes)", "p (Holm)" and "note". Holm's
    correction of the p before it is for these rows; `holm_rows` makes it for several lists.

    >>> from curvewise.stats.cells import CellAreas
    >>> tasks = ["cifar10:0/1", "cifar10:0/2", "cifar10:1/2", "cifar10:2/3"]
    >>> cells = [
    ...     CellAreas(task, 100.0, 0, {"VS": [0.8], "LCT": [0.81 + 0.01 * number]})
    ...     for number, task in enumerate(tasks)
    ... ]
    >>> row = pair_tests(cells, "VS", "LCT", ["mean"])[0]
    >>> row["better"], round(row["t-test p"], 4), round(row["p (shared classes)"], 4)
    (4, 0.0305, 0.1942)
    """
    known = list(placed(cells).values())
    rows = []
    for line in paired_differences(known, a, b, unit="task").lines:
        if line.statistic in statistics:
            differences = task_differences(known, a, b, line.statistic)
            pairs = [classes_of(task) for task, _ in differences]
            own = list(differences.values())
            test = dyadic_test(own, pairs) if own else None
            rows.append(
                {
                    "AUC": line.statistic,
                    "method": b,
                    "against": a,
                    "pairs": line.pairs,
                    "better": line.wins,
                    "worse": line.losses,
                    "difference": line.difference,
                    "t-test p": line.t_test_p,
                    "Wilcoxon p": line.wilcoxon_p,
                    "p (shared classes)": test.p if test else NAN,
                    "p (Holm)": NAN,
                    "note": test.note if test else "no pair has both",
                }
            )
    return holm_rows(rows)


def holm_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of `pair_tests` with "p (Holm)" for all of them together."""
    corrected = holm(row["p (shared classes)"] for row in rows)
    return [{**row, "p (Holm)": p} for row, p in zip(rows, corrected, strict=True)]


def task_differences(
    cells: Iterable[Measured], a: str, b: str, statistic: str = "mean"
) -> dict[tuple[str, float | None], float]:
    """Return a statistic of b less that of a by task and beta, seeds averaged.

    Cells that lack one of the labels are left out.
    """
    known = placed(cells)
    require_labels(known.values(), a, b)
    found: dict[str, dict[Place, float]] = {a: {}, b: {}}
    for line in cell_statistics(known.values()).lines:
        if line.label in found:
            place = Place(line.task, line.beta, line.seed)
            found[line.label][place] = getattr(line, statistic)
    groups: dict[tuple[str, float | None], list[float]] = {}
    for place, value in found[a].items():
        difference = found[b].get(place, NAN) - value
        if not isnan(difference):
            groups.setdefault(place[:2], []).append(difference)
    return {key: round(float(np.mean(own)), DECIMALS) for key, own in groups.items()}


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
