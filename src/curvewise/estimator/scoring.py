"""Scores of rows by many members: their features times what they say of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.networks.conditioning import Conditioned
from curvewise.training.batches import Samples
from curvewise.training.run import Normalization
from curvewise.training.stacked_layers import layers_of
from curvewise.training.stacked_network import StackedNetwork

Array = NDArray[Any]
Floats = NDArray[np.float64]
ROWS = 512  # a time: what K members make of them stays in the cache


class Reader:
    """Members and the linear maps that read their last features.

    `readouts` has for each of K members weights (C, F) and biases (C,); `mixed` gives the sum over
    members, `each` the members apart. Rows are taken 512 at a time, and the last block is
    filled up: rounding depends on a block's size, and a row's score must not depend on
    which others it came with.
    """

    def __init__(
        self,
        networks: Sequence[Conditioned],
        readouts: Sequence[tuple[Tensor, Tensor]],
        normalization: Normalization | None = None,
    ) -> None:
        self.networks = [network.eval() for network in networks]
        self.weight = torch.stack([weight for weight, _ in readouts]).float()  # (K, C, F)
        self.bias = torch.stack([bias for _, bias in readouts])
        self.normalization = normalization
        stacks = layers_of(networks[0]) is not None
        self.stack = StackedNetwork(networks).layered if stacks else None

    def _features(self, x: Tensor) -> Tensor:
        """Return features (K, F, n) of some rows."""
        if self.stack is not None:
            found = self.stack.features(x)
            return found if found.dim() == 3 else found.expand(len(self.networks), *found.shape)
        return torch.stack([network.features(x).T for network in self.networks])

    def _blocks(self, x: Array) -> Iterator[tuple[slice, Tensor]]:
        samples = Samples(x, torch.device("cpu"), self.normalization)
        for start in range(0, len(x), ROWS):
            rows = torch.arange(start, start + ROWS) % len(x)
            yield slice(start, min(start + ROWS, len(x))), samples.prepared(samples.raw(rows))

    @torch.no_grad()
    def mixed(self, blocks: Iterable[Array]) -> Floats:
        """Return the sum over members, (n, C), of blocks of rows."""
        weight = self.weight.transpose(0, 1).flatten(1)  # (C, K F)
        bias = self.bias.sum(0).numpy()
        parts = []
        for block in blocks:
            out = np.empty((len(block), len(bias)))
            for rows, x in self._blocks(block):
                scores = (weight @ self._features(x).flatten(0, 1)).T
                out[rows] = scores[: rows.stop - rows.start].double().numpy() + bias
            parts.append(out)
        return np.concatenate(parts)

    @torch.no_grad()
    def each(self, x: Array) -> Floats:
        """Return what each member says, (K, n, C)."""
        out = np.empty((len(self.networks), len(x), self.bias.shape[1]))
        for rows, part in self._blocks(x):
            scores = torch.bmm(self.weight, self._features(part)).transpose(1, 2)
            out[:, rows] = scores[:, : rows.stop - rows.start].double().numpy()
        out += self.bias.numpy()[:, None]
        return out
