"""Jobs as tasks of Ray, on a cluster or on this machine.

The machines of a cluster must have the driver's version of curvewise installed, in the
interpreter that ``ray start`` was called with. Data travel once, as an object that all tasks refer
to; answers come back to the driver, which alone writes results.

Tries are counted here and not by Ray, which tells nobody how often it began a task, and which
begins one that runs out of memory again and again without end.
"""

import logging
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from curvewise.base.errors import CurvewiseError, InputError, require
from curvewise.base.machine import NUMERICS_VERSION, VERSION, processors
from curvewise.sweep.executors import ONE_THREAD, Executor, Trial, answer_to

AHEAD = 4  # tasks beyond those that can run at once, so that no machine waits for the driver
LOOK_SECONDS = 1.0  # how long a wait lasts before machines are counted again
CONNECT_SECONDS = 10.0
DEATHS = ("WorkerCrashed", "NodeDied", "LocalRayletDied", "OutOfMemory", "ObjectLost")
VERSIONS = (VERSION, NUMERICS_VERSION)

# To be set before Ray is imported. It writes notices of dead workers to standard output, where
# results are; what they say is in the job's end.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
# Without this Ray puts the machine's own address in the place of the loopback's, where it listens
# to the network. Its name is of the systems for which it was made; it holds on all.
ONLY_THIS_MACHINE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class RayCluster(Executor):
    """Executor of Ray tasks, of a CPU and a number of GPUs that may be a fraction; needs Ray.

    If this process has a connection to Ray, that is used and left open. Otherwise one to `address`
    ("auto" or host:port) is made, or without an address a Ray of this machine's processors is
    started, and ended.
    """

    def __init__(self, address: str | None = None, gpus: float = 0.0) -> None:
        self.address = None if address == "local" else address
        self.needs = {"CPU": 1.0, "GPU": gpus}
        here = self.address is None or _host_and_port(self.address)[0] in LOOPBACK
        for name, value in (ENVIRONMENT | (ONLY_THIS_MACHINE if here else {})).items():
            os.environ.setdefault(name, value)
        try:
            self._ray: Any = import_module("ray")
        except ImportError as error:
            raise InputError(
                f'the executor ray needs the package ray (pip install "curvewise[cluster]"), but '
                f"importing it gave {error}"
            ) from error
        self._deaths = tuple(getattr(self._ray.exceptions, f"{name}Error") for name in DEATHS)

    @contextmanager
    def workers_for(self, n_jobs: int) -> Iterator[None]:
        """Connect to Ray, unless this process is; at the end cancel all tasks under way."""
        self._running: dict[Any, Trial] = {}
        own = not self._ray.is_initialized()
        if own:
            self._connect()
        try:
            self._require_machine(may_come=not own or self.address is not None)
            yield
        finally:
            if self._ray.is_initialized():  # else cancelling would start a Ray
                for reference in self._running:
                    self._ray.cancel(reference, force=True)
                if own:
                    self._ray.shutdown()

    def hold(self, data: Any) -> Any:
        """Put data into the object store, for as long as the reference is kept."""
        return self._ray.put(data)

    def has_room(self) -> bool:
        """Return whether there are fewer tasks than wanted; machines come and go."""
        has = self._ray.cluster_resources()
        slots = min(has.get(name, 0.0) / n for name, n in self.needs.items() if n)
        return len(self._running) < int(slots) + AHEAD

    def give(self, trial: Trial, held: Any, task: bytes) -> None:
        """Submit a job as a task."""
        hidden = {} if self.needs["GPU"] else {"CUDA_VISIBLE_DEVICES": ""}  # else all see all
        needs = {"num_cpus": self.needs["CPU"], "num_gpus": self.needs["GPU"], "max_retries": 0}
        surroundings = {"env_vars": ONE_THREAD | hidden}
        perform = self._ray.remote(_perform).options(**needs, runtime_env=surroundings)
        self._running[perform.remote(VERSIONS, task, held)] = trial

    def news(self) -> Iterator[tuple[Trial, bytes | str]]:
        """Wait for a task; yield its job with the answer or with what became of the worker."""
        running = list(self._running)
        for reference in self._ray.wait(running, timeout=LOOK_SECONDS)[0] if running else []:
            trial = self._running.pop(reference)
            try:
                yield trial, self._ray.get(reference)
            except self._deaths as error:
                yield trial, f"{type(error).__name__}: {error}"
            except self._ray.exceptions.RayError as error:
                # What work raises is in its answer, so this is about all jobs.
                reason = str(error).strip().rpartition("\n")[2]
                raise CurvewiseError(
                    f"the machines of the cluster must be able to run curvewise {VERSION}, got "
                    f"{reason}"
                ) from error

    def _connect(self) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self.address is None:
            # Nobody else is to reach a Ray that serves this process alone.
            only_here = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            self._ray.init("local", num_cpus=processors(), **only_here, **quiet)
            return
        try:
            auto = self.address == "auto" and os.environ.get("RAY_ADDRESS")
            self._require_somebody(auto or self.address)
            self._ray.init(self.address, **quiet)
        except Exception as error:  # of many kinds
            reason = str(error).strip().partition("\n")[0]
            raise InputError(
                f"address must be that of a running Ray cluster, got {self.address!r}: {reason}"
            ) from error

    def _require_somebody(self, address: str) -> None:
        """Raise if nobody listens at host:port, where Ray itself would try for minutes."""
        if address == "auto":
            return
        host, port = _host_and_port(address)
        if not host or not port.isdigit():
            raise ValueError("it is neither 'auto' nor host:port")
        if host in LOOPBACK:  # which Ray may replace
            host = self._ray.util.get_node_ip_address()
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()

    def _require_machine(self, may_come: bool) -> None:
        """Raise or warn if no machine can run a job: Ray would wait for one without a word."""
        for node in self._ray.nodes():
            has = node["Resources"]
            if node["Alive"] and all(has.get(name, 0) >= n for name, n in self.needs.items()):
                return
        wanted = " and ".join(f"{n:g} {name}" for name, n in self.needs.items() if n)
        require(may_come, f"a job must find {wanted} on this machine, got fewer")
        warnings.warn(f"jobs wait for a machine with {wanted} to join the cluster", stacklevel=2)


def _perform(versions: tuple[str, int], task: bytes, data: Any) -> bytes:
    """Do a job; runs on the cluster."""
    if versions != VERSIONS:
        raise RuntimeError(f"versions {VERSIONS} on a machine where the driver has {versions}")
    # Ray's arrays are read-only; torch warns of that, and nothing writes to them.
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    return answer_to(task, lambda: data)


def _host_and_port(address: str) -> tuple[str, str]:
    """Split an address.

    >>> _host_and_port("ray://127.0.0.1:6379"), _host_and_port("auto")
    (('127.0.0.1', '6379'), ('', 'auto'))
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    return host, port
