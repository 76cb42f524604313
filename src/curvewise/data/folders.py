"""Images in folders: one sub-folder a class, and Kaggle's Dogs vs. Cats."""

import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean
from curvewise.data.image_files import ImageFiles
from curvewise.data.options import SourceOptions
from curvewise.data.picture import SUFFIXES
from curvewise.data.task import Task, split_rows

DOGS_PAGE = "https://www.kaggle.com/c/dogs-vs-cats/data"
TEST_FRACTION = 0.2
VALIDATION_SAMPLES = 1000  # a class, as in the paper (arXiv 2402.05400)
DOGS_COMPLETE = 12_500  # images a class in Kaggle's train folder
SMALLER_FIRST = (
    "images are resized to {size} px once and cropped from that, the paper's code crops the full "
    "picture at 256 px"
)
PARTS = {"train", "training", "test", "testing", "val", "valid", "validation"}


def folder(argument: str, options: SourceOptions) -> Task:
    """Return the images under a folder that has one sub-folder a class, 80/20 by seed.

    The rarer class is class 1 unless `options.positive` names another; of more than two classes it
    must be named, and the others become one class "rest". A path that is not found is looked for
    under the data folder.
    """
    options.refuse("folder", "target", "group")
    base = _existing(argument, options)
    by_class = _images_by_class(base)
    positive = _positive(base, {name: len(files) for name, files in by_class.items()}, options)
    others = [name for name in by_class if name != positive]
    files = [file for name in by_class for file in by_class[name]]
    labels = np.array(
        [int(name == positive) for name in by_class for _ in by_class[name]], np.int64
    )
    _, test = split_rows(labels, TEST_FRACTION, seed=options.seed)
    return ImageFiles(files, labels, _mask(test, len(files))).task(
        f"folder:{base.name}",
        (others[0] if len(others) == 1 else "rest", positive),
        options,
        image_size=96,
        source=f"images in the folder {base.name}",
    )


def missing_folder(options: SourceOptions) -> str | None:
    """Return None: a folder is the user's own."""
    return None


def dogs_vs_cats(argument: str, options: SourceOptions) -> Task:
    """Return Kaggle's Dogs vs. Cats from `train/cat.N.jpg` and `train/dog.N.jpg`; dog is class 1.

    The test part is 1,000 samples a class, chosen by seed.
    """
    options.refuse("dogs-vs-cats", "target", "positive", "group")
    if argument:
        raise InputError(f"dogs-vs-cats takes nothing after its name, got {argument!r}")
    train = _dogs_folder(options)
    if train is None:
        raise InputError(str(missing_dogs_vs_cats(options)))
    numbered = sorted(
        (match[1], int(match[2]), entry.name)
        for entry in os.scandir(train)
        if (match := re.fullmatch(r"(cat|dog)\.(\d+)\.jpg", entry.name))
    )
    files = [train / name for _, _, name in numbered]
    labels = np.array([int(kind == "dog") for kind, _, _ in numbered], np.int64)
    test = choose_per_class(labels, VALIDATION_SAMPLES, seed=options.seed)
    size = options.image_size or 96
    deviations = [
        f"there are {count:,} {kind} images here, the complete source has {DOGS_COMPLETE:,}"
        for kind, count in zip(("cat", "dog"), np.bincount(labels, minlength=2), strict=True)
        if count != DOGS_COMPLETE
    ]
    return ImageFiles(files, labels, _mask(test, len(files))).task(
        "dogs-vs-cats",
        ("cat", "dog"),
        options,
        image_size=size,
        source=f"Kaggle's Dogs vs. Cats ({DOGS_PAGE})",
        deviations=[*deviations, SMALLER_FIRST.format(size=size)],
    )


def missing_dogs_vs_cats(options: SourceOptions) -> str | None:
    """Return None if Dogs vs. Cats is there, else a sentence on how to get it."""
    if _dogs_folder(options) is not None:
        return None
    looked = " or ".join(str(place / "cat.0.jpg") for place in _dogs_places(options))
    return (
        f"dogs-vs-cats needs Kaggle's training images, {looked} and so on: get train.zip from "
        f"{DOGS_PAGE} and unpack it there"
    )


def choose_per_class(y: NDArray[np.int64], count: int, *, seed: int) -> NDArray[np.int64]:
    """Return sorted rows with `count` samples of each class, leaving one or more of each.

    >>> choose_per_class(np.array([0, 0, 0, 1, 1]), 1, seed=0).shape
    (2,)
    """
    rng = np.random.default_rng(seed)
    chosen = []
    for label in (0, 1):
        rows = np.flatnonzero(y == label)
        if len(rows) <= count:
            raise InputError(
                f"each class must have more than the {count:,} samples of the test part, got "
                f"{len(rows):,} of class {label}"
            )
        chosen.append(rng.permutation(rows)[:count])
    return np.sort(np.concatenate(chosen))


def _dogs_places(options: SourceOptions) -> list[Path]:
    return [options.data_folder / "dogs-vs-cats" / "train", options.data_folder / "train"]


def _dogs_folder(options: SourceOptions) -> Path | None:
    for place in _dogs_places(options):
        if place.is_dir() and any(
            re.match(r"(cat|dog)\.\d+\.jpg$", name) for name in os.listdir(place)
        ):
            return place
    return None


def _mask(rows: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    mask = np.zeros(n, dtype=np.bool_)
    mask[rows] = True
    return mask


def _existing(argument: str, options: SourceOptions) -> Path:
    if not argument:
        raise InputError("folder needs a path, as in folder:pictures, got none")
    given = Path(argument).expanduser()
    places = [given] if given.is_absolute() else [given, options.data_folder / given]
    for place in places:
        if place.is_dir():
            return place.resolve()
    looked = " or ".join(map(str, places))
    raise InputError(
        f"folder needs a folder with one sub-folder of images a class, found none at {looked}"
    )


def _images_by_class(base: Path) -> dict[str, list[Path]]:
    by_class = {}
    for sub in sorted(path for path in base.iterdir() if path.is_dir()):
        images = sorted(
            path
            for path in sub.rglob("*")
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
        )
        if images and not sub.name.startswith("."):
            by_class[sub.name] = images
    if len(by_class) < 2:
        raise InputError(
            f"{base} must have images in two sub-folders or more, one a class, got "
            f"{'only ' + repr(next(iter(by_class))) if by_class else 'none'}"
        )
    if {name.lower() for name in by_class} <= PARTS:
        raise InputError(
            f"the sub-folders of {base} must be classes, got {', '.join(by_class)}: name the one "
            f"to use, as in folder:{base / next(iter(by_class))}"
        )
    return by_class


def _positive(base: Path, counts: dict[str, int], options: SourceOptions) -> str:
    if options.positive is not None:
        if options.positive not in counts:
            raise InputError(
                f"the positive class must be one of {', '.join(counts)}, got "
                f"{options.positive!r}{did_you_mean(options.positive, counts)}"
            )
        return options.positive
    if len(counts) > 2:
        raise InputError(
            f"{base} has {len(counts)} classes, so the positive one must be named by --positive, "
            f"one of {', '.join(counts)}, got none"
        )
    return min(reversed(counts), key=lambda name: counts[name])  # of equal ones the last
