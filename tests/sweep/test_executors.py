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


@pytest.fixture(params=["serial", "processes", ON_RAY], scope="module")
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "ray":
        request.getfixturevalue("one_ray")
    return EXECUTORS[request.param]()


with_workers = pytest.mark.parametrize("executor", ["processes", ON_RAY], indirect=True)

SUMS = {100 + n: n / 4 for n in range(12)}
TASKS = {
    **{key: ("weighted_sum", payload) for key, payload in SUMS.items()},
    **{n: ("grumble", n) for n in range(4)},
    10: ("raise_unpicklable", 5),
    **{n: ("leave", n) for n in (20, 21)},
    **dict.fromkeys(range(30, 34), ("threads", None)),
    **{n: ("unpicklable_outcome", n - 40) for n in (40, 41)},
    50: ("grudge", None),
    60: ("big_array", 60),
    **dict.fromkeys((70, 71), ("weighted_sum", 1.0)),  # of data that cannot be loaded
}


class Whole:
    """All kinds of jobs done at once, on seven data of which one cannot be loaded."""

    def __init__(self, executor: Executor) -> None:
        keys = sorted(TASKS)
        random.Random(0).shuffle(keys)
        self.data_of = {key: str(place // 5) for place, key in enumerate(keys)}
        self.data_of |= dict.fromkeys((70, 71), "no data")
        jobs = [Job(key, TASKS[key], data_key) for key, data_key in self.data_of.items()]
        self.alive: dict[str, Any] = {}
        self.loaded: list[str] = []
        unfinished = dict(self.data_of)
        self.seen: list[tuple[int, set[str], set[str]]] = []

        def noted(end: Finished) -> Finished:
            del unfinished[end.key]
            held = {name for name, data in self.alive.items() if data() is not None}
            self.seen.append((len(self.loaded), held, set(unfinished.values())))
            return end

        torch.set_num_threads(2)
        self.ends = by_key(map(noted, executor.execute(iter(jobs), work.do, self.load)))
        self.threads = torch.get_num_threads()

    def load(self, data_key: str) -> Numbers:
        self.loaded.append(data_key)
        if data_key == "no data":
            raise FileNotFoundError(f"no such data: {data_key}")
        data = numbers(data_key)
        self.alive[data_key] = weakref.ref(data)
        return data


@pytest.fixture(scope="module")
def whole(executor: Executor) -> Whole:
    return Whole(executor)


def test_every_job_ends_once_with_its_own_outcome_in_any_order(whole: Whole) -> None:
    assert set(whole.ends) == set(TASKS)
    for key, weight in SUMS.items():
        name = whole.data_of[key]
        outcome = (name, weight * (499_500.0 + 1000 * int(name)))
        assert whole.ends[key] == Finished(key, outcome, None, 1)


def test_data_are_loaded_once_when_needed_and_let_go_of_after_the_last_job(whole: Whole) -> None:
    assert whole.loaded == list(dict.fromkeys(whole.data_of.values()))
    assert len(whole.loaded) >= 6
    assert all(held <= needed for _, held, needed in whole.seen)
    assert whole.seen[0][0] <= 4  # those of the jobs that are under way, and none


def test_data_that_cannot_be_loaded_fail_their_jobs_only(whole: Whole) -> None:
    for key in (70, 71):
        assert whole.ends[key].attempts == 0
        assert "FileNotFoundError: no such data" in str(whole.ends[key].error)
        assert "in load" in str(whole.ends[key].error)


def test_an_exception_is_reported_with_its_traceback_and_the_others_go_on(whole: Whole) -> None:
    for n in (0, 2):
        assert whole.ends[n] == Finished(n, n, None, 1)
    wrong = {
        1: ("ZeroDivisionError: job 1 divides by zero", "in grumble"),
        3: ("ZeroDivisionError: job 3 divides by zero", "in grumble"),
        10: ("LockedError: green 5", "in raise_unpicklable"),
        20: ("SystemExit: left with 20", "in leave"),  # which would end the process
        21: ("SystemExit: left with 21", "in leave"),
        41: ("cannot pickle", "in answer_to"),  # outcomes that cannot travel
        50: ("KeyError: 'not again'", "in _refuse"),
    }
    for n, parts in wrong.items():
        end = whole.ends[n]
        assert (end.outcome, end.attempts) == (None, 1)
        assert all(part in str(end.error) for part in parts), end.error
    assert whole.ends[40].outcome == "fine"


def test_every_job_has_one_thread_whatever_the_last_one_asked_for(whole: Whole) -> None:
    outcomes = [whole.ends[n].outcome for n in range(30, 34)]
    assert [count for count, _ in outcomes] == [1, 1, 1, 1]
    assert whole.threads == 2
    if outcomes[0][1] != os.environ.get("OMP_NUM_THREADS"):  # in processes of its own
        assert {environment for _, environment in outcomes} == {"1"}


def test_fifty_megabytes_pass(whole: Whole) -> None:
    assert np.array_equal(whole.ends[60].outcome, work.big_array(60, None))


def test_work_that_others_cannot_import_is_refused(executor: Executor) -> None:
    with pytest.raises(InputError, match=r"work must be a function that .* import, got <function"):
        list(executor.execute([Job(0, 0, "0")], lambda payload, data: None, numbers))


def test_no_jobs_need_no_data(executor: Executor) -> None:
    def load(data_key: str) -> None:
        raise AssertionError("nothing to load")

    assert list(executor.execute([], work.weighted_sum, load)) == []


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
    ways = [("count_and_die", str(log)), ("die", "exit"), ("die", "SIGSEGV"), ("die", "")]
    ends = by_key(
        executor.execute([Job(n, way, "0") for n, way in enumerate(ways)], work.do, numbers)
    )
    assert log.read_text() == "begun\n" * 3
    assert ends[3] == Finished(3, "alive")
    signs = ["WorkerCrashedError"] * 3
    if isinstance(executor, WorkerProcesses):
        signs = ["ended by signal SIGKILL, as the", "ended with exit code 7", "by signal SIGSEGV"]
        assert str(ends[2].error).count("executor_jobs.py") == 6  # where compiled code crashed
        assert " in die" in str(ends[2].error)
        assert "Extension modules" not in str(ends[2].error)
    for n, sign in enumerate(signs):
        assert (ends[n].outcome, ends[n].attempts) == (None, 3)
        assert str(ends[n].error).startswith("the worker died in every try\ntry 1: ")
        assert str(ends[n].error).count(sign) == 3
        assert all(f"\ntry {number}: " in str(ends[n].error) for number in (2, 3))


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
