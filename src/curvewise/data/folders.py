"""Images in folders: one sub-folder a class, and Kaggle's Dogs vs. Cats."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from curvewise.base.errors import InputError, require, require_choice
from curvewise.data.cache import image_task
from curvewise.data.image_files import is_image
from curvewise.data.imbalance import drawn_rows
from curvewise.data.task import SourceOptions, Task, split_rows

DOGS_PAGE = "https://www.kaggle.com/c/dogs-vs-cats/data"
DOGS_NAME = re.compile(r"(cat|dog)\.(\d+)\.jpg")
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
    base = options.find("folder:PATH", argument, "folder").resolve()
    by_class = _images_by_class(base)
    if options.positive is not None:
        positive = require_choice("--positive", options.positive, by_class)
    else:
        require(
            len(by_class) == 2,
            f"{base} has {len(by_class)} classes, so the positive one must be named by --positive, "
            f"one of {', '.join(by_class)}, got none",
        )
        positive = min(reversed(by_class), key=lambda name: len(by_class[name]))  # equal: the last
    others = [name for name in by_class if name != positive]
    table = pd.DataFrame(
        [(file, int(name == positive)) for name, files in by_class.items() for file in files],
        columns=["file", "label"],
    )
    _, test = split_rows(table["label"].to_numpy(), seed=options.seed)
    return image_task(
        f"folder:{base.name}",
        (others[0] if len(others) == 1 else "rest", positive),
        table.assign(test=table.index.isin(test)),
        options,
        image_size=96,
        source=f"images in the folder {base.name}",
    )


def _images_by_class(base: Path) -> dict[str, list[Path]]:
    by_class = {}
    for sub in sorted(path for path in base.iterdir() if path.is_dir()):
        images = sorted(path for path in sub.rglob("*") if is_image(path, path.parent))
        if images and not sub.name.startswith("."):
            by_class[sub.name] = images
    require(
        len(by_class) >= 2,
        f"{base} must have images in two sub-folders or more, one a class, got "
        f"{'only ' + repr(next(iter(by_class))) if by_class else 'none'}",
    )
    if {name.lower() for name in by_class} <= PARTS:
        raise InputError(
            f"the sub-folders of {base} must be classes, got {', '.join(by_class)}: name the one "
            f"to use, as in folder:{base / next(iter(by_class))}"
        )
    return by_class


def dogs_vs_cats(_: str, options: SourceOptions) -> Task:
    """Return Kaggle's Dogs vs. Cats from `train/cat.N.jpg` and `train/dog.N.jpg`; dog is class 1.

    The test part is 1,000 samples a class, chosen by seed.
    """
    files = dogs_vs_cats_files(options)
    labels = np.array([int(file.name.startswith("dog")) for file in files], np.int64)
    classes = [np.flatnonzero(labels == label) for label in (0, 1)]
    counts = {kind: f"{len(rows):,}" for kind, rows in zip(("cat", "dog"), classes, strict=True)}
    for label, rows in enumerate(classes):
        require(
            len(rows) > VALIDATION_SAMPLES,
            f"each class must have more than the {VALIDATION_SAMPLES:,} samples of the test part, "
            f"got {len(rows):,} of class {label}",
        )
    whole = f"{DOGS_COMPLETE:,}"
    deviations = [
        f"there are {count} {kind} images here, the complete source has {whole}"
        for kind, count in counts.items()
        if count != whole
    ]
    test = drawn_rows(classes, [VALIDATION_SAMPLES] * 2, options.seed)
    table = pd.DataFrame({"file": files, "label": labels})
    return image_task(
        "dogs-vs-cats",
        ("cat", "dog"),
        table.assign(test=table.index.isin(test)),
        options,
        image_size=96,
        source=f"Kaggle's Dogs vs. Cats ({DOGS_PAGE})",
        deviations=[*deviations, SMALLER_FIRST.format(size=options.image_size or 96)],
    )


def dogs_vs_cats_files(options: SourceOptions) -> list[Path]:
    """Return the images by kind and number, or raise with how to get them."""
    places = [options.data_folder / "dogs-vs-cats" / "train", options.data_folder / "train"]
    for place in places:
        matches = (DOGS_NAME.fullmatch(file.name) for file in place.glob("*.jpg"))
        numbered = sorted((match[1], int(match[2]), match[0]) for match in matches if match)
        if numbered:
            return [place / name for _, _, name in numbered]
    looked = " or ".join(str(place / "cat.0.jpg") for place in places)
    raise InputError(
        f"dogs-vs-cats needs Kaggle's training images, {looked} and so on: get train.zip from "
        f"{DOGS_PAGE} and unpack it there"
    )
