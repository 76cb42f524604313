"""The answer in two sentences, and what warns of it: which method, by how much, how sure."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from curvewise.report.page_input import OwnPoint
from curvewise.roc.curve import Labels, Scores
from curvewise.roc.interval import auc_interval, compare_auc
from curvewise.roc.operating import choose_operating_point, operating_point, rate_interval
from curvewise.stats.areas import CELL, by_method, differences

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
    chance: str = "the choice of test samples"


def answer(models: pd.DataFrame) -> list[str]:
    """Return two sentences: what the models of one task and beta say of their methods.

    Their frame is that of `stats.areas` with `y`, `score`, `n_train` and `n_test`.

    >>> models = pd.DataFrame({"task": "a", "beta": None, "seed": 0, "method": "VS", "auc": [0.75],
    ...     "y": [[0, 1, 0, 1]], "score": [[0.1, 0.9, 0.6, 0.4]], "n_test": 4})
    >>> answer(models)[0]
    'VS has an AUC of 0.7500 (95 % interval 0.0570 to 1.0000) on 4 test samples.'
    """
    summary = by_method(models)
    ranked = summary[summary["cells"] > 0].sort_values("mean", ascending=False, kind="stable")
    if len(ranked) == 1:
        return _alone(models, ranked.iloc[0])
    best, second = ranked.iloc[0], ranked.iloc[1]
    found = difference(models, best["method"], second["method"])
    cells = len(models.drop_duplicates(CELL))
    single = best["models"] == second["models"] == 1
    mean, over = "", ""
    if not single:
        on = f" on {cells} subsamples" if cells > 1 else ""
        mean, over = "mean ", f", over {best['models']:,} and {second['models']:,} models{on}"
    many = f", the best of {len(ranked)} methods," if len(ranked) > 2 else ""
    verdict = (
        f"so {found.chance} alone hardly explains it"
        if found.low > 0 or found.high < 0
        else f"so {found.chance} may explain it: the interval holds 0"
    )
    return [
        f"{best['method']}{many} has the higher {mean}AUC: {best['mean']:.4f} against "
        f"{second['mean']:.4f} of {second['method']}{over}.",
        f"{'They differ by' if single else found.what} {found.value:+.4f} (95 % interval "
        f"{found.low:+.4f} to {found.high:+.4f}; {found.how}), {verdict}.",
    ]


def difference(models: pd.DataFrame, a: str, b: str) -> Difference:
    """Return how much better a is than b, and how sure that is.

    Of three subsamples or more: mean difference and Nadeau and Bengio's corrected t (2003), whose
    variance is that of the differences times 1/pairs + n_test/n_train. Of fewer: the models of
    median AUC on the first subsample, by DeLong.
    """
    both = differences(models, b, a)
    values = both["mean"].to_numpy()
    sizes = models.drop_duplicates(CELL).reindex(columns=["n_test", "n_train"]).astype(float)
    ratio = float((sizes["n_test"] / sizes["n_train"]).mean(skipna=False))
    if len(values) >= FEWEST and not np.isnan(ratio) and np.ptp(values) > 0:
        mean = float(values.mean())
        error = float(values.std(ddof=1)) * sqrt(1 / len(values) + ratio)
        half = float(student.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
        wins = int((values > 0).sum())
        how = f"corrected t; better on {wins} of {len(values)} subsamples"
        what, chance = "On average they differ by", "the choice of subsamples"
        return Difference(what, mean, mean - half, mean + half, how, chance)
    if both.empty:
        means = by_method(models).set_index("method")["mean"]
        value, how = float(means[a] - means[b]), "they share no subsample"
        return Difference("They differ by", value, -1.0, 1.0, how)
    first = models.merge(both[CELL].head(1), on=CELL)
    one, other = _in_first_cell(first, a), _in_first_cell(first, b)
    found = compare_auc(one["y"], one["score"], other["score"])
    how, what = "DeLong, on one test set", "Their models of median AUC differ by"
    return Difference(what, found.difference, found.low, found.high, how)


def median_model(models: pd.DataFrame) -> "pd.Series[Any]":
    """Return the model of median AUC (of two, the lower).

    >>> median_model(pd.DataFrame({"auc": [0.9, 0.7, 0.8, 0.6]})).to_dict()
    {'auc': 0.7}
    """
    ordered = models.dropna(subset="auc").sort_values("auc", kind="stable")
    return ordered.iloc[(len(ordered) - 1) // 2]


def _in_first_cell(models: pd.DataFrame, method: str) -> "pd.Series[Any]":
    """Return a method's model of median AUC in the first cell that has one."""
    ended = models[(models["method"] == method) & models["auc"].notna()]
    cells = ended.groupby(CELL, sort=False, dropna=False).ngroup()
    return median_model(ended[cells == 0])


def _alone(models: pd.DataFrame, line: "pd.Series[Any]") -> list[str]:
    model = _in_first_cell(models, line["method"])
    area = auc_interval(model["y"], model["score"])
    what = f"{line['method']} has an AUC"
    if line["models"] > 1:
        what = (
            f"The {line['models']:,} models of {line['method']} have AUCs from {line['min']:.4f} "
            f"to {line['max']:.4f}, the median one"
        )
    point = choose_operating_point(model["y"], model["score"], max_fpr=0.01)
    low, high = point.tpr_interval
    return [
        f"{what} of {area.auc:.4f} (95 % interval {area.low:.4f} to {area.high:.4f}) "
        f"on {model['n_test']:,} test samples.",
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
    rates = ((point.tpr, point.tpr_interval), (point.fpr, point.fpr_interval))
    tpr, fpr = (
        "{} (exact 95 % interval {} to {})".format(*map(_digits, (rate, *interval)))
        for rate, interval in rates
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


def warnings_of(models: pd.DataFrame) -> list[str]:
    """Return what to beware of: a test with too few positives or negatives to say.

    >>> models = pd.DataFrame({"task": "a", "beta": None, "seed": 0, "n_test": 2020,
    ...                        "y": [[0] * 2000 + [1] * 20]})
    >>> warnings_of(models)[0][:69]
    'The test has only 20 positives: a true positive rate of 90 % could be'
    """
    counts = class_counts(models)
    positives = min(positive for _, positive in counts)
    negatives = min(negative for negative, _ in counts)
    sentences = []
    if positives < FEW_POSITIVES:
        low, high = (_percent(end) for end in rate_interval(round(0.9 * positives), positives))
        sentences.append(
            f"The test has only {positives} positives: a true positive rate of 90 % could be "
            f"anything from {low} to {high}, and smaller differences say nothing."
        )
    if negatives < 1000:
        sentences.append(
            f"The test has only {negatives} negatives: false positive rates below "
            f"{_percent(3 / negatives, 1)} cannot be told from 0."
        )
    return sentences


def class_counts(models: pd.DataFrame) -> list[tuple[int, int]]:
    """Return the numbers of negatives and positives of each cell's test set."""
    labels = [np.asarray(y) == 1 for y in models.drop_duplicates(CELL)["y"]]
    return [(int((~positive).sum()), int(positive.sum())) for positive in labels]
