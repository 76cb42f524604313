"""SGD and AdamW over a stack: rates, decay, clipping and SAM's ascent are each member's own.

The arithmetic is that of torch.optim's and of `SAM`, on buffers (K, P).
"""

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor

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
        self.decay = bool((self.decays > 0).any())
        self.first = torch.zeros_like(weights)  # momentum, or Adam's mean
        self.second = torch.zeros_like(weights) if recipe.optimizer == "adamw" else None
        self.steps = 0
        self._before: Tensor | None = None

    def keep(self, members: Tensor) -> None:
        """Go on with these members only."""
        self.rates, self.decays = self.rates[members], self.decays[members]
        self.first = self.first[members]
        self.second = None if self.second is None else self.second[members]

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
        self.steps += 1
        rates = self.rates * rate
        if self.recipe.optimizer == "sgd":
            if self.decay:
                gradients.addcmul_(weights, self.decays)
            self.first.mul_(self.recipe.momentum).add_(gradients)
            weights.addcmul_(self.first, -rates)
            return
        assert self.second is not None
        (one, two), done = ADAM_BETAS, self.steps
        if self.decay:
            weights.mul_(1 - rates * self.decays)
        self.first.lerp_(gradients, 1 - one)
        self.second.mul_(two).addcmul_(gradients, gradients, value=1 - two)
        size = (self.second.sqrt() / sqrt(1 - two**done)).add_(ADAM_EPSILON)
        weights.addcmul_(self.first.div(size), rates / -(1 - one**done))
