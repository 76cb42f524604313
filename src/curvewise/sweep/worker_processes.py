"""Jobs in worker processes of this machine, which come and go with the driver.

What arrays hold is in files of a temporary folder, which all workers map into memory; it is removed
with the last worker, also when the driver was killed.
"""

import copyreg
import faulthandler
import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from curvewise.base.errors import CurvewiseError, require_number
from curvewise.base.machine import processors
from curvewise.sweep.executors import ONE_THREAD, Executor, Trial, answer_to

BEGUN = b""  # what a worker says when it has got a job; its answer follows
LOOK_SECONDS = 1.0  # how long a death may stay unnoticed that no pipe tells of
STOP_SECONDS = 1.0  # what a dying worker has to be gone
UNBEGUN_LIMIT = 5  # workers in a row that die before their job
PREFIX = "curvewise-data-"
OBJECT, ARRAY = "object.pickle", "{}.array"


class WorkerProcesses(Executor):
    """Executor of `workers` new interpreters, by default one for each processor."""

    def __init__(self, workers: int | None = None) -> None:
        number = processors() if workers is None else require_number("workers", workers, 1)
        self.workers = int(number)

    @contextmanager
    def workers_for(self, n_jobs: int) -> Iterator[None]:
        """Start workers when there is something for them to do, no more than jobs."""
        self._crew: list[_Worker] = []
        self._size, self._numbers, self._unbegun = min(self.workers, n_jobs), count(1), 0
        with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
            self._folder = Path(folder)
            try:
                yield
            finally:
                for worker in self._crew:  # whatever they do: none holds what another has not
                    worker.process.kill()
                for worker in self._crew:
                    worker.process.join()
                    worker.connection.close()

    def hold(self, data: Any) -> Path:
        """Write data to files; return their folder."""
        place = self._folder / f"data-{next(self._numbers)}"
        try:
            write_data(place, data)
        except OSError as error:
            raise CurvewiseError(
                f"data for the worker processes must fit into {self._folder.parent}, got {error}: "
                f"choose another folder by the environment variable TMPDIR"
            ) from error
        return place

    def drop(self, held: Path) -> None:
        """Remove the files of data; maps that are open stay valid."""
        shutil.rmtree(held, ignore_errors=True)

    def has_room(self) -> bool:
        """Return whether a worker has no job."""
        return sum(worker.trial is not None for worker in self._crew) < self._size

    def give(self, trial: Trial, held: Path, task: bytes) -> None:
        """Give a job to a worker that has none, or to a new one."""
        worker = next((worker for worker in self._crew if worker.trial is None), None)
        if worker is None:
            worker = _Worker(self._folder / f"trace-{next(self._numbers)}")
            self._crew.append(worker)
        worker.give(trial, held, task)

    def news(self) -> Iterator[tuple[Trial, bytes | str]]:
        """Wait for answers and deaths; a job that a dead worker had not begun goes to another."""
        busy = [worker for worker in self._crew if worker.trial is not None]
        wait([worker.connection for worker in busy], LOOK_SECONDS)
        for worker in busy:
            trial, job, news = worker.trial, worker.job, worker.news()
            if worker.begun:
                self._unbegun = 0
            if trial is None or news is None:
                continue
            if isinstance(news, str):
                self._crew.remove(worker)
            if worker.begun:
                yield trial, news
                continue
            self._unbegun += 1
            if self._unbegun >= UNBEGUN_LIMIT:
                raise CurvewiseError(
                    f"worker processes must be able to start, got {self._unbegun} in a row that "
                    f"died before their job, the last {news!s}; a script that uses them needs "
                    f"'if __name__ == \"__main__\":'"
                )
            self.give(trial, *job)


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

    def give(self, trial: Trial, place: Path, task: bytes) -> None:
        """Send a job."""
        self.trial, self.job, self.begun = trial, (place, task), False
        with suppress(OSError):  # a worker that is dead already: `news` tells
            self.connection.send(self.job)

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

    def _death(self) -> str:
        self.connection.close()
        self.process.join(STOP_SECONDS)
        self.process.kill()
        self.process.join()
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
    before = {name: os.environ[name] for name in ONE_THREAD if name in os.environ}
    os.environ.update(ONE_THREAD)
    resource_tracker.ensure_running()  # it would let the signal through again
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        for name in ONE_THREAD:
            del os.environ[name]
        os.environ.update(before)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _serve(connection: Connection, trace: Path) -> None:
    """Do the jobs that come through the connection until it is closed: a worker's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with trace.open("w") as file:
        threading.Thread(target=_end_with_driver, args=(trace.parent,), daemon=True).start()
        # A crash in compiled code writes where it happened.
        faulthandler.enable(file, all_threads=False)
        while True:
            try:
                place, task = connection.recv()
            except EOFError:
                return
            connection.send_bytes(BEGUN)
            connection.send_bytes(answer_to(task, partial(read_data, place)))


def _end_with_driver(folder: Path) -> None:
    """End this worker, whatever it does, when the driver is gone, and remove what it left."""
    driver = parent_process()
    if driver is not None:
        driver.join()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def write_data(place: Path, data: Any) -> None:
    """Write picklable data into a new folder, what arrays hold in files of their own."""
    place.mkdir()
    buffers: list[pickle.PickleBuffer] = []
    with (place / OBJECT).open("wb") as file:
        pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        own: dict[Any, Any] = dict.fromkeys((np.ndarray, np.memmap), _reduced)
        pickler.dispatch_table = {**copyreg.dispatch_table, **own}
        pickler.dump(data)
    for number, buffer in enumerate(buffers):
        (place / ARRAY.format(number)).write_bytes(buffer.raw())


def read_data(place: Path) -> Any:
    """Return data that `write_data` wrote, with arrays that are mapped, not read.

    A change to such an array stays within the process (copy on write).
    """
    files = (place / ARRAY.format(number) for number in range(len(list(place.iterdir())) - 1))
    maps = (np.memmap(file, mode="c") if file.stat().st_size else b"" for file in files)
    return pickle.loads((place / OBJECT).read_bytes(), buffers=maps)


def _reduced(array: Any) -> Any:
    """Return how to map an array's file again, if it is a read-only map, else that it is a buffer.

    A map that is written to, or of which a view leaves gaps, is a buffer like any other array.
    """
    whole = array
    while isinstance(getattr(whole, "base", None), np.memmap):
        whole = whole.base
    name = getattr(whole, "filename", None)
    if name is None or whole.mode != "r" or not (array.size and array.flags.c_contiguous):
        content = np.asarray(array, order="K" if array.flags.forc else "C")
        return content.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    begin = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return np.memmap, (os.path.abspath(name), array.dtype, "r", whole.offset + begin, array.shape)
