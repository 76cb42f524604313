"""Logits of a trained network, in bounded memory."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.errors import InputError
from curvewise.networks.conditioning import Conditioned
from curvewise.training.batches import Samples
from curvewise.training.run import Normalization

BATCH_VALUES = 6_000_000  # of the input; a network's activations are many times as many
ONE = torch.zeros(1, dtype=torch.long)


@torch.no_grad()
def logits_at(
    network: Conditioned,
    x: NDArray[Any] | Tensor,
    lams: Tensor,
    *,
    normalization: Normalization | None = None,
    batch_size: int | None = None,
) -> Tensor:
    """Return logits (n_lambda, n, C) on the CPU at each row of lams (n_lambda, d).

    The body runs once per sample, whatever the number of lambdas. The network is put into
    evaluation mode and left in the mode it had. Without a `batch_size`, large images go in small
    batches.
    """
    if lams.dim() != 2:
        raise InputError(f"lams must have shape (n_lambda, d), got {tuple(lams.shape)}")
    device = next(network.parameters()).device
    samples = Samples(x, device, normalization)
    size = batch_size or max(16, min(512, BATCH_VALUES // max(1, samples.raw(ONE).numel())))
    was_training = network.training
    network.eval()
    try:
        parts = [
            network.forward_many(_laid_out(samples, rows), lams.to(device)).cpu()
            for rows in torch.split(torch.arange(len(samples)), size)
        ]
    finally:
        network.train(was_training)
    return torch.cat(parts, dim=1)


def _laid_out(samples: Samples, rows: Tensor) -> Tensor:
    """Return the rows, images in the layout that convolutions are fastest in."""
    x = samples.prepared(samples.raw(rows))
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
