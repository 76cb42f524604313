"""Families of losses: which of omega, gamma, tau are fixed, and which are drawn while training.

`LossFamily` with nothing drawn is an ordinary loss, so training needs no special case: it draws
a lambda of length 0. `Objective` is all that training asks for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from curvewise.base.errors import (
    INFINITY,
    InputError,
    did_you_mean,
    require,
    require_choice,
    require_number,
    require_whole,
)
from curvewise.losses.factors import HIGHEST, check_class_counts, fixed_setting
from curvewise.losses.vector_scaling import (
    REDUCTIONS,
    check_labels,
    check_logits,
    check_per_sample,
    unchecked_vs_loss,
)

Values = Any  # a number, an array or a tensor; what comes back is an array or a tensor


@runtime_checkable
class Objective(Protocol):
    """What training minimises: it may draw settings, and may have parameters of its own."""

    @property
    def drawn(self) -> tuple[str, ...]:
        """Names of what is drawn, in the order of lambda's entries."""

    def draw(self, n: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Return n draws of lambda, shape (n, len(drawn))."""

    def loss(
        self,
        logits: Tensor,
        target: Tensor,
        lam: Tensor,
        *,
        class_counts: Sequence[float],
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of logits (..., n, C) at lambda.

        `sample_weight`, (n,) or (K, n) for stacked logits, multiplies the samples' losses.
        """

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield parameters to be trained along with the network's."""


@dataclass(frozen=True)
class LinearDensity:
    """Probability density on [low, high] that is a straight line.

    The height at `high` is given, between 0 and 2 / (high - low); the height at `low` follows
    from the area being 1. Equal heights are the uniform distribution.

    >>> density = LinearDensity(0.0, 3.0, height_at_high=0.0)
    >>> round(density.height_at_low, 4)
    0.6667
    >>> density.sample(2).shape
    torch.Size([2])
    """

    low: float
    high: float
    height_at_high: float

    def __post_init__(self) -> None:
        low = require_number("low", self.low, -1e30)
        high = require_number("high", self.high, -1e30)
        require(low < high, f"high must be greater than low = {low:g}, got {high:g}")
        height = require_number("height_at_high", self.height_at_high, 0, 2 / (high - low))
        for name, value in (("low", low), ("high", high), ("height_at_high", height)):
            object.__setattr__(self, name, value)  # plain floats, whatever kind of number came

    @property
    def height_at_low(self) -> float:
        """The density at `low`."""
        return self._heights[0] / (self.high - self.low)

    @cached_property
    def _heights(self) -> tuple[float, float]:
        """Heights at low and high times the width; as fractions, since 2 - b may cancel."""
        at_high = Fraction(self.height_at_high) * (Fraction(self.high) - Fraction(self.low))
        return max(float(2 - at_high), 0.0), float(at_high)

    # With t = (x - low) / (high - low) in [0, 1] and the heights times the width as a and b
    # (a + b = 2), pdf = a (1-t) + b t and cdf = t (a (1-t) + t). Every sum has terms >= 0, so
    # nothing cancels, flat or nearly flat.

    def pdf(self, x: Values) -> Values:
        """Return the density at x (array or tensor); 0 outside [low, high]."""
        position = self._position(x)
        t = position.clip(0, 1)
        return (position == t) * (self.height_at_low * (1 - t) + self.height_at_high * t)

    def cdf(self, x: Values) -> Values:
        """Return P(X <= x)."""
        t = self._position(x).clip(0, 1)
        return t * (self._heights[0] * (1 - t) + t)

    def ppf(self, u: Values) -> Values:
        """Return the x with cdf(x) = u, for u in [0, 1]."""
        u = _array(u)
        wrong = u[~((u >= 0) & (u <= 1))]
        if len(wrong):
            raise InputError(f"ppf takes probabilities in [0, 1], got {float(wrong[0]):g}")
        a, b = self._heights
        # t = 2u / (a + sqrt(a^2 (1-u) + b^2 u)); the lower clip makes 0/0 at a = u = 0 a zero.
        denominator = (a + (a * a * (1 - u) + b * b * u) ** 0.5).clip(1e-37, 4)
        t = (2 * u / denominator).clip(0, 1)
        return self.low * (1 - t) + self.high * t

    def _position(self, x: Values) -> Values:
        return (_array(x) - self.low) / (self.high - self.low)

    def sample(self, n: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Return n draws, in float64, by inverting the cdf."""
        device = generator.device if generator is not None else None
        uniform = torch.rand(n, generator=generator, dtype=torch.float64, device=device)
        draws: Tensor = self.ppf(uniform)
        return draws


def _array(values: Values) -> Values:
    return values if isinstance(values, Tensor) else np.asarray(values, dtype=np.float64)


def require_setting(name: str, value: Any) -> Any:
    """Return a number, class weights or a density, if a loss can have such a setting."""
    if not isinstance(value, LinearDensity):
        return fixed_setting(name, value)
    for end in ("low", "high"):
        require_number(f"{end} of {name}", getattr(value, end), 0, HIGHEST.get(name, INFINITY))
    return value


@dataclass(frozen=True)
class LossFamily:
    """The vector-scaling losses with some of omega, gamma, tau fixed and the others drawn.

    Each of the three is a number or a `LinearDensity`; omega may also be a list of C class
    weights. `reduction` is that of `vs_loss`.

    >>> family = LossFamily(omega=0.5, gamma=0.2, tau=LinearDensity(0.0, 3.0, 0.33))
    >>> family.drawn
    ('tau',)
    >>> family.at(tau=3.0)
    tensor([3.])
    """

    omega: float | Sequence[float] | LinearDensity = 0.5
    gamma: float | LinearDensity = 0.0
    tau: float | LinearDensity = 0.0
    _: KW_ONLY
    reduction: str = "weighted_mean"

    def __post_init__(self) -> None:
        require_choice("reduction", self.reduction, REDUCTIONS)
        for name, value in self.settings.items():
            # Plain floats, whatever kind of number came.
            object.__setattr__(self, name, require_setting(name, value))

    @property
    def settings(self) -> dict[str, Any]:
        """Omega, gamma and tau, fixed or a density."""
        return {"omega": self.omega, "gamma": self.gamma, "tau": self.tau}

    @property
    def drawn(self) -> tuple[str, ...]:
        """Names of the drawn hyperparameters, in the order of lambda's entries."""
        return tuple(n for n, value in self.settings.items() if isinstance(value, LinearDensity))

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """(low, high) of each drawn hyperparameter."""
        return tuple((self.settings[n].low, self.settings[n].high) for n in self.drawn)

    def draw(self, n: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Return n independent draws of lambda, shape (n, d).

        One draw serves a mini-batch, as in the paper; n draws give each sample its own.
        """
        require_whole("n", n)
        if not self.drawn:
            return torch.zeros(n, 0)
        columns = [self.settings[name].sample(n, generator=generator) for name in self.drawn]
        return torch.stack(columns, dim=-1).to(torch.get_default_dtype())

    def at(self, **values: float) -> Tensor:
        """Return lambda, shape (d,), at the given values: ``family.at(tau=3.0)``."""
        entries = f"lambda of this family has the entries {list(self.drawn)}"
        for name in values:
            if name not in self.drawn:
                raise InputError(f"{entries}, got {name!r}{did_you_mean(name, self.drawn)}")
        require(len(values) == len(self.drawn), f"{entries}, got {values}")
        return torch.tensor([require_setting(name, values[name]) for name in self.drawn])

    def hyperparameters(self, lam: Tensor) -> dict[str, Any]:
        """Return omega, gamma, tau at lambda (..., d): fixed ones as they are, drawn ones (...)."""
        drawn = self.drawn
        if not isinstance(lam, Tensor):
            raise InputError(
                f"lambda must be a tensor as at() and draw() give, got {lam!r}; "
                f"family.at({', '.join(f'{name}=...' for name in drawn)}) makes one"
            )
        if lam.shape[-1:] != (len(drawn),):
            raise InputError(
                f"lambda must have {len(drawn)} entries {list(drawn)} in its last dimension, "
                f"got shape {tuple(lam.shape)}"
            )
        return {
            name: lam[..., drawn.index(name)] if name in drawn else value
            for name, value in self.settings.items()
        }

    def loss(
        self,
        logits: Tensor,
        target: Tensor,
        lam: Tensor,
        *,
        class_counts: Sequence[float],
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Return `vs_loss` at lambda: (d,) for all, (n, d) per sample, (K, 1, d) per model.

        `sample_weight` as in `vs_loss`, but not checked. Labels on a GPU are not either: each
        step would wait until they can be read.
        """
        counts = check_class_counts(class_counts)
        check_logits(logits, len(counts))
        check_per_sample("target", target, logits.shape[:-1])
        if target.device.type == "cpu":
            check_labels(target, len(counts))
        values = self.hyperparameters(lam)
        if isinstance(values["omega"], tuple):
            fixed_setting("omega", values["omega"], len(counts))
        if lam.dim() == 1 and lam.device.type == "cpu" and not torch.compiler.is_compiling():
            # One draw for the whole batch: as numbers it costs less than as tensors.
            values = {name: _number(value) for name, value in values.items()}
        return unchecked_vs_loss(logits, target, counts, values, self.reduction, sample_weight)

    def to_dict(self) -> dict[str, Any]:
        """Return the family as plain data; `from_dict` gives the same one back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "LossFamily":
        """Return the family whose `to_dict` is `state`."""
        densities = {n: LinearDensity(**v) for n, v in state.items() if isinstance(v, dict)}
        return cls(**{**state, **densities})

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield nothing: the family has no parameters of its own."""
        return iter(())


def _number(value: Any) -> Any:
    """Return a tensor's value as a number where that loses nothing (no gradient, no vmap)."""
    if not isinstance(value, Tensor) or value.requires_grad:
        return value
    try:
        return value.item()
    except RuntimeError:
        return value
