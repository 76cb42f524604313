"""The file of a store: tables, their versions, and opening it unharmed.

A file that is not a store, or a damaged one, is recognised through a connection that takes no
lock and leaves nothing beside it; only then is it opened in earnest.
"""

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from curvewise.base.errors import CurvewiseError, InputError
from curvewise.sweep.records import StoreError, checksum, damaged

APPLICATION_ID = 0x43757276  # "Curv", where SQLite files say whose they are
BUSY_SECONDS = 20.0
CHECKED_BYTES = 2**24  # files up to here are checked page by page on opening, in about 0.1 s

TABLES = (
    """CREATE TABLE sweeps (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, spec TEXT NOT NULL, created TEXT NOT NULL,
        UNIQUE (name, spec))""",
    # Labels are what scores of every run on the data are compared with, so they are here once.
    """CREATE TABLE problems (
        fingerprint TEXT PRIMARY KEY, about TEXT NOT NULL, about_sum INTEGER NOT NULL,
        n_test INTEGER NOT NULL, test BLOB NOT NULL, n_validation INTEGER, validation BLOB)""",
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
        task TEXT NOT NULL, label TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending'
            CHECK (state IN ('pending', 'done', 'diverged', 'failed')),
        attempts INTEGER NOT NULL DEFAULT 0, auc REAL, seconds REAL NOT NULL DEFAULT 0,
        plan TEXT NOT NULL, plan_sum INTEGER NOT NULL,
        outcome TEXT, outcome_sum INTEGER)""",
    # Whole in itself, so that a status never reads the wide rows of the table.
    "CREATE INDEX runs_summary ON runs (task, label, state, auc, seconds)",
    # Two sweeps may share a run, each under a label of its own.
    """CREATE TABLE membership (
        sweep INTEGER NOT NULL REFERENCES sweeps, position INTEGER NOT NULL,
        run INTEGER NOT NULL REFERENCES runs, label TEXT NOT NULL, number INTEGER NOT NULL,
        PRIMARY KEY (sweep, position), UNIQUE (sweep, run, label, number)) WITHOUT ROWID""",
    """CREATE TABLE scores (
        run INTEGER NOT NULL REFERENCES runs, part TEXT NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (run, part))""",
)
NAMES = {"sweeps", "problems", "runs", "membership", "scores"}

Migration = Callable[[sqlite3.Connection], None]


def _first_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)


def _sums_over_rows(connection: sqlite3.Connection) -> None:
    """Let checksums cover what a row holds beside its JSON; one that was wrong stays wrong."""
    connection.create_function("checksum", 2, checksum, deterministic=True)
    connection.execute(
        "UPDATE runs SET plan_sum = checksum(plan_sum, fingerprint), outcome_sum = "
        "CASE WHEN outcome_sum IS NOT NULL THEN checksum(outcome_sum, attempts) END"
    )
    connection.execute("ALTER TABLE sweeps ADD COLUMN spec_sum INTEGER")
    connection.execute("UPDATE sweeps SET spec_sum = checksum(checksum(0, spec), created)")


# What brings a file from the version before to this one. Each runs inside one transaction.
MIGRATIONS: dict[int, Migration] = {1: _first_tables, 2: _sums_over_rows}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite says about the file into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        if hasattr(error, "sqlite_errorcode"):
            raise _sentence(path, error) from error
        if isinstance(error, sqlite3.OperationalError):  # a text that is not UTF-8
            raise damaged(path, error) from error
        raise  # a mistake in how the module was called
    except UnicodeDecodeError as error:  # a message with a changed name in it
        raise damaged(path, error) from error


def _sentence(path: Path, error: sqlite3.Error) -> CurvewiseError:
    code = error.sqlite_errorcode & 0xFF
    renamed = code == sqlite3.SQLITE_ERROR and "no such" in str(error)  # a table or a column
    if renamed or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path, error)
    if code == sqlite3.SQLITE_FULL:
        return StoreError(
            f"the disk is full, so nothing more can be written to {path}; nothing recorded so far "
            f"is lost: free space and start again"
        )
    if code == sqlite3.SQLITE_READONLY:
        return StoreError(f"the store {path} must be writable, it can only be read")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"the store {path} is kept busy by another process: try again later")
    return StoreError(
        f"the store {path} cannot be used just now ({error}); nothing recorded so far is lost: "
        f"see to the disk and start again"
    )


def connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    """Open a store, made first if there is none and it may be written.

    Raises `InputError` for what is not a whole store, before anything is touched.
    """
    if not path.exists():
        if readonly:
            raise InputError(f"there is no store {path}")
        _create(path)
    _require_store(path)
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    if not (readonly or writable):
        raise StoreError(f"the store {path} must be writable, it can only be read")
    with explained(path):
        # A reader, too, opens for writing where it can: otherwise it leaves -wal and -shm behind.
        mode = "mode=rw" if writable else "mode=ro" if _has_log(path) else "immutable=1"
        connection = _opened(path, mode)
        try:
            # FULL: power loss takes no finished stack. One sync a stack, which took seconds to
            # train, costs nothing; a killed process loses nothing under any setting.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            if readonly:
                connection.execute("PRAGMA query_only = ON")
            require_known(path, version_of(connection))
        except BaseException:
            connection.close()
            raise
    return connection


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the tables."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def require_known(path: Path, version: int) -> None:
    """Raise unless this Curvewise knows the version, or one can be made from it."""
    latest = max(MIGRATIONS)
    if not 1 <= version <= latest:
        raise InputError(
            f"the store {path} must have a version from 1 to {latest}, got {version}"
            f"{': a newer Curvewise wrote it' if version > latest else ''}"
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables to the latest version: all the way, or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for version in range(version_of(connection) + 1, max(MIGRATIONS) + 1):
            MIGRATIONS[version](connection)
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
    )


def _has_log(path: Path) -> bool:
    """Tell whether commits wait beside the file: it is in use, or its writer was killed."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except OSError:
        return False


def _create(path: Path) -> None:
    """Make an empty store, which gets its name when it is complete."""
    if not path.parent.is_dir():
        raise InputError(f"the folder of a store must exist, got {path}")
    if not os.access(path.parent, os.W_OK):
        raise StoreError(f"the folder of a store must be writable, got {path}")
    part = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}.part")
    try:
        with explained(path), closing(sqlite3.connect(part, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            migrate(connection)
            # Readers and the writer do not wait for each other; kept in the file from here on.
            connection.execute("PRAGMA journal_mode = WAL")
        try:
            os.link(part, path)
        except FileExistsError:
            pass  # another process was quicker
        except OSError:  # a file system without links
            part.rename(path)
    except OSError as error:
        raise StoreError(f"the store {path} cannot be made: {error.strerror}") from error
    finally:
        for ending in ("", "-journal", "-wal", "-shm"):
            part.with_name(part.name + ending).unlink(missing_ok=True)


def _require_store(path: Path) -> None:
    """Raise `InputError` unless the file is a store, leaving no trace on the disk.

    The file is never opened other than by SQLite: closing any other descriptor would drop the
    locks that this process may hold on it.
    """
    if not path.is_file():
        raise InputError(f"a store must be a file, got {path}")
    before = path.stat()
    in_use = _has_log(path)
    try:
        with closing(_opened(path, "immutable=1")) as connection:
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                raise _foreign(path)
            require_known(path, version_of(connection))
            trouble = "" if in_use else _trouble(connection, before.st_size)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise _foreign(path) from None
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CANTOPEN:
            raise InputError(f"the store {path} must be readable, it cannot be opened") from None
        trouble = str(error)
    except UnicodeDecodeError as error:  # a message with a changed name in it
        trouble = str(error)
    # Beside a writer, pages may have been half-way between log and file: SQLite sorts that out.
    untouched = not (in_use or _has_log(path)) and path.stat().st_mtime_ns == before.st_mtime_ns
    if trouble and untouched:
        raise damaged(path, trouble)


def _trouble(connection: sqlite3.Connection, size: int) -> str:
    """Return what is wrong with the tables, as far as it is quickly seen."""
    missing = NAMES - {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if missing:
        return f"without {', '.join(sorted(missing))}"
    pages = connection.execute(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    )
    if pages.fetchone()[0] > size:
        return "cut short"
    if size > CHECKED_BYTES:
        return ""
    found = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return "" if found == "ok" else found


def _foreign(path: Path) -> InputError:
    return InputError(f"{path} must be a Curvewise store, it is another kind of file")
