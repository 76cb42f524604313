"""One image file -> a square uint8 array, or the reason why not."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
# Part of every cache's name: change it whenever `decode` would give other pixels.
RULE = "short side to S, centre crop, bilinear, upright by EXIF, RGB; 1"


def decode(path: str | Path, size: int) -> NDArray[np.uint8] | str:
    """Return the image as uint8 (3, size, size), or why it cannot be read.

    The short side is resized to `size` and the centre is cropped. JPEG files are decoded at the
    smallest scale that still has two pixels for one of the result.
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
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ValueError("pixels are fractions, whose scale is not known")
    if image.mode.startswith("I"):  # 16 bits, which a plain conversion would cut off at 255
        wide = np.asarray(image).astype(np.int64)
        image = Image.fromarray(np.clip(wide >> 8, 0, 255).astype(np.uint8))
    return image.convert("RGB")
