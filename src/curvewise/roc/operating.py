r"""Operating points: one threshold on the curve, with exact intervals for what it does.

A threshold may keep a promise on new data with stated confidence. With :math:`n` independent
scores of a class and a threshold just above the :math:`j`-th largest of them, the share of new ones
at or above it exceeds :math:`a` only if fewer than :math:`j` of the :math:`n` lay above the score
that exactly that share exceeds: with probability at most :math:`P(\mathrm{Bin}(n, a) < j)`. This
needs nothing of the scores' distribution (the tolerance limits of Wilks 1941), and ties only make
it smaller.
"""

from dataclasses import dataclass, replace
from math import ceil, inf, log1p, nan, nextafter

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta as beta_distribution, binom

from curvewise.base.errors import InputError, require, require_number, require_one_of, require_open
from curvewise.roc.curve import Labels, RocCurve, Scores, check_scored, roc_curve


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold (``score >= threshold`` is called positive) and its rates on the given data.

    The intervals are exact (Clopper-Pearson) at `level` for a threshold fixed beforehand; one
    chosen on the same data looks better than it is, so evaluate it on other data. `ppv` is
    the precision at `prevalence`, nan if nothing is called positive.

    A point that was chosen with `confidence` promises its rate on new data; `note` says what it
    promises, or why it cannot. With `tau`, scores are those of the model at that lambda.
    `scored_by` names the fitted estimator whose scores they are, with its prior.
    """

    threshold: float
    tpr: float
    fpr: float
    true_positives: int
    false_positives: int
    n_positive: int
    n_negative: int
    tpr_interval: tuple[float, float]
    fpr_interval: tuple[float, float]
    level: float
    prevalence: float
    ppv: float
    confidence: float | None = None
    note: str = ""
    tau: float | None = None
    scored_by: str | None = None


def choose_operating_point(
    y: Labels,
    score: Scores,
    *,
    max_fpr: float | None = None,
    min_tpr: float | None = None,
    cost_ratio: float | None = None,
    prevalence: float | None = None,
    confidence: float | None = None,
    level: float = 0.95,
) -> OperatingPoint:
    """Choose a threshold by one rule.

    Parameters
    ----------
    max_fpr
        The highest TPR among thresholds with FPR <= max_fpr.
    min_tpr
        The lowest FPR among thresholds with TPR >= min_tpr.
    cost_ratio
        The lowest expected cost, a missed positive costing `cost_ratio` times a false alarm.
    prevalence
        Share of positives where the point will be used (default: the share in `y`); it enters
        the expected cost and `ppv`.
    confidence
        With max_fpr or min_tpr: keep the rate on new data with this confidence, not only on the
        given rows, which must be independent and unknown to the model. Too few rows for that give
        the threshold +inf (-inf for min_tpr) and a note that says how many are needed.

    >>> choose_operating_point([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], max_fpr=0.0).threshold
    0.8
    """
    rule = {"max_fpr": max_fpr, "min_tpr": min_tpr, "cost_ratio": cost_ratio}
    require_one_of(**rule)
    data, note = check_scored(y, score), ""
    if confidence is None:
        share = float(np.mean(data.positive)) if prevalence is None else prevalence
        share = require_open("prevalence", share, 0, 1)
        threshold = threshold_by_rule(roc_curve(y, score), **rule, prevalence=share)
    elif max_fpr is not None:
        threshold = threshold_for_fpr(data.negatives, max_fpr, confidence)
        note = promise_note("FPR <=", max_fpr, confidence, len(data.negatives))
    elif min_tpr is not None:
        threshold = threshold_for_tpr(data.positives, min_tpr, confidence)
        note = promise_note("TPR >=", min_tpr, confidence, len(data.positives))
    else:
        raise InputError("confidence goes with max_fpr or min_tpr, got it with cost_ratio")
    point = operating_point(y, score, threshold, prevalence=prevalence, level=level)
    return replace(point, confidence=confidence, note=note)


def require_rule(**rule: float | None) -> None:
    """Raise `InputError` unless one rule is given, with a value that it may have.

    >>> require_rule(max_fpr=0.05, min_tpr=None)
    """
    name = require_one_of(**rule)
    require_number(name, rule[name] or 0.0, 0, inf if name == "cost_ratio" else 1)


def threshold_by_rule(
    curve: RocCurve,
    *,
    max_fpr: float | None = None,
    min_tpr: float | None = None,
    cost_ratio: float | None = None,
    prevalence: float = 0.5,
) -> float:
    """Return the threshold that one rule of `choose_operating_point` chooses on a curve.

    Of corners that are equally good, it is the one with the highest threshold.

    >>> curve = roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> threshold_by_rule(curve, min_tpr=0.9)
    0.35
    """
    require_rule(max_fpr=max_fpr, min_tpr=min_tpr, cost_ratio=cost_ratio)
    # The first index among equals is the highest threshold.
    if max_fpr is not None:
        allowed = int(np.searchsorted(curve.fpr, max_fpr, side="right"))
        index = int(np.argmax(curve.tpr[:allowed]))
    elif min_tpr is not None:
        index = int(np.searchsorted(curve.tpr, min_tpr, side="left"))
        index += int(np.argmax(curve.tpr[index:][curve.fpr[index:] == curve.fpr[index]]))
    else:
        assert cost_ratio is not None
        cost = cost_ratio * prevalence * (1 - curve.tpr) + (1 - prevalence) * curve.fpr
        index = int(np.argmin(cost))
    return float(curve.thresholds[index])


def operating_point(
    y: Labels,
    score: Scores,
    threshold: float,
    *,
    prevalence: float | None = None,
    level: float = 0.95,
) -> OperatingPoint:
    """Measure a given threshold, for instance one chosen on other data.

    >>> operating_point([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.4).fpr
    0.5
    """
    data = check_scored(y, score)
    share = float(np.mean(data.positive)) if prevalence is None else prevalence
    share = require_open("prevalence", share, 0, 1)
    called = data.at_least(threshold)
    true = int(np.count_nonzero(called & data.positive))
    false = int(np.count_nonzero(called)) - true
    n_positive, n_negative = len(data.positives), len(data.negatives)
    tpr, fpr = true / n_positive, false / n_negative
    return OperatingPoint(
        threshold=threshold,
        tpr=tpr,
        fpr=fpr,
        true_positives=true,
        false_positives=false,
        n_positive=n_positive,
        n_negative=n_negative,
        tpr_interval=rate_interval(true, n_positive, level),
        fpr_interval=rate_interval(false, n_negative, level),
        level=level,
        prevalence=share,
        ppv=ppv(tpr, fpr, share),
    )


def rate_interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Exact (Clopper-Pearson) confidence interval for a rate.

    >>> low, high = rate_interval(0, 299, level=0.9)
    >>> low, round(high, 4)
    (0.0, 0.01)
    """
    require_open("level", level, 0, 1)
    fits = successes == int(successes) and trials == int(trials) and 0 <= successes <= trials >= 1
    wrong = f"{successes} of {trials}"
    require(fits, f"successes must be a whole number in [0, trials], got {wrong}")
    tail, failures = (1 - level) / 2, trials - successes
    low = beta_distribution.ppf(tail, successes, failures + 1) if successes else 0.0
    high = beta_distribution.ppf(1 - tail, successes + 1, failures) if failures else 1.0
    return float(low), float(high)


def ppv(tpr: float, fpr: float, prevalence: float) -> float:
    """Share of true positives among those called positive, nan if nobody is.

    >>> round(ppv(tpr=0.9, fpr=0.01, prevalence=0.001), 4)
    0.0826
    """
    for name, rate in (("tpr", tpr), ("fpr", fpr), ("prevalence", prevalence)):
        require_number(name, rate, 0, 1)
    called = tpr * prevalence + fpr * (1 - prevalence)
    return tpr * prevalence / called if called > 0 else nan


def rows_needed(rate: float, confidence: float) -> int:
    """Return how many rows of a class a promise about a rate of errors needs at the least.

    >>> rows_needed(0.01, 0.95)
    299
    """
    require_open("rate", rate, 0, 1)
    require_open("confidence", confidence, 0, 1)
    rows = max(1, ceil(log1p(-confidence) / log1p(-rate) - 1e-9))
    return rows if (1 - rate) ** rows <= 1 - confidence else rows + 1


def allowed_errors(n: int, rate: float, confidence: float) -> int:
    """Return how many of n rows may be on the wrong side; -1 if n is too small for any promise.

    It is the largest e with P(Bin(n, rate) <= e) <= 1 - confidence.
    """
    if n < rows_needed(rate, confidence):
        return -1
    guess = int(binom.ppf(1 - confidence, n, rate))
    while binom.cdf(guess, n, rate) > 1 - confidence:
        guess -= 1
    return guess


def promise_note(what: str, rate: float, confidence: float, n: int) -> str:
    """Return what n rows of a class can promise of a rate, in a sentence."""
    errors, kind = (rate, "negatives") if what == "FPR <=" else (1 - rate, "positives")
    needed = rows_needed(errors, confidence)
    if n < needed:
        return (
            f"{what} {rate:g} with confidence {confidence:g} needs at least {needed:,} {kind}, "
            f"got {n:,}"
        )
    return f"{what} {rate:g} on new data with confidence {confidence:g}, from {n:,} {kind}"


def threshold_for_fpr(negatives: ArrayLike, max_fpr: float, confidence: float) -> float:
    """Return the lowest threshold whose FPR on new data is at most `max_fpr`, with confidence.

    `negatives` are scores of rows that the model has not seen. Too few: infinity.
    """
    require_open("max_fpr", max_fpr, 0, 1)
    scores = np.sort(negatives)
    errors = allowed_errors(len(scores), max_fpr, confidence)
    if errors < 0:
        return inf
    # Just above the next largest: what lies on it is not called positive.
    return nextafter(float(scores[len(scores) - 1 - errors]), inf)


def threshold_for_tpr(positives: ArrayLike, min_tpr: float, confidence: float) -> float:
    """Return the highest threshold whose TPR on new data is at least `min_tpr`, with confidence.

    Too few positives: minus infinity, which calls everything positive.
    """
    require_open("min_tpr", min_tpr, 0, 1)
    scores = np.sort(positives)
    errors = allowed_errors(len(scores), 1 - min_tpr, confidence)
    return -inf if errors < 0 else float(scores[errors])


def first_unsafe(errors: ArrayLike, n: int, rate: float, confidence: float) -> int:
    """Return how many settings, tried in a fixed order, may be promised to stay below a rate.

    `errors` counts the wrong ones among n rows at each setting. Settings are tested one after the
    other at the full level and the first that fails ends it, which keeps the chance that any of
    the promised ones is wrong at 1 - confidence (fixed-sequence testing; Angelopoulos, Bates,
    Candes, Jordan and Lei 2021, arXiv 2110.01052).

    >>> first_unsafe([0, 0, 5, 0], 299, 0.01, 0.95)
    2
    """
    failed = np.asarray(errors) > allowed_errors(n, rate, confidence)
    return int(np.argmax(np.append(failed, True)))
