"""What scores are worth by rows that were left out, and how much each then counts."""

import numpy as np
from numpy.typing import NDArray

from curvewise.roc.curve import auc
from curvewise.roc.many import macro_auc

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
SHARPNESS = 0.01  # the AUC by which a group must be worse to count e times less


def merit(y: Codes, scores: Floats) -> float:
    """Return the AUC of scores (n, C); of more classes the mean AUC of one against the rest."""
    if scores.shape[1] == 2:
        return auc(y, scores[:, 1] - scores[:, 0])
    logs = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    return macro_auc(y, logs)


def shares(merit: Floats) -> Floats:
    """Return exp(merit / 0.01), 1 in sum.

    >>> shares(np.array([0.9, 0.9])).tolist()
    [0.5, 0.5]
    """
    weights = np.exp((merit - merit.max()) / SHARPNESS)
    return np.asarray(weights / weights.sum())
