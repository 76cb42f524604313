"""Finding and removing what `cached_images` and banks of features have left on disk."""

import re
import shutil
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from curvewise.base.errors import InputError, require_number
from curvewise.data.cache import STALE_SECONDS

FINISHED = re.compile(r"(?:[a-zA-Z0-9-]+-\d+px-[0-9a-f]{20}|features-[a-z0-9-]+)")
INTERRUPTED = re.compile(rf"\.unfinished-{FINISHED.pattern}-[0-9a-f]{{32}}")
INSIDE = re.compile(
    r"images\.npy|index\.json|(?:rows-[0-9a-f]{20}|chunk-[0-9a-f]{32})\.npy"
    r"|\.unfinished-[0-9a-f]{32}(?:\.npy)?"
)
NEIGHBOURS = frozenset({"openml"})  # downloads that live beside the decoded images
DAY = 86_400.0


@dataclass(frozen=True)
class FoundCache:
    """A folder of decoded images or features: bytes on disk, days since its last use, its state.

    An unfinished one is "interrupted", or "being written" if that was less than an hour ago:
    another process may be at work on it.
    """

    path: Path
    size: int
    days: float
    state: str  # "whole" | "interrupted" | "being written"


def find_caches(folder: Path, *, older_than: float = 0.0) -> list[FoundCache]:
    """Return the caches in a folder that have not been used for `older_than` days, by name.

    Only folders named and filled as `cached_images` or a bank of features does it are caches. A
    folder that has other things and no cache is refused: it was probably named by mistake.
    """
    require_number("older_than", older_than, 0)
    if not folder.is_dir():
        raise InputError(f"the cache folder must be there, got {folder}")
    entries = sorted(folder.iterdir())
    caches = [cache for cache in map(_as_cache, entries) if cache is not None]
    foreign = [entry.name for entry in entries if entry.name not in NEIGHBOURS]
    if foreign and not caches:
        raise InputError(
            f"the cache folder must hold decoded images, got {folder} with {foreign[0]!r} and no "
            f"cache"
        )
    return [cache for cache in caches if cache.days >= older_than]


def remove_caches(caches: Iterable[FoundCache]) -> int:
    """Remove caches and return the bytes that this freed; one being written is left alone."""
    freed = 0
    for cache in caches:
        if cache.state == "being written":
            continue
        doomed = cache.path
        with suppress(FileNotFoundError):  # somebody else has removed it meanwhile
            if cache.state == "whole":  # under another name first: half of it must never be used
                doomed = cache.path.with_name(f".unfinished-{cache.path.name}-{uuid.uuid4().hex}")
                cache.path.rename(doomed)
            shutil.rmtree(doomed)
            freed += cache.size
    return freed


def _as_cache(path: Path) -> FoundCache | None:
    """Return what the path is, if it is a cache."""
    finished = FINISHED.fullmatch(path.name) is not None
    if not finished and INTERRUPTED.fullmatch(path.name) is None:
        return None
    if path.is_symlink() or not path.is_dir():
        return None
    files = list(path.iterdir())
    if not all(INSIDE.fullmatch(file.name) and file.is_file() for file in files):
        return None
    known = [file.stat() for file in files] or [path.stat()]
    last = max(status.st_mtime for status in known)
    seconds = max(0.0, time.time() - last)
    state = "whole" if finished else "interrupted"
    if not finished and seconds < STALE_SECONDS:
        state = "being written"
    size = sum(status.st_size for status in known) if files else 0
    return FoundCache(path, size, seconds / DAY, state)
