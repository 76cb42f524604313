"""Operating points, against every threshold tried in turn, scipy's exact interval and counting."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binomtest
from scored_cases import every_case, scored
from sklearn.metrics import precision_score

from curvewise import choose_operating_point, operating_point, ppv, rate_interval


def every_choice(y, score):
    """(threshold, tpr, fpr) of all that can be done, from calling nothing to calling all."""
    choices = []
    for threshold in [np.inf, *sorted(set(score), reverse=True)]:
        true = sum(s >= threshold for s, label in zip(score, y, strict=True) if label == 1)
        false = sum(s >= threshold for s, label in zip(score, y, strict=True) if label == 0)
        choices.append((float(threshold), true / sum(y), false / (len(y) - sum(y))))
    return choices


@every_case
@pytest.mark.parametrize("max_fpr", [0.0, 0.05, 0.3, 1.0])
def test_max_fpr_finds_the_highest_tpr_allowed(y, score, max_fpr):
    allowed = [choice for choice in every_choice(y, score) if choice[2] <= max_fpr]
    # Of those equally good, the fewest false alarms, which is the highest threshold.
    threshold, tpr, fpr = max(allowed, key=lambda choice: (choice[1], -choice[2], choice[0]))
    point = choose_operating_point(y, score, max_fpr=max_fpr)
    assert (point.threshold, point.tpr, point.fpr) == (threshold, tpr, fpr)


@every_case
@pytest.mark.parametrize("min_tpr", [0.0, 0.5, 0.9, 1.0])
def test_min_tpr_finds_the_lowest_fpr_allowed(y, score, min_tpr):
    allowed = [choice for choice in every_choice(y, score) if choice[1] >= min_tpr]
    threshold, tpr, fpr = max(allowed, key=lambda choice: (-choice[2], choice[1], choice[0]))
    point = choose_operating_point(y, score, min_tpr=min_tpr)
    assert (point.threshold, point.tpr, point.fpr) == (threshold, tpr, fpr)


@every_case
@pytest.mark.parametrize("prevalence", [None, 0.01, 0.7])
@pytest.mark.parametrize("cost_ratio", [0, 0.5, 1, 20, 1000])
def test_cost_ratio_finds_the_cheapest(y, score, cost_ratio, prevalence):
    share = np.mean(y) if prevalence is None else prevalence

    def cost(tpr, fpr):
        return share * (1 - tpr) * cost_ratio + (1 - share) * fpr

    cheapest = min(cost(tpr, fpr) for _, tpr, fpr in every_choice(y, score))
    point = choose_operating_point(y, score, cost_ratio=cost_ratio, prevalence=prevalence)
    assert cost(point.tpr, point.fpr) == pytest.approx(cheapest, abs=1e-12)
    assert point.prevalence == share


def test_of_equal_costs_the_highest_threshold_is_taken():
    # A miss costs nothing, so that every threshold without false alarms is free.
    assert choose_operating_point([0, 0, 1, 1], [1, 2, 3, 4], cost_ratio=0).threshold == np.inf


@every_case
def test_a_chosen_threshold_does_the_same_when_used(y, score):
    chosen = choose_operating_point(y, score, min_tpr=0.4, prevalence=0.1, level=0.9)
    assert operating_point(y, score, chosen.threshold, prevalence=0.1, level=0.9) == chosen


def test_point_counts_samples_at_the_threshold_as_called():
    point = operating_point([0, 0, 0, 1, 1], [0.1, 0.5, 0.6, 0.5, 0.4], 0.5)
    assert (point.true_positives, point.n_positive) == (1, 2)
    assert (point.false_positives, point.n_negative) == (2, 3)
    assert (point.tpr, point.fpr) == (1 / 2, 2 / 3)
    assert point.tpr_interval == rate_interval(1, 2)
    assert point.fpr_interval == rate_interval(2, 3)


@every_case
def test_precision_at_the_datas_own_prevalence_is_the_plain_one(y, score):
    point = operating_point(y, score, float(np.median(score)))
    called = (score >= np.median(score)).astype(int)
    assert point.prevalence == np.mean(y)
    assert point.ppv == pytest.approx(precision_score(y, called))


def test_nothing_called_positive_has_no_precision():
    point = operating_point([0, 1], [0.1, 0.2], np.inf)
    assert (point.tpr, point.fpr) == (0, 0)
    assert np.isnan(point.ppv)
    assert np.isnan(ppv(0.0, 0.0, 0.5))


@pytest.mark.parametrize(("tpr", "fpr"), [(0.9, 0.01), (0.5, 0.5), (1.0, 0.0), (0.0, 0.1)])
@pytest.mark.parametrize("prevalence", [0.001, 0.1, 0.9])
def test_ppv_counts_a_population_of_a_million(tpr, fpr, prevalence):
    ill = prevalence * 1_000_000
    found, alarmed = tpr * ill, fpr * (1_000_000 - ill)
    assert ppv(tpr, fpr, prevalence) == pytest.approx(found / (found + alarmed))


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("trials", [1, 2, 17, 1035])
def test_rate_interval_is_clopper_pearson(trials, level):
    for successes in {0, 1, trials // 3, trials - 1, trials}:
        expected = binomtest(successes, trials).proportion_ci(level, method="exact")
        found = rate_interval(successes, trials, level)
        assert found == pytest.approx((expected.low, expected.high), abs=1e-10)


def test_rate_interval_at_the_ends_has_a_closed_form():
    assert rate_interval(0, 20) == pytest.approx((0, 1 - 0.025 ** (1 / 20)))
    assert rate_interval(20, 20) == pytest.approx((0.025 ** (1 / 20), 1))


@given(scored, st.floats(0, 1))
def test_chosen_points_keep_their_promise(samples, limit):
    y, score = samples
    careful = choose_operating_point(y, score, max_fpr=limit)
    eager = choose_operating_point(y, score, min_tpr=limit)
    assert careful.fpr <= limit
    assert eager.tpr >= limit
    for point in (careful, eager):
        assert 0 <= point.tpr_interval[0] <= point.tpr <= point.tpr_interval[1] <= 1
        assert 0 <= point.fpr_interval[0] <= point.fpr <= point.fpr_interval[1] <= 1
