"""Melanoma against the rest: ISIC's 2019 and 2020 training images together.

The 2020 set is the SIIM-ISIC challenge's (Rotemberg et al. 2021, arXiv 2008.07360), with patients;
the 2019 set combines HAM10000 and BCN20000 and others (arXiv 1902.03368), with some lesions named.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.data.image_files import ImageFiles
from curvewise.data.options import SourceOptions
from curvewise.data.picture import SUFFIXES
from curvewise.data.task import Task, split_rows

PAGE = "https://challenge.isic-archive.com/data"
TEST_FRACTION = 0.2
CACHED_SMALLER = "images are resized once and cropped from that, the paper's code crops larger ones"


@dataclass(frozen=True)
class Year:
    """Where one year's table and images may be, and how its table names things."""

    year: int
    homes: tuple[str, ...]  # patterns of folders under the data folder, nearest name first
    tables: tuple[str, ...]
    shared_tables: tuple[str, ...]  # names clear enough to be taken from the data folder itself
    image_folders: tuple[str, ...]
    group_column: str
    test_folds: tuple[int, ...]  # of the column `tfrecord`
    complete: int


YEARS = (
    Year(
        year=2019,
        homes=("isic2019", "isic-2019", "2019", "jpeg-isic2019-*"),
        tables=("ISIC_2019_Training_GroundTruth.csv", "train.csv"),
        shared_tables=("ISIC_2019_Training_GroundTruth.csv",),
        image_folders=(
            "ISIC_2019_Training_Input",
            "ISIC_2019_Training_Input/ISIC_2019_Training_Input",
            "train",
        ),
        group_column="lesion_id",
        test_folds=(0, 5, 12, 16, 21, 29),
        complete=25_331,
    ),
    Year(
        year=2020,
        homes=(
            "isic2020",
            "isic-2020",
            "2020",
            "siim-isic-melanoma-classification",
            "jpeg-melanoma-*",
        ),
        tables=(
            "train.csv",
            "ISIC_2020_Training_GroundTruth_v2.csv",
            "ISIC_2020_Training_GroundTruth.csv",
        ),
        shared_tables=(
            "train.csv",
            "ISIC_2020_Training_GroundTruth_v2.csv",
            "ISIC_2020_Training_GroundTruth.csv",
        ),
        image_folders=(
            "train",
            "jpeg/train",
            "ISIC_2020_Training_JPEG/train",
            "ISIC_2020_Training_JPEG",
        ),
        group_column="patient_id",
        test_folds=(3, 6, 8, 9),
        complete=33_126,
    ),
)


def melanoma(argument: str, options: SourceOptions) -> Task:
    """Return ISIC 2019 and 2020 as one task, melanoma being class 1.

    Where a year's table has the column `tfrecord`, the paper's folds are its test part; else a
    fifth of it is, chosen by seed, with each patient (2020) or lesion (2019) on one side.
    """
    options.refuse("melanoma", "target", "positive", "group")
    if argument:
        raise InputError(f"melanoma takes nothing after its name, got {argument!r}")
    if reason := missing_melanoma(options):
        raise InputError(reason)
    parts = [_read(year, options) for year in YEARS]
    together = ImageFiles(
        files=[file for part, _ in parts for file in part.files],
        labels=np.concatenate([part.labels for part, _ in parts]),
        test=np.concatenate([part.test for part, _ in parts]),
        groups=np.concatenate([part.groups for part, _ in parts if part.groups is not None]),
        fixed_split=all(part.fixed_split for part, _ in parts),
    )
    return together.task(
        "melanoma",
        ("benign", "melanoma"),
        options,
        image_size=256,
        source=f"ISIC 2019 and ISIC 2020 training images ({PAGE})",
        deviations=[*(text for _, texts in parts for text in texts), CACHED_SMALLER],
    )


def missing_melanoma(options: SourceOptions) -> str | None:
    """Return None if both years' tables are there, else a sentence on how to get them."""
    lacking = [year for year in YEARS if _table(year, options) is None]
    if not lacking:
        return None
    looked = " and ".join(
        f"{options.data_folder / year.homes[0] / year.tables[0]} with its images in "
        f"{year.image_folders[0]} beside it"
        for year in lacking
    )
    return f"melanoma needs {looked}, not found: get them from {PAGE}"


def _homes(year: Year, options: SourceOptions) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield folders to look into, with the names of tables to look for."""
    for base in (options.data_folder / "melanoma", options.data_folder):
        for pattern in year.homes:
            for home in sorted(base.glob(pattern)):
                yield home, year.tables
        yield base, year.shared_tables


def _table(year: Year, options: SourceOptions) -> Path | None:
    places = (home / name for home, names in _homes(year, options) for name in names)
    return next((place for place in places if place.is_file()), None)


def _read(year: Year, options: SourceOptions) -> tuple[ImageFiles, list[str]]:
    """Return one year's files, labels, split and groups, and how they differ from the paper's."""
    table = _table(year, options)
    assert table is not None
    frame = _frame(table)
    names = _column(table, frame, "image_name", "image").astype(str)
    if repeated := sorted(names[names.duplicated()]):
        raise InputError(f"{table} must name each image once, got {repeated[0]!r} twice")
    target = _column(table, frame, "target", "MEL")
    if wrong := [value for value in target.unique() if value not in (0, 1)]:
        raise InputError(f"the labels in {table} must be 0 or 1, got {wrong[0]!r}")
    labels = target.to_numpy().astype(np.int64)
    files = _files(year, table, names.tolist())
    groups = _groups(year, table, frame, names.to_numpy(dtype=str))
    deviations = []
    if len(files) != year.complete:
        deviations.append(
            f"ISIC {year.year} has {len(files):,} images here, the complete source "
            f"{year.complete:,}"
        )
    if "tfrecord" not in frame.columns:
        _, rows = split_rows(labels, TEST_FRACTION, seed=options.seed, groups=groups)
        test = np.isin(np.arange(len(labels)), rows)
        deviations.append(
            f"ISIC {year.year} is split by {year.group_column} and seed {options.seed}, for its "
            f"table has no column tfrecord"
        )
        return ImageFiles(files, labels, test, groups), deviations
    folds = frame["tfrecord"].fillna(-1).to_numpy()
    test = np.isin(folds, year.test_folds)
    # Fold -1 marks copies of other pictures. The paper trains on them, which is harmless unless
    # their patient is one to be tested on.
    leaking = (folds < 0) & np.isin(groups, groups[test])
    if leaking.any():
        deviations.append(
            f"{int(leaking.sum()):,} images of ISIC {year.year} without a fold are left out: "
            f"their {year.group_column} is in the test part"
        )
    keep = np.flatnonzero(~leaking)
    files, labels, test, groups = [files[i] for i in keep], labels[keep], test[keep], groups[keep]
    if torn := len(np.intersect1d(groups[test], groups[~test])):
        deviations.append(
            f"the folds of ISIC {year.year} put {torn:,} of {len(np.unique(groups)):,} "
            f"{year.group_column} values on both sides"
        )
    return ImageFiles(files, labels, test, groups, fixed_split=True), deviations


def _frame(table: Path) -> Any:
    import pandas as pd  # heavy, and only this source and tables need it

    try:
        return pd.read_csv(table, low_memory=False)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise InputError(
            f"{table} must be a CSV table, got one that fails to load: {error}"
        ) from None


def _column(table: Path, frame: Any, *names: str) -> Any:
    for name in names:
        if name in frame.columns:
            return frame[name]
    raise InputError(
        f"{table} must have a column {' or '.join(map(repr, names))}, got "
        f"{', '.join(map(str, frame.columns[:12]))}"
    )


def _files(year: Year, table: Path, names: list[str]) -> list[Path]:
    """Return the image file of every name."""
    places = [table.parent / folder for folder in year.image_folders]
    for place in filter(Path.is_dir, places):
        stems = {
            os.path.splitext(entry)[0]: entry
            for entry in os.listdir(place)
            if os.path.splitext(entry)[1].lower() in SUFFIXES
        }
        if not any(name in stems for name in names):
            continue
        if lacking := [name for name in names if name not in stems]:
            raise InputError(
                f"every image of {table} must be in {place}, got none for {len(lacking):,} of "
                f"{len(names):,}, such as {lacking[0]}.jpg: get the images from {PAGE}"
            )
        return [place / stems[name] for name in names]
    raise InputError(
        f"the images of {table} must be in one of {', '.join(map(str, places))}, found none: get "
        f"them from {PAGE}"
    )


def _groups(year: Year, table: Path, frame: Any, names: NDArray[Any]) -> NDArray[Any]:
    """Return whom each image belongs to; an image that belongs to nobody known is on its own."""
    column = year.group_column
    metadata = table.with_name(f"ISIC_{year.year}_Training_Metadata.csv")
    owner_of: dict[str, Any] = {}
    if column in frame.columns:
        owner_of = dict(zip(names, frame[column], strict=True))
    elif metadata.is_file():
        other = _frame(metadata)
        images = _column(metadata, other, "image", "image_name").astype(str)
        owner_of = dict(zip(images, _column(metadata, other, column), strict=True))
    owners = (owner_of.get(name) for name in names)
    return np.array(
        [
            f"{year.year} image {name}" if _unknown(owner) else f"{year.year} {column} {owner}"
            for name, owner in zip(names, owners, strict=True)
        ]
    )


def _unknown(owner: Any) -> bool:
    # Missing cells are nan, and resized copies of the 2019 set have -1 for every patient.
    return owner is None or owner != owner or str(owner) in ("", "-1")
