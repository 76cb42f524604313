r"""Conditioning a network on lambda: FiLM, and the adapter that gives any network forward(x, lam).

Feature-wise linear modulation (Perez et al. 2018, arXiv 1709.07871) scales and shifts every
feature by functions of lambda, :math:`\tilde f = \sigma(\lambda) f + \mu(\lambda)`.
"""

import copy
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from curvewise.base.errors import (
    InputError,
    did_you_mean,
    require,
    require_choice,
    require_type,
    require_whole,
)

HEAD_NAMES = ("fc", "head", "classifier", "linear")


class Drawing(Protocol):
    """What a network is conditioned on: a loss that draws some of its settings, or none."""

    @property
    def drawn(self) -> tuple[str, ...]:
        """Names of what is drawn, in the order of lambda's entries."""


class FiLM(nn.Module):
    """Scale and shift features by two small MLPs of lambda.

    Each MLP is Linear(n_lambda, hidden), ReLU, Linear(hidden, n_features).

    Parameters
    ----------
    init
        "identity": sigma = 1 and mu = 0 at the start (better in most of our comparisons);
        "paper": PyTorch's own initialisation, so that features are scrambled at first.
    lambda_ranges
        (low, high) per entry of lambda, to feed it scaled to [-1, 1]; None feeds it raw.
    channel_dim
        The dimension of the features that has n_features entries: 1 for (n, F) and
        (n, F, H, W), -1 for (..., F).

    >>> FiLM(1, 64)(torch.ones(5, 64), torch.tensor([3.0])).shape
    torch.Size([5, 64])
    """

    middle: Tensor
    reach: Tensor

    def __init__(
        self,
        n_lambda: int,
        n_features: int,
        hidden: int = 128,
        *,
        init: str = "identity",
        lambda_ranges: Sequence[tuple[float, float]] | None = None,
        channel_dim: int = 1,
    ) -> None:
        super().__init__()
        require_choice("init", init, ("paper", "identity"))
        require_whole("n_lambda", n_lambda)
        require_whole("n_features", n_features)
        require_whole("hidden", hidden)
        # Scaling from [-1, 1] does nothing.
        ranges = [(-1.0, 1.0)] * n_lambda if lambda_ranges is None else lambda_ranges
        fits = len(ranges) == n_lambda and all(low < high for low, high in ranges)
        wanted = f"{n_lambda} pairs (low, high > low)"
        require(fits, f"lambda_ranges must be {wanted}, got {lambda_ranges}")
        self.n_lambda, self.n_features, self.channel_dim = n_lambda, n_features, channel_dim
        self.sigma, self.mu = (
            nn.Sequential(nn.Linear(n_lambda, hidden), nn.ReLU(), nn.Linear(hidden, n_features))
            for _ in range(2)
        )
        if init == "identity":
            for mlp, start in ((self.sigma, 1.0), (self.mu, 0.0)):
                *_, weight, bias = mlp.parameters()
                nn.init.zeros_(weight)
                nn.init.constant_(bias, start)
        self.register_buffer("middle", torch.tensor([(low + high) / 2 for low, high in ranges]))
        self.register_buffer("reach", torch.tensor([(high - low) / 2 for low, high in ranges]))

    def forward(self, features: Tensor, lam: Tensor) -> Tensor:
        """Modulate features (n, ...) by lambda: (d,) for all samples, or (n, d)."""
        if not isinstance(lam, Tensor):
            raise InputError(f"lambda must be a tensor as family.at(...) gives, got {lam!r}")
        if lam.shape[-1:] != (self.n_lambda,):
            raise InputError(
                f"lambda must have {self.n_lambda} entries in its last dimension, "
                f"got shape {tuple(lam.shape)}"
            )
        n = len(features)
        if features.shape[self.channel_dim] != self.n_features:
            raise InputError(
                f"features must have {self.n_features} channels in dimension {self.channel_dim}, "
                f"got shape {tuple(features.shape)}"
            )
        if lam.dim() == 2 and n > 1 and len(lam) not in (1, n):
            raise InputError(
                f"lambda must have one row, or one for each of {n} samples, got {len(lam)}"
            )
        lam = (lam.to(self.middle) - self.middle) / self.reach
        sigma, mu = self.sigma(lam), self.mu(lam)
        dim = self.channel_dim % features.dim()
        before = dim - 1 if lam.dim() > 1 else 0  # one lambda a sample: (n, 1, ..., F, 1, ...)
        shape = (*lam.shape[:-1], *[1] * before, self.n_features, *[1] * (features.dim() - dim - 1))
        modulated: Tensor = sigma.reshape(shape) * features + mu.reshape(shape)
        return modulated


class Conditioned(nn.Module):
    """A network split into body and last linear layer, with FiLM before, after or around it.

    Made by `condition`. ``forward(x, lam)`` gives logits (n, C); ``forward_many(x, lams)`` gives
    (n_lambda, n, C) with one pass through the body.
    """

    def __init__(
        self, network: nn.Module, layer: str, film: FiLM | None, film_logits: FiLM | None
    ) -> None:
        super().__init__()
        self.layer = layer
        tap = Tap()
        object.__setattr__(self, "_tap", tap)  # a reference; the module itself is in the body
        self.body = _replaced(network, layer, tap)
        self.linear = network.get_submodule(layer)
        self.film, self.film_logits = film, film_logits

    _tap: "Tap"

    def features(self, x: Any) -> Tensor:
        """Return the input of the last linear layer."""
        out: Tensor = self.body(x)
        if not torch.compiler.is_compiling():
            seen, self._tap.seen = self._tap.seen, None
            if seen is None or seen[0] is not out or seen[1] != _version(out):
                raise InputError(
                    f"the network must end in the linear layer {self.layer!r}, but its output is "
                    "another one's; name the last layer by layer=..., or take the rest out"
                )
        return out

    def head(self, features: Tensor, lam: Tensor | None = None) -> Tensor:
        """Return logits of features at lambda."""
        if lam is None and (self.film or self.film_logits):
            raise InputError("this network is conditioned, so forward needs lambda, got None")
        if self.film is not None:
            features = self.film(features, lam)
        logits: Tensor = self.linear(features)
        return logits if self.film_logits is None else self.film_logits(logits, lam)

    def forward(self, x: Any, lam: Tensor | None = None) -> Tensor:
        """Return logits (n, C) at lambda, (d,) for all samples or (n, d)."""
        return self.head(self.features(x), lam)

    def forward_many(self, x: Any, lams: Tensor) -> Tensor:
        """Return logits (n_lambda, n, C) at each row of lams (n_lambda, d)."""
        require(len(lams), "forward_many needs at least one lambda, got none")
        features = self.features(x)
        return torch.stack([self.head(features, lam) for lam in lams])


class Tap(nn.Module):
    """Stands where the linear layer was: passes its input on and remembers it for the check."""

    seen: tuple[Tensor, int] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return x."""
        if not torch.compiler.is_compiling():
            self.seen = (x, _version(x))
        return x


def _version(x: Tensor) -> int:
    """Return how often a tensor was changed in place, as far as PyTorch counts it."""
    return 0 if x.is_inference() else x._version


def condition(
    network: nn.Module,
    family: Drawing,
    at: str = "penultimate",
    *,
    layer: str | None = None,
    hidden: int = 128,
    init: str = "identity",
    scale_lambda: bool = False,
) -> Conditioned:
    """Give a network ``forward(x, lam)`` by FiLM at its last linear layer.

    The network is not changed; the result shares its parameters. That nothing follows the linear
    layer is checked in every forward that is not compiled.

    Parameters
    ----------
    at
        "penultimate" modulates the input of the last linear layer (the paper, ResNet-32),
        "logits" its output (the paper's code, ResNeXt-50), "both" both. A family that draws
        nothing adds nothing.
    layer
        Name of the last linear layer, if it is not found by itself: the last `nn.Linear` within
        a child called fc, head, classifier or linear, else the last one in the network.
    init, hidden, scale_lambda
        See `FiLM`; `scale_lambda` feeds lambda scaled to [-1, 1] over the family's ranges.

    >>> from curvewise import LinearDensity, LossFamily
    >>> family = LossFamily(tau=LinearDensity(0.0, 3.0, 0.33))
    >>> network = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
    >>> condition(network, family)(torch.zeros(5, 10), family.at(tau=3.0)).shape
    torch.Size([5, 2])
    """
    require_type("network", network, nn.Module)
    drawing = hasattr(family, "drawn")
    require(drawing, f"family must be a LossFamily or another objective, got {family!r}")
    require_choice("at", at, ("penultimate", "logits", "both"))
    name = layer if layer is not None else find_last_linear(network)
    linears = {
        known: module
        for known, module in network.named_modules()
        if isinstance(module, nn.Linear) and not isinstance(module, nn.LazyLinear)
    }
    if name not in linears:
        raise InputError(
            f"layer must name an nn.Linear with known sizes, one of {list(linears)}, got {name!r}"
            f"{did_you_mean(name, linears)}"
        )
    linear = linears[name]
    require(
        linear.out_features >= 2,
        "the network's last linear layer must have two outputs or more, one for each class, "
        f"got {linear.out_features}",
    )
    n_lambda = len(family.drawn)
    ranges = getattr(family, "ranges", None) if scale_lambda else None
    known = ranges is not None or not (scale_lambda and n_lambda)
    require(known, f"scale_lambda needs a family with ranges, got {type(family).__name__}")

    def film(n_features: int, place: str) -> FiLM | None:
        if n_lambda == 0 or at not in (place, "both"):
            return None
        new = FiLM(n_lambda, n_features, hidden, init=init, lambda_ranges=ranges, channel_dim=-1)
        return new.to(linear.weight)

    before, after = film(linear.in_features, "penultimate"), film(linear.out_features, "logits")
    return Conditioned(network, name, before, after)


def find_last_linear(network: nn.Module) -> str:
    """Return the name of the last linear layer ("" if the network is one itself)."""
    modules = network.named_modules()
    linears: list[str] = [name for name, module in modules if isinstance(module, nn.Linear)]
    require(linears, f"the network must hold an nn.Linear, got {type(network).__name__}")
    in_head = [name for name in linears if name.split(".")[0] in HEAD_NAMES]
    return (in_head or linears)[-1]


def _replaced(network: nn.Module, name: str, other: nn.Module) -> nn.Module:
    """Return the network with one layer replaced; the given network stays as it was."""
    if not name:
        return other
    first, _, rest = name.partition(".")
    twin = copy.copy(network)  # same parameters; its own tables of children and hooks
    for key, table in vars(network).items():
        if key == "_modules" or "hooks" in key:
            vars(twin)[key] = copy.copy(table)
    twin._modules[first] = _replaced(network.get_submodule(first), rest, other)
    return twin
