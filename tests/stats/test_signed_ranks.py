"""Wilcoxon's signed ranks, against all sign flips and scipy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from curvewise.stats.signed_ranks import MOST_EXACT, signed_rank_p


def by_all_flips(differences):
    """Go through all signs of the ranks of what differs."""
    given_ranks = stats.rankdata([abs(d) for d in differences if d != 0])
    seen = sum(
        rank for rank, d in zip(given_ranks, [d for d in differences if d], strict=True) if d > 0
    )
    middle = sum(given_ranks) / 2
    as_far = count = 0
    for signs in product([0, 1], repeat=len(given_ranks)):
        total = sum(rank for rank, sign in zip(given_ranks, signs, strict=True) if sign)
        as_far += abs(total - middle) >= abs(seen - middle) - 1e-9
        count += 1
    return as_far / count


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_p_is_the_share_of_flips_with_ties_and_zeros(differences):
    expected = by_all_flips(differences) if any(differences) else 1.0
    assert signed_rank_p(np.array(differences) / 8) == pytest.approx(expected)


@pytest.mark.parametrize("n", [3, 9, 20, 45, 50, 120])
def test_without_ties_p_is_scipys_exact_one(n):
    for seed, shift in enumerate([0.0, 0.3, 2.0]):
        values = np.random.default_rng(seed).normal(shift, size=n)
        expected = stats.wilcoxon(values, method="exact").pvalue
        assert signed_rank_p(values) == pytest.approx(expected, rel=1e-9)


def test_ties_among_45_pairs_do_not_make_p_larger_by_orders():
    values = np.arange(1.0, 46.0)
    untied = signed_rank_p(values)
    values[1] = values[0]
    assert signed_rank_p(values) == untied == pytest.approx(2.0**-44)
    assert stats.wilcoxon(values, method="approx").pvalue > 1e-9  # what an approximation makes


def test_with_many_ties_p_is_near_that_of_drawn_flips():
    rng = np.random.default_rng(4)
    values = rng.integers(-3, 5, 60).astype(float)
    kept = values[values != 0]
    ranks = stats.rankdata(np.abs(kept))
    sums = rng.choice([-1, 1], (200_000, len(kept))) @ ranks
    drawn = np.mean(np.abs(sums) >= abs(np.sign(kept) @ ranks) - 1e-9)
    error = np.sqrt(drawn * (1 - drawn) / 200_000)
    assert signed_rank_p(values) == pytest.approx(drawn, abs=4 * error)


def test_above_the_limit_p_is_scipys_approximation():
    values = np.random.default_rng(1).normal(0.1, size=MOST_EXACT + 1)
    assert signed_rank_p(values) == pytest.approx(stats.wilcoxon(values).pvalue)
    assert signed_rank_p(-values[:-1]) == pytest.approx(
        stats.wilcoxon(values[:-1], method="exact").pvalue
    )


def test_one_difference_and_none():
    assert signed_rank_p(np.array([0.5])) == 1.0
    assert signed_rank_p(np.zeros(4)) == 1.0
