"""Ways to do many independent jobs: `serial`, `processes` and `ray`, under one contract.

A job is a small payload and the name of the data it needs; `work(payload, data)` does it. The
driver loads data when the first job that needs them is handed out, and lets go of them when the
last is finished; work must not change them. Jobs are begun in their order and reported in any.
An exception is reported with its traceback, and the others go on; it is not tried again, as it
would come again. A worker that dies (out of memory, a crash in compiled code, a lost machine) is
replaced and its job tried again, three times in all. Each job runs in one thread, so that all
executors compute the same bits. Closing the iterator, or Ctrl-C, ends all that is under way.

The pools of joblib and `concurrent.futures` cannot promise this: when a worker dies they fail all
jobs under way, and do not tell whose worker it was, nor how it died.
"""

import pickle
import sys
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from curvewise.base.errors import InputError, require_choice, require_number
from curvewise.base.machine import torch_threads

TRIES = 3  # how often a job is begun whose worker dies
EXECUTORS = ("serial", "processes", "ray")

# A worker's environment, to be set before it imports numpy and torch. Compiling in one process
# too: a pool of compilers would outlive a worker that is ended.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}

Work = Callable[[Any, Any], Any]
Load = Callable[[str], Any]


@dataclass(frozen=True)
class Job:
    """Something to do: a small picklable payload, and which data it needs."""

    key: int
    payload: Any
    data_key: str


@dataclass(frozen=True)
class Finished:
    """What became of the job with this key: its outcome, or the text of what went wrong.

    `attempts` counts how often it was begun; it is 0 if its data could not be loaded.
    """

    key: int
    outcome: Any = None
    error: str | None = None
    attempts: int = 1


@dataclass
class Trial:
    """A job on its way through workers that may die; `deaths` tells how each did."""

    job: Job
    deaths: list[str] = field(default_factory=list)

    def end(self, news: bytes | str) -> Finished | None:
        """Return the job's end after an answer, or a worker's death; None to try it again."""
        if isinstance(news, bytes):
            try:
                outcome, error = pickle.loads(news)
            except Exception:  # whatever an outcome does when it is put together again
                outcome, error = None, traceback.format_exc()
            return Finished(self.job.key, outcome, error, len(self.deaths) + 1)
        self.deaths.append(news)
        if len(self.deaths) < TRIES:
            return None
        text = "\n".join(f"try {n}: {death}" for n, death in enumerate(self.deaths, 1))
        return Finished(self.job.key, None, f"the worker died in every try\n{text}", TRIES)


class Executor(ABC):
    """Does jobs, as the module's docstring promises; a subclass says where and how."""

    def execute(
        self, jobs: Iterable[Job], work: Work, load: Load
    ) -> Generator[Finished, None, None]:
        """Yield every job's end as it comes; `work` must be importable, `load` may be anything."""
        require_importable(work)
        jobs = list(jobs)
        data_keys = {job.key: job.data_key for job in jobs}
        shelf = _Shelf(self, load, data_keys.values())
        waiting, unfinished = deque(map(Trial, jobs)), len(jobs)
        ends: list[Finished | None] = []
        with self.workers_for(len(jobs)):
            while unfinished:
                while waiting and self.has_room():
                    ends.append(self._hand_out(waiting.popleft(), work, shelf))
                for end in filter(None, ends):  # workers go on meanwhile
                    shelf.give_back(data_keys[end.key])
                    unfinished -= 1
                    yield end
                ends = []
                for trial, news in self.news():
                    ends.append(trial.end(news))
                    if ends[-1] is None:
                        waiting.appendleft(trial)

    def _hand_out(self, trial: Trial, work: Work, shelf: "_Shelf") -> Finished | None:
        """Give a job to a worker; return its end if its data cannot be loaded."""
        held, trouble = shelf.take(trial.job.data_key)
        if trouble is not None:
            return Finished(trial.job.key, error=trouble, attempts=0)
        self.give(trial, held, pickle.dumps((work, trial.job.payload)))
        return None

    @abstractmethod
    def workers_for(self, n_jobs: int) -> AbstractContextManager[Any]:
        """Return the surroundings in which jobs are done; leaving them ends all workers."""

    @abstractmethod
    def has_room(self) -> bool:
        """Return whether one more job can be given."""

    @abstractmethod
    def give(self, trial: Trial, held: Any, task: bytes) -> None:
        """Let a worker do a pickled (work, payload) on data that `hold` returned."""

    @abstractmethod
    def news(self) -> Iterator[tuple[Trial, bytes | str]]:
        """Wait a while; yield jobs with their `answer_to`, or with how their worker died."""

    def hold(self, data: Any) -> Any:
        """Return loaded data in the form that workers are given."""
        return data

    def drop(self, held: Any) -> None:
        """Let go of what `hold` returned."""
        return


def serial() -> Executor:
    """Return an executor that does one job after another, in this process.

    >>> from operator import mul
    >>> jobs = [Job(key, payload, "ten") for key, payload in enumerate([1, 2])]
    >>> [done.outcome for done in serial().execute(jobs, mul, {"ten": 10}.get)]
    [10, 20]
    """
    return _Serial()


def processes(workers: int | None = None) -> Executor:
    """Return an executor with several processes (one a processor), of one thread each.

    They are new interpreters, so a script that uses this needs ``if __name__ == "__main__":``.
    """
    from curvewise.sweep.worker_processes import WorkerProcesses

    return WorkerProcesses(workers)


def ray(
    address: str | None = None, gpus_per_job: float = 0.0, cpus_per_job: float = 1.0
) -> Executor:
    """Return an executor of Ray tasks; needs ``pip install "curvewise[cluster]"``.

    `address` is that of a running cluster ("auto" or host:port), whose machines must have the
    same version of curvewise installed; without one, Ray is started on this machine. A job may
    take a fraction of a GPU.
    """
    from curvewise.sweep.ray_cluster import RayCluster

    return RayCluster(address, gpus_per_job, cpus_per_job)


def make_executor(
    name: str, *, workers: int | None = None, address: str | None = None, gpus: float = 0.0
) -> Executor:
    """Return an executor by name: what a command's options say.

    >>> type(make_executor("serial")).__name__
    '_Serial'
    """
    require_choice("executor", name, EXECUTORS)
    require_number("gpus", gpus, 0)
    if name != "ray" and (gpus or address is not None):
        raise InputError(f"--gpus and --address go with --executor ray, got --executor {name}")
    if name == "ray":
        return ray(address, gpus_per_job=gpus)
    return serial() if name == "serial" else processes(workers)


class _Shelf:
    """The data of the jobs under way, each loaded once and kept while a job needs them."""

    def __init__(self, executor: Executor, load: Load, data_keys: Iterable[str]) -> None:
        self._executor, self._load = executor, load
        self._unfinished = Counter(data_keys)
        self._held: dict[str, tuple[Any, str | None]] = {}

    def take(self, data_key: str) -> tuple[Any, str | None]:
        """Return data as workers are given them, and the traceback if they cannot be loaded."""
        if data_key not in self._held:
            try:
                data = self._load(data_key)
            except Exception:
                self._held[data_key] = None, traceback.format_exc()
            else:
                self._held[data_key] = self._executor.hold(data), None
        return self._held[data_key]

    def give_back(self, data_key: str) -> None:
        """Let go of data if this was the last job with them."""
        self._unfinished[data_key] -= 1
        if not self._unfinished[data_key]:
            held, trouble = self._held.pop(data_key)
            if trouble is None:
                self._executor.drop(held)


class _Serial(Executor):
    def __init__(self) -> None:
        self._given: list[tuple[Trial, bytes, list[Any]]] = []

    def workers_for(self, n_jobs: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def has_room(self) -> bool:
        return not self._given

    def give(self, trial: Trial, held: Any, task: bytes) -> None:
        self._given.append((trial, task, [held]))

    def news(self) -> Iterator[tuple[Trial, bytes | str]]:
        while self._given:
            trial, task, held = self._given.pop()
            with torch_threads(1):
                answer = answer_to(task, held.pop)
            yield trial, answer


def answer_to(task: bytes, open_data: Callable[[], Any]) -> bytes:
    """Do a pickled (work, payload) in a worker; return (outcome, traceback or None), pickled."""
    try:
        work, payload = pickle.loads(task)
        if "torch" in sys.modules:  # else, the environment holds when work imports it
            sys.modules["torch"].set_num_threads(1)
        return pickle.dumps((work(payload, open_data()), None), protocol=pickle.HIGHEST_PROTOCOL)
    except (Exception, SystemExit):
        return pickle.dumps((None, traceback.format_exc()))


def require_importable(work: Work) -> None:
    """Raise `InputError` unless other processes can import the function by its name."""
    try:
        pickle.dumps(work)
    except Exception as error:
        raise InputError(
            f"work must be a function that other processes can import, got {work!r}: {error}"
        ) from None
