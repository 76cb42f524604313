"""The commands as a person types them: files, JSON for machines, one sentence for errors."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import curvewise as cw
from curvewise.cli.main import main

QUICK = ("--set", "epochs=3")


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["curvewise", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 10 == 0
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, 400) + 15 * y,
            "sex": rng.choice(["f", "m"], 400),
            "patient": np.arange(400) // 2,
            "outcome": np.where(y, "ill", "well"),
        }
    )
    path = tmp_path_factory.mktemp("table") / "people.csv"
    frame.to_csv(path, index=False)
    return path


def test_train_evaluate_and_predict_a_table(run, table, tmp_path):
    out = tmp_path / "model"
    code, printed, _ = run(
        "train", f"table:{table}", "--target", "outcome", "--group", "patient", "--out", out,
        "--preset", "tabular", *QUICK, "--json",
    )  # fmt: skip
    assert code == 0
    metrics = json.loads(printed)
    assert 0 <= metrics["auc"]["low"] <= metrics["auc"]["auc"] <= metrics["auc"]["high"] <= 1
    assert sorted(p.name for p in out.iterdir()) == ["metrics.json", "model.safetensors", "roc.png"]
    assert json.loads((out / "metrics.json").read_text()) == metrics
    assert Image.open(out / "roc.png").size[0] > 500

    model = out / "model.safetensors"
    code, printed, _ = run("evaluate", f"table:{table}", "--model", model, "--json")
    assert code == 0
    assert json.loads(printed)["auc"] == metrics["auc"]  # the same test part, by the same seed
    code, printed, _ = run("evaluate", f"table:{table}", "--model", model, "--all-rows", "--json")
    assert json.loads(printed)["n_positive"] == 40
    code, printed, _ = run("evaluate", f"table:{table}", "--model", model, "--max-fpr", "0.1")
    assert code == 0
    assert "chosen on these data" in printed

    answers = tmp_path / "answers.csv"
    code, printed, _ = run(
        "predict", table, "--model", model, "--out", answers, "--calibrated", "--max-fpr", "0.1",
        "--json",
    )  # fmt: skip
    assert code == 0
    found = pd.read_csv(answers)
    assert len(found) == 400
    assert found["positive"].sum() == json.loads(printed)["positive"]
    assert found["probability"].between(0, 1).all()
    assert set(found["class"]) <= {"ill", "well"}


def test_the_reduction_can_be_chosen(run, tmp_path):
    words = ("train", "digits:8", "--beta", "20", "--omega", "0.9", *QUICK, "--json")
    assert run(*words, "--out", tmp_path / "a")[0] == 0
    assert run(*words, "--out", tmp_path / "b", "--reduction", "expected_mean")[0] == 0
    first, second = (cw.load(tmp_path / name / "model.safetensors") for name in "ab")
    assert first.objective.reduction == "weighted_mean"
    assert second.objective.reduction == "expected_mean"
    x = cw.load_task("digits:8").x_test
    assert not np.allclose(first.scores(x), second.scores(x))


def test_a_folder_of_images_trains_a_small_cnn(run, tmp_path):
    rng = np.random.default_rng(0)
    for name, count, low in (("crack", 12, 120), ("sound", 40, 0)):
        (tmp_path / "parts" / name).mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(low, low + 120, (20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "parts" / name / f"{i}.png")
    code, _, _ = run(
        "train", f"folder:{tmp_path / 'parts'}", "--image-size", "16", "--out", tmp_path / "m",
        "--cache-dir", tmp_path / "cache", *QUICK, "--set", "augment=crop-flip", "--json",
    )  # fmt: skip
    assert code == 0
    assert cw.load(tmp_path / "m" / "model.safetensors").class_names == ("sound", "crack")


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_bits(run, tmp_path, monkeypatch):
    import signal

    from curvewise.cli import models as commands

    whole, out = tmp_path / "whole", tmp_path / "out"
    words = ("train", "digits:3", "--beta", "20", *QUICK, "--json")
    assert run(*words, "--out", whole)[0] == 0
    original = commands.training_bar

    from contextlib import contextmanager

    @contextmanager
    def interrupting():
        with original() as update:

            def both(progress):
                update(progress)
                if progress.step == 5:
                    signal.raise_signal(signal.SIGINT)

            yield both

    monkeypatch.setattr(commands, "training_bar", interrupting)
    code, _, error = run(*words, "--out", out)
    assert code == 130
    assert "stopped after 5 steps; go on with --resume" in error
    monkeypatch.setattr(commands, "training_bar", original)
    code, _, error = run(*words, "--out", out)
    assert code == 2
    assert "of a stopped run; go on with --resume" in error
    assert run(*words, "--out", out, "--resume")[0] == 0
    x = cw.load(whole / "model.safetensors").network.state_dict()
    y = cw.load(out / "model.safetensors").network.state_dict()
    assert all((x[name] == y[name]).all() for name in x)
    assert not (out / "state.safetensors").exists()


def test_data_commands(run):
    code, printed, _ = run("data", "list", "--json")
    assert code == 0
    assert {"digits", "table", "cifar10"} <= {source["name"] for source in json.loads(printed)}
    code, printed, _ = run("data", "check", "digits:8", "--beta", "100", "--json")
    assert json.loads(printed)["train"] == [811, 8]
    assert run("data", "check", "digits:8")[0] == 0


WRONG = {
    "source": (["train", "digit"], "did you mean 'digits'"),
    "missing file": (["train", "table:no.csv", "--target", "y"], "no.csv"),
    "preset": (["train", "digits", "--preset", "quik"], "did you mean 'quick'"),
    "setting": (["train", "digits", "--set", "lrr=1"], "did you mean 'lr'"),
    "set": (["train", "digits", "--set", "epochs"], "NAME=VALUE, got 'epochs'"),
    "tau": (["train", "digits", "--tau", "0:3"], "LOW:HIGH:HEIGHT, got '0:3'"),
    "height": (["train", "digits", "--tau", "0:3:9"], "height_at_high must be"),
    "omega": (["train", "digits", "--omega", "2"], "omega must be in [0, 1]"),
    "network": (["train", "digits", "--network", "resnet33"], "resnet32"),
    "image network": (["train", "digits", "--network", "resnet32"], "needs images"),
    "beta": (["train", "digits", "--beta", "0"], "beta must be >= 1"),
    "weights": (["train", "digits", "--weights", "no.pth"], "no weights file no.pth"),
    "resume": (["train", "digits", "--resume"], "to go on from"),
    "rules": (["train", "digits", "--max-fpr", "0.1", "--min-tpr", "0.9"], "one of --max-fpr"),
    "model": (["evaluate", "digits", "--model", "no.safetensors"], "no file no.safetensors"),
    "predict": (["predict", "no.csv", "--model", "no.safetensors"], "no no.csv to predict"),
    "embed": (["embed", "digits", "--out", "x.npz"], "needs images"),
    "digit": (["data", "check", "digits:11"], "11"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence_and_exit_code_2(case, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, message = WRONG[case]
    code, printed, error = run(*words)
    assert code == 2
    assert printed == ""
    assert message in error
    assert error.count("\n") == 1
    assert "Traceback" not in error
    assert not list(tmp_path.rglob("*.safetensors"))


def every_command():
    from curvewise.cli.main import app

    groups = [
        ("", app),
        *((f"{group.name} ", group.typer_instance) for group in app.registered_groups),
    ]
    for start, group in groups:
        for command in group.registered_commands:
            yield start + (command.name or command.callback.__name__)


def test_the_commands_are_there():
    assert {
        "train",
        "evaluate",
        "predict",
        "embed",
        "data list",
        "data check",
        "data clean",
    } <= set(every_command())


@pytest.mark.parametrize("words", list(every_command()))
def test_every_command_has_help_with_an_example(words, run):
    code, printed, _ = run(*words.split(), "--help")
    assert code == 0
    assert " ".join(printed.split()).count(f"curvewise {words} ") >= 2  # usage, and an example


def test_data_list_keeps_addresses_whole(run, tmp_path):
    code, printed, _ = run("data", "list", "--data-dir", tmp_path)
    assert code == 0
    assert f"{tmp_path}/cifar-10-batches-py" in printed
    assert "https://www.kaggle.com/c/dogs-vs-cats/data" in printed


@pytest.fixture
def cache(tmp_path):
    """A folder with one cache in it."""
    from curvewise.data.cache import cached_images

    file = tmp_path / "photo.png"
    Image.new("RGB", (8, 8)).save(file)
    cached_images([file], 8, tmp_path / "cache")
    return tmp_path / "cache"


def test_data_clean_lists_and_removes_when_told_to(run, cache):
    (folder,) = cache.iterdir()
    code, printed, _ = run("data", "clean", "--cache-dir", cache)
    assert code == 0
    assert folder.name in printed
    assert "nothing removed; --yes removes them" in printed
    code, printed, _ = run("data", "clean", "--cache-dir", cache, "--json")
    listed = json.loads(printed)
    assert [item["name"] for item in listed["caches"]] == [folder.name]
    assert listed["bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    assert listed["freed"] == 0
    assert run("data", "clean", "--cache-dir", cache, "--older-than", "1", "--yes")[0] == 0
    assert folder.exists()
    code, printed, _ = run("data", "clean", "--cache-dir", cache, "--yes", "--json")
    assert json.loads(printed)["freed"] == listed["bytes"]
    assert list(cache.iterdir()) == []
    code, printed, _ = run("data", "clean", "--cache-dir", cache)
    assert (code, printed) == (0, f"0 caches, 0.00 MB, in {cache}\n")


@pytest.mark.parametrize("answer", ["y", "n"])
def test_data_clean_asks_a_person(run, cache, monkeypatch, answer):
    import io

    terminal = io.StringIO(answer + "\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr("builtins.input", lambda *_: answer)
    code, printed, _ = run("data", "clean", "--cache-dir", cache)
    assert code == 0
    assert "Remove them?" in printed
    assert len(list(cache.iterdir())) == (0 if answer == "y" else 1)


def test_without_a_cache_there_is_nothing_to_clean(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, printed, _ = run("data", "clean", "--json")
    assert code == 0
    assert json.loads(printed)["caches"] == []
    assert list(tmp_path.iterdir()) == []


def test_the_version_and_the_module_itself(run):
    assert run("--version") == (0, f"curvewise {cw.__version__}\n", "")
    told = [sys.executable, "-m", "curvewise", "--version"]
    found = subprocess.run(told, check=True, capture_output=True, text=True)
    assert found.stdout == f"curvewise {cw.__version__}\n"


def test_an_estimator_is_no_model_of_the_commands(run, tmp_path):
    x, y = np.arange(60.0)[:, None], np.arange(60) > 50
    path = cw.save(
        cw.LCTClassifier(n_members=1, steps=5, trees=0, random_state=0).fit(x, y),
        tmp_path / "parts.safetensors",
    )
    code, _, told = run("evaluate", "digits:8", "--model", path)
    assert code == 2
    assert told.endswith("got an estimator in curvewise-1; it is for Python: curvewise.load\n")
    code, _, told = run("report", path, "-o", tmp_path / "page.html")
    assert code == 2
    assert "needs --data table:FILE" in told
    assert "--target" in told
