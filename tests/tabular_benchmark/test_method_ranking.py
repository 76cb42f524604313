"""Statistics over blocks, against plain loops, scipy and published numbers."""

import itertools

import numpy as np
import pytest
from benchmarks.tabular.diagram import draw, labels
from benchmarks.tabular.ranking import alike, block_ranks, critical_difference, friedman, pairs
from hypothesis import given, strategies as st
from scipy import stats

from curvewise.base.errors import InputError

# Demsar (2006), table 6: AUC of four variants of C4.5 on 14 data sets.
CASES = """
0.763 0.768 0.771 0.798  0.599 0.591 0.590 0.569  0.954 0.971 0.968 0.967  0.628 0.661 0.654 0.657
0.882 0.888 0.886 0.898  0.936 0.931 0.916 0.931  0.661 0.668 0.609 0.685  0.583 0.583 0.563 0.625
0.775 0.838 0.866 0.875  1.000 1.000 1.000 1.000  0.940 0.962 0.965 0.962  0.619 0.666 0.614 0.669
0.972 0.981 0.9751 0.975  0.957 0.978 0.946 0.970
"""
DEMSAR = np.array(CASES.split(), dtype=float).reshape(14, 4)


def test_ranks_and_friedman_of_the_published_example():
    assert block_ranks(DEMSAR).mean(axis=0) == pytest.approx([3.143, 2.0, 2.893, 1.964], abs=6e-4)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, alpha=0.1) == pytest.approx(1.12, abs=0.005)
    for methods, q in ((2, 1.960), (5, 2.728), (10, 3.164)):  # Nemenyi's critical values
        factor = np.sqrt(methods * (methods + 1) / (6 * 9))
        assert critical_difference(methods, 9) / factor == pytest.approx(q, abs=6e-4)
    # Ties share ranks, also of sums in another order.
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    ranks = block_ranks(np.array([[0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1, 0.0]]))
    assert ranks.tolist() == [[1.5, 1.5, 3.0]]
    test = friedman(DEMSAR)
    expected = stats.friedmanchisquare(*DEMSAR.T)
    assert (test.chi_square, test.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_friedman_by_its_formula_without_ties_and_at_its_ends():
    values = np.random.default_rng(0).normal(size=(8, 5))
    test = friedman(values)
    ranks = [[sum(row > value) + 1 for value in row] for row in values]
    total = sum(np.mean(ranks, axis=0) ** 2)
    chi_square = 12 * 8 / (5 * 6) * (total - 5 * 6**2 / 4)
    f = 7 * chi_square / (8 * 4 - chi_square)
    assert (test.chi_square, test.p) == pytest.approx((chi_square, stats.chi2.sf(chi_square, 4)))
    assert (test.f, test.f_p) == pytest.approx((f, stats.f.sf(f, 4, 28)))
    same_order = friedman(np.array([[3.0, 2.0, 1.0]] * 6))
    assert (same_order.f, same_order.f_p) == (np.inf, 0.0)
    assert friedman(np.ones((4, 3))).p == 1.0
    with pytest.raises(InputError, match="got 5 and 2"):
        friedman(np.ones((5, 2)))


def test_pairs_count_and_correct():
    ours = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    values = np.column_stack([ours - 0.1, ours, ours - np.array([-0.1, 0.2, -0.3, 0.0, 1e-12])])
    worse, mixed = pairs(values, ["worse", "ours", "mixed"], "ours")
    assert (worse.other, worse.wins, worse.ties, worse.losses) == ("worse", 5, 0, 0)
    assert (worse.difference, worse.p, worse.holm_p) == pytest.approx((0.1, 2 / 2**5, 2 * 2 / 2**5))
    assert (mixed.wins, mixed.ties, mixed.losses) == (1, 2, 2)
    assert mixed.holm_p == mixed.p == 0.75  # of the 8 sign flips of ranks 1, 2, 3, two add up to 0


@given(st.lists(st.floats(1, 12), min_size=1, max_size=12), st.floats(0.1, 12))
def test_groups_hold_just_the_pairs_that_are_not_told_apart(ranks, difference):
    ordered = sorted(ranks)
    runs = alike(np.array(ranks), difference)
    for i, j in itertools.combinations(range(len(ranks)), 2):
        together = any(first <= i and j <= last for first, last in runs)
        if abs(ordered[j] - ordered[i] - difference) > 1e-9:
            assert together == (ordered[j] - ordered[i] < difference)
    for one, other in itertools.permutations(runs, 2):
        assert not (one[0] <= other[0] and other[1] <= one[1])


def test_labels_stand_in_order_down_the_left_and_up_the_right(tmp_path):
    methods, ranks = ["d", "a", "c", "b", "e"], np.array([4.0, 1.0, 3.0, 2.0, 5.0])
    placed = labels(methods, ranks)
    assert [(one.method, one.left, one.line) for one in placed] == [
        *(("a", True, 0), ("b", True, 1), ("c", True, 2), ("d", False, 1), ("e", False, 0))
    ]
    draw(methods, ranks, 1.5, tmp_path / "new" / "diagram.png", ours="a", title="ranks")
    assert (tmp_path / "new" / "diagram.png").stat().st_size > 5000
