"""Operating points against every threshold tried in turn, and promises against the binomial law."""

from math import comb, inf

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binomtest
from scored_cases import every_case, scored
from sklearn.metrics import precision_score

from curvewise import choose_operating_point, operating_point, ppv, rate_interval
from curvewise.roc.operating import (
    allowed_errors,
    first_unsafe,
    rows_needed,
    threshold_for_fpr,
    threshold_for_tpr,
)


def every_choice(y, score):
    """(threshold, tpr, fpr) of all that can be done, from calling nothing to calling all."""
    choices = []
    for threshold in [np.inf, *sorted(set(score), reverse=True)]:
        true = sum(s >= threshold for s, label in zip(score, y, strict=True) if label == 1)
        false = sum(s >= threshold for s, label in zip(score, y, strict=True) if label == 0)
        choices.append((float(threshold), true / sum(y), false / (len(y) - sum(y))))
    return choices


@every_case
@pytest.mark.parametrize("limit", [0.0, 0.05, 0.3, 0.5, 0.9, 1.0])
def test_a_rule_finds_the_best_of_what_it_allows(y, score, limit):
    choices = every_choice(y, score)
    # Of those equally good, the fewest false alarms, which is the highest threshold.
    careful = max((c for c in choices if c[2] <= limit), key=lambda c: (c[1], -c[2], c[0]))
    eager = max((c for c in choices if c[1] >= limit), key=lambda c: (-c[2], c[1], c[0]))
    for best, rule in ((careful, {"max_fpr": limit}), (eager, {"min_tpr": limit})):
        point = choose_operating_point(y, score, **rule)
        assert (point.threshold, point.tpr, point.fpr) == best


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
    assert cost_ratio or point.threshold == np.inf  # of equal costs the highest threshold
    assert point.prevalence == share


@every_case
def test_a_chosen_threshold_does_the_same_when_used_and_has_the_plain_precision(y, score):
    chosen = choose_operating_point(y, score, min_tpr=0.4, prevalence=0.1, level=0.9)
    assert operating_point(y, score, chosen.threshold, prevalence=0.1, level=0.9) == chosen
    point = operating_point(y, score, float(np.median(score)))
    called = (score >= np.median(score)).astype(int)
    assert point.prevalence == np.mean(y)
    assert point.ppv == pytest.approx(precision_score(y, called))


def test_point_counts_samples_at_the_threshold_as_called():
    point = operating_point([0, 0, 0, 1, 1], [0.1, 0.5, 0.6, 0.5, 0.4], 0.5)
    assert (point.true_positives, point.n_positive) == (1, 2)
    assert (point.false_positives, point.n_negative) == (2, 3)
    assert (point.tpr, point.fpr) == (1 / 2, 2 / 3)
    assert point.tpr_interval == rate_interval(1, 2)
    assert point.fpr_interval == rate_interval(2, 3)
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


RATES = st.floats(0.02, 0.6)
CONFIDENCES = st.floats(0.5, 0.99)


def at_most(errors: int, n: int, rate: float) -> float:
    """P(Bin(n, rate) <= errors), term by term."""
    return sum(comb(n, e) * rate**e * (1 - rate) ** (n - e) for e in range(errors + 1))


@given(st.integers(1, 300), RATES, CONFIDENCES)
def test_as_many_errors_as_the_binomial_allows(n, rate, confidence):
    errors = allowed_errors(n, rate, confidence)
    if errors >= 0:
        assert at_most(errors, n, rate) <= 1 - confidence + 1e-9
    assert at_most(errors + 1, n, rate) > 1 - confidence - 1e-9


@given(RATES, CONFIDENCES)
def test_rows_needed_are_the_fewest(rate, confidence):
    rows = rows_needed(rate, confidence)
    assert (1 - rate) ** rows <= 1 - confidence
    assert rows == 1 or (1 - rate) ** (rows - 1) > 1 - confidence


def at_most_five_percent(broken, draws: int) -> bool:
    """Whether no more than 5 % of the draws, and four standard errors, broke a promise."""
    return np.sum(broken) / draws <= 0.05 + 4 * (0.05 * 0.95 / draws) ** 0.5


@pytest.mark.parametrize("n", [300, 1_000, 5_000])
@pytest.mark.parametrize("ties", [0, 200, 20])
@pytest.mark.parametrize("draws", [500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_promised_fpr_is_kept(n, ties, draws):
    """Uniform scores, or uniform over so many values: the true FPR of a threshold is known."""
    rng = np.random.default_rng(n + ties)
    samples = (rng.integers(0, ties, n) / ties if ties else rng.random(n) for _ in range(draws))
    thresholds = np.array([threshold_for_fpr(sample, 0.05, 0.95) for sample in samples])
    if ties:
        broken = (np.arange(ties) / ties >= thresholds[:, None]).mean(1) > 0.05 + 1e-12
    else:
        broken = 1 - thresholds > 0.05
        assert broken.mean() > 0.01  # it is not kept by giving everything away
    assert at_most_five_percent(broken, draws)


@pytest.mark.parametrize("draws", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_promised_tpr_is_kept_with_ties(draws):
    scores = np.random.default_rng(1).integers(0, 30, (draws, 100)) / 30
    thresholds = np.array([threshold_for_tpr(row, 0.9, 0.95) for row in scores])
    rates = (np.arange(30) / 30 >= thresholds[:, None]).mean(1)
    assert at_most_five_percent(rates < 0.9 - 1e-12, draws)


@pytest.mark.parametrize("draws", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_chance_over_a_sequence_of_settings_is_that_of_one(draws):
    """FPRs grow along the sequence; the promise breaks if one above the limit is let through."""
    rng = np.random.default_rng(2)
    rates = np.linspace(0.001, 0.05, 30)
    broken = 0
    for _ in range(draws):
        errors = 500 - np.searchsorted(np.sort(rng.random(500)), 1 - rates)
        safe = first_unsafe(errors, 500, 0.02, 0.95)
        broken += bool(safe) and rates[safe - 1] > 0.02
    assert at_most_five_percent(broken, draws)


def test_a_point_with_confidence_is_stricter_and_says_what_it_promises():
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], [2000, 40])
    score = rng.normal(size=2040) + 2 * y
    plain = choose_operating_point(y, score, max_fpr=0.01)
    sure = choose_operating_point(y, score, max_fpr=0.01, confidence=0.95)
    assert sure.threshold > plain.threshold
    assert sure.fpr_interval[1] < 0.0145
    assert sure.note == "FPR <= 0.01 on new data with confidence 0.95, from 2,000 negatives"
    few = choose_operating_point(y, score, min_tpr=0.95, confidence=0.9)
    assert few.threshold == -inf
    assert few.note == "TPR >= 0.95 with confidence 0.9 needs at least 45 positives, got 40"
    assert few.tpr == 1
    # One per cent at 95 % needs 299 negatives.
    assert rows_needed(0.01, 0.95) == 299
    scores = np.arange(299.0)
    assert threshold_for_fpr(scores[:298], 0.01, 0.95) == inf
    assert 298 < threshold_for_fpr(scores, 0.01, 0.95) < 298.001
    assert threshold_for_tpr(scores[:298], 0.99, 0.95) == -inf
    assert threshold_for_tpr(scores, 0.99, 0.95) == 0
