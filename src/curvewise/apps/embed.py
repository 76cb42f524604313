"""Features of an image task from a pretrained backbone, into an npz file; resumable."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from curvewise.data.task import Task
from curvewise.errors import InputError
from curvewise.networks.registry import build_network, input_statistics
from curvewise.training.batches import Samples
from curvewise.training.run import Normalization, choose_device

CHUNK = 256  # images between two saves


def embed(
    task: Task,
    out: Path,
    *,
    backbone: str = "efficientnet-lite0",
    device: str = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Write x_train, y_train, x_test, y_test (and groups) with features instead of images.

    The file is a source of its own: ``npz:FILE``. Finished chunks are kept beside it while it
    is made, so that a stopped run goes on where it was.
    """
    if task.kind != "image":
        raise InputError(f"embed needs images, got {task.name} with {task.kind}")
    if out.suffix != ".npz":
        raise InputError(f"the output must be an .npz file, got {out}")
    network = build_network(backbone, in_shape=task.x_train.shape[1:]).eval()
    scale = input_statistics(network)
    if not hasattr(network, "features") or scale is None:
        raise InputError(f"{backbone} has no pretrained features to take; use efficientnet-lite0")
    network.to(choose_device(device))
    parts = out.with_name(f".{out.name}.parts")
    key = json.dumps([task.fingerprint, backbone, CHUNK])
    _claim(parts, key)
    arrays: dict[str, Any] = {
        part: _features(network, getattr(task, part), scale, part, parts, progress)
        for part in ("x_train", "x_test")
    }
    arrays |= {"y_train": task.y_train, "y_test": task.y_test}
    arrays["class_names"] = np.array(task.class_names)
    if task.groups is not None:
        arrays["groups"] = np.asarray(task.groups)
    unfinished = out.with_name(f".{out.name}.part.npz")
    np.savez(unfinished, **arrays)
    unfinished.replace(out)
    shutil.rmtree(parts)
    return out


def _claim(parts: Path, key: str) -> None:
    """Make the folder of chunks; chunks of other images or another backbone are removed."""
    note = parts / "key.json"
    if parts.exists() and (not note.exists() or note.read_text() != key):
        shutil.rmtree(parts)
    parts.mkdir(parents=True, exist_ok=True)
    note.write_text(key)


@torch.no_grad()
def _features(
    network: Any,
    images: NDArray[Any],
    scale: Normalization,
    name: str,
    parts: Path,
    progress: Callable[[str, int, int], None] | None,
) -> NDArray[np.float32]:
    assert isinstance(network, nn.Module)
    device = next(network.parameters()).device
    samples = Samples(images, device, scale)
    chunks = []
    for start in range(0, len(samples), CHUNK):
        file = parts / f"{name}-{start}.npy"
        if not file.exists():
            rows = torch.arange(start, min(start + CHUNK, len(samples)))
            batches = [samples.prepared(samples.raw(few)) for few in torch.split(rows, 64)]
            found = torch.cat([network.features(batch).cpu() for batch in batches])  # type: ignore[operator]
            unfinished = file.with_suffix(".part.npy")
            np.save(unfinished, found.numpy())
            unfinished.replace(file)
        chunks.append(file)
        if progress is not None:
            progress(f"embedding {name}", min(start + CHUNK, len(samples)), len(samples))
    return np.concatenate([np.load(file) for file in chunks])
