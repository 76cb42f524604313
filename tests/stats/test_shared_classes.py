"""Tests over pairs that share classes, against plain loops, scipy and simulation."""

from itertools import combinations
from math import nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from model_frames import area_frame
from scipy import stats

from curvewise import InputError
from curvewise.stats.areas import by_cell
from curvewise.stats.comparisons import holm, pair_tests, paired, with_holm
from curvewise.stats.shared_classes import PLAIN, classes_of, dyadic_test, dyadic_variance

ALL_PAIRS = list(combinations(range(10), 2))


def loops(differences, pairs):
    """Sum over classes i, j, k, l: the products of residuals of pairs (i, j), (k, l) that meet."""
    n, mean = len(differences), sum(differences) / len(differences)
    residual = {pair: value - mean for pair, value in zip(pairs, differences, strict=True)}
    classes = sorted({one for pair in pairs for one in pair})
    total = couples = 0.0
    for i in classes:
        for j in classes:
            for k in classes:
                for l in classes:  # noqa: E741
                    there = (i, j) in residual and (k, l) in residual
                    if there and (i in (k, l) or j in (k, l)):
                        total += residual[i, j] * residual[k, l]
                        couples += 1
    return total / n**2, couples / n**2


@given(st.integers(4, 7), st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_the_variance_is_that_of_a_quadruple_loop(classes, seed):
    rng = np.random.default_rng(seed)
    pairs = list(combinations(range(classes), 2))
    pairs = [pairs[k] for k in rng.permutation(len(pairs))[: rng.integers(3, len(pairs) + 1)]]
    differences = rng.normal(0.2, 1, len(pairs)).tolist()
    variance, share = loops(differences, pairs)
    assert dyadic_variance(differences, pairs) == pytest.approx(variance, abs=1e-12)
    degrees = min(len(pairs), len({one for pair in pairs for one in pair})) - 1
    mean, deviation = abs(np.mean(differences)), np.std(differences)
    formula = dyadic_test(differences, pairs, small_sample=False)
    if abs(variance) > 1e-9:
        error = sqrt(variance) if variance > 0 else deviation / sqrt(len(pairs))
        assert formula.p == pytest.approx(2 * stats.t.sf(mean / error, degrees))
        assert formula.note == ("" if variance > 0 else PLAIN)
    corrected = dyadic_test(differences, pairs)
    wide = variance / (1 - share) if share < 1 else 0.0
    error = max(sqrt(max(wide, 0)), stats.sem(differences))
    assert corrected.p == pytest.approx(2 * stats.t.sf(mean / error, degrees))
    assert corrected.note == (PLAIN if error == stats.sem(differences) else "")


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=12).filter(lambda d: np.ptp(d) > 1e-3))
@settings(deadline=None)
def test_pairs_that_share_nothing_are_independent(differences):
    pairs = [(2 * k, 2 * k + 1) for k in range(len(differences))]
    residuals = np.array(differences) - np.mean(differences)
    n = len(differences)
    assert dyadic_variance(differences, pairs) == pytest.approx((residuals**2).sum() / n**2)
    assert dyadic_test(differences, pairs).p == pytest.approx(
        stats.ttest_1samp(differences, 0).pvalue
    )


def test_pure_class_effects_are_tested_as_so_many_classes():
    effects = np.random.default_rng(0).normal(0.3, 1, 10)
    differences = [effects[i] + effects[j] for i, j in ALL_PAIRS]
    expected = stats.ttest_1samp(effects, 0).pvalue
    assert dyadic_test(differences, ALL_PAIRS).p == pytest.approx(expected)
    # The order within a pair, the order of pairs and the names of classes mean nothing.
    other = [(f"c{j}", f"c{i}") for i, j in reversed(ALL_PAIRS)]
    assert dyadic_test(differences[::-1], other).p == pytest.approx(expected)


def test_rejections_are_near_nominal_where_the_plain_test_is_too_sure():
    rng = np.random.default_rng(3)
    first, second = np.array(ALL_PAIRS).T
    found = []
    for _ in range(600):
        effects = rng.normal(size=10)
        differences = effects[first] + effects[second] + rng.normal(size=45)
        found.append(
            (
                dyadic_test(differences, ALL_PAIRS).p,
                dyadic_test(differences, ALL_PAIRS, small_sample=False).p,
                stats.ttest_1samp(differences, 0).pvalue,
            )
        )
    corrected, formula, plain = (np.array(found) < 0.05).mean(axis=0)
    assert 0.03 < corrected < 0.085
    assert corrected < formula < 0.16
    assert plain > 0.35


def test_independent_pairs_never_pass_for_certain():
    rng = np.random.default_rng(4)
    samples = rng.normal(size=(1000, 45))
    corrected = np.array([dyadic_test(one, ALL_PAIRS).p for one in samples])
    formula = np.array([dyadic_test(one, ALL_PAIRS, small_sample=False).p for one in samples])
    assert (corrected < 0.05).mean() < 0.06
    assert (corrected < 0.002).mean() <= 0.004
    assert (formula < 0.002).mean() > 0.015  # a sum of products that is nearly 0 by chance


def test_what_cannot_be_tested_says_why():
    assert dyadic_test([0.1, 0.2], [(0, 1), (0, 2)]).note == "at least 3 pairs are needed, got 2"
    same = dyadic_test([0.1] * 3, [(0, 1), (0, 2), (1, 2)])
    assert np.isnan(same.p)
    assert same.note == "all differences are the same"
    # Every two of three pairs meet, so the residuals cancel.
    triangle = dyadic_test([0.1, 0.2, 0.4], [(0, 1), (0, 2), (1, 2)])
    assert triangle.note == PLAIN
    assert triangle.p == pytest.approx(stats.ttest_1samp([0.1, 0.2, 0.4], 0).pvalue)
    with pytest.raises(InputError, match="two different classes, got"):
        dyadic_test([0.1, 0.2, 0.3], [(0, 1), (1, 1), (0, 2)])
    with pytest.raises(InputError, match="as many as differences, 3, got 2"):
        dyadic_test([0.1, 0.2, 0.3], [(0, 1), (0, 2)])
    with pytest.raises(InputError, match="finite numbers"):
        dyadic_test([0.1, nan, 0.3], [(0, 1), (0, 2), (1, 2)])


def made_up_models():
    """All pairs of five classes, two seeds, four models."""
    rng = np.random.default_rng(5)
    return area_frame(
        (f"cifar10:{i}/{j}", 100.0, seed,
         {"VS": rng.uniform(0.7, 0.8, 4), "LCT": rng.uniform(0.72, 0.85, 4)})
        for i, j in combinations(range(5), 2)
        for seed in (0, 1)
    )  # fmt: skip


def test_rows_over_pairs():
    models = made_up_models()
    rows = pair_tests(models, "VS", "LCT")
    lines = paired(models, "VS", "LCT", unit="task")
    cells = by_cell(models).set_index(["task", "method"])
    for row, line in zip(rows.to_dict("records"), lines.itertuples(), strict=True):
        assert (row["AUC"], row["better"], row["pairs"]) == (line.statistic, line.wins, 10)
        assert row["t-test p"] == line.t_test_p
        differences = []
        for i, j in combinations(range(5), 2):
            vs, lct = (cells.loc[(f"cifar10:{i}/{j}", m), row["AUC"]] for m in ("VS", "LCT"))
            differences.append(np.mean(lct.to_numpy() - vs.to_numpy()))
        assert row["difference"] == pytest.approx(np.mean(differences))
        expected = dyadic_test(differences, list(combinations(range(5), 2)))
        assert row["p (shared classes)"] == pytest.approx(expected.p, rel=1e-6)
        assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))
    corrected = rows["p (Holm)"].to_list()
    assert corrected == holm(rows["p (shared classes)"])
    both = with_holm([rows, pair_tests(models, "LCT", "VS")])
    assert (both["p (Holm)"][:4] >= corrected).all()
    assert both["p (Holm)"][1] > corrected[1]
    assert pair_tests(models, "VS", "LCT", ["min"])["AUC"].to_list() == ["min"]


def test_an_interval_goes_with_its_p():
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.3, 0.9):
        test = dyadic_test(rng.normal(shift, 1, 45), ALL_PAIRS)
        assert (test.low < 0 < test.high) == (test.p > 0.05)
        half = stats.t.ppf(0.975, 9) * test.error
        assert (test.low, test.high) == pytest.approx((test.mean - half, test.mean + half))


def test_tasks_must_be_pairs():
    assert classes_of("fashion-mnist:0/6") == ("fashion-mnist:0", "fashion-mnist:6")
    for task in ("digits:8", "dogs-vs-cats", "cifar10:/3", "cifar10:3/3"):
        with pytest.raises(InputError, match="must be a pair SOURCE:CLASS/CLASS"):
            classes_of(task)
