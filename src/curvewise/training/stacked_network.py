"""K networks of one shape as one: every parameter has a leading dimension K.

All parameters lie in one buffer (K, P), and so do their gradients, so that clipping and updating
K models are a handful of operations whatever the number of layers.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from curvewise.networks.conditioning import Conditioned
from curvewise.training.stacked_layers import Layered, layers_of


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
