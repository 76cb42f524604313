"""The threshold that a model's scores are compared with: which it is, and where it comes from."""

import math
import warnings
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import Any

import numpy as np
from torch import Tensor

from curvewise.base.errors import require, require_number
from curvewise.roc.curve import RocCurve
from curvewise.roc.operating import threshold_by_rule
from curvewise.training.model import Model

RULES = {"max_fpr": "FPR at most", "min_tpr": "TPR at least", "cost_ratio": "a cost ratio of"}


def remember_test(model: Model, test: Any, rule: dict[str, float] | None) -> None:
    """Keep in a model's record the curve of its `Evaluation`, and the point that a rule chose."""
    curve, point, part = test.curve, test.point, model.record["measured_on"]
    model.record["test_roc"] = {
        "fpr": curve.fpr.tolist(),
        "tpr": curve.tpr.tolist(),
        "thresholds": [None, *curve.thresholds[1:].tolist()],  # JSON has no infinity, the first
    }
    if not rule:
        return
    reached = math.isfinite(point.threshold)
    if not reached:
        warnings.warn(
            f"by {rule_text(rule)} on the {part} nothing is called positive, nor will predict",
            stacklevel=2,
        )
    model.record["operating_point"] = {
        "rule": rule,
        "lambda": own_lambda_values(model),
        "measured_on": part,
        "threshold": point.threshold if reached else None,
        "tpr": point.tpr,
        "fpr": point.fpr,
    }


def trained_point(model: Model) -> dict[str, Any] | None:
    """Return what `remember_test` kept of the operating point that train chose, if it did.

    Its threshold is infinity where nothing is called positive.
    """
    point: dict[str, Any] | None = model.record.get("operating_point")
    return {**point, "threshold": math.inf} if point and point["threshold"] is None else point


def find_threshold(
    model: Model, lam: Tensor, threshold: float | None, rule: dict[str, float] | None
) -> tuple[float, str]:
    """Return the threshold to use, and whose choice it is.

    It is the one given, or of a rule; else the one that training chose, or 0. `rule` (max_fpr or
    min_tpr) is kept on the model's test part. That and the choice of training are for the model's
    own lambda, not for another `lam` (1, d).
    """
    if threshold is not None:
        return require_number("threshold", threshold, -math.inf), "given"
    own_lambda = lam.tolist() == model.lam().tolist()
    tested: Any = model.record.get("test_roc")
    if rule:
        require(
            own_lambda,
            "--max-fpr and --min-tpr know thresholds at the model's own lambda, got --tau too: "
            "choose a --threshold by curvewise evaluate",
        )
        require(
            tested,
            "--max-fpr and --min-tpr need a model that was tested by curvewise train, got one "
            "without a test part: give a --threshold",
        )
        thresholds = np.array([math.inf, *tested["thresholds"][1:]])
        curve = RocCurve(np.array(tested["fpr"]), np.array(tested["tpr"]), thresholds)
        part = model.record.get("measured_on", "test part")
        value = short_threshold(threshold_by_rule(curve, **rule))
        return value, f"{rule_text(rule)} on the model's {part}"
    point = trained_point(model)
    if point is None:
        hint = "--max-fpr" if tested else "--threshold"
        at = _text(own_lambda_values(model))
        return 0.0, f"the default{' at ' * bool(at)}{at}; {hint} chooses another"
    origin = f"{rule_text(point['rule'])} on the model's {point['measured_on']}, by train"
    if not own_lambda:
        return 0.0, f"the default; that of {origin} is for {_text(point['lambda'])}"
    return short_threshold(point["threshold"]), origin


def own_lambda_values(model: Model) -> dict[str, float]:
    """Return by name the values of the model's own lambda, the top of each range."""
    return dict(zip(model.objective.drawn, model.lam()[0].tolist(), strict=True))


def short_threshold(threshold: float) -> float:
    """Return the shortest number that calls the same float32 scores positive; it is not higher."""
    if not math.isfinite(threshold):
        return threshold
    with np.errstate(over="ignore"):  # of what is larger than any float32
        below = np.float32(threshold)
        if float(below) >= threshold:
            below = np.nextafter(below, np.float32(-np.inf))
    for digits in range(1, 17):
        for rounding in (ROUND_HALF_EVEN, ROUND_FLOOR):
            context = Context(prec=digits, rounding=rounding)
            rounded = float(context.create_decimal_from_float(threshold))
            if float(below) < rounded <= threshold:
                return rounded
    return threshold


def threshold_text(threshold: float) -> str:
    """Return a threshold for people, with all the digits that its calls need: '6.8610935', '2'."""
    return repr(short_threshold(threshold)).removesuffix(".0")


def rule_text(rule: dict[str, float]) -> str:
    """Return a rule for people: 'FPR at most 0.05'."""
    return " and ".join(f"{RULES[name]} {value:g}" for name, value in rule.items())


def _text(values: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in values.items())
