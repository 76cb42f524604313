"""`curvewise report`: stores, models, estimators and tables of scores as pages."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score

import curvewise as cw
from command_line import command, done, pictures
from curvewise.cli.pages import model_page, store_page
from curvewise.models.evaluate import MeasuredPart, measured_part
from curvewise.models.predict import Levels
from curvewise.report import page
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store


def read(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="page-data">(.*?)</script>', text, re.DOTALL)[1])


def test_a_store_becomes_a_page(store, tmp_path):
    out = tmp_path / "report.html"
    printed = json.loads(done("report", store, "--task", "digits:8", "-o", out, "--json"))
    data = read(out)
    assert printed == {"file": str(out), "models": 16, "bytes": out.stat().st_size}
    assert [group["name"] for group in data["groups"]] == ["beta = 20", "beta = 50"]
    assert data["methods"] == ["VS", "VS + LCT", "focal", "tau drawn, no FiLM"]
    assert data["groups"][0]["train"] == [811, 40]
    with Store(store, readonly=True) as opened:
        records = list(opened.runs("tiny", task="digits:8"))
    areas = [row["auc"] for row in data["models"]]
    assert areas == pytest.approx([record.auc for record in records], abs=1e-6)
    lct = [row["settings"] for row in data["models"] if row["method"] == 1]
    assert {settings["rho"] for settings in lct} == {0.0, 0.1}  # of the recipe, as it differs
    about = dict(data["provenance"])
    assert about["command"].startswith(f"curvewise report {store} --task digits:8")
    assert records[0].fingerprint[:16] in about["data fingerprints"]
    assert "torch" in about["versions"]
    words = ("report", store, "--task", "digits:8", "--beta", 20, "-o", out)
    assert "8 curves of digits:8" in done(*words)


def test_scores_are_corrected_and_commands_given_where_that_can_be(store):
    with Store(store, readonly=True) as opened:
        stored = store_page(opened, sweep="tiny", task="digits:8", beta=50.0)
    n0, n1 = stored.train_counts[50.0]
    for model in stored.models.itertuples():
        settings = model.settings
        assert ("train" in model.fill) == (model.method in ("VS", "VS + LCT"))
        if model.method in ("focal", "tau drawn, no FiLM") or settings.get("gamma", 0) != 0:
            assert model.log_odds is None
            continue
        # With gamma = 0: alpha = z1 - z0 - tau log(beta), less what weights and the prior moved.
        tau = 3.0 if model.method == "VS + LCT" else settings["tau"]
        omega, share = settings["omega"], np.mean(model.y)
        expected = (
            model.score - tau * np.log(n0 / n1) - np.log(omega / (1 - omega))
            + np.log(share / (1 - share)) - np.log(n1 / n0)
        )  # fmt: skip
        np.testing.assert_allclose(model.log_odds, expected, atol=1e-4)
    models = stored.models.itertuples()
    fill = next(each for each in models if each.settings.get("rho") == 0.1).fill
    for part in ("--tau 0:3:0.33", "--set rho=0.1", "--set epochs=1", "--set network.hidden=8"):
        assert part in fill["train"]
    assert "its AUC will differ" in fill["again"]  # on features it is another model


IMAGES = """
name = "images"
tasks = ["folder:photos"]
seeds = [3]
data = { image_size = 16 }
network = { name = "small-cnn", width = 4 }
recipe = { preset = "quick", epochs = 2, clip_norm = "none" }
methods = [{ method = "vs", tau = [1, 2] }, { method = "lct", tau = ["0:3:0.33"] }]
"""


def test_a_copied_command_trains_the_very_model(tmp_path, monkeypatch):
    pictures(tmp_path / "photos", ill=30, well=90)
    (tmp_path / "images.toml").write_text(IMAGES)
    monkeypatch.chdir(tmp_path)
    places = ("--data-dir", ".", "--cache-dir", "cache")
    done("sweep", "run", "images.toml", "--executor", "serial", *places)
    with Store("images.db", readonly=True) as opened:
        models = store_page(opened).models
    for model in models[1:].itertuples():  # VS with a seed that is not the first, and LCT
        assert model.fill["again"] == "train this one again"
        done(*shlex.split(model.fill["train"])[1:], *places)
        trained = cw.load(tmp_path / model.fill["folder"] / "model.safetensors")
        part = measured_part(trained, "folder:photos", data_dir=Path(), cache_dir=Path("cache"))
        np.testing.assert_allclose(trained.scores(part.x), model.score, atol=2e-3)


def test_a_model_becomes_a_page_with_its_tau(place, tmp_path, monkeypatch):
    out = tmp_path / "report.html"
    done("report", place / "people", "--data", f"table:{place / 'good.csv'}", "-o", out)
    data = read(out)
    assert [row["settings"]["tau"] for row in data["models"]] == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    assert (data["swept"], data["chosen"], data["reduction"]) == ("tau", 6, "weighted_mean")
    assert data["classes"] == ["well", "ill"]
    assert "--tau" in data["models"][0]["fill"]["option"]
    monkeypatch.chdir(place)  # where its own data are found
    done("report", "people", "-o", tmp_path / "own.html")
    monkeypatch.chdir(tmp_path)
    ended = command("report", place / "people", "-o", tmp_path / "none.html")
    assert ended.code == 2
    assert "give --data" in ended.err
    assert not (tmp_path / "none.html").exists()
    # So does its evaluation.
    words = ("evaluate", f"table:{place / 'good.csv'}", "--model", place / "people", "--tau", 1.2)
    printed = json.loads(done(*words, "--out", tmp_path / "again", "--json"))
    data = read(tmp_path / "again" / "report.html")
    chosen = data["models"][data["chosen"]]
    assert chosen["settings"]["tau"] == 1.2
    assert chosen["auc"] == pytest.approx(printed["auc"]["auc"], abs=1e-6)


def test_without_plotly_other_commands_go_on(place, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "find_spec", lambda name: None)
    words = ("evaluate", f"table:{place / 'good.csv'}", "--model", place / "people", "--out")
    ended = command(*words, tmp_path / "again", "--json")
    assert ended.code == 0
    assert 'pip install "curvewise[report]"' in ended.err
    files = sorted(path.name for path in (tmp_path / "again").iterdir())
    assert files == ["metrics.json", "roc.png"]
    page.plotly_script.cache_clear()
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    ended = command("report", place / "people", "-o", tmp_path / "report.html")
    assert ended.code == 2
    assert "pip install" in ended.err


def operated(**changes):
    """A model of gamma and tau with an operating point of its own, and what it is measured on."""
    task, recipe = cw.load_task("digits:8", beta=20), cw.preset("quick", epochs=1)
    family = cw.LossFamily(0.7, cw.LinearDensity(0, 0.4, 2.5), cw.LinearDensity(0.0, 3.0, 0.33))
    spec, names = cw.NetworkSpec("mlp", (64,)), ("not 8", "8")
    fitted = cw.fit(spec.build(seed=0), family, task.x_train, task.y_train, recipe)
    model = cw.Model(fitted.network, spec, family, recipe, names, fitted.class_counts)
    point = cw.choose_operating_point(task.y_test, model.scores(task.x_test), max_fpr=0.05)
    top = dict(zip(family.drawn, model.lam()[0].tolist(), strict=True))
    model.record["test_digest"] = task.test_digest
    model.record["operating_point"] = {
        "rule": {"max_fpr": 0.05}, "lambda": top, "measured_on": "test part",
        "threshold": point.threshold, "tpr": point.tpr, "fpr": point.fpr,
    } | changes  # fmt: skip
    return model, task, point


def shown(model, part, **at):
    return model_page(Levels(model, part, **at), Path("m"), "digits:8", {})


def test_probabilities_of_a_model_and_its_point_are_its_own():
    model, task, point = operated()
    rows = np.random.default_rng(0).permutation(len(task.y_test))[:200]
    part = MeasuredPart(task.x_test[rows], task.y_test[rows])
    given = shown(model, part, tau=1.2)
    at = given.models.iloc[given.chosen]
    assert at["settings"] == {"omega": 0.7, "tau": 1.2}
    p = model.probabilities(part.x, prior=float(part.y.mean()), tau=1.2)
    np.testing.assert_allclose(torch.sigmoid(torch.tensor(at["log_odds"])), p, rtol=1e-5)
    np.testing.assert_allclose(at["score"], model.scores(part.x, tau=1.2), atol=1e-5)
    # Its own point is that of its lambda.
    part = MeasuredPart(task.x_test, task.y_test)
    own = (given := shown(model, part)).own_point
    at = given.models.iloc[own.model]
    assert at["settings"]["tau"] == 3.0
    assert own.threshold == point.threshold
    assert own.rule.startswith("chosen by train for FPR at most 0.05 on these very samples")
    called = np.asarray(at["score"]) >= point.threshold
    assert called[task.y_test == 1].sum() == point.true_positives
    assert called[task.y_test == 0].sum() == point.false_positives
    # Scored at another gamma, as was asked for, the point is still at its own lambda.
    given = shown(model, part, gamma=0.1)
    settings = given.models["settings"].iloc[given.own_point.model]
    assert settings["gamma"] == pytest.approx(0.4)
    # Other samples, another part, nothing called positive, another lambda, no point at all.
    rule = shown(model, MeasuredPart(task.x_test[:300], task.y_test[:300])).own_point.rule
    assert rule == "chosen by train for FPR at most 0.05 on the model's test part"
    model, _, _ = operated(measured_on="validation part", threshold=None)
    own = shown(model, part).own_point
    assert own.rule.endswith("on the model's validation part")
    assert own.threshold == np.inf
    model.record["operating_point"]["lambda"]["gamma"] = 0.2
    assert shown(model, part).own_point is None
    del model.record["operating_point"]
    assert shown(model, part).own_point is None


def test_an_estimator_on_new_rows(place, tmp_path, monkeypatch, capsys):
    source = ("--data", f"table:{place / 'new.csv'}", "--target", "outcome")
    done("report", place / "estimator.safetensors", *source, "-o", tmp_path / "report.html")
    data, new = read(tmp_path / "report.html"), pd.read_csv(place / "new.csv")
    rare = cw.load(place / "estimator.safetensors").rare_log_odds(new.drop(columns="outcome"))
    expected = roc_auc_score(new["outcome"] == "ill", rare)
    assert (data["classes"], data["unit"]) == (["well", "ill"], "log-odds")
    assert data["methods"] == ["LCTClassifier"]
    assert data["models"][0]["auc"] == pytest.approx(expected, abs=1e-6)
    assert "all 150 rows" in data["notes"][0]
    # The copied Python calls what the page does.
    new.drop(columns="outcome").to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(data["copy"]["python"].replace("{threshold}", "-1.5"), {})
    assert capsys.readouterr().out.strip() == str(rare >= -1.5)


def test_a_table_with_scores(place, tmp_path):
    out = tmp_path / "report.html"
    words = ("report", place / "scores.csv", "--target", "outcome", "-o", out)
    assert json.loads(done(*words, "--score", "score", "--score", "age", "--json"))["models"] == 2
    frame = pd.read_csv(place / "scores.csv")
    expected = [roc_auc_score(frame["outcome"] == "ill", frame[c]) for c in ("score", "age")]
    assert [row["auc"] for row in read(out)["models"]] == pytest.approx(expected, abs=1e-6)
    done(*words)  # the column that is called score
    assert read(out)["methods"] == ["score"]


def test_a_sweep_without_finished_runs(tmp_path):
    (run,) = Spec.from_dict({"tasks": "digits:8", "methods": [{"method": "ce"}]}).runs()
    with Store(tmp_path / "runs.db") as opened:
        opened.add_sweep("a", {}, [(run, "run 0", "data")])
    ended = command("report", tmp_path, "-o", tmp_path / "report.html")
    assert ended.code == 2
    assert "a report needs a finished run" in ended.err
