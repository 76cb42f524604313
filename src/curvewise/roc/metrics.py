"""The other scalar metrics of a binary classifier."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from curvewise.errors import require_number
from curvewise.roc.curve import RocCurve, roc_curve
from curvewise.roc.inputs import Floats, Labels, Scores, check_scored


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
    data = check_scored(y, score, weight)
    weights = np.ones(len(data.score)) if data.weight is None else data.weight
    called = data.score >= threshold
    total, positive_total = float(weights.sum()), float(weights[data.positive].sum())
    true = float(weights[called & data.positive].sum())
    false = float(weights[called & ~data.positive].sum())
    tpr, fpr = true / positive_total, false / (total - positive_total)
    curve = roc_curve(y, score, weight=weight)
    precision, recall = _precision_recall(curve, positive_total / total)
    return BinaryMetrics(
        tpr=tpr,
        fpr=fpr,
        precision=true / (true + false) if true + false else 0.0,
        accuracy=(true + total - positive_total - false) / total,
        f1=_f_score(true, false, positive_total, 1.0),
        fbeta=_f_score(true, false, positive_total, fbeta),
        gmean=sqrt(tpr * (1 - fpr)),
        auroc=curve.auc,
        auprc=float(np.trapezoid(precision, recall)),
        average_precision=float(np.sum(np.diff(recall) * precision[1:])),
    )


def _f_score(true: float, false: float, positives: float, beta: float) -> float:
    """(1 + b^2) P R / (b^2 P + R), rearranged so that it needs no P."""
    weight = beta * beta
    return (1 + weight) * true / (weight * positives + true + false)


def _precision_recall(curve: RocCurve, share: float) -> tuple[Floats, Floats]:
    """Precision and recall at the curve's thresholds, starting at (1, 0)."""
    true, false = share * curve.tpr[1:], (1 - share) * curve.fpr[1:]
    return np.append(1.0, true / (true + false)), curve.tpr
