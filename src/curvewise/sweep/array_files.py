"""Data for worker processes: arrays in files that all of them map into memory, written once.

A driver's files are in a folder of its own among the system's temporary ones. It is removed when
the driver is done; that of a driver which was killed is removed by the next one.
"""

import os
import pickle
import shutil
import sys
import tempfile
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from curvewise.base.errors import CurvewiseError

PREFIX = "curvewise-data-"
CLAIM = "claim"  # a file in the folder, locked for as long as its driver lives
OBJECT = "object.pickle"


class ArrayFolder:
    """A temporary folder for data; a context manager that removes it."""

    def __init__(self) -> None:
        remove_abandoned()
        self._folder = tempfile.TemporaryDirectory(
            prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True
        )
        self.path = Path(self._folder.name)
        self._claim = (self.path / "unlocked").open("wb")
        lock(self._claim.fileno())
        (self.path / "unlocked").rename(self.path / CLAIM)
        self._written = 0

    def __enter__(self) -> "ArrayFolder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()
        self._claim.close()

    def write(self, data: Any) -> Path:
        """Write picklable data, their arrays as .npy files; return the folder `read` takes."""
        self._written += 1
        folder = self.path / str(self._written)
        try:
            folder.mkdir()
            with (folder / OBJECT).open("wb") as file:
                _ArrayPickler(file, folder).dump(data)
        except OSError as error:
            raise CurvewiseError(
                f"data for the worker processes must fit into {self.path.parent}, got {error}: "
                f"choose another folder by the environment variable TMPDIR"
            ) from error
        return folder

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove what `write` wrote; maps that are open stay valid."""
        shutil.rmtree(folder, ignore_errors=True)


def read(folder: Path) -> Any:
    """Return data that `write` wrote, with arrays that are mapped, not read.

    A change to such an array stays within the process.
    """
    with (folder / OBJECT).open("rb") as file:
        return _ArrayUnpickler(file, folder).load()


class _ArrayPickler(pickle.Pickler):
    def __init__(self, file: Any, folder: Path) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.folder = folder
        self.places: dict[int, Any] = {}

    def persistent_id(self, value: Any) -> Any:
        """Return the place of an array; None for anything that is pickled as usual."""
        if type(value) not in (np.ndarray, np.memmap) or value.dtype.hasobject or not value.size:
            return None
        if id(value) not in self.places:
            self.places[id(value)] = _mapped_place(value) or self._saved(value)
        return self.places[id(value)]

    def _saved(self, array: Any) -> str:
        name = f"{len(self.places)}.npy"
        np.save(self.folder / name, array, allow_pickle=False)
        return name


class _ArrayUnpickler(pickle.Unpickler):
    def __init__(self, file: BufferedReader, folder: Path) -> None:
        super().__init__(file)
        self.folder = folder

    def persistent_load(self, place: Any) -> Any:
        """Return the array at a place."""
        if isinstance(place, tuple):
            name, dtype, offset, shape = place
            return np.memmap(name, dtype, "r", offset, shape)
        # Copy on write: a plain array like the driver's, which torch takes without a warning.
        return np.load(self.folder / place, mmap_mode="c", allow_pickle=False).view(np.ndarray)


def _mapped_place(array: Any) -> tuple[str, np.dtype[Any], int, tuple[int, ...]] | None:
    """Return where a read-only map of a file lies in it, so that it is not written again."""
    whole = array
    while isinstance(getattr(whole, "base", None), np.memmap):
        whole = whole.base
    name = getattr(whole, "filename", None)
    if name is None or whole.mode != "r" or not array.flags.c_contiguous:
        return None
    begin = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return os.path.abspath(name), array.dtype, whole.offset + begin, array.shape


def remove_abandoned() -> None:
    """Remove the folders of drivers that were killed: nobody holds the lock of their claim."""
    if sys.platform == "win32":  # there, a file in use cannot be removed, and has no such lock
        return
    for claim in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{CLAIM}"):
        try:
            with claim.open("rb") as file:
                lock(file.fileno())
                shutil.rmtree(claim.parent, ignore_errors=True)
        except OSError:  # it is locked, or somebody else's, or just being removed
            continue


def lock(file: int) -> None:
    """Lock an open file against other processes until it is closed; `OSError` if it is locked."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
