"""Rows of arrays in files: written piece by piece, mapped, and picked without the memory."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from curvewise.base.errors import require
from curvewise.base.files import sha256, whole_file

PIECE_BYTES = 2**25  # what a piece may hold in memory
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
        step = max(1, PIECE_BYTES // row_bytes)
        pieces = (array[rows[start : start + step]] for start in range(0, len(rows), step))
        write_rows(path, pieces, (len(rows), *array.shape[1:]), array.dtype)
    mapped: NDArray[Any] = np.load(path, mmap_mode="r")
    return mapped


def _place(array: Any, rows: NDArray[np.int64]) -> Path:
    """Return the file for these rows of this view of a memory map."""
    whole = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    begin = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    view = (str(array.filename), begin, array.shape, array.strides, array.dtype.str)
    digest = sha256([repr(view), np.ascontiguousarray(rows, dtype=np.int64).data])
    return Path(array.filename).with_name(f"rows-{digest[:20]}.npy")


def write_rows(
    path: Path, pieces: Iterable[NDArray[Any]], shape: tuple[int, ...], dtype: DTypeLike
) -> None:
    """Write rows, in pieces (k, ...), to a .npy file that is whole or not there at all.

    `shape` has the most rows that there may be. A full disk is told before the first is written,
    which it could not be if the file were a memory map.
    """
    row_bytes = np.empty(shape[1:], dtype).nbytes
    free = shutil.disk_usage(path.parent).free
    require(
        shape[0] * row_bytes <= free,
        f"the cache folder {path.parent} must have {shape[0] * row_bytes / 1e9:.1f} GB free, "
        f"got {free / 1e9:.1f} GB: choose another one or a smaller image size",
    )
    header = {"fortran_order": False, "descr": np.lib.format.dtype_to_descr(np.dtype(dtype))}
    with whole_file(path) as unfinished, unfinished.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {**header, "shape": shape})
        begin = file.tell()
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, dtype).data)
        rows = (file.tell() - begin) // row_bytes
        file.seek(0)  # numpy gives the header one length for any number of rows
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (rows, *shape[1:])})
