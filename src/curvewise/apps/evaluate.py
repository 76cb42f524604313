"""Scores and labels to the numbers one reports, and the ROC figure."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvewise.report.figures import plot_roc
from curvewise.roc.curve import roc_curve
from curvewise.roc.interval import auc_interval
from curvewise.roc.metrics import binary_metrics
from curvewise.roc.operating import OperatingPoint, choose_operating_point, operating_point

RATES = (0.001, 0.01, 0.1)


def evaluation(
    y: NDArray[Any],
    score: NDArray[Any],
    *,
    rule: dict[str, float] | None = None,
    threshold: float | None = None,
    prevalence: float | None = None,
) -> dict[str, Any]:
    """Return all reported numbers of scores z1 - z0, ready for JSON.

    The threshold metrics are at `threshold` (0, the paper's t = 0.5, if left out). `rule` is one of
    max_fpr, min_tpr, cost_ratio for an operating point chosen on these very data, which is why it
    is labelled so.
    """
    curve = roc_curve(y, score)
    at = 0.0 if threshold is None else threshold
    metrics = asdict(binary_metrics(y, score, at))
    result = {
        "n_positive": int(np.sum(y)),
        "n_negative": int(len(y) - np.sum(y)),
        "auc": asdict(auc_interval(y, score)),
        "partial_auc": {
            "fpr <= 0.1": curve.partial_auc(max_fpr=0.1, standardized=True),
            "tpr >= 0.9": curve.partial_auc(min_tpr=0.9, standardized=True),
        },
        "tpr_at_fpr": {f"{rate:g}": float(curve.tpr_at(rate)) for rate in RATES},
        "auprc": metrics["auprc"],
        "average_precision": metrics["average_precision"],
        "at_threshold": asdict(operating_point(y, score, at, prevalence=prevalence))
        | {name: metrics[name] for name in ("precision", "accuracy", "f1", "fbeta", "gmean")},
    }
    if rule:
        point = choose_operating_point(y, score, **rule, prevalence=prevalence)
        result["chosen_on_these_data"] = {"rule": rule, **asdict(point)}
    return result


def draw_roc(
    y: NDArray[Any], score: NDArray[Any], result: dict[str, Any], title: str, path: Path
) -> Path:
    """Draw the ROC curve with the chosen or given operating point; PNG, SVG or PDF by suffix."""
    chosen = result.get("chosen_on_these_data") or result["at_threshold"]
    fields = {name: chosen[name] for name in OperatingPoint.__dataclass_fields__}
    axes = plot_roc({"test": roc_curve(y, score)}, points=[OperatingPoint(**fields)], title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    axes.get_figure(root=True).savefig(path, dpi=150)  # type: ignore[union-attr]
    return path
