"""What a model is measured on: the test part of its own split, with its own classes and size."""

import json

import numpy as np
import pytest
from PIL import Image

import curvewise as cw
from command_line import ILL, ROWS, command, done, people, pictures
from curvewise.models.evaluate import measured_part


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, a folder of images, and a model of each that was split by seed 7."""
    place = tmp_path_factory.mktemp("evaluated")
    frame = people(patient=np.arange(ROWS) // 3).drop(columns="city")
    tables = {"people": frame, "copy": frame, "new": frame.assign(age=frame["age"] + 1)}
    tables["few"] = frame[~ILL | (frame.index == 0)]  # cannot be split, so it never was
    for name, table in tables.items():
        table.to_csv(place / f"{name}.csv", index=False)
    pictures(place / "parts", crack=10, sound=30)
    pictures(place / "new", crack=30, sound=10)
    rng = np.random.default_rng(1)
    for path in sorted(place.rglob("*.png")):  # noise, so that no seed's test part is all right
        Image.fromarray(rng.integers(0, 256, (14, 12, 3), dtype=np.uint8)).save(path)
    quick = ("--seed", "7", "--set", "epochs=1", "--cache-dir", place / "cache")
    words = ("train", f"table:{place / 'people.csv'}", "--target", "outcome", "--group", "patient")
    done(*words, *quick, "--out", place / "m-table")
    images = ("train", f"folder:{place / 'parts'}", "--image-size", "10")
    done(*images, *quick, "--out", place / "m-images")
    return place


def measured(place, source, model, *more):
    words = ("evaluate", source, "--model", place / model, "--cache-dir", place / "cache")
    ended = command(*words, *more)
    assert ended.code == 0, ended.err
    return ended.out, ended.err


def metrics(place, source, model, *more):
    return json.loads(measured(place, source, model, *more, "--json")[0])


@pytest.mark.parametrize(("source", "model"), [("table", "m-table"), ("folder", "m-images")])
def test_the_test_part_is_the_models_own_unless_another_seed_is_given(place, source, model):
    text = f"table:{place / 'people.csv'}" if source == "table" else f"folder:{place / 'parts'}"
    trained = json.loads((place / model / "metrics.json").read_text())
    assert metrics(place, text, model) == trained
    assert metrics(place, text, model, "--seed", "7") == trained
    assert metrics(place, text, model, "--seed", "8") != trained


def test_the_positive_class_stays_where_it_has_become_the_frequent_one(place):
    model = cw.load(place / "m-images" / "model.safetensors")
    source = f"folder:{place / 'new'}"
    options = {"cache_dir": place / "cache", "image_size": None}
    x, y, _ = measured_part(model, source, **options)
    assert x.shape[1:] == (3, 10, 10)
    assert np.bincount(y).tolist() == [2, 6]  # crack is class 1, as in training
    with pytest.raises(cw.InputError, match=r"shape \(3, 10, 10\), got \(3, 12, 12\)"):
        measured_part(model, source, **(options | {"image_size": 12}))
    with pytest.warns(UserWarning, match=r"\('sound', 'crack'\) apart, .* \('crack', 'sound'\)"):
        _, y, _ = measured_part(model, source, **options, positive="sound")
    assert np.bincount(y).tolist() == [6, 2]


def test_a_table_without_the_column_of_groups(place, tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    source = f"table:{tmp_path / 'people.csv'}"
    ended = command("evaluate", source, "--model", place / "m-table")
    assert ended.code == 2
    assert "--group must be a column of people.csv, got 'patient'" in ended.err
    assert metrics(place, source, "m-table", "--all-rows")["n_positive"] == 30
    source = f"table:{place / 'people.csv'}"
    words = ("train", source, "--target", "outcome", "--set", "epochs=1")
    for name, more in (("a", ("--beta", "20")), ("b", ("--validation", "0.3", "--seed", "4"))):
        done(*words, *more, "--out", tmp_path / name)
        assert measured(tmp_path, source, name)[1] == ""
        assert "training rows" in measured(tmp_path, source, name, "--all-rows")[1]


TOLD = "curvewise: warning: with {} training rows of the model are among those of {}, so"
UNKNOWN = (
    "curvewise: measured on 60 rows, the test part of new.csv by seed {}; the model was trained on "
    "other data, so --all-rows may take all 300\n"
)
SAMPLES = "curvewise: warning: with --seed 8 samples that the model was trained on may be among"
NEW = "curvewise: measured on 8 samples, the test part of folder:new; the model was trained on o"
# A source, options, what is measured, and what is said of it.
MEASURED = [
    ("table:people.csv", [], "test samples", ""),
    ("table:copy.csv", ["--all-rows"], "all rows", TOLD.format("--all-rows", "copy.csv")),
    ("table:people.csv", ["--seed", 8], "test samples", TOLD.format("--seed 8", "people.csv")),
    ("table:new.csv", ["--json"], "", UNKNOWN.format(7)),
    ("table:new.csv", ["--seed", 8], "test samples", UNKNOWN.format(8)),
    ("table:new.csv", ["--all-rows"], "all rows", ""),
    ("table:few.csv", ["--all-rows"], "all rows", ""),
    ("folder:parts", [], "test samples", ""),
    ("folder:parts", ["--seed", 8], "test samples", SAMPLES),
    ("folder:new", [], "test samples", NEW),
]


@pytest.mark.parametrize(("source", "more", "samples", "told"), MEASURED)
def test_what_is_measured_is_said(place, monkeypatch, source, more, samples, told):
    monkeypatch.setenv("CURVEWISE_DATA", str(place))
    model = "m-table" if source.startswith("table") else "m-images"
    out, err = measured(place, source, model, *more)
    assert samples in out
    assert err.startswith(told) if told else err == ""


def test_the_table_and_the_files_of_an_evaluation(place, tmp_path):
    source = f"table:{place / 'people.csv'}"
    rules = ("--threshold", "0.5", "--min-tpr", "0.5", "--prevalence", "0.01")
    printed, _ = measured(place, source, "m-table", "--out", tmp_path / "again", *rules)
    for part in ("AUC", "at threshold", "chosen on these data", "at prevalence 0.0100"):
        assert part in printed
    files = sorted(path.name for path in (tmp_path / "again").iterdir())
    assert files == ["metrics.json", "report.html", "roc.png"]
    written = json.loads((tmp_path / "again" / "metrics.json").read_text())
    assert written["at_threshold"]["threshold"] == 0.5
    assert written["chosen_on_these_data"]["tpr"] >= 0.5
