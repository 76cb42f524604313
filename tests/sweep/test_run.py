"""A sweep trains what is missing, once, and loses nothing."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from curvewise.base.machine import machine, processor_names
from curvewise.sweep.executors import Finished, Serial
from curvewise.sweep.plan import Problem, ProblemInfo
from curvewise.sweep.run import SweepProgress, run_sweep
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store, StoreError

GIVEN = {
    "name": "small",
    "tasks": ["a", "b"],
    "seeds": [0, 1],
    "network": {"name": "mlp", "hidden": [4]},
    "recipe": {"epochs": 1},
    "methods": [{"method": "vs", "tau": [0, 1, 2]}, {"method": "lct", "tau": ["0:3:0", "0:3:0.5"]}],
}
SPEC = Spec.from_dict(GIVEN)


def describe(run):
    return ProblemInfo(f"{run.task}{run.seed}", "features")


def load(run):
    rng = np.random.default_rng(run.seed + 10 * ord(run.task))
    y = (np.arange(60) % 6 == 0).astype(np.int64)
    x = (rng.normal(size=(60, 3)) + y[:, None]).astype(np.float32)
    return Problem(x, y, x, y, describe(run).fingerprint, ("no", "yes"), "features")


DATA = SimpleNamespace(load=load, describe=describe)


def records(path):
    with Store(path, readonly=True) as store:
        return {
            record.identity: (record.state, record.metrics, store.scores(record.identity).tobytes())
            for record in store.runs(state="done")
        }


def test_a_sweep_from_start_to_end(tmp_path):
    seen = []
    with Store(tmp_path / "s.db") as store:
        progress = run_sweep(
            SPEC, store, Serial(), DATA,
            on_progress=lambda p: seen.append((p.done, p.total)),
        )  # fmt: skip
        assert seen == [(0, 20), (3, 20), (5, 20), (8, 20), (10, 20), (13, 20), (15, 20),
                        (18, 20), (20, 20)]  # fmt: skip
        assert (progress.done, progress.failed, progress.diverged) == (20, 0, 0)
        assert progress.areas.keys() == {"VS", "VS + LCT"}
        assert [line.partition(",")[0] for line in progress.lines()] == [
            "20/20 runs", "VS: 12 runs", "VS + LCT: 8 runs",
        ]  # fmt: skip
        assert {record.state for record in store.runs("small")} == {"done"}
        assert store.labels("a0").tolist() == load(SPEC.runs()[0]).y_test.tolist()
        rows = {row["label"]: row for row in store.status("small", by_task=False)}
        assert rows["VS"]["done"] == 12
        areas = progress.areas["VS"]
        assert rows["VS"]["mean_auc"] == pytest.approx(np.mean(areas))


class StopsAfter:
    """An executor that ends, as a killed one would, after some stacks."""

    def __init__(self, count):
        self.count = count

    def execute(self, jobs, work, load):
        for number, finished in enumerate(Serial().execute(jobs, work, load)):
            if number == self.count:
                raise KeyboardInterrupt
            yield finished


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_stopped_sweep_goes_on_to_the_same_records(tmp_path, count):
    with Store(tmp_path / "whole.db") as store:
        run_sweep(SPEC, store, Serial(), DATA)
    with Store(tmp_path / "cut.db") as store, pytest.raises(KeyboardInterrupt):
        run_sweep(SPEC, store, StopsAfter(count), DATA)
    done = len(records(tmp_path / "cut.db"))
    assert (done == 0) == (count == 0)
    with Store(tmp_path / "cut.db") as store:
        progress = run_sweep(SPEC, store, Serial(), DATA)
    assert progress.at_start == done
    assert progress.done == 20
    assert records(tmp_path / "cut.db") == records(tmp_path / "whole.db")


def test_a_finished_sweep_trains_nothing(tmp_path):
    with Store(tmp_path / "s.db") as store:
        run_sweep(SPEC, store, Serial(), DATA)

        def refuse(run):
            raise AssertionError("nothing is to be read")

        assert (
            run_sweep(SPEC, store, Serial(), SimpleNamespace(load=refuse, describe=describe)).done
            == 20
        )


def test_a_larger_spec_trains_only_what_is_new(tmp_path):
    with Store(tmp_path / "s.db") as store:
        run_sweep(SPEC, store, Serial(), DATA)
        larger = Spec.from_dict({**GIVEN, "seeds": [0, 1, 2]})
        progress = run_sweep(larger, store, Serial(), DATA)
        assert (progress.at_start, progress.total) == (20, 30)


class Fails:
    """An executor whose second job fails."""

    def execute(self, jobs, work, load):
        for number, finished in enumerate(Serial().execute(jobs, work, load)):
            yield finished if number != 1 else Finished(finished.key, error="Traceback\nboom")


def test_a_failed_stack_is_recorded_and_tried_again(tmp_path):
    with Store(tmp_path / "s.db") as store:
        progress = run_sweep(SPEC, store, Fails(), DATA)
        assert (progress.done, progress.failed) == (18, 2)
        failed = list(store.runs(state="failed"))
        assert [record.message.splitlines()[-1] for record in failed] == ["boom", "boom"]
        progress = run_sweep(SPEC, store, Serial(), DATA)
        assert (progress.at_start, progress.done, progress.failed) == (18, 20, 0)


def test_data_that_change_meanwhile_are_an_error_of_their_runs(tmp_path):
    calls = []

    def changing(run):
        calls.append(run)
        return ProblemInfo(f"{run.task}{run.seed}{'x' if run.task == 'b' else ''}", "features")

    with Store(tmp_path / "s.db") as store:
        progress = run_sweep(SPEC, store, Serial(), SimpleNamespace(load=load, describe=changing))
        assert (progress.done, progress.failed) == (10, 10)
        (message,) = {record.message.splitlines()[-1] for record in store.runs(state="failed")}
        assert "the data of b changed" in message


def test_a_second_driver_is_refused(tmp_path):
    path = tmp_path / "s.db"
    with (
        Store(path) as first,
        Store(path) as second,
        first.writing(),
        pytest.raises(StoreError, match="writ"),
    ):
        run_sweep(SPEC, second, Serial(), DATA)


def test_time_left(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 110.0)
    progress = SweepProgress(10, 110, at_start=10, started=100.0)
    assert np.isnan(progress.seconds_left)
    progress.done = 60
    assert progress.seconds_left == 10


def test_processors_are_named_as_linux_lists_them(tmp_path):
    listing = tmp_path / "cpuinfo"
    listing.write_text(
        "processor: 0\nmodel name\t: Fast One\n\nprocessor: 1\nmodel name\t: Fast One\n"
    )
    assert processor_names(listing) == "2 x Fast One"
    assert processor_names(tmp_path / "missing").startswith(f"{os.cpu_count()} x ")
    assert machine().endswith(processor_names())
