"""Fashion-MNIST as two-class tasks, from its idx files (Xiao et al. 2017, arXiv 1708.07747)."""

import gzip
import math
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError, require
from curvewise.data.pairs import Labelled, pair_task, parse_pair
from curvewise.data.task import SourceOptions, Task

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
PAGE = "https://github.com/zalandoresearch/fashion-mnist"
NAMES = (
    *("t-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle-boot"),
)
BEGINNINGS = ("train", "t10k")  # of the names of files
ENDINGS = ("images-idx3-ubyte", "labels-idx1-ubyte")
MOST_BYTES = 2**28  # five times the largest of these files
UNSIGNED_BYTE = 8  # the idx format's code of the only type that these files use


def fashion_mnist(argument: str, options: SourceOptions) -> Task:
    """Return two classes of Fashion-MNIST, "t-shirt/shirt" or "0/6", as uint8 (n, 1, 28, 28).

    The files, gzipped or not, are looked for in the data folder, in `fashion-mnist` and
    `FashionMNIST/raw` under it, and where Debian's package `dataset-fashion-mnist` puts them.
    """
    pair = parse_pair("fashion-mnist", argument, NAMES)
    train, test = (read_part(*files) for files in fashion_mnist_files(options))
    return pair_task(
        "fashion-mnist",
        pair,
        [train],
        test,
        complete=(6000, 1000),
        details={"source": f"Fashion-MNIST ({PAGE})", "mean": [0.2860], "std": [0.3530]},
    )


def read_part(image_file: Path, label_file: Path) -> Labelled:
    """Return images (n, 1, 28, 28) and labels 0 .. 9 (n,) of two files."""
    images = _read_once(image_file, 3, image_file.stat().st_mtime_ns)
    labels = _read_once(label_file, 1, label_file.stat().st_mtime_ns)
    require(
        len(images) == len(labels) and images.shape[1:] == (28, 28),
        f"{image_file} must hold 28 x 28 images for the {len(labels)} labels of "
        f"{label_file.name}, got shape {images.shape}",
    )
    return images[:, None], labels


def fashion_mnist_files(options: SourceOptions) -> list[list[Path]]:
    """Return the files of images and of labels of each part, or raise with how to get them."""
    base = options.data_folder
    folders = [base, base / "fashion-mnist", base / "FashionMNIST" / "raw", DEBIAN_FOLDER]
    for folder in folders:
        plain = [[folder / f"{part}-{ending}" for ending in ENDINGS] for part in BEGINNINGS]
        files = [[_packed_or_not(file) for file in both] for both in plain]
        if all(file.is_file() for both in files for file in both):
            return files
    raise InputError(
        f"fashion-mnist needs its four idx files (train-{ENDINGS[0]}.gz and so on) in one of "
        f"{', '.join(map(str, folders))}: install Debian's package dataset-fashion-mnist, or get "
        f"them from {PAGE}"
    )


def _packed_or_not(path: Path) -> Path:
    return path if path.is_file() else path.with_name(f"{path.name}.gz")


@lru_cache(maxsize=4)
def _read_once(path: Path, ndim: int, changed: int) -> NDArray[np.uint8]:
    return read_idx(path, ndim)  # which nobody can write to, so that 45 pairs share it


def read_idx(path: Path, ndim: int) -> NDArray[np.uint8]:
    """Return the array of an idx file of unsigned bytes with `ndim` dimensions, gzipped or not.

    The file is two zero bytes, a type code, the number of dimensions, each size as a big-endian
    32-bit number, then the values; all of it is checked.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            content = file.read(MOST_BYTES)
    except (EOFError, zlib.error, OSError) as error:
        raise InputError(f"{path} must be a complete file, gzipped or not, got: {error}") from None
    begin = 4 + 4 * ndim
    require(
        content[:4] == bytes((0, 0, UNSIGNED_BYTE, ndim)),
        f"{path} must be an idx file of bytes in {ndim} dimensions, which begins with "
        f"0000080{ndim}, got {content[:4].hex() or 'an empty file'}",
    )
    shape = np.frombuffer(content[4:begin].ljust(4 * ndim, b"\0"), ">u4").tolist()
    require(
        math.prod(shape) == len(content) - begin and len(content) > begin,
        f"{path} must hold the {math.prod(shape)} bytes that its header announces, got "
        f"{max(0, len(content) - begin)}",
    )
    return np.frombuffer(content, np.uint8, offset=begin).reshape(shape)
