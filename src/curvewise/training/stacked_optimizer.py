"""SGD and AdamW over a stack: rates, decay, clipping and SAM's ascent are each member's own.

The arithmetic is that of torch.optim's and of `SAM`, on buffers (K, P).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from curvewise.training.recipe import Recipe

ADAM_BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8  # torch's defaults, which `fit` uses


class StackedOptimizer:
    """Updates weights (K, P) from gradients (K, P), in place."""

    def __init__(self, recipe: Recipe, recipes: Sequence[Recipe], weights: Tensor) -> None:
        self.recipe = recipe

        def column(name: str) -> Tensor:
            values = [getattr(own, name) for own in recipes]
            return torch.tensor(values, dtype=torch.float64).to(weights)[:, None]

        self.rates, self.decays = column("lr") / recipe.lr, column("weight_decay")
        self.first = torch.zeros_like(weights)  # momentum, or Adam's mean
        self.second = torch.zeros_like(weights) if recipe.optimizer == "adamw" else None
        self.steps = 0.0
        self._before: Tensor | None = None
        self._group()

    def keep(self, members: Tensor) -> None:
        """Go on with these members only."""
        self.rates, self.decays = self.rates[members], self.decays[members]
        self.first = self.first[members]
        self.second = None if self.second is None else self.second[members]
        self._group()

    def clip(self, gradients: Tensor) -> None:
        """Scale each member's gradient to the norm it may have at most."""
        if self.recipe.clip_norm is not None:
            norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
            gradients.mul_((self.recipe.clip_norm / (norms + 1e-6)).clamp_max_(1.0))

    def ascend(self, weights: Tensor, gradients: Tensor) -> None:
        """Go to each member's worst point near by, as SAM does before its second pass."""
        self._before = weights.clone()
        size = weights.abs() if self.recipe.adaptive else None
        scaled = gradients if size is None else gradients * size
        norms = torch.linalg.vector_norm(scaled, dim=1, keepdim=True).clamp_min_(1e-12)
        weights.addcmul_(scaled if size is None else scaled.mul_(size), self.recipe.rho / norms)

    def step(self, weights: Tensor, gradients: Tensor, rate: float) -> None:
        """Do one step at the shared schedule's rate; each member has its own multiple of it."""
        if self._before is not None:
            weights.copy_(self._before)
            self._before = None
        buffers = [weights, gradients, self.first]
        if self.second is not None:
            buffers.append(self.second)
        for (multiple, decay), members in self._alike.items():
            if len(self._alike) == 1:
                own = [[buffer] for buffer in buffers]
            else:
                own = [[buffer[k] for k in members] for buffer in buffers]
            self._fused(own, lr=multiple * rate, weight_decay=decay, maximize=False)
        self.steps += 1

    def _fused(self, own: list[list[Tensor]], **settings: Any) -> None:
        """Do a step of torch's fused optimiser for the members of one rate and decay.

        One pass over the buffers instead of four (nine with AdamW), and quick where moments are
        denormal numbers.
        """
        if self.recipe.optimizer == "sgd":
            weights, gradients, momentum = own
            sgd(
                weights,
                gradients,
                list[Tensor | None](momentum),
                fused=True,
                momentum=self.recipe.momentum,
                dampening=0.0,
                nesterov=False,
                **settings,
            )
            return
        weights, gradients, first, second = own
        adamw(
            weights,
            gradients,
            first,
            second,
            max_exp_avg_sqs=[],
            state_steps=[torch.tensor(self.steps, device=p.device) for p in weights],
            fused=True,
            amsgrad=False,
            beta1=ADAM_BETAS[0],
            beta2=ADAM_BETAS[1],
            eps=ADAM_EPSILON,
            **settings,
        )

    def _group(self) -> None:
        """Find which members have the same multiple of the rate and the same decay."""
        self._alike: dict[tuple[float, float], list[int]] = {}
        pairs = zip(self.rates[:, 0].tolist(), self.decays[:, 0].tolist(), strict=True)
        for k, pair in enumerate(pairs):
            self._alike.setdefault(pair, []).append(k)
