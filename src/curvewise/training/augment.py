"""From rows to what a network takes: augmentation of whole batches as tensor code, and noise.

Every function takes images (n, C, H, W), uint8 or float, and a generator on the same device.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from curvewise.base.errors import require_choice
from curvewise.training.batches import Samples, seeded
from curvewise.training.recipe import Recipe

VALUES = 4_000_000  # at a time


def noise_generator(recipe: Recipe, device: torch.device) -> torch.Generator:
    """Return the generator of a run's augmentation and noise."""
    seed = seeded(recipe.seed_order, 1 << 32).initial_seed()
    return torch.Generator(device).manual_seed(seed)


def training_batch(
    samples: Samples, rows: Tensor, recipe: Recipe, generator: torch.Generator
) -> Tensor:
    """Return samples as a network takes them in training; what they were made of is not kept."""
    x = samples.raw(rows)
    if recipe.augment != "none":
        x = augment(x, recipe.augment, generator)
    return add_noise(samples.prepared(x), recipe.input_noise, generator)


def augment(images: Tensor, name: str, generator: torch.Generator) -> Tensor:
    """Apply a named augmentation.

    "flip": left-right. "crop-flip": pad by 4, crop back at random, flip (CIFAR). "resized-crop-
    flip": an area of 65-100 % at aspect 3/4-4/3 resized to the full size, flip. "resized-crop-
    flips": flips both ways.

    >>> augment(torch.zeros(2, 3, 32, 32), "crop-flip", torch.Generator()).shape
    torch.Size([2, 3, 32, 32])
    """
    require_choice(
        "augment", name, ("none", "flip", "crop-flip", "resized-crop-flip", "resized-crop-flips")
    )
    if name.startswith("crop"):
        images = random_crop(images, 4, generator)
    elif name.startswith("resized"):
        images = random_resized_crop(images, generator)
    if name != "none":
        images = random_flip(images, -1, generator)
    if name.endswith("flips"):
        images = random_flip(images, -2, generator)
    return images


def add_noise(x: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    """Add normal noise to a batch, of images or vectors; none is nothing drawn.

    >>> add_noise(torch.zeros(2), 0.0, torch.Generator()).tolist()
    [0.0, 0.0]
    """
    if deviation == 0:
        return x
    return x + deviation * torch.empty_like(x).normal_(generator=generator)


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


def random_resized_crop(
    images: Tensor, generator: torch.Generator, least_area: float = 0.65
) -> Tensor:
    """Stretch a random window, 65-100 % of the area, to the full size (bilinear); float out."""
    n = len(images)
    uniform = torch.rand(4, n, generator=generator, device=images.device)
    area = least_area + (1 - least_area) * uniform[0]
    log_aspect = (2 * uniform[1] - 1) * torch.log(torch.tensor(4 / 3))
    width = (area * log_aspect.exp()).sqrt().clamp(max=1.0)
    height = (area / log_aspect.exp()).sqrt().clamp(max=1.0)
    transform = torch.zeros(n, 2, 3, device=images.device)
    transform[:, 0, 0], transform[:, 1, 1] = width, height
    transform[:, 0, 2] = (2 * uniform[2] - 1) * (1 - width)
    transform[:, 1, 2] = (2 * uniform[3] - 1) * (1 - height)
    out = torch.empty_like(images, dtype=torch.float32)
    for part in _parts(images):
        some = images[part].float()
        grid = F.affine_grid(transform[part], list(some.shape), align_corners=False)
        out[part] = F.grid_sample(some, grid, padding_mode="border", align_corners=False)
    return out
