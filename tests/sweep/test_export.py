"""Records as tables, and stores at their limits: full and read-only disks, 100,000 runs."""

import csv
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_store import VERSIONS, listed, missing, planned, problem, result, scores_of
from test_store_file import everything

from curvewise.base.errors import InputError
from curvewise.sweep import export as module
from curvewise.sweep.export import export
from curvewise.sweep.plan import Result
from curvewise.sweep.store import Record, Store, StoreError

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
        opened.add_sweep("two", {}, listed(planned(3, **vars_of(PLANS[3])), PLANS[0]))
        opened.record(
            [
                result(ids[0], metrics={"auc": 1 / 3, "threshold": math.inf}),
                result(ids[1], metrics={"auc": math.nan, "threshold": -0.5}, seconds=1e-9),
                result(ids[2], "failed", metrics={}, message="Traceback:\n  a, b"),
            ],
            "box",
            VERSIONS,
        )
        yield opened


def vars_of(run):
    return {"settings": run.settings, "features": run.features, "label": "mine"}


def expected_cell(record: Record, title: str) -> object:
    """Return what a cell should hold, straight from the record; nan and nothing are None."""
    group, _, name = title.partition(".")
    if name:
        source = record.versions or {} if group == "versions" else getattr(record.run, group)
        value = source.get(name)
    elif title in record.run.settings:
        value = record.run.settings[title]
    elif title in ("auc", "threshold"):
        value = record.metrics.get(title)
    else:
        value = getattr(record, title, getattr(record.run, title, None))
    if isinstance(value, list):
        return json.dumps(value)
    return None if isinstance(value, float) and math.isnan(value) else value


TITLES = """
identity fingerprint state attempts seconds finished machine message task beta seed label method
number validation omega gamma tau focus auc threshold recipe.epochs recipe.lr recipe.seed_weights
recipe.clip_norm network.name network.hidden features.pca evaluate.tau versions.curvewise
versions.torch
"""
COLUMNS = TITLES.split()


@pytest.mark.parametrize("sweep", [None, "two"])
def test_csv_has_a_row_a_run_and_every_number_exactly(sweep, store, tmp_path):
    path = tmp_path / "runs.csv"
    assert export(store, path, sweep) == (4 if sweep is None else 2)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    records = list(store.runs(sweep))
    assert len(rows) == len(records)
    assert set(rows[0]) <= set(COLUMNS)
    if sweep is None:
        assert list(rows[0]) == COLUMNS
    else:
        assert [row["label"] for row in rows] == ["mine", "VS"]
    for row, record in zip(rows, records, strict=True):
        for title, text in row.items():
            value = expected_cell(record, title)
            assert text == ("" if value is None else str(value)), title
            if isinstance(value, float):
                assert float(text) == value


def test_parquet_has_the_same_in_columns_of_one_type(store, tmp_path):
    pytest.importorskip("pyarrow")
    assert export(store, tmp_path / "runs.parquet") == 4
    frame = pd.read_parquet(tmp_path / "runs.parquet")
    assert list(frame) == COLUMNS
    for (_, row), record in zip(frame.iterrows(), store.runs(), strict=True):
        for title, found in row.items():
            value = expected_cell(record, title)
            if title == "tau" and value is not None:
                value = str(value)  # a number in one run, a density in another
            assert (pd.isna(found) and value is None) or found == value, title
    assert frame["omega"].dtype == np.float64
    assert frame["attempts"].dtype == np.int64
    assert pd.api.types.is_string_dtype(frame["tau"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_many_chunks_are_one_file(ending, tmp_path, monkeypatch):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    monkeypatch.setattr(module, "ROWS", 7)
    runs = listed(*(planned(i) for i in range(50)))
    with Store(tmp_path / "runs.db") as store:
        store.add_sweep("a", {}, runs)
        store.record([result(runs[45][1], metrics={"late": 2.5})], "box", {})
        assert export(store, tmp_path / f"runs.{ending}") == 50
    read = pd.read_csv if ending == "csv" else pd.read_parquet
    frame = read(tmp_path / f"runs.{ending}")
    assert frame["number"].tolist() == list(range(50))
    assert frame["late"].dropna().to_dict() == {45: 2.5}


def test_a_name_that_is_taken_gets_its_group(tmp_path):
    runs = listed(planned(0, settings={"seed": 5, "tau": 1.0}), planned(1, settings={}), planned(2))
    with Store(tmp_path / "runs.db") as store:
        store.add_sweep("a", {}, runs)
        store.record([result(runs[1][1], metrics={"tau": 0.25, "auc": 0.5})], "box", {})
        export(store, tmp_path / "runs.csv")
    frame = pd.read_csv(tmp_path / "runs.csv")
    assert frame["seed"].tolist() == [0, 0, 0]
    assert frame["settings.seed"].dropna().to_dict() == {0: 5}
    assert frame["metrics.tau"].dropna().to_dict() == {1: 0.25}
    assert frame["settings.tau"].dropna().to_dict() == {0: "1.0", 2: "0:3:0.33"}
    assert frame["auc"].dropna().to_dict() == {1: 0.5}


def test_a_file_that_exists_is_kept_unless_asked(store, tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("precious")
    with pytest.raises(InputError, match=r"runs\.csv exists: .*, or give --overwrite"):
        export(store, path)
    assert path.read_text() == "precious"
    assert export(store, path, overwrite=True) == 4
    assert path.read_text().startswith("identity,")


def test_a_failure_leaves_the_old_file_and_nothing_else(store, tmp_path, monkeypatch):
    path = tmp_path / "runs.csv"
    path.write_text("precious")
    before = sorted(tmp_path.iterdir())

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"runs\.csv cannot be written: No space left"):
        export(store, path, overwrite=True)
    assert path.read_text() == "precious"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "sweep", "message"),
    [
        ("runs.xlsx", None, "must be one of '.csv', '.parquet', got '.xlsx'"),
        ("runs", None, "got ''"),
        ("deep/runs.csv", None, "folder of the exported file must exist"),
        ("runs.csv", "al", "did you mean 'all'"),
        ("folder.csv", None, "must not be a folder"),
    ],
)
def test_bad_requests_are_one_sentence_and_write_nothing(name, sweep, message, store, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=message):
        export(store, tmp_path / name, sweep)
    assert sorted(tmp_path.iterdir()) == before


def test_an_empty_store_and_a_missing_pyarrow_are_said(store, tmp_path, monkeypatch):
    with Store(tmp_path / "empty.db") as empty, pytest.raises(InputError, match="holds none"):
        export(empty, tmp_path / "runs.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"runs\.parquet needs pyarrow to be written"):
        export(store, tmp_path / "runs.parquet")
    assert not (tmp_path / "runs.parquet").exists()


def test_runs_recorded_meanwhile_do_not_tear_the_table(store, tmp_path, monkeypatch):
    with Store(store.path, readonly=True) as reader:
        columns = module._columns

        def slow(rows):
            found = columns(rows)
            identity = PLANS[3].identity("f0")
            store.record([result(identity, metrics={"new": 1.0})], "box", {})
            return found

        monkeypatch.setattr(module, "_columns", slow)
        export(reader, tmp_path / "runs.csv")
    assert pd.read_csv(tmp_path / "runs.csv")["state"].tolist()[3] == "pending"
    assert store.run(PLANS[3].identity("f0")).state == "done"


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
    with pytest.raises(StoreError, match="folder of a store must be writable"):
        Store(small_disk / "new.db")
    with Store(path, readonly=True) as store:
        np.testing.assert_array_equal(store.scores(ids[-1]), scores_of(ids[-1]))


MEASURE = """
import sys, time
from pathlib import Path
from curvewise.sweep.store import Store

def peak():  # of this program, in MB; getrusage counts what its parent had
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

def timed(call):
    began = time.perf_counter()
    return call(), time.perf_counter() - began

before = peak()
store, opening = timed(lambda: Store(sys.argv[1], readonly=True))
for call in (store.status, lambda: store.status("big"), lambda: store.status("big", by_task=False)):
    rows, seconds = timed(call)
    assert sum(row.done for row in rows) == 100_000 and seconds < 2, seconds
assert opening < 1, opening
assert peak() - before < 30, peak() - before
assert peak() < 100, peak()
print(opening, peak())
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_a_hundred_thousand_runs_open_and_answer_fast(tmp_path):
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
    print(finished.stdout)
