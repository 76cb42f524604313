r"""Loss landscapes as plain data: what the label of a sample costs at every pair of logits.

:math:`\ell_{VS}(1, z) - \ell_{VS}(0, z)` over the plane of logits, the line on which it is 0, and
the same against the softmax score (Lieberman et al. 2024, arXiv 2402.05400).
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from curvewise.base.errors import InputError, require_open
from curvewise.losses.landscape import BreakEven, break_even
from curvewise.losses.vector_scaling import vs_loss

Floats = NDArray[np.float64]

ON_THE_LINE = 1e-5  # as near as numbers of seven digits tell


@dataclass(frozen=True)
class Landscape:
    """What label 1 costs more than label 0, on a square of logits.

    ``difference[i, j]`` is at ``z1 = z[i]`` and ``z0 = z[j]``; `line` is where it is 0.
    """

    z: Floats
    difference: Floats
    line: BreakEven

    @property
    def reach(self) -> float:
        """The largest logit."""
        return float(self.z[-1])

    @property
    def limit(self) -> float:
        """The largest difference, whichever label costs more."""
        return float(np.abs(self.difference).max())


def loss_landscape(
    beta: float,
    *,
    omega: float = 0.5,
    gamma: float = 0.0,
    tau: float = 0.0,
    reach: float = 5.0,
    points: int = 41,
) -> Landscape:
    """Return the difference of `vs_loss` between the labels for z0, z1 in [-reach, reach].

    >>> found = loss_landscape(10, tau=1.0, points=3)
    >>> found.difference.round(2).tolist()
    [[1.15, 3.65, 6.15], [-1.35, 1.15, 3.65], [-3.85, -1.35, 1.15]]
    """
    require_open("reach", reach, 0, float("inf"))
    if points < 2:
        raise InputError(f"points must be at least 2, got {points}")
    line = break_even(beta, omega, gamma, tau)
    z = np.linspace(-reach, reach, points)
    z0, z1 = np.meshgrid(z, z)
    logits = np.stack([z0.ravel(), z1.ravel()], axis=-1)
    majority, minority = label_costs(logits, beta, omega=omega, gamma=gamma, tau=tau)
    return Landscape(z, (minority - majority).reshape(points, points), line)


def label_costs(
    logits: Floats,
    beta: float,
    *,
    omega: float = 0.5,
    gamma: float = 0.0,
    tau: float = 0.0,
) -> tuple[Floats, Floats]:
    """Return the losses of logits (n, 2) if all labels were 0, and if all were 1."""
    values = torch.from_numpy(np.asarray(logits, dtype=np.float64))
    costs = [
        vs_loss(
            values,
            torch.full((len(values),), label),
            class_counts=(beta, 1),
            omega=omega,
            gamma=gamma,
            tau=tau,
            reduction="none",
        ).numpy()
        for label in (0, 1)
    ]
    return costs[0], costs[1]


def separated(landscape: Landscape) -> tuple[int, int]:
    """Return for how many points off the line label 1 costs more below it and less above it.

    The second number is how many points are off the line. Below means ``z1`` too small for its
    ``z0``.

    >>> separated(loss_landscape(10, omega=0.9, points=5))
    (25, 25)
    """
    z0, z1 = np.meshgrid(landscape.z, landscape.z)
    below = landscape.line.slope * z0 + landscape.line.intercept - z1
    off = np.abs(below) > ON_THE_LINE
    agree = np.sign(below) == np.sign(landscape.difference)
    return int((agree & off).sum()), int(off.sum())


def weighted_cross_entropy(omega: float, p1: ArrayLike) -> tuple[Floats, Floats]:
    r"""Return :math:`-(1-\Omega)\log(1-p_1)` and :math:`-\Omega\log p_1`: what labels 0, 1 cost.

    `p1` is the softmax score of class 1, strictly between 0 and 1. This is `vs_loss` with gamma
    and tau 0, where beta does not matter as long as class 1 is the rarer.

    >>> [round(float(cost), 4) for cost in weighted_cross_entropy(0.9, 0.5)]
    [0.0693, 0.6238]
    """
    scores = np.asarray(p1, dtype=np.float64)
    if not ((scores > 0) & (scores < 1)).all():
        raise InputError(f"p1 must lie strictly between 0 and 1, got {p1!r}")
    log_odds = np.log(scores) - np.log1p(-scores)
    logits = np.stack([np.zeros(scores.size), log_odds.ravel()], axis=-1)
    majority, minority = label_costs(logits, 2, omega=omega)
    return majority.reshape(scores.shape), minority.reshape(scores.shape)


def break_even_score(beta: float, *, omega: float = 0.5, tau: float = 0.0) -> float:
    """Return the softmax score p1 at which both labels cost the same, with gamma 0.

    >>> round(break_even_score(10, tau=2.0), 4)
    0.9901
    """
    return score_of(break_even(beta, omega=omega, tau=tau).intercept)


def score_of(log_odds: float) -> float:
    """Return the softmax score of class 1 where ``z1 - z0`` is `log_odds`."""
    return float(1 / (1 + np.exp(-log_odds)))
