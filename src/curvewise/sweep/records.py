"""What a store's rows become, and how arrays and plain data lie in them."""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import CurvewiseError, InputError
from curvewise.sweep.plan import PlannedRun


class StoreError(CurvewiseError):
    """The disk, the permissions or another process keep a store from being used."""


def damaged(path: Path, what: object) -> InputError:
    """Return the error for a file whose content cannot be what was written."""
    told = " ".join(str(what).split())  # SQLite's words may have several lines
    return InputError(
        f"{path} must be a whole Curvewise store, got a damaged one ({told}); bring back a "
        "copy of it, or give another name to start anew"
    )


@dataclass(frozen=True)
class Sweep:
    """A registered sweep: its spec as plain data, and how many runs it has."""

    id: int
    name: str
    spec: dict[str, Any]
    created: str
    runs: int


@dataclass(frozen=True)
class KnownProblem:
    """What a store keeps of a problem; `Store.labels` has the labels."""

    task: str
    beta: float | None
    seed: int
    class_names: tuple[str, ...]
    class_counts: tuple[int, ...]


@dataclass(frozen=True)
class Record:
    """A run and what became of it, without its scores.

    `state` is "pending", "done", "diverged" or "failed", `finished` an ISO time in UTC.
    """

    identity: str
    fingerprint: str
    run: PlannedRun
    state: str
    attempts: int
    metrics: dict[str, float]
    seconds: float
    message: str = ""
    machine: str = ""
    versions: dict[str, str] | None = None
    finished: str | None = None

    @property
    def auc(self) -> float:
        """Area under the ROC curve on the test part, nan if there is none."""
        return self.metrics.get("auc", math.nan)


@dataclass(frozen=True)
class StatusRow:
    """Runs of one label (on one task, unless `task` is None); AUC is over those done."""

    task: str | None
    label: str
    pending: int
    done: int
    diverged: int
    failed: int
    mean_auc: float
    min_auc: float
    max_auc: float
    seconds: float


def packed(array: NDArray[Any], kind: str) -> bytes:
    """Compress an array (n,), all first bytes first: 0.85 of float32 scores, 0.90 as they are."""
    plain = np.ascontiguousarray(array, dtype=kind)
    planes = plain.view(np.uint8).reshape(len(plain), plain.itemsize).T
    return zlib.compress(planes.tobytes(), 6)


def unpacked(path: Path, data: bytes, kind: str) -> NDArray[Any]:
    """Return the array (n,) that `packed` compressed; zlib notices a changed one."""
    try:
        planes = np.frombuffer(zlib.decompress(data), np.uint8)
        return np.ascontiguousarray(planes.reshape(np.dtype(kind).itemsize, -1).T).view(kind)[:, 0]
    except (zlib.error, ValueError, TypeError) as error:
        raise damaged(path, error) from None


def summed(data: Mapping[str, Any], beside: object = "") -> tuple[str, int]:
    """Return plain data as JSON, and a checksum: SQLite has none for the content of rows.

    The checksum is also of `beside`, what another column of the row holds.
    """
    text = json.dumps(data, allow_nan=False)
    return text, checksum(checksum(0, text), beside)


def checksum(before: int, more: object) -> int:
    """Return the checksum of what one was computed of `before`, and of more after it.

    >>> checksum(checksum(0, "ab"), 12) == checksum(0, "ab12")
    True
    """
    return zlib.crc32(str(more).encode(), before)


def read_summed(
    path: Path, text: str | None, total: int | None, beside: object = ""
) -> dict[str, Any]:
    """Return the data that `summed` wrote."""
    if not isinstance(text, str) or checksum(checksum(0, text), beside) != total:
        raise damaged(path, "a row does not match its checksum")
    data: dict[str, Any] = json.loads(text)
    return data


def plain(value: float) -> float | str | None:
    """Return a number as JSON can hold it."""
    return None if math.isnan(value) else str(value) if math.isinf(value) else value


def number_of(value: float | str | None) -> float:
    """Return a number that `plain` made ready."""
    return math.nan if value is None else float(value)
