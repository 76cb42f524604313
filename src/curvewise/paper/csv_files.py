"""Rows of plain data as CSV files, read back as they were: numbers, texts and nothing."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError

DIGITS = 7  # significant ones of a number in a file; what is shown has fewer


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows under the names of the first; all must have the same."""
    if not rows:
        raise InputError(f"{path.name} must have at least one row, got none")
    columns = list(rows[0])
    for row in rows:
        if set(row) != set(columns):
            raise InputError(f"rows of {path.name} must have {columns}, got {list(row)}")
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_text(row[name]) for name in columns] for row in rows)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read what `write_rows` wrote."""
    with path.open(newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def rounded(data: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return rows as they would be read back from their files.

    >>> rounded({"areas": [{"task": "a", "auc": 2 / 3, "beta": None}]})
    {'areas': [{'task': 'a', 'auc': 0.6666667, 'beta': None}]}
    """
    return {
        name: [{key: _value(_text(value)) for key, value in row.items()} for row in rows]
        for name, rows in data.items()
    }


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | str | int):
        return str(value)
    number = float(value)
    return (
        str(int(number)) if number.is_integer() and abs(number) < 1e15 else f"{number:.{DIGITS}g}"
    )


def _value(text: str) -> Any:
    """Return a number, True, False or None where the text is one, else the text."""
    plain = {"": None, "True": True, "False": False}
    if text in plain:
        return plain[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
