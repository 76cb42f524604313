r"""What training with the vector-scaling loss does to logits: landscape, break-even, calibration.

For two classes (0 the majority, 1 the minority) all read off
:math:`\alpha = z_1/\beta^\gamma - z_0 - \tau\log\beta`. A landscape is
:math:`\ell_{VS}(1, z) - \ell_{VS}(0, z)` over the plane of logits; it is 0 on the break-even line
(Lieberman et al. 2024, arXiv 2402.05400).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, log1p
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor

from curvewise.base.errors import INFINITY, require, require_number, require_open, require_whole
from curvewise.losses.factors import ClassWeights, Hyperparameter, check_class_counts, class_factors
from curvewise.losses.vector_scaling import VSLoss, at_least_float32, check_logits, checked_settings

Floats = NDArray[np.float64]
Logit = TypeVar("Logit", float, Tensor, NDArray[np.floating])


@dataclass(frozen=True)
class BreakEven:
    """The line ``z1 = slope * z0 + intercept`` on which both labels cost the same."""

    alpha: float
    slope: float
    intercept: float

    def z1(self, z0: Logit) -> Logit:
        """Return the z1 at which a sample with this z0 has the same loss under both labels."""
        return self.slope * z0 + self.intercept


def break_even(beta: float, omega: float = 0.5, gamma: float = 0.0, tau: float = 0.0) -> BreakEven:
    r"""Find the logits whose loss is the same under both labels.

    They satisfy :math:`z_1 = \beta^\gamma (z_0 + \tau\log\beta + \alpha_\Omega)`, where
    :math:`\alpha_\Omega` is the root of
    :math:`\Omega\log(1+e^{-\alpha}) = (1-\Omega)\log(1+e^\alpha)`, found to 1e-12. At
    ``beta = 1`` there is no minority, the weights are equal and alpha is 0, as in `vs_loss`.

    >>> break_even(beta=10, tau=2.0).z1(0.0)
    4.605170185988092
    """
    beta = require_number("beta", beta, 1)
    omega = require_open("omega", omega, 0, 1)
    gamma = require_number("gamma", gamma, 0)
    tau = require_number("tau", tau, 0)
    alpha = 0.0 if beta == 1 else _equal_cost(omega)
    slope = beta**gamma
    return BreakEven(alpha=alpha, slope=slope, intercept=slope * (tau * log(beta) + alpha))


def _equal_cost(omega: float) -> float:
    """Return alpha_Omega; between 0 and logit(omega) the costs change order exactly once."""

    def log_cost_ratio(alpha: float) -> float:
        # In logs, so that tiny weights and tiny losses keep all their digits.
        return log(omega) + log(_softplus(-alpha)) - log1p(-omega) - log(_softplus(alpha))

    if omega == 0.5:
        return 0.0
    logit = log(omega) - log1p(-omega)
    low, high = min(logit, 0.0) - 1e-3, max(logit, 0.0) + 1e-3
    return float(brentq(log_cost_ratio, low, high, xtol=1e-14, rtol=1e-15, maxiter=200))


def _softplus(value: float) -> float:
    return max(value, 0.0) + log1p(float(np.exp(-abs(value))))


@dataclass(frozen=True)
class Landscape:
    """What label 1 costs more than label 0, on a square of logits.

    ``difference[i, j]`` is at ``z1 = z[i]`` and ``z0 = z[j]``; `line` is where it is 0.
    """

    z: Floats
    difference: Floats
    line: BreakEven


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
    require_open("reach", reach, 0, INFINITY)
    require_whole("points", points, 2)
    line = break_even(beta, omega, gamma, tau)
    z = np.linspace(-reach, reach, points)
    z0, z1 = np.meshgrid(z, z)
    logits = torch.from_numpy(np.stack([z0.ravel(), z1.ravel()], axis=-1))
    loss = VSLoss((beta, 1), omega, gamma, tau, reduction="none")
    majority = torch.zeros(len(logits), dtype=torch.int64)
    difference = (loss(logits, majority + 1) - loss(logits, majority)).numpy()
    return Landscape(z, difference.reshape(points, points), line)


def calibrated_log_odds(
    logits: Tensor,
    *,
    class_counts: Sequence[float] | Tensor,
    omega: Hyperparameter | ClassWeights,
    gamma: Hyperparameter,
    tau: Hyperparameter,
    prior: float | Sequence[float] | None = None,
) -> Tensor:
    r"""Turn logits of a model trained with the vector-scaling loss into calibrated log-odds.

    Weights and shifts bias the logits in a known way: where the loss is minimal, the softmax of
    :math:`\Delta_c z_c + \iota_c` is proportional to :math:`\omega_c P(c|x)`. Undoing that gives,
    for two classes, :math:`\mathrm{logit}\,p = \alpha - \log(\omega/(1-\omega))`.

    Two classes give the log-odds of class 1, shape (..., n); more give log-probabilities,
    (..., n, C). Log-odds rank and threshold without rounding, where probabilities near 1 tie.
    `prior` is P(class 1) where the model will be used (for more classes: one value per class);
    left out, it is the training set's own.

    The reductions "mean" and "expected_mean" train towards this minimum. "weighted_mean" divides
    by each batch's own weight sum, which shrinks the weight of a rare sample whenever it is
    there: at beta = 100, omega = 0.99 and batches of 128, log-odds come out 0.42 too low.

    >>> import torch
    >>> at = dict(class_counts=(100, 1), omega=0.5, gamma=0.0, tau=1.0)
    >>> calibrated_log_odds(torch.tensor([[0.0, 0.0]]), **at)
    tensor([-4.6052])
    """
    counts = check_class_counts(class_counts)
    check_logits(logits, len(counts))
    settings = checked_settings(omega, gamma, tau, logits.shape)
    logits = at_least_float32(logits)
    factors = class_factors(counts, settings, logits)
    require(
        (factors.weight > 0).all(),
        "omega must lie strictly between 0 and 1: a class of weight 0 has no probability, "
        f"got {omega}",
    )
    log_odds = logits * factors.scale + factors.shift - factors.weight.log()
    if prior is not None:
        log_odds = log_odds + _prior_shift(prior, counts).to(logits)
    if len(counts) == 2:
        return log_odds[..., 1] - log_odds[..., 0]
    return torch.log_softmax(log_odds, dim=-1)


def calibrated_probability(
    logits: Tensor,
    *,
    class_counts: Sequence[float] | Tensor,
    omega: Hyperparameter | ClassWeights,
    gamma: Hyperparameter,
    tau: Hyperparameter,
    prior: float | Sequence[float] | None = None,
) -> Tensor:
    """Return `calibrated_log_odds` as probabilities.

    Two classes give P(class 1) of shape (..., n); more give all probabilities, (..., n, C).

    >>> import torch
    >>> at = dict(class_counts=(100, 1), omega=0.5, gamma=0.0, tau=1.0)
    >>> calibrated_probability(torch.tensor([[0.0, 0.0]]), **at)
    tensor([0.0099])
    """
    log_odds = calibrated_log_odds(
        logits, class_counts=class_counts, omega=omega, gamma=gamma, tau=tau, prior=prior
    )
    return torch.sigmoid(log_odds) if log_odds.dim() < logits.dim() else torch.exp(log_odds)


def _prior_shift(prior: float | Sequence[float], counts: tuple[float, ...]) -> Tensor:
    """Return log(prior / training frequency) per class."""
    if len(counts) == 2 and not isinstance(prior, Sequence):
        positive = require_open("prior", prior, 0, 1)
        prior = [1 - positive, positive]
    values = prior if isinstance(prior, Sequence) else []
    values = [require_open("each prior", value, 0, 1) for value in values]
    fits = len(values) == len(counts) and abs(sum(values) - 1) < 1e-6
    require(fits, f"prior must hold {len(counts)} probabilities that sum to 1, got {prior!r}")
    shift = [log(p) - log(n / sum(counts)) for p, n in zip(values, counts, strict=True)]
    return torch.tensor(shift, dtype=torch.float64)
