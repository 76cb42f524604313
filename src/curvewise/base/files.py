"""Files that are whole or not there at all, strict JSON, and digests of contents."""

import hashlib
import json
import math
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from curvewise.base.errors import InputError, require


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a file beside `path` to write to; it takes that name once all of it is on the disk.

    If the block fails, nothing is left of it, and what was at `path` stays. The file has the mode
    that the user's umask gives, whoever writes it.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with whole_file(place) as unfinished:
    ...     _ = unfinished.write_text("42")
    >>> place.read_text(), len(list(place.parent.iterdir()))
    ('42', 1)
    """
    unfinished = path.with_name(f".unfinished-{uuid.uuid4().hex}{path.suffix}")
    try:
        unfinished.touch(exist_ok=False)
        mode = unfinished.stat().st_mode
        yield unfinished
        unfinished.chmod(mode)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write data as strict JSON, all of it or nothing: what is not a number becomes null."""
    with whole_file(path) as unfinished:
        unfinished.write_text(json_text(data, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read strict JSON; a file that holds anything else is a `ValueError`."""
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"strict JSON has no {constant}")


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Return data as strict JSON: what is not a number becomes null."""
    return json.dumps(without_nan(data), indent=indent, allow_nan=False)


def sha256(parts: Iterable[str | bytes | memoryview]) -> str:
    """Return the digest (hex) of texts and bytes, one after the other.

    >>> sha256(["ab", b"c"])[:8]
    'ba7816bf'
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()


def without_nan(value: Any) -> Any:
    """Return nested data with nan and infinities as None.

    >>> without_nan({"tau": (float("inf"), 2.0)})
    {'tau': [None, 2.0]}
    """
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def require_folder(out: Path) -> None:
    """Raise `InputError` if a file is where a folder is to be."""
    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            which = "it" if place == out else str(place)
            raise InputError(f"--out {out} cannot be made into a folder: {which} is a file")


def require_file(what: str, path: Path) -> Path:
    """Return the path of a file, such as the "weights file", if it is there."""
    require(path.is_file(), f"there is no {what} {path}")
    return path


def require_target(name: str, out: Path, *, overwrite: bool = False) -> None:
    """Raise `InputError` unless a file can be written there, over an old one if that is wanted."""
    require(not out.is_dir(), f"{name} must be a file, got the folder {out}")
    free = overwrite or not out.exists()
    require(free, f"{out} exists: choose another {name}, or give --overwrite")
    above = next(place for place in out.absolute().parents if place.exists())
    writable = above.is_dir() and os.access(above, os.W_OK)
    require(writable, f"{name} must be in a folder that can be written to, got {out}")
