"""`curvewise report` of a saved estimator, and of a table with scores of any tool."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import curvewise as cw
from command_line import command


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Rows of parts, an estimator of the first half, and scores of the second."""
    folder, rng = tmp_path_factory.mktemp("parts"), np.random.default_rng(1)
    cracked = rng.random(900) < 0.1
    frame = pd.DataFrame(
        {
            "width": rng.normal(size=900) + 2 * cracked,
            "maker": rng.choice(["a", "b"], 900),
            "state": np.where(cracked, "cracked", "whole"),
        }
    )
    estimator = cw.LCTClassifier(n_members=6, steps=60, random_state=0)
    estimator.fit(frame[:450].drop(columns="state"), frame["state"][:450])
    cw.save(estimator, folder / "parts.safetensors")
    new = frame[450:].reset_index(drop=True)
    new.to_csv(folder / "new.csv", index=False)
    scores = new[["state"]].assign(
        score=estimator.decision_function(new.drop(columns="state")) * -1,
        width=new["width"],
        word="x",
    )
    scores.to_csv(folder / "scores.csv", index=False)
    return folder


def read(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def test_an_estimator_on_new_rows(parts, tmp_path):
    out = tmp_path / "report.html"
    source = ("--data", f"table:{parts / 'new.csv'}", "--target", "state")
    ended = command("report", parts / "parts.safetensors", *source, "-o", out)
    assert ended.code == 0, ended.err
    data = read(out)
    new = pd.read_csv(parts / "new.csv")
    rare = cw.load(parts / "parts.safetensors").predict_proba(new.drop(columns="state"))[:, 0]
    expected = roc_auc_score(new["state"] == "cracked", rare)
    assert data["classes"] == ["whole", "cracked"]
    assert data["unit"] == "log-odds"
    assert data["methods"] == ["LCTClassifier"]
    assert data["models"][0]["auc"] == pytest.approx(expected, abs=1e-6)
    assert "all 450 rows" in data["notes"][0]


def test_the_copied_python_calls_what_the_page_does(parts, tmp_path, monkeypatch, capsys):
    out = tmp_path / "report.html"
    source = ("--data", f"table:{parts / 'new.csv'}", "--target", "state")
    assert command("report", parts / "parts.safetensors", *source, "-o", out).code == 0
    text = read(out)["copy"]["python"].replace("{threshold}", "-1.5")
    new = pd.read_csv(parts / "new.csv").drop(columns="state")
    new.to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(text, {})
    rare = -cw.load(parts / "parts.safetensors").decision_function(new)
    assert capsys.readouterr().out.strip() == str(rare >= -1.5)


def test_a_table_with_scores(parts, tmp_path):
    out = tmp_path / "report.html"
    words = ("report", parts / "scores.csv", "--target", "state", "-o", out)
    ended = command(*words, "--score", "score", "--score", "width", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["models"] == 2
    data, frame = read(out), pd.read_csv(parts / "scores.csv")
    expected = [roc_auc_score(frame["state"] == "cracked", frame[c]) for c in ("score", "width")]
    assert [row["auc"] for row in data["models"]] == pytest.approx(expected, abs=1e-6)
    assert command(*words).code == 0  # the column that is called score
    assert read(out)["methods"] == ["score"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("scores.csv",), "--target must be the column with the label of scores.csv, got none"),
        (("scores.csv", "--target", "stat"), "did you mean 'state'"),
        (("scores.csv", "--target", "state", "--score", "widht"), "did you mean 'width'"),
        (("scores.csv", "--target", "state", "--score", "word"), "must hold numbers in every row"),
        (("new.csv", "--target", "state"), "--score must name a column of scores of new.csv"),
        (("scores.csv", "--target", "state", "--beta", 3), "--beta is for stores, got a table"),
        (("parts.safetensors",), "needs --data table:FILE with rows that it has not seen"),
        (("parts.safetensors", "--data", "digits:8"), "curvewise.write_report"),
        (("parts.safetensors", "--data", "table:new.csv"), "--target must be the column"),
        (("parts.safetensors", "--positive", "whole"), "--positive is for models of train"),
        (("parts.safetensors", "--score", "a"), "--score is for tables, got a model"),
    ],
)
def test_what_cannot_be_reported(parts, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(parts)
    ended = command("report", *words, "-o", tmp_path / "none.html")
    assert ended.code == 2
    assert message in ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert not (tmp_path / "none.html").exists()
