"""The file of a store: foreign and damaged ones, versions, one writer, and what a kill leaves."""

import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
from test_store import listed, planned, problem, result, scores_of

from curvewise.base.errors import InputError
from curvewise.sweep import schema
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
        records = list(store.runs())
        done = [record.identity for record in records if record.state == "done"]
        return repr(
            (
                store.sweeps(),
                [store.run(record.identity) for record in records],
                list(store.runs("some")),
                store.missing("some"),
                [store.scores(identity).tobytes() for identity in done],
                store.problem("f0"),
                [store.labels("f0", part).tobytes() for part in ("test", "validation")],
                store.status(),
            )
        )


def folder_content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() if path.is_file() else b"" for path in folder.iterdir()}


def test_a_new_file_says_whose_it_is_and_nothing_else_is_left(tmp_path):
    Store(tmp_path / "runs.db").close()
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]
    header = (tmp_path / "runs.db").read_bytes()[:100]
    assert header[68:72] == b"Curv"
    assert int.from_bytes(header[60:64], "big") == 2
    assert header[18:20] == bytes([2, 2])  # write-ahead log
    with Store(tmp_path / "runs.db") as store:
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store._connection.execute("PRAGMA busy_timeout").fetchone()[0] >= 5000


def other_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE runs (id)")
    connection.close()


def hollow_store(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.execute("CREATE TABLE runs (id)")
    connection.close()


def with_version(version: int):
    def make(path: Path) -> None:
        filled(path)
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.close()

    return make


def cut(length: int):
    def make(path: Path) -> None:
        content = filled(path).read_bytes()
        path.write_bytes(content[:length])

    return make


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("omega, gamma\n" * 999), "it is another kind of file"),
        (lambda path: path.write_bytes(b""), "it is another kind of file"),
        (other_database, "it is another kind of file"),
        (hollow_store, "damaged one .without membership, problems, scores, sweeps"),
        (lambda path: path.mkdir(), "a store must be a file"),
        (os.mkfifo, "a store must be a file"),
        (with_version(7), "a version from 1 to 2, got 7: a newer Curvewise wrote it"),
        (with_version(0), "a version from 1 to 2, got 0$"),
        (cut(10), "it is another kind of file"),
        (cut(100), "must be a"),
        (cut(4096), "got a damaged one"),
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


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no store .*runs\.db"):
        Store(tmp_path / "runs.db", readonly=True)
    with pytest.raises(InputError, match=r"folder of a store must exist, got .*runs\.db"):
        Store(tmp_path / "deep" / "runs.db")
    assert list(tmp_path.iterdir()) == []


def test_odd_names_and_links_work(tmp_path):
    path = tmp_path / "50% of #1?mode=ro.db"
    expected = everything(filled(path))
    (tmp_path / "link.db").symlink_to(path)
    assert everything(tmp_path / "link.db", readonly=False) == expected


@pytest.mark.parametrize("place", ["header", "anywhere"])
def test_a_changed_byte_is_noticed_or_changes_nothing(place, tmp_path):
    path = filled(tmp_path / "runs.db")
    content, expected, noticed = path.read_bytes(), everything(path), 0
    chance = random.Random(1)
    places = range(100) if place == "header" else chance.sample(range(100, len(content)), 300)
    for position in places:
        spoilt = bytearray(content)
        spoilt[position] ^= 1 << chance.randrange(8)
        path.write_bytes(spoilt)
        try:
            found = everything(path)
        except InputError:
            noticed += 1
        else:
            assert found == expected, position
        assert path.read_bytes() == spoilt
        assert sorted(p.name for p in tmp_path.iterdir()) == ["runs.db", "runs.db.lock"]
    assert noticed > 40


def test_damage_in_a_large_file_is_found_when_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "CHECKED_BYTES", 0)
    path = filled(tmp_path / "runs.db")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    with Store(path, readonly=True) as store, pytest.raises(InputError, match="damaged one"):
        list(store.runs())


STACK, STACKS = 6, 150


def write_stacks(path: Path, told: Connection) -> None:
    """Do what a sweep does: go through the stacks, record those that lack a run."""
    with Store(path) as store, store.writing():
        missing = set(store.missing("kill"))
        ids = [record.identity for record in store.runs("kill")]
        told.send("ready")
        for start in range(0, len(ids), STACK):
            stack = ids[start : start + STACK]
            if missing & set(stack):
                store.record([result(identity) for identity in stack], "box", {})
                told.send(start)


@contextmanager
def writer(path: Path) -> Iterator[tuple[BaseProcess, Connection]]:
    """Run `write_stacks` in another process, from the moment at which it is ready."""
    here, there = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=write_stacks, args=(path, there))
    process.start()
    there.close()
    try:
        assert here.recv() == "ready"
        yield process, here
    finally:
        process.kill()
        process.join()
        here.close()


def heard(pipe: Connection) -> Iterator[int]:
    with suppress(EOFError):
        while True:
            yield pipe.recv()


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
                np.testing.assert_array_equal(
                    store.scores(record.identity), scores_of(record.identity)
                )
    return complete


def test_sigkill_at_any_moment_leaves_whole_stacks(planned_stacks):
    chance, acknowledged, complete = random.Random(0), set(), 0
    for kill in range(100):  # ten at least; a busy machine needs more, and more time
        if kill >= 10 and acknowledged:
            break
        with writer(planned_stacks) as (process, pipe):
            time.sleep(chance.uniform(0, 0.03 + kill // 10 * 0.01))
            os.kill(process.pid, signal.SIGKILL)
            acknowledged |= set(heard(pipe))
        assert process.exitcode == -signal.SIGKILL
        with Store(planned_stacks, readonly=True) as store:
            complete = check_stacks(store, acknowledged)
    assert 0 < len(acknowledged) <= complete < STACKS
    with writer(planned_stacks) as (process, pipe):  # the next start goes on to the end
        assert len(set(heard(pipe))) == STACKS - complete
    with Store(planned_stacks) as store:
        assert check_stacks(store, acknowledged) == STACKS
        assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_readers_read_while_another_process_writes(planned_stacks):
    counts: list[int] = []
    with writer(planned_stacks) as (process, _):
        while process.is_alive():
            with Store(planned_stacks, readonly=True) as reader:  # anew, as by `sweep status`
                for _ in range(3):
                    (row,) = reader.status("kill")
                    assert row.done + row.pending == STACK * STACKS
                    counts.append(row.done)
    assert process.exitcode == 0
    assert counts == sorted(counts)
    assert all(count % STACK == 0 for count in counts)
    assert len({count for count in counts if 0 < count < STACK * STACKS}) > 2
    with Store(planned_stacks, readonly=True) as reader:
        assert check_stacks(reader, set()) == STACKS
    left = sorted(path.name for path in planned_stacks.parent.iterdir())
    assert left == ["runs.db", "runs.db.lock"]


def test_one_process_writes_at_a_time_and_a_killed_one_frees_the_way(planned_stacks):
    with Store(planned_stacks) as store, writer(planned_stacks) as (process, _):
        os.kill(process.pid, signal.SIGSTOP)
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
