"""Comparing methods over blocks (Demsar 2006, JMLR 7): ranks, Friedman, Nemenyi, Wilcoxon.

Values are tables (blocks, methods) in which higher is better; a block is a base set. With 8
blocks, the smallest two-sided p of a signed-rank test is 2 / 2^8 = .0078, so that among more than
6 comparisons Holm's correction leaves nothing below .05, whatever the methods do.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from curvewise.base.errors import InputError
from curvewise.stats.comparisons import holm, signed_rank_p

Floats = NDArray[np.float64]

DIGITS = 9  # means of the same numbers differ by their order of addition


def block_ranks(values: Floats) -> Floats:
    """Return the rank of each method in each block (blocks, methods): 1 is best, ties share.

    >>> block_ranks(np.array([[0.9, 0.8, 0.8]]))
    array([[1. , 2.5, 2.5]])
    """
    return stats.rankdata(-np.round(values, DIGITS), axis=1)


@dataclass(frozen=True)
class Friedman:
    """Whether any method differs: the chi-square test, and Iman and Davenport's F (1980)."""

    chi_square: float
    p: float
    f: float
    f_p: float


def friedman(values: Floats) -> Friedman:
    """Test that all methods have the same ranks; the F version errs less with few blocks."""
    blocks, methods = values.shape
    if blocks < 2 or methods < 3:
        raise InputError(
            f"the Friedman test needs 2 blocks and 3 methods or more, got {blocks} and {methods}"
        )
    ranks = block_ranks(values)
    if (ranks == ranks[0, 0]).all():  # all tied, where the formula is 0 / 0
        return Friedman(0.0, 1.0, 0.0, 1.0)
    test = stats.friedmanchisquare(*ranks.T)
    statistic = float(test.statistic)
    rest = max(blocks * (methods - 1) - statistic, 0.0)
    f = np.inf if rest < 1e-9 else (blocks - 1) * statistic / rest
    f_p = stats.f.sf(f, methods - 1, (methods - 1) * (blocks - 1))
    return Friedman(statistic, float(test.pvalue), float(f), float(f_p))


def critical_difference(methods: int, blocks: int, alpha: float = 0.05) -> float:
    """Nemenyi: mean ranks further apart than this differ, all pairs considered.

    q / sqrt(2) * sqrt(k (k + 1) / (6 N)), q of the studentized range of k means.

    >>> round(critical_difference(4, 14, alpha=0.1), 3)
    1.118
    """
    q = float(stats.studentized_range.ppf(1 - alpha, methods, np.inf)) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * blocks)))


def alike(mean_ranks: Floats, difference: float) -> list[tuple[int, int]]:
    """Return the largest runs of methods, in the order of their ranks, that are not told apart.

    A run is its first and last place in that order; runs of one method are left out.

    >>> alike(np.array([1.0, 1.5, 2.5, 4.0]), 1.0)
    [(0, 1), (1, 2)]
    """
    ordered = np.sort(mean_ranks)
    runs: list[tuple[int, int]] = []
    for first, rank in enumerate(ordered):
        last = int(np.searchsorted(ordered, rank + difference + 1e-12, side="right")) - 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


@dataclass(frozen=True)
class Pair:
    """Ours against one other method over blocks."""

    other: str
    wins: int
    ties: int
    losses: int
    difference: float
    p: float
    holm_p: float


def pairs(values: Floats, methods: list[str], ours: str) -> list[Pair]:
    """Compare ours with each other method, with p-values corrected for their number."""
    mine = values[:, methods.index(ours)]
    others = [name for name in methods if name != ours]
    gaps = [np.round(mine - values[:, methods.index(name)], DIGITS) for name in others]
    p_values = [signed_rank_p(gap) for gap in gaps]
    return [
        Pair(
            other=name,
            wins=int((gap > 0).sum()),
            ties=int((gap == 0).sum()),
            losses=int((gap < 0).sum()),
            difference=float(gap.mean()),
            p=p,
            holm_p=corrected,
        )
        for name, gap, p, corrected in zip(others, gaps, p_values, holm(p_values), strict=True)
    ]
