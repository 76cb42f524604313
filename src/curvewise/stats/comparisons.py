"""Two methods compared pair by pair: wins, the average difference, and tests of it.

Pairs of classes are not independent: those that share a class are alike, which `dyadic_test` allows
for.
"""

from collections.abc import Iterable, Sequence
from math import isnan, sqrt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit
from scipy.stats import rankdata, wilcoxon

from curvewise.base.errors import require
from curvewise.stats.areas import BETTER, CELL, differences

NAN = float("nan")
Doubles = NDArray[np.float64]
FEWEST = 3  # differences below which a test says nothing
MOST_EXACT = 200  # differences up to which the sums of all sign flips are counted


def paired(models: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """Compare max, mean, min and std of AUC over the models of methods a and b, a row each.

    Cells make the pairs; those that lack one of the methods are left out, for std also those with
    one model. For `corrected_p` models need `n_train` and `n_test`.

    `wins` are the pairs where b is better (higher; for std lower), `losses` those where a is;
    `difference` is the average of b - a. The tests are two-sided: Student's t on the pairs'
    differences, Wilcoxon's signed ranks (whose p cannot be below 2^(1 - pairs)), and where all
    pairs are resamples of one task, Nadeau and Bengio's corrected t (2003, Machine Learning 52),
    whose variance is that of the differences times ``1 / pairs + n_test / n_train``: resamples
    overlap, and the plain t is too sure. A p that cannot be had is nan, and `reason` (t-test and
    Wilcoxon) or `corrected_reason` says why.

    >>> models = pd.DataFrame([
    ...     {"task": "a", "beta": 9.0, "seed": seed, "method": name, "auc": area,
    ...      "n_train": 90, "n_test": 10}
    ...     for seed in range(4) for name, area in (("VS", 0.8), ("LCT", 0.81 + seed / 100))])
    >>> mean = paired(models, "VS", "LCT").set_index("statistic").loc["mean"]
    >>> int(mean.wins), f"{mean.t_test_p:.4f}", f"{mean.corrected_p:.4f}"
    (4, '0.0305', '0.0485')
    """
    cells = differences(models, a, b)
    rows = []
    for statistic, sign in BETTER.items():
        known = cells.dropna(subset=[statistic])
        ratio, why = _test_to_train(models, known)
        steps = known[statistic].to_numpy(np.float64)
        rows.append({"statistic": statistic, "a": a, "b": b, **_compared(steps, sign, ratio, why)})
    return pd.DataFrame(rows)


def holm(p_values: Iterable[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's steps (1979); nan stays and is not one.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    given = [float(p) for p in p_values]
    order = sorted((k for k, p in enumerate(given) if not isnan(p)), key=lambda k: given[k])
    corrected, highest = list(given), 0.0
    for done, k in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - done) * given[k]))
        corrected[k] = highest
    return corrected


def signed_rank_p(steps: Doubles) -> float:
    """Return the two-sided p of Wilcoxon's signed ranks of differences, shape (n,).

    p is the share of the ``2^n`` sign flips whose sum of ranks is at least as far from its middle
    as the one observed, ties sharing their mean rank. Differences are finite, and rounded where an
    error in the last bit would break a tie; those of 0 are left out, and if all are 0, p is 1.
    Above 200 differences it is the normal approximation, which is far too careful in the tails:
    of 45 differences that all have one sign it makes 5e-09, and the flips make 6e-14.

    >>> signed_rank_p(np.array([0.1, 0.1, 0.2, 0.3]))
    0.125
    """
    moved = steps[steps != 0]
    if len(moved) == 0:
        return 1.0
    if len(moved) > MOST_EXACT:
        return float(wilcoxon(moved).pvalue)
    doubled = np.rint(2 * rankdata(np.abs(moved))).astype(int)  # mean ranks are halves
    # share[s] is the share of sign flips in which the doubled ranks of one sign add up to s.
    share = np.ones(1)
    for rank in doubled:
        longer = np.zeros(len(share) + rank)
        longer[: len(share)] = share / 2
        longer[rank:] += share / 2
        share = longer
    total = int(doubled.sum())
    lower = min(int(doubled[moved > 0].sum()), int(doubled[moved < 0].sum()))
    return 1.0 if 2 * lower == total else 2 * float(share[: lower + 1].sum())


def _test_to_train(models: pd.DataFrame, cells: pd.DataFrame) -> tuple[float, str]:
    """Return n_test / n_train of resamples of one task, or nan and why there is none."""
    tasks = len(cells[["task", "beta"]].drop_duplicates())
    if tasks > 1:
        return NAN, f"only for resamples of one task at one beta, got {tasks}"
    cell_rows = cells[CELL].merge(models.drop_duplicates(CELL), on=CELL)
    sizes = cell_rows.reindex(columns=["n_train", "n_test"]).astype(float)
    if sizes.isna().to_numpy().any():
        return NAN, "n_train or n_test of a cell is not known"
    return float((sizes["n_test"] / sizes["n_train"]).mean()), ""


def _compared(steps: Doubles, sign: int, ratio: float, why: str) -> dict[str, Any]:
    """Return wins, tests and reasons of differences (n,); `why` there is no corrected test."""
    n, reason = len(steps), ""
    if n < FEWEST:
        reason = f"at least {FEWEST} pairs are needed, got {n}"
    elif not steps.any():
        reason = "all differences are 0"
    elif np.ptp(steps) == 0:
        reason = "all differences are the same, so t has no variance"
    return {
        "pairs": n,
        "wins": int((sign * steps > 0).sum()),
        "ties": int((steps == 0).sum()),
        "losses": int((sign * steps < 0).sum()),
        "difference": float(steps.mean()) if n else NAN,
        "t_test_p": NAN if reason else _t_test(steps, 1 / n),
        "wilcoxon_p": NAN if n < FEWEST or not steps.any() else signed_rank_p(steps),
        "corrected_p": NAN if reason or why else _t_test(steps, 1 / n + ratio),
        "reason": reason,
        "corrected_reason": reason or why,
    }


def _t_test(steps: Doubles, share: float) -> float:
    """Return the two-sided p of a mean whose variance is `share` times that of the values."""
    error = float(steps.std(ddof=1)) * sqrt(share)
    return 2 * float(stdtr(len(steps) - 1, -abs(float(steps.mean())) / error))


class DyadicTest(NamedTuple):
    """Two-sided p of a mean difference over pairs, and its interval at 95 %; nan without a test."""

    p: float
    low: float
    high: float


def dyadic_test(
    differences: Sequence[float] | Doubles, pairs: Sequence[Sequence[Any]]
) -> DyadicTest:
    """Test the mean of differences (n,) over pairs of classes against 0.

    Its variance is ``sum e_p e_q / n^2 / (1 - s)`` over all couples (p, q) of pairs that share a
    class, p = q included, e being a difference less the mean (Aronow, Samii and Assenova 2015,
    Political Analysis 23) and s the share of such couples among all; it is no less than the plain
    variance of a mean. Residuals add up to 0, which makes the sum too small by just that factor if
    the differences are independent, and also if they are sums of class effects over all pairs of
    the classes (s is 0.38 for ten: without the factor a test at 5 % rejects 11 %). A sum that
    happens to be near 0 would pass for certainty. Few pairs of many classes remain too sure (8 to
    10 % for eleven of twelve). t has one degree of freedom less than there are classes (or pairs,
    if those are fewer).

    >>> pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
    >>> round(dyadic_test([0.01, 0.02, 0.03, 0.03, 0.04, 0.05], pairs).p, 4)
    0.1027
    """
    values, n = np.asarray(differences, np.float64), len(pairs)
    if n < FEWEST or np.ptp(values) == 0:
        return DyadicTest(NAN, NAN, NAN)
    shared = np.array([[not set(one).isdisjoint(other) for other in pairs] for one in pairs], float)
    mean, share = float(values.mean()), shared.sum() / n**2
    summed = (values - mean) @ shared @ (values - mean) / n**2
    plain = values.var(ddof=1) / n
    error = sqrt(max(summed / (1 - share), plain) if share < 1 else plain)
    degrees = min(n, len({one for pair in pairs for one in pair})) - 1
    half = error * float(stdtrit(degrees, 0.975))
    return DyadicTest(2 * float(stdtr(degrees, -abs(mean) / error)), mean - half, mean + half)


def classes_of(task: str) -> tuple[str, str]:
    """Return the two classes of a task, with the source they are of.

    >>> classes_of("cifar10:cat/dog")
    ('cifar10:cat', 'cifar10:dog')
    """
    source, _, pair = task.partition(":")
    first, _, second = pair.partition("/")
    two = first and second and first != second
    require(two, f"a task must be a pair SOURCE:CLASS/CLASS, got {task!r}")
    return f"{source}:{first}", f"{source}:{second}"
