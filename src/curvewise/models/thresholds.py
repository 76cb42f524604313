"""The threshold that a model's scores are compared with: which it is, and where it comes from."""

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import Any

import numpy as np

from curvewise.base.errors import InputError, require_number
from curvewise.training.model import Model

RULES = {"max_fpr": "FPR at most", "min_tpr": "TPR at least", "cost_ratio": "a cost ratio of"}


@dataclass(frozen=True)
class Threshold:
    """What a score must reach to be called positive, and whose choice that is."""

    value: float
    origin: str


def find_threshold(
    model: Model,
    *,
    own_lambda: bool = True,
    threshold: float | None = None,
    max_fpr: float | None = None,
    min_tpr: float | None = None,
) -> Threshold:
    """Return the threshold of at most one rule; without any, the one that training chose, or 0.

    `max_fpr` and `min_tpr` are kept on the model's test part. Both, and the choice of training,
    are for the model's own lambda (`own_lambda`).
    """
    rules = {"threshold": threshold, "max_fpr": max_fpr, "min_tpr": min_tpr}
    given = {name: value for name, value in rules.items() if value is not None}
    require_one(given, rules)
    if threshold is not None:
        return Threshold(require_number("threshold", threshold, -math.inf), "given")
    if given:
        if not own_lambda:
            raise InputError(
                "--max-fpr and --min-tpr know thresholds at the model's own lambda, got --tau "
                "too: choose a --threshold by curvewise evaluate"
            )
        part = model.record.get("measured_on", "test part")
        return Threshold(_on_test_part(model, **given), f"{rule_text(given)} on the model's {part}")
    chosen = model.record.get("operating_point")
    if chosen is None:
        hint = "--max-fpr" if "test_roc" in model.record else "--threshold"
        return Threshold(0.0, f"the default{_at(model)}; {hint} chooses another")
    origin = f"{rule_text(chosen['rule'])} on the model's {chosen['measured_on']}, by train"
    if not own_lambda:
        return Threshold(0.0, f"the default; that of {origin} is for {_text(chosen['lambda'])}")
    value = chosen["threshold"]
    return Threshold(math.inf if value is None else short_threshold(value), origin)


def require_one(given: dict[str, Any], options: Any) -> None:
    """Raise `InputError` if more than one of these options is given."""
    if len(given) > 1:
        names = [f"--{name.replace('_', '-')}" for name in options]
        found = " and ".join(
            f"--{name.replace('_', '-')} {value:g}" for name, value in given.items()
        )
        raise InputError(f"one of {', '.join(names)} can be given, got {found}")


def short_threshold(threshold: float) -> float:
    """Return the shortest number that calls the same float32 scores positive; it is not higher.

    >>> short_threshold(float(np.float32(6.8610935))), short_threshold(0.0)
    (6.8610935, 0.0)
    """
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
    """Return a threshold for people, with all the digits that its calls need.

    >>> threshold_text(2.0), threshold_text(float(np.float32(6.8610935)))
    ('2', '6.8610935')
    """
    return repr(short_threshold(threshold)).removesuffix(".0")


def _on_test_part(model: Model, *, max_fpr: float | None = None, min_tpr: float = 0.0) -> float:
    """Return the threshold that `choose_operating_point` would choose on the model's test part."""
    corners = model.record.get("test_roc")
    if corners is None:
        raise InputError(
            "--max-fpr and --min-tpr need a model that was tested by curvewise train, got one "
            "without a test part: give a --threshold"
        )
    fpr, tpr = np.array(corners["fpr"]), np.array(corners["tpr"])
    if max_fpr is not None:
        allowed = fpr <= require_number("max_fpr", max_fpr, 0, 1)
    else:
        enough = tpr >= require_number("min_tpr", min_tpr, 0, 1)
        allowed = fpr == fpr[enough].min()
    best = int(np.argmax(np.where(allowed, tpr, -1.0)))  # of equals the highest threshold
    # The first corner calls nothing positive: its threshold is +inf, which JSON does not have.
    return math.inf if best == 0 else short_threshold(float(corners["thresholds"][best]))


def rule_text(rule: dict[str, float]) -> str:
    """Return a rule for people.

    >>> rule_text({"max_fpr": 0.05})
    'FPR at most 0.05'
    """
    return " and ".join(f"{RULES[name]} {value:g}" for name, value in rule.items())


def _at(model: Model) -> str:
    names = model.objective.drawn
    values = dict(zip(names, model.lam()[0].tolist(), strict=True))
    return f" at {_text(values)}" if values else ""


def _text(values: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in values.items())
