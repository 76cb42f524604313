"""The sources by name: `load_task("cifar10:cat/dog", beta=100)`, and what is there."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError, did_you_mean, require_number
from curvewise.data.options import Progress, SourceOptions
from curvewise.data.task import Task

DATA_VARIABLE = "CURVEWISE_DATA"


@dataclass(frozen=True)
class Source:
    """Where a source lives: `module.function(argument, options)` returns its task."""

    name: str
    module: str
    example: str
    what: str

    @property
    def function(self) -> str:
        """The name as Python writes it."""
        return self.name.replace("-", "_")

    def load(self, argument: str, options: SourceOptions) -> Task:
        """Return the task; the module is imported only now."""
        task = self._attribute(self.function)(argument, options)
        assert isinstance(task, Task)
        return task

    def missing(self, options: SourceOptions) -> str | None:
        """Return None if its data are there, else how to get them."""
        reason: str | None = self._attribute(f"missing_{self.function}", lambda _: None)(options)
        return reason

    def _attribute(self, name: str, *default: Callable[..., Any]) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(
            import_module(f"curvewise.data.{self.module}"), name, *default
        )
        return found


SOURCES = {
    source.name: source
    for source in (
        Source("digits", "embedded", "digits:8", "8 x 8 handwritten digits, one against the rest"),
        Source("table", "tables", "table:FILE", "a CSV, TSV or Parquet file with --target COLUMN"),
        Source("npz", "npz", "npz:FILE", "arrays x_train, y_train, x_test, y_test, or x and y"),
        Source("folder", "folders", "folder:PATH", "images, one sub-folder a class"),
        Source("cifar10", "cifar", "cifar10:cat/dog", "two classes, or cifar10:animal/vehicle"),
        Source("cifar100", "cifar", "cifar100:household", "furniture and electronics, or a pair"),
        Source(
            "fashion-mnist", "fashion", "fashion-mnist:t-shirt/shirt", "28 x 28 clothes, a pair"
        ),
        Source("dogs-vs-cats", "folders", "dogs-vs-cats", "photographs from Kaggle"),
        Source("melanoma", "melanoma", "melanoma", "skin lesions of ISIC 2019 and 2020"),
        Source("keel", "keel", "keel:yeast4", "small imbalanced tables of the KEEL repository"),
        Source("openml", "openml", "openml:1590", "a table of openml.org by number, downloaded"),
    )
}


@dataclass(frozen=True)
class SourceInfo:
    """A line of the list of sources; `missing` says how to get one that is not there."""

    name: str
    example: str
    what: str
    missing: str | None


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
        raise InputError(
            f"a data source must be one of {', '.join(SOURCES)}, got {name!r}"
            f"{_as_source(str(source)) or did_you_mean(name, SOURCES)}"
        )
    options = SourceOptions(
        data_dir=_data_dir(data_dir),
        cache_dir=None if cache_dir is None else Path(cache_dir),
        seed=seed,
        image_size=image_size,
        target=target,
        positive=positive,
        group=group,
        progress=progress,
    )
    task = SOURCES[name].load(argument, options)
    return task if beta is None else task.at_beta(beta, seed=seed)


def _as_source(given: str) -> str:
    """Return a hint for a path that lacks the name of its source before it."""
    from curvewise.data.tables import ENDINGS

    path = Path(given)
    kinds = {".npz": "npz", **dict.fromkeys(ENDINGS, "table")}
    kind = "folder" if path.is_dir() else kinds.get(path.suffix.lower())
    return f"; did you mean '{kind}:{given}'?" if kind and path.exists() else ""


def list_sources(
    *,
    data_dir: str | PathLike[str] | None = None,
    cache_dir: str | PathLike[str] | None = None,
) -> list[SourceInfo]:
    """Return every source, with how to get the data of those that are not there.

    >>> [source.example for source in list_sources() if source.name == "digits"]
    ['digits:8']
    """
    options = SourceOptions(
        data_dir=_data_dir(data_dir), cache_dir=None if cache_dir is None else Path(cache_dir)
    )
    return [
        SourceInfo(source.name, source.example, source.what, source.missing(options))
        for source in SOURCES.values()
    ]


def _data_dir(given: str | PathLike[str] | None) -> Path | None:
    folder = given or os.environ.get(DATA_VARIABLE)
    return Path(folder).expanduser() if folder else None
