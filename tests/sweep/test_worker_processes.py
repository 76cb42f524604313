"""Worker processes: how many, how they crash, and that none outlives its driver."""

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
import pytest
from executor_jobs import by_key, is_running, numbers

from curvewise.base.errors import InputError
from curvewise.sweep.executors import Job
from curvewise.sweep.worker_processes import WorkerProcesses


@pytest.mark.parametrize("workers", [0, float("nan"), "two"])
def test_a_crew_has_one_worker_or_more(workers: Any) -> None:
    with pytest.raises(InputError, match="workers must be"):
        WorkerProcesses(workers)


def test_there_is_a_worker_for_each_processor_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 4, 5})
    assert WorkerProcesses().workers == 3


def test_workers_are_as_many_as_asked_for_and_serve_many_jobs(tmp_path: Path) -> None:
    jobs = [Job(n, str(tmp_path), "0") for n in range(8)]
    ends = by_key(WorkerProcesses(2).execute(jobs, work.meet, numbers))
    used = {end.outcome for end in ends.values()}
    assert len(used) == len(list(tmp_path.iterdir())) == 2
    assert os.getpid() not in used


def test_one_worker_does_the_jobs_in_their_order_and_a_retry_at_once(tmp_path: Path) -> None:
    jobs = [
        Job(n, (str(tmp_path / str(n)), "SIGKILL" if n == 1 else ""), "0") for n in (3, 1, 4, 2)
    ]
    ends = WorkerProcesses(1).execute(jobs, work.die_at_first, numbers)
    assert [end.key for end in ends] == [3, 1, 4, 2]


def test_a_crash_in_compiled_code_tells_where(tmp_path: Path) -> None:
    end = by_key(WorkerProcesses(1).execute([Job(0, "SIGSEGV", "0")], work.die, numbers))[0]
    assert str(end.error).count("ended by signal SIGSEGV") == 3
    assert str(end.error).count("executor_jobs.py") == 3
    assert " in die" in str(end.error)
    assert "Extension modules" not in str(end.error)


def test_an_exit_code_is_named() -> None:
    jobs = [Job(0, "exit", "0"), Job(1, "", "0")]
    ends = by_key(WorkerProcesses(1).execute(jobs, work.die, numbers))
    assert "try 3: ended with exit code 7" in str(ends[0].error)
    assert ends[1].outcome == "alive"


def test_an_idle_worker_that_was_killed_costs_no_try(tmp_path: Path) -> None:
    jobs = [Job(n, (str(tmp_path), role), "0") for n, role in enumerate(["slow", "quick"])]
    attempts = {}
    for end in WorkerProcesses(2).execute(jobs, work.slay_the_idle, numbers):
        (tmp_path / "answered").touch()
        attempts[end.outcome] = end.attempts
    assert attempts == {"quick": 1, "slow": 2}


def test_files_of_data_are_there_while_a_job_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    jobs = [Job(n, 1.0, str(n // 3)) for n in range(9)]
    left = [
        len(list(tmp_path.glob("curvewise-data-*/*/0.array")))
        for _ in WorkerProcesses(1).execute(jobs, work.weighted_sum, numbers)
    ]
    # The next job has been handed out, with its data, when an end is reported.
    assert left == [1, 1, 1, 1, 1, 1, 1, 1, 0]
    assert not list(tmp_path.iterdir())


def test_the_driver_keeps_its_environment_and_its_ear_for_ctrl_c(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    by_key(WorkerProcesses(1).execute([Job(0, 0, "0")], work.process_number, numbers))
    assert os.environ["OMP_NUM_THREADS"] == "5"
    assert "MKL_NUM_THREADS" not in os.environ
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


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
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, group = path.read_text().rpartition(")")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(group) == self.process.pid and state != "Z":
                found.append(int(path.parent.name))
        return [number for number in found if number != self.process.pid]


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


def test_ctrl_c_ends_all_and_without_a_word(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.workers()
    os.killpg(driver.process.pid, signal.SIGINT)  # as a terminal does
    said = driver.process.communicate(timeout=50)  # the jobs would take a minute
    assert said == ("interrupted\n", "")
    while driver.group():  # Python's tracker ends after its process
        time.sleep(0.01)
    assert not list(driver.temporary.iterdir())


def test_a_worker_does_not_hear_ctrl_c_even_while_it_starts(tmp_path: Path) -> None:
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
    os.kill(driver.process.pid, signal.SIGINT)
    assert driver.process.communicate(timeout=50) == ("interrupted\n", "")


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
