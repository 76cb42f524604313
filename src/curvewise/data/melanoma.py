"""Melanoma against the rest: ISIC's 2019 and 2020 training images together.

The 2020 set is the SIIM-ISIC challenge's (Rotemberg et al. 2021, arXiv 2008.07360), with patients;
the 2019 set combines HAM10000 and BCN20000 and others (arXiv 1902.03368), with some lesions named.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from curvewise.base.errors import InputError, require
from curvewise.data.cache import image_task
from curvewise.data.image_files import SUFFIXES
from curvewise.data.reading import read_table
from curvewise.data.task import SourceOptions, Task, split_rows

PAGE = "https://challenge.isic-archive.com/data"
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


TABLE_2019 = "ISIC_2019_Training_GroundTruth.csv"
IMAGES_2019 = "ISIC_2019_Training_Input"
TABLES_2020 = (
    "train.csv",
    "ISIC_2020_Training_GroundTruth_v2.csv",
    "ISIC_2020_Training_GroundTruth.csv",
)
IMAGES_2020 = "ISIC_2020_Training_JPEG"
YEARS = (
    Year(
        year=2019,
        homes=("isic2019", "isic-2019", "2019", "jpeg-isic2019-*"),
        tables=(TABLE_2019, "train.csv"),
        shared_tables=(TABLE_2019,),
        image_folders=(IMAGES_2019, f"{IMAGES_2019}/{IMAGES_2019}", "train"),
        group_column="lesion_id",
        test_folds=(0, 5, 12, 16, 21, 29),
        complete=25_331,
    ),
    Year(
        year=2020,
        homes=(
            *("isic2020", "isic-2020", "2020"),
            *("siim-isic-melanoma-classification", "jpeg-melanoma-*"),
        ),
        tables=TABLES_2020,
        shared_tables=TABLES_2020,
        image_folders=("train", "jpeg/train", f"{IMAGES_2020}/train", IMAGES_2020),
        group_column="patient_id",
        test_folds=(3, 6, 8, 9),
        complete=33_126,
    ),
)


def melanoma(_: str, options: SourceOptions) -> Task:
    """Return ISIC 2019 and 2020 as one task, melanoma being class 1.

    Where a year's table has the column `tfrecord`, the paper's folds are its test part; else a
    fifth of it is, chosen by seed, with each patient (2020) or lesion (2019) on one side.
    """
    tables, notes = [], []
    for year, path in zip(YEARS, melanoma_files(options), strict=True):
        table, deviations = _read(year, path, options)
        tables.append(table)
        notes += deviations
    together = pd.concat(tables, ignore_index=True)
    if together["fixed"].all():  # no seed moves a file, so that both parts may be views of a cache
        together = together.sort_values("test", kind="stable")
    return image_task(
        "melanoma",
        ("benign", "melanoma"),
        together,
        options,
        image_size=256,
        source=f"ISIC 2019 and ISIC 2020 training images ({PAGE})",
        deviations=[*notes, CACHED_SMALLER],
    )


def melanoma_files(options: SourceOptions) -> list[Path]:
    """Return the table of each year, or raise with how to get them."""
    tables = [_table(year, options.data_folder) for year in YEARS]
    looked = " and ".join(
        f"{options.data_folder / year.homes[0] / year.tables[0]} with its images in "
        f"{year.image_folders[0]} beside it"
        for year, table in zip(YEARS, tables, strict=True)
        if table is None
    )
    require(not looked, f"melanoma needs {looked}, not found: get them from {PAGE}")
    return [table for table in tables if table is not None]


def _table(year: Year, data_folder: Path) -> Path | None:
    for base in (data_folder / "melanoma", data_folder):
        homes = [home for pattern in year.homes for home in sorted(base.glob(pattern))]
        places = [home / name for home in homes for name in year.tables]
        for place in (*places, *(base / name for name in year.shared_tables)):
            if place.is_file():
                return place
    return None


def _read(year: Year, path: Path, options: SourceOptions) -> tuple[pd.DataFrame, list[str]]:
    """Return one year's images as `image_task` takes them, and how they differ from the paper's.

    The column `fixed` says whether their split is the paper's.
    """
    columns = _columns(path, "target")
    names, target = columns["image_name"], columns["target"]
    if repeated := sorted(names[names.duplicated()]):
        raise InputError(f"{path} must name each image once, got {repeated[0]!r} twice")
    if wrong := [value for value in target.unique() if value not in (0, 1)]:
        raise InputError(f"the labels in {path} must be 0 or 1, got {wrong[0]!r}")
    table = pd.DataFrame(
        {
            "file": _files(year, path, names),
            "label": target.astype(np.int64),
            "group": _groups(year, path, columns),
            "fixed": "tfrecord" in columns,
        }
    )
    deviations = []
    if len(table) != year.complete:
        complete = f"the complete source {year.complete:,}"
        deviations.append(f"ISIC {year.year} has {len(table):,} images here, {complete}")
    if "tfrecord" not in columns:
        _, rows = split_rows(
            table["label"].to_numpy(), seed=options.seed, groups=table["group"].to_numpy(str)
        )
        deviations.append(
            f"ISIC {year.year} is split by {year.group_column} and seed {options.seed}, for its "
            f"table has no column tfrecord"
        )
        return table.assign(test=table.index.isin(rows)), deviations
    table["test"] = columns["tfrecord"].isin(year.test_folds)
    # Fold -1 marks copies of other pictures. The paper trains on them, which is harmless unless
    # their patient is one to be tested on.
    tested = table["group"].isin(table["group"][table["test"]])
    leaking = ~(columns["tfrecord"] >= 0) & tested
    if leaking.any():
        deviations.append(
            f"{int(leaking.sum()):,} images of ISIC {year.year} without a fold are left out: "
            f"their {year.group_column} is in the test part"
        )
    table = table[~leaking]
    sides = table.groupby("group")["test"].nunique()
    if torn := int((sides == 2).sum()):
        deviations.append(
            f"the folds of ISIC {year.year} put {torn:,} of {len(sides):,} "
            f"{year.group_column} values on both sides"
        )
    return table, deviations


def _columns(path: Path, wanted: str) -> pd.DataFrame:
    """Return a table with the names that the columns have in 2020, one of them `wanted`."""
    columns = read_table(path).reset_index(drop=True)
    columns = columns.rename(columns={"image": "image_name", "MEL": "target"})
    for name in ("image_name", wanted):
        held = ", ".join(columns.columns[:12])
        require(name in columns, f"{path} must have a column {name!r}, got {held}")
    return columns.astype({"image_name": str})


def _files(year: Year, table: Path, names: pd.Series) -> list[Path]:
    """Return the image file of every name."""
    places = [table.parent / folder for folder in year.image_folders]
    for place in places:
        files = {file.stem: file for file in place.glob("*") if file.suffix.lower() in SUFFIXES}
        lacking = [name for name in names if name not in files]
        if len(lacking) == len(names):
            continue
        if lacking:
            raise InputError(
                f"every image of {table} must be in {place}, got none for {len(lacking):,} of "
                f"{len(names):,}, such as {lacking[0]}.jpg: get the images from {PAGE}"
            )
        return [files[name] for name in names]
    raise InputError(
        f"the images of {table} must be in one of {', '.join(map(str, places))}, found none: get "
        f"them from {PAGE}"
    )


def _groups(year: Year, table: Path, columns: pd.DataFrame) -> list[str]:
    """Return whom each image belongs to; an image that belongs to nobody known is on its own."""
    column, owners = year.group_column, columns
    metadata = table.with_name(f"ISIC_{year.year}_Training_Metadata.csv")
    if column not in columns and metadata.is_file():
        owners = _columns(metadata, column)
    # Missing cells are nan, and resized copies of the 2019 set have -1 for every patient.
    known = {
        name: f"{year.year} {column} {owner}"
        for name, owner in zip(owners["image_name"], owners.get(column, []), strict=False)
        if not pd.isna(owner) and str(owner) not in ("", "-1")
    }
    return [known.get(name, f"{year.year} image {name}") for name in columns["image_name"]]
