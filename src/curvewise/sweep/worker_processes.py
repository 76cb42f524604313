"""Jobs in worker processes of this machine, which come and go with the driver."""

import faulthandler
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path

from curvewise.base.errors import CurvewiseError, require_number
from curvewise.base.machine import processors
from curvewise.sweep import array_files
from curvewise.sweep.array_files import ArrayFolder
from curvewise.sweep.executors import (
    ONE_THREAD,
    Finished,
    Job,
    Load,
    LoadError,
    Shelf,
    Trial,
    Work,
    answer_to,
    require_importable,
)

BEGUN = b""  # what a worker says when it has got a job; its answer follows
LOOK_SECONDS = 1.0  # how long a death may stay unnoticed that no pipe tells of
STOP_SECONDS = 1.0  # what a worker has to end by itself
UNBEGUN_LIMIT = 5  # workers in a row that die before their job


class WorkerProcesses:
    """Executor of `workers` new interpreters, by default one for each processor."""

    def __init__(self, workers: int | None = None) -> None:
        count = processors() if workers is None else require_number("workers", workers, 1)
        self.workers = int(count)

    def execute(
        self, jobs: Iterable[Job], work: Work, load: Load
    ) -> Generator[Finished, None, None]:
        """Yield the end of every job as it comes."""
        require_importable(work)
        jobs = list(jobs)
        waiting, ends = deque(map(Trial, jobs)), list[Finished]()
        with ArrayFolder() as folder:
            shelf = Shelf(jobs, load, folder.write, folder.remove)
            with _Crew(min(self.workers, len(jobs)), folder.path) as crew:
                while waiting or ends or crew.is_busy():
                    ends.extend(_hand_out(waiting, crew, work, shelf))
                    while ends:  # after the next jobs are given: workers go on meanwhile
                        yield ends.pop(0)
                    ends.extend(_collect(waiting, crew, shelf))


def _hand_out(
    waiting: deque[Trial], crew: "_Crew", work: Work, shelf: Shelf[Path]
) -> Iterator[Finished]:
    """Give jobs to all workers that have none; yield the end of those without data."""
    while waiting and crew.has_room():
        trial = waiting.popleft()
        try:
            place = shelf.take(trial.job)
        except LoadError as failed:
            shelf.finish(trial.job)
            yield Finished(trial.job.key, error=str(failed), attempts=0)
        else:
            crew.give(trial, place, pickle.dumps((work, trial.job.payload)))


def _collect(waiting: deque[Trial], crew: "_Crew", shelf: Shelf[Path]) -> Iterator[Finished]:
    """Wait for news; yield the ends of jobs, put those back that are to be tried again."""
    for trial, news in crew.news():
        if isinstance(news, bytes):
            end: Finished | None = trial.answered(news)
        else:
            end = None if news is None else trial.died(news)
        if end is None:
            waiting.appendleft(trial)
        else:
            shelf.finish(trial.job)
            yield end


class _Crew:
    """Up to `size` workers, started when there is something for them to do."""

    def __init__(self, size: int, folder: Path) -> None:
        self._size, self._folder = size, folder
        self._workers: list[_Worker] = []
        self._started = 0
        self._unbegun = 0  # workers in a row that died before their job

    def __enter__(self) -> "_Crew":
        return self

    def __exit__(self, *error: object) -> None:
        """End all workers, whatever they do: none holds anything that another has not."""
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for worker in self._workers:
            worker.end_by(deadline)
            worker.connection.close()

    def is_busy(self) -> bool:
        """Return whether a job is under way."""
        return any(worker.trial is not None for worker in self._workers)

    def has_room(self) -> bool:
        """Return whether one more job can be given."""
        return sum(worker.trial is not None for worker in self._workers) < self._size

    def give(self, trial: Trial, place: Path, task: bytes) -> None:
        """Give a job to a worker that has none, or to a new one."""
        worker = next((one for one in self._workers if one.trial is None), None)
        if worker is None:
            self._started += 1
            worker = _Worker(self._folder / f"trace-{self._started}")
            self._workers.append(worker)
        worker.give(trial, place, task)

    def news(self) -> Iterator[tuple[Trial, bytes | str | None]]:
        """Wait; yield jobs with their answer, with their worker's death, or None if not begun."""
        busy = [worker for worker in self._workers if worker.trial is not None]
        if busy:
            wait([worker.connection for worker in busy], LOOK_SECONDS)
        for worker in busy:
            trial, news = worker.trial, worker.news()
            self._unbegun = 0 if worker.begun else self._unbegun
            if trial is None or news is None:
                continue
            if isinstance(news, str):
                self._workers.remove(worker)
                self._unbegun += not worker.begun
                self._require_beginners(news)
            yield trial, news if worker.begun else None

    def _require_beginners(self, death: str) -> None:
        if self._unbegun >= UNBEGUN_LIMIT:
            raise CurvewiseError(
                f"worker processes must be able to start, got {self._unbegun} in a row that died "
                f"before their job, the last {death}; a script that uses them needs "
                f"'if __name__ == \"__main__\":'"
            )


class _Worker:
    """A process, the pipe to it, and the job it has."""

    def __init__(self, trace: Path) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, trace), daemon=True)
        with _worker_surroundings():
            self.process.start()
        theirs.close()
        self.trace = trace
        self.trial: Trial | None = None
        self.begun = False

    def give(self, trial: Trial, place: Path, task: bytes) -> None:
        """Send a job."""
        self.trial, self.begun = trial, False
        with suppress(OSError):  # a worker that is dead already: `news` tells
            self.connection.send((place, task))

    def news(self) -> bytes | str | None:
        """Return the answer to the job, or how the worker died; None if there is neither."""
        ended = self.process.exitcode is not None  # a child of its own may keep the pipe open
        try:
            while self.connection.poll():
                message = self.connection.recv_bytes()
                if message != BEGUN:
                    self.trial = None
                    return message
                self.begun = True
        except (EOFError, OSError):
            ended = True
        return self._death() if ended else None

    def end_by(self, deadline: float) -> None:
        """Wait for the process to end; at the deadline, end it."""
        self.process.join(max(0.0, deadline - time.monotonic()))
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()

    def _death(self) -> str:
        self.end_by(time.monotonic() + STOP_SECONDS)
        self.connection.close()
        code = self.process.exitcode or 0
        names = {-number: f"by signal {number.name}" for number in signal.Signals}
        hint = ", as the system does when memory runs out" if code == -signal.SIGKILL else ""
        trace = self.trace.read_text(errors="replace") if self.trace.exists() else ""
        trace = trace.partition("\nExtension modules:")[0]
        return f"ended {names.get(code, f'with exit code {code}')}{hint}\n{trace}".rstrip()


@contextmanager
def _worker_surroundings() -> Iterator[None]:
    """Give a process started inside the block one thread, and no ear for Ctrl-C.

    The driver decides what Ctrl-C ends; a worker that has not come to ignore it yet would die.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    if sys.platform != "win32":
        resource_tracker.ensure_running()  # it would let the signal through again
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _serve(connection: Connection, trace: Path) -> None:
    """Do the jobs that come through the connection until it is closed: a worker's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_driver, daemon=True).start()
    with trace.open("w") as file:
        faulthandler.enable(
            file, all_threads=False
        )  # a crash in compiled code writes where it happened
        while True:
            try:
                place, task = connection.recv()
            except EOFError:
                return
            connection.send_bytes(BEGUN)
            connection.send_bytes(answer_to(task, partial(array_files.read, place)))


def _end_with_driver() -> None:
    """End this worker, whatever it does, when the driver is gone."""
    driver = parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)
