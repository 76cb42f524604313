"""What makes training quick: memory that is kept, threads, and compiling where it pays."""

import ctypes
import gc
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from curvewise.base.machine import one_thread
from curvewise.training.batches import Samples
from curvewise.training.recipe import Recipe

# Parameters of glibc's mallopt, from <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 2**30
SMALL_STEP = 10_000_000  # products of a forward pass below which one thread is faster
# Floating-point operations of a whole run from which compiling (about a minute) pays on a CPU.
WORTH_COMPILING = 2e13


def keep_freed_memory() -> bool:
    """Tell the C library to reuse what training frees; return whether it could be told.

    The activations of an image batch are some 8 MB each. By default such blocks go back to the
    system when freed, and the next step faults every page in again: 75,000 faults and a seventh
    of the time of a ResNet-32 step. It holds for the process, changes no result, and lets it keep
    as much as it once needed.

    >>> keep_freed_memory() in (True, False)
    True
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all([mallopt(M_MMAP_THRESHOLD, LARGEST), mallopt(M_TRIM_THRESHOLD, LARGEST)])


@contextmanager
def old_objects_spared() -> Iterator[None]:
    """Keep the garbage collector from what was there before, inside the block.

    Steps of small stacks make so many short-lived objects that it walks through all modules many
    times a second, an eighth of the time.

    >>> with old_objects_spared():
    ...     gc.get_freeze_count() > 0
    True
    """
    if gc.get_freeze_count():  # somebody froze what is theirs, or we are inside such a block
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def fitting_threads(model: nn.Module, samples: Samples, recipe: Recipe) -> Iterator[None]:
    """Train small networks of vectors with one thread.

    A step of theirs is shorter than what threads need to find each other, and on a busy machine
    those that are there wait, spinning, for those that are not: a hundred times longer.
    """
    weights = sum(parameter.numel() for parameter in model.parameters())
    small = not samples.pixels and weights * recipe.batch_size < SMALL_STEP
    with one_thread() if small and samples.device.type == "cpu" else nullcontext():
        yield


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
