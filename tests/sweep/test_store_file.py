"""The file of a store: foreign and damaged ones, versions, one writer, and what a kill leaves."""

import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
from test_store import listed, missing, planned, problem, result, scores_of

from curvewise.base.errors import InputError
from curvewise.sweep import store_file
from curvewise.sweep.store import Store, StoreError


def filled(path: Path, n: int = 12) -> Path:
    """Make a store with every kind of row."""
    runs = listed(*(planned(i, task=f"digits:{i % 3}") for i in range(n)))
    with Store(path) as store:
        store.add_sweep("some", {"seeds": [0, 1]}, runs)
        store.add_problem(problem(), "digits:8", 100.0, 0)
        results = [result(identity) for _, identity, _ in runs[: n // 2]]
        store.record([*results, result(runs[-1][1], "failed", message="no\nluck")], "box", {})
    return path


def everything(path: Path, readonly: bool = True) -> str:
    """Return all that a store has to say."""
    with Store(path, readonly=readonly) as store:
        records = [store.run(record.identity) for record in store.runs()]
        about = store.sweeps(), records, list(store.runs("some")), missing(store, "some")
        return repr((*about, numbers_of(store), store.problem("f0"), store.status()))


def numbers_of(store: Store) -> dict[str, bytes]:
    """Return the scores of all runs that are done, and the labels of their data."""
    done = [record.identity for record in store.runs(state="done")]
    parts = {part: store.labels("f0", part).tobytes() for part in ("test", "validation")}
    return {identity: store.scores(identity).tobytes() for identity in done} | parts


def folder_content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() if path.is_file() else b"" for path in folder.iterdir()}


def test_a_new_file_says_whose_it_is_and_nothing_else_is_left(tmp_path):
    Store(tmp_path / "runs.db").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs.db", "runs.db.lock"]
    header = (tmp_path / "runs.db").read_bytes()[:100]
    assert header[68:72] == b"Curv"
    assert int.from_bytes(header[60:64], "big") == 3
    assert header[18:20] == bytes([2, 2])  # write-ahead log
    with Store(tmp_path / "runs.db") as store:
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store._connection.execute("PRAGMA busy_timeout").fetchone()[0] >= 5000


WAL, TABLE = "PRAGMA journal_mode = WAL", "CREATE TABLE runs (id)"
OURS = f"PRAGMA application_id = {store_file.APPLICATION_ID}; PRAGMA user_version = 1"


def changed(path: Path, script: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


def with_version(version: int):
    return lambda path: changed(filled(path), f"PRAGMA user_version = {version}")


def cut(length: int):
    return lambda path: path.write_bytes(filled(path).read_bytes()[:length])


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("omega, gamma\n" * 999), "it is another kind of file"),
        (lambda path: path.write_bytes(b""), "it is another kind of file"),
        (lambda path: changed(path, f"{WAL}; {TABLE}"), "it is another kind of file"),
        (lambda path: changed(path, f"{OURS}; {TABLE}"), "without membership, problems, scores"),
        (lambda path: path.mkdir(), "a store must be a file"),
        (os.mkfifo, "a store must be a file"),
        (with_version(7), "a version from 1 to 3, got 7: a newer Curvewise wrote it"),
        (with_version(0), "a version from 1 to 3, got 0$"),
        (cut(100), "must be a"),
        (cut(-4096), "got a damaged one"),
        (cut(-1), "got a damaged one"),
    ],
)
def test_what_is_not_a_whole_store_is_named_and_not_touched(make, message, readonly, tmp_path):
    path = tmp_path / "a file.db"
    make(path)
    (tmp_path / "a file.db.lock").unlink(missing_ok=True)
    before = folder_content(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        Store(path, readonly=readonly)
    assert "a file.db" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert folder_content(tmp_path) == before


def test_what_is_not_there_is_named_and_odd_names_and_links_work(tmp_path):
    with pytest.raises(InputError, match=r"there is no store .*runs\.db"):
        Store(tmp_path / "runs.db", readonly=True)
    with pytest.raises(InputError, match=r"folder of a store must exist, got .*runs\.db"):
        Store(tmp_path / "deep" / "runs.db")
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "50% of #1?mode=ro.db"
    expected = everything(filled(path))
    (tmp_path / "link.db").symlink_to(path)
    assert everything(tmp_path / "link.db", readonly=False) == expected


def test_a_changed_byte_is_named_and_never_changes_scores_or_labels(tmp_path):
    path = filled(tmp_path / "runs.db")
    content, noticed, chance = path.read_bytes(), 0, random.Random(1)
    with Store(path, readonly=True) as store:
        expected = numbers_of(store)
    for position in [*range(100), *chance.sample(range(100, len(content)), 200)]:
        spoilt = bytearray(content)
        spoilt[position] ^= 1 << chance.randrange(8)
        path.write_bytes(spoilt)
        try:
            everything(path)
            with Store(path, readonly=True) as store:
                assert numbers_of(store).items() <= expected.items(), position
        except InputError:
            noticed += 1
        assert path.read_bytes() == spoilt
        assert sorted(p.name for p in tmp_path.iterdir()) == ["runs.db", "runs.db.lock"]
    assert noticed > 80


def test_damage_in_a_large_file_is_found_when_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(store_file, "CHECKED_BYTES", 0)
    path = filled(tmp_path / "runs.db")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    with Store(path, readonly=True) as store, pytest.raises(InputError, match="damaged one"):
        list(store.runs())


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("version", [1, 2])
def test_files_of_earlier_versions_are_read_and_written(version, readonly, tmp_path):
    path = filled(tmp_path / "runs.db")
    expected = everything(path)
    old = f"PRAGMA user_version = {version}; UPDATE runs SET plan_sum = 7; "
    old += "ALTER TABLE sweeps ADD COLUMN spec_sum INTEGER" if version == 2 else ""
    assert everything(changed(path, old), readonly) == expected
    with Store(path) as store:
        assert store.add_sweep("some", {"seeds": [0, 1]}, listed(planned(99))) == 1
        store.add_sweep("more", {}, listed(planned(99)))
        assert store.record([result(i) for i in missing(store, "more")], "box", {}) == 1
        assert missing(store, "more") == []
    assert path.read_bytes()[63] == 3  # what wrote sums says of it that a newer one did


STACK, STACKS, STATEMENTS = 6, 60, 26  # statements that SQLite sees of a stack


def write_stacks(path: Path, pipe: Connection, pause_at: int) -> None:
    """Do what a sweep does: go through the stacks, record those that lack a run.

    It says so after each, and does as many as it is told through the pipe. At the statement
    with the number `pause_at` it says "paused" and stays there.
    """
    seen = 0

    def pause(statement: str) -> None:
        nonlocal seen
        seen += 1
        if seen == pause_at:
            pipe.send("paused")
            signal.pause()

    with Store(path) as store, store.writing():
        unfinished = set(missing(store, "kill"))
        ids = [record.identity for record in store.runs("kill")]
        store._connection.set_trace_callback(pause)
        pipe.send("ready")
        allowed = 0
        for start in range(0, len(ids), STACK):
            stack = ids[start : start + STACK]
            if unfinished & set(stack):
                allowed = allowed or pipe.recv()
                store.record([result(identity) for identity in stack], "box", {})
                pipe.send(start)
                allowed -= 1


@contextmanager
def writer(path: Path, pause_at: int = 0) -> Iterator[tuple[BaseProcess, Connection]]:
    """Run `write_stacks` in another process, from the moment at which it is ready."""
    here, there = get_context("fork").Pipe()
    process = get_context("fork").Process(target=write_stacks, args=(path, there, pause_at))
    process.start()
    there.close()
    try:
        assert here.recv() == "ready"
        yield process, here
    finally:
        process.kill()
        process.join()
        here.close()


def heard(pipe: Connection) -> list[int]:
    """Return the stacks of which a writer says that they are recorded, until it pauses or ends."""
    stacks = []
    with suppress(EOFError):
        while (said := pipe.recv()) != "paused":
            stacks.append(said)
    return stacks


@pytest.fixture
def planned_stacks(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        store.add_sweep("kill", {}, listed(*(planned(i) for i in range(STACK * STACKS))))
    return tmp_path / "runs.db"


def check_stacks(store: Store, acknowledged: set[int]) -> int:
    """Every stack is complete or absent, the acknowledged ones are there; count them."""
    records = list(store.runs("kill"))
    assert len(records) == STACK * STACKS
    complete = 0
    for start in range(0, len(records), STACK):
        stack = records[start : start + STACK]
        states = {record.state for record in stack}
        assert len(states) == 1, f"half a stack: {[record.state for record in stack]}"
        assert states == {"done"} or start not in acknowledged
        if states == {"done"}:
            complete += 1
            assert {record.attempts for record in stack} == {1}
            for record in stack:
                expected = scores_of(record.identity)
                np.testing.assert_array_equal(store.scores(record.identity), expected)
    return complete


def test_sigkill_at_any_statement_leaves_whole_stacks(planned_stacks):
    acknowledged, complete = set(), 0
    for at in range(1, STATEMENTS + 1, 2):  # of the second stack: from its first to its commit
        with writer(planned_stacks, pause_at=STATEMENTS + at) as (process, pipe):
            pipe.send(3)
            acknowledged |= set(heard(pipe))
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        assert process.exitcode == -signal.SIGKILL
        with Store(planned_stacks, readonly=True) as store:
            complete = check_stacks(store, acknowledged)
    assert len(acknowledged) == complete == 13
    with writer(planned_stacks) as (_, pipe):  # the next start goes on to the end
        pipe.send(STACKS)
        assert len(heard(pipe)) == STACKS - complete
    with Store(planned_stacks) as store:
        assert check_stacks(store, acknowledged) == STACKS
        assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_sigkill_during_a_commit_leaves_whole_stacks(planned_stacks):
    acknowledged = set()
    for number in range(10):  # it comes while the second stack is being written or committed
        with writer(planned_stacks, pause_at=2 * STATEMENTS + 1) as (process, pipe):
            pipe.send(3)
            acknowledged.add(pipe.recv())
            os.kill(process.pid, signal.SIGKILL)
            acknowledged |= set(heard(pipe))
        assert process.exitcode == -signal.SIGKILL
        with Store(planned_stacks, readonly=True) as store:
            assert number < check_stacks(store, acknowledged) <= 2 * (number + 1)


def test_readers_read_while_another_process_writes(planned_stacks):
    counts: list[int] = []
    with writer(planned_stacks) as (process, pipe):
        for round_ in range(1, 7):
            pipe.send(STACKS // 6)
            while not counts or counts[-1] < round_ * STACK * STACKS // 6:
                with Store(planned_stacks, readonly=True) as reader:  # anew, as by `sweep status`
                    for _ in range(3):
                        (row,) = reader.status("kill")
                        assert row["done"] + row["pending"] == STACK * STACKS
                        counts.append(row["done"])
        process.join()
    assert process.exitcode == 0
    assert counts == sorted(counts)
    assert all(count % STACK == 0 for count in counts)
    with Store(planned_stacks, readonly=True) as reader:
        assert check_stacks(reader, set()) == STACKS
    left = sorted(path.name for path in planned_stacks.parent.iterdir())
    assert left == ["runs.db", "runs.db.lock"]


def test_one_process_writes_at_a_time_and_a_killed_one_frees_the_way(planned_stacks):
    with Store(planned_stacks) as store, writer(planned_stacks) as (process, _):
        holder = f"held by process {process.pid} on {socket.gethostname()} since "
        with pytest.raises(StoreError, match=f"one process at a time .*{holder}"):
            store.add_sweep("b", {}, listed(planned()))
        assert [sweep.name for sweep in store.sweeps()] == ["kill"]
        process.kill()
        process.join()
        with store.writing():
            store.add_sweep("b", {}, listed(planned()))
            own = pytest.raises(StoreError, match=f"held by process {os.getpid()} ")
            with Store(planned_stacks) as other, own:
                other.record([], "box", {})
            store.record([], "box", {})
        with Store(planned_stacks) as other, other.writing():
            pass


def test_opening_twice_in_one_process_drops_no_lock_of_the_first(tmp_path):
    path, runs = tmp_path / "runs.db", listed(planned(0), planned(1))
    with Store(path) as store:
        store.add_sweep("a", {}, runs)
        Store(path, readonly=True).close()
        script = "import sys; from curvewise.sweep.store import Store; Store(sys.argv[1]).close()"
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        # Without its locks, the other process would take itself for the last, and clear the log.
        assert Path(f"{path}-wal").stat().st_size > 0
        store.record([result(runs[0][1])], "box", {})


def test_the_log_of_a_killed_process_is_read_also_half_way_through_a_checkpoint(tmp_path):
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    Store(path).close()
    old = path.read_bytes()
    with Store(path) as held:
        filled(path)
        expected = everything(path)
        for done in (0, 4096):  # pages that the checkpoint has written to the file
            log = Path(f"{path}-wal").read_bytes()
            if done:
                held._connection.execute("PRAGMA wal_checkpoint(FULL)")
            copy.write_bytes(path.read_bytes()[:done] + old[done:])
            Path(f"{copy}-wal").write_bytes(log)
            assert everything(copy) == expected
            assert not Path(f"{copy}-wal").exists()
