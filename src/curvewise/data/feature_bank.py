"""Features of images from a pretrained backbone, computed once an image, whatever task it is in.

A bank is a folder with files `chunk-HASH.npy`, each an array of up to 256 records (key, features).
A key is the hash of an image's bytes and shape; the hash in a file's name is that of its content,
so that a damaged file is known by its name, and a name never stands for two contents.
"""

import io
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from curvewise.base.errors import require, require_choice, require_whole
from curvewise.base.files import whole_file
from curvewise.base.machine import choose_device
from curvewise.data.task import Progress, Task
from curvewise.networks.registry import PRETRAINED, build_network, input_statistics, pixel_scale

CHUNK = 256  # images between two saves
BATCH = 64
LEAST_SIZE = 8
KEY_BYTES = 16

Block = tuple[list[bytes], NDArray[np.float32]]  # keys of k images, their features (k, F)


def require_backbone(name: str) -> None:
    """Raise `InputError` unless a network has pretrained features to take."""
    require_choice("--backbone", name, PRETRAINED)


def embed(
    task: Task,
    out: Path,
    *,
    backbone: str = "efficientnet-lite0",
    size: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write x_train, y_train, x_test, y_test (and groups) with features instead of images.

    The file is a source of its own: ``npz:FILE``. Finished chunks are kept beside it while it
    is made, so that a stopped run goes on where it was. `size` is that of `FeatureBank`.
    """
    require(out.suffix == ".npz", f"the output must be an .npz file, got {out}")
    parts = out.with_name(f".{out.name}.parts")
    features = embedded(task, FeatureBank(parts, backbone, size), progress=progress)
    names = ("x_train", "y_train", "x_test", "y_test", "class_names", "groups")
    arrays = {name: getattr(features, name) for name in names}
    with whole_file(out) as unfinished:
        np.savez(unfinished, **{name: x for name, x in arrays.items() if x is not None})
    shutil.rmtree(parts, ignore_errors=True)
    return out


def embedded(task: Task, bank: "FeatureBank", *, progress: Progress | None = None) -> Task:
    """Return an image task with a bank's features instead of images."""
    require(task.kind == "image", f"embed needs images, got {task.name} with {task.kind}")
    x_train, x_test = (
        bank.features(getattr(task, part), name=part, progress=progress)
        for part in ("x_train", "x_test")
    )
    return replace(task, kind="features", x_train=x_train, x_test=x_test)


class FeatureBank:
    """Features by the images themselves, kept in a folder of its own inside `folder`.

    Parameters
    ----------
    size
        Images are resized to size x size for the backbone (bilinear, antialiased where that
        shrinks them); None takes them as they are.

    Several processes may use one folder at once; at worst both compute the same image.

    >>> FeatureBank(Path("cache"), size=96).folder.name
    'features-efficientnet-lite0-96'
    """

    def __init__(
        self, folder: Path, backbone: str = "efficientnet-lite0", size: int | None = None
    ) -> None:
        require_choice("backbone", backbone, PRETRAINED)
        if size is not None:
            require_whole("size", size, LEAST_SIZE)
        self.folder = Path(folder) / f"features-{backbone}{'' if size is None else f'-{size}'}"
        self.backbone, self.size = backbone, size
        self.device = choose_device("auto")

    def features(
        self, images: NDArray[Any], *, name: str, progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Return the features (n, F) of uint8 images (n, C, H, W), an array or a memory map.

        Only what the bank lacks is computed, each image once however often it occurs; what is
        computed is kept, chunk by chunk, so that a stopped call goes on where it was.
        `progress(f"embedding {name}", done, n)` is called after each chunk.
        """
        require(
            images.dtype == np.uint8 and images.shape[1:2] == (3,) and len(images) != 0,
            f"images must be uint8 of shape (n, 3, H, W), one or more, got {images.dtype} of "
            f"shape {images.shape}",
        )
        left: dict[bytes, list[int]] = {}  # rows of every image whose features are to be found
        for row, image in enumerate(images):
            left.setdefault(image_key(image), []).append(row)
        collected: NDArray[np.float32] | None = None
        done = 0
        kept = filter(None, map(self._read, sorted(self.folder.glob("chunk-*.npy"))))
        for keys, block in chain(kept, self._computed(images, left)):
            if collected is None:
                collected = np.empty((len(images), block.shape[1]), dtype=np.float32)
            before = done
            for key, feature in zip(keys, block, strict=True):
                rows = left.pop(key, [])
                collected[rows] = feature
                done += len(rows)
            if progress is not None and done > before:
                progress(f"embedding {name}", done, len(images))
        assert collected is not None
        return collected

    def _computed(self, images: NDArray[Any], wanted: dict[bytes, list[int]]) -> Iterator[Block]:
        """Compute, save and yield what is still wanted, chunk by chunk."""
        lacking = list(wanted.items())
        for start in range(0, len(lacking), CHUNK):
            part = lacking[start : start + CHUNK]
            rows = [places[0] for _, places in part]  # ascending, as a memory map likes it
            batches = [rows[first : first + BATCH] for first in range(0, len(rows), BATCH)]
            features = np.concatenate([self._embedded(np.asarray(images[few])) for few in batches])
            block = ([key for key, _ in part], features)
            self._save(block)
            yield block

    @torch.no_grad()
    def _embedded(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        # Rounding depends on the size of a batch, not on who else is in it: fill it up.
        full = np.resize(images, (BATCH, *images.shape[1:]))
        statistics = input_statistics(self._network)
        assert statistics is not None
        factor, shift = pixel_scale(statistics, self.device)
        pixels = torch.as_tensor(full).to(self.device)
        if self.size is not None and pixels.shape[2:] != (self.size, self.size):
            pixels = torch.nn.functional.interpolate(
                pixels.float(), (self.size, self.size), mode="bilinear", antialias=True
            )
        scaled = torch.addcmul(shift, pixels.float(), factor)
        features: NDArray[np.float32] = self._network.features(scaled).cpu().numpy()
        return features[: len(images)]

    @cached_property
    def _network(self) -> Any:
        side = self.size or 224
        return build_network(self.backbone, in_shape=(3, side, side)).eval().to(self.device)

    def _read(self, file: Path) -> Block | None:
        """Return a chunk; None if it is damaged, which is told, or was removed meanwhile."""
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
        if file.name != _name_of(content):
            warnings.warn(f"{file} is damaged; its features are computed again", stacklevel=3)
            with suppress(OSError):  # the folder may be shared, and not ours to write
                file.unlink()
            return None
        with suppress(OSError):
            os.utime(file)  # when it was last used
        records = np.load(io.BytesIO(content), allow_pickle=False)
        return [key.tobytes() for key in records["key"]], records["features"]

    def _save(self, block: Block) -> None:
        """Write a chunk, complete before it gets its name."""
        keys, features = block
        layout = [("key", "u1", KEY_BYTES), ("features", "<f4", features.shape[1])]
        records = np.empty(len(keys), dtype=layout)
        records["key"] = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), KEY_BYTES)
        records["features"] = features
        buffer = io.BytesIO()
        np.save(buffer, records, allow_pickle=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole_file(self.folder / _name_of(buffer.getvalue())) as unfinished:
            unfinished.write_bytes(buffer.getvalue())


def image_key(image: NDArray[Any]) -> bytes:
    """Return the hash of an image's shape and bytes.

    >>> image_key(np.zeros((3, 2, 8), np.uint8)) == image_key(np.zeros((3, 4, 4), np.uint8))
    False
    """
    digest = blake2b(repr(image.shape).encode(), digest_size=KEY_BYTES)
    digest.update(np.ascontiguousarray(image).data)
    return digest.digest()


def _name_of(content: bytes) -> str:
    return f"chunk-{blake2b(content, digest_size=KEY_BYTES).hexdigest()}.npy"
