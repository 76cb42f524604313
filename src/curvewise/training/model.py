"""`Model`: a trained network with all that is needed to use it, save it and know its past."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvewise.base.errors import InputError, require_number
from curvewise.losses.family import LossFamily, Objective
from curvewise.losses.landscape import calibrated_probability
from curvewise.networks.conditioning import Conditioned
from curvewise.networks.registry import build_network
from curvewise.training.recipe import Recipe
from curvewise.training.run import Normalization
from curvewise.training.scoring import logits_at


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
            if name not in ranges:
                raise InputError(
                    f"this model was trained with lambda = {list(ranges) or 'nothing drawn'}, "
                    f"got {name} = {value:g}"
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

    def logits(self, x: NDArray[Any] | Tensor, **values: float) -> Tensor:
        """Return logits (n, C) at lambda."""
        lam = self.lam(**values)
        return logits_at(self.network, x, lam, normalization=self.normalization)[0]

    def scores(self, x: NDArray[Any] | Tensor, **values: float) -> NDArray[Any]:
        """Return the paper's score z1 - z0, (n,), at lambda."""
        logits = self.logits(x, **values)
        if logits.shape[-1] != 2:
            raise InputError(f"scores need two classes, got {logits.shape[-1]}")
        return (logits[:, 1] - logits[:, 0]).numpy()

    def probabilities(
        self, x: NDArray[Any] | Tensor, *, prior: float | None = None, **values: float
    ) -> NDArray[Any]:
        """Return calibrated P(class 1), (n,), for the training prior or another one."""
        if not isinstance(self.objective, LossFamily):
            kind = type(self.objective).__name__
            raise InputError(f"calibrated probabilities need the vector-scaling loss, got {kind}")
        settings = self.objective.hyperparameters(self.lam(**values)[0])
        return calibrated_probability(
            self.logits(x, **values), class_counts=self.class_counts, prior=prior, **settings
        ).numpy()
