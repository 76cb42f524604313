"""Intervals for the area, against a published example, loops over pairs and exact coverage."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom, ks_2samp, norm
from scored_cases import scored

from curvewise import auc, auc_interval, bootstrap_auc, compare_auc
from curvewise.roc.interval import chernoff_interval

# Albumin, total protein, K-G score and outcome of the 43 complete cases of DeLong, DeLong and
# Clarke-Pearson 1988 (Biometrics 44, 837-845). Higher values of the first two and lower ones of
# the third go with outcome 1.
CASES = """
3.0 5.8 10 0  3.2 6.3 5 1  3.9 6.8 3 1  2.8 4.8 6 0  3.2 5.8 3 1  0.9 4.0 5 0  2.5 5.7 8 0
1.6 5.6 5 1  3.8 5.7 5 1  3.7 6.7 6 1  3.2 5.4 4 1  3.8 6.6 6 1  4.1 6.6 5 1  3.6 5.7 5 1
4.3 7.0 4 1  3.6 6.7 4 0  2.3 4.4 6 1  4.2 7.6 4 0  4.0 6.6 6 0  3.5 5.8 6 1  3.8 6.8 7 1
3.0 4.7 8 0  4.5 7.4 5 1  3.7 7.4 5 1  3.1 6.6 6 1  4.1 8.2 6 1  4.3 7.0 5 1  4.3 6.5 4 1
3.2 5.1 5 1  2.6 4.7 6 1  3.3 6.8 6 0  1.7 4.0 7 0  3.7 6.1 5 1  3.3 6.3 7 1  4.2 7.7 6 1
3.5 6.2 5 1  2.9 5.7 9 0  2.1 4.8 7 1  2.8 6.2 8 0  4.0 7.0 7 1  3.3 5.7 6 1  3.7 6.9 5 1
3.6 6.6 5 1
"""
ALBUMIN, PROTEIN, KG_SCORE, OUTCOME = np.array(CASES.split(), dtype=float).reshape(43, 4).T
TESTS = {"albumin": ALBUMIN, "protein": PROTEIN, "k-g": 10 - KG_SCORE}


def test_delong_intervals_and_comparisons_are_the_published_ones():
    for name, *published in (
        ("albumin", 0.7366, 0.0927, 0.5549, 0.9182),
        ("k-g", 0.7258, 0.1028, 0.5243, 0.9273),
        ("protein", 0.6478, 0.1000, 0.4518, 0.8439),
    ):
        found = auc_interval(OUTCOME, TESTS[name])
        assert found.method == "delong"
        printed = [round(x, 4) for x in (found.auc, found.standard_error, found.low, found.high)]
        assert printed == published
    for name, *published, error in (
        ("albumin", 0.0108, -0.1761, 0.1976, 0.9102, 0.0953),
        ("protein", -0.0780, -0.2830, 0.1271, 0.4561, 0.1046),
    ):
        found = compare_auc(OUTCOME, TESTS[name], TESTS["k-g"])
        assert found.method == "delong"
        printed = [round(x, 4) for x in (found.difference, found.low, found.high, found.p)]
        assert printed == published
        assert round(found.difference / found.z, 4) == error


def loop_delong(y, *scores):
    """Areas and covariance matrix from DeLong's definition, one pair at a time."""
    positives = [i for i, label in enumerate(y) if label == 1]
    negatives = [j for j, label in enumerate(y) if label == 0]
    areas, of_positives, of_negatives = [], [], []
    for score in scores:
        won = [
            [(score[i] > score[j]) + 0.5 * (score[i] == score[j]) for j in negatives]
            for i in positives
        ]
        of_positives.append([sum(row) / len(negatives) for row in won])
        of_negatives.append([sum(column) / len(positives) for column in zip(*won, strict=True)])
        areas.append(sum(of_positives[-1]) / len(positives))

    def covariance(r, s):
        total = 0.0
        for placements in (of_positives, of_negatives):
            couples = zip(placements[r], placements[s], strict=True)
            products = [(a - areas[r]) * (b - areas[s]) for a, b in couples]
            total += sum(products) / (len(products) - 1) / len(products)
        return total

    return areas, [[covariance(r, s) for s in range(len(scores))] for r in range(len(scores))]


def two_scores(n_positive, n_negative, decimals):
    rng = np.random.default_rng(n_positive)
    y = rng.permutation([1] * n_positive + [0] * n_negative)
    shared = rng.normal(size=len(y)) + y
    noise = rng.normal(size=(2, len(y)))
    return y, np.round(shared + noise[0], decimals), np.round(shared + 2 * noise[1], decimals)


every_size = pytest.mark.parametrize(
    ("n_positive", "n_negative", "decimals"),
    [(15, 40, 9), (15, 40, 0), (30, 12, 0), (2, 30, 9), (30, 2, 9), (3, 3, 0)],
)


@every_size
def test_delong_agrees_with_the_loop(n_positive, n_negative, decimals):
    y, first, second = two_scores(n_positive, n_negative, decimals)
    areas, covariance = loop_delong(y, first, second)
    found = auc_interval(y, first, level=0.9)
    error, quantile = covariance[0][0] ** 0.5, norm.ppf(0.95)
    assert found.auc == pytest.approx(areas[0], abs=1e-14)
    assert found.standard_error == pytest.approx(error, rel=1e-12)
    assert found.low == pytest.approx(max(areas[0] - quantile * error, 0))
    assert found.high == pytest.approx(min(areas[0] + quantile * error, 1))

    both = compare_auc(y, first, second, level=0.9)
    error = (covariance[0][0] + covariance[1][1] - 2 * covariance[0][1]) ** 0.5
    assert (both.auc_a, both.auc_b) == pytest.approx(tuple(areas))
    assert both.z == pytest.approx((areas[0] - areas[1]) / error, rel=1e-9, abs=1e-12)
    assert both.p == pytest.approx(2 * (1 - norm.cdf(abs(both.z))))
    assert both.high - both.low == pytest.approx(2 * quantile * error)


def test_same_ranks_do_not_differ_and_turning_round_changes_the_sign():
    y, first, second = two_scores(8, 20, 1)
    same = compare_auc(y, first, 3 * first - 1)
    assert (same.difference, same.z, same.p, same.low, same.high) == (0, 0, 1, 0, 0)
    there, back = compare_auc(y, first, second), compare_auc(y, second, first)
    assert (back.difference, back.z) == pytest.approx((-there.difference, -there.z))
    assert (back.low, back.p) == pytest.approx((-there.high, there.p))


@pytest.mark.parametrize(
    ("y", "a", "b"),
    [
        ([1, 0, 0, 0], [2.5, 1, 2, 3], [0, 1, 2, 3]),
        ([0, 0, 1, 1], [1, 2, 3, 4], [3, 4, 1, 2]),
        ([0, 0, 1, 1], [1, 2, 3, 4], [1, 2, 9, 7]),
        ([0] * 9 + [1] * 9, range(18), [-score for score in range(18)]),  # p < 1, an end inside
        # Every placement differs by exactly 1/3, which rounding must not take for a variance.
        ([0, 1, 0, 1, 0, 1], [0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]),
    ],
    ids=["one positive", "perfect against wrong", "both perfect", "many", "one step apart"],
)
def test_comparison_without_variance_is_bounded_by_hoeffding(y, a, b):
    found = compare_auc(y, a, b)
    pairs = min(sum(y), len(y) - sum(y))
    assert found.method == "hoeffding"
    assert np.isnan(found.z)
    assert found.p == pytest.approx(min(1, 2 * np.exp(-pairs * found.difference**2 / 2)))
    reach = (2 * np.log(40) / pairs) ** 0.5
    assert found.low == pytest.approx(max(found.difference - reach, -1))
    assert found.high == pytest.approx(min(found.difference + reach, 1))


@pytest.mark.parametrize("method", ["delong", "bootstrap"])
@pytest.mark.parametrize(
    ("y", "score"),
    [
        ([1, *[0] * 50], [24.5, *range(50)]),
        ([0, *[1] * 50], [24.5, *range(50)]),
        ([0, 0, 0, 1, 1], [1, 2, 3, 4, 5]),
        ([0, 0, 0, 1, 1], [5, 4, 3, 2, 1]),
        ([0, 0, 0, 1, 1], [7, 7, 7, 7, 7]),
    ],
    ids=["one positive", "one negative", "area 1", "area 0", "all tied"],
)
def test_interval_without_variance_is_chernoffs(y, score, method):
    found = auc_interval(y, score, method=method)
    assert found.method == "chernoff"
    assert np.isnan(found.standard_error)
    assert (found.low, found.high) == chernoff_interval(auc(y, score), min(sum(y), len(y) - sum(y)))
    assert 0 <= found.low < found.high <= 1


@pytest.mark.parametrize("pairs", [1, 2, 5, 20, 1000])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_chernoff_has_a_closed_form_at_its_ends_and_covers_at_least_its_level(pairs, level):
    low = ((1 - level) / 2) ** (1 / pairs)
    assert chernoff_interval(1.0, pairs, level) == pytest.approx((low, 1.0))
    assert chernoff_interval(0.0, pairs, level) == pytest.approx((0.0, 1 - low))
    # With pairs that share no sample, the area is a binomial share, so coverage is a finite sum.
    if pairs <= 20:
        intervals = [chernoff_interval(won / pairs, pairs, level) for won in range(pairs + 1)]
        for true in np.linspace(0.01, 0.99, 99):
            covered = [low <= true <= high for low, high in intervals]
            assert binom.pmf(range(pairs + 1), pairs, true) @ covered >= level


@every_size
def test_bootstrap_is_that_of_a_plain_loop(n_positive, n_negative, decimals):
    y, score, _ = two_scores(n_positive, n_negative, decimals)
    rng = np.random.default_rng(1)
    high, low = score[y == 1], score[y == 0]
    expected = []
    for _ in range(3000):
        gaps = np.subtract.outer(rng.choice(high, len(high)), rng.choice(low, len(low)))
        expected.append(np.mean((gaps > 0) + 0.5 * (gaps == 0)))
    found = bootstrap_auc(y, score, n_replicates=3000)
    # Tolerances are about five standard errors of 3,000 draws.
    assert found.mean() == pytest.approx(auc(y, score), abs=0.1 * np.std(expected))
    assert found.std() == pytest.approx(np.std(expected), rel=0.1)
    # All quantiles at once. Areas are few and far between: equal ones must not differ by rounding.
    assert ks_2samp(np.round(found, 9), np.round(expected, 9)).pvalue > 1e-3


def test_bootstrap_interval_holds_the_quantiles_of_its_replicates():
    y, score, _ = two_scores(12, 30, 1)
    found = auc_interval(y, score, 0.9, "bootstrap", n_replicates=300, seed=5)
    areas = bootstrap_auc(y, score, n_replicates=300, seed=5)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(areas, [0.05, 0.95])))
    assert (found.method, found.standard_error) == ("bootstrap", pytest.approx(areas.std()))
    assert found.auc == auc(y, score)


@pytest.mark.parametrize("n_replicates", [1, 31, 32, 33, 64, 65, 200])
def test_bootstrap_gives_as_many_areas_as_asked_and_repeats_by_seed(n_replicates):
    y, score, _ = two_scores(5, 9, 1)
    areas, again, other = (
        bootstrap_auc(y, score, n_replicates=n_replicates, seed=seed) for seed in (3, 3, 4)
    )
    assert areas.shape == (n_replicates,)
    assert ((areas >= 0) & (areas <= 1)).all()
    np.testing.assert_array_equal(areas, again)
    assert (areas != other).any()


@given(scored, st.floats(0.01, 0.999))
def test_interval_holds_the_area_inside_the_unit_interval(samples, level):
    y, score = samples
    found = auc_interval(y, score, level)
    assert 0 <= found.low <= found.auc <= found.high <= 1
    assert found.method in ("delong", "chernoff")
    replicates = auc_interval(y, score, level, "bootstrap", n_replicates=20)
    assert 0 <= replicates.low <= replicates.high <= 1
