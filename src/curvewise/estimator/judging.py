"""What members are worth, by the rows that they left out."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from curvewise.estimator.ensemble import Ensemble
from curvewise.estimator.merit import SHARPNESS, merit, shares
from curvewise.estimator.scoring import Reader

Array = NDArray[Any]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def judge(
    made: Ensemble, x: Array, y: Codes, fold: Codes, left_out: Codes, group_of: Codes
) -> None:
    """Set the networks' merit, and the ensemble's scores of rows by members that left them out.

    `left_out` (K,) is the fold that a network did not see, `group_of` (K,) whom it is judged with.
    """
    n_groups, n_classes = int(group_of.max()) + 1, int(y.max()) + 1
    sums = np.zeros((n_groups, len(y), n_classes))
    seen = np.zeros((n_groups, len(y), 1))
    for number in np.unique(left_out):
        members, rows = np.flatnonzero(left_out == number), np.flatnonzero(fold == number)
        reader = Reader(
            [made.networks[k] for k in members],
            [made.readout(int(k)) for k in members],
            made.normalization,
        )
        for k, own in zip(members, reader.each(x[rows]), strict=True):
            sums[group_of[k], rows] += own
            seen[group_of[k], rows] += 1
    there = np.flatnonzero(seen.sum((1, 2)))  # groups that have members
    judged = (seen[there] > 0).all((0, 2))
    scores = sums[:, judged] / np.maximum(seen[:, judged], 1)
    labels = y[judged]
    if len(np.unique(labels)) < n_classes:
        return
    merits = np.full(n_groups, -np.inf)
    merits[there] = [merit(labels, scores[group]) for group in there]
    made.merit = merits[group_of]
    sizes = np.bincount(group_of, minlength=n_groups)
    weights = shares(merits[there]) * sizes[there]
    made.out_of_fold[judged] = np.tensordot(weights / weights.sum(), scores[there], 1)


def joined(before: Ensemble | None, made: Ensemble) -> Ensemble:
    """Return an ensemble of both, which count by their numbers of members.

    Their merits were measured on different rows, so they cannot be compared.
    """
    if before is None:
        return made
    added = made.n_members - before.n_members
    merits = np.concatenate([_per(before.n_members, before.merit), _per(added, made.merit)])
    first = float(shares(merits)[: len(before.merit)].sum())
    old, new = before.out_of_fold, made.out_of_fold
    if old.shape == new.shape:
        mixed = first * old + (1 - first) * new
        made.out_of_fold = np.where(np.isnan(mixed), np.where(np.isnan(old), new, old), mixed)
    made.networks = before.networks + made.networks
    made.families = before.families + made.families
    made.class_counts = before.class_counts + made.class_counts
    made.oversampling = before.oversampling + made.oversampling
    made.merit = merits
    made.trees = copy(before.trees)  # weighed anew: what was fitted before must stay as it is
    return made


def _per(members: int, merit: Floats) -> Floats:
    """Return merits shifted so that what they are worth sums up to the number of members."""
    return np.asarray(merit - SHARPNESS * (logsumexp(merit / SHARPNESS) - np.log(members)))
