"""All that the page shows, as one dictionary ready for JSON: pure, from models and their scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from curvewise.base.machine import VERSION
from curvewise.figures.curves import COLORS
from curvewise.report.page_answer import answer, median_row, own_answer, warnings_of
from curvewise.report.page_curves import Corners, corner_at, corners, packed_corners
from curvewise.report.page_input import PageInput, PageModel, Unit
from curvewise.report.page_settings import METRICS, setting_panels
from curvewise.roc.curve import Floats, RocCurve, roc_band
from curvewise.roc.metrics import (
    binary_metrics,
    histogram,
    probability_bins,
    reliability,
    short,
)

# Even steps for linear axes and fine ones near 0 for logarithmic ones; more cannot be seen.
GRID = np.union1d(np.linspace(0, 1, 201), np.geomspace(1e-4, 1, 161))
RECALL = np.linspace(0.005, 1, 200)
COLUMNS = (
    ("auc", "AUC"),
    ("average_precision", "average precision"),
    ("tpr_001", "TPR at FPR 0.1 %"),
    ("tpr_01", "TPR at FPR 1 %"),
    ("tpr_zero", "TPR at threshold {half}"),
    ("fpr_zero", "FPR at threshold {half}"),
    ("brier", "Brier, raw"),
    ("brier_corrected", "Brier, corrected"),
    ("seconds", "seconds to train"),
)
# For each unit: where its probability is 0.5, what the page calls that point, and the scores.
HALVES: dict[Unit, tuple[float | None, str, str]] = {
    "logits": (0.0, "t = 0.5 (score 0)", "Score z1 \u2212 z0"),
    "log-odds": (0.0, "log-odds 0", "Log-odds"),
    "probability": (0.5, "probability 0.5", "Probability"),
    "score": (None, "", "Score"),
}


def page_data(given: PageInput) -> dict[str, Any]:
    """Return what the page is drawn from.

    Curves are their corners, whole numbers and thresholds, so that the page chooses the very
    points that `choose_operating_point` does; what is only looked at has five digits.
    """
    own = given.own_point
    curves = [
        corners(model.y, model.score, own.threshold if own and own.model == index else None)
        for index, model in enumerate(given.models)
    ]
    betas, labels = given.betas, given.labels
    rows = [
        _row(index, model, curve, betas.index(model.beta), labels.index(model.label), given.unit)
        for index, (model, curve) in enumerate(zip(given.models, curves, strict=True))
    ]
    groups = [_group(given, beta) for beta in betas]
    half, half_name, score_name = HALVES[given.unit]
    bands, precision = ([], []) if given.swept else _bands(rows, curves)
    return {
        "version": VERSION,
        "task": given.task,
        "classes": list(given.class_names),
        "methods": labels,
        "colors": list(COLORS),
        "groups": groups,
        "models": rows,
        "corners": packed_corners(curves),
        "grid": [short(value) for value in np.append(0.0, GRID).tolist()],
        "bands": bands,
        "recall": [short(value) for value in RECALL.tolist()],
        "precision": precision,
        "metrics": [list(metric) for metric in METRICS],
        "panels": setting_panels(rows),
        "columns": [
            [key, name.format(half=f"{half or 0:g}")]
            for key, name in COLUMNS
            if any(row[key] is not None for row in rows)
        ],
        "settings": list(dict.fromkeys(name for row in rows for name in row["settings"])),
        "swept": given.swept,
        "chosen": typical(rows) if given.chosen is None else given.chosen,
        "own": _own(given, curves),
        "reduction": given.reduction,
        "unit": given.unit,
        "half": half_name,
        "scoreName": score_name,
        "diverged": given.diverged,
        "notes": list(given.notes),
        "copy": {"command": given.copy.command, "python": given.copy.python},
        "provenance": [list(pair) for pair in given.provenance],
    }


def typical(rows: Sequence[dict[str, Any]]) -> int:
    """Return the model to begin with: of the first beta's best method, that of median AUC."""
    own = [row for row in rows if row["group"] == 0]
    areas = {
        method: np.array([row["auc"] for row in own if row["method"] == method])
        for method in dict.fromkeys(row["method"] for row in own)
    }
    best = max(areas, key=lambda method: float(areas[method].mean()))
    members = [row["index"] for row in own if row["method"] == best]
    return int(members[median_row(areas[best])])


def _group(given: PageInput, beta: float | None) -> dict[str, Any]:
    cells = given.cells(beta)
    counts = sorted({(int(np.sum(np.asarray(cell.y) == 1)), cell.n_test) for cell in cells})
    return {
        "name": "data as they are" if beta is None else f"beta = {beta:.4g}",
        "beta": beta,
        "subsamples": len(cells),
        "train": list(given.train_counts.get(beta, ())),
        "test": [[n - positive, positive] for positive, n in counts],
        "answer": [*answer(cells), *_own_answer(given, beta)],
        "about": _chosen_text(given),
        "warnings": warnings_of(cells),
    }


def _chosen_text(given: PageInput) -> str:
    """Return at what the answer is, of one model at several values of a setting."""
    if given.swept is None or given.chosen is None:
        return ""
    return f"At {_swept_at(given, given.chosen)}: "


def _swept_at(given: PageInput, index: int) -> str:
    return f"{given.swept} = {given.models[index].settings[given.swept]:g}" if given.swept else ""


def _own_answer(given: PageInput, beta: float | None) -> list[str]:
    own = given.own_point
    if own is None or given.models[own.model].beta != beta:
        return []
    model = given.models[own.model]
    return [own_answer(model.y, model.score, own, _swept_at(given, own.model))]


def _own(given: PageInput, curves: Sequence[Corners]) -> dict[str, Any] | None:
    """Return the model's own point: its curve, its corner there, and its threshold."""
    own = given.own_point
    if own is None:
        return None
    return {
        "model": own.model,
        "corner": corner_at(curves[own.model].thresholds, own.threshold),
        "threshold": own.threshold if np.isfinite(own.threshold) else None,
        "rule": own.rule,
    }


def _row(
    index: int, model: PageModel, curve: Corners, group: int, method: int, unit: Unit
) -> dict[str, Any]:
    positives, negatives = int(curve.true[-1]), int(curve.false[-1])
    roc = as_curve(curve)
    half = HALVES[unit][0]
    metrics = binary_metrics(model.y, model.score, threshold=half or 0.0)
    raw = _claimed(model, unit)
    fixed = None if model.log_odds is None else reliability(model.y, model.log_odds)
    return {
        "index": index,
        "group": group,
        "method": method,
        "seed": model.seed,
        "settings": model.settings,
        "positives": positives,
        "negatives": negatives,
        "auc": short(roc.auc, 7),
        "average_precision": short(metrics.average_precision, 6),
        "tpr_001": short(float(roc.tpr_at(0.001)), 6),
        "tpr_01": short(float(roc.tpr_at(0.01)), 6),
        "tpr_zero": None if half is None else short(metrics.tpr, 6),
        "fpr_zero": None if half is None else short(metrics.fpr, 6),
        "brier": None if raw is None else raw["brier"],
        "brier_corrected": None if fixed is None else fixed["brier"],
        "seconds": None if model.seconds is None else short(model.seconds, 3),
        "raw": raw,
        "corrected": fixed,
        "histogram": histogram(model.y, model.score),
        "fill": model.fill,
    }


def _claimed(model: PageModel, unit: Unit) -> dict[str, Any] | None:
    """Return the reliability of the probabilities that scores are, None if they are none."""
    if unit == "score":
        return None
    if unit == "probability":
        scores = np.asarray(model.score, np.float64)
        return probability_bins(np.asarray(model.y) == 1, scores)
    return reliability(model.y, model.score)


def as_curve(curve: Corners) -> RocCurve:
    """Return corners as a curve of rates, which has the same area."""
    return RocCurve(
        curve.false / int(curve.false[-1]), curve.true / int(curve.true[-1]), curve.thresholds
    )


def _bands(
    rows: Sequence[dict[str, Any]], curves: Sequence[Corners]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return ROC and precision-recall bands of each group and method.

    Precision is at the recall that the ROC curve reaches with the lowest FPR, in between as well.
    """
    bands, precision = [], []
    for group, method in dict.fromkeys((row["group"], row["method"]) for row in rows):
        own = [row for row in rows if (row["group"], row["method"]) == (group, method)]
        rocs = [as_curve(curves[row["index"]]) for row in own]
        band = roc_band(rocs, GRID)
        shares = [row["positives"] / (row["positives"] + row["negatives"]) for row in own]
        values = np.array(
            [
                share * RECALL / (share * RECALL + (1 - share) * np.asarray(roc.fpr_at(RECALL)))
                for share, roc in zip(shares, rocs, strict=True)
            ]
        )
        place = {"group": group, "method": method, "models": len(own)}
        lines = {"mean": band.mean, "low": band.low, "high": band.high, "std": band.std}
        bands.append(place | {name: _shorts(line) for name, line in lines.items()})
        lines = {"mean": values.mean(0), "low": values.min(0), "high": values.max(0)}
        lines["std"] = values.std(0)
        precision.append(place | {name: _shorts(line) for name, line in lines.items()})
    return bands, precision


def _shorts(values: Floats) -> list[float]:
    return [short(value) for value in np.asarray(values, np.float64).tolist()]
