"""Work and data for the tests of executors: functions that worker processes can import."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvewise.sweep.executors import Finished

# Where other processes find this file.
HERE = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))

# Where tests run in the background, Ctrl-C is ignored until a program asks for it.
DRIVER = """
import signal, sys
import executor_jobs as work
from curvewise.sweep.executors import Job, make_executor
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    name, job, folder = sys.argv[1:]
    executor = make_executor(name, workers=2)
    jobs = [Job(n, n if job == "hush" else folder, "0") for n in (0, 1)]
    try:
        ends = list(executor.execute(jobs, getattr(work, job), lambda data_key: None))
        print(sorted((end.key, end.outcome, end.attempts) for end in ends))
    except KeyboardInterrupt:
        print("interrupted")
"""


def start_driver(*words: str, **environment: str) -> "subprocess.Popen[str]":
    """Start a script with words (executor, job, folder) in a process group of its own."""
    script = Path(words[-1]).with_suffix(".py")
    script.write_text(DRIVER)
    command = [sys.executable, str(script), *words]
    surroundings = {"PYTHONPATH": HERE, **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, start_new_session=True, env=os.environ | surroundings, **pipes)


@dataclass
class Numbers:
    """Data of a job."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.int64] | None = None


def numbers(data_key: str) -> Numbers:
    return Numbers(data_key, np.arange(1000.0) + int(data_key), np.arange(3))


def by_key(ends: Iterable[Finished]) -> dict[int, Finished]:
    """Return the ends by key, having seen each job end once."""
    listed = list(ends)
    found = {end.key: end for end in listed}
    assert len(found) == len(listed), "reported twice"
    return found


def processes() -> dict[int, tuple[int, int, str]]:
    """Return parent, group and name of each process, but of those of which only a rest is left."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            whole = path.with_name("cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent, group = rest.split()[:3]
        if state != "Z":
            name = whole.rpartition("Agent")[1] or name
            found[int(path.parent.name)] = int(parent), int(group), name
    return found


def is_running(number: int) -> bool:
    return number in processes()


def descendants(number: int) -> dict[int, str]:
    """Return the processes that a process has started, and they in turn, with their names."""
    known, found, above = processes(), {}, {number}
    while above:
        above = {child for child, (parent, _, _) in known.items() if parent in above}
        found |= {child: known[child][2] for child in above}
    return found


def do(payload: tuple[str, Any], data: Any) -> Any:
    """Do the job below that is named, with its own payload."""
    name, own = payload
    return globals()[name](own, data)


def weighted_sum(payload: float, data: Numbers) -> tuple[str, float]:
    return data.name, payload * float(data.x.sum())


def grumble(payload: int, data: Numbers) -> int:
    if payload % 2:
        raise ZeroDivisionError(f"job {payload} divides by zero")
    return payload


class LockedError(Exception):
    """An exception that can neither be pickled nor be made from its text."""

    def __init__(self, number: int, *, colour: str) -> None:
        super().__init__(f"{colour} {number}")
        self.lock = threading.Lock()


def raise_unpicklable(payload: int, data: Any) -> None:
    raise LockedError(payload, colour="green")


def leave(payload: int, data: Any) -> None:
    sys.exit(f"left with {payload}")


def big_array(payload: int, data: Any) -> NDArray[np.uint8]:
    return np.random.default_rng(payload).integers(0, 256, 50_000_000, dtype=np.uint8)


def unpicklable_outcome(payload: int, data: Any) -> Any:
    return threading.Lock() if payload else "fine"


class Grudge:
    """An outcome that can be pickled, and not be put together again."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise KeyError("not again")


def grudge(payload: int, data: Any) -> Grudge:
    return Grudge()


def die_at_first(payload: tuple[str, str], data: Numbers) -> float:
    """Die unless the marker is there; leave one."""
    marker, how = payload
    if how and not Path(marker).exists():
        Path(marker).touch()
        die(how, data)
    return float(data.x.sum())


def die(payload: str, data: Any) -> str:
    if payload == "exit":
        os._exit(7)
    if payload:
        os.kill(os.getpid(), getattr(signal, payload))
        time.sleep(60)
    return "alive"


def count_and_die(payload: str, data: Any) -> None:
    with Path(payload).open("a") as file:
        file.write("begun\n")
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def threads(payload: int, data: Any) -> tuple[int, str | None]:
    """Return torch's number of threads, and ask for more in the next job of this process."""
    import torch

    seen = torch.get_num_threads()
    torch.set_num_threads(3)
    return seen, os.environ.get("OMP_NUM_THREADS")


def sleep_long(payload: str, data: Any) -> None:
    """Leave a file with this process's number, then stay; the first job returns at once."""
    if payload:
        Path(payload, str(os.getpid())).touch()
        time.sleep(60)


def spin(payload: str, data: Any) -> None:
    """As `sleep_long`, but busy."""
    Path(payload, str(os.getpid())).touch()
    stop = time.monotonic() + 60
    while time.monotonic() < stop:
        pass


def slay_the_idle(payload: tuple[str, str], data: Any) -> str:
    """Job "quick" leaves its number; job "slow" kills that process, then at first itself."""
    folder, role = Path(payload[0]), payload[1]
    if role == "quick":
        (folder / "idle").write_text(str(os.getpid()))
        return role
    if not (folder / "slain").exists():
        while not (folder / "answered").exists():
            time.sleep(0.01)
        os.kill(int((folder / "idle").read_text()), signal.SIGKILL)
        (folder / "slain").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return role


def meet(folder: str, data: Any) -> int:
    """Leave this process's number, wait for that of another, return it."""
    return int(_met(folder, str(os.getpid())))


def meet_on_nodes(folder: str, data: Any) -> str:
    """Leave the name of this machine of the cluster, wait for that of another, return it."""
    import ray

    return _met(folder, ray.get_runtime_context().get_node_id())


def _met(folder: str, name: str) -> str:
    Path(folder, name).touch()
    while len(list(Path(folder).iterdir())) < 2:
        time.sleep(0.01)
    return name


def linger_on_node(payload: tuple[str, str], data: Numbers) -> float:
    """Stay for long on the machine that is named, having said so; elsewhere wait for that."""
    import ray

    caught, doomed = Path(payload[0]), payload[1]
    if ray.get_runtime_context().get_node_id() == doomed:
        caught.touch()
        time.sleep(60)
    while not caught.exists():
        time.sleep(0.01)
    return float(data.x.sum())


def visible_gpus(payload: Any, data: Any) -> str | None:
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def hush(payload: int, data: Any) -> str:
    """Write where workers write; the second job dies."""
    print("output of a worker", flush=True)
    print("errors of a worker", file=sys.stderr, flush=True)
    return die("SIGKILL" if payload else "", data)
