"""What goes on, but should be known: one line of warning, and the work is done."""

import json

import numpy as np
import pandas as pd
import pytest

from command_line import command

ROWS = 400
ILL = np.arange(ROWS) % 8 == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table with categories, one with gaps in its labels, and a model with a threshold."""
    place = tmp_path_factory.mktemp("words")
    age = np.random.default_rng(0).normal(50, 9, ROWS).round(2) + 9 * ILL
    city = np.array(["Rome", "Oslo", "Bern"])[np.arange(ROWS) % 3]
    frame = pd.DataFrame({"age": age, "city": city, "outcome": np.where(ILL, "ill", "well")})
    frame.to_csv(place / "people.csv", index=False)
    frame.assign(city="Paris").to_csv(place / "elsewhere.csv", index=False)
    frame.assign(outcome=frame["outcome"].mask(np.arange(ROWS) < 21)).to_csv(
        place / "gaps.csv", index=False
    )
    words = ("train", f"table:{place / 'people.csv'}", "--target", "outcome", "--max-fpr", 0.1)
    ended = command(*words, "--set", "epochs=5", "--out", place / "model")
    assert ended.code == 0, ended.err
    assert ended.err == ""
    return place


def test_categories_that_training_never_saw(place, tmp_path):
    words = ("predict", place / "elsewhere.csv", "--model", place / "model")
    ended = command(*words, "--out", tmp_path / "a.csv")
    assert ended.code == 0
    assert ended.err == (
        "curvewise: warning: rows have categories that the training data had none of: "
        "'city' (400, for instance 'Paris')\n"
    )
    assert (
        command("predict", place / "people.csv", *words[2:], "--out", tmp_path / "b.csv").err == ""
    )


def test_rows_without_a_label(place):
    ended = command("data", "check", f"table:{place / 'gaps.csv'}", "--target", "outcome")
    assert ended.code == 0
    told = "21 of 400 rows of table:gaps.csv are left out: they have no 'outcome'"
    assert f"curvewise: warning: {told}\n" in ended.err


def test_probabilities_of_a_reduction_that_biases_them(place, tmp_path):
    words = ("predict", place / "people.csv", "--model", place / "model", "--calibrated")
    ended = command(*words, "--out", tmp_path / "a.csv")
    assert ended.code == 0
    assert ended.err.startswith("curvewise: warning: this model's probabilities are biased")
    assert ended.err.count("\n") == 1


def test_a_threshold_that_nothing_reaches(place, tmp_path):
    words = ("train", f"table:{place / 'people.csv'}", "--target", "outcome", "--cost-ratio", 0.01)
    short = ("--set", "epochs=1", "--set", "film_init=paper")  # which has learnt nothing by then
    ended = command(*words, *short, "--out", tmp_path / "model")
    assert ended.code == 0
    assert ended.err == (
        "curvewise: warning: by a cost ratio of 0.01 on the test part nothing is called positive, "
        "nor will predict\n"
    )
    words = ("evaluate", f"table:{place / 'people.csv'}", "--model", tmp_path / "model", "--json")
    found = json.loads(command(*words).out)["at_threshold"]
    assert (found["threshold"], found["tpr"], found["fpr"]) == (None, 0.0, 0.0)


def test_evaluate_uses_the_threshold_that_train_chose(place):
    words = ("evaluate", f"table:{place / 'people.csv'}", "--model", place / "model")
    ended = command(*words)
    assert "the threshold is FPR at most 0.1 on the model's test part, by train\n" in ended.out
    ended = command(*words, "--tau", 1)
    assert "the threshold is the default; that of FPR at most 0.1" in ended.out
    assert "the threshold is given" in command(*words, "--threshold", 1).out


def test_a_path_without_its_source(place, monkeypatch):
    monkeypatch.chdir(place)
    ended = command("train", "people.csv", "--target", "outcome")
    assert ended.code == 2
    assert ended.err.endswith("got 'people.csv'; did you mean 'table:people.csv'?\n")


def test_a_setting_with_another_name_lists_them(tmp_path):
    ended = command("train", "digits:8", "--set", "learning_rate=0.5", "--out", tmp_path / "model")
    assert ended.code == 2
    assert "'learning_rate' is no setting, which are " in ended.err
    assert " lr," in ended.err
