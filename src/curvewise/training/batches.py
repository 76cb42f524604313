"""Mini-batches from arrays: the order, the draws of lambda, and tensors on the device.

Order and lambda are functions of seed and epoch, so a resumed run needs no generator state.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.errors import InputError
from curvewise.losses.family import Objective
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


def steps_per_epoch(counts: Sequence[float], recipe: Recipe) -> int:
    """Return the number of mini-batches for class counts (numbers of samples).

    It is what the samples fill, or, if more, what the other classes fill when every batch keeps
    room for `minority_per_batch` samples of the rarest.

    >>> steps_per_epoch((990, 10), Recipe(epochs=1, batch_size=100))
    10
    >>> steps_per_epoch((990, 10), Recipe(epochs=1, batch_size=100, minority_per_batch=10))
    11
    """
    n, size = int(sum(counts)), recipe.batch_size
    steps = -(-n // size)
    if recipe.minority_per_batch == 0:
        return steps
    return max(steps, -(-(n - int(min(counts))) // (size - recipe.minority_per_batch)))


def seen_class_counts(class_counts: Sequence[float], recipe: Recipe) -> tuple[float, ...]:
    """Return how often an epoch shows each class, for class counts (numbers of samples).

    Only the rarest class (the first, if several are) is shown more often than it has samples. A
    model trained so has the log-odds of the data it saw: log(seen / count) of the rarest class is
    what calibration has to take off.

    >>> seen_class_counts((990, 10), Recipe(epochs=1, batch_size=100, minority_per_batch=10))
    (990.0, 110.0)
    """
    seen = [float(count) for count in class_counts]
    rarest = seen.index(min(seen))
    shown = steps_per_epoch(class_counts, recipe) * recipe.minority_per_batch
    seen[rarest] = max(seen[rarest], float(shown))
    return tuple(seen)


def epoch_batches(
    n: int, epoch: int, objective: Objective, recipe: Recipe, *, labels: Tensor | None = None
) -> Iterator[Batch]:
    """Yield the batches of one epoch in their order; `labels` as in `epoch_rows`."""
    batches = epoch_rows(n, epoch, recipe, labels)
    generator = seeded(recipe.seed_lambda, epoch)
    per_sample = recipe.draw == "sample"
    draws = objective.draw(draws_per_epoch(batches, recipe), generator=generator)
    start = 0
    for number, rows in enumerate(batches):
        yield Batch(rows, draws[start : start + len(rows)] if per_sample else draws[number])
        start += len(rows)


def draws_per_epoch(batches: Sequence[Tensor], recipe: Recipe) -> int:
    """Return how many lambdas an epoch draws: one a batch, or one a sample."""
    return sum(map(len, batches)) if recipe.draw == "sample" else len(batches)


def epoch_rows(
    n: int, epoch: int, recipe: Recipe, labels: Tensor | None = None
) -> Sequence[Tensor]:
    """Return the row numbers of each batch of an epoch, a function of seed and epoch.

    All n samples in a random order, cut at the batch size; the last batch may be smaller. With
    `minority_per_batch`, for which the labels (n,) are needed, see `_with_minority`.
    """
    generator = seeded(recipe.seed_order, epoch)
    if recipe.minority_per_batch == 0:
        return torch.split(torch.randperm(n, generator=generator), recipe.batch_size)
    if labels is None:
        raise InputError("minority_per_batch needs the labels of the samples, got none")
    return _with_minority(labels.cpu(), recipe, generator)


def _with_minority(labels: Tensor, recipe: Recipe, generator: torch.Generator) -> list[Tensor]:
    """Return batches that all hold samples of the rarest class.

    The other samples are shuffled and fill the batches in turn, each of them once, so that the
    last batch (the last two, if else it had too few of the rarest) may be smaller. The rarest
    class's are shuffled and dealt out going round, as often as it takes: no batch holds one twice
    unless it holds all.
    """
    counts = torch.bincount(labels)
    rare = labels == int(counts.argmin())
    others, minority = (which.nonzero().flatten() for which in (~rare, rare))
    others = others[torch.randperm(len(others), generator=generator)]
    minority = minority[torch.randperm(len(minority), generator=generator)]
    steps = steps_per_epoch(counts.tolist(), recipe)
    shown = max(len(minority), steps * recipe.minority_per_batch)
    minority = minority.repeat(-(-shown // len(minority)))[:shown]
    shares = _shares(shown, len(others) + shown, steps, recipe)
    batches, start = [], 0
    for share, dealt in zip(shares, torch.split(minority, shares), strict=True):
        room = recipe.batch_size - share
        batches.append(torch.cat([others[start : start + room], dealt]))
        start += room
    return batches


def _shares(shown: int, total: int, steps: int, recipe: Recipe) -> list[int]:
    """Return how many of the `shown` samples each batch gets: as even as can be.

    The last batch may be small, and gets fewer in proportion, but its minimum.
    """
    size_of_last = total - (steps - 1) * recipe.batch_size
    last = max(recipe.minority_per_batch, shown * size_of_last // total)
    full = steps - 1
    each, more = divmod(shown - last, full) if full else (0, 0)
    return [each + (number < more) for number in range(full)] + [last]


def seeded(seed: int, *place: int) -> torch.Generator:
    """Return a generator of its own for a seed and a place (an epoch, a purpose)."""
    state = np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> 1))
