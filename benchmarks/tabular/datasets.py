"""The 62 KEEL tables with at least 10 negatives a positive, their base sets, halves and folds.

Many are variants of one base set and share its rows, so 62 results are not 62 observations: the
base set is the block of every test and rank, and the halves are divided by base set, alternately in
alphabetical order. Methods are developed on the first half; the other is for one final table.

`python -m benchmarks.tabular.datasets` lists them.
"""

import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import RepeatedStratifiedKFold

from curvewise.base.errors import InputError, did_you_mean
from curvewise.data.reading import binary_labels
from curvewise.data.tables import find_keel, read_keel
from curvewise.data.task import SourceOptions

LEAST_RATIO = 10
FOLDS, REPEATS = 5, 3
HALVES = ("dev", "test")

BASES: dict[str, tuple[str, ...]] = {
    "abalone": (
        *("abalone-17_vs_7-8-9-10", "abalone-19_vs_10-11-12-13", "abalone-20_vs_8-9-10"),
        *("abalone-21_vs_8", "abalone-3_vs_11", "abalone19", "abalone9-18"),
    ),
    "car": ("car-good", "car-vgood"),
    "cleveland": ("cleveland-0_vs_4",),
    "dermatology": ("dermatology-6",),
    "ecoli": (
        *("ecoli-0-1-3-7_vs_2-6", "ecoli-0-1-4-6_vs_5", "ecoli-0-1-4-7_vs_2-3-5-6"),
        *("ecoli-0-1-4-7_vs_5-6", "ecoli-0-1_vs_5", "ecoli-0-6-7_vs_5", "ecoli4"),
    ),
    "flare": ("flare-F",),
    "glass": (
        *("glass-0-1-4-6_vs_2", "glass-0-1-6_vs_2", "glass-0-1-6_vs_5", "glass-0-6_vs_5"),
        *("glass2", "glass4", "glass5"),
    ),
    "kddcup": (
        *("kddcup-buffer_overflow_vs_back", "kddcup-guess_passwd_vs_satan"),
        *("kddcup-land_vs_portsweep", "kddcup-land_vs_satan", "kddcup-rootkit-imap_vs_back"),
    ),
    "kr-vs-k": (
        *("kr-vs-k-one_vs_fifteen", "kr-vs-k-three_vs_eleven", "kr-vs-k-zero-one_vs_draw"),
        *("kr-vs-k-zero_vs_eight", "kr-vs-k-zero_vs_fifteen"),
    ),
    "led7digit": ("led7digit-0-2-4-5-6-7-8-9_vs_1",),
    "lymphography": ("lymphography-normal-fibrosis",),
    "page-blocks": ("page-blocks-1-3_vs_4",),
    "poker": ("poker-8-9_vs_5", "poker-8-9_vs_6", "poker-8_vs_6", "poker-9_vs_7"),
    "shuttle": ("shuttle-2_vs_5", "shuttle-6_vs_2-3", "shuttle-c0-vs-c4", "shuttle-c2-vs-c4"),
    "winequality": (
        *("winequality-red-3_vs_5", "winequality-red-4", "winequality-red-8_vs_6"),
        *("winequality-red-8_vs_6-7", "winequality-white-3-9_vs_5"),
        *("winequality-white-3_vs_7", "winequality-white-9_vs_4"),
    ),
    "yeast": (
        *("yeast-1-2-8-9_vs_7", "yeast-1-4-5-8_vs_7", "yeast-1_vs_7", "yeast-2_vs_8"),
        *("yeast4", "yeast5", "yeast6"),
    ),
    "zoo": ("zoo-3",),
}
BASE_OF = {name: base for base, names in BASES.items() for name in names}


@dataclass(frozen=True)
class Dataset:
    """Columns as they are (numbers and categories, with gaps), labels 0 and 1 (the rare class)."""

    name: str
    base: str
    x: pd.DataFrame
    y: NDArray[np.int64]

    @property
    def positives(self) -> int:
        """Rows of the rare class."""
        return int(self.y.sum())

    @property
    def ratio(self) -> float:
        """Negatives for each positive."""
        return (len(self.y) - self.positives) / self.positives


@cache
def load(name: str) -> Dataset:
    """Read one of the 62 tables; columns of words are categories, all others numbers."""
    if name not in BASE_OF:
        raise InputError(f"unknown data set {name!r}{did_you_mean(name, BASE_OF)}")
    frame, target = read_keel(find_keel(f"imbalanced/{name}", SourceOptions()))
    y, _ = binary_labels(frame[target], None, f"the class of {name}")
    return Dataset(name, BASE_OF[name], frame.drop(columns=target), y)


def bases_of_half(half: str) -> list[str]:
    """Return every other base set, from the first ("dev") or from the second ("test")."""
    if half not in HALVES:
        raise InputError(f"half must be dev or test, got {half!r}")
    return sorted(BASES)[HALVES.index(half) :: 2]


def names_of_half(half: str) -> list[str]:
    """Return the data sets of a half, base set by base set."""
    return [name for base in bases_of_half(half) for name in BASES[base]]


def choose(half: str, names: list[str] | None) -> list[str]:
    """Return the named data sets, which must be of the half, or all of it."""
    there = names_of_half(half)
    for name in names or []:
        if name not in there:
            other = f", it is in the {BASE_OF[name]} block of the other" if name in BASE_OF else ""
            raise InputError(
                f"{name!r} must be a set of the {half} half{other or did_you_mean(name, there)}"
            )
    return [name for name in there if not names or name in names]


def seed_of(*parts: object) -> int:
    """Return a seed that depends on nothing but these words and numbers.

    >>> seed_of("zoo-3", 0, 1) == seed_of("zoo-3", 0, 1) != seed_of("zoo-3", 1, 0)
    True
    """
    return zlib.crc32("/".join(map(str, parts)).encode())


def folds(dataset: Dataset) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return (train, test) rows of 3 x 5 stratified folds, repeat after repeat, by name alone.

    With fewer than 5 positives there are as many folds as positives, so that each test part has
    one and each training part two; the 62 have at least 5, and so 1 in test and 4 in training.
    """
    if dataset.positives < 3:
        raise InputError(f"{dataset.name} must have 3 positives or more, got {dataset.positives}")
    splits = RepeatedStratifiedKFold(
        n_splits=min(FOLDS, dataset.positives),
        n_repeats=REPEATS,
        random_state=seed_of(dataset.name),
    )
    return list(splits.split(dataset.y, dataset.y))


def table() -> str:
    """Return the data sets as Markdown: half, base set, rows, columns, positives, ratio."""
    lines = [
        "| half | base set | data set | rows | columns | categories | gaps | positives | ratio |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for half in HALVES:
        for one in map(load, names_of_half(half)):
            words = one.x.select_dtypes(exclude="number").shape[1]
            lines.append(
                f"| {half} | {one.base} | {one.name} | {len(one.x)} | {one.x.shape[1]} | {words} "
                f"| {int(one.x.isna().sum().sum())} | {one.positives} | {one.ratio:.1f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
