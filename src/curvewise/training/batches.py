"""What a model is trained on: samples, labels and weights, their order, and augmentation.

Order and lambda are functions of seed and epoch, so a resumed run needs no generator state.
"""

import copy
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from curvewise.base.errors import require, require_numbers, require_shape
from curvewise.losses.factors import check_class_counts
from curvewise.networks.registry import Normalization, pixel_scale
from curvewise.training.recipe import Recipe

Array = NDArray[Any] | Tensor
VALUES = 4_000_000  # of images, that are augmented at a time


class Samples:
    """Arrays or memory maps as a source of batches on a device.

    Images stay uint8 until they are a batch; `normalization` is (mean, std) per channel in units
    of 0 .. 1. What is in memory moves to the device once; a memory map is read batch by batch.
    """

    def __init__(
        self, x: Array, device: torch.device, normalization: Normalization | None = None
    ) -> None:
        require(len(x), "x must hold at least one sample, got none")
        self.device = device
        self.pixels = str(x.dtype).removeprefix("torch.") == "uint8"
        # NumPy's float64 is everybody's default and no wish for slow networks; a tensor's is one.
        cast = isinstance(x, np.ndarray) or not torch.as_tensor(x).is_floating_point()
        self.dtype = torch.get_default_dtype() if cast and not self.pixels else None
        self.x = x if isinstance(x, np.memmap) else torch.as_tensor(x).to(device, self.dtype)
        self.scale = None if normalization is None else pixel_scale(normalization, device)

    def __len__(self) -> int:
        return len(self.x)

    def raw(self, rows: Tensor) -> Tensor:
        """Return samples as they are stored, on the device."""
        if isinstance(self.x, Tensor):
            return self.x[rows.to(self.device)]
        # Ascending rows read the file once from front to back.
        order = torch.argsort(rows)
        read = torch.from_numpy(np.ascontiguousarray(self.x[rows[order].numpy()]))
        return read[torch.argsort(order)].to(self.device, self.dtype)

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
            self.weight, self.class_counts = _checked_weight(
                sample_weight, self.row_labels, members
            )
        if class_counts is not None:
            self.class_counts = check_class_counts(class_counts)
            require(
                len(self.class_counts) == len(self.counts),
                f"class_counts must have a number for each of {len(self.counts)} classes, got "
                f"{list(self.class_counts)}",
            )
        self.scale: Tensor | None = None
        if input_scale is not None:
            self.scale = _checked_scale(input_scale, members or 1, tuple(x.shape))

    def of(self, members: slice | int) -> "TrainingData":
        """Return the data as some members see them; for a single one, with its columns scaled."""
        some = copy.copy(self)
        if self.weight is not None and self.weight.dim() == 2:
            some.weight = self.weight[members]
        if self.scale is not None:
            some.scale = self.scale[members]
        if some.scale is not None and isinstance(members, int):
            x, scale = self.x, some.scale
            if isinstance(x, Tensor):
                x = x * scale.to(x if x.is_floating_point() else torch.get_default_dtype())
            else:  # an array stays one, which is cast where it is used
                x = np.asarray(x) * scale.cpu().numpy()
            some.samples, some.scale = Samples(x, self.samples.device), None
        return some


def _checked_labels(y: Array, n: int) -> tuple[Tensor, tuple[int, ...]]:
    """Return labels (n,) on the CPU, and the count of each class."""
    labels = torch.as_tensor(y).cpu()
    require_shape("y", labels, n)
    whole, least = not labels.is_floating_point(), labels.min()
    require(whole and least >= 0, f"y must hold labels 0, 1, ..., got {labels.dtype} from {least}")
    counts = torch.bincount(labels.long(), minlength=2).tolist()
    require(min(counts), f"y must hold every class at least once, got counts {counts}")
    return labels.long(), tuple(counts)


def _checked_weight(
    sample_weight: Array, labels: Tensor, members: int | None
) -> tuple[Tensor, tuple[float, ...]]:
    """Return weights in float64, (n,) or for so many members (members, n), and the classes'.

    Those are the mean over rows, of which each must have some weight in every class.
    """
    if isinstance(sample_weight, Tensor):
        sample_weight = sample_weight.detach().cpu().double().numpy()
    weight = torch.from_numpy(require_numbers("sample_weight", sample_weight, 0))
    of_each = () if members is None or weight.dim() < 2 else (members,)
    require_shape("sample_weight", weight, *of_each, len(labels))
    rows = weight.view(-1, len(labels))
    sums = rows.new_zeros(len(rows), int(labels.max()) + 1).index_add_(1, labels, rows)
    for row, of_classes in enumerate(sums.tolist()):
        where = f" for member {row}" if weight.dim() == 2 else ""
        require(
            min(of_classes),
            f"sample_weight must be positive somewhere in every class{where}, got sums "
            f"{of_classes}",
        )
    return weight, tuple(sums.mean(0).tolist())


def _checked_scale(input_scale: Array, members: int, shape: tuple[int, ...]) -> Tensor:
    """Return (members, d) factors of the columns of a table of this shape."""
    scale = torch.as_tensor(input_scale)
    fits = len(shape) == 2 and tuple(scale.shape) == (members, shape[1])
    require(
        fits and torch.isfinite(scale).all(),
        f"input_scale must hold finite factors of shape ({members}, d) for a table (n, d), got "
        f"{tuple(scale.shape)} for x of shape {shape}",
    )
    return scale


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
    others, room = n - int(min(counts)), size - recipe.minority_per_batch
    return max(-(-n // size), -(-others // room))


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


def epoch_rows(labels: Tensor, epoch: int, recipe: Recipe) -> Sequence[Tensor]:
    """Return the row numbers of each batch of an epoch, a function of seed and epoch.

    All rows of labels (n,) in a random order, cut at the batch size; the last batch may be
    smaller. With `minority_per_batch` see `_with_minority`.
    """
    generator = seeded(recipe.seed_order, epoch)
    if recipe.minority_per_batch > 0:
        return _with_minority(labels, recipe, generator)
    return torch.split(torch.randperm(len(labels), generator=generator), recipe.batch_size)


def _with_minority(labels: Tensor, recipe: Recipe, generator: torch.Generator) -> list[Tensor]:
    """Return batches that all hold samples of the rarest class.

    The other samples are shuffled and fill the batches in turn, each of them once, so that the
    last batch (the last two, if else it had too few of the rarest) may be smaller. The rarest
    class's are shuffled and dealt out going round, as often as it takes: no batch holds one twice
    unless it holds all.
    """
    counts = torch.bincount(labels)
    rare = labels == counts.argmin()
    others, minority = (
        rows[torch.randperm(len(rows), generator=generator)]
        for rows in ((~rare).nonzero().flatten(), rare.nonzero().flatten())
    )
    steps, size = steps_per_epoch(counts.tolist(), recipe), recipe.batch_size
    shown = max(len(minority), steps * recipe.minority_per_batch)
    minority = minority.repeat(-(-shown // len(minority)))[:shown]
    # As even as can be; the last batch may be small, and gets fewer in proportion, but its minimum.
    full, total = steps - 1, len(others) + shown
    last = max(recipe.minority_per_batch, shown * (total - full * size) // total)
    dealt = [*minority[:-last].tensor_split(full)] if full else []
    ends = list(accumulate(size - len(rows) for rows in dealt))
    dealt.append(minority[-last:])
    return [torch.cat(both) for both in zip(others.tensor_split(ends), dealt, strict=True)]


def draw_places(batches: Sequence[Tensor], recipe: Recipe) -> list[slice]:
    """Return where each batch's lambdas are among an epoch's: one a batch, or one a sample."""
    widths = [len(rows) if recipe.draw == "sample" else 1 for rows in batches]
    ends = accumulate(widths)
    return [slice(end - width, end) for width, end in zip(widths, ends, strict=True)]


def seeded(seed: int, *place: int) -> torch.Generator:
    """Return a generator of its own for a seed and a place (an epoch, a purpose)."""
    state = np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> 1))


def augment(images: Tensor, name: str, generator: torch.Generator) -> Tensor:
    """Augment images (n, C, H, W), uint8 or float, with a generator on their device.

    "flip": left-right. "crop-flip": pad by 4, crop back at random, flip (CIFAR). "resized-crop-
    flip": an area of 65-100 % at aspect 3/4-4/3 resized to the full size, flip. "resized-crop-
    flips": flips both ways.

    >>> augment(torch.zeros(2, 3, 32, 32), "crop-flip", torch.Generator()).shape
    torch.Size([2, 3, 32, 32])
    """
    if name.startswith("crop"):
        images = random_crop(images, 4, generator)
    elif name.startswith("resized"):
        images = random_resized_crop(images, generator)
    images = random_flip(images, -1, generator)
    return random_flip(images, -2, generator) if name.endswith("flips") else images


def random_flip(images: Tensor, dim: int, generator: torch.Generator) -> Tensor:
    """Mirror each image along a dimension with probability one half."""
    mirrored = torch.rand(len(images), generator=generator, device=images.device) < 0.5
    out = torch.empty_like(images)
    for part in _parts(images):
        some = images[part]
        out[part] = torch.where(mirrored[part, None, None, None], some.flip(dim), some)
    return out


def _parts(images: Tensor) -> list[slice]:
    """Return slices of a batch that hold some 4 million values: copies of large images add up."""
    size = max(1, VALUES // images[:1].numel())
    return [slice(start, start + size) for start in range(0, len(images), size)]


def random_crop(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Pad with zeros and cut out a window of the original size at a random place."""
    n, channels, height, width = images.shape
    padded = F.pad(images, (padding,) * 4)
    top, left = torch.randint(
        0, 2 * padding + 1, (2, n, 1), generator=generator, device=images.device
    )
    rows = top + torch.arange(height, device=images.device)
    columns = left + torch.arange(width, device=images.device)
    pixels = rows[:, :, None] * (width + 2 * padding) + columns[:, None, :]
    index = pixels.reshape(n, 1, -1).expand(-1, channels, -1)
    return padded.flatten(2).gather(2, index).view(images.shape)


def random_resized_crop(images: Tensor, generator: torch.Generator) -> Tensor:
    """Stretch a random window, 65-100 % of the area, to the full size (bilinear); float out."""
    n = len(images)
    uniform = torch.rand(4, n, generator=generator, device=images.device)
    area = 0.65 + 0.35 * uniform[0]
    log_aspect = (2 * uniform[1] - 1) * torch.log(torch.tensor(4 / 3))
    sides = torch.stack([area * log_aspect.exp(), area / log_aspect.exp()], 1).sqrt().clamp(max=1.0)
    shift = (2 * uniform[2:].T - 1) * (1 - sides)
    transform = torch.cat([sides.diag_embed(), shift[..., None]], dim=2)
    out = torch.empty_like(images, dtype=torch.float32)
    for part in _parts(images):
        some = images[part].float()
        grid = F.affine_grid(transform[part], list(some.shape), align_corners=False)
        out[part] = F.grid_sample(some, grid, padding_mode="border", align_corners=False)
    return out
