"""`export`: the records of a store as one table, CSV or Parquet, for other programs.

One row a run. Settings and metrics have columns of their own names (`omega`, `auc`); parts of the
recipe, network, features, lambda of evaluation and versions have theirs (`recipe.rho`).
"""

import csv
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any

from curvewise.base.errors import InputError, require_choice
from curvewise.base.files import whole_file
from curvewise.sweep.store import Record, Store, StoreError

ENDINGS = (".csv", ".parquet")
ROWS = 5000  # of a chunk: what is in memory at a time
RECORD = (
    "identity",
    "fingerprint",
    "state",
    "attempts",
    "seconds",
    "finished",
    "machine",
    "message",
)
RUN = ("task", "beta", "seed", "label", "method", "number", "validation")
PLAIN = ("", "settings", "metrics")  # groups whose columns have plain names, if nothing else has
GROUPS = (*PLAIN, "recipe", "network", "features", "evaluate", "versions")

Cell = bool | int | float | str | None
Key = tuple[str, str]  # group and name
Row = dict[Key, Cell]
Columns = dict[Key, tuple[str, type]]  # title and type of what is in the column


def export(
    store: Store, path: str | Path, sweep: int | str | None = None, *, overwrite: bool = False
) -> int:
    """Write all runs, or those of a sweep, and return their number.

    The ending of the path decides: .csv, or .parquet, which needs pyarrow. The file appears when
    it is complete; one that exists is kept unless `overwrite`.
    """
    target = Path(path)
    ending = require_choice("the ending of the exported file", target.suffix.lower(), ENDINGS)
    _require_free(target, overwrite)
    write = _write_csv if ending == ".csv" else _parquet_writer(target)
    try:
        # Two readings: the first finds the columns, the second writes.
        with whole_file(target) as unfinished, store.snapshot():
            columns = _columns(_rows(store, sweep))
            count = write(unfinished, columns, _rows(store, sweep))
            _require_free(target, overwrite)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from error
    return count


def _require_free(target: Path, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise InputError(f"the folder of the exported file must exist, got {target}")
    if target.is_dir():
        raise InputError(f"the exported file must not be a folder, got {target}")
    if target.exists() and not overwrite:
        raise InputError(f"{target} exists: choose another name, or give --overwrite")


def _rows(store: Store, sweep: int | str | None) -> Iterator[Row]:
    return map(_row, store.runs(sweep))


def _row(record: Record) -> Row:
    run = record.run
    row = {("", name): _cell(getattr(record, name)) for name in RECORD}
    row |= {("", name): _cell(getattr(run, name)) for name in RUN}
    for group in GROUPS[1:]:
        values = getattr(record if group in ("metrics", "versions") else run, group) or {}
        row |= {(group, name): _cell(value) for name, value in values.items()}
    return row


def _cell(value: Any) -> Cell:
    """Return a value that fits one cell: nothing for nan, JSON for lists."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return json.dumps(value)


def _columns(rows: Iterator[Row]) -> Columns:
    """Return the columns of all rows together, group by group, each as first met."""
    types: defaultdict[Key, set[type]] = defaultdict(set)
    for row in rows:
        for key, cell in row.items():
            types[key].add(type(cell))
    if not types:
        raise InputError("an export must have one run or more, the store holds none")
    used = Counter(name for group, name in types if group in PLAIN)
    ordered = sorted(types, key=lambda key: GROUPS.index(key[0]))
    return {key: (_title(key, used), _common_type(types[key] - {NoneType})) for key in ordered}


def _title(key: Key, used: Mapping[str, int]) -> str:
    group, name = key
    return name if group == "" or (group in PLAIN and used[name] == 1) else f"{group}.{name}"


def _common_type(types: set[type]) -> type:
    """Return the type that holds all: tau is a number in one run and a density in another."""
    if types <= {int, float}:
        return int if types == {int} else float
    return bool if types == {bool} else str


def _write_csv(path: Path, columns: Columns, rows: Iterator[Row]) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(title for title, _ in columns.values())
        for row in rows:  # Python writes floats so that reading gives the same number
            writer.writerow(row.get(key) for key in columns)
            count += 1
    return count


def _parquet_writer(target: Path) -> Callable[[Path, Columns, Iterator[Row]], int]:
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(
            f"{target.name} needs pyarrow to be written: pip install pyarrow, or choose .csv"
        ) from None
    kinds = {int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_(), str: arrow.string()}

    def write(path: Path, columns: Columns, rows: Iterator[Row]) -> int:
        count = 0
        schema = arrow.schema([(title, kinds[kind]) for title, kind in columns.values()])
        with parquet.ParquetWriter(path, schema) as writer:
            while chunk := list(islice(rows, ROWS)):
                cells = [
                    [None if row.get(key) is None else kind(row[key]) for row in chunk]
                    for key, (_, kind) in columns.items()
                ]
                writer.write_table(arrow.table(cells, schema=schema))
                count += len(chunk)
        return count

    return write
