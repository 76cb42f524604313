"""What an estimator trains: sizes, families and recipe, by the number of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import nn

from curvewise.base.errors import InputError, require_number, require_open
from curvewise.losses.family import LinearDensity, LossFamily
from curvewise.networks.conditioning import Conditioned, find_last_linear
from curvewise.networks.registry import build_network
from curvewise.training.recipe import Recipe
from curvewise.training.run import conditioned

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
    def of(cls, estimator: Any, **own: Any) -> "Settings":
        """Return the settings of an estimator's parameters, or raise what is wrong with them."""
        names = (
            *("n_members", "trees", "steps", "batch_size"),
            *("learning_rate", "weight_decay", "network"),
        )
        given = {name: getattr(estimator, name) for name in names}
        for name, least in (("n_members", 1), ("trees", 0), ("steps", 1), ("batch_size", 2)):
            if given[name] is not None or name in ("n_members", "trees"):
                given[name] = whole(name, given[name], least)
        hidden = estimator.hidden
        if isinstance(hidden, str) or not isinstance(hidden, Sequence | np.ndarray):
            raise InputError(f"hidden must be a list of layer widths, got {hidden!r}")
        fraction = require_number("calibration_fraction", estimator.calibration_fraction, 0, 0.9)
        assert fraction >= 0
        require_open("learning_rate", given["learning_rate"], 0, float("inf"))
        require_number("weight_decay", given["weight_decay"], 0)
        if not isinstance(estimator.warm_start, bool | np.bool_):
            raise InputError(f"warm_start must be True or False, got {estimator.warm_start!r}")
        if not isinstance(estimator.verbose, int | np.integer):
            raise InputError(f"verbose must be a whole number, got {estimator.verbose!r}")
        made = cls(hidden=tuple(hidden), **given, **own)
        made.family(0)  # its numbers are checked there
        return made

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

    def build(self, in_shape: tuple[int, ...], n_classes: int, seed: int) -> nn.Module:
        """Return a member's network."""
        if self.network is not None:
            return _built(self.network, in_shape, n_classes, seed)
        if len(in_shape) == 1:
            return build_network(
                "mlp", in_shape=in_shape, n_classes=n_classes, seed=seed, hidden=self.hidden
            )
        return build_network("small-cnn", in_shape=in_shape, n_classes=n_classes, seed=seed)

    def made(self, network: Conditioned, taus: Sequence[float], in_shape: tuple[int, ...]) -> bool:
        """Tell whether a member is of the shape these settings give, and read where they say."""
        assert isinstance(network.linear, nn.Linear)
        body = self.build(in_shape, network.linear.out_features, seed=0)
        own = conditioned(body, self.family(0), self.recipe(1, in_shape, seed=0)).state_dict()
        shapes = {name: value.shape for name, value in network.state_dict().items()}
        return shapes == {n: v.shape for n, v in own.items()} and self.taus() == tuple(taus)

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
            input_noise=noise_for(n) if len(in_shape) == 1 and self.network is None else 0.0,
            schedule="cosine",
            film_hidden=32,
            scale_lambda=True,
            compile="never",
        ).with_seed(seed)


def _built(network: Any, in_shape: tuple[int, ...], n_classes: int, seed: int) -> nn.Module:
    """Return what a user's function builds, checked."""
    if not callable(network):
        raise InputError(f"network must be a function of (in_shape, n_classes), got {network!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = network(in_shape, n_classes)
        if not isinstance(made, nn.Module):
            raise InputError(f"network must return an nn.Module, got {type(made).__name__}")
        last = made.get_submodule(find_last_linear(made))
        if last.out_features != n_classes:
            raise InputError(f"network must give {n_classes} logits, got {last.out_features}")
        _tried(made, in_shape)  # lazy layers draw their weights here
    return made


@torch.no_grad()
def _tried(network: nn.Module, in_shape: tuple[int, ...]) -> None:
    """Raise if a network cannot take rows of a shape, before anything is trained."""
    mode, device = network.training, next(network.parameters()).device
    try:
        network.eval()(torch.zeros(2, *in_shape, device=device))  # eval: batch statistics stay
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        reason, *_ = str(error).splitlines() or [type(error).__name__]
        raise InputError(
            f"network must take rows of the shape {in_shape} that it is told, got: {reason}"
        ) from error
    network.train(mode)
