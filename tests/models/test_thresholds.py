"""Thresholds: which one is used, where it comes from, and how it is written down."""

import io
import json
import math
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from rich.console import Console

import curvewise as cw
from command_line import ROWS, command, done, people
from curvewise.cli.models import evaluation_table
from curvewise.models.evaluate import evaluate
from curvewise.models.operating import short_threshold, threshold_text


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, and models of it: with a rule on the test part, on a validation part, without."""
    place = tmp_path_factory.mktemp("thresholds")
    people().drop(columns="city").to_csv(place / "people.csv", index=False)
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


FPR = "FPR at most 0.05 on the model's test part"
# A model, options of predict, the threshold (None: that of a rule), and whose choice it is.
CHOICES = [
    ("ruled", [], None, f"{FPR}, by train"),
    ("ruled", ["--threshold", "0.25"], 0.25, "given"),
    ("ruled", ["--min-tpr", "0.9"], None, "TPR at least 0.9 on the model's test part"),
    ("ruled", ["--tau", "1"], 0.0, f"the default; that of {FPR}, by train is for tau = 3"),
    ("kept", [], None, "TPR at least 0.8 on the model's validation part, by train"),
    ("kept", ["--max-fpr", "0.1"], None, "FPR at most 0.1 on the model's validation part"),
    ("plain", [], 0.0, "the default at tau = 3; --max-fpr chooses another"),
]


@pytest.mark.parametrize(("name", "more", "threshold", "origin"), CHOICES)
def test_a_threshold_is_printed_with_its_origin(place, tmp_path, name, more, threshold, origin):
    """Counting the file's scores again gives its calls, also in the row that is the threshold."""
    out = tmp_path / "a.csv"
    words = ("predict", place / "people.csv", "--model", place / name, "--out", out, *more)
    printed = float(done(*words).partition(f" ({origin}): ")[0].split()[-1])
    summary = json.loads(done(*words, "--overwrite", "--json"))
    assert (summary["threshold"], summary["threshold_from"]) == (printed, origin)
    scores, calls, _ = zip(*[line.split(",") for line in out.read_text().split()[1:]], strict=True)
    assert [int(call) for call in calls] == [float(score) >= printed for score in scores]
    if threshold is not None:
        assert printed == threshold
    elif name == "ruled":
        task = cw.load_task(f"table:{place / 'people.csv'}", target="outcome")
        tested = cw.load(place / name / "model.safetensors").scores(task.x_test)
        assert float(tested[tested >= printed].min()) in map(float, scores)  # to every digit
        rule = {"min_tpr": 0.9} if more else {"max_fpr": 0.05}
        point = cw.choose_operating_point(task.y_test, tested, **rule)
        assert np.array_equal(tested >= printed, tested >= point.threshold)
    else:
        metrics = json.loads((place / name / "metrics.json").read_text())["chosen_on_these_data"]
        assert more or printed == pytest.approx(metrics["threshold"], rel=1e-6)


def test_a_threshold_that_nothing_reaches_calls_nothing_and_no_number_is_a_dash(place, tmp_path):
    model = cw.load(place / "never" / "model.safetensors")
    model.record["operating_point"]["threshold"] = None
    cw.save(model, place / "none.safetensors")
    words = ("predict", place / "people.csv", "--model", place / "none.safetensors")
    ended = command(*words, "--out", tmp_path / "a.csv")
    assert f"{ROWS} rows, 0 called positive at threshold inf (FPR at most 0 on" in ended.out
    ended = command(*words, "--out", tmp_path / "b.csv", "--json")
    assert json.loads(ended.out)["threshold"] is None
    words = ("evaluate", f"table:{place / 'people.csv'}", "--model", place / "plain")
    printed = command(*words, "--threshold", "99").out
    assert "nan" not in printed
    assert "- at prevalence 0.1000" in printed


@pytest.mark.parametrize("seed", range(5))
def test_the_table_of_an_evaluation_has_the_digits_that_its_calls_need(seed):
    rng = np.random.default_rng(seed)
    y = np.arange(200) % 4 == 0
    score = (5 + rng.normal(size=200) + y).astype(np.float32)
    model = SimpleNamespace(scores=lambda x: x)
    result = evaluate(model, score, y, rule={"max_fpr": 0.1})
    text = io.StringIO()
    Console(file=text, width=200).print(evaluation_table(result, "made", "samples"))
    rows = [line.split("│") for line in text.getvalue().splitlines() if "│" in line]
    (printed,) = (float(row[2]) for row in rows if row[1].strip() == "chosen on these data")
    found, known = cw.operating_point(y, score, printed), result.point
    assert (found.tpr, found.fpr) == (known.tpr, known.fpr)


SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(threshold=SCORES | st.floats(-1e30, 1e30), scores=st.lists(SCORES, min_size=1))
def test_a_short_threshold_makes_the_same_calls(threshold, scores):
    short = short_threshold(threshold)
    assert short <= threshold
    kept, whole = (Decimal(repr(n)).normalize().as_tuple().digits for n in (short, threshold))
    assert len(kept) <= len(whole)
    near = np.float32(threshold)
    down, up = np.float32(-np.inf), np.float32(np.inf)
    with np.errstate(over="ignore"):
        around = [near, np.nextafter(near, down), np.nextafter(near, up)]
    for score in (*scores, *around):
        assert (float(score) >= short) == (float(score) >= threshold)
    assert float(threshold_text(threshold)) == short


def test_a_threshold_above_every_score_stays_and_one_that_is_a_score_is_shortened():
    assert short_threshold(math.inf) == math.inf
    assert threshold_text(math.inf) == "inf"
    assert short_threshold(1e300) == 1e300  # above every score
    assert short_threshold(float(np.float32(0.1))) == 0.1  # which is lower, and no score between
