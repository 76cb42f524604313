"""Image files to the pixels a trained model takes, batch by batch."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.base.machine import processors
from curvewise.data.picture import SUFFIXES, decode
from curvewise.data.tables import ENDINGS

BATCH_BYTES = 2**23  # decoded pixels that are in memory at once
MOST_IMAGES = 256  # in a batch, however small they are
GREY_WEIGHTS = (19595, 38470, 7471)  # of ITU-R 601, in 65536ths: what Pillow's mode L uses


class DecodedBatch(NamedTuple):
    """Pixels uint8 (k, C, S, S) of the k readable files, and for each file why not, or ""."""

    pixels: NDArray[np.uint8]
    reasons: list[str]


def find_images(inputs: Sequence[Path]) -> list[Path]:
    """Return the image files that are given or lie in given folders, at any depth, each once.

    A file is taken whatever its name; of a folder, files with an image's ending that are not
    hidden, in the order of their names.
    """
    found: list[Path] = []
    for given in inputs:
        if given.suffix.lower() in ENDINGS:
            raise InputError(f"this model was trained on images and needs them, got {given}")
        if given.is_file():
            found.append(given)
        elif given.is_dir():
            inside = sorted(path for path in given.rglob("*") if _is_image(path, given))
            if not inside:
                raise InputError(f"the folder {given} must hold images, got none: {_endings()}")
            found += inside
        else:
            raise InputError(f"there is no {given}; give image files or folders of them")
    return list(dict.fromkeys(found))


def decoded_batches(
    files: Sequence[Path], in_shape: Sequence[int], *, workers: int | None = None
) -> Iterator[DecodedBatch]:
    """Yield the files in order, decoded and resized as they are for training.

    `in_shape` is the model's (C, S, S); for one channel colours become grey. Files are decoded by
    threads, and no more than a batch is in memory.
    """
    channels, size = _square(in_shape)
    count = max(1, min(MOST_IMAGES, BATCH_BYTES // (3 * size * size)))
    with ThreadPoolExecutor(workers or processors()) as pool:
        for start in range(0, len(files), count):
            results = list(pool.map(partial(decode, size=size), files[start : start + count]))
            whole = [result for result in results if not isinstance(result, str)]
            pixels = np.stack(whole) if whole else np.empty((0, 3, size, size), np.uint8)
            reasons = [result if isinstance(result, str) else "" for result in results]
            yield DecodedBatch(grey(pixels) if channels == 1 else pixels, reasons)


def grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the brightness (n, 1, H, W) of colours (n, 3, H, W); what is grey stays as it is.

    >>> grey(np.array([255, 0, 0], np.uint8).reshape(1, 3, 1, 1)).item()
    76
    """
    weights = np.array(GREY_WEIGHTS, np.uint32)
    summed: NDArray[np.uint32] = np.einsum("nchw,c->nhw", pixels.astype(np.uint32), weights)
    return ((summed + 2**15) >> 16).astype(np.uint8)[:, None]


def _is_image(path: Path, base: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(base).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()


def _endings() -> str:
    return "it looks for " + ", ".join(sorted(SUFFIXES))


def _square(in_shape: Sequence[int]) -> tuple[int, int]:
    """Return channels and side of the images that a model takes."""
    if len(in_shape) != 3 or in_shape[0] not in (1, 3) or in_shape[1] != in_shape[2]:
        raise InputError(
            f"image files can be scored by a model of square images with 1 or 3 channels, got one "
            f"for shape {tuple(in_shape)}"
        )
    return int(in_shape[0]), int(in_shape[1])
