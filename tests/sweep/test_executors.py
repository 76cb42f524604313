"""One contract for serial, processes and Ray: the same jobs end alike in each."""

import os
import random
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import executor_jobs as work
import numpy as np
import pytest
import torch
from executor_jobs import Numbers, by_key, is_running, numbers

from curvewise.base.errors import InputError
from curvewise.sweep.executors import Executor, Finished, Job, Serial
from curvewise.sweep.ray_cluster import RayCluster
from curvewise.sweep.worker_processes import WorkerProcesses

ON_RAY = pytest.param("ray", marks=pytest.mark.cluster)
EXECUTORS: dict[str, Callable[[], Executor]] = {
    "serial": Serial,
    "processes": lambda: WorkerProcesses(2),
    "ray": RayCluster,
}


@pytest.fixture(scope="module")
def one_ray() -> Iterator[Any]:
    """Start Ray once for this file; its workers can import the jobs."""
    RayCluster()  # sets Ray's environment before it is imported
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", work.HERE)
        options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        ray.init("local", num_cpus=2, object_store_memory=400_000_000, **options)
    yield ray
    ray.shutdown()


@pytest.fixture(params=["serial", "processes", ON_RAY])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "ray":
        request.getfixturevalue("one_ray")
    return EXECUTORS[request.param]()


with_workers = pytest.mark.parametrize("executor", ["processes", ON_RAY], indirect=True)


def test_every_job_ends_once_with_its_own_outcome_in_any_order(executor: Executor) -> None:
    jobs = [Job(100 + n, n / 4, str(n % 3)) for n in range(12)]
    random.Random(0).shuffle(jobs)
    ends = by_key(executor.execute(iter(jobs), work.weighted_sum, numbers))
    assert ends == {
        100 + n: Finished(100 + n, (str(n % 3), n / 4 * (499_500.0 + 1000 * (n % 3))), None, 1)
        for n in range(12)
    }


def test_data_are_loaded_once_when_needed_and_let_go_of_after_the_last_job(
    executor: Executor,
) -> None:
    jobs = [Job(n, 1.0, str(n // 4)) for n in range(24)]
    loaded: list[str] = []
    alive: dict[str, Any] = {}

    def load(data_key: str) -> Numbers:
        loaded.append(data_key)
        data = numbers(data_key)
        alive[data_key] = weakref.ref(data)
        return data

    unfinished = {job.key: job.data_key for job in jobs}
    for end in executor.execute(jobs, work.weighted_sum, load):
        del unfinished[end.key]
        held = {data_key for data_key, data in alive.items() if data() is not None}
        assert held <= set(unfinished.values())
        if len(unfinished) == 23:
            assert len(loaded) <= 3  # of 6: those of the jobs that are under way
    assert loaded == ["0", "1", "2", "3", "4", "5"]


def test_data_that_cannot_be_loaded_fail_their_jobs_only(executor: Executor) -> None:
    asked: list[str] = []

    def load(data_key: str) -> Numbers:
        asked.append(data_key)
        if data_key == "1":
            raise FileNotFoundError("no such data: 1")
        return numbers(data_key)

    ends = by_key(
        executor.execute([Job(n, n, str(n // 3)) for n in range(9)], work.weighted_sum, load)
    )
    assert sorted(asked) == ["0", "1", "2"]
    assert [key for key in sorted(ends) if ends[key].error] == [3, 4, 5]
    for key in (3, 4, 5):
        assert ends[key].attempts == 0
        assert "FileNotFoundError: no such data: 1" in str(ends[key].error)
        assert "in load" in str(ends[key].error)


def test_an_exception_is_reported_with_its_traceback_and_the_others_go_on(
    executor: Executor,
) -> None:
    ends = by_key(executor.execute([Job(n, n, "0") for n in range(6)], work.grumble, numbers))
    for n in (0, 2, 4):
        assert ends[n] == Finished(n, n, None, 1)
    for n in (1, 3, 5):
        assert ends[n].outcome is None
        assert ends[n].attempts == 1
        assert f"ZeroDivisionError: job {n} divides by zero" in str(ends[n].error)
        assert "in grumble" in str(ends[n].error)


def test_any_exception_can_be_reported_also_one_that_would_end_the_process(
    executor: Executor,
) -> None:
    green = by_key(executor.execute([Job(0, 5, "0")], work.raise_unpicklable, numbers))[0]
    assert "LockedError: green 5" in str(green.error)
    left = by_key(executor.execute([Job(n, n, "0") for n in (0, 1)], work.leave, numbers))
    for n in (0, 1):
        assert f"SystemExit: left with {n}" in str(left[n].error)
        assert left[n].attempts == 1


def test_every_job_has_one_thread_whatever_the_last_one_asked_for(executor: Executor) -> None:
    torch.set_num_threads(2)
    ends = by_key(executor.execute([Job(n, n, "0") for n in range(4)], work.threads, numbers))
    assert [ends[n].outcome[0] for n in range(4)] == [1, 1, 1, 1]
    assert torch.get_num_threads() == 2
    if ends[0].outcome[1] != os.environ.get("OMP_NUM_THREADS"):  # in processes of its own
        assert {end.outcome[1] for end in ends.values()} == {"1"}


def test_fifty_megabytes_pass(executor: Executor) -> None:
    for end in executor.execute([Job(n, n, "0") for n in (1, 2)], work.big_array, numbers):
        expected = np.random.default_rng(end.key).integers(0, 256, 50_000_000, dtype=np.uint8)
        assert np.array_equal(end.outcome, expected)


def test_work_that_others_cannot_import_is_refused(executor: Executor) -> None:
    with pytest.raises(InputError, match=r"work must be a function that .* import, got <function"):
        list(executor.execute([Job(0, 0, "0")], lambda payload, data: None, numbers))


def test_no_jobs_need_no_data(executor: Executor) -> None:
    def load(data_key: str) -> None:
        raise AssertionError("nothing to load")

    assert list(executor.execute([], work.weighted_sum, load)) == []


@with_workers
def test_outcomes_that_cannot_travel_are_errors_of_their_job(executor: Executor) -> None:
    ends = by_key(
        executor.execute([Job(n, n, "0") for n in (0, 1)], work.unpicklable_outcome, numbers)
    )
    assert ends[0].outcome == "fine"
    assert "cannot pickle" in str(ends[1].error)
    grudge = by_key(executor.execute([Job(0, 0, "0")], work.grudge, numbers))[0]
    assert "KeyError: 'not again'" in str(grudge.error)
    assert grudge.outcome is None


@with_workers
def test_a_worker_that_dies_is_replaced_and_its_job_tried_again(
    executor: Executor, tmp_path: Path
) -> None:
    ways = ["", "SIGKILL", "", "exit", "", ""]
    jobs = [Job(n, (str(tmp_path / str(n)), how), "0") for n, how in enumerate(ways)]
    ends = by_key(executor.execute(jobs, work.die_at_first, numbers))
    assert {key: end.outcome for key, end in ends.items()} == dict.fromkeys(range(6), 499_500.0)
    assert [ends[n].attempts for n in range(6)] == [1, 2, 1, 2, 1, 1]
    assert all(end.error is None for end in ends.values())


@with_workers
def test_a_job_whose_workers_always_die_fails_after_three_tries(
    executor: Executor, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    end = by_key(executor.execute([Job(0, str(log), "0")], work.count_and_die, numbers))[0]
    assert log.read_text() == "begun\n" * 3
    assert (end.outcome, end.attempts) == (None, 3)
    why = "SIGKILL" if "Processes" in type(executor).__name__ else "WorkerCrashedError"
    assert str(end.error).startswith("the worker died in every try\ntry 1: ")
    for n in (2, 3):
        assert f"\ntry {n}: " in str(end.error)
    assert str(end.error).count(why) == 3


@with_workers
def test_closing_early_ends_what_is_under_way(executor: Executor, tmp_path: Path) -> None:
    jobs = [Job(0, "", "0"), *(Job(n, str(tmp_path), "0") for n in range(1, 9))]
    ends = executor.execute(jobs, work.sleep_long, numbers)
    assert next(ends).key == 0
    while len(list(tmp_path.iterdir())) < 2:
        time.sleep(0.01)
    ends.close()
    running = [int(path.name) for path in tmp_path.iterdir()]
    while any(is_running(number) for number in running):  # which would be so for a minute
        time.sleep(0.01)
    assert len(list(tmp_path.iterdir())) == 2  # no other was begun


def test_closing_early_begins_no_other_job_in_this_process(tmp_path: Path) -> None:
    jobs = [Job(n, str(tmp_path / str(n)), "0") for n in range(3)]
    ends = Serial().execute(jobs, os.mkdir, lambda data_key: 0o777)
    next(ends)
    ends.close()
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_ctrl_c_in_this_process_is_not_an_error_of_the_job() -> None:
    def load(data_key: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(Serial().execute([Job(0, 0, "0")], max, load))
