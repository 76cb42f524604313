"""Many classes: one against the rest, and their mean. Many models: their scores as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from curvewise.base.errors import InputError, require_choice
from curvewise.roc.curve import RocBand, RocCurve, roc_band, roc_curve
from curvewise.roc.inputs import Labels, Scores, to_array

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class ManyCurves:
    """A ROC curve for each class against the rest.

    `macro` is the mean of the curves over the classes (at equal FPR), `macro_auc` the mean of
    their areas: each class counts the same, however rare.
    """

    classes: tuple[Any, ...]
    curves: tuple[RocCurve, ...]

    @property
    def areas(self) -> dict[Any, float]:
        """The area of each class's curve."""
        return {c: curve.auc for c, curve in zip(self.classes, self.curves, strict=True)}

    @property
    def macro_auc(self) -> float:
        """The mean area over the classes."""
        return float(np.mean([curve.auc for curve in self.curves]))

    @property
    def macro(self) -> RocBand:
        """The mean curve, with the lowest and highest of the classes."""
        return roc_band(self.curves)


def one_vs_rest(y: Labels, scores: Scores, *, classes: Sequence[Any] | None = None) -> ManyCurves:
    """Return the ROC curve of each class against the rest.

    `scores` (n, C) has a column for each of `classes` (default: the labels in sorted order), higher
    for rows of that class. Every class must occur in y, and not in every row.

    >>> found = one_vs_rest(["a", "b", "c"], np.eye(3))
    >>> found.macro_auc
    1.0
    """
    labels, table = to_array(y), to_array(scores)
    if labels.ndim != 1 or table.ndim != 2 or len(labels) != len(table):
        raise InputError(
            f"y must have shape (n,) and scores (n, C), got {labels.shape} and {table.shape}"
        )
    names = np.unique(labels) if classes is None else np.asarray(classes)
    if len(names) != table.shape[1]:
        raise InputError(
            f"scores must have a column for each of {len(names)} classes, got {table.shape[1]}"
        )
    for name in names:
        if not (labels == name).any() or (labels == name).all():
            raise InputError(f"every class must occur in y beside others, got class {name!r}")
    curves = tuple(
        roc_curve(labels == name, column) for name, column in zip(names, table.T, strict=True)
    )
    return ManyCurves(tuple(names.tolist()), curves)


def macro_auc(y: Labels, scores: Scores, *, classes: Sequence[Any] | None = None) -> float:
    """Return the mean over classes of the AUC of one against the rest.

    >>> macro_auc([0, 1, 2, 2], np.array([[3, 1, 0], [0, 2, 1], [0, 1, 2], [1, 0, 2]]))
    1.0
    """
    return one_vs_rest(y, scores, classes=classes).macro_auc


def accuracy_by_frequency(
    y: ArrayLike, predicted: ArrayLike, class_counts: Sequence[float], parts: int = 3
) -> list[float]:
    """Return the mean recall of classes by thirds of frequency: head, middle, tail.

    Labels are 0 .. C-1; classes are ordered by their training counts, most frequent first, and
    divided as evenly as can be. Each class counts the same.

    >>> accuracy_by_frequency([0, 0, 1, 2], [0, 1, 1, 0], class_counts=[100, 10, 1])
    [0.5, 1.0, 0.0]
    """
    labels, answers = np.asarray(y), np.asarray(predicted)
    if labels.shape != answers.shape or labels.ndim != 1:
        raise InputError(
            f"y and predicted must have one shape (n,), got {labels.shape} and {answers.shape}"
        )
    order: NDArray[np.intp] = np.argsort(-np.asarray(class_counts, float), kind="stable")
    if len(order) < parts:
        raise InputError(f"there must be {parts} classes or more, got {len(order)}")
    recalls = {c: np.mean(answers[labels == c] == c) for c in order if (labels == c).any()}
    if len(recalls) < len(order):
        raise InputError("every class must occur in y, got one that does not")
    return [float(np.mean([recalls[c] for c in part])) for part in np.array_split(order, parts)]


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
