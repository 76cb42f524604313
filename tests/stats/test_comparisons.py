"""Paired comparisons of two methods, against scipy, loops and all sign flips."""

from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, strategies as st
from model_frames import area_frame
from scipy import stats

from curvewise.stats.comparisons import MOST_EXACT, holm, paired, signed_rank_p

RNG = np.random.default_rng(0)
NUMPY = {"max": np.max, "mean": np.mean, "min": np.min, "std": lambda a: np.std(a, ddof=1)}


def models_of(pairs, *, tasks=None, **sizes):
    cells = [
        (tasks[k] if tasks else "a", 100.0, k, {"VS": first, "LCT": second})
        for k, (first, second) in enumerate(pairs)
    ]
    return area_frame(cells, **sizes)


def by_statistic(table):
    return {line.statistic: line for line in table.itertuples()}


PAIRS = [(RNG.uniform(0.7, 0.9, 6), RNG.uniform(0.72, 0.95, 5)) for _ in range(9)]


def test_lines_are_the_papers_four_statistics_and_exchanging_methods_exchanges_wins():
    table = paired(models_of(PAIRS), "VS", "LCT")
    assert table["statistic"].to_list() == ["max", "mean", "min", "std"]
    for line in table.itertuples():
        first, second = ([NUMPY[line.statistic](pair[k]) for pair in PAIRS] for k in (0, 1))
        assert (line.a, line.b, line.pairs) == ("VS", "LCT", 9)
        greater = sum(b > a for a, b in zip(first, second, strict=True))
        assert 0 < greater < 9
        better = 9 - greater if line.statistic == "std" else greater
        assert (line.wins, line.ties, line.losses) == (better, 0, 9 - better)
        assert line.difference == pytest.approx(np.mean(second) - np.mean(first), abs=1e-11)
        assert line.t_test_p == pytest.approx(stats.ttest_rel(second, first).pvalue, rel=1e-8)
        assert line.wilcoxon_p == pytest.approx(stats.wilcoxon(second, first).pvalue, rel=1e-8)
        assert line.reason == ""
    back = by_statistic(paired(models_of(PAIRS), "LCT", "VS"))
    for statistic, one in by_statistic(table).items():
        other = back[statistic]
        assert (one.wins, one.losses) == (other.losses, other.wins)
        assert one.difference == pytest.approx(-other.difference, abs=1e-15)
        assert (one.t_test_p, one.wilcoxon_p) == pytest.approx((other.t_test_p, other.wilcoxon_p))


def means_differing(steps, **sizes):
    """Compare means that differ by the given hundredths."""
    pairs = [([0.5], [0.5 + step / 100]) for step in steps]
    return by_statistic(paired(models_of(pairs, **sizes), "VS", "LCT"))["mean"]


@pytest.mark.parametrize(("n_train", "n_test"), [(900, 100), (707, 899)])
def test_corrected_p_widens_the_error_by_the_overlap(n_train, n_test):
    steps = [3, 1, -1, 4, 2]
    line = means_differing(steps, n_train=n_train, n_test=n_test)
    mean = sum(steps) / 5
    variance = sum((step - mean) ** 2 for step in steps) / 4
    t = mean / sqrt((1 / 5 + n_test / n_train) * variance)
    assert line.corrected_p == pytest.approx(2 * stats.t.sf(t, 4), rel=1e-9)
    assert line.corrected_p > line.t_test_p
    assert line.corrected_reason == ""
    nearly_nothing = means_differing(steps, n_train=10**9, n_test=1)
    assert nearly_nothing.corrected_p == pytest.approx(line.t_test_p, rel=1e-6)
    # Where sizes differ, the overlap is averaged.
    models = models_of([([0.5], [0.5 + k / 100]) for k in range(1, 5)], n_test=50)
    line = paired(models.assign(n_train=101 + models["seed"]), "VS", "LCT").iloc[1]
    ratio = sum(50 / (100 + k) for k in range(1, 5)) / 4
    t = 2.5 / sqrt((1 / 4 + ratio) * 5 / 3)
    assert line.corrected_p == pytest.approx(2 * stats.t.sf(t, 3), rel=1e-9)


def test_no_corrected_p_without_resamples_of_one_task():
    sized = models_of(PAIRS, tasks=[f"cifar10:{k}" for k in range(9)], n_train=900, n_test=100)
    line = paired(sized, "VS", "LCT").iloc[1]
    assert np.isnan(line.corrected_p)
    assert "only for resamples of one task at one beta, got 9" in line.corrected_reason
    assert line.reason == ""
    assert line.t_test_p < 1
    for sizes in ({}, {"n_train": 900}, {"n_test": 100}):
        line = paired(models_of(PAIRS, **sizes), "VS", "LCT").iloc[1]
        assert np.isnan(line.corrected_p)
        assert line.corrected_reason == "n_train or n_test of a cell is not known"


@pytest.mark.parametrize(
    ("steps", "reason", "wilcoxon"),
    [
        ([2], "at least 3 pairs are needed, got 1", None),
        ([2, 3], "at least 3 pairs are needed, got 2", None),
        ([0, 0, 0, 0], "all differences are 0", None),
        ([2, 2, 2, 2], "all differences are the same", 2 / 2**4),
    ],
)
def test_a_p_that_cannot_be_had_is_nan_with_a_reason(steps, reason, wilcoxon):
    line = means_differing(steps, n_train=9, n_test=1)
    assert np.isnan([line.t_test_p, line.corrected_p]).all()
    assert reason in line.reason
    assert line.corrected_reason == line.reason
    assert line.difference == pytest.approx(np.mean(steps) / 100)
    assert (line.wins, line.ties) == (np.sum(np.array(steps) > 0), steps.count(0))
    assert np.isnan(line.wilcoxon_p) if wilcoxon is None else line.wilcoxon_p == wilcoxon


def test_differences_that_are_rounding_errors_are_ties():
    cells = models_of([([0.1 + 0.2], [0.3]), ([0.5], [0.6]), ([0.7], [0.6]), ([0.5], [0.8])])
    line = paired(cells, "VS", "LCT").iloc[1]
    assert (line.wins, line.ties, line.losses) == (2, 1, 1)
    # 0.6 - 0.5 and 0.7 - 0.6 differ in the last bit, yet share their rank.
    expected = stats.wilcoxon(np.array([0.0, 0.125, -0.125, 0.375])).pvalue
    assert line.wilcoxon_p == pytest.approx(expected)


def by_all_flips(differences):
    """Go through all signs of the ranks of what differs."""
    moved = [d for d in differences if d]
    ranks = stats.rankdata(np.abs(moved))
    flips = [abs(np.dot(signs, ranks)) for signs in product((-1, 1), repeat=len(moved))]
    return np.mean([flip >= abs(np.sign(moved) @ ranks) - 1e-9 for flip in flips])


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


def test_ties_keep_p_exact_up_to_a_limit_above_which_it_is_scipys_approximation():
    values = np.arange(1.0, 46.0)
    untied = signed_rank_p(values)
    values[1] = values[0]
    assert signed_rank_p(values) == untied == pytest.approx(2.0**-44)
    assert stats.wilcoxon(values, method="approx").pvalue > 1e-9  # what an approximation makes
    values = np.random.default_rng(1).normal(0.1, size=MOST_EXACT + 1)
    assert signed_rank_p(values) == pytest.approx(stats.wilcoxon(values).pvalue)
    expected = stats.wilcoxon(values[:-1], method="exact").pvalue
    assert signed_rank_p(-values[:-1]) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=9))
def test_holm_is_a_plain_loop(p_values):
    """A hypothesis' p is the highest of count-times-p over those at most as large."""
    there = [p for p in p_values if p == p]
    for p, corrected in zip(p_values, holm(p_values), strict=True):
        if p != p:
            assert corrected != corrected
            continue
        below = [other for other in there if other <= p]
        highest = max(other * sum(one >= other for one in there) for other in below)
        assert corrected == pytest.approx(min(highest, 1.0))
        assert corrected >= p
