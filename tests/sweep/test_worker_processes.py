"""Worker processes: how many, how they crash, their data, and that none outlives its driver."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import executor_jobs as work
import numpy as np
import pytest
from executor_jobs import Numbers, by_key, is_running, numbers, processes
from hypothesis import given, settings
from hypothesis.extra import numpy as of

from curvewise.base.errors import CurvewiseError, InputError
from curvewise.sweep.executors import Job
from curvewise.sweep.worker_processes import WorkerProcesses, read_data, write_data


def test_there_is_a_worker_for_each_processor_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 4, 5})
    assert WorkerProcesses().workers == 3
    wrong: list[Any] = [0, float("nan"), "two"]
    for workers in wrong:
        with pytest.raises(InputError, match="workers must be"):
            WorkerProcesses(workers)


def test_workers_are_as_many_as_asked_for_and_the_driver_keeps_its_surroundings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    jobs = [Job(n, str(tmp_path), "0") for n in range(8)]
    ends = by_key(WorkerProcesses(2).execute(jobs, work.meet, numbers))
    used = {end.outcome for end in ends.values()}
    assert len(used) == len(list(tmp_path.iterdir())) == 2
    assert os.getpid() not in used
    assert os.environ["OMP_NUM_THREADS"] == "5"
    assert "MKL_NUM_THREADS" not in os.environ
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])  # its ear for Ctrl-C


def test_an_idle_worker_that_was_killed_costs_no_try(tmp_path: Path) -> None:
    jobs = [Job(n, (str(tmp_path), role), "0") for n, role in enumerate(["slow", "quick"])]
    attempts = {}
    for end in WorkerProcesses(2).execute(jobs, work.slay_the_idle, numbers):
        (tmp_path / "answered").touch()
        attempts[end.outcome] = end.attempts
    assert attempts == {"quick": 1, "slow": 2}


def test_one_worker_keeps_the_order_and_files_of_data_are_there_while_a_job_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    marker = str(tmp_path / "marker")
    order = [8, 1, 5, 2, 0, 4, 3, 7, 6]
    jobs = [
        Job(n, (marker, "SIGKILL" if n == 2 else ""), str(place // 3))
        for place, n in enumerate(order)
    ]
    ends, left = [], []
    for end in WorkerProcesses(1).execute(jobs, work.die_at_first, numbers):
        ends.append(end.key)
        left.append(len(list(tmp_path.glob("curvewise-data-*/*/0.array"))))
    assert ends == order  # a retry comes at once
    # The next job has been handed out, with its data, when an end is reported.
    assert left == [1, 1, 1, 1, 1, 1, 1, 1, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["marker"]


class Driver:
    """A script that runs two workers, in a process group of its own."""

    def __init__(self, folder: Path, job: str = "sleep_long") -> None:
        self.marks, self.temporary = folder / "marks", folder / "temporary"
        for path in (self.marks, self.temporary):
            path.mkdir()
        words = ("processes", job, str(self.marks))
        self.process = work.start_driver(*words, TMPDIR=str(self.temporary))

    def workers(self) -> list[int]:
        """Wait for the two workers to be at work; return their numbers."""
        while len(list(self.marks.iterdir())) < 2:
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)
        return [int(path.name) for path in self.marks.iterdir()]

    def group(self) -> list[int]:
        """Return the processes of the group that run, the driver aside."""
        own = self.process.pid
        return [number for number, (_, group, _) in processes().items() if group == own != number]


@pytest.mark.parametrize("job", ["sleep_long", "spin"])
def test_workers_end_when_the_driver_is_killed(tmp_path: Path, job: str) -> None:
    driver = Driver(tmp_path, job)
    workers = driver.workers()
    driver.process.kill()
    driver.process.wait()  # not for the end of its output, which workers hold open
    while driver.group():
        time.sleep(0.01)
    assert not any(is_running(number) for number in workers)
    assert not list(driver.temporary.iterdir())


def test_ctrl_c_is_heard_by_the_driver_alone_which_ends_all_without_a_word(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    seen: set[int] = set()
    while len(list(driver.marks.iterdir())) < 2:
        assert driver.process.poll() is None, driver.process.communicate()
        for number in driver.group():
            seen.add(number)
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGINT)
        time.sleep(0.005)
    assert len(seen) == 3  # two workers, none of them replaced, and Python's own tracker
    os.killpg(driver.process.pid, signal.SIGINT)  # as a terminal does
    said = driver.process.communicate(timeout=50)  # the jobs would take a minute
    assert said == ("interrupted\n", "")
    while driver.group():  # Python's tracker ends after its process
        time.sleep(0.01)
    assert not list(driver.temporary.iterdir())


def test_a_script_that_workers_cannot_import_is_told_what_it_lacks(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import operator\n"
        "from curvewise.sweep.executors import Job, make_executor\n"
        "list(make_executor('processes').execute([Job(0, 1, '0')], operator.mul, int))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "worker processes must be able to start, got 5 in a row" in last
    assert 'if __name__ == "__main__":' in last
    assert "exit code 1" in last


def there_and_back(data: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:  # maps stay valid when the files are gone
        write_data(Path(folder, "data"), data)
        return read_data(Path(folder, "data"))


KINDS = of.boolean_dtypes() | of.integer_dtypes() | of.floating_dtypes()


@settings(max_examples=50, deadline=None)
@given(of.arrays(KINDS, of.array_shapes(min_dims=0, min_side=0)))
def test_any_array_comes_back_plain_and_equal(array: Any) -> None:
    for given_array in (array, array.T, array[..., ::-1] if array.ndim else array):
        back = there_and_back({"a": given_array})["a"]
        assert type(back) is type(given_array)
        assert (back.dtype, back.shape) == (given_array.dtype, given_array.shape)
        assert back.tobytes() == given_array.tobytes()


def test_what_is_around_the_arrays_comes_back_too() -> None:
    shared, texts = np.arange(6.0), np.array(["a", None, 3], dtype=object)
    data = Numbers("outer", shared), [(shared, texts), {"mask": np.ma.masked_less(shared, 2)}]
    back = there_and_back(data)
    assert back[0].name == "outer"
    assert back[0].y is None
    assert back[1][0][1].tolist() == ["a", None, 3]
    assert back[1][1]["mask"].mask.tolist() == [True, True, False, False, False, False]
    assert np.array_equal(back[1][0][0], shared)


def test_arrays_are_written_once_and_a_change_stays_within_the_reader(tmp_path: Path) -> None:
    x = np.arange(1_000_000.0)
    write_data(tmp_path / "data", [x, x, Numbers("n", x)])
    assert len(list(tmp_path.glob("data/*.array"))) == 1
    one, other = (read_data(tmp_path / "data")[0] for _ in range(2))
    one[0] = 7.0
    assert (one[0], other[0], read_data(tmp_path / "data")[2].x[0]) == (7.0, 0.0, 0.0)


def test_maps_of_files_are_opened_again_and_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "big.npy", np.random.default_rng(0).integers(0, 9999, (20, 5)))
    whole = np.load(tmp_path / "big.npy", mmap_mode="r")
    parts = [whole, whole[3:9], whole[2:][1:5], whole[4], whole[5:6, 1:]]
    parts += [whole.view(np.uint8)[2:], whole[7:].reshape(-1)]
    write_data(tmp_path / "data", parts)
    assert not list(tmp_path.glob("data/*.array"))
    for back, part in zip(read_data(tmp_path / "data"), parts, strict=True):
        assert isinstance(back, np.memmap)
        assert np.array_equal(back, part)
        assert (back.dtype, back.shape) == (part.dtype, part.shape)


@pytest.mark.parametrize("mode", ["r", "c", "r+"])
def test_maps_with_gaps_or_changes_are_copied(tmp_path: Path, mode: Any) -> None:
    np.save(tmp_path / "big.npy", np.arange(100).reshape(20, 5))
    mapped = np.load(tmp_path / "big.npy", mmap_mode=mode)
    if mode == "c":
        mapped[0, 0] = 77
    part = mapped[::2] if mode == "r" else mapped
    write_data(tmp_path / "data", part)
    assert len(list(tmp_path.glob("data/*.array"))) == 1
    assert np.array_equal(read_data(tmp_path / "data"), part)
    write_data(tmp_path / "nothing", mapped[:0])
    assert read_data(tmp_path / "nothing").shape == (0, 5)


def test_a_full_disk_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    ends = WorkerProcesses(1).execute([Job(0, 0, "0")], work.die, numbers)
    with pytest.raises(CurvewiseError, match=r"No space left on device.*TMPDIR"):
        list(ends)
