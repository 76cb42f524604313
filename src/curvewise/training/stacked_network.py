"""K networks of one shape as one: every parameter has a leading dimension K.

All parameters lie in one buffer (K, P), and so do their gradients, so that clipping and updating
K models are a handful of operations whatever the number of layers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from curvewise.base.errors import require
from curvewise.networks.architectures import MLP
from curvewise.networks.conditioning import Conditioned, FiLM, Tap
from curvewise.networks.registry import Normalization
from curvewise.training.batches import Array, Samples
from curvewise.training.model import logits_at

Layer = tuple[str, bool]  # the name of a linear layer's parameters, whether a ReLU follows
WEIGHTS = ""  # among the names of tensors: all weights, (K, P)
SCORING_BYTES = 64 * 2**20  # activations held at a time


def layers_of(network: Conditioned) -> list[Layer] | None:
    """Return the body's linear layers in order if it is those and ReLUs only, all trained.

    None for anything else: layers used twice, hooks, a Sequential with a forward of its own.

    >>> from curvewise.networks.conditioning import condition
    >>> from curvewise.losses.family import LossFamily
    >>> layers_of(condition(MLP(3, hidden=(8,)), LossFamily()))
    [('body.body.0', True)]
    """
    frozen = not all(parameter.requires_grad for parameter in network.parameters())
    # Hooks see or change what goes through a module.
    hooks = [
        m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in network.modules()
    ]
    if frozen or network.linear.bias is None or any(hooks):
        return None
    inner: Any = network.body
    if type(inner) is Tap:
        return []
    prefix, modules = "body", list(inner._modules.items())  # named_children leaves out repeated
    if type(inner) is MLP:
        prefix, modules = "body.body", list(inner.body._modules.items())
    elif type(inner) is not nn.Sequential or type(modules.pop()[1]) is not Tap:
        return None
    layers: list[Layer] = []
    for name, module in modules:
        once = [other for _, other in modules].count(module) == 1
        if type(module) is nn.Linear and module.bias is not None and once:
            layers.append((f"{prefix}.{name}", False))
        elif type(module) is nn.ReLU and layers:
            layers[-1] = (layers[-1][0], True)  # a second one in a row changes nothing
        else:
            return None
    return layers


class StackedNetwork:
    """K conditioned networks that differ in their weights only.

    `weights` and `gradients` are (K, P); `forward(x, lam)` gives logits (K, n, C) of one batch x
    that all members share, at lambda (K, d), or (K, n, d) for one a sample. A backward pass of the
    result, and `collect`, fill `gradients`. `extra` are further parameters (K, m), an
    objective's, that are trained along; they are moved into the buffers. `input_scale` (K, d)
    multiplies the columns of x, for each member its own.

    Networks of linear layers (`layers_of`) are computed by matrix products over all members, with
    activations (K, features, n): the first layer is then one large product of all members'
    weights with the shared batch, and no product needs a copy. Others are mapped.
    """

    def __init__(
        self,
        networks: Sequence[Conditioned],
        extra: Sequence[nn.Parameter] = (),
        input_scale: Tensor | None = None,
    ) -> None:
        self.template, self.extra = networks[0], list(extra)
        self.layers = layers_of(self.template)
        members = [
            {name: p.detach() for name, p in network.named_parameters() if p.requires_grad}
            for network in networks
        ]
        columns = [torch.stack([m[name].reshape(-1) for m in members]) for name in members[0]]
        self.weights = torch.cat([*columns, *[p.detach().to(columns[0]) for p in extra]], dim=1)
        self.gradients = torch.zeros_like(self.weights)
        self.input_scale = None if input_scale is None else input_scale.to(self.weights)[..., None]
        self._shapes = {name: value.shape for name, value in members[0].items()}
        self._sizes = [column.shape[1] for column in (*columns, *self.extra)]
        self.buffers = _stacked([dict(network.named_buffers()) for network in networks])
        self.frozen = _stacked(
            [{n: p for n, p in net.named_parameters() if not p.requires_grad} for net in networks]
        )
        self._point()

    def _point(self) -> None:
        """Make tensors per parameter, and per gradient, that lie in the two buffers."""
        weights, gradients = (
            iter(torch.split(flat, self._sizes, dim=1)) for flat in (self.weights, self.gradients)
        )
        self.parameters, self.parameter_gradients = {}, {}
        for name, shape in self._shapes.items():
            self.parameters[name] = next(weights).view(-1, *shape).detach().requires_grad_()
            self.parameter_gradients[name] = next(gradients).view(-1, *shape)
        for parameter in self.extra:
            parameter.data = next(weights)
        # Parameters whose gradients autograd keeps; layers write theirs into the buffer.
        self._leaves = [*(self.parameters.values() if self.layers is None else ()), *self.extra]

    def forward(self, x: Tensor, lam: Tensor) -> Tensor:
        """Return logits (K, n, C)."""
        for parameter in self._leaves:
            parameter.grad = None
        return self._mapped(x, lam) if self.layers is None else self.head(self.features(x), lam)

    def collect(self) -> None:
        """Complete `gradients` after a backward pass."""
        if self._leaves:
            kept = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._leaves]
            flat = torch.cat([p.flatten(1) for p in kept], dim=1)
            self.gradients[:, -flat.shape[1] :] = flat

    def _mapped(self, x: Tensor, lam: Tensor) -> Tensor:
        """Return logits of any kind of network, by vmap."""

        def one(tensors: tuple[dict[str, Tensor], ...], lam: Tensor, scale: Tensor) -> Tensor:
            logits: Tensor = functional_call(self.template, tensors, (x * scale, lam))
            return logits

        scale = self.weights.new_ones(1) if self.input_scale is None else self.input_scale[..., 0]
        scale = scale.expand(len(self.weights), -1)
        return vmap(one)((self.parameters, self.buffers, self.frozen), lam, scale)

    def features(self, x: Tensor) -> Tensor:
        """Return the input of the last linear layers, (K, F, n), or (d, n) without a body."""
        hidden, scale = x.t(), self.input_scale
        if scale is not None and not self.layers:
            return hidden * scale
        for name, relu in self.layers or ():
            hidden = self._linear(name, hidden, relu, scale)
            scale = None
        return hidden

    def head(self, features: Tensor, lam: Tensor) -> Tensor:
        """Return logits (K, n, C) of features."""
        template = self.template
        film = [] if template.film is None else self._film("film", template.film, lam)
        if film and lam.dim() == 3:
            sigma, mu = film
            features, film = torch.addcmul(mu, sigma, features), []
        logits = self._linear("linear", features, False, *film)
        if template.film_logits is not None:
            sigma, mu = self._film("film_logits", template.film_logits, lam)
            logits = torch.addcmul(mu, sigma, logits)
        return logits.transpose(1, 2)

    def _linear(
        self,
        name: str,
        x: Tensor,
        relu: bool = False,
        sigma: Tensor | None = None,
        mu: Tensor | None = None,
    ) -> Tensor:
        tensors = [
            kind[f"{name}.{part}"]
            for kind in (self.parameters, self.parameter_gradients)
            for part in ("weight", "bias")
        ]
        out: Tensor = _Linear.apply(x, *tensors, relu, sigma, mu)  # type: ignore[no-untyped-call]
        return out

    def _film(self, name: str, film: FiLM, lam: Tensor) -> list[Tensor]:
        """Return sigma and mu at lambda (K, d) or (K, n, d), each (K, F, 1 or n)."""
        lam = (lam.to(film.middle) - film.middle) / film.reach
        column = lam.unsqueeze(-1) if lam.dim() == 2 else lam.transpose(1, 2)  # (K, d, 1 or n)
        return [
            self._linear(f"{name}.{part}.2", self._linear(f"{name}.{part}.0", column, relu=True))
            for part in ("sigma", "mu")
        ]

    def keep(self, members: list[int]) -> None:
        """Go on with these members only."""
        self.weights, self.gradients = self.weights[members], self.gradients[members]
        if self.input_scale is not None:
            self.input_scale = self.input_scale[members]
        self.buffers = {name: value[members] for name, value in self.buffers.items()}
        self.frozen = {name: value[members] for name, value in self.frozen.items()}
        self._point()

    def tensors(self) -> dict[str, Tensor]:
        """Return what training changes: weights (K, P) by the name `WEIGHTS`, and buffers."""
        return {WEIGHTS: self.weights, **self.buffers}

    @torch.no_grad()
    def write(self, network: Conditioned, k: int, tensors: dict[str, Tensor]) -> None:
        """Give a network the weights and buffers of the k-th member in `tensors`."""
        parts = torch.split(tensors[WEIGHTS][k], self._sizes)  # the last are the objective's
        for (name, shape), part in zip(self._shapes.items(), parts, strict=False):
            network.get_parameter(name).copy_(part.view(shape))
        for name, buffer in network.named_buffers():
            buffer.copy_(tensors[name][k])


def _stacked(members: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([m[name].detach() for m in members]) for name in members[0]}


@torch.no_grad()
def stacked_scores(
    networks: Sequence[Conditioned],
    x: Array,
    lams: Tensor,
    *,
    normalization: Normalization | None = None,
) -> NDArray[np.float32]:
    """Return z1 - z0 of K networks at lambdas, (K, n_lambda, n).

    `lams` is (n_lambda, d) for all members, or (K, n_lambda, d). The networks have one shape, as
    `fit_stacked` gives them.

    >>> from curvewise.networks.conditioning import condition
    >>> from curvewise.losses.family import LossFamily
    >>> from curvewise.networks.architectures import MLP
    >>> networks = [condition(MLP(3), LossFamily()) for _ in range(4)]
    >>> stacked_scores(networks, torch.zeros(5, 3), torch.zeros(1, 0)).shape
    (4, 1, 5)
    """
    k, n_classes = len(networks), networks[0].linear.out_features
    if lams.dim() == 2:
        lams = lams.expand(k, *lams.shape)
    require(
        lams.dim() == 3 and len(lams) == k and lams.shape[1],
        f"lams must have shape (n_lambda, d) or ({k}, n_lambda, d) with at least one lambda, got "
        f"{tuple(lams.shape)}",
    )
    require(n_classes == 2, f"scores need two classes, got {n_classes}")
    if layers_of(networks[0]) is None:
        each = [
            logits_at(network, x, some, normalization=normalization)
            for network, some in zip(networks, lams, strict=True)
        ]
        logits = torch.stack(each)
        return (logits[..., 1] - logits[..., 0]).float().numpy()
    samples = Samples(x, next(networks[0].parameters()).device, normalization)
    out = torch.empty(k, lams.shape[1], len(samples))
    width = max(parameter.shape[0] for parameter in networks[0].parameters())
    members = max(1, min(k, SCORING_BYTES // (16 * width * min(len(samples), 512))))
    rows = max(1, SCORING_BYTES // (16 * width * members))
    for first in range(0, k, members):
        some = slice(first, first + members)
        stack = StackedNetwork(networks[some])
        for part in torch.split(torch.arange(len(samples)), rows):
            features = stack.features(samples.prepared(samples.raw(part)))
            for number in range(lams.shape[1]):
                z = stack.head(features, lams[some, number].to(stack.weights))
                out[some, number, part] = (z[..., 1] - z[..., 0]).float().cpu()
    return out.numpy()


class _Linear(torch.autograd.Function):
    """W (sigma x + mu) + b over a stack, perhaps with ReLU; gradients of W and b go into buffers.

    x is (d, n), the same for all members, or (K, d, n); W (K, o, d), b (K, o); out (K, o, n).
    Sigma and mu (K, d, 1) are FiLM at one lambda for all samples; sigma alone is an input's scale.
    Computed as (W sigma) x + (W mu + b): what they would do to a whole batch is done to the few
    rows of W.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        weight_gradient: Tensor,
        bias_gradient: Tensor,
        relu: bool,
        sigma: Tensor | None,
        mu: Tensor | None,
    ) -> Tensor:
        column = bias.unsqueeze(-1)
        applied = weight if sigma is None else weight * sigma.transpose(1, 2)
        if mu is not None:
            column = torch.baddbmm(column, weight, mu)
        if x.dim() == 3:
            out = torch.baddbmm(column, applied, x)
        else:
            k, o, d = weight.shape
            out = torch.addmm(column.reshape(k * o, 1), applied.reshape(k * o, d), x).view(k, o, -1)
        if relu:
            out = out.relu_()
        ctx.into = weight_gradient, bias_gradient
        ctx.save_for_backward(x, weight, sigma, mu, applied, out if relu else None)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, weight, sigma, mu, applied, out = ctx.saved_tensors
        weight_gradient, bias_gradient = ctx.into
        gradient = gradients[0].contiguous()
        if out is not None:
            gradient = torch.ops.aten.threshold_backward(gradient, out, 0)
        torch.sum(gradient, dim=2, out=bias_gradient)
        if x.dim() == 2:
            k, o, n = gradient.shape
            weight_gradient.copy_((gradient.reshape(k * o, n) @ x.t()).view(k, o, -1))
        elif x.shape[2] == 1:
            torch.mul(gradient, x.transpose(1, 2), out=weight_gradient)  # quicker than a product
        else:
            torch.bmm(gradient, x.transpose(1, 2), out=weight_gradient)
        back = torch.bmm(applied.transpose(1, 2), gradient) if ctx.needs_input_grad[0] else None
        to_sigma = to_mu = None
        if ctx.needs_input_grad[6]:
            to_sigma = (weight_gradient * weight).sum(dim=1).unsqueeze(-1)
        if sigma is not None:
            weight_gradient.mul_(sigma.transpose(1, 2))
        if mu is not None:
            shift = bias_gradient.unsqueeze(-1)
            to_mu = (shift * weight).sum(dim=1).unsqueeze(-1)
            weight_gradient.addcmul_(shift, mu.transpose(1, 2))
        return back, None, None, None, None, None, to_sigma, to_mu
