"""Paired comparisons of two methods, against scipy, loops and all sign flips."""

from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from curvewise import InputError
from curvewise.stats.cells import CellAreas
from curvewise.stats.paired import BETTER, paired_differences

RNG = np.random.default_rng(0)
NUMPY = {
    "max": np.max,
    "mean": np.mean,
    "min": np.min,
    "std": lambda areas: np.std(areas, ddof=1),
}


def cells_of(pairs, *, tasks=None, **sizes):
    return [
        CellAreas(tasks[k] if tasks else "a", 100.0, k, {"VS": first, "LCT": second}, **sizes)
        for k, (first, second) in enumerate(pairs)
    ]


def by_statistic(table):
    return {line.statistic: line for line in table.lines}


PAIRS = [(RNG.uniform(0.7, 0.9, 6), RNG.uniform(0.72, 0.95, 5)) for _ in range(9)]


def test_lines_are_the_papers_four_statistics():
    table = paired_differences(cells_of(PAIRS), "VS", "LCT")
    assert [row["statistic"] for row in table.rows()] == ["max", "mean", "min", "std"]
    for line in table.lines:
        reduce = NUMPY[line.statistic]
        first, second = ([reduce(pair[k]) for pair in PAIRS] for k in (0, 1))
        assert (line.a, line.b, line.pairs) == ("VS", "LCT", 9)
        greater = sum(b > a for a, b in zip(first, second, strict=True))
        assert 0 < greater < 9
        better = 9 - greater if line.statistic == "std" else greater
        assert (line.wins, line.ties, line.losses) == (better, 0, 9 - better)
        assert line.difference == pytest.approx(np.mean(second) - np.mean(first), abs=1e-11)
        assert line.t_test_p == pytest.approx(stats.ttest_rel(second, first).pvalue, rel=1e-8)
        assert line.wilcoxon_p == pytest.approx(stats.wilcoxon(second, first).pvalue, rel=1e-8)
        assert line.reason == ""


def test_exchanging_the_methods_exchanges_wins_and_losses():
    there = by_statistic(paired_differences(cells_of(PAIRS), "VS", "LCT"))
    back = by_statistic(paired_differences(cells_of(PAIRS), "LCT", "VS"))
    for statistic in BETTER:
        one, other = there[statistic], back[statistic]
        assert (one.wins, one.losses) == (other.losses, other.wins)
        assert one.difference == pytest.approx(-other.difference, abs=1e-15)
        assert one.t_test_p == pytest.approx(other.t_test_p)
        assert one.wilcoxon_p == pytest.approx(other.wilcoxon_p)


@given(st.lists(st.integers(-8, 8).filter(bool), min_size=3, max_size=8, unique_by=abs))
@settings(deadline=None, max_examples=40)
def test_wilcoxon_is_the_count_of_sign_flips(steps):
    line = means_differing(steps)
    ranks = stats.rankdata(np.abs(steps))
    observed = abs(np.dot(np.sign(steps), ranks))
    flips = [abs(np.dot(signs, ranks)) for signs in product((-1, 1), repeat=len(steps))]
    assert line.wilcoxon_p == pytest.approx(np.mean([flip >= observed for flip in flips]))


def means_differing(steps, **sizes):
    """Compare means that differ by the given hundredths."""
    pairs = [([0.5], [0.5 + step / 100]) for step in steps]
    return by_statistic(paired_differences(cells_of(pairs, **sizes), "VS", "LCT"))["mean"]


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


def test_the_overlap_is_averaged_when_sizes_differ():
    cells = [
        CellAreas("a", None, k, {"VS": [0.5], "LCT": [0.5 + k / 100]}, n_train=100 + k, n_test=50)
        for k in range(1, 5)
    ]
    line = paired_differences(cells, "VS", "LCT").lines[1]
    ratio = sum(50 / (100 + k) for k in range(1, 5)) / 4
    t = 2.5 / sqrt((1 / 4 + ratio) * 5 / 3)
    assert line.corrected_p == pytest.approx(2 * stats.t.sf(t, 3), rel=1e-9)


def test_no_corrected_p_without_resamples_of_one_task():
    tasks = [f"cifar10:{k}" for k in range(9)]
    sized = cells_of(PAIRS, tasks=tasks, n_train=900, n_test=100)
    line = paired_differences(sized, "VS", "LCT").lines[1]
    assert np.isnan(line.corrected_p)
    assert "only for resamples of one task at one beta, got 9" in line.corrected_reason
    assert line.reason == ""
    assert line.t_test_p < 1
    for sizes in ({}, {"n_train": 900}, {"n_test": 100}):
        line = paired_differences(cells_of(PAIRS, **sizes), "VS", "LCT").lines[1]
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
    assert np.isnan(line.t_test_p)
    assert np.isnan(line.corrected_p)
    assert reason in line.reason
    assert line.corrected_reason == line.reason
    assert line.difference == pytest.approx(np.mean(steps) / 100)
    assert (line.wins, line.ties) == (np.sum(np.array(steps) > 0), steps.count(0))
    assert np.isnan(line.wilcoxon_p) if wilcoxon is None else line.wilcoxon_p == wilcoxon


def test_differences_that_are_rounding_errors_are_ties():
    cells = cells_of([([0.1 + 0.2], [0.3]), ([0.5], [0.6]), ([0.7], [0.6]), ([0.5], [0.8])])
    line = paired_differences(cells, "VS", "LCT").lines[1]
    assert (line.wins, line.ties, line.losses) == (2, 1, 1)
    # 0.6 - 0.5 and 0.7 - 0.6 differ in the last bit, yet share their rank.
    expected = stats.wilcoxon(np.array([0.0, 0.125, -0.125, 0.375])).pvalue
    assert line.wilcoxon_p == pytest.approx(expected)


def test_seeds_of_a_task_can_be_averaged_first():
    pairs = [
        ([0.5, 0.7], [0.5 + step / 100, 0.7 + step / 50]) for step in (1, 3, -1, -3, 2, 8, 4, 5)
    ]
    cells = cells_of(pairs, tasks=["a", "a", "b", "b", "c", "c", "d", "d"], n_train=9, n_test=1)
    line = by_statistic(paired_differences(cells, "VS", "LCT", unit="task"))["mean"]
    steps = np.array([2, -2, 5, 4.5]) * 1.5 / 100
    assert (line.pairs, line.wins, line.losses) == (4, 3, 1)
    assert line.difference == pytest.approx(steps.mean())
    assert line.t_test_p == pytest.approx(stats.ttest_1samp(steps, 0).pvalue)
    assert by_statistic(paired_differences(cells, "VS", "LCT"))["mean"].pairs == 8


def test_cells_without_one_of_the_methods_are_left_out():
    cells = [
        *cells_of(PAIRS),
        CellAreas("a", 100.0, 20, {"VS": [0.9, 0.8]}),
        CellAreas("a", 100.0, 21, {"LCT": [0.9, 0.8], "CE": [0.1]}),
        CellAreas("a", 100.0, 22, {"VS": [0.9], "LCT": [0.7, 0.6]}),
    ]
    lines = by_statistic(paired_differences(cells, "VS", "LCT"))
    assert {statistic: line.pairs for statistic, line in lines.items()} == {
        "max": 10, "mean": 10, "min": 10, "std": 9,
    }  # fmt: skip
    assert lines["std"] == by_statistic(paired_differences(cells_of(PAIRS), "VS", "LCT"))["std"]
    nothing = paired_differences(cells[9:11], "VS", "LCT").lines[0]
    assert (nothing.pairs, nothing.wins) == (0, 0)
    assert np.isnan(nothing.difference)


def test_unknown_labels_and_units_are_refused():
    with pytest.raises(InputError, match="label must be one of 'VS', 'LCT', got 'LTC'; did you"):
        paired_differences(cells_of(PAIRS), "VS", "LTC")
    with pytest.raises(InputError, match="unit must be one of 'cell', 'task', got 'tasks'"):
        paired_differences(cells_of(PAIRS), "VS", "LCT", unit="tasks")
    with pytest.raises(InputError, match="at least one cell"):
        paired_differences([], "VS", "LCT")
