"""Image data for tests: real pictures where they are at hand, generated files else."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

UNPACK = Path(__file__).parents[2].parent / "shared" / "data" / "unpack.py"


def unpack(factory: pytest.TempPathFactory, target: str) -> Path:
    """Return a folder with the real data of `target`, or skip."""
    if not UNPACK.is_file():
        pytest.skip(f"real images need {UNPACK.name} in the folder shared/data")
    folder = factory.mktemp("real")
    subprocess.run([sys.executable, UNPACK, folder, target], check=True, capture_output=True)
    return folder


def write_pickle(path: Path, content: dict) -> None:
    """Write what a CIFAR file holds; arrays must be two-dimensional uint8."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=4))


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
