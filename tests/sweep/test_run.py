"""A sweep trains what is missing, once, and loses nothing."""

import io
import os
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from curvewise.base.machine import machine, processor_names
from curvewise.sweep import run
from curvewise.sweep.executors import Finished, Serial
from curvewise.sweep.plan import Problem, ProblemInfo, make_plan
from curvewise.sweep.run import SweepProgress, run_sweep
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store, StoreError

METHODS = [{"method": "vs", "tau": [0, 1, 2]}, {"method": "lct", "tau": ["0:3:0", "0:3:0.5"]}]
GIVEN = {"name": "small", "tasks": ["a", "b"], "seeds": [0, 1], "methods": METHODS}
GIVEN |= {"network": {"name": "mlp", "hidden": [4]}, "recipe": {"epochs": 1}}


def describe(run):
    return ProblemInfo(f"{run.task}{run.seed}", "features")


def load(run):
    rng = np.random.default_rng(run.seed + 10 * ord(run.task))
    y = (np.arange(60) % 6 == 0).astype(np.int64)
    x = (rng.normal(size=(60, 3)) + y[:, None]).astype(np.float32)
    return Problem(x, y, x, y, describe(run).fingerprint, ("no", "yes"), "features")


DATA = SimpleNamespace(load=load, describe=describe)


def swept(path, executor=None, data=DATA, **changes):
    """Run the sweep into a store; return its progress and what the store then has."""
    with Store(path) as store:
        spec = Spec.from_dict({**GIVEN, **changes})
        progress = run_sweep(spec, store, executor or Serial(), data)
        return progress, records(store)


def records(store):
    return {
        record.identity: (record.metrics, store.scores(record.identity).tobytes())
        for record in store.runs(state="done")
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "s.db"
    return path, swept(path)[1]


def test_the_time_of_a_sweep_is_that_of_a_few_steps_of_each_kind(monkeypatch):
    """Two methods, two tasks and two seeds: a probe of 20 steps takes a second of this clock."""
    _, stacks = make_plan(Spec.from_dict(GIVEN).runs(), describe)
    probes, clock = [], iter(range(99))
    monkeypatch.setattr(run, "train_stack", lambda stack, problem: probes.append(stack))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    expected = 0.0
    for stack in stacks:  # an epoch of 60 rows is one batch
        of_kind = next(one for one in stacks if one.runs[0].method == stack.runs[0].method)
        expected += len(stack.runs) / 20 / len(of_kind.runs)
    assert run.estimated_seconds(stacks, load, workers=2) == pytest.approx(expected / 2)
    assert [probe.runs[0].recipe["steps"] for probe in probes] == [20] * 4


def test_a_sweep_from_start_to_end(tmp_path):
    seen, spec = [], Spec.from_dict(GIVEN)
    with Store(tmp_path / "s.db") as store:
        progress = run_sweep(
            spec, store, Serial(), DATA, on_progress=lambda p: seen.append((p.done, p.total))
        )
        assert seen == [(n, 20) for n in (0, 3, 5, 8, 10, 13, 15, 18, 20)]
        assert (progress.done, progress.failed, progress.diverged) == (20, 0, 0)
        told = [line.partition(",")[0] for line in progress.lines()]
        assert told == ["20/20 runs", "VS: 12 runs", "VS + LCT: 8 runs"]
        assert {record.state for record in store.runs("small")} == {"done"}
        assert store.labels("a0").tolist() == load(spec.runs()[0]).y_test.tolist()
        rows = {row["label"]: row for row in store.status("small", by_task=False)}
        assert rows["VS"]["done"] == 12
        assert rows["VS"]["mean_auc"] == pytest.approx(np.mean(progress.areas["VS"]))


class Disturbed:
    """An executor that ends, as a killed one would, or whose job fails, at a number."""

    def __init__(self, stop=None, fail=None):
        self.stop, self.fail = stop, fail

    def execute(self, jobs, work, load):
        for number, finished in enumerate(Serial().execute(jobs, work, load)):
            if number == self.stop:
                raise KeyboardInterrupt
            failed = Finished(finished.key, error="Traceback\nboom")
            yield failed if number == self.fail else finished


@pytest.mark.parametrize(("count", "done"), [(0, 0), (1, 3), (4, 10)])
def test_a_stopped_sweep_goes_on_to_the_same_records(tmp_path, whole, count, done):
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path / "s.db", Disturbed(stop=count))
    progress, found = swept(tmp_path / "s.db")
    assert (progress.at_start, progress.done) == (done, 20)
    assert found == whole[1]


def test_only_what_is_new_is_trained(tmp_path, whole):
    path = shutil.copy(whole[0], tmp_path)
    unread = SimpleNamespace(load=None, describe=describe)
    assert swept(path, data=unread)[0].done == 20
    progress, _ = swept(path, seeds=[0, 1, 2])
    assert (progress.at_start, progress.total, progress.failed) == (20, 30, 0)


def test_a_failed_stack_is_recorded_and_tried_again(tmp_path, whole):
    path = tmp_path / "s.db"
    progress, _ = swept(path, Disturbed(fail=1))
    assert (progress.done, progress.failed) == (18, 2)
    with Store(path) as store:
        reasons = [record.message.splitlines()[-1] for record in store.runs(state="failed")]
    assert reasons == ["boom", "boom"]
    progress, found = swept(path)
    assert (progress.at_start, progress.done, progress.failed) == (18, 20, 0)
    assert found == whole[1]


def test_data_that_change_meanwhile_are_an_error_of_their_runs(tmp_path):
    def changing(run):
        return ProblemInfo(f"{run.task}{run.seed}{'x' if run.task == 'b' else ''}", "features")

    data = SimpleNamespace(load=load, describe=changing)
    progress, _ = swept(tmp_path / "s.db", data=data)
    assert (progress.done, progress.failed) == (10, 10)
    with Store(tmp_path / "s.db") as store:
        assert all("the data of b changed" in run.message for run in store.runs(state="failed"))


def test_a_second_driver_is_refused(tmp_path):
    refused = pytest.raises(StoreError, match="writ")
    with Store(tmp_path / "s.db") as first, first.writing(), refused:
        swept(tmp_path / "s.db")


@pytest.mark.parametrize("terminal", [True, False])
def test_how_it_goes_is_shown_in_lines_of_their_own(monkeypatch, terminal):
    screen = io.StringIO()
    screen.isatty = lambda: terminal
    monkeypatch.setattr("sys.stderr", screen)
    for name, value in {"TERM": "xterm", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(run, "SECONDS_BETWEEN_LINES", 0.0)
    areas = {"VS": [0.5, 1.0]}
    progress = SweepProgress(60, 110, at_start=10, failed=1, areas=areas, started=100.0)
    monkeypatch.setattr("time.monotonic", lambda: progress.started + 10)
    with run.sweep_bar() as show:
        show(progress)
    shown = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "\n", screen.getvalue()).splitlines()
    lines = ["60/110 runs, 300 a minute, 10 s left, 1 failed"]
    lines += ["VS: 2 runs, best AUC 1.0000, mean 0.7500"]
    assert set(lines if terminal else ["; ".join(lines)]) <= set(shown)
    assert list(SweepProgress(10, 110, at_start=10).lines()) == ["10/110 runs"]


def test_processors_are_named_as_linux_lists_them(tmp_path):
    listing = tmp_path / "cpuinfo"
    listing.write_text("processor: {0}\nmodel name\t: Fast One\n\n" * 2)
    assert processor_names(listing) == "2 x Fast One"
    assert processor_names(tmp_path / "missing").startswith(f"{os.cpu_count()} x ")
    assert machine().endswith(processor_names())
