"""Sharpness-aware minimisation: descend by the gradient at the worst point near by.

Foret et al. 2021, arXiv 2010.01412; the adaptive form: Kwon et al. 2021, arXiv 2102.11600.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from curvewise.base.errors import InputError, require_number


class SAM(Optimizer):
    r"""Wrap an optimiser so that it uses the gradient at :math:`w + \rho\, g / \|g\|`.

    `base_optimizer` is a class (``torch.optim.SGD``); further keyword arguments go to it.
    Parameter groups may have their own `rho` and `adaptive`; the norm is over all groups.
    `adaptive` measures the neighbourhood relative to each weight,
    :math:`w + \rho\, w^2 g / \|\,|w| g\,\|`. With rho = 0 it is the base optimiser.

    Use it with a closure that clears the gradients, computes the loss, calls backward and returns
    the loss, or in two steps:

    >>> weight = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = SAM([weight], torch.optim.SGD, rho=0.1, lr=0.5)
    >>> (weight**2).sum().backward()
    >>> optimizer.ascend()
    >>> (weight**2).sum().backward()
    >>> optimizer.descend()
    >>> weight
    tensor([-0.1000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        base_optimizer: Callable[..., Optimizer],
        rho: float = 0.05,
        *,
        adaptive: bool = False,
        **kwargs: Any,
    ) -> None:
        defaults = {"rho": require_number("rho", rho, 0), "adaptive": adaptive}
        super().__init__(params, defaults)
        for group in self.param_groups:
            require_number("rho", group["rho"], 0)
        self.base = base_optimizer(self.param_groups, **kwargs)
        self.defaults.update(self.base.defaults)
        self._share()
        self._climbed: list[tuple[Tensor, Tensor]] = []

    def _share(self) -> None:
        """Make groups and state one object with the base optimiser's, for schedules and saving."""
        self.base.param_groups = self.param_groups
        self.base.state = self.state

    @torch.no_grad()
    def ascend(self) -> None:
        """Go from the gradient at w to the worst point near by, and clear the gradients."""
        if self._climbed:
            raise InputError("ascend() must be followed by descend() before it is called again")
        found = [
            (parameter, group)
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        sizes = [parameter.abs() if group["adaptive"] else None for parameter, group in found]
        gradients = [
            parameter.grad if size is None else parameter.grad * size
            for (parameter, _), size in zip(found, sizes, strict=True)
        ]
        if not found:
            raise InputError("ascend() needs gradients: call backward() on the loss first")
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm().clamp_min(1e-12)
        for (parameter, group), size, gradient in zip(found, sizes, gradients, strict=True):
            step = gradient if size is None else gradient * size
            self._climbed.append((parameter, parameter.clone()))
            parameter.add_(step * (group["rho"] / norm).to(parameter))
        self.zero_grad()

    @torch.no_grad()
    def descend(self) -> None:
        """Go back to w, step there with the gradients of the worst point, and clear them."""
        if not self._climbed:
            raise InputError("descend() must follow ascend()")
        self._return()
        self.base.step()
        self._opt_called = True  # what a learning rate schedule looks for
        self.zero_grad()

    def _return(self) -> None:
        for parameter, before in self._climbed:
            parameter.copy_(before)
        self._climbed.clear()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do both halves with a closure; returns the loss at w."""
        if closure is None:
            raise InputError("SAM.step needs a closure; without one call ascend() and descend()")
        evaluate = torch.enable_grad()(closure)
        loss = evaluate()
        self.ascend()
        try:
            evaluate()
        except BaseException:  # Ctrl-C too: never leave the weights at the worst point
            self._return()
            raise
        self.descend()
        return loss

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "base": self.base, "_climbed": self._climbed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` gave: groups (with rho) and the base optimiser's state."""
        super().load_state_dict(state_dict)
        self._share()
