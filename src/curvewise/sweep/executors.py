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

from curvewise.base.errors import InputError, require, require_choice, require_number
from curvewise.base.machine import torch_threads

TRIES = 3  # how often a job is begun whose worker dies
EXECUTORS = ("serial", "processes", "ray")

# A worker's environment, to be set before it imports numpy and torch. Compiling in one process
# too: a pool of compilers would outlive a worker that is ended.
_THREADS = ("OMP_NUM", "MKL_NUM", "OPENBLAS_NUM", "TORCHINDUCTOR_COMPILE")
ONE_THREAD = {f"{name}_THREADS": "1" for name in _THREADS}


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
        self, jobs: Iterable[Job], work: Callable[[Any, Any], Any], load: Callable[[str], Any]
    ) -> Generator[Finished, None, None]:
        """Yield every job's end as it comes; `work` must be importable, `load` may be anything."""
        try:
            pickle.dumps(work)
        except Exception as error:
            raise InputError(
                f"work must be a function that other processes can import, got {work!r}: {error}"
            ) from None
        waiting = deque(map(Trial, jobs))
        unfinished = Counter(trial.job.data_key for trial in waiting)
        held: dict[str, tuple[Any, str | None]] = {}
        ends: list[tuple[str, Finished]] = []
        with self.workers_for(len(waiting)):
            while unfinished:
                while waiting and self.has_room():
                    trial = waiting.popleft()
                    key = trial.job.data_key
                    if key not in held:
                        held[key] = self._loaded(load, key)
                    if trouble := held[key][1]:
                        ends.append((key, Finished(trial.job.key, error=trouble, attempts=0)))
                    else:
                        self.give(trial, held[key][0], pickle.dumps((work, trial.job.payload)))
                for key, end in ends:  # workers go on meanwhile
                    unfinished[key] -= 1
                    if not unfinished[key]:
                        if held[key][1] is None:
                            self.drop(held[key][0])
                        del unfinished[key], held[key]
                    yield end
                ends = []
                for trial, news in self.news():
                    if known := trial.end(news):
                        ends.append((trial.job.data_key, known))
                    else:
                        waiting.appendleft(trial)

    def _loaded(self, load: Callable[[str], Any], data_key: str) -> tuple[Any, str | None]:
        """Return data as workers are given them, and the traceback if they cannot be loaded."""
        try:
            data = load(data_key)
        except Exception:
            return None, traceback.format_exc()
        return self.hold(data), None

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


def make_executor(
    executor: str, *, workers: int | None = None, address: str | None = None, gpus: float = 0.0
) -> Executor:
    """Return an executor by name: what a command's options say.

    >>> type(make_executor("serial")).__name__
    'Serial'
    """
    require_choice("executor", executor, EXECUTORS)
    require_number("gpus", gpus, 0)
    whole = gpus <= 1 or gpus == int(gpus)
    require(whole, f"gpus must be a whole number if it is more than 1, got {gpus:g}")
    local = gpus == 0 and address is None
    sentence = f"--gpus and --address go with --executor ray, got --executor {executor}"
    require(local or executor == "ray", sentence)
    if executor == "serial":
        return Serial()
    if executor == "processes":
        from curvewise.sweep.worker_processes import WorkerProcesses

        return WorkerProcesses(workers)
    from curvewise.sweep.ray_cluster import RayCluster

    return RayCluster(address, gpus)


class Serial(Executor):
    """Executor that does one job after another, in this process.

    >>> from operator import mul
    >>> jobs = [Job(key, payload, "ten") for key, payload in enumerate([1, 2])]
    >>> [done.outcome for done in Serial().execute(jobs, mul, {"ten": 10}.get)]
    [10, 20]
    """

    def __init__(self) -> None:
        self._given: list[tuple[Trial, bytes, list[Any]]] = []

    def workers_for(self, n_jobs: int) -> AbstractContextManager[Any]:
        """Return no surroundings."""
        return nullcontext()

    def has_room(self) -> bool:
        """Return whether the last job given is done."""
        return not self._given

    def give(self, trial: Trial, held: Any, task: bytes) -> None:
        """Keep the job until `news` is asked for."""
        self._given.append((trial, task, [held]))

    def news(self) -> Iterator[tuple[Trial, bytes | str]]:
        """Do the job."""
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
