"""Many image files, decoded and resized once, in parallel, into a memory-mapped array on disk.

A cache is a folder `LABEL-Spx-HASH` with `images.npy`, uint8 (n, 3, S, S), and `index.json`. The
hash is of every file's path, size and time of change and of the resize rule, so a changed picture
makes another cache. The folder gets its name when it is complete, never before. The time of change
of `index.json` is when the cache was last used.
"""

import json
import os
import re
import shutil
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError, require_number
from curvewise.base.files import read_json, sha256
from curvewise.base.machine import processors
from curvewise.data.mapped import CHUNK_BYTES, map_array, npy_header, require_space
from curvewise.data.options import Progress
from curvewise.data.picture import RULE, decode

MOST_BROKEN = 0.01  # share of unreadable images that is skipped rather than refused
STALE_SECONDS = 3600  # an unfinished cache that nobody has written to for so long is abandoned
NAMED = 5  # broken files that a message lists


@dataclass(frozen=True)
class CachedImages:
    """Decoded images and where they come from.

    `images` is a read-only memory map, uint8 (n, 3, S, S); row i is file `kept[i]` of the list
    that was asked for. `broken` holds the skipped files, each with the reason.
    """

    images: NDArray[np.uint8]
    kept: NDArray[np.int64]
    broken: tuple[tuple[str, str], ...]


def cached_images(
    files: Sequence[Path],
    size: int,
    cache_folder: Path,
    *,
    label: str = "images",
    progress: Progress | None = None,
    workers: int | None = None,
) -> CachedImages:
    """Return the files as an array of size x size images, decoding them if no cache has them.

    An image that cannot be read is named in a warning and skipped; more than 1 % of them is an
    `InputError`. Memory stays bounded however many files there are: a chunk is decoded by
    `workers` threads (one a processor; Pillow decodes outside Python's lock), written, forgotten.
    """
    size = int(require_number("image_size", size, 1, 8192))
    if not files:
        raise InputError(f"{label} must have one image or more, got none")
    folder = Path(cache_folder) / f"{_slug(label)}-{size}px-{_digest(files, size)}"
    if not folder.is_dir():
        with _unfinished(folder) as work:
            _fill(work, files, size, label, progress, workers or processors())
            _publish(work, folder)
    cached = _open(folder, len(files), size)
    if cached.broken:
        text = broken_text(cached.broken, len(files))
        warnings.warn(f"{label}: {text}, skipped", stacklevel=2)
    return cached


def _slug(label: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", label)[-40:].strip("-") or "images"


def _digest(files: Sequence[Path], size: int) -> str:
    parts: list[str | bytes] = [repr((RULE, size))]
    for file in files:
        try:
            status = os.stat(file)
        except OSError as error:
            raise InputError(f"an image must be readable, got {file}: {error.strerror}") from None
        parts.append(os.fsencode(os.path.abspath(file)))
        parts.append(f"\0{status.st_size}\0{status.st_mtime_ns}\0")
    return sha256(parts)[:20]


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """Make a folder to work in, beside the final one, and remove it whatever happens."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".unfinished-{folder.name}-"
    for other in folder.parent.glob(f"{prefix}*"):
        written = other / "images.npy"
        last = (written if written.exists() else other).stat().st_mtime
        if time.time() - last > STALE_SECONDS:  # its process was killed
            shutil.rmtree(other, ignore_errors=True)
    work = folder.with_name(prefix + uuid.uuid4().hex)
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill(
    work: Path,
    files: Sequence[Path],
    size: int,
    label: str,
    progress: Progress | None,
    workers: int,
) -> None:
    n, shape = len(files), (3, size, size)
    require_space(work.parent, n * 3 * size * size)
    chunk = max(workers, CHUNK_BYTES // (3 * size * size))
    broken: list[tuple[int, str, str]] = []
    with (work / "images.npy").open("wb") as file, ThreadPoolExecutor(workers) as pool:
        file.write(npy_header((n, *shape), np.uint8))
        for start in range(0, n, chunk):
            part = files[start : start + chunk]
            for index, result in enumerate(pool.map(partial(decode, size=size), part), start):
                if isinstance(result, str):
                    broken.append((index, str(files[index]), result))
                    _require_mostly_whole(broken, n, label)
                else:
                    file.write(result.data)
                if progress is not None:
                    progress(f"decoding {label}", index + 1, n)
        file.seek(0)  # the header has room for another number of rows
        file.write(npy_header((n - len(broken), *shape), np.uint8))
        file.flush()
        os.fsync(file.fileno())  # before the folder gets its name
    index_text = json.dumps({"files": n, "size": size, "broken": broken})
    (work / "index.json").write_text(index_text, encoding="utf-8")


def _require_mostly_whole(broken: list[tuple[int, str, str]], n: int, label: str) -> None:
    if len(broken) > MOST_BROKEN * n:
        text = broken_text([(path, reason) for _, path, reason in broken], n)
        raise InputError(f"at most 1 % of the images of {label} may be unreadable, got {text}")


def broken_text(broken: Sequence[tuple[str, str]], n: int) -> str:
    """Return how many of n images are unreadable, the first few by name and reason.

    >>> broken_text([("a.jpg", "the file is empty")], 200)
    '1 of 200 images unreadable: a.jpg (the file is empty)'
    """
    named = ", ".join(f"{path} ({reason})" for path, reason in broken[:NAMED])
    more = f" and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
    return f"{len(broken)} of {n} images unreadable: {named}{more}"


def _publish(work: Path, folder: Path) -> None:
    try:
        work.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process has finished the same cache meanwhile
            raise


def _open(folder: Path, n: int, size: int) -> CachedImages:
    try:
        index = read_json(folder / "index.json")
        broken = {int(row): (str(path), str(reason)) for row, path, reason in index["broken"]}
        images = map_array(folder / "images.npy")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"the cache {folder} must be whole, got a damaged one ({error}): remove it and try "
            f"again"
        ) from None
    with suppress(OSError):  # a cache may be shared, and not ours to write
        os.utime(folder / "index.json")
    kept = np.array([row for row in range(n) if row not in broken], dtype=np.int64)
    if images.shape != (len(kept), 3, size, size) or images.dtype != np.uint8:
        raise InputError(
            f"the cache {folder} must hold {len(kept)} images of {size} px, got shape "
            f"{images.shape}: remove it and try again"
        )
    return CachedImages(images, kept, tuple(broken.values()))
