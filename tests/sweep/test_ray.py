"""Ray on a cluster of two machines (of this one), where a machine may be lost."""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import executor_jobs as work
import numpy as np
import pytest
from executor_jobs import Numbers, by_key, descendants, is_running, numbers

from curvewise.base.errors import CurvewiseError, InputError
from curvewise.sweep import ray_cluster
from curvewise.sweep.executors import Job, make_executor
from curvewise.sweep.ray_cluster import RayCluster

# A machine that is gone is noticed after a second instead of half a minute.
WATCHFUL = {"initial_delay_ms": 0, "period_ms": 250, "failure_threshold": 4}


def test_without_ray_and_with_a_share_that_cannot_be_a_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r'pip install "curvewise\[cluster\]"'):
        RayCluster()
    for gpus, message in ((-1, ">= 0"), (1.5, "a whole number if it is more than 1, got")):
        with pytest.raises(InputError, match=f"gpus must be {message}"):
            make_executor("ray", gpus=gpus)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense", "auto"])
def test_an_address_where_nobody_is_is_refused_at_once(address, monkeypatch):
    if address == "auto":
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(InputError, match=f"a running Ray cluster, got '{address}': "):
        list(RayCluster(address).execute([Job(0, 0, "0")], work.die, numbers))
    assert not RayCluster(address)._ray.is_initialized()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start two machines of one processor each; the first has a (fictitious) GPU too."""
    RayCluster()  # sets Ray's environment before it is imported
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", work.HERE)
        head = {"num_cpus": 1, "num_gpus": 1, "include_dashboard": False}
        head["_system_config"] = {f"health_check_{name}": n for name, n in WATCHFUL.items()}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(num_cpus=1)
        yield cluster
    cluster.shutdown()


@pytest.fixture
def connected(cluster: Any) -> Iterator[Any]:
    """Connect to the cluster, as a program may that uses Ray itself."""
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.mark.cluster
def test_a_ray_of_this_machine_listens_to_this_machine_only(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", work.HERE)
    RayCluster()  # sets Ray's environment before it is imported
    import ray

    ends = RayCluster().execute([Job(0, 0, "0")], work.visible_gpus, numbers)
    first = next(ends)
    hosts = [node["NodeManagerAddress"] for node in ray.nodes()]
    ends.close()
    assert first.error is None
    assert hosts == ["127.0.0.1"]


@pytest.mark.cluster
def test_a_machine_is_lost_and_all_jobs_finish(cluster, tmp_path):
    doomed = cluster.add_node(num_cpus=1)
    caught = tmp_path / "caught"
    jobs = [Job(n, (str(caught), doomed.node_id), str(n % 2)) for n in range(14)]
    ends = RayCluster(cluster.address).execute(jobs, work.linger_on_node, numbers)
    first = next(ends)
    assert caught.exists()  # a job is under way there
    cluster.remove_node(doomed, allow_graceful=False)
    found = by_key([first, *ends])
    assert {key: (end.outcome, end.error) for key, end in found.items()} == {
        n: (499_500.0 + 1000 * (n % 2), None) for n in range(14)
    }
    assert sorted(end.attempts for end in found.values()) == [1] * 13 + [2]


@pytest.mark.cluster
def test_both_machines_work_and_the_cluster_goes_on_afterwards(cluster, tmp_path):
    import ray

    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        jobs = [Job(n, str(folder), "0") for n in range(4)]
        ends = by_key(RayCluster(cluster.address).execute(jobs, work.meet_on_nodes, numbers))
        assert len({end.outcome for end in ends.values()}) == 2
        assert not ray.is_initialized()


@pytest.mark.cluster
@pytest.mark.parametrize(("share", "visible"), [(0.5, "0"), (0.0, "")])
def test_jobs_share_a_gpu_or_see_none(cluster, share, visible):
    executor = RayCluster(cluster.address, gpus=share)
    ends = by_key(executor.execute([Job(n, 0, "0") for n in (0, 1)], work.visible_gpus, numbers))
    assert [ends[n].outcome for n in (0, 1)] == [visible, visible]


@pytest.mark.cluster
def test_another_version_on_the_cluster_fails_no_job_but_stops(cluster, monkeypatch):
    monkeypatch.setattr(ray_cluster, "VERSIONS", ("9.9", 7))
    with pytest.raises(CurvewiseError, match=r"must be able to run curvewise .*9\.9.*7"):
        list(RayCluster(cluster.address).execute([Job(0, 0, "0")], work.die, numbers))


@pytest.mark.cluster
def test_what_no_machine_has_is_waited_for_with_a_warning(cluster: Any, connected: Any) -> None:
    executor = RayCluster(cluster.address, gpus=8)
    with pytest.warns(UserWarning, match="wait for a machine with 1 CPU and 8 GPU to join"):
        executor._require_machine(may_come=True)
    with pytest.raises(InputError, match="must find 1 CPU and 8 GPU on this machine"):
        executor._require_machine(may_come=False)


@pytest.mark.cluster
def test_data_leave_the_object_store_after_their_last_job(connected: Any) -> None:
    def referred() -> int:
        """Return how many objects this process keeps in the store."""
        worker = connected._private.worker.global_worker.core_worker
        return len(worker.get_all_reference_counts())

    loaded: set[str] = set()

    def load(data_key: str) -> Numbers:
        loaded.add(data_key)
        return Numbers(data_key, np.zeros(2_500_000))  # 20 MB

    jobs = [Job(n, 1.0, str(n // 4)) for n in range(24)]
    unfinished = {job.key: job.data_key for job in jobs}
    for end in RayCluster().execute(jobs, work.weighted_sum, load):
        assert end.error is None
        del unfinished[end.key]
        needed = loaded & set(unfinished.values())
        # The answers of tasks under way (two that run, four ahead), and data.
        assert len(needed) <= referred() <= 6 + len(needed)
    assert not unfinished
    while referred():
        time.sleep(0.05)
    assert connected.is_initialized()  # what was there before stays


@pytest.mark.cluster
def test_closing_after_the_connection_is_gone_starts_no_other(
    connected: Any, tmp_path: Path
) -> None:
    jobs = [Job(0, "", "0"), Job(1, str(tmp_path), "0")]
    ends = RayCluster().execute(jobs, work.sleep_long, numbers)
    assert next(ends).key == 0
    connected.shutdown()
    ends.close()
    assert not connected.is_initialized()


@pytest.mark.cluster
def test_a_ray_of_its_own_is_silent(tmp_path):
    said = work.start_driver("ray", "hush", str(tmp_path)).communicate(timeout=120)
    assert said == ("[(0, 'alive', 1), (1, None, 3)]\n", "")


@pytest.mark.cluster
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_ray_of_its_own_ends_with_the_driver(tmp_path, how):
    driver = work.start_driver("ray", "sleep_long", str(tmp_path))
    while not list(tmp_path.iterdir()):
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.05)
    children = descendants(driver.pid)
    assert {"raylet", "gcs_server"} <= set(children.values())
    assert {int(path.name) for path in tmp_path.iterdir()} <= set(children)
    if how == signal.SIGKILL:  # Ray's own agents need a minute to notice
        children = {number: name for number, name in children.items() if name != "Agent"}
    driver.send_signal(how)
    driver.communicate(timeout=50)  # the jobs would take a minute
    while any(is_running(number) for number in children):
        time.sleep(0.05)
