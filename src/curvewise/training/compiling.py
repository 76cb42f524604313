"""Whether compiling a network pays, and doing it with a way back."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from curvewise.training.batches import Samples
from curvewise.training.recipe import Recipe

# Floating-point operations of a whole run from which compiling (about a minute) pays on a CPU.
WORTH_COMPILING = 2e13


def pays_to_compile(model: nn.Module, samples: Samples, recipe: Recipe, steps: int) -> bool:
    """Return the recipe's choice; "auto" compiles long runs of networks with convolutions.

    The length is counted in operations, not in seconds, so that the answer is the same on every
    machine and a resumed run computes the same bits.
    """
    if recipe.compile != "auto":
        return recipe.compile == "always"
    if not any(isinstance(module, nn.Conv2d) for module in model.modules()):
        return False
    one = samples.prepared(samples.raw(torch.arange(1)))
    was_training = model.training
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model.eval()
        model.body(one)  # type: ignore[operator]
    model.train(was_training)
    passes = 3 * (2 if recipe.rho > 0 else 1)  # forward, and a backward of twice the size
    total = float(counter.get_total_flops()) * passes * recipe.batch_size * steps
    return total > WORTH_COMPILING


def compiled(model: nn.Module) -> nn.Module:
    """Return the model compiled; where that fails, warn once and run it as it is."""
    return _WithFallback(model)


class _WithFallback(nn.Module):
    """Calls the compiled model until it fails to compile, then the model itself."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._call: Any = None
        try:
            self._call = torch.compile(model)
        except Exception as error:  # whatever the compiler stumbles over, training goes on
            self._give_up(error)

    def forward(self, x: Tensor, lam: Tensor) -> Tensor:
        """Return the model's logits."""
        if self._call is not None:
            try:
                logits: Tensor = self._call(x, lam)
                return logits
            except torch._dynamo.exc.TorchDynamoException as error:
                self._give_up(error)
        uncompiled: Tensor = self.model(x, lam)
        return uncompiled

    def _give_up(self, error: Exception) -> None:
        self._call = None
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        warnings.warn(f"training goes on uncompiled: {first}", stacklevel=2)
