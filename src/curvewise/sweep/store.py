"""`Store`: the planned runs of sweeps and what became of them, in one SQLite file.

Several processes may read while one writes. What a stack gave is recorded in one transaction, so
a killed process leaves all of it or nothing; a finished run is never written again.

>>> import tempfile
>>> with Store(Path(tempfile.mkdtemp()) / "runs.db") as store:
...     store.sweeps()
[]
"""

import json
import math
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean, require, require_choice
from curvewise.sweep.plan import PlannedRun, Problem, Result, State
from curvewise.sweep.store_file import (
    FINAL,
    VERSION,
    StoreError,
    connect,
    damaged,
    explained,
    latest_sweep,
    now,
    number_of,
    packed,
    unpacked,
    write_result,
    writer_lock,
)

__all__ = ["KnownProblem", "Record", "Store", "StoreError", "Sweep"]

Made = TypeVar("Made")
Part = Literal["test", "validation"]
STATES = ("pending", *get_args(State))

STATUS = ("task", "label", *STATES, "mean_auc", "min_auc", "max_auc", "seconds")


@dataclass(frozen=True)
class Sweep:
    """A registered sweep: its spec as plain data, and how many runs it has."""

    id: int
    name: str
    spec: dict[str, Any]
    created: str
    runs: int


@dataclass(frozen=True)
class KnownProblem:
    """What a store keeps of a problem; `Store.labels` has the labels."""

    task: str
    beta: float | None
    seed: int
    class_names: list[str]
    class_counts: list[int]


@dataclass(frozen=True)
class Record:
    """A run and what became of it, without its scores.

    `state` is "pending", "done", "diverged" or "failed", `finished` an ISO time in UTC.
    """

    identity: str
    fingerprint: str
    run: PlannedRun
    state: str
    attempts: int
    metrics: dict[str, float]
    seconds: float
    message: str = ""
    machine: str = ""
    versions: dict[str, str] | None = None
    finished: str | None = None

    @property
    def auc(self) -> float:
        """Area under the ROC curve on the test part, nan if there is none."""
        return self.metrics.get("auc", math.nan)


class Store(AbstractContextManager["Store"]):
    """A store, to be used in a `with` block; made if there is none, unless `readonly`.

    A sweep is named by the id that `add_sweep` returns, or by its name, which stands for the
    latest sweep of that name.
    """

    def __init__(self, path: str | Path, readonly: bool = False) -> None:
        self.path = Path(path).resolve()
        self.readonly = readonly
        self._writing = False
        self._connection = connect(self.path, readonly=readonly)

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
        with nullcontext() if self._writing else writer_lock(self.path):
            before, self._writing = self._writing, True
            try:
                yield
            finally:
                self._writing = before

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self.writing(), explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:  # which commits, or rolls back
                yield self._connection

    def add_sweep(
        self, name: str, spec: Mapping[str, Any], runs: Sequence[tuple[PlannedRun, str, str]]
    ) -> int:
        """Register a sweep of (run, identity, fingerprint) and return its id.

        The same name and spec are the same sweep, which then consists of these runs: if the data
        or the numerical version have changed, so have the identities. Known runs are only linked.
        The name stands for the spec that was registered last, also where an earlier one returns.
        """
        require(runs, f"a sweep must have one run or more, {name!r} has none")
        with self._transaction() as connection:
            connection.execute(f"PRAGMA user_version = {VERSION}")
            sweep = latest_sweep(connection, name, json.dumps(spec, allow_nan=False))
            connection.execute("DELETE FROM membership WHERE sweep = ?", (sweep,))
            for position, (run, identity, fingerprint) in enumerate(runs):
                connection.execute(
                    "INSERT OR IGNORE INTO runs (identity, fingerprint, task, label, plan, "
                    "plan_sum) VALUES (?, ?, ?, ?, ?, 0)",
                    (identity, fingerprint, run.task, run.label, json.dumps(vars(run))),
                )
                connection.execute(
                    "INSERT OR IGNORE INTO membership (sweep, position, run, label, number) "
                    "SELECT ?, ?, id, ?, ? FROM runs WHERE identity = ?",
                    (sweep, position, run.label, run.number, identity),
                )
        return sweep

    def add_problem(self, problem: Problem, task: str, beta: float | None, seed: int) -> None:
        """Keep the labels, class names and class counts of a problem; once is enough."""
        counts = np.bincount(problem.y_train, minlength=len(problem.class_names)).tolist()
        about = KnownProblem(task, beta, seed, list(problem.class_names), counts)
        row: list[Any] = [problem.fingerprint, json.dumps(vars(about), allow_nan=False)]
        for y in (problem.y_test, problem.y_validation):
            row += (None, None) if y is None else (len(y), packed(y, "<i8"))
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO problems VALUES (?, ?, 0, ?, ?, ?, ?)", row)

    def record(self, results: Sequence[Result], machine: str, versions: Mapping[str, str]) -> int:
        """Write down what a stack gave, all of it or nothing; return how many runs are new.

        Runs that are done or diverged stay as they are: the same identity is the same result.
        """
        about = {"machine": machine, "versions": dict(versions), "finished": now()}
        with self._transaction() as connection:
            return sum(write_result(connection, result, about) for result in results)

    def finished(self, identities: Iterable[str]) -> set[str]:
        """Return those of the identities that are done or diverged, of whatever sweep."""
        known = self._rows("SELECT identity FROM runs WHERE state IN (?, ?)", FINAL, str)
        return set(known) & set(identities)

    def sweeps(self) -> list[Sweep]:
        """Return the registered sweeps, oldest first; of one name, the last is the one in force."""
        rows = self._rows(
            "SELECT id, name, spec, created, (SELECT COUNT(*) FROM membership WHERE sweep = id) "
            "FROM sweeps ORDER BY id",
            (),
            lambda id, name, spec, *rest: Sweep(id, name, json.loads(spec), *rest),
        )
        return list(rows)

    def run(self, identity: str) -> Record:
        """Return one run by its identity."""
        for record in self.runs(identity=identity):
            return record
        raise InputError(f"{self.path} must hold the run that is asked for, got {identity!r}")

    def runs(
        self,
        sweep: int | str | None = None,
        *,
        task: str | None = None,
        state: str | None = None,
        identity: str | None = None,
    ) -> Iterator[Record]:
        """Yield runs one by one, in the order of the sweep, or that in which they were added.

        With a sweep, labels are those that it gives its runs.
        """
        require_choice("state", state or "pending", STATES)
        alias, order, source = self._source(sweep)
        wanted = {"task": task, "state": state, "identity": identity}
        wanted = {column: value for column, value in wanted.items() if value is not None}
        return self._rows(
            "SELECT r.identity, r.fingerprint, r.state, r.attempts, r.plan, r.outcome, "
            f"{alias}.label, {'m.number' if alias == 'm' else 'NULL'} {source} "
            f"{''.join(f'AND r.{column} = ? ' for column in wanted)} ORDER BY {order}",
            tuple(wanted.values()),
            _record,
        )

    def status(
        self, sweep: int | str | None = None, *, by_task: bool = True
    ) -> list[dict[str, Any]]:
        """Return per task and label, or per label alone, what `STATUS` names.

        That is counts of runs by state, AUC of those done, nan if none is, and seconds in all.
        """
        alias, order, source = self._source(sweep)
        task = "r.task" if by_task else "NULL"
        counts = ", ".join(f"SUM(r.state = '{state}')" for state in STATES)
        auc = "CASE WHEN r.state = 'done' THEN r.auc END"
        rows = self._rows(
            f"SELECT {task}, {alias}.label, {counts}, AVG({auc}), MIN({auc}), MAX({auc}), "
            f"SUM(r.seconds) {source} GROUP BY {task}, {alias}.label ORDER BY MIN({order})",
            (),
            lambda *row: (*row[:6], *map(number_of, row[6:])),
        )
        return [dict(zip(STATUS, row, strict=True)) for row in rows]

    def scores(self, identity: str, part: Part = "test") -> NDArray[np.float32]:
        """Return the scores (n,) of a run on the test or validation part."""
        require_choice("part", part, get_args(Part))
        rows = self._rows(
            "SELECT s.data FROM runs r JOIN scores s ON s.run = r.id "
            "WHERE r.identity = ? AND s.part = ?",
            (identity, part),
            lambda data: unpacked(data, "<f4"),
        )
        for scores in rows:
            return scores
        lacking = f"it has none and its state is {self.run(identity).state}"
        raise InputError(f"run {identity} must have {part} scores, {lacking}")

    def problem(self, fingerprint: str) -> KnownProblem:
        """Return what is known of the data with a fingerprint."""
        return self._of_problem(
            "about", fingerprint, lambda about: KnownProblem(**json.loads(about))
        )

    def labels(self, fingerprint: str, part: Part = "test") -> NDArray[np.int64]:
        """Return the labels (n,) of the test or validation part of a problem."""
        require_choice("part", part, get_args(Part))
        labels = self._of_problem(part, fingerprint, lambda data: data and unpacked(data, "<i8"))
        require(labels is not None, f"{fingerprint} must have a {part} part, it has none")
        return labels

    def _of_problem(self, column: str, fingerprint: str, read: Callable[[Any], Made]) -> Made:
        query = f"SELECT {column} FROM problems WHERE fingerprint = ?"
        for value in self._rows(query, (fingerprint,), read):
            return value
        raise InputError(f"{self.path} must hold the data asked for, got {fingerprint!r}")

    def _rows(self, query: str, values: Sequence[Any], read: Callable[..., Made]) -> Iterator[Made]:
        """Yield what `read` makes of each row; one that cannot be what was written is damage."""
        with explained(self.path):
            for row in self._connection.execute(query, values):
                try:
                    made = read(*row)
                except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as error:
                    raise damaged(self.path, error) from error
                yield made

    def _source(self, sweep: int | str | None) -> tuple[str, str, str]:
        """Return the table that labels come from, the order, and the FROM clause."""
        if sweep is None:
            return "r", "r.id", "FROM runs r WHERE TRUE"
        known = self.sweeps()
        matching = [each.id for each in known if sweep in (each.id, each.name)]
        if not matching:
            names = list(dict.fromkeys(each.name for each in known))
            raise InputError(
                f"sweep must be one of {', '.join(map(repr, names)) or 'none yet'} in {self.path}, "
                f"got {sweep!r}{did_you_mean(sweep, names)}"
            )
        members = "FROM membership m CROSS JOIN runs r ON r.id = m.run WHERE m.sweep ="
        return "m", "m.position", f"{members} {matching[-1]}"


def _record(*row: Any) -> Record:
    identity, fingerprint, state, attempts, plan, outcome, label, number = row
    run = PlannedRun(**json.loads(plan))
    run = replace(run, label=label, number=run.number if number is None else number)
    about = json.loads(outcome or '{"state": 0, "metrics": {}, "seconds": 0.0}')
    del about["state"]
    metrics = {name: number_of(value) for name, value in about.pop("metrics").items()}
    return Record(identity, fingerprint, run, state, attempts, metrics, **about)
