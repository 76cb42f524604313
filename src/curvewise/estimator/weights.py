"""Sample weights and groups as users give them, checked."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from curvewise.errors import InputError

Array = NDArray[Any]


def checked_weight(sample_weight: Any, x: Any) -> NDArray[np.float64] | None:
    """Return weights (n,) with a mean of 1 over the rows, or None for equal ones."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise InputError("sample_weight must be above 0 in some row, got 0 in all")
    scaled: NDArray[np.float64] = weight / weight[weight > 0].mean()
    return scaled


def checked_groups(groups: Any, n: int) -> Array | None:
    """Return the group of each of n rows as numbers, or None."""
    if groups is None:
        return None
    given = np.asarray(groups)
    if given.shape != (n,):
        raise InputError(f"groups must have shape ({n},), got {given.shape}")
    return np.unique(given, return_inverse=True)[1]
