"""CIFAR-10 and CIFAR-100 as two-class tasks, from the Python version of their files.

Krizhevsky 2009, "Learning multiple layers of features from tiny images". A pair "A/B" has A as
class 0, the majority, and B as class 1, the minority.
"""

import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.data.options import SourceOptions
from curvewise.data.pairs import count_deviations, pair_name, pair_rows, parse_pair
from curvewise.data.task import Task
from curvewise.data.unpickle import load_batch

PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
UNUSED = ("image_size", "target", "positive", "group")

ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
VEHICLES = ("airplane", "automobile", "ship", "truck")
FURNITURE = ("bed", "chair", "couch", "table", "wardrobe")
ELECTRONICS = ("clock", "keyboard", "lamp", "telephone", "television")


@dataclass(frozen=True)
class Edition:
    """What one of the two sets calls its files and labels, and how large it is."""

    source: str
    title: str
    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    meta: str
    label_key: str
    names_key: str
    groups: Mapping[str, tuple[str, ...]]
    short: Mapping[str, str]  # pairs with a name of their own
    complete: tuple[int, int]  # samples a class in the training and the test part
    mean: tuple[float, float, float]  # of the training pixels, on the scale 0 to 1
    std: tuple[float, float, float]


CIFAR10 = Edition(
    source="cifar10",
    title="CIFAR-10",
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    meta="batches.meta",
    label_key="labels",
    names_key="label_names",
    groups={"animal": ANIMALS, "vehicle": VEHICLES},
    short={},
    complete=(5000, 1000),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR100 = Edition(
    source="cifar100",
    title="CIFAR-100",
    folder="cifar-100-python",
    archive="cifar-100-python.tar.gz",
    train=("train",),
    test="test",
    meta="meta",
    label_key="fine_labels",
    names_key="fine_label_names",
    groups={"furniture": FURNITURE, "electronics": ELECTRONICS},
    short={"household": "furniture/electronics"},
    complete=(500, 100),
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
)


def cifar10(argument: str, options: SourceOptions) -> Task:
    """Return two classes of CIFAR-10, "cat/dog" or "3/5", or "animal/vehicle".

    Images are uint8 (n, 3, 32, 32). The files are looked for in the data folder, unpacked or as
    the downloaded tar.gz.
    """
    return _task(CIFAR10, argument, options)


def cifar100(argument: str, options: SourceOptions) -> Task:
    """Return two fine classes of CIFAR-100, or "household": furniture against electronics."""
    return _task(CIFAR100, argument, options)


def missing_cifar10(options: SourceOptions) -> str | None:
    """Return None if CIFAR-10 is there, else a sentence on how to get it."""
    return _missing(CIFAR10, options)


def missing_cifar100(options: SourceOptions) -> str | None:
    """Return None if CIFAR-100 is there, else a sentence on how to get it."""
    return _missing(CIFAR100, options)


def _missing(edition: Edition, options: SourceOptions) -> str | None:
    folder, archive = _places(edition, options)
    if folder.is_dir() or archive.is_file():
        return None
    return (
        f"{edition.source} needs the folder {folder} or the file {archive}, found neither: "
        f"get {edition.archive} from {PAGE}"
    )


def _places(edition: Edition, options: SourceOptions) -> tuple[Path, Path]:
    return options.data_folder / edition.folder, options.data_folder / edition.archive


def _task(edition: Edition, argument: str, options: SourceOptions) -> Task:
    options.refuse(edition.source, *UNUSED)
    if reason := _missing(edition, options):
        raise InputError(reason)
    files = _read(edition, options)
    names = files[edition.meta].get(edition.names_key, [])
    if not isinstance(names, list) or len(names) < 2:
        raise InputError(f"{edition.meta} of {edition.title} must list its classes, got {names!r}")
    expanded = edition.short.get(argument, argument)
    pair = first, second = parse_pair(edition.source, expanded, names, edition.groups)
    x, y = [], []
    for file in (*edition.train, edition.test):
        images, labels = _checked(edition, file, files.pop(file), len(names))
        rows, kept = pair_rows(labels, first, second)
        x.append(images[rows])
        y.append(kept)
    y_train = np.concatenate(y[:-1])
    return Task(
        name=f"{edition.source}:{argument if argument in edition.short else pair_name(pair)}",
        kind="image",
        x_train=np.concatenate(x[:-1]),
        y_train=y_train,
        x_test=x[-1],
        y_test=y[-1],
        class_names=(first.name, second.name),
        details={
            "source": f"{edition.title} ({PAGE})",
            "mean": list(edition.mean),
            "std": list(edition.std),
            "deviations": count_deviations(y_train, y[-1], pair, edition.complete),
        },
    )


def _read(edition: Edition, options: SourceOptions) -> dict[str, dict[str, Any]]:
    """Return the content of every file that the task needs, by name."""
    folder, archive = _places(edition, options)
    wanted = (*edition.train, edition.test, edition.meta)
    if folder.is_dir():
        if lacking := [str(folder / name) for name in wanted if not (folder / name).is_file()]:
            raise InputError(
                f"{edition.source} needs {lacking[0]}, which is not there: unpack "
                f"{edition.archive} from {PAGE} again"
            )
        return {name: load_batch(folder / name) for name in wanted}
    found = {}
    try:
        # A compressed archive reads well in one direction only: take members as they come.
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                name = member.name.removeprefix(f"{edition.folder}/")
                if name in wanted and (stream := members.extractfile(member)) is not None:
                    found[name] = load_batch(stream.read())
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InputError(
            f"{archive} must be a complete tar.gz file, got one that fails to unpack ({error}): "
            f"get it again from {PAGE}"
        ) from None
    if lacking := [name for name in wanted if name not in found]:
        raise InputError(f"{archive} must hold {edition.folder}/{lacking[0]}, found no such file")
    return found


def _checked(
    edition: Edition, file: str, content: dict[str, Any], n_classes: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (n, 3, 32, 32) and labels (n,) of one file."""
    name = f"{file} of {edition.title}"
    images, labels = content.get("data"), content.get(edition.label_key)
    if not (isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.ndim == 2):
        raise InputError(f"{name} must hold 'data' as a uint8 table, got {type(images).__name__}")
    if images.shape[1] != 3072:
        raise InputError(f"{name} must hold 3072 pixels an image, got {images.shape[1]}")
    if not isinstance(labels, list) or len(labels) != len(images):
        raise InputError(
            f"{name} must hold '{edition.label_key}' as a list of {len(images)}, got "
            f"{len(labels) if isinstance(labels, list) else type(labels).__name__}"
        )
    if wrong := [
        item for item in labels if not isinstance(item, int) or item not in range(n_classes)
    ]:
        raise InputError(f"a label in {name} must be 0 to {n_classes - 1}, got {wrong[0]!r}")
    return images.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)
