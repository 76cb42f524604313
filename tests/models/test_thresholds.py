"""Thresholds: which one is used, where it comes from, and how it is written down."""

import io
import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from rich.console import Console

import curvewise as cw
from command_line import command, done
from curvewise.cli.models import evaluation_table
from curvewise.models.evaluate import evaluate
from curvewise.models.operating import short_threshold, threshold_text

ROWS = 400


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, and models of it: with a rule on the test part, on a validation part, without."""
    place = tmp_path_factory.mktemp("thresholds")
    ill = np.arange(ROWS) % 5 == 0
    age = np.random.default_rng(0).normal(50, 9, ROWS) + 9 * ill
    frame = pd.DataFrame({"age": age, "outcome": np.where(ill, "ill", "well")})
    frame.to_csv(place / "people.csv", index=False)
    words = ("train", f"table:{place / 'people.csv'}", "--target", "outcome", "--set", "epochs=5")
    for name, more in (
        ("ruled", ("--max-fpr", "0.05")),
        ("kept", ("--min-tpr", "0.8", "--validation", "0.25")),
        ("never", ("--max-fpr", "0", "--set", "epochs=1", "--set", "lr=1e-9")),
        ("plain", ()),
    ):
        printed = done(*words, *more, "--out", place / name)
        assert ("predict uses the threshold chosen on these data" in printed) == bool(more)
    return place


def predicted(place, model, out, *more):
    words = ("predict", place / "people.csv", "--model", place / model, "--out", out, *more)
    printed = done(*words)
    summary = json.loads(done(*words, "--overwrite", "--json"))
    return printed, summary, pd.read_csv(out)


def chosen(place, model):
    metrics = json.loads((place / model / "metrics.json").read_text())
    return metrics["chosen_on_these_data"]["threshold"]


def test_predict_uses_the_threshold_that_train_chose_and_says_so(place, tmp_path):
    text, summary, found = predicted(place, "ruled", tmp_path / "a.csv")
    score = cw.load(place / "ruled" / "model.safetensors")
    assert summary["threshold_from"] == "FPR at most 0.05 on the model's test part, by train"
    assert f"called positive at threshold {summary['threshold']} (FPR at most 0.05 on" in text
    assert summary["threshold"] == pytest.approx(chosen(place, "ruled"), rel=1e-6)
    assert summary["threshold"] != 0
    assert (found["positive"] == (found["score"] >= chosen(place, "ruled"))).all()
    # The promise is kept on the part that it was made for.
    task = cw.load_task(f"table:{place / 'people.csv'}", target="outcome")
    called = score.scores(task.x_test) >= summary["threshold"]
    assert 0 < called[task.y_test == 0].mean() <= 0.05


def test_a_validation_part_is_named_as_what_it_is(place, tmp_path):
    _, summary, _ = predicted(place, "kept", tmp_path / "a.csv")
    assert summary["threshold_from"] == "TPR at least 0.8 on the model's validation part, by train"
    _, summary, _ = predicted(place, "kept", tmp_path / "b.csv", "--max-fpr", "0.1")
    assert summary["threshold_from"] == "FPR at most 0.1 on the model's validation part"


def test_other_rules_come_before_that_of_train(place, tmp_path):
    _, summary, _ = predicted(place, "ruled", tmp_path / "a.csv", "--threshold", "0.25")
    assert (summary["threshold"], summary["threshold_from"]) == (0.25, "given")
    _, summary, _ = predicted(place, "ruled", tmp_path / "b.csv", "--min-tpr", "0.9")
    assert summary["threshold_from"] == "TPR at least 0.9 on the model's test part"
    assert summary["threshold"] < chosen(place, "ruled")


def test_a_threshold_of_another_tau_is_not_used(place, tmp_path):
    text, summary, _ = predicted(place, "ruled", tmp_path / "a.csv", "--tau", "1")
    assert summary["threshold"] == 0
    assert "at threshold 0 (the default; that of FPR at most 0.05 on" in text
    assert "by train is for tau = 3)" in text


def test_without_a_rule_it_is_zero_with_a_hint(place, tmp_path):
    text, summary, found = predicted(place, "plain", tmp_path / "a.csv")
    assert "at threshold 0 (the default at tau = 3; --max-fpr chooses another): " in text
    assert summary["threshold"] == 0
    assert (found["positive"] == (found["score"] >= 0)).all()


def test_a_threshold_that_nothing_reaches_calls_nothing(place, tmp_path):
    model = cw.load(place / "never" / "model.safetensors")
    model.record["operating_point"]["threshold"] = None
    cw.save(model, place / "none.safetensors")
    words = ("predict", place / "people.csv", "--model", place / "none.safetensors")
    ended = command(*words, "--out", tmp_path / "a.csv")
    assert f"{ROWS} rows, 0 called positive at threshold inf (FPR at most 0 on" in ended.out
    ended = command(*words, "--out", tmp_path / "b.csv", "--json")
    assert json.loads(ended.out)["threshold"] is None


@pytest.mark.parametrize("rule", [("--min-tpr", "0.5"), ()])
def test_recounting_the_file_with_the_printed_threshold_gives_its_calls(place, tmp_path, rule):
    """Also in the boundary row, the score of which is the threshold."""
    out = tmp_path / "a.csv"
    text, summary, _ = predicted(place, "ruled", out, *rule)
    printed = float(text.partition("at threshold ")[2].split()[0])
    assert printed == summary["threshold"]
    lines = [line.split(",") for line in out.read_text().splitlines()[1:]]
    assert [int(line[1]) for line in lines] == [float(line[0]) >= printed for line in lines]
    model = cw.load(place / "ruled" / "model.safetensors")
    task = cw.load_task(f"table:{place / 'people.csv'}", target="outcome")
    boundary = model.scores(task.x_test)
    boundary = float(boundary[boundary >= printed].min())
    assert boundary in [float(line[0]) for line in lines]  # every digit of it is there


def printed_in(table) -> dict[str, str]:
    with io.StringIO() as text:
        Console(file=text, width=200).print(table)
        rows = [line.split("│") for line in text.getvalue().splitlines() if "│" in line]
    return {row[1].strip(): row[2].strip() for row in rows}


@pytest.mark.parametrize("seed", range(5))
def test_the_table_of_an_evaluation_has_the_digits_that_its_calls_need(seed):
    rng = np.random.default_rng(seed)
    y = np.arange(200) % 4 == 0
    score = (5 + rng.normal(size=200) + y).astype(np.float32)
    model = SimpleNamespace(scores=lambda x: x)
    result = evaluate(model, score, y, rule={"max_fpr": 0.1})
    printed = float(printed_in(evaluation_table(result, "made", "samples"))["chosen on these data"])
    found, known = cw.operating_point(y, score, printed), result.point
    assert (found.tpr, found.fpr) == (known.tpr, known.fpr)


def test_what_is_no_number_is_a_dash(place):
    words = ("evaluate", f"table:{place / 'people.csv'}", "--model", place / "plain")
    printed = command(*words, "--threshold", "99").out
    assert "nan" not in printed
    assert "- at prevalence 0.2000" in printed


SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(threshold=SCORES | st.floats(-1e30, 1e30), scores=st.lists(SCORES, min_size=1))
def test_a_short_threshold_makes_the_same_calls(threshold, scores):
    short = short_threshold(threshold)
    assert short <= threshold
    assert len(repr(short)) <= len(repr(threshold))
    near = np.float32(threshold)
    down, up = np.float32(-np.inf), np.float32(np.inf)
    with np.errstate(over="ignore"):
        around = [near, np.nextafter(near, down), np.nextafter(near, up)]
    for score in (*scores, *around):
        assert (float(score) >= short) == (float(score) >= threshold)
    assert float(threshold_text(threshold)) == short


def test_a_threshold_that_is_not_finite_stays():
    assert short_threshold(math.inf) == math.inf
    assert threshold_text(math.inf) == "inf"
    assert short_threshold(1e300) == 1e300  # above every score
