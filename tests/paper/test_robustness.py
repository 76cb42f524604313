"""Robustness to the training: made-up areas with known answers, and a few real models."""

from itertools import product

import numpy as np
import pytest

from curvewise.paper.csv_files import rounded
from curvewise.paper.experiment import Reading
from curvewise.paper.profiles import Profile
from curvewise.paper.robustness import (
    LCT,
    NAME,
    ROBUSTNESS,
    VS,
    condition_table,
    together_table,
)
from curvewise.sweep.plan import Problem, Result
from curvewise.sweep.store import Store

CONDITIONS = list(product((5, 20), (0.5, "none"), (0.01, 0.1)))
TASKS = ("fashion-mnist:0/6", "fashion-mnist:2/4")


def made_up(std, lost=0):
    """Four models a method, task and condition; the first `lost` of LCT unclipped diverged."""
    rng, rows = np.random.default_rng(0), []
    for task, (epochs, clip, lr), method in product(TASKS, CONDITIONS, (VS, LCT)):
        for number in range(4):
            diverged = method == LCT and clip == "none" and number < lost
            auc = None if diverged else 0.8 + rng.normal(0, std[method])
            row = {"task": task, "method": method, "epochs": epochs, "clip_norm": clip, "lr": lr}
            rows.append({**row, "omega": 0.5, "gamma": 0.0, "tau": number, "auc": auc})
    return rounded({"": rows})


def areas(rows, **wanted):
    found = [row["auc"] for row in rows if all(row[key] == v for key, v in wanted.items())]
    return [auc for auc in found if auc is not None]


def test_a_row_for_each_condition():
    rows = made_up({VS: 0.02, LCT: 0.01}, lost=1)[""]
    table = condition_table(rows)
    found = [(row["epochs"], row["clip_norm"], row["lr"]) for row in table]
    assert found == CONDITIONS
    for row, (epochs, clip, lr) in zip(table, CONDITIONS, strict=True):
        for method in (VS, LCT):
            own = [
                areas(rows, task=t, method=method, epochs=epochs, clip_norm=clip, lr=lr)
                for t in TASKS
            ]
            assert row[f"{method} mean"] == pytest.approx(np.mean([np.mean(a) for a in own]))
            assert row[f"{method} min"] == pytest.approx(np.mean([np.min(a) for a in own]))
            assert row[f"{method} std"] == pytest.approx(np.mean([np.std(a, ddof=1) for a in own]))
        assert row[f"{VS} diverged"] == 0
        assert row[f"{LCT} diverged"] == (2 if clip == "none" else 0)


def test_everything_together():
    rows = made_up({VS: 0.02, LCT: 0.01}, lost=1)[""]
    *by_task, average = together_table(rows)
    stds = [np.std(areas(rows, task=task, method=LCT), ddof=1) for task in TASKS]
    assert [row[f"{LCT} std"] for row in by_task] == pytest.approx(stds)
    assert average[f"{LCT} std"] == pytest.approx(np.mean(stds))
    assert average[f"{LCT} diverged"] == 2 * 4


def test_the_verdict_follows_the_numbers():
    calm = ROBUSTNESS.present(made_up({VS: 0.05, LCT: 0.001}), Profile())
    assert calm.verdict.startswith("LCT is the more robust here")
    assert "smaller std in 8." in calm.verdict
    wild = ROBUSTNESS.present(made_up({VS: 0.001, LCT: 0.05}, lost=4), Profile())
    assert wild.verdict.startswith("LCT is not the more robust here")
    assert "without the 0 and 32 models that diverged" in wild.verdict
    assert "; of 8 training conditions" in wild.verdict
    assert "smaller std in 0." in wild.verdict  # where nothing is left, nothing is ahead
    assert len(wild.figures[NAME].axes) == 2 * 4


def test_diverged_runs_are_rows_without_area(tmp_path):
    (spec,) = ROBUSTNESS.sweeps(Profile("laptop", "tiny"))
    runs = [run for run in spec.runs() if run.task == spec.all_tasks[0]]
    y = np.array([0, 0, 1, 1])
    x = np.zeros((4, 2), np.float32)
    problem = Problem(x, y, x, y, "print", ("a", "b"), "features")
    with Store(tmp_path / "runs.db") as store:
        store.add_problem(problem, runs[0].task, 100.0, 0)
        store.add_sweep(NAME, {}, [(run, f"run {k}", "print") for k, run in enumerate(runs)])
        scores = np.array([0, 1, 2, 3], np.float32)
        results = [Result(f"run {k}", "done", {"auc": 0.75}, scores, None, 1.0)
                   for k in range(1, len(runs))]  # fmt: skip
        results.append(Result("run 0", "diverged", {}, None, None, 1.0, "loss is nan"))
        store.record(results, "here", {})
        rows = rounded(ROBUSTNESS.collect(Reading(Profile(), store, None)))[""]
    assert [row["auc"] for row in rows] == [None] + [0.75] * (len(runs) - 1)
    assert [row["method"] for row in rows] == [run.label for run in runs]
    assert {row["clip_norm"] for row in rows} == {"none", 0.5}
    assert len(condition_table(rows)) == 2


def test_the_sweep():
    (spec,) = ROBUSTNESS.sweeps(Profile())
    assert spec.size == 3 * 2 * 16 * 12
    conditions = {
        (run.recipe["lr"], run.recipe["epochs"], run.recipe["clip_norm"]) for run in spec.runs()
    }
    assert conditions == set(product((0.01, 0.03, 0.1, 0.3), (5, 20), (None, 0.5)))
    assert ROBUSTNESS.sweeps(Profile("paper", "tiny"))[0].size == 3 * 2 * 2
