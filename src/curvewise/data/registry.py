"""The sources by name: `load_task("cifar10:cat/dog", beta=100)`, and what is there."""

from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError, did_you_mean, require, require_number
from curvewise.data.task import Progress, SourceOptions, Task

# Settings that not every source takes.
COLUMNS, POSITIVE, IMAGES = ("target", "positive", "group"), ("positive",), ("image_size",)
LIMITED = COLUMNS + IMAGES


@dataclass(frozen=True)
class Source:
    """Where a source lives: `module.NAME(argument, options)` returns its task.

    Where `module.NAME_files(options)` is defined, it raises an `InputError` that says how to get
    the data if they are not there. `takes` are those of the `LIMITED` settings that it heeds.
    """

    module: str
    example: str
    what: str
    takes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What stands before the colon."""
        return self.example.partition(":")[0]

    def function(self, ending: str = "") -> Any:
        """Return `module.NAME`, with an ending, None if there is none; imported only now."""
        module = import_module(f"curvewise.data.{self.module}")
        return getattr(module, self.name.replace("-", "_") + ending, None)


ALL = (
    Source("tables", "digits:8", "8 x 8 handwritten digits, one against the rest"),
    Source("tables", "table:FILE", "a CSV, TSV or Parquet file with --target COLUMN", COLUMNS),
    Source("tables", "npz:FILE", "arrays x_train, y_train, x_test, y_test, or x and y", POSITIVE),
    Source("folders", "folder:PATH", "images, one sub-folder a class", POSITIVE + IMAGES),
    Source("cifar", "cifar10:cat/dog", "two classes, or cifar10:animal/vehicle"),
    Source("cifar", "cifar100:household", "furniture and electronics, or a pair"),
    Source("fashion", "fashion-mnist:t-shirt/shirt", "28 x 28 clothes, a pair"),
    Source("folders", "dogs-vs-cats", "photographs from Kaggle", IMAGES),
    Source("melanoma", "melanoma", "skin lesions of ISIC 2019 and 2020", IMAGES),
    Source("tables", "keel:yeast4", "small imbalanced tables of the KEEL repository", POSITIVE),
    Source("tables", "openml:1590", "a table of openml.org by number, downloaded", COLUMNS),
)
SOURCES = {source.name: source for source in ALL}


def load_task(
    source: str,
    *,
    beta: float | None = None,
    seed: int = 0,
    data_dir: str | PathLike[str] | None = None,
    cache_dir: str | PathLike[str] | None = None,
    image_size: int | None = None,
    target: str | None = None,
    positive: str | None = None,
    group: str | None = None,
    progress: Progress | None = None,
) -> Task:
    """Return the task that "name" or "name:argument" stands for.

    `seed` splits where a source has no split of its own. `beta` thins class 1 of the training
    part, with the same seed; the test part stays whole, and so does what a table's encoder was
    fitted on. Files are looked for in `data_dir`, else where CURVEWISE_DATA points, else in the
    folder `data`.

    >>> load_task("digits:8", beta=100).class_counts
    (811, 8)
    """
    if beta is not None:
        require_number("beta", beta, 1)  # before a long read, not after it
    name, _, argument = str(source).partition(":")
    if name not in SOURCES:
        kind = Path(source).exists() and source_of(Path(source))
        near = f"; did you mean '{kind}:{source}'?" if kind else did_you_mean(name, SOURCES)
        raise InputError(f"a data source must be one of {', '.join(SOURCES)}, got {name!r}{near}")
    options = SourceOptions(
        data_dir, cache_dir, seed, image_size, target, positive, group, progress
    )
    chosen = SOURCES[name]
    for setting in LIMITED:
        if (value := getattr(options, setting)) is not None and setting not in chosen.takes:
            option = setting.replace("_", "-")
            raise InputError(f"{name} must be read without --{option}, got {str(value)!r}")
    require(
        not argument or ":" in chosen.example,
        f"{name} takes nothing after its name, got {argument!r}",
    )
    task: Task = chosen.function()(argument, options)
    return task if beta is None else task.at_beta(beta, seed=seed)


def source_of(path: Path) -> str:
    """Return the source that reads such a file or folder: table, npz, folder, or "" for none."""
    from curvewise.data.reading import ENDINGS

    if path.is_dir():
        return "folder"
    endings = {".npz": "npz", **dict.fromkeys(ENDINGS, "table")}
    return endings.get(Path(path.name.removesuffix(".gz")).suffix.lower(), "")


def source_missing(name: str, data_dir: str | PathLike[str] | None = None) -> str | None:
    """Return how to get the data of a source, or None if they are there.

    >>> source_missing("digits")
    """
    if (files := SOURCES[name].function("_files")) is not None:
        try:
            files(SourceOptions(data_dir=data_dir))
        except InputError as error:
            return str(error)
    return None
