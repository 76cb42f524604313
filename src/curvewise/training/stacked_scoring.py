"""Scores of K trained models, in bounded memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.errors import InputError
from curvewise.networks.conditioning import Conditioned
from curvewise.training.batches import Samples
from curvewise.training.run import Normalization
from curvewise.training.scoring import logits_at
from curvewise.training.stacked_layers import layers_of
from curvewise.training.stacked_network import StackedNetwork

SCORING_BYTES = 64 * 2**20  # activations held at a time


def stacked_scores(
    networks: Sequence[Conditioned],
    x: NDArray[Any] | Tensor,
    lams: Tensor,
    *,
    normalization: Normalization | None = None,
) -> NDArray[np.float32]:
    """Return z1 - z0 of K networks at lambdas, (K, n_lambda, n).

    `lams` is (n_lambda, d) for all members, or (K, n_lambda, d). The networks have one shape, as
    `fit_stacked` gives them.

    >>> from curvewise.networks.conditioning import condition
    >>> from curvewise.losses.family import LossFamily
    >>> from curvewise.networks.small import MLP
    >>> networks = [condition(MLP(3), LossFamily()) for _ in range(4)]
    >>> stacked_scores(networks, torch.zeros(5, 3), torch.zeros(1, 0)).shape
    (4, 1, 5)
    """
    if lams.dim() == 2:
        lams = lams.expand(len(networks), *lams.shape)
    if lams.dim() != 3 or len(lams) != len(networks) or lams.shape[1] == 0:
        raise InputError(
            f"lams must have shape (n_lambda, d) or ({len(networks)}, n_lambda, d) with at least "
            f"one lambda, got {tuple(lams.shape)}"
        )
    if networks[0].linear.out_features != 2:
        raise InputError(f"scores need two classes, got {networks[0].linear.out_features}")
    if layers_of(networks[0]) is None:
        logits = [
            logits_at(network, x, own, normalization=normalization)
            for network, own in zip(networks, lams, strict=True)
        ]
        return torch.stack([z[..., 1] - z[..., 0] for z in logits]).float().numpy()
    return _layered_scores(networks, x, lams, normalization)


@torch.no_grad()
def _layered_scores(
    networks: Sequence[Conditioned],
    x: NDArray[Any] | Tensor,
    lams: Tensor,
    normalization: Normalization | None,
) -> NDArray[np.float32]:
    device = next(networks[0].parameters()).device
    samples = Samples(x, device, normalization)
    out = torch.empty(len(networks), lams.shape[1], len(samples))
    width = max(parameter.shape[0] for parameter in networks[0].parameters())
    members = max(1, min(len(networks), SCORING_BYTES // (16 * width * min(len(samples), 512))))
    rows = max(1, SCORING_BYTES // (16 * width * members))
    for first in range(0, len(networks), members):
        some = slice(first, first + members)
        stack = StackedNetwork(networks[some])
        assert stack.layered is not None
        for part in torch.split(torch.arange(len(samples)), rows):
            features = stack.layered.features(samples.prepared(samples.raw(part)))
            for number in range(lams.shape[1]):
                logits = stack.layered.head(features, lams[some, number].to(stack.weights))
                out[some, number, part] = (logits[..., 1] - logits[..., 0]).float().cpu()
    return out.numpy()
