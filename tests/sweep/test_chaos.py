"""A sweep that is killed again and again ends with the records of one that never was."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from executor_jobs import descendants, processes

from curvewise.sweep import ray_cluster
from curvewise.sweep.store import Store

KILLS = 20
SPEC = """
name = "chaos"
tasks = ["digits:0", "digits:1", "digits:2", "digits:3", "digits:4"]
betas = [20]
seeds = [0, 1]
network = { name = "mlp", hidden = [64, 64] }
recipe = { preset = "quick", epochs = 250 }
methods = [
    { method = "vs", tau = [0, 1, 2] },
    { method = "lct", tau = ["0:3:0", "0:3:0.33", "0:3:0.66"] },
]
"""


def start(folder: Path, *words: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "curvewise", "sweep", "run", str(folder / "chaos.toml")]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command += ["--store", str(folder / "chaos.db"), *words]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def records(folder: Path) -> dict:
    """All that was recorded, but for how long it took and when."""
    with Store(folder / "chaos.db", readonly=True) as store:
        found = [
            (r.identity, r.state, r.metrics, r.run, store.scores(r.identity).tobytes())
            for r in store.runs("chaos")
        ]
    assert len({row[0] for row in found}) == len(found) == 60
    return {row[0]: row[1:] for row in found}


def children(pid: int) -> list[int]:
    """The worker processes of a driver."""
    return [number for number, (parent, _, _) in processes().items() if parent == pid]


def ray_workers(pid: int) -> list[int]:
    """Processes of our cluster that do tasks or wait for one; its agents are not ours to kill."""
    names = descendants(os.getpid())
    return [number for number, name in names.items() if re.match("ray::(IDLE|[a-z_])", name)]


@contextmanager
def two_nodes():
    os.environ |= ray_cluster.ENVIRONMENT | ray_cluster.ONLY_THIS_MACHINE  # before the import
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    settings = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=settings)
    cluster.add_node(**settings)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def torment(folder: Path, expected: dict, workers_of, *words: str) -> None:
    """Kill driver or worker at random moments, starting anew each time."""
    chance, kills = random.Random(folder.name), 0
    (folder / "chaos.toml").write_text(SPEC)
    driver = start(folder, *words)
    while kills < KILLS:
        while driver.poll() is None and not workers_of(driver.pid):
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 5))
        workers = workers_of(driver.pid)
        if driver.poll() is not None:  # done before its time: begin once more
            assert driver.returncode == 0, (folder / "log.txt").read_text()[-2000:]
            assert records(folder) == expected
            (folder / "chaos.db").unlink()
        else:
            spared = bool(workers) and chance.random() < 0.5
            with suppress(ProcessLookupError):  # a worker that has just ended
                os.kill(chance.choice(workers) if spared else driver.pid, signal.SIGKILL)
                kills += 1
            if spared and chance.random() < 0.5:
                continue  # the driver is to cope with its loss
        driver.kill()
        driver.wait()
        driver = start(folder, *words)
    assert driver.wait(timeout=900) == 0, (folder / "log.txt").read_text()[-2000:]
    assert records(folder) == expected


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "chaos.toml").write_text(SPEC)
    assert start(folder, "--executor", "serial").wait(timeout=900) == 0
    return records(folder)


@pytest.mark.slow
def test_processes_that_are_killed(undisturbed, tmp_path):
    torment(tmp_path, undisturbed, children, "--executor", "processes", "--workers", "2")


@pytest.mark.cluster
def test_a_cluster_that_is_killed(undisturbed, tmp_path):
    with two_nodes() as address:
        words = ("--executor", "ray", "--address", address)
        torment(tmp_path, undisturbed, ray_workers, *words)
