"""Promises about rates: against the binomial distribution summed by hand, and kept in draws."""

from math import comb, inf

import numpy as np
import pytest
from hypothesis import given, strategies as st

import curvewise as cw
from curvewise.roc.operating import (
    allowed_errors,
    first_unsafe,
    rows_needed,
    threshold_for_fpr,
    threshold_for_tpr,
)

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


def test_one_percent_at_95_needs_299_negatives():
    assert rows_needed(0.01, 0.95) == 299
    scores = np.arange(299.0)
    assert threshold_for_fpr(scores[:298], 0.01, 0.95) == inf
    assert 298 < threshold_for_fpr(scores, 0.01, 0.95) < 298.001
    assert threshold_for_tpr(scores[:298], 0.99, 0.95) == -inf
    assert threshold_for_tpr(scores, 0.99, 0.95) == 0


def at_most_five_percent(broken, draws: int) -> bool:
    """Whether no more than 5 % of the draws, and four standard errors, broke a promise."""
    return np.sum(broken) / draws <= 0.05 + 4 * (0.05 * 0.95 / draws) ** 0.5


@pytest.mark.parametrize("n", [300, 1_000, 5_000])
@pytest.mark.parametrize("ties", [0, 200, 20])
@pytest.mark.parametrize("draws", [500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_promised_fpr_is_kept(n, ties, draws):
    """Uniform scores, or uniform over so many values: the true FPR of a threshold is known."""
    rng = np.random.default_rng(n + ties)
    thresholds = np.array(
        [
            threshold_for_fpr(
                rng.random(n) if ties == 0 else rng.integers(0, ties, n) / ties, 0.05, 0.95
            )
            for _ in range(draws)
        ]
    )
    if ties == 0:
        broken = 1 - thresholds > 0.05
        assert broken.mean() > 0.01  # it is not kept by giving everything away
    else:
        values = np.arange(ties) / ties
        broken = (values >= thresholds[:, None]).mean(1) > 0.05 + 1e-12
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
        scores = np.sort(rng.random(500))
        errors = 500 - np.searchsorted(scores, 1 - rates)
        safe = first_unsafe(errors, 500, 0.02, 0.95)
        broken += bool(safe) and rates[safe - 1] > 0.02
    assert at_most_five_percent(broken, draws)


def test_a_point_with_confidence_is_stricter_and_says_what_it_promises():
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], [2000, 40])
    score = rng.normal(size=2040) + 2 * y
    plain = cw.choose_operating_point(y, score, max_fpr=0.01)
    sure = cw.choose_operating_point(y, score, max_fpr=0.01, confidence=0.95)
    assert sure.threshold > plain.threshold
    assert sure.fpr_interval[1] < 0.0145
    assert sure.note == "FPR <= 0.01 on new data with confidence 0.95, from 2,000 negatives"
    few = cw.choose_operating_point(y, score, min_tpr=0.95, confidence=0.9)
    assert few.threshold == -inf
    assert few.note == "TPR >= 0.95 with confidence 0.9 needs at least 45 positives, got 40"
    assert few.tpr == 1
