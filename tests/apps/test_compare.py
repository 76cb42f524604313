"""`curvewise compare` and `curvewise sweep` as a person would use them."""

import json

import pandas as pd
import pytest
from matplotlib.image import imread

from command_line import command
from curvewise.apps.compare import comparison_spec
from curvewise.apps.sweeping import duration, make_executor
from curvewise.errors import InputError

SPEC = """
name = "tiny"
tasks = ["digits:8", "digits:3"]
betas = [50]
[network]
name = "mlp"
hidden = [4]
[recipe]
epochs = 1
[[methods]]
method = "vs"
tau = [0, 3]
[[methods]]
method = "lct"
tau = "0:3:0.33"
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "tiny.toml").write_text(SPEC)
    ended = command("sweep", "run", folder / "tiny.toml", "--executor", "serial", "--json")
    assert ended.code == 0, ended.err
    return folder, json.loads(ended.out)


def test_a_sweep_prints_what_became_of_it(swept):
    folder, printed = swept
    assert printed["runs"] == 6
    assert printed["store"] == str(folder / "tiny.db")
    assert {row["label"]: row["done"] for row in printed["status"]} == {"VS": 4, "VS + LCT": 2}


def test_status_and_export(swept, tmp_path):
    folder, _ = swept
    by_task = json.loads(command("sweep", "status", folder / "tiny.db", "--by-task", "--json").out)
    assert [(row["task"], row["label"], row["done"]) for row in by_task["sweeps"]["tiny"]] == [
        ("digits:8", "VS", 2),
        ("digits:8", "VS + LCT", 1),
        ("digits:3", "VS", 2),
        ("digits:3", "VS + LCT", 1),
    ]
    text = command("sweep", "status", folder / "tiny.db")
    assert "VS + LCT" in text.out
    ended = command("sweep", "export", folder / "tiny.db", tmp_path / "runs.csv")
    assert ended.code == 0
    table = pd.read_csv(tmp_path / "runs.csv")
    assert len(table) == 6
    assert {"task", "auc", "omega", "tau"} <= set(table.columns)


def test_a_second_start_has_nothing_to_do(swept):
    folder, first = swept
    again = command("sweep", "run", folder / "tiny.toml", "--executor", "serial", "--json")
    assert json.loads(again.out) == first


def test_dry_run_counts_and_estimates(swept, tmp_path):
    folder, _ = swept
    ended = command("sweep", "run", folder / "tiny.toml", "--dry-run", "--json")
    printed = json.loads(ended.out)
    assert (printed["runs"], printed["stacks"]) == (6, 4)
    assert 0 < printed["seconds"] < 60
    assert "6 runs in 4 stacks" in command("sweep", "run", folder / "tiny.toml", "--dry-run").out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("sweep", "run", "nowhere.toml"), "nowhere.toml"),
        (("sweep", "status", "nowhere.db"), "nowhere.db"),
        (("sweep", "export", "{store}", "runs.txt"), ".txt"),
        (("sweep", "run", "{spec}", "--executor", "proceses"), "processes"),
        (("compare", "digitz:8"), "digits"),
        (("compare", "digits:8", "--methods", "vs,lcd"), "lcd"),
        (("compare", "digits:8", "--seeds", "0"), "seeds"),
        (("compare", "digits:8", "--beta", "0.5"), "beta"),
        (("compare", "digits:8", "--embed", "efficientnet-lite0"), "images"),
        (("compare", "digits:8", "--embed-size", "96"), "size goes together with embed"),
    ],
)
def test_bad_input_is_one_sentence(words, named, swept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, _ = swept
    places = {"{store}": folder / "tiny.db", "{spec}": folder / "tiny.toml"}
    extra = ("--executor", "serial") if words[0] == "compare" else ()
    ended = command(*(places.get(word, word) for word in words), *extra)
    assert ended.code == 2
    lines = [line for line in ended.err.splitlines() if line.strip()]
    assert len(lines) == 1
    assert named in lines[0]


def test_a_comparison_on_features_says_so():
    given = {"beta": 10, "methods": ["vs"], "seeds": 1, "n_train": 100}
    spec = comparison_spec("cifar10:0/1", embed="efficientnet-lite0", embed_size=96, **given)
    assert spec.runs()[0].features == {"embed": "efficientnet-lite0", "size": 96}
    spec = comparison_spec("cifar10:0/1", embed="efficientnet-lite0", **given)
    assert spec.runs()[0].features == {"embed": "efficientnet-lite0"}
    assert comparison_spec("digits:8", **given).runs()[0].features == {}


def test_dry_run_counts_repeats(tmp_path):
    (tmp_path / "many.toml").write_text(SPEC + "repeats = 5\n")
    printed = command("sweep", "run", tmp_path / "many.toml", "--dry-run", "--json").out
    assert json.loads(printed)["runs"] == 2 * (2 + 5)


def test_compare_makes_table_store_and_figures(tmp_path):
    out = tmp_path / "out"
    words = ("compare", "digits:8", "--beta", 50, "--seeds", 3, "--epochs", 1, "--out", out)
    ended = command(*words, "--executor", "serial", "--methods", "ce,focal,vs", "--json")
    assert ended.code == 0, ended.err
    printed = json.loads(ended.out)
    assert [(row["label"], row["models"]) for row in printed["methods"]] == [
        ("CE", 3),
        ("focal", 3),
        ("VS", 144),
    ]
    assert {(row["a"], row["b"]) for row in printed["differences"]} == {
        ("CE", "focal"),
        ("CE", "VS"),
    }
    assert len(printed["ensembles"]) == 9
    assert json.loads((out / "comparison.json").read_text())["methods"] == printed["methods"]
    for name in ("roc_bands.png", "auc_spread.png"):
        assert imread(out / name).shape[0] > 300
    status = json.loads(command("sweep", "status", out / "runs.db", "--json").out)
    (row,) = (row for row in status["sweeps"]["compare"] if row["label"] == "VS")
    (line,) = (row for row in printed["methods"] if row["label"] == "VS")
    assert line["mean"] == pytest.approx(row["mean_auc"], abs=1e-9)


def test_the_table_is_for_people(tmp_path):
    words = ("compare", "digits:8", "--beta", 50, "--seeds", 1, "--epochs", 1)
    ended = command(*words, "--executor", "serial", "--methods", "ce,focal", "--out", tmp_path)
    assert ended.code == 0, ended.err
    for expected in ("mean AUC", "ensemble of", "focal", "roc_bands.png", '16 "8"'):
        assert expected in ended.out


def test_methods_are_checked_before_any_work():
    with pytest.raises(InputError, match="lcd"):
        comparison_spec("digits:8", beta=None, methods=["lcd"], seeds=1, n_train=100)


@pytest.mark.parametrize(("n_train", "epochs"), [(819, 60), (128, 420), (6060, 20), (10**6, 20)])
def test_small_data_are_gone_through_more_often(n_train, epochs):
    spec = comparison_spec("a", beta=None, methods=["vs"], seeds=1, n_train=n_train)
    assert spec.recipe["epochs"] == epochs


def test_executors_by_name():
    with pytest.raises(InputError, match="executor"):
        make_executor("threads")


def test_durations_round_as_people_do():
    assert [duration(s) for s in (0.4, 89, 91, 3600, 7200)] == [
        "0 s", "89 s", "2 min", "60 min", "2.0 h",
    ]  # fmt: skip
