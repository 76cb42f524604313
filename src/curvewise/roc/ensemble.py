"""Many models as one score."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from curvewise.base.errors import InputError, require_choice
from curvewise.roc.inputs import Scores, to_array

Doubles = NDArray[np.float64]


def ensemble_score(scores: Scores, method: str = "standardised") -> Doubles:
    """Combine the scores (K, n) of K models for the same n samples into one score (n,).

    "standardised" is the mean over models of ``(score - mean) / std``, mean and (population)
    std being the model's own over the n samples: models whose logits are shifted or stretched
    count alike, and a model that says the same of every sample counts 0. "rank" is the mean over
    models of ``(rank - 1/2) / n`` in (0, 1), ties sharing their average rank: only the order
    matters that a model puts the samples in.

    Either way a sample's value depends on the other samples, so score a whole set at once.
    Works in float64, one model at a time: memory grows with n, not with K n.

    >>> ensemble_score([[0.0, 1.0, 2.0], [10.0, 30.0, 20.0]], "rank")
    array([0.16666667, 0.66666667, 0.66666667])
    """
    require_choice("method", method, ("standardised", "rank"))
    members = _members(scores)
    total = np.zeros(members.shape[1])
    for number, member in enumerate(members):
        score = _finite(number, member)
        total += _standardised(score) if method == "standardised" else rankdata(score) - 0.5
    # Ranks are scaled last: their sums are exact, and samples that tie stay tied.
    return total / (len(members) if method == "standardised" else members.size)


def _members(scores: ArrayLike) -> NDArray[Any]:
    try:
        members = to_array(scores)
    except ValueError:  # lists of unequal lengths
        raise InputError("scores must have shape (K, n), got rows of unequal lengths") from None
    if members.ndim != 2 or 0 in members.shape:
        raise InputError(f"scores must have shape (K, n), none of them 0, got {members.shape}")
    if members.dtype.kind not in "biuf":
        raise InputError(f"scores must hold numbers, got dtype {members.dtype}")
    return members


def _finite(number: int, member: NDArray[Any]) -> Doubles:
    """Return a copy of the scores of one model in float64."""
    finite = np.isfinite(member)
    if not finite.all():
        first = int(np.argmin(finite))
        raise InputError(
            f"scores must be finite, got {member[first]} of model {number} at position {first}"
        )
    return member.astype(np.float64)


def _standardised(score: Doubles) -> Doubles:
    # Brought to [0, 1] first: neither a large offset nor large values cost digits or overflow.
    score /= np.abs(score).max() or 1.0
    score -= score.min()
    width = score.max()
    if width == 0:
        return score
    score /= width
    score -= score.mean()
    score /= score.std()
    return score
