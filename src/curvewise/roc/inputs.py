"""Labels and scores as arrays: checked once, the same way for every statistic."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from curvewise.base.errors import InputError

Floats = NDArray[np.floating[Any]]
Labels = ArrayLike | torch.Tensor
Scores = ArrayLike | torch.Tensor


class Scored(NamedTuple):
    """Checked input: who is positive, the scores, and weights if there are any."""

    positive: NDArray[np.bool_]
    score: Floats
    weight: Floats | None

    def at_least(self, threshold: float) -> NDArray[np.bool_]:
        """Who is called positive; compared in float64, whatever the scores are."""
        if isinstance(threshold, str) or threshold is None or np.isnan(threshold):
            raise InputError(f"threshold must be a number, got {threshold!r}")
        return np.asarray(self.score.astype(np.float64) >= float(threshold))

    @property
    def positives(self) -> Floats:
        """Scores of the positive samples."""
        return self.score[self.positive]

    @property
    def negatives(self) -> Floats:
        """Scores of the negative samples."""
        return self.score[~self.positive]


def check_scored(y: Labels, score: Scores, weight: Scores | None = None) -> Scored:
    """Return labels and scores as arrays, or raise with the first thing that is wrong.

    `y` holds 0 and 1 (or booleans), both of them; `score` finite numbers, higher for class 1;
    `weight`, if given, finite numbers >= 0 that leave weight in both classes.
    """
    labels, scores = to_array(y), to_array(score)
    if labels.ndim != 1 or scores.ndim != 1 or len(labels) != len(scores):
        raise InputError(
            f"y and score must be lists of the same length, got shapes {labels.shape} "
            f"and {scores.shape}"
        )
    if len(labels) == 0:
        raise InputError("y and score must not be empty, got length 0")
    positive = _positive(labels)
    scores = _finite("score", scores)
    if weight is None:
        return Scored(positive, scores, None)
    weights = _finite("weight", to_array(weight)).astype(np.float64)
    if weights.shape != scores.shape:
        raise InputError(f"weight must have shape {scores.shape}, got {weights.shape}")
    if weights.min() < 0:
        raise InputError(f"weight must be >= 0, got {weights.min():g}")
    if weights[positive].sum() == 0 or weights[~positive].sum() == 0:
        raise InputError("weight must be positive for some sample of each class, got 0 for all")
    there = weights > 0  # a sample of weight 0 is not there
    return Scored(positive[there], scores[there], weights[there])


def to_array(values: ArrayLike | torch.Tensor) -> NDArray[Any]:
    """Return a list, array, Series or tensor (on any device) as an array."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        if values.dtype == torch.bfloat16:
            values = values.float()
        return values.numpy()
    return np.asarray(values)


def _positive(labels: NDArray[Any]) -> NDArray[np.bool_]:
    positive = labels if labels.dtype == np.bool_ else labels == 1
    if not isinstance(positive, np.ndarray):  # strings do not even compare
        raise InputError(f"y must hold only 0 and 1, got {labels[0].item()!r} at position 0")
    n_positive = int(np.count_nonzero(positive))
    if n_positive + int(np.count_nonzero(labels == 0)) != len(labels):
        first = int(np.argmax((labels != 0) & (labels != 1)))
        raise InputError(
            f"y must hold only 0 and 1, got {labels[first].item()!r} at position {first}"
        )
    if n_positive in (0, len(labels)):
        raise InputError(
            f"y must hold both classes, got only {int(n_positive > 0)} ({len(labels)} samples)"
        )
    return positive


def _finite(name: str, values: NDArray[Any]) -> Floats:
    if values.dtype.kind in "biu":
        return values.astype(np.float64)
    if values.dtype.kind != "f":
        raise InputError(f"{name} must hold numbers, got dtype {values.dtype}")
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    finite = np.isfinite(values)
    if not finite.all():
        first = int(np.argmin(finite))
        raise InputError(f"{name} must be finite, got {values[first]} at position {first}")
    return values
