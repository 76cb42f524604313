"""What the settings of many models did: a panel a setting, with its fit and R2."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from curvewise.roc.metrics import short
from curvewise.stats.variance import polynomial_fit

METRICS = (
    ("auc", "AUC"),
    ("tpr_01", "TPR at FPR 1 %"),
    ("tpr_zero", "TPR at threshold 0"),
    ("fpr_zero", "FPR at threshold 0"),
)
POINTS = 31


def setting_number(value: Any) -> float | None:
    """Return a setting as a number to draw: of a density LOW:HIGH:HEIGHT its height at the top.

    >>> setting_number(0.5), setting_number("0:3:0.33"), setting_number("mean")
    (0.5, 0.33, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    try:
        numbers = [float(part) for part in str(value).split(":")]
    except ValueError:
        return None
    return numbers[-1] if len(numbers) == 3 else None


def axis_name(name: str, values: Sequence[Any]) -> str:
    """Return what the axis of a setting says: of densities, what was taken of them."""
    dense = any(isinstance(value, str) for value in values)
    return f"{name}: height of its density at the top" if dense else name


def setting_panels(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a panel for each group, method and setting that varies, with a fit a metric.

    Rows have `group`, `method`, `settings` and the metrics. Fits are of degree 2, or 1 where a
    setting has two values only.
    """
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["group"], row["method"]), []).append(row)
    panels = []
    for (group, method), own in groups.items():
        for name in dict.fromkeys(name for row in own for name in row["settings"]):
            values = [row["settings"].get(name) for row in own]
            x = [setting_number(value) for value in values]
            if None in x or len(set(x)) < 2:
                continue
            numbers = np.array(x, np.float64)
            panels.append(
                {
                    "group": group,
                    "method": method,
                    "setting": name,
                    "axis": axis_name(name, values),
                    "x": [short(value) for value in numbers.tolist()],
                    "models": [row["index"] for row in own],
                    "fits": {key: _fit(numbers, own, key) for key, _ in METRICS},
                }
            )
    return panels


def _fit(x: np.ndarray, rows: Sequence[dict[str, Any]], key: str) -> dict[str, Any]:
    y = np.array([row[key] for row in rows], np.float64)
    fit = polynomial_fit(x[:, None], y, min(2, len(np.unique(x)) - 1))
    along = np.linspace(x.min(), x.max(), POINTS)
    return {
        "x": [short(value) for value in along.tolist()],
        "y": [short(value, 6) for value in fit.at(along[:, None]).tolist()],
        "r2": None if np.isnan(fit.r2) else short(fit.r2, 4),
        "adjusted_r2": None if np.isnan(fit.adjusted_r2) else short(fit.adjusted_r2, 4),
    }
