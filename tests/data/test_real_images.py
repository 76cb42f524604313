"""Sources on real pictures, where they are at hand: in the files of the original downloads."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from curvewise.data.cifar import cifar10, cifar100
from curvewise.data.folders import dogs_vs_cats
from curvewise.data.task import SourceOptions

UNPACK = Path(__file__).parents[2].parent / "shared" / "data" / "unpack.py"


def unpacked(folder: Path, target: str) -> SourceOptions:
    """Return options of a folder with real data, or skip."""
    if not UNPACK.is_file():
        pytest.skip(f"real images need {UNPACK.name} in the folder shared/data")
    subprocess.run([sys.executable, UNPACK, folder, target], check=True, capture_output=True)
    return SourceOptions(data_dir=folder, cache_dir=folder / "cache")


def test_household(tmp_path):
    options = unpacked(tmp_path, "cifar100")
    task = cifar100("household", options)
    assert task.class_counts == (2500, 53)  # this copy lacks most electronics
    assert np.bincount(task.y_test).tolist() == [500, 50]
    assert cifar100("bed/44", options).class_names == ("bed", "lizard")


@pytest.mark.slow
def test_cifar10_and_dogs_vs_cats(tmp_path):
    task = cifar10("animal/vehicle", unpacked(tmp_path, "cifar10"))
    assert task.class_counts == (30_000, 20_000)
    assert task.details["deviations"] == []
    pixels = task.x_train.transpose(1, 0, 2, 3).reshape(3, -1)
    # These are re-encoded as JPEG, which moves mean and spread a little.
    np.testing.assert_allclose(pixels.mean(1) / 255, task.details["mean"], atol=0.005)
    np.testing.assert_allclose(pixels.std(1) / 255, task.details["std"], atol=0.005)
    task = dogs_vs_cats("", unpacked(tmp_path, "dogs-vs-cats"))
    assert task.class_counts == (3000, 500)
    assert np.bincount(task.y_test).tolist() == [1000, 1000]
    assert task.x_train.shape == (3500, 3, 96, 96)
    assert task.details["broken"] == []
    mean = task.x_train[::10].mean(axis=(0, 2, 3)) / 255
    np.testing.assert_allclose(mean, task.details["mean"], atol=0.05)
