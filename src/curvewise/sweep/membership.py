"""Which runs a sweep has: those of the spec that was registered last under its name."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from curvewise.sweep.plan import PlannedRun
from curvewise.sweep.records import checksum, summed


def register(
    connection: sqlite3.Connection,
    name: str,
    spec: str,
    runs: Sequence[tuple[PlannedRun, str, str]],
) -> int:
    """Make (run, identity, fingerprint) the runs of a sweep; return its id.

    Runs that are known, of whatever sweep, are only linked. To be called inside a transaction.
    """
    sweep = _latest(connection, name, spec)
    connection.executemany(
        "INSERT OR IGNORE INTO runs (identity, fingerprint, task, label, plan, plan_sum) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (
            (identity, fingerprint, run.task, run.label, *summed(vars(run), fingerprint))
            for run, identity, fingerprint in runs
        ),
    )
    connection.execute("DELETE FROM membership WHERE sweep = ?", (sweep,))
    connection.executemany(
        "INSERT OR IGNORE INTO membership (sweep, position, run, label, number) "
        "SELECT ?, ?, id, ?, ? FROM runs WHERE identity = ?",
        (
            (sweep, position, run.label, run.number, identity)
            for position, (run, identity, _) in enumerate(runs)
        ),
    )
    return sweep


def now() -> str:
    """Return the time, ISO in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _latest(connection: sqlite3.Connection, name: str, spec: str) -> int:
    """Return the id of a name and spec, which becomes the highest of that name.

    The name stands for its highest id, so a spec that returns after another one gets a new id.
    """
    query = "SELECT id, spec FROM sweeps WHERE name = ? ORDER BY id"
    known = connection.execute(query, (name,)).fetchall()
    if known and known[-1][1] == spec:
        return int(known[-1][0])
    for sweep in [(sweep,) for sweep, text in known if text == spec]:
        connection.execute("DELETE FROM membership WHERE sweep = ?", sweep)
        connection.execute("DELETE FROM sweeps WHERE id = ?", sweep)
    created = now()
    added = connection.execute(
        "INSERT INTO sweeps (name, spec, created, spec_sum) VALUES (?, ?, ?, ?)",
        (name, spec, created, checksum(checksum(0, spec), created)),
    )
    assert added.lastrowid is not None
    return added.lastrowid
