"""Tests over pairs that share classes, against plain loops, scipy and simulation."""

from itertools import combinations, product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from curvewise import InputError
from curvewise.stats.comparisons import classes_of, dyadic_test

ALL_PAIRS = list(combinations(range(10), 2))


def loops(differences, pairs):
    """Sum over classes i, j, k, l: the products of residuals of pairs (i, j), (k, l) that meet."""
    n, mean = len(differences), sum(differences) / len(differences)
    residual = {pair: value - mean for pair, value in zip(pairs, differences, strict=True)}
    classes = sorted({one for pair in pairs for one in pair})
    total = couples = 0.0
    for i, j, k, l in product(classes, repeat=4):  # noqa: E741
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
    degrees = min(len(pairs), len({one for pair in pairs for one in pair})) - 1
    wide = variance / (1 - share) if share < 1 else 0.0
    error = max(sqrt(max(wide, 0)), stats.sem(differences))
    found, t = dyadic_test(differences, pairs), np.mean(differences) / error
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), degrees))
    ends = np.mean(differences) + error * stats.t.ppf([0.025, 0.975], degrees)
    assert (found.low, found.high) == pytest.approx(tuple(ends))


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
        too_sure = stats.ttest_1samp(differences, 0).pvalue
        found.append([dyadic_test(differences, ALL_PAIRS).p, too_sure])
    corrected, plain = (np.array(found) < 0.05).mean(axis=0)
    assert 0.03 < corrected < 0.085
    assert plain > 0.35


def test_what_cannot_be_tested_has_no_p():
    for differences in ([0.1, 0.2], [0.1] * 3):
        pairs = [(0, 1), (0, 2), (1, 2)][: len(differences)]
        assert np.isnan(dyadic_test(differences, pairs)).all()
    # Every two of three pairs meet, so the residuals cancel, and the plain variance stands in.
    triangle = dyadic_test([0.1, 0.2, 0.4], [(0, 1), (0, 2), (1, 2)])
    assert triangle.p == pytest.approx(stats.ttest_1samp([0.1, 0.2, 0.4], 0).pvalue)
    assert classes_of("fashion-mnist:0/6") == ("fashion-mnist:0", "fashion-mnist:6")
    for task in ("digits:8", "dogs-vs-cats", "cifar10:/3", "cifar10:3/3"):
        with pytest.raises(InputError, match="must be a pair SOURCE:CLASS/CLASS"):
            classes_of(task)
