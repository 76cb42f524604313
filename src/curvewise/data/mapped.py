"""Arrays in files: written piece by piece, complete before they get their name, then mapped."""

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from curvewise.base.errors import InputError
from curvewise.base.files import sha256, whole_file

CHUNK_BYTES = 2**25  # what a piece may hold in memory
SMALL_BYTES = 2**28  # rows that are gathered in memory rather than on disk


def mapped_rows(array: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return array[rows]: a view where the rows are neighbours, else a copy.

    A copy of many rows of a memory map is itself a memory map, in a file beside the first, so
    that a split of a large cache needs no memory; it is written once for the same rows.

    >>> mapped_rows(np.arange(5), np.array([1, 2, 3])).base is None
    False
    >>> mapped_rows(np.arange(5), np.array([3, 1]))
    array([3, 1])
    """
    if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return array[int(rows[0]) : int(rows[0]) + len(rows)]
    row_bytes = array[:1].nbytes
    if getattr(array, "filename", None) is None or row_bytes * len(rows) <= SMALL_BYTES:
        return array[rows]
    path = _place(array, rows)
    if not path.is_file():
        require_space(path.parent, row_bytes * len(rows))
        chunk = max(1, CHUNK_BYTES // row_bytes)
        with whole_file(path) as unfinished, unfinished.open("wb") as file:
            file.write(npy_header((len(rows), *array.shape[1:]), array.dtype))
            for start in range(0, len(rows), chunk):
                file.write(np.ascontiguousarray(array[rows[start : start + chunk]]).data)
    return map_array(path)


def _place(array: Any, rows: NDArray[np.int64]) -> Path:
    """Return the file for these rows of this view of a memory map."""
    whole = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    begin = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    view = (str(array.filename), begin, array.shape, array.strides, array.dtype.str)
    digest = sha256([repr(view), np.ascontiguousarray(rows, dtype=np.int64).data])
    return Path(array.filename).with_name(f"rows-{digest[:20]}.npy")


def map_array(path: Path) -> NDArray[Any]:
    """Return the array of a .npy file as a read-only memory map."""
    mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def npy_header(shape: tuple[int, ...], dtype: DTypeLike) -> bytes:
    """Return the beginning of a .npy file; numpy gives it one length for any number of rows.

    >>> len(npy_header((3, 8, 8), np.uint8)) == len(npy_header((1_000_000, 8, 8), np.uint8))
    True
    """
    buffer = io.BytesIO()
    description = {
        "shape": shape,
        "fortran_order": False,
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
    }
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()


def require_space(folder: Path, needed: int) -> None:
    """Raise `InputError` if the folder's disk has fewer than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"the cache folder {folder} must have {needed / 1e9:.1f} GB free, got "
            f"{free / 1e9:.1f} GB: choose another one or a smaller image size"
        )
