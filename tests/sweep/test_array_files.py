"""Data in files: what is read equals what was written."""

import tempfile
from pathlib import Path
from typing import Any

import executor_jobs as work
import numpy as np
import pytest
from executor_jobs import Numbers, numbers
from hypothesis import given, settings
from hypothesis.extra.numpy import (
    array_shapes,
    arrays,
    boolean_dtypes,
    floating_dtypes,
    integer_dtypes,
)

from curvewise.base.errors import CurvewiseError
from curvewise.sweep.executors import Job
from curvewise.sweep.worker_processes import WorkerProcesses, read_data, write_data


def there_and_back(data: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:  # maps stay valid when the files are gone
        write_data(Path(folder, "data"), data)
        return read_data(Path(folder, "data"))


@settings(max_examples=50, deadline=None)
@given(
    arrays(
        boolean_dtypes() | integer_dtypes() | floating_dtypes(),
        array_shapes(min_dims=0, min_side=0),
    )
)
def test_any_array_comes_back_plain_and_equal(array: Any) -> None:
    for given_array in (array, array.T, array[..., ::-1] if array.ndim else array):
        back = there_and_back({"a": given_array})["a"]
        assert type(back) is type(given_array)
        assert (back.dtype, back.shape) == (given_array.dtype, given_array.shape)
        assert back.tobytes() == given_array.tobytes()


def test_what_is_around_the_arrays_comes_back_too() -> None:
    shared, texts = np.arange(6.0), np.array(["a", None, 3], dtype=object)
    data = Numbers("outer", shared), [(shared, texts), {"mask": np.ma.masked_less(shared, 2)}]
    back = there_and_back(data)
    assert back[0].name == "outer"
    assert back[0].y is None
    assert back[1][0][1].tolist() == ["a", None, 3]
    assert back[1][1]["mask"].mask.tolist() == [True, True, False, False, False, False]
    assert np.array_equal(back[1][0][0], shared)


def test_arrays_are_mapped_and_a_change_stays_within_the_reader(tmp_path: Path) -> None:
    write_data(tmp_path / "data", Numbers("n", np.arange(1_000_000.0)))
    one, other = read_data(tmp_path / "data"), read_data(tmp_path / "data")
    assert list(tmp_path.glob("data/*.array"))
    one.x[0] = 7.0
    assert (one.x[0], other.x[0], read_data(tmp_path / "data").x[0]) == (7.0, 0.0, 0.0)


def test_an_array_that_occurs_twice_is_written_once(tmp_path: Path) -> None:
    x = np.arange(1000.0)
    write_data(tmp_path / "data", [x, x, Numbers("n", x)])
    assert len(list(tmp_path.glob("data/*.array"))) == 1


@pytest.mark.parametrize(
    "view",
    [
        lambda m: m,
        lambda m: m[3:9],
        lambda m: m[2:][1:5],
        lambda m: m[4],
        lambda m: m[5:6, 1:],
        lambda m: m.view(np.uint8)[2:],
        lambda m: m[7:].reshape(-1),
    ],
)
def test_maps_of_files_are_opened_again_and_not_copied(tmp_path: Path, view: Any) -> None:
    np.save(tmp_path / "big.npy", np.random.default_rng(0).integers(0, 9999, (20, 5)))
    part = view(np.load(tmp_path / "big.npy", mmap_mode="r"))
    write_data(tmp_path / "data", part)
    back = read_data(tmp_path / "data")
    assert not list(tmp_path.glob("data/*.array"))
    assert isinstance(back, np.memmap)
    assert np.array_equal(back, part)
    assert (back.dtype, back.shape) == (part.dtype, part.shape)


@pytest.mark.parametrize("mode", ["r", "c", "r+"])
def test_maps_with_gaps_or_changes_are_copied(tmp_path: Path, mode: Any) -> None:
    np.save(tmp_path / "big.npy", np.arange(100).reshape(20, 5))
    mapped = np.load(tmp_path / "big.npy", mmap_mode=mode)
    if mode == "c":
        mapped[0, 0] = 77
    part = mapped[::2] if mode == "r" else mapped
    write_data(tmp_path / "data", part)
    assert len(list(tmp_path.glob("data/*.array"))) == 1
    assert np.array_equal(read_data(tmp_path / "data"), part)


def test_a_full_disk_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    ends = WorkerProcesses(1).execute([Job(0, 0, "0")], work.die, numbers)
    with pytest.raises(CurvewiseError, match=r"No space left on device.*TMPDIR"):
        list(ends)
