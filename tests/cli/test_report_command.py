"""`curvewise report`: stores and models as pages, and what it says where it cannot."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import curvewise as cw
from command_line import command
from curvewise.models.evaluate import MeasuredPart, measured_part
from curvewise.models.predict import at_levels
from curvewise.report import page
from curvewise.report.from_model import model_page
from curvewise.report.from_store import store_page
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store

SPEC = """
name = "tiny"
tasks = ["digits:8", "digits:3"]
betas = [20, 50]
seeds = [0]
[network]
name = "mlp"
hidden = [8]
[recipe]
preset = "quick"
epochs = 1
[[methods]]
method = "vs"
omega = [0.5, 0.9]
gamma = [0, 0.2]
tau = [1]
[[methods]]
method = "lct"
tau = ["0:3:0.33"]
rho = [0.0, 0.1]
[[methods]]
method = "focal"
[[methods]]
method = "unconditioned"
tau = ["0:3:0.33"]
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "tiny.toml").write_text(SPEC)
    words = ("sweep", "run", folder / "tiny.toml", "--executor", "serial", "--json")
    assert command(*words).code == 0
    return folder / "tiny.db"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 8 == 0
    frame = pd.DataFrame(
        {"age": rng.normal(50, 10, 400) + 15 * y, "outcome": np.where(y, "<i>ill", "well")}
    )
    path = tmp_path_factory.mktemp("people") / "people.csv"
    frame.to_csv(path, index=False)
    words = ("train", f"table:{path}", "--target", "outcome", "--preset", "tabular")
    ended = command(*words, "--set", "epochs=3", "--out", path.parent / "model", "--json")
    assert ended.code == 0, ended.err
    return path


def read(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="page-data">(.*?)</script>', text, re.DOTALL)[1])


def test_a_store_becomes_a_page(store, tmp_path):
    out = tmp_path / "report.html"
    ended = command("report", store, "--task", "digits:8", "-o", out, "--json")
    assert ended.code == 0, ended.err
    data = read(out)
    printed = json.loads(ended.out)
    assert printed == {"file": str(out), "models": 16, "bytes": out.stat().st_size}
    assert [group["name"] for group in data["groups"]] == ["beta = 20", "beta = 50"]
    assert data["methods"] == ["VS", "VS + LCT", "focal", "tau drawn, no FiLM"]
    assert data["groups"][0]["train"] == [811, 40]
    with Store(store, readonly=True) as opened:
        records = list(opened.runs("tiny", task="digits:8"))
    assert [row["auc"] for row in data["models"]] == pytest.approx(
        [r.auc for r in records], abs=1e-6
    )
    lct = [row["settings"] for row in data["models"] if row["method"] == 1]
    assert {settings["rho"] for settings in lct} == {0.0, 0.1}  # of the recipe, as it differs
    about = dict(data["provenance"])
    assert about["command"].startswith(f"curvewise report {store} --task digits:8")
    assert records[0].fingerprint[:16] in about["data fingerprints"]
    assert "torch" in about["versions"]
    again = command("report", store, "--task", "digits:8", "--beta", 20, "-o", out)
    assert "8 curves of digits:8" in again.out


def test_scores_are_corrected_where_they_tell_enough(store):
    with Store(store, readonly=True) as opened:
        given = store_page(opened, sweep="tiny", task="digits:8", beta=50.0)
        counts = {r.fingerprint: opened.problem(r.fingerprint).class_counts for r in opened.runs()}
    assert counts
    for model in given.models.itertuples():
        settings = model.settings
        if model.method in ("focal", "tau drawn, no FiLM") or settings.get("gamma", 0) != 0:
            assert model.log_odds is None
            continue
        # With gamma = 0: alpha = z1 - z0 - tau log(beta), less what weights and the prior moved.
        n0, n1 = given.train_counts[50.0]
        tau = 3.0 if model.method == "VS + LCT" else settings["tau"]
        omega = settings["omega"]
        share = np.mean(model.y)
        expected = (
            model.score - tau * np.log(n0 / n1) - np.log(omega / (1 - omega))
            + np.log(share / (1 - share)) - np.log(n1 / n0)
        )  # fmt: skip
        np.testing.assert_allclose(model.log_odds, expected, atol=1e-4)


def test_commands_are_there_where_train_has_the_method(store):
    with Store(store, readonly=True) as opened:
        given = store_page(opened, sweep="tiny", task="digits:8", beta=50.0)
    for model in given.models.itertuples():
        assert ("train" in model.fill) == (model.method in ("VS", "VS + LCT"))
    sam = next(model for model in given.models.itertuples() if model.settings.get("rho") == 0.1)
    text = sam.fill["train"]
    assert "--tau 0:3:0.33" in text
    assert "--set rho=0.1" in text
    assert "--set epochs=1" in text


IMAGES = """
name = "images"
tasks = ["folder:photos"]
seeds = [3]
[data]
image_size = 16
[network]
name = "small-cnn"
width = 4
[recipe]
preset = "quick"
epochs = 2
clip_norm = "none"
[[methods]]
method = "vs"
tau = [1, 2]
[[methods]]
method = "lct"
tau = ["0:3:0.33"]
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for name, count, shade in (("ill", 30, 150), ("well", 90, 60)):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 60, (16, 16, 3)) + shade
            Image.fromarray(pixels.astype(np.uint8)).save(
                folder / "photos" / name / f"{number}.png"
            )
    (folder / "images.toml").write_text(IMAGES)
    return folder


def test_a_copied_command_trains_the_very_model(photos, monkeypatch):
    monkeypatch.chdir(photos)
    words = ("sweep", "run", "images.toml", "--executor", "serial", "--data-dir", ".")
    assert command(*words, "--cache-dir", "cache").code == 0
    with Store("images.db", readonly=True) as opened:
        given = store_page(opened)
    for model in given.models[1:].itertuples():  # VS with a seed that is not the first, and LCT
        assert model.fill["again"] == "train this one again"
        words = (*shlex.split(model.fill["train"])[1:], "--data-dir", ".", "--cache-dir", "cache")
        ended = command(*words)
        assert ended.code == 0, ended.err
        trained = cw.load(photos / model.fill["folder"] / "model.safetensors")
        part = measured_part(trained, "folder:photos", data_dir=Path(), cache_dir=Path("cache"))
        np.testing.assert_allclose(trained.scores(part.x), model.score, atol=2e-3)


def test_a_copied_command_on_features_says_that_it_trains_another(store, tmp_path, monkeypatch):
    with Store(store, readonly=True) as opened:
        given = store_page(opened, sweep="tiny", task="digits:8", beta=50.0)
    monkeypatch.chdir(tmp_path)
    model = next(model for model in given.models.itertuples() if model.method == "VS + LCT")
    assert "its AUC will differ" in model.fill["again"]
    assert command(*shlex.split(model.fill["train"])[1:]).code == 0
    trained = cw.load(tmp_path / model.fill["folder"] / "model.safetensors")
    assert trained.spec.options == {"hidden": [8]}


def test_a_model_becomes_a_page_with_its_tau(table, tmp_path):
    out = tmp_path / "report.html"
    ended = command("report", table.parent / "model", "--data", f"table:{table}", "-o", out)
    assert ended.code == 0, ended.err
    data = read(out)
    assert [row["settings"]["tau"] for row in data["models"]] == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    assert data["swept"] == "tau"
    assert data["chosen"] == 6
    assert data["classes"] == ["well", "<i>ill"]
    assert "--tau" in data["models"][0]["fill"]["option"]


def test_a_models_own_data_are_found_or_asked_for(table, tmp_path, monkeypatch):
    monkeypatch.chdir(table.parent)
    assert command("report", "model", "-o", tmp_path / "a.html").code == 0
    monkeypatch.chdir(tmp_path)
    ended = command("report", table.parent / "model", "-o", tmp_path / "b.html")
    assert ended.code == 2
    assert "give --data" in ended.err
    assert not (tmp_path / "b.html").exists()


def test_probabilities_of_a_model_are_its_own():
    rng = np.random.default_rng(0)
    task = cw.load_task("digits:8", beta=20)
    family = cw.LossFamily(0.7, 0.2, cw.LinearDensity(0.0, 3.0, 0.33))
    network = cw.build_network("mlp", in_shape=(64,), seed=0)
    fitted = cw.fit(network, family, task.x_train, task.y_train, cw.preset("quick", epochs=1))
    spec = cw.NetworkSpec("mlp", (64,))
    model = cw.Model(
        fitted.network, spec, family, cw.preset("quick"), ("not 8", "8"), fitted.class_counts
    )
    rows = rng.permutation(len(task.y_test))[:200]
    part = MeasuredPart(task.x_test[rows], task.y_test[rows])
    given = model_page(at_levels(model, part, tau=1.2), Path("m"), "digits:8")
    at = given.models.iloc[given.chosen]
    assert at.settings == {"omega": 0.7, "gamma": 0.2, "tau": 1.2}
    share = float(part.y.mean())
    p = model.probabilities(part.x, prior=share, tau=1.2)
    np.testing.assert_allclose(torch.sigmoid(torch.tensor(at.log_odds)), p, rtol=1e-5)
    np.testing.assert_allclose(at.score, model.scores(part.x, tau=1.2), atol=1e-5)


def operated(**changes):
    """A model of gamma and tau with an operating point of its own, and what it is measured on."""
    task = cw.load_task("digits:8", beta=20)
    family = cw.LossFamily(0.7, cw.LinearDensity(0, 0.4, 2.5), cw.LinearDensity(0.0, 3.0, 0.33))
    network = cw.build_network("mlp", in_shape=(64,), seed=0)
    fitted = cw.fit(network, family, task.x_train, task.y_train, cw.preset("quick", epochs=1))
    spec = cw.NetworkSpec("mlp", (64,))
    model = cw.Model(
        fitted.network, spec, family, cw.preset("quick"), ("not 8", "8"), fitted.class_counts
    )
    point = cw.choose_operating_point(task.y_test, model.scores(task.x_test), max_fpr=0.05)
    top = dict(zip(family.drawn, model.lam()[0].tolist(), strict=True))
    model.record["test_digest"] = task.test_digest
    model.record["operating_point"] = {
        "rule": {"max_fpr": 0.05}, "lambda": top, "measured_on": "test part",
        "threshold": point.threshold, "tpr": point.tpr, "fpr": point.fpr,
    } | changes  # fmt: skip
    return model, task, point


def test_a_models_own_point_is_that_of_its_lambda():
    model, task, point = operated()
    part = MeasuredPart(task.x_test, task.y_test)
    given = model_page(at_levels(model, part), Path("m"), "digits:8")
    own = given.own_point
    assert given.models.iloc[own.model].settings["tau"] == 3.0
    assert own.threshold == point.threshold
    assert own.rule.startswith("chosen by train for FPR at most 0.05 on these very samples")
    called = np.asarray(given.models.iloc[own.model].score) >= point.threshold
    assert called[task.y_test == 1].sum() == point.true_positives
    assert called[task.y_test == 0].sum() == point.false_positives
    # Scored at lower gamma, as a value was chosen, the point is that of another lambda.
    given = model_page(at_levels(model, part, gamma=0.1), Path("m"), "digits:8")
    assert given.models.iloc[given.own_point.model].settings["gamma"] == pytest.approx(0.4)
    # Other samples, another part, nothing called positive, another lambda, no point at all.
    few = MeasuredPart(task.x_test[:300], task.y_test[:300])
    own = model_page(at_levels(model, few), Path("m"), "digits:8").own_point
    assert own.rule == "chosen by train for FPR at most 0.05 on the model's test part"
    model, _, _ = operated(measured_on="validation part", threshold=None)
    own = model_page(at_levels(model, part), Path("m"), "digits:8").own_point
    assert own.rule.endswith("on the model's validation part")
    assert own.threshold == np.inf
    model.record["operating_point"]["lambda"]["gamma"] = 0.2
    assert model_page(at_levels(model, part), Path("m"), "digits:8").own_point is None
    del model.record["operating_point"]
    assert model_page(at_levels(model, part), Path("m"), "digits:8").own_point is None


@pytest.mark.parametrize("reduction", ["weighted_mean", "expected_mean"])
def test_the_page_knows_the_reduction(table, tmp_path, reduction):
    words = ("train", f"table:{table}", "--target", "outcome", "--preset", "tabular")
    words += ("--set", "epochs=1", "--reduction", reduction, "--out", tmp_path / "model", "--json")
    assert command(*words).code == 0
    out = tmp_path / "report.html"
    ended = command("report", tmp_path / "model", "--data", f"table:{table}", "-o", out)
    assert ended.code == 0, ended.err
    assert read(out)["reduction"] == reduction


def test_evaluate_leaves_a_page_too(table, tmp_path):
    words = ("evaluate", f"table:{table}", "--model", table.parent / "model", "--tau", 1.2)
    ended = command(*words, "--out", tmp_path / "again", "--json")
    assert ended.code == 0, ended.err
    data = read(tmp_path / "again" / "report.html")
    chosen = data["models"][data["chosen"]]
    assert chosen["settings"]["tau"] == 1.2
    assert chosen["auc"] == pytest.approx(json.loads(ended.out)["auc"]["auc"], abs=1e-6)


def test_without_plotly_other_commands_go_on(table, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "find_spec", lambda name: None)
    words = ("evaluate", f"table:{table}", "--model", table.parent / "model", "--out")
    ended = command(*words, tmp_path / "again", "--json")
    assert ended.code == 0
    assert 'pip install "curvewise[report]"' in ended.err
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == [
        "metrics.json",
        "roc.png",
    ]
    page.plotly_script.cache_clear()
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    ended = command("report", table.parent / "model", "-o", tmp_path / "report.html")
    page.plotly_script.cache_clear()
    assert ended.code == 2
    assert "pip install" in ended.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("nowhere.db",), "there is no nowhere.db"),
        (("{folder}",), "must hold one of model.safetensors and runs.db"),
        (("{store}",), "--task must choose one of digits:8, digits:3"),
        (("{store}", "--task", "digits:9"), "got 'digits:9'"),
        (("{store}", "--task", "digits:8", "--beta", "7"), "--beta must be one of 20, 50"),
        (("{store}", "--sweep", "tinny"), "did you mean 'tiny'"),
        (("{store}", "--data", "digits:8"), "--data is for models"),
        (("{model}", "--task", "digits:8"), "--task is for stores"),
        (("{table}",), "people.csv"),
        (
            ("{store}", "--task", "digits:8", "-o", "{folder}"),
            "--out must be a file, got the folder",
        ),
        (("{store}", "--task", "digits:8", "-o", "{table}"), "is no report"),
        (("{store}", "--task", "digits:8", "-o", "{table}/x.html"), "people.csv/x.html"),
    ],
)
def test_bad_input_is_one_sentence(words, named, store, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = {"store": store, "table": table, "model": table.parent / "model", "folder": tmp_path}
    ended = command("report", *(word.format(**places) for word in words))
    assert ended.code == 2, ended
    assert len(ended.err.strip().splitlines()) == 1
    assert named in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_without_finished_runs(tmp_path):
    with Store(tmp_path / "runs.db") as opened:
        spec = Spec.from_dict({"tasks": ["digits:8"], "seeds": [0], "methods": [{"method": "ce"}]})
        (run,) = spec.runs()
        opened.add_sweep("a", spec.to_dict(), [(run, "run 0", "data")])
    ended = command("report", tmp_path, "-o", tmp_path / "report.html")
    assert ended.code == 2
    assert "a report needs a finished run" in ended.err
