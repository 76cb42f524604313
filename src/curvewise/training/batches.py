"""What a model is trained on: checked samples, labels and weights, and the order they come in.

Order and lambda are functions of seed and epoch, so a resumed run needs no generator state.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.errors import InputError
from curvewise.losses.factors import check_class_counts
from curvewise.losses.family import Objective
from curvewise.networks.registry import Normalization, pixel_scale
from curvewise.training.recipe import Recipe

Array = NDArray[Any] | Tensor


class Samples:
    """Arrays or memory maps as a source of batches on a device.

    Images stay uint8 until they are a batch; `normalization` is (mean, std) per channel in units
    of 0 .. 1. What is in memory moves to the device once; a memory map is read batch by batch.
    """

    def __init__(
        self,
        x: Array,
        device: torch.device,
        normalization: Normalization | None = None,
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
        self.scale = None if normalization is None else pixel_scale(normalization, device)

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
        samples = read[back].to(self.device)
        return samples.to(torch.get_default_dtype()) if self.cast else samples

    def prepared(self, raw: Tensor) -> Tensor:
        """Return float samples as a network takes them: pixels scaled and normalised."""
        if not self.pixels:
            return raw
        if self.scale is None:
            return raw.float() / 255
        factor, shift = self.scale
        return torch.addcmul(shift, raw.float(), factor)


class TrainingData:
    """Samples with labels and weights, checked, and the class counts that losses are told.

    `labels` are on the device, `row_labels` on the CPU, with `counts` of each class. `weight` is
    (n,), or (members, n) with a row for each member of a stack; `scale` (members, d) multiplies
    the columns of a table. `class_counts` are the sums of the weights per class (the mean over
    members), or `counts`, unless others are given.
    """

    def __init__(
        self,
        x: Array,
        y: Array,
        device: torch.device,
        normalization: Normalization | None = None,
        sample_weight: Array | None = None,
        class_counts: Sequence[float] | None = None,
        input_scale: Array | None = None,
        members: int | None = None,
    ) -> None:
        self.x, self.normalization = x, normalization
        self.samples = Samples(x, device, normalization)
        self.row_labels, self.counts = _checked_labels(y, len(self.samples))
        self.labels = self.row_labels.to(device)
        self.class_counts: tuple[float, ...] = self.counts
        self.weight: Tensor | None = None
        if sample_weight is not None:
            self.weight = _checked_weight(sample_weight, len(self.labels), members)
            self.class_counts = _weight_of_classes(self.weight, self.row_labels)
        if class_counts is not None:
            self.class_counts = check_class_counts(class_counts)
            if len(self.class_counts) != len(self.counts):
                raise InputError(
                    f"class_counts must have a number for each of {len(self.counts)} classes, got "
                    f"{list(self.class_counts)}"
                )
        self.scale: Tensor | None = None
        if input_scale is not None:
            self.scale = _checked_scale(input_scale, members or 1, tuple(x.shape))

    def of(self, members: slice) -> "TrainingData":
        """Return the data as some members see them."""
        some = copy.copy(self)
        if self.weight is not None and self.weight.dim() == 2:
            some.weight = self.weight[members]
        if self.scale is not None:
            some.scale = self.scale[members]
        return some

    def of_one(self, member: int) -> "TrainingData":
        """Return the data of one member: its row of the weights, its columns scaled."""
        own = self.of(slice(member, member + 1))
        if own.weight is not None:
            own.weight = own.weight.view(-1)
        if own.scale is not None:
            scale, own.scale = own.scale[0], None
            if isinstance(self.x, Tensor):
                x = self.x
                own.x = x * scale.to(x if x.is_floating_point() else torch.get_default_dtype())
            else:  # an array stays one, which is cast where it is used
                own.x = np.asarray(self.x) * scale.cpu().numpy()
            own.samples = Samples(own.x, self.samples.device, self.normalization)
        return own


def _checked_labels(y: Array, n: int) -> tuple[Tensor, tuple[int, ...]]:
    """Return labels (n,) as a tensor, and the count of each class."""
    labels = torch.as_tensor(y)
    if labels.shape != (n,):
        raise InputError(
            f"y must have one label for each of {n} samples, got {tuple(labels.shape)}"
        )
    if labels.is_floating_point() or int(labels.min()) < 0:
        raise InputError(f"y must hold labels 0, 1, ..., got {labels.dtype} from {labels.min()}")
    labels = labels.long()
    counts = torch.bincount(labels, minlength=2).tolist()
    if min(counts) == 0:
        raise InputError(f"y must hold every class at least once, got counts {counts}")
    return labels, tuple(counts)


def _checked_weight(sample_weight: Array, n: int, members: int | None) -> Tensor:
    """Return weights in float64: (n,), or for so many members (members, n) too."""
    try:
        values = sample_weight if isinstance(sample_weight, Tensor) else np.asarray(sample_weight)
    except ValueError:
        raise InputError("sample_weight must be an array, got rows of several lengths") from None
    shapes = [(n,)] if members is None else [(n,), (members, n)]
    if tuple(values.shape) not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise InputError(f"sample_weight must have shape {wanted}, got {tuple(values.shape)}")
    try:
        weight = torch.as_tensor(values).detach().cpu().double()
    except TypeError:
        raise InputError(f"sample_weight must hold numbers, got {values.dtype}") from None
    wrong = weight[~(torch.isfinite(weight) & (weight >= 0))]
    if len(wrong):
        raise InputError(f"sample_weight must be finite and >= 0, got {wrong[0].item():g}")
    return weight


def _weight_of_classes(weight: Tensor, labels: Tensor) -> tuple[float, ...]:
    """Return the weight in each class, the mean over rows; each must have some in every row."""
    rows = weight.view(-1, len(labels))
    sums = rows.new_zeros(len(rows), int(labels.max()) + 1).index_add_(1, labels.cpu(), rows)
    for row, of_classes in enumerate(sums.tolist()):
        if min(of_classes) == 0:
            where = f" for member {row}" if weight.dim() == 2 else ""
            raise InputError(
                f"sample_weight must be positive somewhere in every class{where}, got sums "
                f"{of_classes}"
            )
    return tuple(sums.mean(0).tolist())


def _checked_scale(input_scale: Array, members: int, shape: tuple[int, ...]) -> Tensor:
    """Return (members, d) factors of the columns of a table of this shape."""
    scale = torch.as_tensor(input_scale)
    fits = len(shape) == 2 and tuple(scale.shape) == (members, shape[1])
    if not fits or not torch.isfinite(scale).all():
        raise InputError(
            f"input_scale must hold finite factors of shape ({members}, d) for a table (n, d), got "
            f"{tuple(scale.shape)} for x of shape {shape}"
        )
    return scale


class Batch(NamedTuple):
    """Row numbers of a mini-batch and the lambda it is trained at."""

    rows: Tensor
    lam: Tensor


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


def total_steps(counts: Sequence[float], recipe: Recipe) -> int:
    """Return the number of mini-batches of a whole run."""
    return recipe.steps or (recipe.epochs or 0) * steps_per_epoch(counts, recipe)


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
