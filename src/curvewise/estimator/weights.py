"""Labels, sample weights and groups as users give them, checked."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from curvewise.base.errors import InputError

Array = NDArray[Any]


def checked_labels(y: Any) -> Array:
    """Return labels (n,), none of them missing; a column (n, 1) is taken with a warning."""
    labels: Array = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        raise InputError(f"y must hold a label in every row, got none in row {missing[0]}")
    try:
        np.unique(labels)
    except TypeError:  # they cannot be sorted
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise InputError(f"y must hold labels of one type, got {', '.join(kinds)}") from None
    check_classification_targets(labels)
    return labels


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
    codes, _ = pd.factorize(given)
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise InputError(f"groups must name one in every row, got none in row {missing[0]}")
    return np.asarray(codes)
