"""Many image files as a task: decoded and resized once, into a memory-mapped array on disk.

A cache is a folder `LABEL-Spx-HASH` with `images.npy`, uint8 (n, 3, S, S), and `index.json`. The
hash is of every file's path, size and time of change and of the resize rule, so a changed picture
makes another cache. The index is written last: a folder without it is no cache, or none as yet. Its
time of change is when the cache was last used.
"""

import os
import re
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from curvewise.base.errors import InputError, require, require_number
from curvewise.base.files import read_json, sha256, write_json
from curvewise.data.image_files import RULE, broken_text, decoded_batches
from curvewise.data.mapped import write_rows
from curvewise.data.task import Progress, SourceOptions, Task, split_task

# Of ImageNet's training pixels, on the scale 0 to 1: what pretrained networks expect.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
MOST_BROKEN = 0.01  # share of unreadable images that is skipped rather than refused
INDEX = "index.json"
# Folders of `cached_images`, or of a bank of features; hidden ones were left by earlier versions.
CACHE = re.compile(
    r"(?:\.unfinished-)?(?:[a-zA-Z0-9-]+-\d+px-[0-9a-f]{20}|features-[a-z0-9-]+)(?:-[0-9a-f]{32})?"
)
INSIDE = re.compile(
    r"images\.npy|index\.json|(?:rows-[0-9a-f]{20}|chunk-[0-9a-f]{32})\.npy"
    r"|\.unfinished-[0-9a-f]{32}(?:\.\w+)?"
)
NEIGHBOURS = frozenset({"openml"})  # downloads that live beside the decoded images
ABANDONED = 3600  # seconds after which an unfinished file that nobody has written to is left over
DAY = 86_400.0

Broken = dict[int, tuple[str, str]]  # path and reason of files that cannot be read, by place


def image_task(
    name: str,
    class_names: tuple[str, str],
    table: pd.DataFrame,
    options: SourceOptions,
    *,
    image_size: int,
    source: str,
    deviations: Sequence[str] = (),
) -> Task:
    """Return files as a task; `image_size` is what the options' own replaces.

    The table has a row for each file: `file`, `label` (0 or 1), `test` (whether it is of the test
    part) and perhaps `group`. The cache keeps their order, whatever a seed makes the test part, so
    that another seed decodes nothing anew.
    """
    size = image_size if options.image_size is None else options.image_size
    images, broken = cached_images(
        table["file"].tolist(), size, options.cache_folder, label=name, progress=options.progress
    )
    table = table.drop(table.index[list(broken)])
    test = table["test"].to_numpy(np.bool_)
    return split_task(
        images,
        table["label"].to_numpy(np.int64),
        (np.flatnonzero(~test), np.flatnonzero(test)),
        groups=table["group"].to_numpy(str) if "group" in table else None,
        name=name,
        kind="image",
        class_names=class_names,
        details={
            "source": source,
            "mean": list(IMAGENET_MEAN),
            "std": list(IMAGENET_STD),
            "image_size": size,
            "deviations": list(deviations),
            "broken": [{"file": file, "reason": reason} for file, reason in broken.values()],
        },
    )


def cached_images(
    files: Sequence[Path],
    size: int,
    cache_folder: Path,
    *,
    label: str = "images",
    progress: Progress | None = None,
) -> tuple[NDArray[np.uint8], Broken]:
    """Return a read-only memory map (n, 3, S, S) of the files, decoded if no cache has them.

    An image that cannot be read is named in a warning and skipped, its place in `files` is among
    the broken; more than 1 % of them is an `InputError`. Memory stays bounded however many there
    are.
    """
    size = int(require_number("image_size", size, 1, 8192))
    require(files, f"{label} must have one image or more, got none")
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", label)[-40:].strip("-") or "images"
    folder = cache_folder / f"{slug}-{size}px-{_digest(files, size)}"
    if not (folder / INDEX).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".unfinished-*"):
            with suppress(OSError):  # the process that wrote it has ended
                if time.time() - left.stat().st_mtime > ABANDONED:
                    left.unlink()
        broken: Broken = {}
        pieces = _decoded(files, size, label, progress, broken)
        try:
            write_rows(folder / "images.npy", pieces, (len(files), 3, size, size), np.uint8)
            rows = [(row, *reason) for row, reason in broken.items()]
            write_json(folder / INDEX, {"files": len(files), "size": size, "broken": rows})
        finally:
            with suppress(OSError):  # it goes if it is empty
                folder.rmdir()
    images, broken = _open(folder, len(files), size)
    if broken:
        text = broken_text([*broken.values()], len(files))
        warnings.warn(f"{label}: {text}, skipped", stacklevel=2)
    return images, broken


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


def _decoded(
    files: Sequence[Path], size: int, label: str, progress: Progress | None, broken: Broken
) -> Iterator[NDArray[np.uint8]]:
    """Yield the pixels of the readable files, batch by batch; note the others in `broken`."""
    done = 0
    for pixels, reasons in decoded_batches(files, (3, size, size)):
        broken |= {row: (str(files[row]), why) for row, why in enumerate(reasons, done) if why}
        if len(broken) > MOST_BROKEN * len(files):
            text = broken_text([*broken.values()], len(files))
            raise InputError(f"at most 1 % of the images of {label} may be unreadable, got {text}")
        yield pixels
        done += len(reasons)
        if progress is not None:
            progress(f"decoding {label}", done, len(files))


def _open(folder: Path, n: int, size: int) -> tuple[NDArray[np.uint8], Broken]:
    try:
        index = read_json(folder / INDEX)
        broken = {int(row): (str(path), str(reason)) for row, path, reason in index["broken"]}
        images = np.load(folder / "images.npy", mmap_mode="r")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"the cache {folder} must be whole, got a damaged one ({error}): remove it and try "
            f"again"
        ) from None
    with suppress(OSError):  # a cache may be shared, and not ours to write
        os.utime(folder / INDEX)
    whole = n - len(broken)
    require(
        images.shape == (whole, 3, size, size) and images.dtype == np.uint8,
        f"the cache {folder} must hold {whole} images of {size} px, got shape "
        f"{images.shape}: remove it and try again",
    )
    return images, broken


@dataclass(frozen=True)
class Cache:
    """A folder of decoded images or features: bytes on disk, days since its last use, its state.

    An unfinished one is "interrupted", or "being written" if that was less than an hour ago:
    another process may be at work on it.
    """

    path: Path
    size: int
    days: float
    state: str  # "whole" | "interrupted" | "being written"


def find_caches(folder: Path, *, older_than: float = 0.0) -> list[Cache]:
    """Return the caches in a folder that have not been used for `older_than` days, by name.

    Only folders named and filled as `cached_images` or a bank of features does it are caches. A
    folder that has other things and no cache is refused: it was probably named by mistake.
    """
    require_number("older_than", older_than, 0)
    require(folder.is_dir(), f"the cache folder must be there, got {folder}")
    entries = sorted(folder.iterdir())
    caches = [cache for cache in map(_as_cache, entries) if cache is not None]
    foreign = [entry.name for entry in entries if entry.name not in NEIGHBOURS]
    if foreign and not caches:
        raise InputError(
            f"the cache folder must hold decoded images, got {folder} with {foreign[0]!r} and no "
            f"cache"
        )
    return [cache for cache in caches if cache.days >= older_than]


def _as_cache(path: Path) -> Cache | None:
    """Return what the path is, if it is a cache."""
    if CACHE.fullmatch(path.name) is None or path.is_symlink() or not path.is_dir():
        return None
    files = list(path.iterdir())
    if not all(INSIDE.fullmatch(file.name) and file.is_file() for file in files):
        return None
    known = [file.stat() for file in files]
    last = max((status.st_mtime for status in known), default=path.stat().st_mtime)
    seconds = max(0.0, time.time() - last)
    state = "being written" if seconds < ABANDONED else "interrupted"
    if path.name.startswith("features-") or (path / INDEX).is_file():
        state = "whole"
    return Cache(path, sum(status.st_size for status in known), seconds / DAY, state)


def remove_caches(caches: Iterable[Cache]) -> int:
    """Remove caches and return the bytes that this freed; one being written is left alone."""
    freed = 0
    for cache in caches:
        if cache.state != "being written":
            with suppress(FileNotFoundError):  # somebody else has removed it meanwhile
                (cache.path / INDEX).unlink(missing_ok=True)  # first: half of it must not be used
                shutil.rmtree(cache.path)
                freed += cache.size
    return freed
