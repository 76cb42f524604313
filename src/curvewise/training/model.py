"""`Model`: a trained network with all that is needed to use it, save it and know its past."""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvewise.base.errors import InputError, require, require_number, require_shape
from curvewise.losses.family import LossFamily, Objective
from curvewise.losses.landscape import calibrated_probability
from curvewise.networks.conditioning import Conditioned
from curvewise.networks.registry import (
    Normalization,
    build_network,
    input_statistics,
    load_weights,
    read_weights,
)
from curvewise.training.batches import Array, Samples
from curvewise.training.recipe import Recipe

BATCH_VALUES = 6_000_000  # of the input; a network's activations are many times as many


@dataclass(frozen=True)
class NetworkSpec:
    """A network by name, as `build_network` takes it."""

    name: str
    in_shape: tuple[int, ...]
    n_classes: int = 2
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, seed: int | None = None) -> nn.Module:
        """Build the network."""
        return build_network(
            self.name, in_shape=self.in_shape, n_classes=self.n_classes, seed=seed, **self.options
        )

    def start(
        self, seed: int | None, weights: Path | None
    ) -> tuple[nn.Module, list[str], Normalization | None]:
        """Build the network, perhaps with weights of a file.

        Also return the names of entries that these left as they were, and what published weights
        want pixels to be normalised by.
        """
        network = self.build(seed)
        untouched = [] if weights is None else load_weights(network, read_weights(weights))
        return network, untouched, input_statistics(network)


@dataclass
class Model:
    """A trained model. `preprocessing` and `record` are plain data, ready for JSON."""

    network: Conditioned
    spec: NetworkSpec
    objective: Objective
    recipe: Recipe
    class_names: tuple[str, ...]
    class_counts: tuple[float, ...]
    normalization: Normalization | None = None
    preprocessing: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    def lam(self, **values: float) -> Tensor:
        """Return lambda (1, d) at the given values; left-out ones are at the top of their range.

        The paper evaluates tau at 3, the top. A value outside the trained range gives a warning,
        one that the loss does not have (tau < 0, omega > 1) is an `InputError`.
        """
        ranges = dict(zip(self.objective.drawn, getattr(self.objective, "ranges", ()), strict=True))
        for name, value in values.items():
            known = list(ranges) or "nothing drawn"
            require(
                name in ranges,
                f"this model was trained with lambda = {known}, got {name} = {value:g}",
            )
            require_number(name, value, 0, 1 if name == "omega" else float("inf"))
            low, high = ranges[name]
            if not low <= value <= high:
                warnings.warn(
                    f"{name} = {value:g} is outside the range [{low:g}, {high:g}] that this "
                    "model was trained on",
                    stacklevel=2,
                )
        chosen = {name: values.get(name, high) for name, (_, high) in ranges.items()}
        return torch.tensor([list(chosen.values())], dtype=torch.get_default_dtype())

    def logits(self, x: Array, **values: float) -> Tensor:
        """Return logits (n, C) at lambda."""
        lam = self.lam(**values)
        return logits_at(self.network, x, lam, normalization=self.normalization)[0]

    def scores(self, x: Array, **values: float) -> NDArray[Any]:
        """Return the paper's score z1 - z0, (n,), at lambda."""
        logits = self.logits(x, **values)
        require(logits.shape[-1] == 2, f"scores need two classes, got {logits.shape[-1]}")
        return (logits[:, 1] - logits[:, 0]).numpy()

    def probabilities(
        self, x: Array, *, prior: float | None = None, **values: float
    ) -> NDArray[Any]:
        """Return calibrated P(class 1), (n,), for the training prior or another one."""
        settings = self.calibration(self.lam(**values)[0])
        return calibrated_probability(self.logits(x, **values), prior=prior, **settings).numpy()

    def calibration(self, lam: Tensor) -> dict[str, Any]:
        """Return what `calibrated_log_odds` must be told of the loss at lambda (d,)."""
        if not isinstance(self.objective, LossFamily):
            kind = type(self.objective).__name__
            raise InputError(f"calibrated probabilities need the vector-scaling loss, got {kind}")
        return {"class_counts": self.class_counts, **self.objective.hyperparameters(lam)}


@torch.no_grad()
def logits_at(
    network: Conditioned,
    x: Array,
    lams: Tensor,
    *,
    normalization: Normalization | None = None,
) -> Tensor:
    """Return logits (n_lambda, n, C) on the CPU at each row of lams (n_lambda, d).

    The body runs once per sample, whatever the number of lambdas; large images go in small
    batches. The network is put into evaluation mode and left in the mode it had.
    """
    require_shape("lams", lams, "n_lambda", "d")
    device = next(network.parameters()).device
    samples = Samples(x, device, normalization)
    size = max(16, min(512, BATCH_VALUES // max(1, samples.raw(torch.arange(1)).numel())))
    was_training, parts = network.training, []
    network.eval()
    try:
        for rows in torch.split(torch.arange(len(samples)), size):
            batch = samples.prepared(samples.raw(rows))
            if batch.dim() == 4:  # convolutions are fastest so
                batch = batch.contiguous(memory_format=torch.channels_last)
            parts.append(network.forward_many(batch, lams.to(device)).cpu())
    finally:
        network.train(was_training)
    return torch.cat(parts, dim=1)
