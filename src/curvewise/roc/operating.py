"""Operating points: one threshold on the curve, with exact intervals for what it does."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import beta as beta_distribution

from curvewise.base.errors import InputError, require_number, require_open
from curvewise.roc.curve import RocCurve, roc_curve
from curvewise.roc.guarantee import promise_note, threshold_for_fpr, threshold_for_tpr
from curvewise.roc.inputs import Labels, Scores, check_scored


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
    rules = {"max_fpr": max_fpr, "min_tpr": min_tpr, "cost_ratio": cost_ratio}
    given = {name: value for name, value in rules.items() if value is not None}
    if len(given) != 1:
        raise InputError(
            f"exactly one of max_fpr, min_tpr, cost_ratio must be given, got {given or 'none'}"
        )
    if confidence is not None:
        threshold, note = _promised(y, score, max_fpr, min_tpr, confidence)
        point = operating_point(y, score, threshold, prevalence=prevalence, level=level)
        return replace(point, confidence=confidence, note=note)
    share = float(np.mean(check_scored(y, score).positive))
    share = share if prevalence is None else require_open("prevalence", prevalence, 0, 1)
    threshold = threshold_by_rule(roc_curve(y, score), **given, prevalence=share)
    return operating_point(y, score, threshold, prevalence=prevalence, level=level)


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
    # The first index among equals is the highest threshold.
    if max_fpr is not None:
        require_number("max_fpr", max_fpr, 0, 1)
        allowed = int(np.searchsorted(curve.fpr, max_fpr, side="right"))
        index = int(np.argmax(curve.tpr[:allowed]))
    elif min_tpr is not None:
        require_number("min_tpr", min_tpr, 0, 1)
        index = int(np.searchsorted(curve.tpr, min_tpr, side="left"))
        index += int(np.argmax(curve.tpr[index:][curve.fpr[index:] == curve.fpr[index]]))
    else:
        assert cost_ratio is not None
        require_number("cost_ratio", cost_ratio, 0)
        cost = cost_ratio * prevalence * (1 - curve.tpr) + (1 - prevalence) * curve.fpr
        index = int(np.argmin(cost))
    return float(curve.thresholds[index])


def _promised(
    y: Labels, score: Scores, max_fpr: float | None, min_tpr: float | None, confidence: float
) -> tuple[float, str]:
    """Return a threshold and the sentence that says what it promises."""
    data = check_scored(y, score)
    if max_fpr is not None:
        require_open("max_fpr", max_fpr, 0, 1)
        note = promise_note("FPR <=", max_fpr, confidence, len(data.negatives))
        return threshold_for_fpr(data.negatives, max_fpr, confidence), note
    if min_tpr is not None:
        require_open("min_tpr", min_tpr, 0, 1)
        note = promise_note("TPR >=", min_tpr, confidence, len(data.positives))
        return threshold_for_tpr(data.positives, min_tpr, confidence), note
    raise InputError("confidence goes with max_fpr or min_tpr, got it with cost_ratio")


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
    share = float(np.mean(data.positive))
    share = share if prevalence is None else require_open("prevalence", prevalence, 0, 1)
    called = data.at_least(threshold)
    true = int(np.count_nonzero(called & data.positive))
    false = int(np.count_nonzero(called)) - true
    n_positive = int(np.count_nonzero(data.positive))
    n_negative = len(data.positive) - n_positive
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
    whole = successes == int(successes) and trials == int(trials)
    if not whole or not 0 <= successes <= trials or trials < 1:
        raise InputError(
            f"successes must be a whole number in [0, trials], got {successes} of {trials}"
        )
    tail = (1 - level) / 2
    low = beta_distribution.ppf(tail, successes, trials - successes + 1) if successes else 0.0
    high = (
        beta_distribution.ppf(1 - tail, successes + 1, trials - successes)
        if successes < trials
        else 1.0
    )
    return float(low), float(high)


def ppv(tpr: float, fpr: float, prevalence: float) -> float:
    """Share of true positives among those called positive, nan if nobody is.

    >>> round(ppv(tpr=0.9, fpr=0.01, prevalence=0.001), 4)
    0.0826
    """
    for name, rate in (("tpr", tpr), ("fpr", fpr), ("prevalence", prevalence)):
        require_number(name, rate, 0, 1)
    called = tpr * prevalence + fpr * (1 - prevalence)
    return tpr * prevalence / called if called > 0 else float("nan")
