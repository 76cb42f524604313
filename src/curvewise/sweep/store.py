"""`Store`: the planned runs of sweeps and what became of them, in one SQLite file.

Several processes may read while one writes. What a stack gave is recorded in one transaction, so
a killed process leaves all of it or nothing; a finished run is never written again.

>>> import tempfile
>>> with Store(Path(tempfile.mkdtemp()) / "runs.db") as store:
...     store.sweeps()
[]
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean, require_choice
from curvewise.sweep import schema
from curvewise.sweep.membership import now, register
from curvewise.sweep.plan import PlannedRun, Problem, Result, State
from curvewise.sweep.recording import FINAL, write_result
from curvewise.sweep.records import (
    KnownProblem,
    Record,
    StatusRow,
    StoreError,
    Sweep,
    damaged,
    number_of,
    packed,
    read_summed,
    summed,
    unpacked,
)
from curvewise.sweep.writer_lock import writer_lock

__all__ = ["KnownProblem", "Record", "StatusRow", "Store", "StoreError", "Sweep"]

Part = Literal["test", "validation"]
STATES = ("pending", *get_args(State))

# What a `Record` is made of, and where from: all runs (r), or those of one sweep (m).
COLUMNS = (
    "r.identity, r.fingerprint, r.state, r.attempts, r.plan, r.plan_sum, r.outcome, r.outcome_sum"
)
ALL_RUNS = "FROM runs r WHERE TRUE"
OF_SWEEP = "FROM membership m CROSS JOIN runs r ON r.id = m.run WHERE m.sweep = ?"


class Store:
    """A store, to be used in a `with` block; made if there is none, unless `readonly`.

    A sweep is named by the id that `add_sweep` returns, or by its name, which stands for the
    latest sweep of that name.
    """

    def __init__(self, path: str | Path, readonly: bool = False) -> None:
        self.path = Path(path).resolve()
        self.readonly = readonly
        self._writing = False
        self._connection = schema.connect(self.path, readonly=readonly)
        try:
            self._bring_up_to_date()
        except BaseException:
            self.close()
            raise

    def _bring_up_to_date(self) -> None:
        version, latest = schema.version_of(self._connection), max(schema.MIGRATIONS)
        if version == latest:
            return
        if self.readonly:  # by a connection of its own: this one cannot write
            try:
                Store(self.path).close()
            except StoreError as error:
                raise StoreError(
                    f"the store {self.path} has version {version} and must be brought to {latest} "
                    f"before it is read: {error}"
                ) from None
            return
        with self.writing(), schema.explained(self.path):
            schema.migrate(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        self._connection.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes from writing; `StoreError` names the one that does.

        Every method that writes takes this for itself; a sweep keeps it as long as it runs, so
        that no other trains the same runs.
        """
        if self.readonly:
            raise StoreError(f"the store {self.path} must be opened for writing")
        if self._writing:
            yield
            return
        with writer_lock(self.path):
            self._writing = True
            try:
                yield
            finally:
                self._writing = False

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reading in the block see one moment, whatever is recorded meanwhile."""
        with schema.explained(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.rollback()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self.writing(), schema.explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise

    def add_sweep(
        self, name: str, spec: Mapping[str, Any], runs: Sequence[tuple[PlannedRun, str, str]]
    ) -> int:
        """Register a sweep of (run, identity, fingerprint) and return its id.

        The same name and spec are the same sweep, which then consists of these runs: if the data
        or the numerical version have changed, so have the identities. Known runs are only linked.
        The name stands for the spec that was registered last, also where an earlier one returns.
        """
        if not runs:
            raise InputError(f"a sweep must have one run or more, {name!r} has none")
        text = json.dumps(spec, allow_nan=False)
        with self._transaction() as connection:
            return register(connection, name, text, runs)

    def add_problem(self, problem: Problem, task: str, beta: float | None, seed: int) -> None:
        """Keep the labels, class names and class counts of a problem; once is enough."""
        counts = np.bincount(problem.y_train, minlength=len(problem.class_names)).tolist()
        about = KnownProblem(task, beta, seed, tuple(problem.class_names), tuple(counts))
        kept = problem.y_validation
        row = (
            problem.fingerprint,
            *summed(asdict(about)),
            len(problem.y_test),
            packed(problem.y_test, "<i8"),
            None if kept is None else len(kept),
            None if kept is None else packed(kept, "<i8"),
        )
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO problems VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def record(self, results: Sequence[Result], machine: str, versions: Mapping[str, str]) -> int:
        """Write down what a stack gave, all of it or nothing; return how many runs are new.

        Runs that are done or diverged stay as they are: the same identity is the same result.
        """
        about = {"machine": machine, "versions": dict(versions), "finished": now()}
        with self._transaction() as connection:
            return sum(write_result(connection, result, about) for result in results)

    def missing(self, sweep: int | str) -> list[str]:
        """Return the identities that are neither done nor diverged, in the order of the sweep."""
        rows = self._rows(
            f"SELECT r.identity {OF_SWEEP} AND r.state NOT IN (?, ?) ORDER BY m.position",
            (self._sweep_id(sweep), *FINAL),
        )
        return list(dict.fromkeys(row[0] for row in rows))

    def finished(self, identities: Sequence[str]) -> set[str]:
        """Return those of the identities that are done or diverged, of whatever sweep."""
        known = self._rows("SELECT identity FROM runs WHERE state IN (?, ?)", FINAL)
        return {identity for (identity,) in known} & set(identities)

    def sweeps(self) -> list[Sweep]:
        """Return the registered sweeps, oldest first; of one name, the last is the one in force."""
        rows = self._rows(
            "SELECT id, name, created, (SELECT COUNT(*) FROM membership WHERE sweep = id), "
            "spec, spec_sum FROM sweeps ORDER BY id"
        )
        return [
            Sweep(id, name, read_summed(self.path, spec, total, created), created, runs)
            for id, name, created, runs, spec, total in rows
        ]

    def run(self, identity: str) -> Record:
        """Return one run by its identity."""
        rows = self._rows(
            f"SELECT {COLUMNS}, r.label, NULL {ALL_RUNS} AND r.identity = ?", (identity,)
        )
        for row in rows:
            return self._record_of(row)
        raise InputError(f"{self.path} must hold the run that is asked for, got {identity!r}")

    def runs(
        self,
        sweep: int | str | None = None,
        label: str | None = None,
        task: str | None = None,
        state: str | None = None,
    ) -> Iterator[Record]:
        """Yield runs one by one, in the order of the sweep, or that in which they were added.

        With a sweep, labels are those that it gives its runs.
        """
        if state is not None:
            require_choice("state", state, STATES)
        alias, order, source, values = self._source(sweep)
        wanted = {f"{alias}.label": label, "r.task": task, "r.state": state}
        wanted = {column: value for column, value in wanted.items() if value is not None}
        rows = self._rows(
            f"SELECT {COLUMNS}, {alias}.label, {'m.number' if alias == 'm' else 'NULL'} {source} "
            f"{''.join(f'AND {column} = ? ' for column in wanted)} ORDER BY {order}",
            (*values, *wanted.values()),
        )
        return map(self._record_of, rows)

    def status(self, sweep: int | str | None = None, *, by_task: bool = True) -> list[StatusRow]:
        """Return counts, AUC and seconds per task and label, or per label alone."""
        alias, order, source, values = self._source(sweep)
        task = "r.task" if by_task else "NULL"
        counts = ", ".join(f"SUM(r.state = '{state}')" for state in STATES)
        auc = "CASE WHEN r.state = 'done' THEN r.auc END"
        rows = self._rows(
            f"SELECT {task}, {alias}.label, {counts}, AVG({auc}), MIN({auc}), MAX({auc}), "
            f"SUM(r.seconds) {source} GROUP BY {task}, {alias}.label ORDER BY MIN({order})",
            values,
        )
        return [_status_row(row) for row in rows]

    def scores(self, identity: str, part: Part = "test") -> NDArray[np.float32]:
        """Return the scores (n,) of a run on the test or validation part."""
        require_choice("part", part, get_args(Part))
        rows = self._rows(
            "SELECT s.data FROM runs r JOIN scores s ON s.run = r.id "
            "WHERE r.identity = ? AND s.part = ?",
            (identity, part),
        )
        for (data,) in rows:
            return unpacked(self.path, data, "<f4").astype(np.float32, copy=False)
        record = self.run(identity)
        raise InputError(
            f"run {identity} must have {part} scores, it has none and its state is {record.state}"
        )

    def score_matrix(self, identities: Sequence[str], part: Part = "test") -> NDArray[np.float32]:
        """Return the scores (K, n) of K runs on the same data."""
        if not identities:
            raise InputError("a score matrix must have one run or more, got none")
        rows = [self.scores(identity, part) for identity in identities]
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise InputError(f"the runs must have one number of {part} scores, got {lengths}")
        return np.stack(rows)

    def problem(self, fingerprint: str) -> KnownProblem:
        """Return what is known of the data with a fingerprint."""
        row = self._problem_row("about, about_sum", fingerprint)
        known = read_summed(self.path, *row)
        names, counts = tuple(known.pop("class_names")), tuple(known.pop("class_counts"))
        return KnownProblem(**known, class_names=names, class_counts=counts)

    def labels(self, fingerprint: str, part: Part = "test") -> NDArray[np.int64]:
        """Return the labels (n,) of the test or validation part of a problem."""
        require_choice("part", part, get_args(Part))
        (data,) = self._problem_row(part, fingerprint)
        if data is None:
            raise InputError(f"the data {fingerprint} must have a {part} part, they have none")
        return unpacked(self.path, data, "<i8").astype(np.int64, copy=False)

    def _problem_row(self, columns: str, fingerprint: str) -> Any:
        query = f"SELECT {columns} FROM problems WHERE fingerprint = ?"
        for row in self._rows(query, (fingerprint,)):
            return row
        raise InputError(f"{self.path} must hold the data asked for, got {fingerprint!r}")

    def _rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        with schema.explained(self.path):
            # `yield from` would close the cursor of an abandoned reading, maybe after the store.
            for row in self._connection.execute(query, values):  # noqa: UP028
                yield row

    def _source(self, sweep: int | str | None) -> tuple[str, str, str, tuple[int, ...]]:
        """Return the table that labels come from, the order, the FROM clause and its values."""
        if sweep is None:
            return "r", "r.id", ALL_RUNS, ()
        return "m", "m.position", OF_SWEEP, (self._sweep_id(sweep),)

    def _sweep_id(self, sweep: int | str) -> int:
        known = list(self._rows("SELECT id, name FROM sweeps ORDER BY id"))
        found = [id for id, name in known if sweep in (id, name)]
        if not found:
            names = list(dict.fromkeys(name for _, name in known))
            raise InputError(
                f"sweep must be one of {', '.join(map(repr, names)) or 'none yet'} in {self.path}, "
                f"got {sweep!r}{did_you_mean(sweep, names)}"
            )
        return int(found[-1])

    def _record_of(self, row: Sequence[Any]) -> Record:
        identity, fingerprint, state, attempts, plan, plan_sum, outcome, outcome_sum = row[:8]
        label, number = row[8:]
        run = PlannedRun(**read_summed(self.path, plan, plan_sum, fingerprint))
        run = replace(run, label=label, number=run.number if number is None else number)
        if outcome is None and (state, attempts) == ("pending", 0):
            return Record(identity, fingerprint, run, state, 0, {}, 0.0)
        about = read_summed(self.path, outcome, outcome_sum, attempts)
        if about.pop("state") != state:
            raise damaged(self.path, f"run {identity} has two states")
        metrics = {name: number_of(value) for name, value in about.pop("metrics").items()}
        return Record(identity, fingerprint, run, state, attempts, metrics, **about)


def _status_row(row: Sequence[Any]) -> StatusRow:
    task, label, pending, done, diverged, failed, *numbers = row
    return StatusRow(task, label, pending, done, diverged, failed, *map(number_of, numbers))
