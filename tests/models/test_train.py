"""The training job: one folder that is whole or not there, resumed only as it was begun."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import curvewise as cw
from curvewise.base.files import without_nan
from curvewise.models import require_free, train as job
from curvewise.models.train import train

QUICK = cw.Recipe(epochs=3, batch_size=64, lr=0.1)
FAMILY = cw.LossFamily(tau=cw.LinearDensity(0, 3, 0.33))
TASK = cw.load_task("digits:3")
DELIVERED = ["metrics.json", "model.safetensors"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def same(one, other):
    first, second = one.model.network.state_dict(), other.model.network.state_dict()
    return all(torch.equal(first[name], second[name]) for name in first)


def stopped(folder):
    """A run that is stopped after two steps."""

    def stop(progress):
        if progress.step == 2:
            signal.raise_signal(signal.SIGINT)

    return train(TASK, FAMILY, QUICK, folder, on_progress=stop)


def test_a_finished_run_leaves_model_metrics_and_figure(tmp_path):
    task = cw.load_task("digits:3", seed=5)
    outcome = train(task, FAMILY, QUICK, tmp_path / "a" / "b", seed=5, rule={"max_fpr": 0.1})
    assert names(tmp_path / "a" / "b") == DELIVERED
    model = cw.load(tmp_path / "a" / "b" / "model.safetensors")
    assert model.record["seed"] == 5
    assert model.record["data_fingerprint"] == task.fingerprint
    score = model.scores(task.x_test)
    assert outcome.test.curve.auc == pytest.approx(cw.auc(task.y_test, score))
    corners = model.record["test_roc"]
    assert corners["thresholds"][0] is None
    curve = cw.roc_curve(task.y_test, score)
    np.testing.assert_allclose(corners["tpr"], curve.tpr)
    np.testing.assert_allclose(corners["fpr"], curve.fpr)
    written = json.loads((tmp_path / "a" / "b" / "metrics.json").read_text())
    assert written == json.loads(json.dumps(without_nan(outcome.test.numbers)))
    assert written["chosen_on_these_data"]["fpr"] <= 0.1


def test_a_rule_that_cannot_be_is_refused_before_training(tmp_path):
    for rule in ({"max_fpr": 2.0}, {"min_tpr": -0.1}, {"cost_ratio": -4.0}):
        with pytest.raises(cw.InputError, match=next(iter(rule))):
            train(TASK, FAMILY, QUICK, tmp_path / "a", rule=rule, on_progress=pytest.fail)
    assert not (tmp_path / "a").exists()


def test_a_stopped_run_keeps_state_and_what_it_is_of(tmp_path):
    outcome = stopped(tmp_path / "run")
    assert (outcome.steps, outcome.model, outcome.test) == (2, None, None)
    assert names(tmp_path / "run") == ["run.json", "state.safetensors"]
    with pytest.raises(cw.InputError, match="of a stopped run; go on with --resume"):
        require_free(tmp_path / "run", resume=False)
    whole = train(TASK, FAMILY, QUICK, tmp_path / "whole")
    resumed = train(TASK, FAMILY, QUICK, tmp_path / "run", resume=True)
    assert names(tmp_path / "run") == DELIVERED
    assert same(whole, resumed)
    with pytest.raises(cw.InputError, match="is there already"):
        require_free(tmp_path / "run", resume=False)


CHANGES = {
    "with the data it was": {"task": cw.load_task("digits:3", beta=20)},
    "with the objective it was": {"objective": cw.LossFamily(tau=cw.LinearDensity(0, 3, 0.2))},
    r"with epochs = 3 \(got 4\), lr = 0.1 \(got 0.2\)$": {
        "recipe": QUICK.model_copy(update={"lr": 0.2, "epochs": 4})
    },
    "with the data and network it was": {
        "task": cw.Task(
            "made", "features", np.zeros((8, 3), np.float32), np.arange(8) % 2,
            np.zeros((4, 3), np.float32), np.arange(4) % 2, ("a", "b"),
        )
    },
}  # fmt: skip


def test_a_run_is_resumed_only_as_it_was_begun(tmp_path):
    stopped(tmp_path)
    settings = {"task": TASK, "objective": FAMILY, "recipe": QUICK}
    for words, change in CHANGES.items():
        with pytest.raises(cw.InputError, match=words):
            train(**(settings | change), folder=tmp_path, resume=True)
        assert names(tmp_path) == ["run.json", "state.safetensors"]  # it can still go on
    (tmp_path / "run.json").unlink()  # nor is there anything to compare with
    assert train(**settings, folder=tmp_path, resume=True).model
    assert names(tmp_path) == DELIVERED


def test_a_run_that_fails_leaves_no_folder(tmp_path):
    diverging = QUICK.model_copy(update={"lr": 1e30, "clip_norm": None})
    with pytest.raises(cw.CurvewiseError, match="the loss is"):
        train(TASK, FAMILY, diverging, tmp_path / "new" / "run")
    assert names(tmp_path) == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(cw.CurvewiseError):
        train(TASK, FAMILY, diverging, tmp_path / "mine")
    assert names(tmp_path / "mine") == ["notes.txt"]
    with pytest.raises(cw.InputError, match=r"notes\.txt/run cannot be made into a folder"):
        train(TASK, FAMILY, QUICK, tmp_path / "mine" / "notes.txt" / "run")


def test_the_state_is_written_as_often_as_asked(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(job, "save_state", lambda state, path: written.append(state.step))
    train(TASK, FAMILY, QUICK, tmp_path / "rarely", save_minutes=5)
    assert written == []
    steps = train(TASK, FAMILY, QUICK, tmp_path / "often", save_minutes=0).steps
    assert written == list(range(1, steps + 1))


KILLED = """
import os, signal, sys
from pathlib import Path
import torch, torch._dynamo  # the latter is imported by a first step, here once for both
torch.set_num_threads(1)
import curvewise as cw
from curvewise.models.train import train
family = cw.LossFamily(tau=cw.LinearDensity(0, 3, 0.33))
recipe, folder = cw.Recipe(epochs=3, batch_size=64, lr=0.1), Path(sys.argv[1])
for last, minutes in ((4, 0), (1, 5)):
    def kill(progress):
        if progress.step == last:
            os.kill(os.getpid(), signal.SIGKILL)
    if (job := os.fork()) == 0:
        task = cw.load_task("digits:3")
        train(task, family, recipe, folder / str(last), save_minutes=minutes, on_progress=kill)
    assert os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]) == -signal.SIGKILL
"""


def test_a_killed_job_goes_on_from_its_last_state_to_the_same_bits(tmp_path):
    """One is killed after its fourth state, one before its first, which leaves no note."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], env=environment, check=True)
    assert names(tmp_path / "4") == ["run.json", "state.safetensors"]
    assert names(tmp_path / "1") == []
    resumed = train(TASK, FAMILY, QUICK, tmp_path / "4", resume=True)
    assert same(train(TASK, FAMILY, QUICK, tmp_path / "1"), resumed)


def test_the_chosen_operating_point_is_in_the_model(tmp_path):
    kept = TASK.with_validation(0.25, seed=0)
    for name, rule in (("fpr", {"max_fpr": 0.05}), ("cost", {"cost_ratio": 9.0})):
        train(TASK, FAMILY, QUICK, tmp_path / name, rule=rule, validation=0.25)
        model = cw.load(tmp_path / name / "model.safetensors")
        point = cw.choose_operating_point(kept.y_test, model.scores(kept.x_test), **rule)
        assert model.record["operating_point"] == {
            "rule": rule, "lambda": {"tau": 3.0}, "measured_on": "validation part",
            "threshold": None if np.isinf(point.threshold) else point.threshold,
            "tpr": point.tpr, "fpr": point.fpr,
        }  # fmt: skip
    train(TASK, FAMILY, QUICK, tmp_path / "none")
    assert "operating_point" not in cw.load(tmp_path / "none" / "model.safetensors").record
