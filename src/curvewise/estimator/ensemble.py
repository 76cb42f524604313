"""An ensemble over a family of losses: its members, what each is worth, and its scores."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.errors import InputError, require_number
from curvewise.estimator.merit import shares
from curvewise.estimator.readout import calibrated_readout, logit_readout
from curvewise.estimator.scoring import Reader
from curvewise.estimator.trees import Trees
from curvewise.losses.family import LossFamily
from curvewise.networks.conditioning import Conditioned
from curvewise.training.run import Normalization

Array = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass
class Ensemble:
    """K trained networks of one shape.

    `merit` (K,) is the out-of-fold AUC of the group (scaling and snapshot) each belongs to, and
    sets how much it counts. `class_counts` are what each network's loss was told, `oversampling`
    how many times too often its training showed each class; both (K, C). `taus` are where models
    are read. `out_of_fold` (n, C) has what members say of training rows that they left out, NaN for
    rows that none did. `trees` may stand beside them.
    """

    networks: list[Conditioned]
    families: list[LossFamily]
    merit: Floats
    class_counts: list[tuple[float, ...]]
    oversampling: list[tuple[float, ...]]
    taus: tuple[float, ...]
    n_members: int
    normalization: Normalization | None
    out_of_fold: Floats = field(repr=False)
    in_shape: tuple[int, ...] = ()
    trees: Trees | None = field(default=None, repr=False)
    _reader: Reader | None = field(default=None, repr=False)

    @property
    def weights(self) -> Floats:
        """How much each network counts, (K,), 1 in sum."""
        return shares(self.merit)

    @property
    def tau_range(self) -> tuple[float, float]:
        """The range that tau was drawn from."""
        if not self.families[0].drawn:
            raise InputError("lambda can be chosen if it was drawn in training, got a fixed loss")
        return self.families[0].ranges[0]

    def readout(self, k: int) -> tuple[Tensor, Tensor]:
        """Return how a network's features become calibrated log-probabilities: (C, F), (C,)."""
        family = self.families[k]
        lams = lambdas(family, self.taus)
        return calibrated_readout(
            self.networks[k], family, lams, self.class_counts[k], self.oversampling[k]
        )

    def checksum(self, others: Floats) -> int:
        """Return a number that tells these members and trees, and other numbers, from others.

        It is the same for copies, also through a file.
        """
        trees = [] if self.trees is None else [self.trees.share, self.trees.stretch]
        values: Any = np.concatenate([others, self.weights, trees])
        total = zlib.crc32(values)
        for network in self.networks:
            weight: Any = network.linear.weight  # torch's types do not tell it from a method
            total = zlib.crc32(weight.detach().cpu().contiguous().numpy(), total)
        return total

    def scores(self, blocks: Iterable[Array]) -> Floats:
        """Return calibrated log-probabilities up to a constant, (n, C): the weighted mean."""
        if self._reader is None:
            parts = [self.readout(k) for k in range(len(self.networks))]
            self._reader = self._mixing(parts)
        if self.trees is None:
            return self._reader.mixed(blocks)
        return np.concatenate(
            [
                self.trees.joined(self._reader.mixed([block]), self.trees.scores(block))
                for block in blocks
            ]
        )

    @property
    def left_out_scores(self) -> Floats:
        """Scores of training rows by networks and trees that left them out, NaN where none did."""
        if self.trees is None:
            return self.out_of_fold
        return self.trees.joined(self.out_of_fold, self.trees.out_of_fold)

    def logits(self, blocks: Iterable[Array], taus: Sequence[float | None]) -> Floats:
        """Return the members' mean logits at values of tau, (n, len(taus), C), uncalibrated.

        None is the top of the range. A loss that draws nothing has no other.
        """
        drawn = bool(self.families[0].drawn)
        if not drawn and any(tau is not None for tau in taus):
            raise InputError(f"this model has a fixed loss, so no tau can be chosen, got {taus[0]}")
        low, top = self.tau_range if drawn else (0.0, 0.0)
        wanted = tuple(top if tau is None else require_number("tau", tau, low, top) for tau in taus)
        parts = []
        for network, family in zip(self.networks, self.families, strict=True):
            weight, bias = logit_readout(network, lambdas(family, wanted))
            parts.append((weight.flatten(0, 1), bias.flatten()))
        mixed = self._mixing(parts).mixed(blocks)
        return mixed.reshape(len(mixed), len(taus), len(self.class_counts[0]))

    def _mixing(self, readouts: Sequence[tuple[Tensor, Tensor]]) -> Reader:
        weighted = [
            (share * weight, share * bias)
            for share, (weight, bias) in zip(self.weights, readouts, strict=True)
        ]
        return Reader(self.networks, weighted, self.normalization)

    def pruned(self, least: float, most: int) -> "Ensemble":
        """Keep the `most` networks that count most, and none below `least` of the first."""
        weights = self.weights
        best = np.argsort(-weights, kind="stable")[:most]
        kept = np.sort(best[weights[best] >= least * weights.max()])
        self.networks = [self.networks[k] for k in kept]
        self.families = [self.families[k] for k in kept]
        self.class_counts = [self.class_counts[k] for k in kept]
        self.oversampling = [self.oversampling[k] for k in kept]
        self.merit = self.merit[kept]
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_reader": None}


def lambdas(family: LossFamily, taus: Sequence[float]) -> Tensor:
    """Return lambda (L, d) at values of tau, or one empty lambda where nothing is drawn."""
    return torch.tensor([[tau] for tau in taus]) if family.drawn else torch.zeros(1, 0)
