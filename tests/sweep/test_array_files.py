"""Data in files: what is read equals what was written, and nothing stays behind."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executor_jobs import Numbers
from hypothesis import given, settings
from hypothesis.extra.numpy import (
    array_shapes,
    arrays,
    boolean_dtypes,
    floating_dtypes,
    integer_dtypes,
)

from curvewise.base.errors import CurvewiseError
from curvewise.sweep import array_files
from curvewise.sweep.array_files import PREFIX, ArrayFolder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the test a temporary folder of its own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


def there_and_back(data: Any) -> Any:
    with ArrayFolder() as folder:
        return array_files.read(folder.write(data))  # maps stay valid when the files are gone


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


def test_arrays_are_mapped_and_a_change_stays_within_the_reader() -> None:
    with ArrayFolder() as folder:
        place = folder.write(Numbers("n", np.arange(1_000_000.0)))
        one, other = array_files.read(place), array_files.read(place)
        assert isinstance(one.x.base, np.memmap)
        one.x[0] = 7.0
        assert (one.x[0], other.x[0], array_files.read(place).x[0]) == (7.0, 0.0, 0.0)


def test_an_array_that_occurs_twice_is_written_once() -> None:
    x = np.arange(1000.0)
    with ArrayFolder() as folder:
        place = folder.write([x, x, Numbers("n", x)])
        assert len(list(place.glob("*.npy"))) == 1


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
    with ArrayFolder() as folder:
        place = folder.write(part)
        back = array_files.read(place)
        assert not list(place.glob("*.npy"))
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
    with ArrayFolder() as folder:
        place = folder.write(part)
        assert len(list(place.glob("*.npy"))) == 1
        assert np.array_equal(array_files.read(place), part)


def test_a_full_disk_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with ArrayFolder() as folder, pytest.raises(CurvewiseError, match=r"TMPDIR") as caught:
        folder.write(np.arange(3))
    assert "No space left on device" in str(caught.value)


CLAIMANT = """
import os, sys, time
import numpy as np
from curvewise.sweep.array_files import ArrayFolder
folder = ArrayFolder()
folder.write(np.arange(1000))
print(folder.path, flush=True)
sys.stdin.read() if sys.argv[1] == "stay" else os.kill(os.getpid(), 9)
"""


def claimant(temporary: Path, what: str) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIMANT, what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_driver_is_removed_by_the_next_and_of_a_living_one_kept(
    temporary: Path,
) -> None:
    dead, abandoned = claimant(temporary, "die")
    dead.communicate()
    assert abandoned.name.startswith(f"{PREFIX}{dead.pid}-")
    assert (abandoned / "1" / "0.npy").is_file()
    living, kept = claimant(temporary, "stay")  # which removed the other one
    assert not abandoned.exists()
    with ArrayFolder() as folder:
        assert kept.is_dir()
        assert folder.path.is_dir()
    living.communicate("")
    assert not kept.exists()  # removed at the end of its process


def test_what_has_another_name_or_no_claim_is_left_alone(temporary: Path) -> None:
    unclaimed, foreign = temporary / f"{PREFIX}1-x", temporary / "foreign"
    for folder in (unclaimed, foreign):
        folder.mkdir()
    (foreign / array_files.CLAIM).touch()
    array_files.remove_abandoned()
    assert unclaimed.is_dir()
    assert foreign.is_dir()
    unclaimed.rmdir()
    (foreign / array_files.CLAIM).unlink()
    foreign.rmdir()
