"""The other scalar metrics of a binary classifier."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from curvewise.base.errors import require_number
from curvewise.roc.curve import RocCurve, roc_curve
from curvewise.roc.inputs import Floats, Labels, Scored, Scores, check_scored


@dataclass(frozen=True)
class BinaryMetrics:
    """What a threshold does (tpr to gmean) and how well the scores rank (the last three).

    Precision, F1 and F-beta are 0 if nothing is called positive. `auprc` is the trapezoid area
    under the precision-recall curve, as in the paper; `average_precision` the step-wise one,
    which does not flatter.
    """

    tpr: float
    fpr: float
    precision: float
    accuracy: float
    f1: float
    fbeta: float
    gmean: float
    auroc: float
    auprc: float
    average_precision: float


def binary_metrics(
    y: Labels,
    score: Scores,
    threshold: float = 0.5,
    *,
    fbeta: float = 2.0,
    weight: Scores | None = None,
) -> BinaryMetrics:
    """All the paper's metrics, with ``score >= threshold`` called positive.

    The threshold is compared with the scores as they are: 0.5 suits probabilities, 0 suits
    log-odds. `fbeta` is how many times recall matters more than precision in F-beta.

    >>> binary_metrics([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.8]).accuracy
    0.75
    """
    require_number("fbeta", fbeta, 0)
    curve = roc_curve(y, score, weight=weight)
    return metrics_on_curve(curve, check_scored(y, score, weight), threshold, fbeta)


def metrics_on_curve(
    curve: RocCurve, data: Scored, threshold: float, fbeta: float = 2.0
) -> BinaryMetrics:
    """Return `binary_metrics` of data whose curve is known already."""
    weights = np.ones(len(data.score)) if data.weight is None else data.weight
    called = data.at_least(threshold)
    true, missed, false, rejected = (
        float(weights[part].sum())
        for part in (
            called & data.positive,
            ~called & data.positive,
            called & ~data.positive,
            ~called & ~data.positive,
        )
    )
    tpr, fpr = true / (true + missed), false / (false + rejected)
    total = true + missed + false + rejected
    precision, recall = _precision_recall(curve, (true + missed) / total)
    return BinaryMetrics(
        tpr=tpr,
        fpr=fpr,
        precision=true / (true + false) if true + false else 0.0,
        accuracy=(true + rejected) / total,
        f1=_f_score(true, false, missed, 1.0),
        fbeta=_f_score(true, false, missed, fbeta),
        gmean=sqrt(tpr * (1 - fpr)),
        auroc=curve.auc,
        auprc=float(np.trapezoid(precision, recall)),
        average_precision=float(np.sum(np.diff(recall) * precision[1:])),
    )


def _f_score(true: float, false: float, missed: float, beta: float) -> float:
    """(1 + b^2) P R / (b^2 P + R) in counts, and 0 without a true positive."""
    weight = beta * beta
    return (1 + weight) * true / ((1 + weight) * true + weight * missed + false) if true else 0.0


def _precision_recall(curve: RocCurve, share: float) -> tuple[Floats, Floats]:
    """Precision and recall at the curve's thresholds, starting at (1, 0)."""
    true, false = share * curve.tpr[1:], (1 - share) * curve.fpr[1:]
    return np.append(1.0, true / (true + false)), curve.tpr
