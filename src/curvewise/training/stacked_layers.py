"""Layers of a stack: linear ones with ReLU and FiLM, by matrix products over all members."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from curvewise.networks.conditioning import Conditioned, FiLM, Tap
from curvewise.networks.small import MLP

if TYPE_CHECKING:
    from curvewise.training.stacked_network import StackedNetwork

Layer = tuple[str, bool]  # the name of a linear layer's parameters, whether a ReLU follows


def layers_of(network: Conditioned) -> list[Layer] | None:
    """Return the body's linear layers in order if it is those and ReLUs only, all trained.

    None for anything else: layers used twice, hooks, a Sequential with a forward of its own.

    >>> from curvewise.networks.conditioning import condition
    >>> from curvewise.losses.family import LossFamily
    >>> layers_of(condition(MLP(3, hidden=(8,)), LossFamily()))
    [('body.body.0', True)]
    """
    if not all(parameter.requires_grad for parameter in network.parameters()):
        return None
    if network.linear.bias is None or any(_hooked(module) for module in network.modules()):
        return None
    inner: Any = network.body
    if type(inner) is Tap:
        return []
    prefix = "body"
    modules: list[Any]
    if type(inner) is MLP:
        prefix, modules = "body.body", list(inner.body._modules.items())
    elif type(inner) is nn.Sequential:
        *modules, (_, last) = inner._modules.items()  # named_children leaves out the repeated
        if type(last) is not Tap:
            return None
    else:
        return None
    layers: list[Layer] = []
    linear: list[nn.Module] = []
    for name, module in modules:
        if type(module) is nn.Linear and module.bias is not None and module not in linear:
            linear.append(module)
            layers.append((f"{prefix}.{name}", False))
        elif type(module) is nn.ReLU and layers:
            layers[-1] = (layers[-1][0], True)  # a second one in a row changes nothing
        else:
            return None
    return layers


def _hooked(module: nn.Module) -> bool:
    """Tell whether somebody sees or changes what goes through a module."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


class Layered:
    """Linear layers and FiLM by matrix products over all members.

    Activations are (K, features, n): the first layer is then one large product of all members'
    weights with the shared batch, and no product needs a copy.
    """

    def __init__(self, stack: "StackedNetwork", layers: list[Layer]) -> None:
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
        if template.film is None:
            logits = self._linear("linear", features)
        else:
            sigma, mu = self._film("film", template.film, lam)
            if lam.dim() == 2:
                logits = self._modulated("linear", features, sigma, mu)
            else:
                logits = self._linear("linear", torch.addcmul(mu, sigma, features))
        if template.film_logits is not None:
            sigma, mu = self._film("film_logits", template.film_logits, lam)
            logits = torch.addcmul(mu, sigma, logits)
        return logits.transpose(1, 2)

    def _linear(
        self, name: str, x: Tensor, relu: bool = False, scale: Tensor | None = None
    ) -> Tensor:
        out: Tensor = _LinearReLU.apply(  # type: ignore[no-untyped-call]
            x, *self._tensors(name), relu, None if scale is None else scale[:, None]
        )
        return out

    def _modulated(self, name: str, x: Tensor, sigma: Tensor, mu: Tensor) -> Tensor:
        out: Tensor = _ModulatedLinear.apply(  # type: ignore[no-untyped-call]
            x, sigma, mu, *self._tensors(name)
        )
        return out

    def _tensors(self, name: str) -> list[Tensor]:
        """Return weight and bias of a layer, and where their gradients go."""
        kinds = (self.stack.parameters, self.stack.parameter_gradients)
        return [kind[f"{name}.{part}"] for kind in kinds for part in ("weight", "bias")]

    def _film(self, name: str, film: FiLM, lam: Tensor) -> list[Tensor]:
        """Return sigma and mu at lambda (K, d) or (K, n, d), each (K, F, 1 or n)."""
        lam = (lam.to(film.middle) - film.middle) / film.reach
        column = lam.unsqueeze(-1) if lam.dim() == 2 else lam.transpose(1, 2)  # (K, d, 1 or n)
        return [
            self._linear(f"{name}.{part}.2", self._linear(f"{name}.{part}.0", column, relu=True))
            for part in ("sigma", "mu")
        ]


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
        if scale is not None:
            weight = weight * scale  # smaller than as many copies of x
        out = _affine(weight, x, _column(bias))
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
        if x.dim() == 3 and x.shape[2] == 1:
            torch.mul(gradient, x.transpose(1, 2), out=weight_gradient)  # quicker than a product
        elif x.dim() == 3:
            torch.bmm(gradient, x.transpose(1, 2), out=weight_gradient)
        else:
            weight_gradient.copy_(_shared_product(gradient, x))
        if ctx.scale is not None:
            weight_gradient.mul_(ctx.scale)
        back = None
        if ctx.needs_input_grad[0]:
            back = torch.bmm(weight.transpose(1, 2), gradient)
        return back, None, None, None, None, None, None


class _ModulatedLinear(torch.autograd.Function):
    """W (sigma * x + mu) + b over a stack: FiLM at one lambda for all samples, and a layer.

    Computed as (W sigma) x + (W mu + b): what FiLM does to the features of a whole batch is done
    to the few rows of W. Shapes are those of `_LinearReLU`; sigma and mu are (K, d, 1).
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        sigma: Tensor,
        mu: Tensor,
        weight: Tensor,
        bias: Tensor,
        weight_gradient: Tensor,
        bias_gradient: Tensor,
    ) -> Tensor:
        """Return the layer's output (K, o, n)."""
        modulated = weight * sigma.transpose(1, 2)
        ctx.into = weight_gradient, bias_gradient
        ctx.save_for_backward(x, sigma, mu, weight, modulated)
        return _affine(modulated, x, torch.baddbmm(_column(bias), weight, mu))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Write the gradients of W and b, return those of x, sigma and mu."""
        x, sigma, mu, weight, modulated = ctx.saved_tensors
        weight_gradient, bias_gradient = ctx.into
        gradient = gradients[0].contiguous()
        torch.sum(gradient, dim=2, out=bias_gradient)
        if x.dim() == 3:
            product = torch.bmm(gradient, x.transpose(1, 2))
        else:
            product = _shared_product(gradient, x)
        shift = _column(bias_gradient)
        torch.mul(product, sigma.transpose(1, 2), out=weight_gradient)
        weight_gradient.addcmul_(shift, mu.transpose(1, 2))
        back = None
        if ctx.needs_input_grad[0]:
            back = torch.bmm(modulated.transpose(1, 2), gradient)
        to_sigma = (product * weight).sum(dim=1).unsqueeze(-1)
        to_mu = (shift * weight).sum(dim=1).unsqueeze(-1)
        return back, to_sigma, to_mu, None, None, None, None


def _affine(weight: Tensor, x: Tensor, column: Tensor) -> Tensor:
    """Return W x + column (K, o, n), for x (K, d, n) or one (d, n) that all members share."""
    if x.dim() == 3:
        return torch.baddbmm(column, weight, x)
    k, o, d = weight.shape
    out = torch.addmm(column.reshape(k * o, 1), weight.reshape(k * o, d), x)
    return out.view(k, o, -1)


def _shared_product(gradient: Tensor, x: Tensor) -> Tensor:
    """Return the gradients (K, o, d) of weights that were applied to a shared x (d, n)."""
    k, o, n = gradient.shape
    return (gradient.reshape(k * o, n) @ x.t()).view(k, o, -1)


def _column(bias: Tensor) -> Tensor:
    return bias.unsqueeze(-1)
