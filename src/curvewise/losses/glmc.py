"""GLMC: training on mixtures of samples, whose two views must agree.

A loss of logits alone cannot say it, so `GLMCLoss` is an `Objective` that also mixes a batch with
partners (`views`) and has layers of its own beside the network's last one (`attach`): training
calls these where an objective has them.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvewise.base.errors import InputError, require_number
from curvewise.losses.baselines import Counts, FixedObjective, Weight
from curvewise.losses.factors import check_class_counts

PROJECTED = 64  # features of a projection; the paper's networks have thousands, ours fewer


def glmc_loss(
    logits: Tensor,
    rebalanced: Tensor,
    projected: Tensor,
    predicted: Tensor,
    target: Tensor,
    *,
    share: Tensor,
    class_counts: Sequence[float],
    progress: float,
    power: float = 1.0,
    consistency: float = 10.0,
) -> Tensor:
    r"""Global and local mixture consistency (GLMC), the mean over n samples of

    .. math::
        \sum_{v \in \{g, l\}} \sum_c p^v_c \big(-\alpha \log\sigma_c(z^v)
        - (1-\alpha) w_c \log\sigma_c(\tilde z^v)\big)
        - \gamma \big(\cos(u^g, h^l) + \cos(u^l, h^g)\big)

    of two views, a MixUp (g) and a CutMix (l) of the samples with partners, which a sampler draws
    that favours rare classes. `target` (2, n) has the labels y of the samples and y' of the
    partners, `share` (2,) the share s of the samples in each view:
    :math:`p^v = s_v e_y + (1 - s_v) e_{y'}`. z and :math:`\tilde z` are the `logits` and
    `rebalanced` logits (2, n, C) of two heads, of which the second is the one that predicts; h and
    u, (2, n, D), are the features `projected`, which get no gradient, and `predicted` from them.
    Weights are :math:`w_c = C n_c^{-k} / \sum_j n_j^{-k}` with k = `power`, gamma is `consistency`,
    and :math:`\alpha = 1 - t^2` falls with the `progress` t in [0, 1] of the run. Du et al. 2023,
    arXiv 2305.08661; scales and defaults as in the code of its authors.
    """  # noqa: D400 (the sentence ends in the formula)
    alpha = 1 - require_number("progress", progress, 0, 1) ** 2
    require_number("consistency", consistency, 0)
    counts = torch.tensor(check_class_counts(class_counts), dtype=torch.float64)
    weights = counts ** -require_number("power", power, 0)
    weights = (len(counts) * weights / weights.sum()).to(logits)
    share = share.to(logits)[:, None, None]
    own, partner = F.one_hot(target.long(), len(counts)).to(logits)
    mixed = share * own + (1 - share) * partner
    plain = (mixed * F.log_softmax(logits, dim=-1)).sum(-1)
    balanced = (weights * mixed * F.log_softmax(rebalanced, dim=-1)).sum(-1)
    agreement = F.cosine_similarity(predicted, projected.detach().flip(0), dim=-1)
    views: Tensor = alpha * plain + (1 - alpha) * balanced + consistency * agreement
    return -views.sum(0).mean()


class GLMCLoss(FixedObjective):
    """`glmc_loss` with its settings held, its mixing of samples and its layers.

    The network's own last layer is the head that is rebalanced, and predicts. Partners are drawn
    with chances 1/n_c to the power of `sampling`: 0 draws them as they are, 1 all classes as often.
    """

    def __init__(
        self, power: float = 1.0, consistency: float = 10.0, sampling: float = 0.2
    ) -> None:
        super().__init__()
        self.power = require_number("power", power, 0)
        self.consistency = require_number("consistency", consistency, 0)
        self.sampling = require_number("sampling", sampling, 0)

    def attach(self, last: nn.Linear) -> None:
        """Make the layers that stand beside a network's last one, from the global generator."""
        self.head = nn.Linear(last.in_features, last.out_features).to(last.weight)
        self.projection = _two_layers(last.in_features).to(last.weight)
        self.prediction = _two_layers(PROJECTED).to(last.weight)

    def chances(self, labels: Tensor) -> Tensor:
        """Return weights (n,) by which partners are drawn of training rows."""
        return torch.bincount(labels)[labels].double() ** -self.sampling

    def views(
        self, own: Sequence[Tensor], others: Sequence[Tensor], generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return a MixUp and a CutMix (2, n, ...) of samples with partners, and shares (2,).

        `own` and `others` are samples and partners (n, ...), augmented twice. The share of the
        samples is uniform on [0, 1]. CutMix puts a rectangle of the partner into an image, or some
        columns of it into a row of a table, and its share is what is left.
        """
        share, *corner = torch.rand(3, generator=generator).tolist()
        mixed = share * own[0] + (1 - share) * others[0]
        foreign = torch.zeros(own[1].shape[1:], dtype=torch.bool)
        if foreign.dim() == 1:
            columns = torch.randperm(len(foreign), generator=generator)
            foreign[columns[: round((1 - share) * len(foreign))]] = True
        else:
            sides = []
            for size, middle in zip(foreign.shape[-2:], corner, strict=True):
                half, at = size * (1 - share) ** 0.5 / 2, middle * size
                sides.append(slice(max(0, round(at - half)), min(size, round(at + half))))
            foreign[..., sides[0], sides[1]] = True
        cut = torch.where(foreign.to(own[1].device), others[1], own[1])
        return torch.stack([mixed, cut]), torch.tensor([share, 1 - foreign.double().mean().item()])

    def mixed_loss(
        self,
        features: Tensor,
        logits: Tensor,
        target: Tensor,
        *,
        share: Tensor,
        progress: float,
        class_counts: Sequence[float],
    ) -> Tensor:
        """Return the loss of two views: features (2, n, F) and the network's logits (2, n, C)."""
        projected = self.projection(features)
        return glmc_loss(
            self.head(features),
            logits,
            projected,
            self.prediction(projected),
            target,
            share=share,
            class_counts=class_counts,
            progress=progress,
            power=self.power,
            consistency=self.consistency,
        )

    def _loss(self, logits: Tensor, target: Tensor, counts: Counts, weight: Weight) -> Tensor:
        raise InputError(
            "GLMC mixes samples, so it needs fit, which has them, and not a loss alone"
        )


def _two_layers(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, PROJECTED), nn.ReLU(), nn.Linear(PROJECTED, PROJECTED))
