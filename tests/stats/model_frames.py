"""Frames of models for tests."""

import numpy as np
import pandas as pd

from curvewise import auc


def area_frame(cells, **columns):
    """Return models of cells (task, beta, seed, {method: areas}); None is a diverged model."""
    rows = [
        {"task": task, "beta": beta, "seed": seed, "method": method, "auc": area, **columns}
        for task, beta, seed, methods in cells
        for method, areas in methods.items()
        for area in areas
    ]
    return pd.DataFrame(rows).astype({"auc": float, "beta": float})


def scored_frame(cells, settings=None):
    """Return models of cells (task, beta, seed, y, {method: scores (K, n)})."""
    rows = []
    for task, beta, seed, y, methods in cells:
        for method, scores in methods.items():
            for row, score in enumerate(np.asarray(scores, np.float32)):
                place = {"task": task, "beta": beta, "seed": seed, "method": method}
                own = settings[row] if settings else {}
                rows.append({**place, **own, "auc": auc(y, score), "y": y, "score": score})
    return pd.DataFrame(rows).astype({"beta": float})
