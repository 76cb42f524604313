"""Generated image data for tests, in the files that the sources have."""

import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image

CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer"]
CIFAR10 += ["dog", "frog", "horse", "ship", "truck"]
HOUSEHOLD = ["bed", "chair", "couch", "table", "wardrobe"]
HOUSEHOLD += ["clock", "keyboard", "lamp", "telephone", "television"]


def picture(path: Path, color: tuple[int, int, int], size: tuple[int, int] = (12, 8)) -> Path:
    """Write an image of one colour, (width, height) pixels, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


def noisy_jpeg(path: Path, seed: int, size: tuple[int, int] = (64, 48)) -> Path:
    """Write a JPEG of smooth noise, (width, height) pixels, and return its path."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).save(path, quality=95)
    return path


def cifar_batch(labels, key=b"labels") -> dict:
    """What a file of CIFAR holds; the first pixel of an image is its label."""
    data = np.random.default_rng(0).integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    data[:, 0] = labels
    return {b"data": data, key: list(map(int, labels)), b"batch_label": b"generated"}


def write_cifar10(base: Path, train: list[int], test: list[int]) -> Path:
    """Write five equal batches, and the test batch."""
    parts = {f"data_batch_{number}": train for number in range(1, 6)} | {"test_batch": test}
    return _write_cifar(base / "cifar-10-batches-py", parts, b"labels", "batches.meta", CIFAR10)


def write_cifar100(base: Path, train: list[int], test: list[int]) -> Path:
    """Write a set that has the household classes only."""
    parts = {"train": train, "test": test}
    return _write_cifar(base / "cifar-100-python", parts, b"fine_labels", "meta", HOUSEHOLD)


def _write_cifar(folder, parts, key, meta, names):
    folder.mkdir(parents=True)
    for name, labels in parts.items():
        (folder / name).write_bytes(pickle.dumps(cifar_batch(labels, key), protocol=4))
    about = {key.removesuffix(b"s") + b"_names": [name.encode() for name in names]}
    (folder / meta).write_bytes(pickle.dumps(about))
    return folder


def idx(array: np.ndarray) -> bytes:
    """Return an array of bytes as an idx file has it."""
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.tobytes()
