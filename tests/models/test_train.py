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
from command_line import command
from curvewise.base.files import without_nan
from curvewise.models import require_free, train as job
from curvewise.models.train import train

QUICK = cw.Recipe(epochs=3, batch_size=64, lr=0.1)
FAMILY = cw.LossFamily(tau=cw.LinearDensity(0, 3, 0.33))
DELIVERED = ["metrics.json", "model.safetensors"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def stopped(folder, **changes):
    """A run that is stopped after two steps."""

    def stop(progress):
        if progress.step == 2:
            signal.raise_signal(signal.SIGINT)

    settings = {"task": cw.load_task("digits:3"), "objective": FAMILY, "recipe": QUICK} | changes
    return train(**settings, folder=folder, on_progress=stop)


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


def test_a_stopped_run_keeps_state_and_what_it_is_of(tmp_path):
    outcome = stopped(tmp_path / "run")
    assert (outcome.steps, outcome.model, outcome.test) == (2, None, None)
    assert names(tmp_path / "run") == ["run.json", "state.safetensors"]
    with pytest.raises(cw.InputError, match="of a stopped run; go on with --resume"):
        require_free(tmp_path / "run", resume=False)
    task = cw.load_task("digits:3")
    whole = train(task, FAMILY, QUICK, tmp_path / "whole")
    resumed = train(task, FAMILY, QUICK, tmp_path / "run", resume=True)
    assert names(tmp_path / "run") == DELIVERED
    first, second = whole.model.network.state_dict(), resumed.model.network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    with pytest.raises(cw.InputError, match="is there already"):
        require_free(tmp_path / "run", resume=False)


CHANGES = {
    "data": {"task": cw.load_task("digits:3", beta=20)},
    "objective": {"objective": cw.LossFamily(tau=cw.LinearDensity(0, 3, 0.2))},
    "recipe": {"recipe": QUICK.model_copy(update={"lr": 0.2})},
    "data and network": {
        "task": cw.Task(
            "made", "features", np.zeros((8, 3), np.float32), np.arange(8) % 2,
            np.zeros((4, 3), np.float32), np.arange(4) % 2, ("a", "b"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_run_is_resumed_only_as_it_was_begun(tmp_path, what):
    stopped(tmp_path)
    settings = {"task": cw.load_task("digits:3"), "objective": FAMILY, "recipe": QUICK}
    with pytest.raises(cw.InputError, match=f"resumed only with the {what} it was started with"):
        train(**(settings | CHANGES[what]), folder=tmp_path, resume=True)
    assert names(tmp_path) == ["run.json", "state.safetensors"]  # it can still go on
    assert train(**settings, folder=tmp_path, resume=True).model


def test_a_resumed_run_is_told_which_settings_differ(tmp_path):
    stopped(tmp_path)
    recipe = QUICK.model_copy(update={"lr": 0.2, "epochs": 4})
    with pytest.raises(cw.InputError) as caught:
        train(cw.load_task("digits:3"), FAMILY, recipe, tmp_path, resume=True)
    assert str(caught.value).endswith("with epochs = 3 (got 4), lr = 0.1 (got 0.2)")


def test_a_state_without_a_note_of_its_run_goes_on(tmp_path):
    stopped(tmp_path)
    (tmp_path / "run.json").unlink()
    task = cw.load_task("digits:3")
    assert train(task, FAMILY, QUICK, tmp_path, resume=True).model
    assert names(tmp_path) == DELIVERED


def test_a_run_that_fails_leaves_no_folder(tmp_path):
    task = cw.load_task("digits:3")
    diverging = QUICK.model_copy(update={"lr": 1e30, "clip_norm": None})
    with pytest.raises(cw.CurvewiseError, match="the loss is"):
        train(task, FAMILY, diverging, tmp_path / "new" / "run")
    assert names(tmp_path) == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(cw.CurvewiseError):
        train(task, FAMILY, diverging, tmp_path / "mine")
    assert names(tmp_path / "mine") == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(cw.CurvewiseError):
        train(task, FAMILY, diverging, tmp_path / "empty")
    assert names(tmp_path / "empty") == []  # it was there before
    with pytest.raises(cw.InputError, match=r"notes\.txt/run cannot be made into a folder"):
        train(task, FAMILY, QUICK, tmp_path / "mine" / "notes.txt" / "run")


def test_the_state_is_written_as_often_as_asked(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(job, "save_state", lambda state, path: written.append(state.step))
    task = cw.load_task("digits:3")
    steps = train(task, FAMILY, QUICK, tmp_path / "often", save_minutes=0).steps
    assert written == list(range(1, steps + 1))
    written.clear()
    train(task, FAMILY, QUICK, tmp_path / "rarely", save_minutes=5)
    assert written == []


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
import curvewise as cw
from curvewise.models.train import train
def kill(progress):
    if progress.step == 4:
        os.kill(os.getpid(), signal.SIGKILL)
family = cw.LossFamily(tau=cw.LinearDensity(0, 3, 0.33))
recipe = cw.Recipe(epochs=3, batch_size=64, lr=0.1)
train(cw.load_task("digits:3"), family, recipe, Path(sys.argv[1]), save_minutes=0, on_progress=kill)
"""


def test_a_killed_job_goes_on_from_its_last_state_to_the_same_bits(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", KILLED, tmp_path / "run"]
    killed = subprocess.run(words, env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert names(tmp_path / "run") == ["run.json", "state.safetensors"]
    task = cw.load_task("digits:3")
    resumed = train(task, FAMILY, QUICK, tmp_path / "run", resume=True)
    whole = train(task, FAMILY, QUICK, tmp_path / "whole")
    first, second = whole.model.network.state_dict(), resumed.model.network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_job_that_is_killed_before_its_first_state_leaves_no_note(tmp_path):
    early = KILLED.replace("save_minutes=0", "save_minutes=5").replace("== 4", "== 1")
    words = [sys.executable, "-c", early, tmp_path / "run"]
    killed = subprocess.run(words, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert names(tmp_path / "run") == []
    assert train(cw.load_task("digits:3"), FAMILY, QUICK, tmp_path / "run").model


def test_the_chosen_operating_point_is_in_the_model(tmp_path):
    task = cw.load_task("digits:3")
    kept = task.with_validation(0.25, seed=0)
    for name, rule in (("fpr", {"max_fpr": 0.05}), ("cost", {"cost_ratio": 9.0})):
        train(task, FAMILY, QUICK, tmp_path / name, rule=rule, validation=0.25)
        model = cw.load(tmp_path / name / "model.safetensors")
        point = cw.choose_operating_point(kept.y_test, model.scores(kept.x_test), **rule)
        assert model.record["operating_point"] == {
            "rule": rule, "lambda": {"tau": 3.0}, "measured_on": "validation part",
            "threshold": None if np.isinf(point.threshold) else point.threshold,
            "tpr": point.tpr, "fpr": point.fpr,
        }  # fmt: skip
    train(task, FAMILY, QUICK, tmp_path / "none")
    assert "operating_point" not in cw.load(tmp_path / "none" / "model.safetensors").record


def test_a_taken_folder_is_told_before_the_data_are_read(tmp_path, monkeypatch):
    from curvewise.cli import models as commands

    def too_late(*source, **options):
        raise AssertionError("the data were read first")

    monkeypatch.setattr(commands, "loaded_task", too_late)
    (tmp_path / "model.safetensors").touch()
    ended = command("train", "digits", "--out", tmp_path)
    assert ended.code == 2
    assert "is there already; choose another folder" in ended.err
