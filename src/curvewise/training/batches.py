"""Mini-batches from arrays: the order, the draws of lambda, and tensors on the device.

Order and lambda are functions of seed and epoch, so a resumed run needs no generator state.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.errors import InputError
from curvewise.family import Objective
from curvewise.training.recipe import Recipe


class Batch(NamedTuple):
    """Row numbers of a mini-batch and the lambda it is trained at."""

    rows: Tensor
    lam: Tensor


class Samples:
    """Arrays or memory maps as a source of batches on a device.

    Images stay uint8 until they are a batch; `normalization` is (mean, std) per channel in units
    of 0 .. 1. What is in memory moves to the device once; a memory map is read batch by batch.
    """

    def __init__(
        self,
        x: NDArray[Any] | Tensor,
        device: torch.device,
        normalization: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
    ) -> None:
        if len(x) == 0:
            raise InputError("x must hold at least one sample, got none")
        self.device = device
        self.pixels = str(x.dtype).removeprefix("torch.") == "uint8"
        # NumPy's float64 is everybody's default and no wish for slow networks; a tensor's is one.
        self.cast = not self.pixels and (
            isinstance(x, np.ndarray) or not torch.as_tensor(x).is_floating_point()
        )
        self.mapped = x if isinstance(x, np.memmap) else None
        self.whole = None if self.mapped is not None else torch.as_tensor(x).to(device)
        if self.whole is not None and self.cast:
            self.whole = self.whole.to(torch.get_default_dtype())
        self.scale: tuple[Tensor, Tensor] | None = None
        if normalization is not None:
            mean, std = (torch.tensor(part, device=device)[:, None, None] for part in normalization)
            self.scale = (1 / (255 * std), -mean / std)

    def __len__(self) -> int:
        return len(self.mapped if self.mapped is not None else self.whole)  # type: ignore[arg-type]

    def raw(self, rows: Tensor) -> Tensor:
        """Return samples as they are stored, on the device."""
        if self.whole is not None:
            return self.whole[rows.to(self.device)]
        assert self.mapped is not None
        # Ascending rows read the file once from front to back.
        order = torch.argsort(rows)
        read = torch.from_numpy(np.ascontiguousarray(self.mapped[rows[order].numpy()]))
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        found = read[back].to(self.device)
        return found.to(torch.get_default_dtype()) if self.cast else found

    def prepared(self, raw: Tensor) -> Tensor:
        """Return float samples as a network takes them: pixels scaled and normalised."""
        if not self.pixels:
            return raw
        if self.scale is None:
            return raw.float() / 255
        return torch.addcmul(self.scale[1], raw.float(), self.scale[0])


def steps_per_epoch(n: int, batch_size: int) -> int:
    """Return the number of mini-batches; the last one of an epoch may be smaller."""
    return -(-n // batch_size)


def epoch_batches(n: int, epoch: int, objective: Objective, recipe: Recipe) -> Iterator[Batch]:
    """Yield the batches of one epoch in their order."""
    order = order_of(n, epoch, recipe)
    generator = seeded(recipe.seed_lambda, epoch)
    per_sample = recipe.draw == "sample"
    count = n if per_sample else steps_per_epoch(n, recipe.batch_size)
    draws = objective.draw(count, generator=generator)
    for number, rows in enumerate(torch.split(order, recipe.batch_size)):
        start = number * recipe.batch_size
        yield Batch(rows, draws[start : start + len(rows)] if per_sample else draws[number])


def order_of(n: int, epoch: int, recipe: Recipe) -> Tensor:
    """Return the order in which an epoch takes its n samples."""
    return torch.randperm(n, generator=seeded(recipe.seed_order, epoch))


def seeded(seed: int, *place: int) -> torch.Generator:
    """Return a generator of its own for a seed and a place (an epoch, a purpose)."""
    state = np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> 1))
