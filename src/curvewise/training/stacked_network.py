"""K networks of one shape as one: every parameter has a leading dimension K.

All parameters lie in one buffer (K, P), and so do their gradients, so that clipping and updating
K models are a handful of operations whatever the number of layers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from curvewise.conditioning import Conditioned, FiLM
from curvewise.networks.mlp import MLP


class StackedNetwork:
    """K conditioned networks that differ in their weights only.

    `weights` and `gradients` are (K, P); `forward(x, lam)` gives logits (K, n, C) of one batch x
    that all members share, at lambda (K, d), or (K, n, d) for one a sample. A backward pass of the
    result, and `collect`, fill `gradients`. `extra` are further parameters (K, m), an
    objective's, that are trained along; they are moved into the buffers. `input_scale` (K, d)
    multiplies the columns of x, for each member its own.
    """

    def __init__(
        self,
        networks: Sequence[Conditioned],
        extra: Sequence[nn.Parameter] = (),
        input_scale: Tensor | None = None,
    ) -> None:
        self.template, self.extra = networks[0], list(extra)
        members = [
            {name: p.detach() for name, p in network.named_parameters() if p.requires_grad}
            for network in networks
        ]
        columns = [torch.stack([m[name].reshape(-1) for m in members]) for name in members[0]]
        self.weights = torch.cat([*columns, *[p.detach().to(columns[0]) for p in extra]], dim=1)
        self.gradients = torch.zeros_like(self.weights)
        self.input_scale = None if input_scale is None else input_scale.to(self.weights)
        self._shapes = {name: value.shape for name, value in members[0].items()}
        self.size = sum(shape.numel() for shape in self._shapes.values())
        self.buffers = _stacked([dict(network.named_buffers()) for network in networks])
        self.frozen = _stacked(
            [{n: p for n, p in net.named_parameters() if not p.requires_grad} for net in networks]
        )
        self._point()
        layers = layers_of(self.template)
        self.layered = None if layers is None else Layered(self, layers)
        self._run: Callable[[Tensor, Tensor], Tensor] = self.layered or self._mapped

    def _point(self) -> None:
        """Make tensors per parameter that lie in the two buffers."""
        self.parameters, self.parameter_gradients = {}, {}
        start, k = 0, len(self.weights)
        for name, shape in self._shapes.items():
            columns = slice(start, start + shape.numel())
            weight, gradient = (
                flat[:, columns].view(k, *shape).detach() for flat in (self.weights, self.gradients)
            )
            self.parameters[name], self.parameter_gradients[name] = weight, gradient
            weight.requires_grad_()
            start = columns.stop
        for parameter in self.extra:
            columns = slice(start, start + parameter.shape[1])
            parameter.data = self.weights[:, columns]
            start = columns.stop

    def __len__(self) -> int:
        return len(self.weights)

    def forward(self, x: Tensor, lam: Tensor) -> Tensor:
        """Return logits (K, n, C)."""
        for parameter in self._autograd_leaves:
            parameter.grad = None
        return self._run(x, lam)

    @property
    def _autograd_leaves(self) -> list[Tensor]:
        """Parameters whose gradients autograd keeps; layers write theirs into the buffer."""
        return [*([] if self.layered else self.parameters.values()), *self.extra]

    def collect(self) -> None:
        """Complete `gradients` after a backward pass."""
        leaves = self._autograd_leaves
        if leaves:
            found = [p.grad.flatten(1) for p in leaves if p.grad is not None]
            self.gradients[:, self.size if self.layered else 0 :] = torch.cat(found, dim=1)

    def _mapped(self, x: Tensor, lam: Tensor) -> Tensor:
        """Return logits of any kind of network, by vmap."""

        def one(tensors: tuple[dict[str, Tensor], ...], lam: Tensor, scale: Tensor) -> Tensor:
            logits: Tensor = functional_call(self.template, tensors, (x * scale, lam))
            return logits

        scale = self.input_scale
        if scale is None:
            scale = self.weights.new_ones(len(self), 1)
        logits: Tensor = vmap(one)((self.parameters, self.buffers, self.frozen), lam, scale)
        return logits

    def keep(self, members: Tensor) -> None:
        """Go on with these members only."""
        self.weights, self.gradients = self.weights[members], self.gradients[members]
        if self.input_scale is not None:
            self.input_scale = self.input_scale[members]
        self.buffers = {name: value[members] for name, value in self.buffers.items()}
        self.frozen = {name: value[members] for name, value in self.frozen.items()}
        self._point()

    def write(
        self,
        networks: Sequence[Conditioned],
        places: Sequence[int],
        weights: Tensor | None = None,
        buffers: dict[str, Tensor] | None = None,
    ) -> None:
        """Give networks the weights and buffers of the members at these places.

        `weights` and `buffers` are others of the same kind, instead of the present ones.
        """
        weights = self.weights if weights is None else weights
        buffers = self.buffers if buffers is None else buffers
        with torch.no_grad():
            for k, network in zip(places, networks, strict=True):
                sizes = [shape.numel() for shape in self._shapes.values()]
                parts = torch.split(weights[k, : self.size], sizes)
                own = dict(network.named_parameters())
                for (name, shape), part in zip(self._shapes.items(), parts, strict=True):
                    own[name].copy_(part.view(shape))
                for name, buffer in network.named_buffers():
                    buffer.copy_(buffers[name][k])


def _stacked(members: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([m[name].detach() for m in members]) for name in members[0]}


Layer = tuple[str, bool]  # the name of a linear layer's parameters, whether a ReLU follows


def layers_of(network: Conditioned) -> list[Layer] | None:
    """Return the body's linear layers in order if it is those and ReLUs only, all trained.

    >>> from curvewise.conditioning import condition
    >>> from curvewise.family import LossFamily
    >>> layers_of(condition(MLP(3, hidden=(8,)), LossFamily()))
    [('body.body.0', True)]
    """
    if not all(parameter.requires_grad for parameter in network.parameters()):
        return None
    inner: Any = network.body
    prefix = "body"
    if type(inner) is MLP:
        inner, prefix = inner.body, "body.body"
    if not isinstance(inner, nn.Sequential):
        return [] if not list(inner.children()) and not list(inner.parameters()) else None
    layers: list[Layer] = []
    for name, module in inner.named_children():
        if type(module) is nn.Linear and module.bias is not None:
            layers.append((f"{prefix}.{name}", False))
        elif type(module) is nn.ReLU and layers and not layers[-1][1]:
            layers[-1] = (layers[-1][0], True)
        elif list(module.parameters()) or type(module).__name__ != "_Tap":
            return None
    return layers if network.linear.bias is not None else None


class Layered:
    """Linear layers and FiLM by matrix products over all members.

    Activations are (K, features, n): the first layer is then one large product of all members'
    weights with the shared batch, and no product needs a copy.
    """

    def __init__(self, stack: StackedNetwork, layers: list[Layer]) -> None:
        self.stack, self.layers = stack, layers

    def __call__(self, x: Tensor, lam: Tensor) -> Tensor:
        """Return logits (K, n, C)."""
        return self.head(self.features(x), lam)

    def features(self, x: Tensor) -> Tensor:
        """Return the input of the last linear layers, (K, F, n), or (d, n) without a body."""
        hidden: Tensor = x.t()
        scale = self.stack.input_scale
        if scale is not None and not self.layers:
            return hidden * scale[..., None]
        for name, relu in self.layers:
            hidden = self._linear(name, hidden, relu, scale)
            scale = None
        return hidden

    def head(self, features: Tensor, lam: Tensor) -> Tensor:
        """Return logits (K, n, C) of features."""
        template = self.stack.template
        if template.film is not None:
            features = self._film("film", template.film, features, lam)
        logits = self._linear("linear", features)
        if template.film_logits is not None:
            logits = self._film("film_logits", template.film_logits, logits, lam)
        return logits.transpose(1, 2)

    def _linear(
        self, name: str, x: Tensor, relu: bool = False, scale: Tensor | None = None
    ) -> Tensor:
        weight, bias = f"{name}.weight", f"{name}.bias"
        stack = self.stack
        out: Tensor = _LinearReLU.apply(  # type: ignore[no-untyped-call]
            x,
            stack.parameters[weight],
            stack.parameters[bias],
            stack.parameter_gradients[weight],
            stack.parameter_gradients[bias],
            relu,
            None if scale is None else scale[:, None],
        )
        return out

    def _film(self, name: str, film: FiLM, features: Tensor, lam: Tensor) -> Tensor:
        """Modulate features (K, F, n) by lambda (K, d) or (K, n, d)."""
        lam = (lam.to(film.middle) - film.middle) / film.reach
        column = lam.unsqueeze(-1) if lam.dim() == 2 else lam.transpose(1, 2)  # (K, d, 1 or n)
        sigma, mu = (
            self._linear(f"{name}.{part}.2", self._linear(f"{name}.{part}.0", column, relu=True))
            for part in ("sigma", "mu")
        )
        return torch.addcmul(mu, sigma, features)


class _LinearReLU(torch.autograd.Function):
    """W x + b over a stack, with or without ReLU; gradients of W and b go into their buffers.

    x is (d, n), the same for all members, or (K, d, n); W (K, o, d), b (K, o); out (K, o, n). With
    `scale` (K, 1, d) it is W (scale x) + b, for an x of which no gradient is needed.
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
        scale: Tensor | None,
    ) -> Tensor:
        """Return the layer's output (K, o, n)."""
        k, o, d = weight.shape
        if scale is not None:
            weight = weight * scale  # smaller than as many copies of x
        if x.dim() == 2:
            out = torch.addmm(_column(bias).reshape(k * o, 1), weight.reshape(k * o, d), x)
            out = out.view(k, o, -1)
        else:
            out = torch.baddbmm(_column(bias), weight, x)
        if relu:
            out = out.relu_()
        ctx.relu, ctx.into, ctx.scale = relu, (weight_gradient, bias_gradient), scale
        ctx.save_for_backward(x, weight, out if relu else None)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Write the gradients of W and b, return that of x."""
        x, weight, out = ctx.saved_tensors
        weight_gradient, bias_gradient = ctx.into
        gradient = gradients[0].contiguous()
        if ctx.relu:
            gradient = torch.ops.aten.threshold_backward(gradient, out, 0)
        torch.sum(gradient, dim=2, out=bias_gradient)
        if x.dim() == 2:
            k, o, d = weight.shape
            product = gradient.reshape(k * o, -1) @ x.t()
            weight_gradient.copy_(product.view(k, o, d))
        else:
            torch.bmm(gradient, x.transpose(1, 2), out=weight_gradient)
        if ctx.scale is not None:
            weight_gradient.mul_(ctx.scale)
        back = None
        if ctx.needs_input_grad[0]:
            back = torch.bmm(weight.transpose(1, 2), gradient)
        return back, None, None, None, None, None, None


def _column(bias: Tensor) -> Tensor:
    return bias.unsqueeze(-1)
