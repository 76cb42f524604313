"""Features of an image task from a pretrained backbone, into an npz file; resumable."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from curvewise.base.errors import InputError
from curvewise.base.files import whole_file
from curvewise.data.feature_bank import FeatureBank
from curvewise.data.task import Task


def embed(
    task: Task,
    out: Path,
    *,
    backbone: str = "efficientnet-lite0",
    size: int | None = None,
    device: str = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Write x_train, y_train, x_test, y_test (and groups) with features instead of images.

    The file is a source of its own: ``npz:FILE``. Finished chunks are kept beside it while it
    is made, so that a stopped run goes on where it was. `size` is that of `FeatureBank`.
    """
    if out.suffix != ".npz":
        raise InputError(f"the output must be an .npz file, got {out}")
    parts = out.with_name(f".{out.name}.parts")
    made = embedded(task, FeatureBank(parts, backbone, size, device), progress=progress)
    arrays: dict[str, Any] = {
        name: getattr(made, name) for name in ("x_train", "y_train", "x_test", "y_test")
    }
    arrays["class_names"] = np.array(task.class_names)
    if task.groups is not None:
        arrays["groups"] = np.asarray(task.groups)
    with whole_file(out) as unfinished:
        np.savez(unfinished, **arrays)
    shutil.rmtree(parts, ignore_errors=True)
    return out


def embedded(
    task: Task, bank: FeatureBank, *, progress: Callable[[str, int, int], None] | None = None
) -> Task:
    """Return an image task with a bank's features instead of images."""
    if task.kind != "image":
        raise InputError(f"embed needs images, got {task.name} with {task.kind}")
    x_train, x_test = (
        bank.features(getattr(task, part), name=part, progress=progress)
        for part in ("x_train", "x_test")
    )
    return replace(task, kind="features", x_train=x_train, x_test=x_test)
