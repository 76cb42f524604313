"""Bad input through the command line: exit code 2, one line that names it, nothing left behind."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from safetensors.torch import save_file

import curvewise as cw
from command_line import command

ROWS = 300
ILL = np.arange(ROWS) % 10 == 0


def people(**columns: object) -> pd.DataFrame:
    """A good table, with columns changed."""
    age = np.random.default_rng(0).normal(50, 9, ROWS).round(2) + 9 * ILL
    return pd.DataFrame({"age": age, "outcome": np.where(ILL, "ill", "well")}).assign(**columns)


def pictures(folder: Path, **counts: int) -> Path:
    """A folder with one sub-folder a class."""
    for place, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (9, 7), (90 * place, number, 5)).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Files to be wrong about, and a good model of a table and one of images."""
    place = tmp_path_factory.mktemp("bad")
    junk = people().astype({"age": str})
    junk.loc[4, "age"] = "#REF!"
    tables = {
        "good": people(),
        "one_class": people(outcome="well"),
        "junk": junk,
        "no_rows": people()[:0],
        "nothing_known": people(age=np.nan),
        "without_age": people().drop(columns="age").assign(weight=1.5),
        "infinite": people(age=np.where(ILL, np.inf, 1.0)),
        "numbered": people(code=[f"id{row}" for row in range(ROWS)]),
        "word_after_training": people(age="old"),
    }
    for name, frame in tables.items():
        frame.to_csv(place / f"{name}.csv", index=False)
    (place / "empty.csv").write_bytes(b"")
    (place / "bytes.csv").write_bytes(bytes(range(256)))
    (place / "ragged.csv").write_text("age,outcome\n1,ill\n2,well,3\n")
    (place / "unclosed.csv").write_text('age,outcome\n1,"ill\n2,well\n')
    np.savez(place / "images.npz", x=np.zeros((4, 12, 12), np.uint8))
    np.savez(place / "labels.npz", y=np.zeros(4))
    x = np.random.default_rng(0).normal(size=(60, 4))
    x[7, 2] = np.nan
    np.savez(place / "nan.npz", x=x, y=np.arange(60) % 6 == 0)
    smaller = cw.build_network("mlp", in_shape=(3,)).state_dict()
    save_file(smaller, place / "other.safetensors")
    (place / "code.pth").write_bytes(b"not weights")
    pictures(place / "parts", crack=8, sound=24)
    pictures(place / "single", crack=8)
    zero = pictures(place / "zero", crack=8, sound=24)
    (zero / "sound" / "3.png").write_bytes(b"")
    (place / "blank.jpg").write_bytes(b"")
    table = ("train", f"table:{place / 'good.csv'}", "--target", "outcome", "--set", "epochs=1")
    assert command(*table, "--out", place / "people").code == 0
    assert command(*table, "--tau", "2", "--out", place / "fixed").code == 0
    images = ("train", f"folder:{place / 'parts'}", "--image-size", "12", "--set", "epochs=1")
    cache = ("--cache-dir", place / "cache")
    assert command(*images, *cache, "--out", place / "photos").code == 0
    return place


def table(name: str, *more: str) -> list[str]:
    return ["train", f"table:{{place}}/{name}.csv", "--target", "outcome", *more]


PEOPLE, PHOTOS = ("--model", "{place}/people"), ("--model", "{place}/photos")
GOOD = "table:{place}/good.csv"
CASES = {
    # a missing file: its path, and how to get it
    "no table": (["train", "table:gone.csv", "--target", "y"], ["'gone.csv'", "--data-dir"]),
    "near table": (["train", "table:{place}/god.csv"], ["god.csv", "did you mean 'good.csv'"]),
    "no npz": (["train", "npz:gone.npz"], ["'gone.npz'", "--data-dir"]),
    "no folder": (["train", "folder:gone"], ["must name a folder that is there, got 'gone'"]),
    "no cifar": (
        ["train", "cifar10:cat/dog", "--data-dir", "nowhere"],
        ["nowhere/cifar-10-batches-py", "get cifar-10-python.tar.gz from https://"],
    ),
    "no dogs": (
        ["embed", "dogs-vs-cats", "--data-dir", "nowhere", "--out", "f.npz"],
        ["nowhere/dogs-vs-cats/train/cat.0.jpg", "get train.zip from https://"],
    ),
    "no melanoma": (
        ["data", "check", "melanoma", "--data-dir", "nowhere"],
        ["nowhere/isic2020/train.csv", "get them from https://"],
    ),
    "no weights": (["train", "digits", "--weights", "gone.pth"], ["weights file gone.pth"]),
    "no model": (["evaluate", "digits", "--model", "gone"], ["no file gone", "train"]),
    "no model here": (
        ["predict", "{place}/good.csv", "--model", "{place}/parts"],
        ["no file {place}/parts/model.safetensors"],
    ),
    "no rows to predict": (["predict", "gone.csv", *PEOPLE], ["no gone.csv to predict"]),
    "no image": (["predict", "{place}/parts", "gone.jpg", *PHOTOS], ["gone.jpg"]),
    "no table to evaluate": (["evaluate", "table:gone.csv", *PEOPLE], ["'gone.csv'"]),
    # a wrong column
    "target": (["train", GOOD, "--target", "outcom"], ["--target", "did you mean 'outcome'"]),
    "no target": (["train", GOOD], ["`target` under [data]), one of 'age', 'outcome'"]),
    "group": (table("good", "--group", "ag"), ["--group", "'ag'; did you mean 'age'"]),
    "positive": (table("good", "--positive", "il"), ["'il'; did you mean 'ill'"]),
    "evaluated target": (["evaluate", GOOD, *PEOPLE, "--target", "nobody"], ["'nobody'"]),
    "other positive": (
        ["evaluate", GOOD, *PEOPLE, "--positive", "well"],
        ["the model's own 'ill', got 'well'"],
    ),
    "lacking": (["predict", "{place}/without_age.csv", *PEOPLE], ["lacks 'age'"]),
    # a target with one class
    "one class": (table("one_class"), ["'outcome' must hold two classes, got one: 'well'"]),
    "rare class of one": (["train", GOOD, "--target", "age"], ["must hold two classes", "got "]),
    # junk
    "junk": (table("junk"), ["column 'age'", "'#REF!' in row 5"]),
    "junk to predict": (
        ["predict", "{place}/word_after_training.csv", *PEOPLE],
        ["column 'age'", "'old' in row 1"],
    ),
    "bytes": (table("bytes"), ["bytes.csv must be text in UTF-8"]),
    "ragged": (table("ragged"), ["ragged.csv", "as many fields", "3 fields in line 3 and 2 be"]),
    "unclosed": (table("unclosed"), ["a quotation mark in line 2 that nothing closes"]),
    # an empty table
    "empty": (table("empty"), ["empty.csv must have a header and rows, got an empty file"]),
    "no rows": (table("no_rows"), ["no_rows.csv must have a header and rows below it"]),
    "empty to predict": (["predict", "{place}/empty.csv", *PEOPLE], ["got an empty file"]),
    "nothing known": (table("nothing_known"), ["'age' (empty)"]),
    # too many categories
    "a class each": (
        ["train", "table:{place}/numbered.csv", "--target", "code"],
        ["got 300: 'id0', ", ", ..."],
    ),
    # images that cannot be read
    "zero bytes": (
        ["train", "folder:{place}/zero", "--image-size", "12"],
        ["1 of 32 images unreadable: {place}/zero/sound/3.png (the file is empty)"],
    ),
    "only zero bytes": (
        ["predict", "{place}/blank.jpg", *PHOTOS],
        ["1 of 1 images unreadable: {place}/blank.jpg (the file is empty)"],
    ),
    "no images inside": (["predict", "{place}/cache", *PHOTOS], ["{place}/cache", "got none"]),
    "table for images": (["predict", "{place}/good.csv", *PHOTOS], ["images", "good.csv"]),
    "images for table": (["predict", "{place}/parts", *PEOPLE], ["one CSV", "{place}/parts"]),
    # folders of classes
    "one folder": (["train", "folder:{place}/single"], ["two sub-folders", "got only 'crack'"]),
    "no such class": (["train", "folder:{place}/parts", "--positive", "crak"], ["mean 'crack'"]),
    # weights of something else
    "weights shape": (
        ["train", "digits", "--weights", "{place}/other.safetensors"],
        ["weights must fit MLP", "body.0.weight: expected (128, 64), got (128, 3)"],
    ),
    "weights bytes": (
        ["train", "digits", "--weights", "{place}/code.pth"],
        ["code.pth cannot be read as plain weights: it must be a whole .safetensors file, or one"],
    ),
    "table for model": (
        ["evaluate", GOOD, "--model", "{place}/good.csv"],
        ["good.csv is not a whole Curvewise file: it is of another kind, or was cut short\n"],
    ),
    "not a model": (
        ["evaluate", GOOD, "--model", "{place}/other.safetensors"],
        ["other.safetensors holds tensors, but not a Curvewise model"],
    ),
    "model of images": (["evaluate", GOOD, *PHOTOS], ["trained on a table, got one of folder:"]),
    "other samples": (["evaluate", "digits:8", *PEOPLE], ["shape (1,), got (64,) from digits:8"]),
    # not a number
    "nan in npz": (["train", "npz:{place}/nan.npz"], ["nan in row 7, column 2"]),
    "infinite": (table("infinite"), ["'age' must be finite, got inf in row 1"]),
    # lambda
    "lambda not drawn": (
        ["predict", "{place}/good.csv", "--model", "{place}/fixed", "--tau", "1"],
        ["trained with lambda = nothing drawn, got tau = 1"],
    ),
    "threshold at another tau": (
        ["predict", "{place}/good.csv", *PEOPLE, "--tau", "1", "--max-fpr", "0.1"],
        ["--max-fpr", "--tau"],
    ),
    "negative tau": (["evaluate", GOOD, *PEOPLE, "--tau", "-1"], ["tau must be >= 0", "got -1"]),
    "negative tau of new rows": (
        ["predict", "{place}/good.csv", *PEOPLE, "--tau", "-1"],
        ["tau must be >= 0", "got -1"],
    ),
    "tau is no number": (["evaluate", GOOD, *PEOPLE, "--tau", "nan"], ["tau must be >= 0", "nan"]),
    # settings of train and evaluate
    "reduction": (["train", "digits", "--reduction", "sum"], ["'weighted_mean', 'mean'", "'sum'"]),
    "augmented rows": (
        ["train", "digits", "--set", "augment=crop-flip"],
        ["augment = crop-flip needs images, got digits:8"],
    ),
    "two rules to evaluate": (
        ["evaluate", GOOD, *PEOPLE, "--max-fpr", "0.1", "--cost-ratio", "5"],
        ["one of --max-fpr, --min-tpr, --cost-ratio can be given, got --max-fpr 0.1 and --cost-r"],
    ),
    "backbone": (
        ["embed", "folder:{place}/parts", "--backbone", "nope", "--out", "f.npz"],
        ["--backbone must be one of 'efficientnet-lite0', got 'nope'"],
    ),
    # arrays to predict
    "arrays for table": (["predict", "{place}/nan.npz", *PEOPLE], ["one CSV", "nan.npz"]),
    "other arrays": (["predict", "{place}/images.npz", *PHOTOS], ["(3, 12, 12), got (1, 12, 12)"]),
    "only labels": (["predict", "{place}/labels.npz", *PHOTOS], ["an array x or x_test, got y"]),
    # settings of predict
    "two rules": (
        ["predict", "{place}/good.csv", *PEOPLE, "--threshold", "1", "--min-tpr", "0.9"],
        ["one of --threshold, --max-fpr, --min-tpr can be given, got --threshold 1 and --min-tpr"],
    ),
    "rate": (["predict", "{place}/good.csv", *PEOPLE, "--max-fpr", "2"], ["max_fpr", "got 2"]),
    "prior": (
        ["predict", "{place}/good.csv", *PEOPLE, "--calibrated", "--prior", "1"],
        ["prior must", "got 1"],
    ),
    "prior alone": (
        ["predict", "{place}/good.csv", *PEOPLE, "--prior", "0.2"],
        ["--prior is for probabilities: give --calibrated too, got 0.2"],
    ),
    "only a model": (["predict", "{place}/people"], ["--model", "{place}/people"]),
    "over the input": (
        ["predict", "{place}/good.csv", *PEOPLE, "--out", "{place}/good.csv"],
        ["--out must be a CSV file of its own, got {place}/good.csv"],
    ),
    "out is a file": (
        ["train", "digits", "--out", "{place}/good.csv"],
        ["--out {place}/good.csv cannot be made into a folder: it is a file"],
    ),
    "figure in a file": (
        ["evaluate", GOOD, *PEOPLE, "--out", "{place}/good.csv"],
        ["--out {place}/good.csv cannot be made into a folder: it is a file"],
    ),
    "comparison in a file": (
        ["compare", "digits", "--out", "{place}/good.csv"],
        ["--out {place}/good.csv cannot be made into a folder: it is a file"],
    ),
    "answers are there": (
        ["predict", "{place}/good.csv", *PEOPLE, "--out", "{place}/junk.csv"],
        ["{place}/junk.csv exists", "--overwrite"],
    ),
    "out below a file": (
        ["predict", "{place}/good.csv", *PEOPLE, "--out", "{place}/empty.csv/x.csv"],
        ["a folder that can be written to, got {place}/empty.csv/x.csv"],
    ),
    "out is taken": (["train", "gone", "--out", "{place}/people"], ["is there already"]),
    "figure below a file": (
        ["evaluate", GOOD, *PEOPLE, "--out", "{place}/empty.csv/x"],
        ["{place}/empty.csv/x cannot be made into a folder: {place}/empty.csv is a file"],
    ),
    "rows of images": (
        ["evaluate", "folder:{place}/parts", *PHOTOS, "--all-rows"],
        ["--all-rows is for tables, got folder:"],
    ),
    # cleaning
    "not a cache": (["data", "clean", "--cache-dir", "{place}/parts", "--yes"], ["'crack'"]),
    "no cache": (["data", "clean", "--cache-dir", "gone", "--yes"], ["got gone"]),
    "negative age": (
        ["data", "clean", "--cache-dir", "{place}/cache", "--older-than", "-1", "--yes"],
        ["older_than must be >= 0", "got -1"],
    ),
}  # fmt: skip


def everything(*folders: Path) -> set[tuple[Path, int]]:
    """Every file and folder with its size, so that nothing can come or change unseen."""
    found = (path for folder in folders for path in folder.rglob("*"))
    return {(path, path.stat().st_size if path.is_file() else 0) for path in found}


@pytest.mark.parametrize("case", CASES)
def test_one_line_that_names_it_and_nothing_left_behind(case, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words, named = CASES[case]
    before = everything(place)
    ended = command(*(word.format(place=place) for word in words))
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("curvewise: ")
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 400 + 4 * len(str(place))
    for part in named:
        assert part.format(place=place) in ended.err
    left = {path for path, _ in everything(tmp_path)}
    assert left <= {tmp_path / "cache", tmp_path / "cache" / "curvewise"}
    assert everything(place) == before


def test_lambda_outside_the_trained_range_warns_once(place, tmp_path):
    out = tmp_path / "scores.csv"
    for words in (
        ["evaluate", f"table:{place / 'good.csv'}", "--json"],
        ["predict", place / "good.csv", "--json", "--out", out],
        ["predict", place / "parts", "--json", "--out", out],
    ):
        model = place / ("photos" if place / "parts" in words else "people")
        out.unlink(missing_ok=True)
        ended = command(*words, "--model", model, "--tau", "9")
        assert ended.code == 0
        json.loads(ended.out)
        text = "tau = 9 is outside the range [0, 3] that this model was trained on"
        assert ended.err == f"curvewise: warning: {text}\n"
        out.unlink(missing_ok=True)
        assert command(*words, "--model", model, "--tau", "2").err == ""


def test_huge_category_counts_are_dropped_with_a_word_and_training_goes_on(place, tmp_path):
    source = f"table:{place / 'numbered.csv'}"
    ended = command("train", source, "--target", "outcome", "--set", "epochs=1", "--out", tmp_path)
    assert ended.code == 0
    assert ended.err == "curvewise: warning: column 'code' is dropped: 240 categories in 240 rows\n"
    assert cw.load(tmp_path / "model.safetensors").spec.in_shape == (1,)


def test_a_few_broken_images_are_named_and_left_out(tmp_path):
    parts = pictures(tmp_path / "parts", crack=30, sound=130)
    (parts / "sound" / "7.png").write_bytes(b"")
    cache = ("--image-size", "4", "--cache-dir", tmp_path / "cache")
    ended = command("data", "check", f"folder:{parts}", *cache, "--json")
    assert ended.code == 0
    assert sum(json.loads(ended.out)["train"] + json.loads(ended.out)["test"]) == 159
    assert ended.err.startswith("curvewise: warning: folder:parts: 1 of 160 images unreadable: ")
    assert f"{parts}/sound/7.png (the file is empty)" in ended.err
    assert ended.err.count("\n") == 1


def test_missing_numbers_of_a_table_are_values_like_others(tmp_path):
    gaps = people()
    gaps.loc[::7, "age"] = np.nan
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    quick = ("--target", "outcome", "--set", "epochs=1", "--out", tmp_path / "model")
    assert command("train", f"table:{tmp_path / 'gaps.csv'}", *quick).code == 0
    answers = tmp_path / "scores.csv"
    model = ("--model", tmp_path / "model")
    assert command("predict", tmp_path / "gaps.csv", *model, "--out", answers).code == 0
    assert np.isfinite(pd.read_csv(answers)["score"]).all()


def test_the_same_warning_is_shown_once_a_command(capsys):
    from curvewise.cli import main as cli

    for _ in range(2):
        with cli._plain_warnings():
            warnings.simplefilter("always")  # what comes of filters that other libraries touch
            for number in (1, 2, 1, 2):
                warnings.warn(f"the same {number}", stacklevel=1)
    line = "curvewise: warning: the same {}\n"
    assert capsys.readouterr().err == 2 * (line.format(1) + line.format(2))


def test_warnings_for_developers_stay_what_they_are():
    def deprecated() -> None:
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    from curvewise.cli import main as cli

    with pytest.warns(DeprecationWarning, match="old"), cli._plain_warnings():
        deprecated()
