"""Ways to do many independent jobs: `serial`, `processes` and `ray`, under one contract.

A job is a small payload and the name of the data it needs; `work(payload, data)` does it. The
driver loads data when the first job that needs them is handed out, and lets go of them when the
last is finished; work must not change them. Jobs are begun in their order and reported in any.
An exception is reported with its traceback, and the others go on; it is not tried again, as it
would come again. A worker that dies (out of memory, a crash in compiled code, a lost machine) is
replaced and its job tried again, three times in all. Each job runs in one thread, so that all
executors compute the same bits. Closing the iterator, or Ctrl-C, ends all that is under way.
"""

import pickle
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from curvewise.base.errors import InputError
from curvewise.base.machine import one_thread

TRIES = 3  # how often a job is begun whose worker dies

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
Handle = TypeVar("Handle")


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


class Executor(Protocol):
    """Does jobs; what the module's docstring promises holds for each."""

    def execute(
        self, jobs: Iterable[Job], work: Work, load: Load
    ) -> Generator[Finished, None, None]:
        """Yield every job's end as it comes; `work` must be importable, `load` may be anything."""


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


class _Serial:
    def execute(
        self, jobs: Iterable[Job], work: Work, load: Load
    ) -> Generator[Finished, None, None]:
        require_importable(work)
        jobs = list(jobs)
        shelf = Shelf[Any](jobs, load, lambda data: data, lambda data: None)
        for job in jobs:
            try:
                finished = self._do(job, work, shelf.take(job))
            except LoadError as failed:
                finished = Finished(job.key, error=str(failed), attempts=0)
            shelf.finish(job)
            yield finished

    @staticmethod
    def _do(job: Job, work: Work, data: Any) -> Finished:
        try:
            with one_thread():
                return Finished(job.key, work(job.payload, data))
        except (Exception, SystemExit):
            return Finished(job.key, error=traceback.format_exc())


class LoadError(Exception):
    """Data could not be loaded; the text is the traceback."""


class Shelf(Generic[Handle]):
    """The data of the jobs under way, each loaded once and kept while a job needs them.

    `store` turns loaded data into what executors hand to workers, `discard` undoes that. A load
    that failed is not tried again for the next job.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        load: Load,
        store: Callable[[Any], Handle],
        discard: Callable[[Handle], None],
    ) -> None:
        self._unfinished = Counter(job.data_key for job in jobs)
        self._load, self._store, self._discard = load, store, discard
        self._held: dict[str, Handle] = {}
        self._failed: dict[str, str] = {}

    def take(self, job: Job) -> Handle:
        """Return the job's data, or raise `LoadError`."""
        if job.data_key in self._failed:
            raise LoadError(self._failed[job.data_key])
        if job.data_key not in self._held:
            self._held[job.data_key] = self._store(self._loaded(job.data_key))
        return self._held[job.data_key]

    def finish(self, job: Job) -> None:
        """Let go of the job's data if no other job needs them."""
        self._unfinished[job.data_key] -= 1
        if not self._unfinished[job.data_key]:
            self._failed.pop(job.data_key, None)
            if job.data_key in self._held:
                self._discard(self._held.pop(job.data_key))

    def _loaded(self, data_key: str) -> Any:
        try:
            return self._load(data_key)
        except Exception:
            self._failed[data_key] = traceback.format_exc()
        raise LoadError(self._failed[data_key])


@dataclass
class Trial:
    """A job on its way through workers that may die; `deaths` tells how each did."""

    job: Job
    deaths: list[str] = field(default_factory=list)

    def answered(self, answer: bytes) -> Finished:
        """Return the end of the job that a worker answered."""
        try:
            outcome, error = pickle.loads(answer)
        except Exception:  # whatever an outcome does when it is put together again
            outcome, error = None, traceback.format_exc()
        return Finished(self.job.key, outcome, error, len(self.deaths) + 1)

    def died(self, death: str) -> Finished | None:
        """Note that the worker died; return the job's end if it is not to be tried again."""
        self.deaths.append(death)
        if len(self.deaths) < TRIES:
            return None
        text = "\n".join(f"try {n}: {death}" for n, death in enumerate(self.deaths, 1))
        return Finished(self.job.key, None, f"the worker died in every try\n{text}", TRIES)


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
