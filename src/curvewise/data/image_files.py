"""Image files to pixels: one file, or many in order, with a reason for each that is unreadable."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from curvewise.base.errors import require
from curvewise.base.machine import processors
from curvewise.data.reading import ENDINGS

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
# Part of every cache's name: change it whenever `decode` would give other pixels.
RULE = "short side to S, centre crop, bilinear, upright by EXIF, RGB; 1"
BATCH_BYTES = 2**23  # decoded pixels that are in memory at once
MOST_IMAGES = 256  # in a batch, however small they are
NAMED = 5  # broken files that a message lists


def find_images(inputs: Sequence[Path]) -> list[Path]:
    """Return the image files that are given or lie in given folders, at any depth, each once.

    A file is taken whatever its name; of a folder, what `is_image` says, in the order of names.
    """
    files: list[Path] = []
    endings = ", ".join(sorted(SUFFIXES))
    for given in inputs:
        require(
            given.suffix.lower() not in ENDINGS,
            f"this model was trained on images and needs them, got {given}",
        )
        require(given.exists(), f"there is no {given}; give image files or folders of them")
        inside = sorted(path for path in given.rglob("*") if is_image(path, given))
        require(
            inside or given.is_file(),
            f"the folder {given} must hold images, got none: it looks for {endings}",
        )
        files += inside or [given]
    return list(dict.fromkeys(files))


def is_image(path: Path, base: Path) -> bool:
    """Tell whether a file has an image's ending, and nothing below `base` hides it."""
    hidden = any(part.startswith(".") for part in path.relative_to(base).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()


def decoded_batches(
    files: Sequence[Path], in_shape: Sequence[int]
) -> Iterator[tuple[NDArray[np.uint8], list[str]]]:
    """Yield the files in order, decoded by `decode` to a model's `in_shape` (C, S, S).

    A batch is the pixels of the k readable files, uint8 (k, C, S, S), and for each file why not,
    or "". For one channel colours become grey. Files are decoded by threads, one a processor, for
    Pillow decodes outside Python's lock; no more than a batch is in memory at once.
    """
    require(
        len(in_shape) == 3 and in_shape[0] in (1, 3) and in_shape[1] == in_shape[2],
        f"image files can be scored by a model of square images with 1 or 3 channels, got one "
        f"for shape {tuple(in_shape)}",
    )
    channels, size, _ = map(int, in_shape)
    count = max(1, min(MOST_IMAGES, BATCH_BYTES // (3 * size * size)))
    with ThreadPoolExecutor(processors()) as pool:
        for start in range(0, len(files), count):
            one = partial(decode, size=size, channels=channels)
            results = list(pool.map(one, files[start : start + count]))
            whole = [result for result in results if not isinstance(result, str)]
            pixels = np.stack(whole) if whole else np.empty((0, channels, size, size), np.uint8)
            yield pixels, [result if isinstance(result, str) else "" for result in results]


def broken_text(broken: Sequence[tuple[str, str]], n: int) -> str:
    """Return how many of n images are unreadable, the first few by name and reason.

    >>> broken_text([("a.jpg", "the file is empty")], 200)
    '1 of 200 images unreadable: a.jpg (the file is empty)'
    """
    named = ", ".join(f"{path} ({reason})" for path, reason in broken[:NAMED])
    more = f" and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
    return f"{len(broken)} of {n} images unreadable: {named}{more}"


def decode(path: str | Path, size: int, channels: int = 3) -> NDArray[np.uint8] | str:
    """Return the image as uint8 (channels, size, size), or why it cannot be read.

    One channel is the brightness (ITU-R 601). The short side is resized to `size` and the centre
    is cropped. A JPEG is decoded at the smallest scale with two pixels for one of the result.
    """
    try:
        if os.path.getsize(path) == 0:
            return "the file is empty"
        with Image.open(path) as opened:
            opened.draft("RGB", (2 * size, 2 * size))  # a JPEG decodes 1/2, 1/4, 1/8 of the pixels
            ImageOps.exif_transpose(opened, in_place=True)
            image = _rgb(opened)
            side = min(image.size)
            left, top = ((length - side) / 2 for length in image.size)
            square = image.resize(
                (size, size),
                Image.Resampling.BILINEAR,
                box=(left, top, left + side, top + side),
                reducing_gap=2.0,
            )
    except MemoryError:
        raise
    except Exception as error:  # each format's reader fails in ways of its own
        return f"{error}" or type(error).__name__
    values = np.asarray(square if channels == 3 else square.convert("L"))
    return np.ascontiguousarray(values.reshape(size, size, channels).transpose(2, 0, 1))


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ValueError("pixels are fractions, whose scale is not known")
    if image.mode.startswith("I"):  # 16 bits, which a plain conversion would cut off at 255
        wide = np.asarray(image).astype(np.int64)
        image = Image.fromarray(np.clip(wide >> 8, 0, 255).astype(np.uint8))
    return image.convert("RGB")
