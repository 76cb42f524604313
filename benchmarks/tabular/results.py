"""The store of measured cells: one SQLite file, a commit a cell, so that a killed run goes on."""

import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from benchmarks.tabular.measures import Cell, Measured, revision

MEASURES = (
    *("auc", "tpr_at_1", "tpr_at_10", "brier", "calibration_error"),
    *("fit_seconds", "predict_seconds"),
)
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS cells (
    dataset TEXT NOT NULL, fold INTEGER NOT NULL, method TEXT NOT NULL,
    {", ".join(f"{name} REAL" for name in MEASURES)},
    y BLOB NOT NULL, score BLOB NOT NULL, revision TEXT NOT NULL, measured_at TEXT NOT NULL,
    PRIMARY KEY (dataset, fold, method)
)
"""


class Results:
    """Measured cells in a file; several runs may write to it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=60)
        self._connection.execute(SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add(self, measured: Measured) -> None:
        """Keep a cell, in place of what there was of it."""
        values = (
            *measured.cell,
            *(getattr(measured, name) for name in MEASURES),
            measured.y.astype("<i1").tobytes(),
            measured.score.astype("<f8").tobytes(),
            revision(),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        places = ", ".join("?" * len(values))
        with self._connection:
            self._connection.execute(f"INSERT OR REPLACE INTO cells VALUES ({places})", values)

    def done(self) -> set[Cell]:
        """Return the cells that are there."""
        rows = self._connection.execute("SELECT dataset, fold, method FROM cells")
        return {Cell(*row) for row in rows}

    def forget(self, cells: Iterable[Cell]) -> int:
        """Remove cells; return how many were there."""
        with self._connection:
            removed = self._connection.executemany(
                "DELETE FROM cells WHERE dataset = ? AND fold = ? AND method = ?", cells
            )
        return removed.rowcount

    def frame(self, datasets: Iterable[str]) -> pd.DataFrame:
        """Return the cells of these data sets, a row each, `y` and `score` as arrays."""
        frame = pd.read_sql("SELECT * FROM cells", self._connection)
        frame = frame[frame["dataset"].isin(list(datasets))].reset_index(drop=True)
        frame["y"] = [np.frombuffer(blob, "<i1").astype(np.int64) for blob in frame["y"]]
        frame["score"] = [np.frombuffer(blob, "<f8") for blob in frame["score"]]
        return frame
