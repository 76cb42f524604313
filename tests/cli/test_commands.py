"""The commands as a person types them: files, JSON for machines, words of warning, help."""

import io
import json
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import curvewise as cw
from command_line import ROWS, command, done, people
from curvewise.cli import main as cli, models as commands
from curvewise.data.cache import cached_images

QUICK = ("--set", "epochs=3")


def test_train_evaluate_and_predict_a_table(tmp_path):
    frame = people(patient=np.arange(ROWS) // 2)
    frame.to_csv(tmp_path / "people.csv", index=False)
    source, out = f"table:{tmp_path / 'people.csv'}", tmp_path / "model"
    words = ("train", source, "--target", "outcome", "--group", "patient", "--out", out)
    metrics = json.loads(done(*words, "--preset", "tabular", *QUICK, "--json"))
    assert 0 <= metrics["auc"]["low"] <= metrics["auc"]["auc"] <= metrics["auc"]["high"] <= 1
    assert sorted(p.name for p in out.iterdir()) == ["metrics.json", "model.safetensors", "roc.png"]
    assert json.loads((out / "metrics.json").read_text()) == metrics
    assert Image.open(out / "roc.png").size[0] > 500
    model = ("--model", out / "model.safetensors")
    assert cw.load(out / "model.safetensors").objective.reduction == "weighted_mean"
    found = json.loads(done("evaluate", source, *model, "--json"))
    assert found["auc"] == metrics["auc"]  # the same test part, by the same seed
    found = json.loads(done("evaluate", source, *model, "--all-rows", "--json"))
    assert found["n_positive"] == 30
    assert "chosen on these data" in done("evaluate", source, *model, "--max-fpr", "0.1")
    answers = ("predict", tmp_path / "people.csv", *model, "--out", tmp_path / "answers.csv")
    printed = json.loads(done(*answers, "--calibrated", "--max-fpr", "0.1", "--json"))
    found = pd.read_csv(tmp_path / "answers.csv")
    assert len(found) == ROWS
    assert found["positive"].sum() == printed["positive"]
    assert found["probability"].between(0, 1).all()
    assert set(found["class"]) <= {"ill", "well"}


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_bits(tmp_path, monkeypatch):
    whole, out = tmp_path / "whole", tmp_path / "out"
    words = ("train", "digits:3", "--beta", "20", *QUICK, "--reduction", "expected_mean")
    done(*words, "--out", whole)

    @contextmanager
    def interrupting():
        yield lambda progress: progress.step == 5 and signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(commands, "training_bar", interrupting)
        ended = command(*words, "--out", out)
    assert ended.code == 130
    assert "stopped after 5 steps; go on with --resume" in ended.err
    ended = command(*words, "--out", out)
    assert ended.code == 2
    assert "of a stopped run; go on with --resume" in ended.err
    done(*words, "--out", out, "--resume")
    x, y = (cw.load(each / "model.safetensors").network.state_dict() for each in (whole, out))
    assert all((x[name] == y[name]).all() for name in x)
    assert cw.load(out / "model.safetensors").objective.reduction == "expected_mean"
    assert not (out / "state.safetensors").exists()


def every_command():
    groups = [("", cli.app)]
    groups += [(f"{each.name} ", each.typer_instance) for each in cli.app.registered_groups]
    for start, group in groups:
        for each in group.registered_commands:
            yield start + (each.name or each.callback.__name__)


def test_every_command_has_help_with_an_example():
    known = {"train", "evaluate", "predict", "embed", "data list", "data check", "data clean"}
    assert known <= set(every_command())
    for words in every_command():
        printed = done(*words.split(), "--help")
        assert " ".join(printed.split()).count(f"curvewise {words} ") >= 2  # usage, and an example


def test_help_and_version_go_to_standard_output():
    for words in ("", "sweep", "--help", "sweep run --help"):
        ended = command(*words.split())
        assert (ended.code, ended.err) == (0 if "--help" in words else 2, "")
        assert "Usage: curvewise" in ended.out
    assert command("--version") == (0, f"curvewise {cw.__version__}\n", "")
    words = [sys.executable, "-m", "curvewise", "--version"]
    found = subprocess.run(words, check=True, capture_output=True, text=True)
    assert found.stdout == f"curvewise {cw.__version__}\n"


def test_data_commands(tmp_path):
    listed = json.loads(done("data", "list", "--json"))
    assert {"digits", "table", "cifar10"} <= {source["name"] for source in listed}
    checked = json.loads(done("data", "check", "digits:8", "--beta", "100", "--json"))
    assert checked["train"] == [811, 8]
    assert "digits:8" in done("data", "check", "digits:8")
    printed = done("data", "list", "--data-dir", tmp_path)  # addresses stay whole
    assert f"{tmp_path}/cifar-10-batches-py" in printed
    assert "https://www.kaggle.com/c/dogs-vs-cats/data" in printed


@pytest.fixture
def cache(tmp_path):
    """A folder with one cache in it."""
    Image.new("RGB", (8, 8)).save(tmp_path / "photo.png")
    cached_images([tmp_path / "photo.png"], 8, tmp_path / "cache")
    return tmp_path / "cache"


def test_data_clean_lists_and_removes_when_told_to(cache, monkeypatch):
    (folder,) = cache.iterdir()
    clean = ("data", "clean", "--cache-dir", cache)
    printed = done(*clean)
    assert folder.name in printed
    assert "nothing removed; --yes removes them" in printed
    listed = json.loads(done(*clean, "--json"))
    assert [item["name"] for item in listed["caches"]] == [folder.name]
    assert listed["bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    assert listed["freed"] == 0
    done(*clean, "--older-than", "1", "--yes")
    assert folder.exists()
    assert json.loads(done(*clean, "--yes", "--json"))["freed"] == listed["bytes"]
    assert list(cache.iterdir()) == []
    assert done(*clean) == f"0 caches, 0.00 MB, in {cache}\n"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert json.loads(done("data", "clean", "--json"))["caches"] == []
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 0, 1), ("", 1, 1)])
def test_data_clean_asks_a_person(cache, monkeypatch, answer, code, left):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    ended = command("data", "clean", "--cache-dir", cache)
    assert ended.code == code
    assert "Remove them?" in ended.out
    assert ended.err.strip() == ("Aborted." if code else "")
    assert len(list(cache.iterdir())) == left


def test_what_goes_on_but_should_be_known_is_one_line(place, tmp_path):
    model = ("--model", place / "people", "--out", tmp_path / "answers.csv", "--overwrite")
    predict = ("predict", place / "good.csv", *model)
    train = ("train", f"table:{place / 'good.csv'}", "--target", "outcome", "--set", "epochs=1")
    never = ("--set", "film_init=paper", "--cost-ratio", 0.01, "--out", tmp_path / "never")
    numbered = (f"table:{place / 'numbered.csv'}", *train[2:], "--out", tmp_path / "model")
    gaps = ("data", "check", f"table:{place / 'gaps.csv'}", "--target", "outcome")
    predict = ("predict", place / "good.csv", *model)
    for words, warning in (
        (predict, ""),
        (("predict", place / "elsewhere.csv", *model), f"'city' ({ROWS}, for instance 'Paris')"),
        ((*predict, "--calibrated"), "--reduction expected_mean"),
        ((*predict, "--tau", 2), ""),
        ((*predict, "--tau", 9), "[0, 3] that this model was trained on"),
        (gaps, f"21 of {ROWS} rows of table:gaps.csv are left out: they have no 'outcome'"),
        (("train", *numbered), "column 'code' is dropped: 240 categories in 240 rows"),
        ((*train, *never), "nothing is called positive, nor will predict"),
    ):
        ended = command(*words)
        assert ended.code == 0, ended.err
        assert ended.err.startswith("curvewise: warning: ") == bool(warning)
        assert ended.err.endswith(f"{warning}\n" if warning else "")
        assert ended.err.count("\n") <= 1
    assert cw.load(tmp_path / "model" / "model.safetensors").spec.in_shape == (4,)
    found = json.loads(done("evaluate", train[1], "--model", tmp_path / "never", "--json"))
    point = found["at_threshold"]
    assert (point["threshold"], point["tpr"], point["fpr"]) == (None, 0.0, 0.0)


def test_evaluate_uses_the_threshold_that_train_chose(place):
    words = ("evaluate", f"table:{place / 'good.csv'}", "--model", place / "people")
    told = "the threshold is FPR at most 0.1 on the model's test part, by train\n"
    assert told in done(*words)
    assert "the threshold is the default; that of FPR at most 0.1" in done(*words, "--tau", 1)
    assert "the threshold is given" in done(*words, "--threshold", 1)


def test_the_same_warning_is_shown_once_a_command(capsys):
    for _ in range(2):
        with cli._plain_warnings():
            warnings.simplefilter("always")  # what comes of filters that other libraries touch
            for number in (1, 2, 1, 2):
                warnings.warn(f"the same {number}", stacklevel=1)
    line = "curvewise: warning: the same {}\n"
    assert capsys.readouterr().err == 2 * (line.format(1) + line.format(2))
    with pytest.warns(DeprecationWarning, match="old"), cli._plain_warnings():
        warnings.warn("old", DeprecationWarning, stacklevel=1)  # for developers: as it is
