"""The file of a store: its tables and what lies in them, opening it unharmed, one writer at a time.

A file that is not a store, or a damaged one, is recognised through a connection that takes no
lock and leaves nothing beside it; only then is it opened in earnest.
"""

import json
import math
import os
import socket
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import CurvewiseError, InputError, require, require_choice, require_shape
from curvewise.base.files import whole_file
from curvewise.sweep.plan import Result, State

APPLICATION_ID = 0x43757276  # "Curv", where SQLite files say whose they are
VERSION = 3  # all versions so far have these tables; up to 2, the sums of rows meant something
BUSY_SECONDS = 20.0
CHECKED_BYTES = 2**24  # files up to here are checked page by page on opening, in about 0.1 s

# The columns *_sum are 0 or nothing since version 3.
TABLES = """
    CREATE TABLE sweeps (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, spec TEXT NOT NULL, created TEXT NOT NULL,
        UNIQUE (name, spec));
    -- Labels are what scores of every run on the data are compared with, so they are here once.
    CREATE TABLE problems (
        fingerprint TEXT PRIMARY KEY, about TEXT NOT NULL, about_sum INTEGER NOT NULL,
        n_test INTEGER NOT NULL, test BLOB NOT NULL, n_validation INTEGER, validation BLOB);
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
        task TEXT NOT NULL, label TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending'
            CHECK (state IN ('pending', 'done', 'diverged', 'failed')),
        attempts INTEGER NOT NULL DEFAULT 0, auc REAL, seconds REAL NOT NULL DEFAULT 0,
        plan TEXT NOT NULL, plan_sum INTEGER NOT NULL,
        outcome TEXT, outcome_sum INTEGER);
    -- Whole in itself, so that a status never reads the wide rows of the table.
    CREATE INDEX runs_summary ON runs (task, label, state, auc, seconds);
    -- Two sweeps may share a run, each under a label of its own.
    CREATE TABLE membership (
        sweep INTEGER NOT NULL REFERENCES sweeps, position INTEGER NOT NULL,
        run INTEGER NOT NULL REFERENCES runs, label TEXT NOT NULL, number INTEGER NOT NULL,
        PRIMARY KEY (sweep, position), UNIQUE (sweep, run, label, number)) WITHOUT ROWID;
    CREATE TABLE scores (
        run INTEGER NOT NULL REFERENCES runs, part TEXT NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (run, part));
"""
FINAL = ("done", "diverged")  # training again would give the same
NAMES = {"sweeps", "problems", "runs", "membership", "scores"}

READONLY = "the store {path} must be writable, it can only be read"
SENTENCES = {
    sqlite3.SQLITE_FULL: "the disk is full, so nothing more can be written to {path}; nothing "
    "recorded so far is lost: free space and start again",
    sqlite3.SQLITE_READONLY: READONLY,
    sqlite3.SQLITE_BUSY: "the store {path} is kept busy by another process: try again later",
}
OTHER = (
    "the store {path} cannot be used just now ({error}); nothing recorded so far is lost: "
    "see to the disk and start again"
)


class StoreError(CurvewiseError):
    """The disk, the permissions or another process keep a store from being used."""


def damaged(path: Path, what: object) -> InputError:
    """Return the error for a file whose content cannot be what was written."""
    reason = " ".join(str(what).split())  # SQLite's words may have several lines
    return InputError(
        f"{path} must be a whole Curvewise store, got a damaged one ({reason}); bring back a "
        "copy of it, or give another name to start anew"
    )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite says about the file into one sentence."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a mistake in how the module was called
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = _code(error)
        renamed = code == sqlite3.SQLITE_ERROR and "no such" in str(error)  # a table or a column
        if renamed or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise damaged(path, error) from error
        raise StoreError(SENTENCES.get(code, OTHER).format(path=path, error=error)) from error


def _code(error: Exception) -> int:
    # What has no code is a text that is not UTF-8, in a row or, with a changed name, in a message.
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF


def connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    """Open a store, made first if there is none and it may be written.

    Raises `InputError` for what is not a whole store, before anything is touched.
    """
    if not path.exists():
        require(not readonly, f"there is no store {path}")
        _create(path)
    _require_store(path)
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    if not (readonly or writable):
        raise StoreError(READONLY.format(path=path))
    with explained(path):
        # A reader, too, opens for writing where it can: otherwise it leaves -wal and -shm behind.
        mode = "mode=rw" if writable else "mode=ro" if _has_log(path) else "immutable=1"
        connection = _opened(path, mode)
        # FULL: power loss takes no finished stack. One sync a stack, which took seconds to
        # train, costs nothing; a killed process loses nothing under any setting.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if readonly:
            connection.execute("PRAGMA query_only = ON")
        return connection


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
    require(path.parent.is_dir(), f"the folder of a store must exist, got {path}")
    try:
        with writer_lock(path), explained(path):
            if path.exists():  # another process was quicker
                return
            with whole_file(path) as unfinished, closing(sqlite3.connect(unfinished)) as connection:
                connection.executescript(
                    f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
                    # Readers and the writer do not wait for each other; so from here on.
                    f"BEGIN; {TABLES} COMMIT; PRAGMA journal_mode = WAL"
                )
    except OSError as error:
        raise StoreError(f"the store {path} cannot be made: {error.strerror}") from error


def _require_store(path: Path) -> None:
    """Raise `InputError` unless the file is a store, leaving no trace on the disk.

    The file is never opened other than by SQLite: closing any other descriptor would drop the
    locks that this process may hold on it.
    """
    require(path.is_file(), f"a store must be a file, got {path}")
    foreign = InputError(f"{path} must be a Curvewise store, it is another kind of file")
    before, in_use = path.stat(), _has_log(path)
    try:
        with closing(_opened(path, "immutable=1")) as connection:
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                raise foreign
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if not 1 <= version <= VERSION:
                raise InputError(
                    f"the store {path} must have a version from 1 to {VERSION}, got {version}"
                    f"{': a newer Curvewise wrote it' if version > VERSION else ''}"
                )
            trouble = "" if in_use else _trouble(connection, before.st_size)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # of a changed name in a message
        if _code(error) == sqlite3.SQLITE_NOTADB:
            raise foreign from None
        if _code(error) == sqlite3.SQLITE_CANTOPEN:
            raise InputError(f"the store {path} must be readable, it cannot be opened") from None
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
    finding = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return "" if finding == "ok" else finding


@contextmanager
def writer_lock(store: Path) -> Iterator[None]:
    """Hold the one permission to write, which the kernel takes back when the process ends.

    The file `STORE.lock` stays: were it removed, two processes could hold locks of one name.
    """
    import fcntl  # here, so that stores can be read where there is no flock

    try:
        descriptor = os.open(f"{store}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StoreError(f"the store {store} must be writable: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace") or "another process"
            raise StoreError(
                f"one process at a time may write to {store}, it is held by {holder}: wait until "
                "that has ended, or stop it"
            ) from None
        holder = f"process {os.getpid()} on {socket.gethostname()} since {now()}"
        with suppress(OSError):  # a full disk: the lock holds, its message says less
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.encode(), 0)
        yield
    finally:
        os.close(descriptor)


def latest_sweep(connection: sqlite3.Connection, name: str, spec: str) -> int:
    """Return the id of a name and spec, which becomes the highest of that name.

    The name stands for its highest id, so a spec that returns after another one gets a new id.
    """
    query = "SELECT id, spec FROM sweeps WHERE name = ? ORDER BY id DESC"
    latest = connection.execute(query, (name,)).fetchone()
    if latest and latest[1] == spec:
        return int(latest[0])
    same = "SELECT id FROM sweeps WHERE name = ? AND spec = ?"
    connection.execute(f"DELETE FROM membership WHERE sweep IN ({same})", (name, spec))
    query = "REPLACE INTO sweeps (name, spec, created) VALUES (?, ?, ?)"
    return connection.execute(query, (name, spec, now())).lastrowid or 0


def write_result(connection: sqlite3.Connection, result: Result, about: Mapping[str, Any]) -> bool:
    """Write what a planned run gave, within a transaction; tell whether it was new."""
    require_choice("state", result.state, get_args(State))
    planned = connection.execute(
        "SELECT r.id, r.state, p.n_test, p.n_validation "
        "FROM runs r LEFT JOIN problems p USING (fingerprint) WHERE r.identity = ?",
        (result.identity,),
    ).fetchone()
    require(planned, f"a result must be of a planned run, got {result.identity!r}")
    run, state, n_test, n_validation = planned
    if state in FINAL:
        return False
    metrics = {name: plain(float(value)) for name, value in result.metrics.items()}
    outcome: dict[str, Any] = {"state": result.state, "message": result.message}
    outcome |= {"metrics": metrics, "seconds": float(result.seconds), **about}
    connection.execute(
        "UPDATE runs SET state = ?, attempts = attempts + 1, auc = ?, seconds = ?, outcome = ? "
        "WHERE id = ?",
        (result.state, metrics.get("auc"), result.seconds, json.dumps(outcome), run),
    )
    connection.execute("DELETE FROM scores WHERE run = ?", (run,))
    kept = result.validation_scores
    for part, scores, n in (("test", result.scores, n_test), ("validation", kept, n_validation)):
        if scores is not None:
            require_shape(f"{part} scores", scores, "n" if n is None else n)
            row = (run, part, packed(scores, "<f4"))
            connection.execute("INSERT INTO scores VALUES (?, ?, ?)", row)
    return True


def packed(array: NDArray[Any], kind: str) -> bytes:
    """Compress an array (n,), all first bytes first: 0.85 of float32 scores, 0.90 as they are."""
    array = np.ascontiguousarray(array, dtype=kind)
    return zlib.compress(array.view(np.uint8).reshape(-1, array.itemsize).T.tobytes(), 6)


def unpacked(data: bytes, kind: str) -> NDArray[Any]:
    """Return the array (n,) that `packed` compressed; zlib notices a changed one."""
    wanted = np.dtype(kind)
    planes = np.frombuffer(zlib.decompress(data), np.uint8).reshape(wanted.itemsize, -1)
    array = np.ascontiguousarray(planes.T).view(wanted)[:, 0]
    return array.astype(wanted.newbyteorder("="), copy=False)


def now() -> str:
    """Return the time, ISO in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def plain(value: float) -> float | str | None:
    """Return a number as JSON can hold it."""
    return None if math.isnan(value) else str(value) if math.isinf(value) else value


def number_of(value: float | str | None) -> float:
    """Return a number that `plain` made ready."""
    return math.nan if value is None else float(value)
