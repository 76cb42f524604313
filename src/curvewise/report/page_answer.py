"""The answer in two sentences, and what warns of it: which method, by how much, how sure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import t as student

from curvewise.report.page_input import OwnPoint
from curvewise.roc.curve import Floats, Labels, Scores
from curvewise.roc.interval import auc_interval, compare_auc
from curvewise.roc.operating import choose_operating_point, operating_point, rate_interval
from curvewise.stats.cells import Cell
from curvewise.stats.differences import cell_differences
from curvewise.stats.summary import MethodSummary, method_summary

FEWEST = 3  # subsamples from which their differences tell how sure one can be
FEW_POSITIVES = 100  # below, an exact 95 % interval of a TPR of 90 % is wider than 12 points
LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """AUC of a less that of b: `what` it is of, its interval, and how that was found."""

    what: str
    value: float
    low: float
    high: float
    how: str
    beyond_chance: bool
    chance: str = "the choice of test samples"


def answer(cells: Sequence[Cell]) -> list[str]:
    """Return two sentences: what the cells of one task and beta say of their methods.

    >>> cell = Cell("a", None, 0, [0, 1, 0, 1], {"VS": [[0.1, 0.9, 0.6, 0.4]]})
    >>> answer([cell])[0]
    'VS has an AUC of 0.7500 (95 % interval 0.0570 to 1.0000) on 4 test samples.'
    """
    known = [line for line in method_summary(cells).lines if line.cells]
    ranked = sorted(known, key=lambda line: -line.mean)
    if len(ranked) == 1:
        return _alone(cells, ranked[0])
    best, second = ranked[0], ranked[1]
    found = difference(cells, best.label, second.label)
    many = f", the best of {len(ranked)} methods," if len(ranked) > 2 else ""
    over = f"over {best.models:,} and {second.models:,} models"
    where = f" on {len(cells)} subsamples" if len(cells) > 1 else ""
    single = best.models == second.models == 1
    first = (
        f"{best.label}{many} has the higher {'' if single else 'mean '}AUC: {best.mean:.4f} "
        f"against {second.mean:.4f} of {second.label}{'' if single else f', {over}{where}'}."
    )
    what = "They differ by" if single else found.what
    verdict = (
        f"so {found.chance} alone hardly explains it"
        if found.beyond_chance
        else f"so {found.chance} may explain it: the interval holds 0"
    )
    return [
        first,
        f"{what} {found.value:+.4f} (95 % interval {found.low:+.4f} to {found.high:+.4f}; "
        f"{found.how}), {verdict}.",
    ]


def difference(cells: Sequence[Cell], a: str, b: str) -> Difference:
    """Return how much better a is than b, and how sure that is.

    Of three subsamples or more: mean difference and Nadeau and Bengio's corrected t (2003), whose
    variance is that of the differences times 1/pairs + n_test/n_train. Of fewer: the models of
    median AUC on the first subsample, by DeLong.
    """
    values = np.array([line.mean for line in cell_differences(cells, b, a).lines])
    ratios = [cell.n_test / cell.n_train for cell in cells if cell.n_train]
    if len(values) >= FEWEST and len(ratios) == len(cells) and np.ptp(values) > 0:
        mean = float(values.mean())
        error = float(values.std(ddof=1)) * sqrt(1 / len(values) + float(np.mean(ratios)))
        half = float(student.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
        wins = int((values > 0).sum())
        how = f"corrected t; better on {wins} of {len(values)} subsamples"
        beyond = abs(mean) > half
        what, chance = "On average they differ by", "the choice of subsamples"
        return Difference(what, mean, mean - half, mean + half, how, beyond, chance)
    cell = next((cell for cell in cells if {a, b} <= set(cell.scores)), None)
    if cell is None:
        means = [float(np.mean([areas.mean() for areas in _areas(cells, x)])) for x in (a, b)]
        how = "they share no subsample"
        return Difference("They differ by", means[0] - means[1], -1.0, 1.0, how, False)
    found = compare_auc(cell.y, median_score(cell, a), median_score(cell, b))
    how = "DeLong, on one test set"
    beyond = found.low > 0 or found.high < 0
    return Difference(
        "Their models of median AUC differ by", found.difference, found.low, found.high, how, beyond
    )


def _areas(cells: Sequence[Cell], label: str) -> list[Floats]:
    return [cell.areas[label] for cell in cells if label in cell.areas]


def median_row(areas: Floats) -> int:
    """Return which of the models has the median AUC (of two, the lower).

    >>> median_row(np.array([0.9, 0.7, 0.8, 0.6]))
    1
    """
    return int(np.argsort(areas, kind="stable")[(len(areas) - 1) // 2])


def median_score(cell: Cell, label: str) -> Floats:
    """Return the scores (n,) of the label's model of median AUC."""
    scores: Floats = np.asarray(cell.scores[label])[median_row(cell.areas[label])]
    return scores


def _alone(cells: Sequence[Cell], line: MethodSummary) -> list[str]:
    cell = cells[0]
    score = median_score(cell, line.label)
    area = auc_interval(cell.y, score)
    what = f"{line.label} has an AUC"
    if line.models > 1:
        what = (
            f"The {line.models:,} models of {line.label} have AUCs from {line.min:.4f} to "
            f"{line.max:.4f}, the median one"
        )
    point = choose_operating_point(cell.y, score, max_fpr=0.01)
    low, high = point.tpr_interval
    return [
        f"{what} of {area.auc:.4f} (95 % interval {area.low:.4f} to {area.high:.4f}) "
        f"on {cell.n_test:,} test samples.",
        f"At a false positive rate of at most 1 % it finds {_percent(point.tpr, 1)} of the "
        f"positives (exact 95 % interval {_percent(low, 1)} to {_percent(high, 1)}).",
    ]


def own_answer(y: Labels, score: Scores, own: OwnPoint, at: str = "") -> str:
    """Return what the model's own operating point does on labels y (n,) and scores (n,).

    `at` names the lambda of the scores, if they have one.

    >>> own_answer([0, 1], [0.0, 2.0], OwnPoint(0, 1.0, "1", "chosen by hand"), "tau = 3")[:77]
    'Unless told otherwise, predict works at tau = 3 and threshold 1, chosen by ha'
    """
    if own.threshold == np.inf:
        return (
            f"{own.subject} calls nothing positive: its threshold, {own.rule}, is beyond all "
            "scores."
        )
    point = operating_point(y, score, own.threshold)
    tpr, fpr = (
        f"{_digits(value)} (exact 95 % interval {_digits(low)} to {_digits(high)})"
        for value, (low, high) in (
            (point.tpr, point.tpr_interval),
            (point.fpr, point.fpr_interval),
        )
    )
    where = f"{at} and threshold {own.text}" if at else f"threshold {own.text}"
    return (
        f"{own.subject} works at {where}, {own.rule}: here its true positive rate is {tpr} and its "
        f"false positive rate {fpr}."
    )


def _digits(rate: float) -> str:
    """Return a rate with four digits, as the page's explorer has it."""
    return f"{100 * rate:.4g} %"


def _percent(rate: float, digits: int = 0) -> str:
    return f"{100 * rate:.{digits}f} %"


def warnings_of(cells: Sequence[Cell]) -> list[str]:
    """Return what to beware of: a test with too few positives or negatives to say.

    >>> cell = Cell("a", None, 0, [0] * 2000 + [1] * 20, {"VS": [list(range(2020))]})
    >>> warnings_of([cell])[0][:69]
    'The test has only 20 positives: a true positive rate of 90 % could be'
    """
    counts = [
        (int(np.count_nonzero(cell.y)), cell.n_test - int(np.count_nonzero(cell.y)))
        for cell in cells
    ]
    positives, negatives = (min(column) for column in zip(*counts, strict=True))
    found = []
    if positives < FEW_POSITIVES:
        low, high = (_percent(end) for end in rate_interval(round(0.9 * positives), positives))
        found.append(
            f"The test has only {positives} positives: a true positive rate of 90 % could be "
            f"anything from {low} to {high}, and smaller differences say nothing."
        )
    if negatives < 1000:
        found.append(
            f"The test has only {negatives} negatives: false positive rates below "
            f"{_percent(3 / negatives, 1)} cannot be told from 0."
        )
    return found
