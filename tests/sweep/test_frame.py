"""Runs as one table, and stores at their limits: full and read-only disks, 100,000 runs."""

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_store import VERSIONS, listed, missing, planned, problem, result, scores_of
from test_store_file import everything

from curvewise.base.errors import InputError
from curvewise.sweep.frame import export, frame
from curvewise.sweep.plan import Result
from curvewise.sweep.store import Store, StoreError

PLANS = [
    planned(0, settings={"omega": 0.1 + 0.2, "gamma": 0.0, "tau": 3}, validation=0.2),
    planned(1, label="LCT", settings={"omega": 0.5, "tau": "0:3:0.33"}, evaluate={}),
    planned(2, label='Fokal, "é"', method="focal", settings={"focus": 2}, beta=None),
    planned(3, settings={"omega": 0.9, "gamma": 0.2, "tau": 1.5}, features={"pca": 64}),
]


@pytest.fixture
def store(tmp_path):
    runs = listed(*PLANS)
    ids = [identity for _, identity, _ in runs]
    with Store(tmp_path / "runs.db") as opened:
        opened.add_sweep("all", {}, runs)
        opened.add_sweep("two", {}, listed(replace(PLANS[3], label="mine"), PLANS[0]))
        results = [
            result(ids[0], metrics={"auc": 1 / 3, "threshold": math.inf}),
            result(ids[1], metrics={"auc": math.nan, "threshold": -0.5}, seconds=1e-9),
            result(ids[2], "failed", metrics={}, message="Traceback:\n  a, b"),
        ]
        opened.record(results, "box", VERSIONS)
        yield opened


def expected_rows(runs, seconds, metrics):
    """Return what a frame should hold, straight from the plans; what a run lacks is not there."""
    for run, spent, measured in zip(runs, seconds, metrics, strict=True):
        plain = {name: getattr(run, name) for name in ("task", "beta", "seed", "label", "number")}
        row = {**plain, "validation": run.validation, "seconds": spent, **run.settings, **measured}
        for group in ("recipe", "network", "features", "evaluate"):
            row |= {f"{group}.{name}": value for name, value in getattr(run, group).items()}
        yield {
            name: json.dumps(value) if isinstance(value, list) else value
            for name, value in row.items()
            if value is not None
        }


TITLES = """
identity fingerprint state attempts seconds finished machine message task beta seed label method
number validation omega gamma tau focus auc threshold recipe.epochs recipe.lr recipe.seed_weights
recipe.clip_norm network.name network.hidden features.pca evaluate.tau versions.curvewise
versions.torch
"""
SECONDS = (1.5, 1e-9, 1.5, 0.0)
METRICS = ({"auc": 1 / 3, "threshold": math.inf}, {"threshold": -0.5}, {}, {})


def test_a_frame_has_a_row_a_run_with_all_that_is_known(store):
    runs = frame(store)
    assert list(runs) == TITLES.split()
    rows = list(expected_rows(PLANS, SECONDS, METRICS))
    for (_, row), expected in zip(runs.iterrows(), rows, strict=True):
        for name in set(runs) & set().union(*rows):
            value = expected.get(name)
            value = str(value) if name == "tau" and value is not None else value
            assert (pd.isna(row[name]) and value is None) or row[name] == value, name
    fixed = {"state": ["done", "done", "failed", "pending"], "attempts": [1, 1, 1, 0]}
    fixed |= {"message": ["", "", "Traceback:\n  a, b", ""]}
    fixed |= {"identity": [run.identity("f0") for run in PLANS]}
    assert {name: list(runs[name]) for name in fixed} == fixed
    assert set(runs["machine"]) == {"box", ""}
    assert set(runs["versions.torch"]) == {"2", None}
    kinds = {name: str(kind) for name, kind in runs.dtypes.items()}
    assert {kinds[name] for name in ("attempts", "seed", "number", "recipe.epochs")} == {"int64"}
    for name in ("beta", "seconds", "validation", "omega", "auc", "threshold", "recipe.clip_norm"):
        assert kinds[name] == "float64", name
    assert kinds["focus"] == kinds["features.pca"] == "Int64"
    assert kinds["tau"] == "object"  # a number in one run, a density in another
    assert runs["tau"].tolist() == ["3", "0:3:0.33", None, "1.5"]


def test_the_frame_of_a_sweep_has_its_order_and_labels(store, tmp_path):
    runs = frame(store, "two")
    assert list(runs["label"]) == ["mine", "VS"]
    assert list(runs["identity"]) == [PLANS[i].identity("f0") for i in (3, 0)]
    assert "focus" not in runs
    with Store(tmp_path / "empty.db") as empty:
        assert list(frame(empty)) == TITLES.split()[:15]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_gives_back_the_frame_bit_for_bit(ending, store, tmp_path):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    runs, path = frame(store), tmp_path / f"runs.{ending}"
    assert export(store, path) == 4
    if ending == "parquet":
        again = pd.read_parquet(path)
        kinds = runs.dtypes[runs.dtypes != "object"]
        assert again.dtypes[kinds.index].to_dict() == kinds.to_dict()
    else:
        texts = pd.read_csv(path, dtype=object)
        again = texts.fillna({"message": "", "machine": ""}).astype(runs.dtypes)
    pd.testing.assert_frame_equal(again, runs, check_exact=True, check_dtype=False)


def test_a_name_that_is_taken_gets_its_group(tmp_path):
    runs = listed(planned(0, settings={"seed": 5, "tau": 1.0}), planned(1, settings={}), planned(2))
    with Store(tmp_path / "runs.db") as store:
        store.add_sweep("a", {}, runs)
        store.record([result(runs[1][1], metrics={"tau": 0.25, "auc": 0.5})], "box", {})
        columns = frame(store)
    assert columns["seed"].tolist() == [0, 0, 0]
    assert columns["settings.seed"].dropna().to_dict() == {0: 5}
    assert columns["metrics.tau"].dropna().to_dict() == {1: 0.25}
    assert columns["settings.tau"].dropna().to_dict() == {0: "1.0", 2: "0:3:0.33"}
    assert columns["auc"].dropna().to_dict() == {1: 0.5}


def test_what_cannot_be_exported_is_said_and_nothing_written(store, tmp_path, monkeypatch):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "old.csv").write_text("precious")
    with Store(tmp_path / "empty.db") as empty, pytest.raises(InputError, match="holds none"):
        export(empty, tmp_path / "runs.csv")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name, sweep, message in (
        ("runs.xlsx", None, "must be one of '.csv', '.parquet', got '.xlsx'"),
        ("deep/runs.csv", None, "folder of the exported file must exist"),
        ("runs.csv", "al", "did you mean 'all'"),
        ("folder.csv", None, "must be a file, got the folder"),
        ("old.csv", None, "exists: .*, or give --overwrite"),
        ("runs.parquet", None, "needs pyarrow to be written"),
    ):
        with pytest.raises(InputError, match=message):
            export(store, tmp_path / name, sweep)

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"old\.csv cannot be written: No space left"):
            export(store, tmp_path / "old.csv", overwrite=True)
    assert (tmp_path / "old.csv").read_text() == "precious"
    assert sorted(tmp_path.iterdir()) == before
    assert export(store, tmp_path / "old.csv", overwrite=True) == 4


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def record_by_tens(store, runs):
    for start in range(0, len(runs), 10):
        store.add_sweep("some", {}, runs[: start + 10])
        store.record([result(i) for _, i, _ in runs[start : start + 10]], "box", {})


def test_a_disk_that_is_full_and_then_read_only(small_disk):
    path, runs = small_disk / "runs.db", listed(*(planned(i) for i in range(300)))
    ids = [identity for _, identity, _ in runs]
    with Store(path) as store:
        with pytest.raises(StoreError, match="the disk is full, so nothing more can be written"):
            record_by_tens(store, runs)
        kept = [record.identity for record in store.runs(state="done")]
        assert 0 < len(kept) < 300
    remount = ["mount", "-o", "remount,size=9m", str(small_disk)]
    subprocess.run(remount, check=True)
    with Store(path) as store:
        assert [record.identity for record in store.runs(state="done")] == kept
        store.add_sweep("some", {}, runs)
        store.record([result(i) for i in missing(store, "some")], "box", {})
        store.add_problem(problem(), "digits:8", 100.0, 0)
    expected = everything(path)
    subprocess.run([*remount[:2], "remount,ro", str(small_disk)], check=True)
    assert everything(path) == expected
    with pytest.raises(StoreError, match="must be writable, it can only be read"):
        Store(path)
    with pytest.raises(StoreError, match="must be writable: Read-only"):
        Store(small_disk / "new.db")
    with Store(path, readonly=True) as store:
        np.testing.assert_array_equal(store.scores(ids[-1]), scores_of(ids[-1]))


MEASURE = """
import sys
from dataclasses import replace
from pathlib import Path
from curvewise.sweep.store import Store

def peak():  # of this program, in MB; getrusage counts what its parent had
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

before = peak()
store = Store(sys.argv[1], readonly=True)
statements = []
store._connection.set_trace_callback(statements.append)
for rows in (store.status(), store.status("big"), store.status("big", by_task=False)):
    assert sum(row["done"] for row in rows) == 100_000
assert peak() - before < 30, peak() - before
assert peak() < 100, peak()
every = next(each for each in statements if "SUM(" in each)
plan = store._connection.execute(f"EXPLAIN QUERY PLAN {every}").fetchall()
assert any("COVERING INDEX runs_summary" in row[-1] for row in plan), plan
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_a_hundred_thousand_runs_are_counted_without_reading_their_rows(tmp_path):
    path, recipe = tmp_path / "runs.db", {f"setting_{i}": 0.5 for i in range(30)}
    runs = [
        (planned(i, task=f"t{i % 45}", label=f"m{i % 4}", recipe=recipe), f"{i:064x}", "f0")
        for i in range(100_000)
    ]
    scores = scores_of("any", 20)
    with Store(path) as store:
        store.add_sweep("big", {}, runs)
        results = [Result(i, "done", {"auc": 0.5}, scores, None, 1.0) for _, i, _ in runs]
        store.record(results, "box", VERSIONS)
    command = [sys.executable, "-c", MEASURE, str(path)]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
