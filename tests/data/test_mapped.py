"""Rows of memory maps without the memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from curvewise.base.errors import InputError
from curvewise.data import mapped
from curvewise.data.mapped import mapped_rows, write_rows

VALUES = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4), dtype=np.uint8)


@pytest.fixture
def images(tmp_path):
    np.save(tmp_path / "images.npy", VALUES)
    return np.load(tmp_path / "images.npy", mmap_mode="r")


@pytest.fixture
def all_is_large(monkeypatch):
    monkeypatch.setattr(mapped, "SMALL_BYTES", 0)
    monkeypatch.setattr(mapped, "PIECE_BYTES", 100)  # two rows at a time


def test_neighbours_are_a_view_and_few_rows_a_copy_in_memory(images, tmp_path):
    rows = mapped_rows(images, np.arange(10, 30))
    assert np.shares_memory(rows, images)
    np.testing.assert_array_equal(rows, VALUES[10:30])
    rows = mapped_rows(images, np.array([4, 2, 2]))
    assert getattr(rows, "filename", None) is None
    np.testing.assert_array_equal(rows, VALUES[[4, 2, 2]])
    assert mapped_rows(images, np.array([], dtype=np.int64)).shape == (0, 3, 4, 4)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.usefixtures("all_is_large")
def test_many_rows_are_mapped_from_a_file_of_their_own(images, tmp_path):
    index = np.random.default_rng(1).permutation(50)[:33]
    rows = mapped_rows(images, index)
    assert isinstance(rows, np.memmap)
    assert not rows.flags.writeable
    np.testing.assert_array_equal(rows, VALUES[index])
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    np.testing.assert_array_equal(mapped_rows(images, index), VALUES[index])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written
    assert len(written) == 2


@pytest.mark.usefixtures("all_is_large")
def test_rows_of_views_are_not_mixed_up(images, tmp_path):
    """The same index into different views, into rows of rows, and into numbers of another type."""
    index, features = np.array([0, 3, 1]), tmp_path / "features.npy"
    numbers = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    np.save(features, numbers)
    for view, values in (
        (images, VALUES),
        (images[5:], VALUES[5:]),
        (images[5:][2:], VALUES[7:]),
        (images[::2], VALUES[::2]),
        (mapped_rows(images, np.arange(0, 50, 3)), VALUES[::3]),
        (np.load(features, mmap_mode="r"), numbers),
    ):
        rows = mapped_rows(view, index)
        assert rows.dtype == values.dtype
        np.testing.assert_array_equal(rows, values[index])


@pytest.mark.usefixtures("all_is_large")
def test_an_interrupted_copy_leaves_nothing(images, tmp_path, monkeypatch):
    def fail(file):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        mapped_rows(images, np.array([3, 1]))
    assert [path.name for path in tmp_path.iterdir()] == ["images.npy"]


@pytest.mark.parametrize("most", [50, 10**9])
def test_fewer_rows_than_there_may_be_are_a_file_of_numpys(tmp_path, most, monkeypatch):
    monkeypatch.setattr(mapped.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e15))
    write_rows(tmp_path / "a.npy", [VALUES[:3], VALUES[3:40]], (most, 3, 4, 4), np.uint8)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), VALUES[:40])
    np.save(tmp_path / "b.npy", VALUES[:40])
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_space_is_asked_for_first(tmp_path):
    with pytest.raises(InputError, match=r"must have 1000000000.0 GB free, got"):
        write_rows(tmp_path / "a.npy", [], (10**18, 1), np.uint8)
    assert list(tmp_path.iterdir()) == []
