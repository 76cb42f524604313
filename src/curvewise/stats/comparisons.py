"""Two methods compared pair by pair: wins, the average difference, and tests of it."""

from collections.abc import Iterable, Sequence
from math import isnan, sqrt
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr
from scipy.stats import rankdata, wilcoxon

from curvewise.base.errors import InputError, require_choice
from curvewise.stats.areas import BETTER, CELL, DECIMALS, differences
from curvewise.stats.shared_classes import FEWEST, classes_of, dyadic_test

NAN = float("nan")
Doubles = NDArray[np.float64]
MOST_EXACT = 200  # differences up to which the sums of all sign flips are counted


def paired(models: pd.DataFrame, a: str, b: str, *, unit: str = "cell") -> pd.DataFrame:
    """Compare max, mean, min and std of AUC over the models of methods a and b, a row each.

    Parameters
    ----------
    models
        As in `stats.areas`; for `corrected_p` also with `n_train` and `n_test`. Cells that lack
        one of the methods are left out, for std also those with one model.
    unit
        What makes a pair: "cell", or "task", for which the cells of one task and beta are averaged
        first, because seeds of one task are no independent evidence beside other tasks.

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
    require_choice("unit", unit, ("cell", "task"))
    cells = differences(models, a, b)
    rows = []
    for statistic, sign in BETTER.items():
        known = cells.dropna(subset=[statistic])
        ratio, why = _test_to_train(models, known)
        steps = np.asarray(known[statistic], np.float64)
        if unit == "task":
            steps = np.asarray(_by_task(known, statistic), np.float64)
        rows.append({"statistic": statistic, "a": a, "b": b, **_compared(steps, sign, ratio, why)})
    return pd.DataFrame(rows)


def pair_tests(
    models: pd.DataFrame, a: str, b: str, statistics: Sequence[str] = tuple(BETTER)
) -> pd.DataFrame:
    """Compare method b with a over pairs of classes: one row for max, mean, min and std of AUC.

    Tasks must be named SOURCE:CLASS/CLASS; seeds of a task are averaged first. `difference` is the
    average of b - a, `low` and `high` its interval at 95 % and "p (shared classes)" its p by
    `dyadic_test`. "p (Holm)" corrects these for the rows given here; `with_holm` does for several
    frames together.

    >>> models = pd.DataFrame([
    ...     {"task": f"cifar10:{pair}", "beta": 9.0, "seed": 0, "method": name, "auc": area}
    ...     for k, pair in enumerate(("0/1", "0/2", "1/2", "2/3"))
    ...     for name, area in (("VS", 0.8), ("LCT", 0.81 + k / 100))])
    >>> row = pair_tests(models, "VS", "LCT", ["mean"]).iloc[0]
    >>> int(row["better"]), float(row["t-test p"].round(4))
    (4, 0.0305)
    """
    cells, rows = differences(models, a, b), []
    for statistic in statistics:
        steps = _by_task(cells.dropna(subset=[statistic]), statistic)
        plain = _compared(np.asarray(steps, np.float64), BETTER[statistic], NAN, "")
        pairs = [classes_of(task) for task in steps.index.get_level_values("task")]
        test = dyadic_test(steps.to_numpy(), pairs) if pairs else None
        rows.append(
            {
                "AUC": statistic,
                "method": b,
                "against": a,
                "pairs": plain["pairs"],
                "better": plain["wins"],
                "worse": plain["losses"],
                "difference": plain["difference"],
                "low": test.low if test else NAN,
                "high": test.high if test else NAN,
                "t-test p": plain["t_test_p"],
                "Wilcoxon p": plain["wilcoxon_p"],
                "p (shared classes)": test.p if test else NAN,
                "note": test.note if test else "no pair has both",
            }
        )
    return with_holm([pd.DataFrame(rows)])


def with_holm(tests: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of `pair_tests` below each other, with "p (Holm)" for all of them."""
    together = pd.concat(tests, ignore_index=True).drop(columns="p (Holm)", errors="ignore")
    corrected = holm(together["p (shared classes)"])
    together.insert(together.columns.get_loc("note"), "p (Holm)", corrected)  # type: ignore[arg-type]
    return together


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


def _by_task(cells: pd.DataFrame, statistic: str) -> "pd.Series[float]":
    """Return the differences with seeds averaged, by task and beta."""
    return cells.groupby(CELL[:2], sort=False, dropna=False)[statistic].mean().round(DECIMALS)


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
