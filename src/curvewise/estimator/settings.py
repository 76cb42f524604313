"""What an estimator trains: sizes, families and recipe, by the number of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import nn

from curvewise.base.errors import InputError, require_number, require_open
from curvewise.estimator.ensemble import Ensemble
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.conditioning import Conditioned, find_last_linear
from curvewise.networks.registry import build_network
from curvewise.training.loop import conditioned
from curvewise.training.recipe import Recipe

FOLDS = 6
SCALINGS = ("mild", "none", "strong")
SNAPSHOTS = (0.4, 0.6, 0.8)  # of training; the end is the fourth
# Members go through these side by side. Omega goes with the scaling, as both have three values.
OMEGAS = (0.5, 0.7, 0.9)
GAMMAS = (0.0, 0.1, 0.2)
HEIGHTS = (0.0, 0.15, 0.33, 0.5)
EVALUATED = (0.0, 1 / 3, 2 / 3, 1.0)  # where in the range of tau models are read
CNN_STEPS = 600


def whole(name: str, value: Any, least: int) -> int:
    """Return a whole number that a user gave, or raise.

    >>> whole("trees", 300.0, 0)
    300
    """
    if isinstance(value, bool) or value != int(require_number(name, value, least)):
        raise InputError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


def steps_for(n: int) -> int:
    """Return how many steps a member trains on n rows of a table.

    Between 180 and 600, as sqrt(n), for up to 10,000 rows; as sqrt(n) again beyond, for larger
    batches as well (`batch_size_for`), so that time grows less than n.

    >>> steps_for(100), steps_for(1000), steps_for(10_000), steps_for(1_000_000)
    (180, 379, 600, 6000)
    """
    if n > 10_000:
        return round(6 * sqrt(n))
    return round(0.6 * min(1000, max(300, 20 * sqrt(n))))


def noise_for(n: int) -> float:
    """Return the noise on the columns of n rows: many rows need no blurring.

    >>> noise_for(1000), noise_for(100_000), noise_for(1_000_000)
    (0.5, 0.1, 0.01)
    """
    return 0.5 * min(1.0, 20_000 / n)


def batch_size_for(n: int) -> int:
    """Return the batch size for n rows.

    >>> [batch_size_for(n) for n in (500, 5000, 50_000, 100_000, 1_000_000)]
    [64, 128, 256, 512, 1024]
    """
    sizes = ((1000, 64), (10_000, 128), (100_000, 256), (1_000_000, 512))
    return next((size for below, size in sizes if n < below), 1024)


@dataclass(frozen=True)
class Settings:
    """How members are trained.

    `fixed` is (omega, gamma, tau) of one loss for all; without it, each has a family of its own
    with tau drawn from `tau`. `trees` are grown beside them on tables.
    """

    n_members: int = 18
    hidden: tuple[int, ...] = (64, 64)
    tau: tuple[float, float] = (0.0, 3.0)
    fixed: tuple[float | Sequence[float], float, float] | None = None
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float = 2e-3
    weight_decay: float = 1.0
    network: Callable[[tuple[int, ...], int], nn.Module] | None = None
    trees: int = 0

    @classmethod
    def of(cls, estimator: Any, **loss: Any) -> "Settings":
        """Return the settings of an estimator's parameters, or raise what is wrong with them."""
        names = {field.name for field in fields(cls)} - {"tau", "fixed"}
        values = {name: getattr(estimator, name) for name in names}
        for name, least in (("n_members", 1), ("trees", 0), ("steps", 1), ("batch_size", 2)):
            if values[name] is not None or name in ("n_members", "trees"):
                values[name] = whole(name, values[name], least)
        hidden = values["hidden"]
        if isinstance(hidden, str) or not isinstance(hidden, Sequence | np.ndarray):
            raise InputError(f"hidden must be a list of layer widths, got {hidden!r}")
        require_number("calibration_fraction", estimator.calibration_fraction, 0, 0.9)
        require_open("learning_rate", estimator.learning_rate, 0, float("inf"))
        require_number("weight_decay", estimator.weight_decay, 0)
        if not isinstance(estimator.warm_start, bool | np.bool_):
            raise InputError(f"warm_start must be True or False, got {estimator.warm_start!r}")
        if not isinstance(estimator.verbose, int | np.integer):
            raise InputError(f"verbose must be a whole number, got {estimator.verbose!r}")
        settings = cls(**{**values, "hidden": tuple(hidden)}, **loss)
        settings.family(0)  # its numbers are checked there
        return settings

    def family(self, k: int) -> LossFamily:
        """Return the family of losses that member k is trained with."""
        if self.fixed is not None:
            return LossFamily(*self.fixed, reduction="expected_mean")
        low, high = self.tau
        if low >= high:
            raise InputError(f"tau_range must be (low, high) with low < high, got {self.tau}")
        height = HEIGHTS[k % len(HEIGHTS)] * 3 / (high - low)
        return LossFamily(
            OMEGAS[k % len(OMEGAS)],
            GAMMAS[k // 2 % len(GAMMAS)],
            LinearDensity(low, high, height),
            reduction="expected_mean",
        )

    def taus(self) -> tuple[float, ...]:
        """Return the values of tau whose log-odds are averaged."""
        low, high = self.tau
        return tuple(low + share * (high - low) for share in EVALUATED)

    def is_mlp(self, in_shape: tuple[int, ...]) -> bool:
        """Tell whether members are our own networks on a table: inputs of others stay as they are.

        Others may begin with anything, which could not take in a scale, nor noise.
        """
        return len(in_shape) == 1 and self.network is None

    def build(self, in_shape: tuple[int, ...], n_classes: int, seed: int) -> nn.Module:
        """Return a member's network."""
        if self.network is not None:
            return _built(self.network, in_shape, n_classes, seed)
        shape: dict[str, Any] = {"in_shape": in_shape, "n_classes": n_classes, "seed": seed}
        if self.is_mlp(in_shape):
            return build_network("mlp", hidden=self.hidden, **shape)
        return build_network("small-cnn", **shape)

    def untrained(
        self, family: LossFamily, in_shape: tuple[int, ...], n_classes: int
    ) -> Conditioned:
        """Return a member's network with its FiLM, for weights that are there already."""
        body = self.build(in_shape, n_classes, seed=0)
        return conditioned(body, family, self.recipe(1, in_shape, seed=0))

    def match(self, ensemble: Ensemble) -> bool:
        """Tell whether members are of the shape these settings give, and read where they say."""
        network = ensemble.members[0].network
        assert isinstance(network.linear, nn.Linear)
        ours = self.untrained(self.family(0), ensemble.in_shape, network.linear.out_features)
        shapes, wanted = (
            {name: value.shape for name, value in one.state_dict().items()}
            for one in (network, ours)
        )
        return shapes == wanted and self.taus() == tuple(ensemble.taus)

    def recipe(self, n: int, in_shape: tuple[int, ...], seed: int) -> Recipe:
        """Return the recipe for n rows of a shape."""
        images = len(in_shape) == 3
        return Recipe(
            steps=self.steps or (CNN_STEPS if images else steps_for(n)),
            batch_size=min(self.batch_size or batch_size_for(n), max(2, n)),
            minority_per_batch=1,
            optimizer="adamw",
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            input_noise=noise_for(n) if self.is_mlp(in_shape) else 0.0,
            schedule="cosine",
            film_hidden=32,
            scale_lambda=True,
            compile="never",
        ).with_seed(seed)


def _built(network: Any, in_shape: tuple[int, ...], n_classes: int, seed: int) -> nn.Module:
    """Return what a user's function builds, tried on rows of a shape before anything is trained."""
    if not callable(network):
        raise InputError(f"network must be a function of (in_shape, n_classes), got {network!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body = network(in_shape, n_classes)
        if not isinstance(body, nn.Module):
            raise InputError(f"network must return an nn.Module, got {type(body).__name__}")
        last = body.get_submodule(find_last_linear(body))
        if last.out_features != n_classes:
            raise InputError(f"network must give {n_classes} logits, got {last.out_features}")
        mode, device = body.training, next(body.parameters()).device
        try:  # lazy layers draw their weights here; eval: batch statistics stay
            with torch.no_grad():
                body.eval()(torch.zeros(2, *in_shape, device=device))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            reason, *_ = str(error).splitlines() or [type(error).__name__]
            raise InputError(
                f"network must take rows of the shape {in_shape} that it is told, got: {reason}"
            ) from error
        return body.train(mode)
