"""Fashion-MNIST as two-class tasks, from its idx files (Xiao et al. 2017, arXiv 1708.07747)."""

import gzip
import math
import struct
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.data.options import SourceOptions
from curvewise.data.pairs import count_deviations, pair_name, pair_rows, parse_pair
from curvewise.data.task import Task

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
PAGE = "https://github.com/zalandoresearch/fashion-mnist"
NAMES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle-boot",
)
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
MOST_BYTES = 2**28  # five times the largest of these files
UNSIGNED_BYTE = 8  # the idx format's code of the only type that these files use


def fashion_mnist(argument: str, options: SourceOptions) -> Task:
    """Return two classes of Fashion-MNIST, "t-shirt/shirt" or "0/6", as uint8 (n, 1, 28, 28).

    The files, gzipped or not, are looked for in the data folder, in `fashion-mnist` and
    `FashionMNIST/raw` under it, and where Debian's package `dataset-fashion-mnist` puts them.
    """
    options.refuse("fashion-mnist", "image_size", "target", "positive", "group")
    pair = first, second = parse_pair("fashion-mnist", argument, NAMES)
    x, y = {}, {}
    for part, (images, labels) in read_fashion_mnist(options).items():
        rows, y[part] = pair_rows(labels.astype(np.int64), first, second)
        x[part] = images[rows][:, None]
    return Task(
        name=f"fashion-mnist:{pair_name(pair)}",
        kind="image",
        x_train=x["train"],
        y_train=y["train"],
        x_test=x["test"],
        y_test=y["test"],
        class_names=(first.name, second.name),
        details={
            "source": f"Fashion-MNIST ({PAGE})",
            "mean": [0.2860],
            "std": [0.3530],
            "deviations": count_deviations(y["train"], y["test"], pair, (6000, 1000)),
        },
    )


def read_fashion_mnist(
    options: SourceOptions,
) -> dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Return images (n, 28, 28) and labels 0 .. 9 (n,) of "train" and "test", all ten classes."""
    folder = _folder(options)
    if folder is None:
        raise InputError(str(missing_fashion_mnist(options)))
    found = {}
    for part, (images_file, labels_file) in FILES.items():
        images_path, labels_path = _find(folder, images_file), _find(folder, labels_file)
        assert images_path is not None
        assert labels_path is not None
        images, labels = _read_once(images_path, 3), _read_once(labels_path, 1)
        if len(images) != len(labels) or images.shape[1:] != (28, 28):
            raise InputError(
                f"{images_path} must hold 28 x 28 images for the {len(labels)} labels of "
                f"{labels_path.name}, got shape {images.shape}"
            )
        found[part] = (images, labels)
    return found


def missing_fashion_mnist(options: SourceOptions) -> str | None:
    """Return None if the four files are there, else a sentence on how to get them."""
    if _folder(options) is not None:
        return None
    looked = ", ".join(str(folder) for folder in _folders(options))
    return (
        f"fashion-mnist needs its four idx files ({FILES['train'][0]}.gz and so on) in one of "
        f"{looked}: install Debian's package dataset-fashion-mnist, or get them from {PAGE}"
    )


def _folders(options: SourceOptions) -> list[Path]:
    base = options.data_folder
    return [base, base / "fashion-mnist", base / "FashionMNIST" / "raw", DEBIAN_FOLDER]


def _folder(options: SourceOptions) -> Path | None:
    wanted = [file for files in FILES.values() for file in files]
    for folder in _folders(options):
        if all(_find(folder, file) for file in wanted):
            return folder
    return None


def _find(folder: Path, file: str) -> Path | None:
    places = (folder / file, folder / f"{file}.gz")
    return next((path for path in places if path.is_file()), None)


def _read_once(path: Path, ndim: int) -> NDArray[np.uint8]:
    """Return what `read_idx` does, kept while the file stays as it is: 45 pairs share it."""
    seen = path.stat()
    return _kept(path, ndim, (seen.st_mtime_ns, seen.st_size))


@lru_cache(maxsize=4)
def _kept(path: Path, ndim: int, stamp: tuple[int, int]) -> NDArray[np.uint8]:
    return read_idx(path, ndim)  # which nobody can write to


def read_idx(path: Path, ndim: int) -> NDArray[np.uint8]:
    """Return the array of an idx file of unsigned bytes with `ndim` dimensions, gzipped or not.

    The file is two zero bytes, a type code, the number of dimensions, each size as a big-endian
    32-bit number, then the values; all of it is checked.
    """
    try:
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            magic = file.read(4)
            if magic != bytes((0, 0, UNSIGNED_BYTE, ndim)):
                raise InputError(
                    f"{path} must be an idx file of bytes in {ndim} dimensions, which begins "
                    f"with 0000080{ndim}, got {magic.hex() or 'an empty file'}"
                )
            sizes = file.read(4 * ndim)
            shape = struct.unpack(f">{len(sizes) // 4}I", sizes[: len(sizes) // 4 * 4])
            expected = math.prod(shape)
            # One more than announced shows a file that is too long; a false header is held off.
            values = file.read(min(expected, MOST_BYTES) + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path} must be a complete gzip file, got a damaged one: {error}"
        ) from None
    except OSError as error:
        raise InputError(f"{path} must be readable, got: {error}") from None
    if len(shape) != ndim or not values or len(values) != expected:
        raise InputError(
            f"{path} must hold the {expected} bytes that its header announces, got "
            f"{'more' if len(values) > expected else len(values)}"
        )
    return np.frombuffer(values, np.uint8).reshape(shape)
