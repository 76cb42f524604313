"""The last touch on probabilities: a slope and offsets, learnt from rows that members left out."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from curvewise.base.errors import InputError, require_open

Floats = NDArray[np.float64]
STRENGTH = 5.0  # of the belief that nothing is to be changed, in units of log-likelihood
LEAST_SLOPE = 0.05  # above 0, so that every row keeps its place


class Recalibration(NamedTuple):
    """Log-probabilities (n, C), up to a constant, become ``slope * scores + offset``."""

    slope: float
    offset: Floats

    def __call__(self, scores: Floats) -> Floats:
        """Return the scores with slope and offset (C,)."""
        return scores * self.slope + self.offset


def fit_recalibration(
    scores: Floats, codes: NDArray[np.int64], weight: Floats | None = None
) -> Recalibration:
    r"""Return the slope a and the offsets b that make the labels most likely (Platt 1999).

    Weight decay leaves log-odds too flat, and few rows leave them too steep. One slope for all
    keeps the order of the rows. The penalty :math:`5 ((a-1)^2 + \sum_c b_c^2)` holds both near
    "change nothing" where there are few rows. Rows of NaN were not left out by any member; where
    those left out lack a class, nothing is changed.

    >>> scores = np.log(np.array([[0.8, 0.2], [0.4, 0.6]] * 50))
    >>> made = fit_recalibration(scores, np.array([0, 1] * 50))
    >>> bool(made.slope > 1.2)
    True
    """
    n_classes = int(codes.max()) + 1
    held = ~np.isnan(scores[:, 0])
    if len(np.unique(codes[held])) < n_classes:  # a class that is never seen would be ruled out
        return Recalibration(1.0, np.zeros(n_classes))
    own, labels = scores[held], codes[held]
    share = np.ones(len(own)) if weight is None else weight[held]
    own = own - own.mean(axis=1, keepdims=True)
    truth = np.eye(n_classes)[labels]

    def cost(values: Floats) -> tuple[float, Floats]:
        slope, offset = values[0], values[1:]
        logits = slope * own + offset
        peak = logits.max(axis=1, keepdims=True)
        log_sum = peak[:, 0] + np.log(np.exp(logits - peak).sum(axis=1))
        errors = share[:, None] * (softmax(logits, axis=1) - truth)
        gradient = np.array([(errors * own).sum(), *errors.sum(axis=0)])
        likelihood = (share * (log_sum - logits[np.arange(len(own)), labels])).sum()
        change = np.array([slope - 1, *offset])
        return float(likelihood + STRENGTH * change @ change), gradient + 2 * STRENGTH * change

    start = np.array([1.0, *np.zeros(n_classes)])
    bounds = [(LEAST_SLOPE, None)] + [(None, None)] * n_classes
    best = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Recalibration(float(best[0]), np.asarray(best[1:]))


def prior_shift(
    prior: float | Sequence[float] | None, class_counts: ArrayLike, rare: int = 1
) -> Floats:
    """Return what to add to log-probabilities (C,) for another prior than the training rows'.

    `class_counts` are those of the rows, or the sums of their weights. `prior` is the probability
    of the class `rare` of two, or of each class.

    >>> prior_shift(0.5, [75, 25]).round(2)
    array([-0.41,  0.69])
    """
    counts = np.asarray(class_counts, np.float64)
    if prior is None:
        return np.zeros(len(counts))
    if np.ndim(prior) == 0:
        if len(counts) != 2:
            raise InputError(f"prior must hold {len(counts)} probabilities, got {prior!r}")
        share = require_open("prior", prior, 0, 1)  # type: ignore[arg-type]
        wanted = np.where(np.arange(2) == rare, share, 1 - share)
    else:
        wanted = np.array([require_open("each prior", p, 0, 1) for p in prior])  # type: ignore[union-attr]
        if len(wanted) != len(counts) or abs(wanted.sum() - 1) > 1e-6:
            raise InputError(
                f"prior must hold {len(counts)} probabilities that sum to 1, got {wanted.tolist()}"
            )
    shift: Floats = np.log(wanted) - np.log(counts / counts.sum())
    return shift
