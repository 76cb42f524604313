"""Versions of a store: older files are brought up to date, and what checksums cover."""

import sqlite3
import zlib
from pathlib import Path

import pytest
from test_schema import everything, filled

from curvewise.base.errors import InputError
from curvewise.sweep import schema
from curvewise.sweep.store import Store, StoreError
from curvewise.sweep.writer_lock import writer_lock


def add_note(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE runs ADD COLUMN note TEXT DEFAULT 'none'")
    connection.execute("UPDATE runs SET note = identity")


def columns_of(path: Path) -> tuple[int, bool]:
    connection = sqlite3.connect(path)
    names = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    return connection.execute("PRAGMA user_version").fetchone()[0], "note" in names


def as_first_version(path: Path) -> None:
    """Turn a store into what the first version wrote: sums of the JSON alone."""
    connection = sqlite3.connect(path)
    connection.create_function("crc32", 1, lambda text: zlib.crc32(text.encode()))
    connection.execute("UPDATE runs SET plan_sum = crc32(plan)")
    connection.execute("UPDATE runs SET outcome_sum = crc32(outcome) WHERE outcome IS NOT NULL")
    connection.execute("ALTER TABLE sweeps DROP COLUMN spec_sum")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("readonly", [True, False])
def test_a_file_of_the_first_version_is_brought_up_to_date(readonly, tmp_path):
    path = filled(tmp_path / "runs.db")
    expected = everything(path)
    as_first_version(path)
    assert everything(path, readonly) == expected
    assert columns_of(path) == (2, False)
    assert everything(path) == expected


def test_damage_is_still_damage_when_a_file_was_brought_up_to_date(tmp_path):
    path = filled(tmp_path / "runs.db")
    as_first_version(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE runs SET plan = replace(plan, '0.2', '0.3') WHERE id = 3")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="does not match its checksum"):
        everything(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET fingerprint = 'f1' WHERE id = 2",
        "UPDATE runs SET attempts = 0 WHERE id = 2",
        "UPDATE runs SET attempts = 1 WHERE state = 'pending'",
        "UPDATE sweeps SET created = '2020' || substr(created, 5)",
    ],
)
def test_what_stands_beside_the_json_of_a_row_is_summed_with_it(change, tmp_path):
    path = filled(tmp_path / "runs.db")
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="does not match its checksum"):
        everything(path)


def test_a_reader_waits_for_no_writer_of_an_older_file(tmp_path):
    path = filled(tmp_path / "runs.db")
    as_first_version(path)
    with writer_lock(path), pytest.raises(StoreError, match="brought to 2 before it is read: one"):
        Store(path, readonly=True)
    assert columns_of(path) == (1, False)


def test_a_migration_happens_all_the_way_or_not_at_all(tmp_path, monkeypatch):
    path = filled(tmp_path / "runs.db")
    expected = everything(path)

    def broken(connection: sqlite3.Connection) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(schema.MIGRATIONS, 3, add_note)
        patch.setitem(schema.MIGRATIONS, 4, broken)
        with pytest.raises(KeyboardInterrupt):
            Store(path)
    assert columns_of(path) == (2, False)
    assert everything(path) == expected
