r"""Losses to compare with: focal, label-distribution-aware margins (LDAM), AUC margin, GLMC.

Functions first, then modules over them that hold the settings. Every module is an `Objective`
that draws nothing, so training treats them like a `LossFamily`. Sample weights, (n,) or (..., n),
multiply the samples' losses before the mean over n.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvewise.base.errors import require, require_number, require_open
from curvewise.losses.factors import check_class_counts
from curvewise.losses.vector_scaling import at_least_float32

Counts = Sequence[float]
Weight = Tensor | None


def focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    focus: float = 2.0,
    class_weights: Tensor | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Focal loss, the mean of :math:`-a_y (1 - p_y)^\phi \log p_y` over the samples.

    logits (..., n, C), target (n,) or (..., n); `focus` is phi, `class_weights` the a_c (1 if
    left out). Lin et al. 2017, arXiv 1708.02002.
    """
    require_number("focus", focus, 0)
    logits = at_least_float32(logits)
    target = target.long().expand(logits.shape[:-1])
    true = F.one_hot(target, logits.shape[-1]).bool()
    # By the margin over the other classes and expm1, p and 1 - p are both exact where p is nearly
    # 1, which is where focal loss lives. The clamp keeps the gradient finite where 1 - p is 0.
    others = logits.masked_fill(true, -torch.inf).logsumexp(-1)
    log_p = F.logsigmoid(logits.masked_fill(~true, 0).sum(-1) - others)
    rest = (-torch.expm1(log_p)).clamp_min(torch.finfo(log_p.dtype).tiny)
    losses = -(rest**focus) * log_p
    if class_weights is not None:
        losses = losses * class_weights.to(log_p)[target]
    return _mean(losses, sample_weight)


def _mean(losses: Tensor, sample_weight: Tensor | None) -> Tensor:
    if sample_weight is not None:
        losses = losses * sample_weight.to(losses)
    return losses.mean(-1)


def ldam_margins(class_counts: Sequence[float], max_margin: float = 0.5) -> Tensor:
    r"""Margins :math:`m_c \propto n_c^{-1/4}`, the rarest class getting `max_margin`; float64."""
    require_number("max_margin", max_margin, 0)
    counts = torch.tensor(check_class_counts(class_counts), dtype=torch.float64)
    return max_margin * (counts.min() / counts) ** 0.25


def ldam_loss(
    logits: Tensor,
    target: Tensor,
    *,
    class_counts: Sequence[float],
    max_margin: float = 0.5,
    scale: float = 30.0,
    sample_weight: Tensor | None = None,
) -> Tensor:
    """Cross-entropy of ``scale * (z - m_y * onehot(y))``: the true class must win by a margin.

    logits (..., n, C), target (n,) or (..., n); mean over the samples. Cao et al. 2019,
    arXiv 1906.07413, who feed it cosines, hence the scale.
    """
    require_number("scale", scale, 0)
    logits = at_least_float32(logits)
    target = target.long().expand(logits.shape[:-1])
    margins = ldam_margins(class_counts, max_margin).to(logits)
    handicap = F.one_hot(target, logits.shape[-1]) * margins
    log_p = F.log_softmax(scale * (logits - handicap), dim=-1)
    return -_mean(log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1), sample_weight)


def auc_margin_loss(
    score: Tensor,
    target: Tensor,
    *,
    mean_positive: Tensor,
    mean_negative: Tensor,
    dual: Tensor,
    positive_rate: float,
    margin: float = 1.0,
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""AUC margin loss as a min-max problem, the mean over n samples of

    .. math::
        (1-p)(h-a)^2 [y{=}1] + p(h-b)^2 [y{=}0] - p(1-p)\alpha^2
        + 2\alpha\big(p(1-p)m + p h [y{=}0] - (1-p) h [y{=}1]\big)

    with scores h in [0, 1] of shape (..., n), p the positive rate of the training set, a and b
    the two class means (to be minimised over) and :math:`\alpha \ge 0` (to be maximised over).
    At the saddle point it is p(1-p) times
    :math:`\mathrm{var}_+ + \mathrm{var}_- + \max(0, m - a + b)^2`. Yuan et al. 2021,
    arXiv 2012.03173.
    """  # noqa: D400 (the sentence ends in the formula)
    p = require_open("positive_rate", positive_rate, 0, 1)
    positive = target.to(score.dtype)
    negative = 1 - positive
    spread = (1 - p) * (score - mean_positive) ** 2 * positive
    spread = spread + p * (score - mean_negative) ** 2 * negative
    gap = p * (1 - p) * margin + p * score * negative - (1 - p) * score * positive
    return _mean(spread + 2 * dual * gap - p * (1 - p) * dual**2, sample_weight)


class FixedObjective(nn.Module, ABC):
    """An `Objective` that draws nothing."""

    drawn: tuple[str, ...] = ()

    def draw(self, n: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Return n draws of a lambda without entries, shape (n, 0)."""
        return torch.zeros(n, 0)

    def loss(
        self,
        logits: Tensor,
        target: Tensor,
        lam: Tensor,
        *,
        class_counts: Sequence[float],
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of logits (..., n, C); lambda has no entries."""
        return self._loss(logits, target, class_counts, sample_weight)

    def forward(self, logits: Tensor, target: Tensor, class_counts: Sequence[float] = ()) -> Tensor:
        """Return the loss as a plain module does: ``FocalLoss()(logits, target)``."""
        return self._loss(logits, target, class_counts, None)

    @abstractmethod
    def _loss(self, logits: Tensor, target: Tensor, counts: Counts, weight: Weight) -> Tensor: ...


class FocalLoss(FixedObjective):
    """`focal_loss` with the focus held: ``FocalLoss(focus=2.0).loss(logits, target, lam, ...)``."""

    def __init__(self, focus: float = 2.0) -> None:
        super().__init__()
        self.focus = require_number("focus", focus, 0)

    def _loss(self, logits: Tensor, target: Tensor, counts: Counts, weight: Weight) -> Tensor:
        return focal_loss(logits, target, focus=self.focus, sample_weight=weight)


class LDAMLoss(FixedObjective):
    """`ldam_loss` with its settings held."""

    def __init__(self, max_margin: float = 0.5, scale: float = 30.0) -> None:
        super().__init__()
        self.max_margin = require_number("max_margin", max_margin, 0)
        self.scale = require_number("scale", scale, 0)

    def _loss(self, logits: Tensor, target: Tensor, counts: Counts, weight: Weight) -> Tensor:
        held = {"max_margin": self.max_margin, "scale": self.scale}
        return ldam_loss(logits, target, class_counts=counts, sample_weight=weight, **held)


class AUCMarginLoss(FixedObjective):
    """`auc_margin_loss` for two classes with its own a, b and dual variable.

    The score is the softmax probability of class 1. Any optimiser that descends on
    ``parameters()`` solves the min-max problem: the gradient of the dual variable is reversed,
    and it is brought back to >= 0 before each use.
    """

    def __init__(self, margin: float = 1.0) -> None:
        super().__init__()
        self.margin = require_number("margin", margin, 0)
        self.mean_positive = nn.Parameter(torch.zeros(()))
        self.mean_negative = nn.Parameter(torch.zeros(()))
        self.dual = nn.Parameter(torch.zeros(()))

    def _loss(self, logits: Tensor, target: Tensor, counts: Counts, weight: Weight) -> Tensor:
        counts = check_class_counts(counts)
        require(len(counts) == 2, f"the AUC margin loss needs two classes, got {len(counts)}")
        logits = at_least_float32(logits)
        with torch.no_grad():
            self.dual.clamp_(min=0)
        return auc_margin_loss(
            torch.sigmoid(logits[..., 1] - logits[..., 0]),
            target,
            mean_positive=self.mean_positive,
            mean_negative=self.mean_negative,
            dual=2 * self.dual.detach() - self.dual,  # same value, gradient reversed
            positive_rate=counts[1] / (counts[1] + counts[0]),
            margin=self.margin,
            sample_weight=weight,
        )
