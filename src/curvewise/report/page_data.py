"""All that the page shows, as one dictionary ready for JSON: pure, from models and their scores.

A model's ROC curve is built once: its area, rates, corners and band are read off it.
"""

import base64
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.machine import VERSION
from curvewise.report.page_answer import answer, class_counts, median_model, own_answer, warnings_of
from curvewise.report.page_input import Page, Unit
from curvewise.roc.curve import Floats, RocCurve, check_scored, roc_curve
from curvewise.roc.metrics import histogram, metrics_on_curve, probability_bins, reliability, short
from curvewise.stats.variance import polynomial_fit

# Even steps for linear axes and fine ones near 0 for logarithmic ones; more cannot be seen.
GRID = np.union1d(np.linspace(0, 1, 201), np.geomspace(1e-4, 1, 161))
RECALL = np.linspace(0.005, 1, 200)
FITTED = 31  # points along a fit
COLUMNS = {
    "auc": "AUC",
    "average_precision": "average precision",
    "tpr_001": "TPR at FPR 0.1 %",
    "tpr_01": "TPR at FPR 1 %",
    "tpr_zero": "TPR at threshold {half}",
    "fpr_zero": "FPR at threshold {half}",
    "brier": "Brier, raw",
    "brier_corrected": "Brier, corrected",
    "seconds": "seconds to train",
}
METRICS = ("auc", "tpr_01", "tpr_zero", "fpr_zero")  # those that settings are fitted to
# For each unit: where its probability is 0.5, what the page calls that point, and the scores.
HALVES: dict[Unit, tuple[float | None, str, str]] = {
    "logits": (0.0, "t = 0.5 (score 0)", "Score z1 \u2212 z0"),
    "log-odds": (0.0, "log-odds 0", "Log-odds"),
    "probability": (0.5, "probability 0.5", "Probability"),
    "score": (None, "", "Score"),
}

Counts = NDArray[np.int64]
Rows = list[dict[str, Any]]


class Corners(NamedTuple):
    """Positives and negatives at or above each threshold, from (0, 0, inf) to (N, P, lowest)."""

    false: Counts
    true: Counts
    thresholds: Floats

    @property
    def curve(self) -> RocCurve:
        """The corners as a curve of rates, which has the same area."""
        rates = self.false / int(self.false[-1]), self.true / int(self.true[-1])
        return RocCurve(*rates, self.thresholds)


def page_data(page: Page) -> dict[str, Any]:
    """Return what the page is drawn from.

    Curves are their corners, whole numbers and thresholds, so that the page chooses the very
    points that `choose_operating_point` does; what is only looked at has five digits.
    """
    groups, betas = pd.factorize(page.models["beta"], use_na_sentinel=False)
    methods, labels = pd.factorize(page.models["method"])
    models = page.models.assign(task=page.task, group=groups, number=methods)
    models["index"] = range(len(models))
    own = page.own_point
    measured = [
        _measured(model, page.unit, own.threshold if own and own.model == model["index"] else None)
        for model in models.to_dict("records")
    ]
    rows, curves, models["auc"] = map(list, zip(*measured, strict=True))
    half, half_name, score_name = HALVES[page.unit]
    names = {key: name.format(half=f"{half or 0:g}") for key, name in COLUMNS.items()}
    bands, precision = ([], []) if page.swept else _bands(models, curves)
    return {
        "version": VERSION,
        "task": page.task,
        "classes": list(page.class_names),
        "methods": labels.tolist(),
        "groups": [_group(page, models, number) for number in range(len(betas))],
        "models": rows,
        "corners": packed_corners(curves),
        "grid": _shorts(np.append(0.0, GRID)),
        "bands": bands,
        "recall": _shorts(RECALL),
        "precision": precision,
        "metrics": [[key, names[key]] for key in METRICS],
        "panels": setting_panels(rows),
        "columns": [
            [key, name] for key, name in names.items() if any(row[key] is not None for row in rows)
        ],
        "settings": list(dict.fromkeys(name for row in rows for name in row["settings"])),
        "swept": page.swept,
        "chosen": typical(models) if page.chosen is None else page.chosen,
        "own": None
        if own is None
        else {
            "model": own.model,
            "corner": corner_at(curves[own.model].thresholds, own.threshold),
            "threshold": own.threshold if np.isfinite(own.threshold) else None,
            "rule": own.rule,
        },
        "reduction": page.reduction,
        "unit": page.unit,
        "half": half_name,
        "scoreName": score_name,
        "diverged": page.diverged,
        "notes": list(page.notes),
        "copy": page.copy._asdict(),
        "provenance": [[name, text] for name, text in page.provenance.items() if text],
    }


def typical(models: pd.DataFrame) -> int:
    """Return the model to begin with: of the first beta's best method, that of median AUC."""
    first = models[models["group"] == 0]
    best = first.groupby("method", sort=False)["auc"].mean().idxmax()
    return int(median_model(first[first["method"] == best])["index"])


def _group(page: Page, models: pd.DataFrame, number: int) -> dict[str, Any]:
    """Return what there is to say of the models of one beta.

    Of one model at several values of a setting, that is the chosen one alone.
    """
    chosen, own = page.chosen, page.own_point
    answering = models[models["group"] == number]
    if page.swept is not None and chosen is not None:
        answering = models.iloc[[chosen]]
    beta = float(answering["beta"].iloc[0])
    known = None if np.isnan(beta) else beta
    sentences, counts = answer(answering), class_counts(answering)
    if own is not None and models["group"].iloc[own.model] == number:
        y, score = models.iloc[own.model][["y", "score"]]
        sentences.append(own_answer(y, score, own, _swept_at(page, own.model)))
    at = "" if chosen is None else _swept_at(page, chosen)
    return {
        "name": "data as they are" if known is None else f"beta = {known:.4g}",
        "beta": known,
        "subsamples": len(counts),
        "train": list(page.train_counts.get(known, ())),
        "test": [list(pair) for pair in sorted(set(counts), key=lambda pair: pair[::-1])],
        "answer": sentences,
        "about": f"At {at}: " if at else "",
        "warnings": warnings_of(answering),
    }


def _swept_at(page: Page, index: int) -> str:
    """Return at what a model is, where one model is shown at several values of a setting."""
    settings = page.models["settings"].iloc[index]
    return f"{page.swept} = {settings[page.swept]:g}" if page.swept else ""


def _measured(
    model: dict[Any, Any], unit: Unit, keep_at: float | None
) -> tuple[dict[str, Any], Corners, float]:
    """Return a model's numbers, the corners of its curve and its area."""
    roc, half = roc_curve(model["y"], model["score"]), HALVES[unit][0]
    data = check_scored(model["y"], model["score"])
    metrics = metrics_on_curve(roc, data, half or 0.0)
    raw = None
    if unit == "probability":
        raw = probability_bins(data.positive, np.asarray(data.score, np.float64))
    elif unit != "score":
        raw = reliability(model["y"], model["score"])
    log_odds, seconds = model["log_odds"], model["seconds"]
    fixed = None if log_odds is None else reliability(model["y"], log_odds)
    curve = corners(roc, data.positive, keep_at)
    row = {
        "index": model["index"],
        "group": model["group"],
        "method": model["number"],
        "seed": model["seed"],
        "settings": model["settings"],
        "positives": int(curve.true[-1]),
        "negatives": int(curve.false[-1]),
        "auc": short(roc.auc, 7),
        "average_precision": short(metrics.average_precision, 6),
        "tpr_001": short(float(roc.tpr_at(0.001)), 6),
        "tpr_01": short(float(roc.tpr_at(0.01)), 6),
        "tpr_zero": None if half is None else short(metrics.tpr, 6),
        "fpr_zero": None if half is None else short(metrics.fpr, 6),
        "brier": None if raw is None else raw["brier"],
        "brier_corrected": None if fixed is None else fixed["brier"],
        "seconds": None if np.isnan(seconds) else short(seconds, 3),
        "raw": raw,
        "corrected": fixed,
        "histogram": histogram(model["y"], model["score"]),
        "fill": model["fill"],
    }
    return row, curve, roc.auc


def corners(curve: RocCurve, positive: NDArray[np.bool_], keep_at: float | None = None) -> Corners:
    """Return a curve without the inner points of its upright and level stretches.

    No rule of `choose_operating_point` can choose one of those, whatever its target: at one FPR
    the highest TPR is better, at one TPR the lowest FPR. Points on slanted stretches, which ties
    make, stay, and so does that of the samples with scores of at least `keep_at`.

    >>> y = np.array([1, 1, 1, 0, 0, 1])
    >>> found = corners(roc_curve(y, [6, 5, 4, 3, 2, 1]), y == 1)
    >>> found.true.tolist(), found.false.tolist(), found.thresholds.tolist()
    ([0, 3, 3, 4], [0, 0, 2, 2], [inf, 4.0, 2.0, 1.0])
    """
    true = np.rint(curve.tpr * np.count_nonzero(positive)).astype(np.int64)
    false = np.rint(curve.fpr * np.count_nonzero(~positive)).astype(np.int64)
    rise, run = np.diff(true), np.diff(false)
    upright = (run[:-1] == 0) & (run[1:] == 0)
    level = (rise[:-1] == 0) & (rise[1:] == 0)
    keep = np.concatenate([[True], ~(upright | level), [True]])
    if keep_at is not None:
        keep[corner_at(curve.thresholds, keep_at)] = True
    return Corners(false[keep], true[keep], np.asarray(curve.thresholds[keep]))


def corner_at(thresholds: Floats, threshold: float) -> int:
    """Return which point calls those positive whose scores are at least a threshold.

    Thresholds (k,) fall from infinity, and hold every score, or every one that matters here.

    >>> corner_at(np.array([np.inf, 3.0, 2.0, 1.0]), 2.5), corner_at(np.array([np.inf, 3.0]), 4.0)
    (1, 0)
    """
    return int(np.count_nonzero(np.asarray(thresholds, np.float64) >= threshold)) - 1


def packed_corners(curves: Sequence[Corners]) -> dict[str, object]:
    """Return many curves as one compressed text, with what is needed to unpack it.

    The steps of both counts (uint32) and the thresholds (float32 if that is exact, or float64),
    all first bytes first, deflated, in base64. The first threshold of a curve, infinity, is there.
    """
    thresholds = np.concatenate([np.asarray(curve.thresholds, np.float64) for curve in curves])
    with np.errstate(over="ignore"):
        single = np.array_equal(thresholds, thresholds.astype(np.float32).astype(np.float64))
    parts = [
        np.concatenate([np.diff(curve.false, prepend=0) for curve in curves]).astype("<u4"),
        np.concatenate([np.diff(curve.true, prepend=0) for curve in curves]).astype("<u4"),
        thresholds.astype("<f4" if single else "<f8"),
    ]
    planes = [part.view(np.uint8).reshape(len(part), part.itemsize).T.tobytes() for part in parts]
    return {
        "lengths": [len(curve.false) for curve in curves],
        "bytes": 4 if single else 8,
        "data": base64.b64encode(zlib.compress(b"".join(planes), 9)).decode(),
    }


def _bands(models: pd.DataFrame, curves: Sequence[Corners]) -> tuple[Rows, Rows]:
    """Return ROC and precision-recall bands of each group and method.

    Precision is at the recall that the ROC curve reaches with the lowest FPR, in between as well.
    """
    bands, precision = [], []
    for _, own in models.groupby(["group", "number"], sort=False):
        drawn = [curves[index] for index in own["index"]]
        rocs = [each.curve for each in drawn]
        shares = [each.true[-1] / (each.true[-1] + each.false[-1]) for each in drawn]
        precisions = [
            share * RECALL / (share * RECALL + (1 - share) * np.asarray(roc.fpr_at(RECALL)))
            for share, roc in zip(shares, rocs, strict=True)
        ]
        group, method = (int(own[name].iloc[0]) for name in ("group", "number"))
        place = {"group": group, "method": method, "models": len(own)}
        bands.append(place | _spread([np.append(0.0, roc.tpr_at(GRID)) for roc in rocs]))
        precision.append(place | _spread(precisions))
    return bands, precision


def _spread(lines: Sequence[Floats]) -> dict[str, list[float]]:
    """Return mean, edges and standard deviation of lines at each of their places."""
    drawn = np.array(lines)
    found = {"mean": drawn.mean(0), "low": drawn.min(0), "high": drawn.max(0), "std": drawn.std(0)}
    return {name: _shorts(line) for name, line in found.items()}


def setting_number(value: Any) -> float | None:
    """Return a setting as a number to draw: of a density LOW:HIGH:HEIGHT its height at the top.

    >>> setting_number(0.5), setting_number("0:3:0.33"), setting_number("mean")
    (0.5, 0.33, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    with suppress(ValueError):
        _, _, height = map(float, str(value).split(":"))
        return height
    return None


def setting_panels(rows: Rows) -> Rows:
    """Return a panel for each group, method and setting that varies, with a fit a metric.

    Fits are of degree 2, or 1 where a setting has two values only.
    """
    together: dict[tuple[int, int], Rows] = {}
    for row in rows:
        together.setdefault((row["group"], row["method"]), []).append(row)
    panels = []
    for (group, method), own in together.items():
        for name in dict.fromkeys(name for row in own for name in row["settings"]):
            values = [row["settings"].get(name) for row in own]
            x = [setting_number(value) for value in values]
            if None in x or len(set(x)) < 2:
                continue
            dense = any(isinstance(value, str) for value in values)
            numbers = np.array(x, np.float64)
            panels.append(
                {
                    "group": group,
                    "method": method,
                    "setting": name,
                    "axis": f"{name}: height of its density at the top" if dense else name,
                    "x": _shorts(numbers),
                    "models": [row["index"] for row in own],
                    "fits": {
                        key: _fit(numbers, np.array([row[key] for row in own], np.float64))
                        for key in METRICS
                    },
                }
            )
    return panels


def _fit(x: Floats, y: Floats) -> dict[str, Any]:
    fit = polynomial_fit(x[:, None], y, min(2, len(np.unique(x)) - 1))
    along = np.linspace(x.min(), x.max(), FITTED)
    return {
        "x": _shorts(along),
        "y": [short(value, 6) for value in fit.at(along[:, None]).tolist()],
        "r2": None if np.isnan(fit.r2) else short(fit.r2, 4),
        "adjusted_r2": None if np.isnan(fit.adjusted_r2) else short(fit.adjusted_r2, 4),
    }


def _shorts(values: Floats) -> list[float]:
    return [short(value) for value in np.asarray(values, np.float64).tolist()]
