"""`curvewise compare` and `curvewise sweep` as a person would use them."""

import io
import json
from contextlib import redirect_stdout

import pandas as pd
import pytest
from matplotlib.image import imread

from command_line import command
from curvewise.base.errors import InputError
from curvewise.cli.compare import why_no_p
from curvewise.cli.sweep import _print_status
from curvewise.paper.compare import comparison_spec
from curvewise.sweep.executors import make_executor
from curvewise.sweep.plan import Result
from curvewise.sweep.run import duration
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store

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
    assert (printed["done"], printed["seconds"]) == (6, 0)
    dry = ("sweep", "run", folder / "tiny.toml", "--dry-run")
    assert "6 runs in 4 stacks, 6 done, about 0 s" in command(*dry).out
    fresh = command(*dry, "--store", tmp_path / "new.db", "--json")
    assert json.loads(fresh.out)["done"] == 0
    assert 0 < json.loads(fresh.out)["seconds"] < 60
    assert list(tmp_path.iterdir()) == []
    text = command(*dry, "--store", tmp_path / "new.db").out
    assert "6 runs in 4 stacks, about" in text


def test_dry_run_estimates_what_is_left(swept, tmp_path):
    folder, _ = swept
    more = tmp_path / "more.toml"
    more.write_text(SPEC.replace("tau = [0, 3]", "tau = [0, 1, 3]"))
    dry = ("sweep", "run", more, "--dry-run", "--store", folder / "tiny.db")
    printed = json.loads(command(*dry, "--json").out)
    # One of a point's seeds is its place in the grid: tau = 3 is another run there.
    assert (printed["runs"], printed["done"]) == (8, 4)
    assert printed["seconds"] > 0
    assert "8 runs in 4 stacks, 4 done, about" in command(*dry).out


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
    assert "has the higher AUC" in ended.out  # the report's answer, here too
    assert "95 % interval" in ended.out


def test_compare_trains_as_told(tmp_path):
    words = ("compare", "digits:8", "--beta", 50, "--seeds", 1, "--methods", "ce,focal")
    changes = ("--preset", "tabular", "--set", "lr=0.003", "--set", "clip_norm=none")
    ended = command(*words, *changes, "--epochs", 1, "--executor", "serial", "--out", tmp_path)
    assert ended.code == 0, ended.err
    with Store(tmp_path / "runs.db", readonly=True) as store:
        recipe = next(store.runs()).run.recipe
    expected = {"optimizer": "adamw", "lr": 0.003, "clip_norm": None, "epochs": 1}
    assert {name: recipe[name] for name in expected} == expected
    for wrong in ("lr=fast", "pace=1", "network.width=3"):
        ended = command(*words, "--set", wrong, "--out", tmp_path / "none")
        assert ended.code == 2
        assert wrong.partition("=")[0].rpartition(".")[2] in ended.err
    assert not (tmp_path / "none").exists()


def test_the_table_says_what_min_and_max_are_and_why_there_is_no_p(tmp_path):
    words = ("compare", "digits:8", "--beta", 50, "--seeds", 2, "--epochs", 1)
    ended = command(*words, "--executor", "serial", "--methods", "ce,focal", "--out", tmp_path)
    assert ended.code == 0, ended.err
    text = " ".join(ended.out.split())
    assert "AUC over the models of a subsample, averaged over 2 subsamples" in text
    assert "nan" not in text
    why = (
        "no p for max, mean, min: at least 3 pairs are needed, got 2; "
        "no p for std: at least 3 pairs are needed, got 0"
    )
    assert f"\n{why}\n" in ended.out


def test_why_no_p_names_methods_where_they_differ():
    rows = [
        {"b": b, "statistic": s, "reason": "", "corrected_reason": "no n" if b == "B" else ""}
        for b in ("A", "B")
        for s in ("max", "min")
    ]
    assert why_no_p(rows) == "no corrected p for B max, B min: no n"
    assert why_no_p(rows[:2]) == ""


def labels_in(store):
    rows = json.loads(command("sweep", "status", store, "--json").out)["sweeps"]
    return {name: [row["label"] for row in own] for name, own in rows.items()}


def test_a_comparison_with_other_methods_lists_those_alone(tmp_path):
    words = ("compare", "digits:8", "--beta", 50, "--seeds", 1, "--epochs", 1, "--json")
    words = (*words, "--executor", "serial", "--out", tmp_path)
    known = {}
    for methods, labels in (
        ("ce,focal", ["CE", "focal"]),
        ("ce,ldam", ["CE", "LDAM"]),
        ("ce,focal", ["CE", "focal"]),  # as at first: the latest all the same
        ("ldam", ["LDAM"]),
    ):
        printed = json.loads(command(*words, "--methods", methods).out)
        assert [row["label"] for row in printed["methods"]] == labels
        assert labels_in(tmp_path / "runs.db") == {"compare": labels}
        for row in printed["methods"]:
            assert known.setdefault(row["label"], row) == row  # reused, not trained again
    command("sweep", "export", tmp_path / "runs.db", tmp_path / "all.csv")
    assert sorted(pd.read_csv(tmp_path / "all.csv")["label"]) == ["CE", "LDAM", "focal"]
    assert (pd.read_csv(tmp_path / "all.csv")["attempts"] == 1).all()


def test_a_changed_spec_of_the_same_name_replaces_the_runs_of_the_sweep(tmp_path):
    spec = tmp_path / "tiny.toml"
    for text, labels in (
        (SPEC, ["VS", "VS + LCT"]),
        (SPEC.replace('"vs"', '"logit-adjustment"'), ["logit adjustment", "VS + LCT"]),
        (SPEC, ["VS", "VS + LCT"]),
    ):
        spec.write_text(text)
        ended = command("sweep", "run", spec, "--executor", "serial", "--json")
        assert [row["label"] for row in json.loads(ended.out)["status"]] == labels
        assert labels_in(tmp_path / "tiny.db") == {"tiny": labels}


def test_failures_of_an_earlier_spec_are_not_told(tmp_path):
    given = {"tasks": ["digits:8"], "methods": [{"method": "ce"}]}
    with Store(tmp_path / "runs.db") as store:
        for seed in (0, 1):
            spec = Spec.from_dict(given | {"seeds": [seed]})
            (run,) = spec.runs()
            store.add_sweep("a", spec.to_dict(), [(run, f"run {seed}", "data")])
            failed = Result(f"run {seed}", "failed", {}, None, None, 0.0, f"reason {seed}")
            store.record([failed], "box", {})
    printed = command("sweep", "status", tmp_path / "runs.db", "--failed").out
    assert "reason 1" in printed
    assert "reason 0" not in printed


def test_beta_below_the_datas_own_is_told_once_however_many_runs_there_are(tmp_path):
    words = ("compare", "digits:8", "--seeds", 2, "--epochs", 1, "--executor", "serial")
    ended = command(*words, "--beta", 5, "--methods", "vs", "--out", tmp_path, "--json")
    assert ended.code == 0
    assert ended.err == (
        "curvewise: warning: beta = 5 is below the data's own 9.322: 376 of the 811 majority "
        "samples are left out\n"
    )


def test_names_in_a_status_fold_and_are_never_cut(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "table:measurements/of/the/second/hospital/people-who-came-back-in-2024.csv"
    row = {"done": 1200, "pending": 3, "diverged": 1, "failed": 2, "mean_auc": 0.5}
    rows = [
        {"task": name, "label": label, "min_auc": None, "max_auc": 1.0, **row}
        for label in ("VS", "a method with a long label")
    ]
    with redirect_stdout(io.StringIO()) as out:
        _print_status(rows, title="pairs")
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in out.getvalue()
    heads = " ".join(lines[:4]).split()
    for head in ("task", "method", "done", "pending", "diverged", "failed", "mean", "AUC", "max"):
        assert head in heads
    start = next(line for line in lines if " task" in line)
    width = start.index("method")
    assert "".join(line[:width].strip() for line in lines[lines.index(start) + 2 :]) == name


def test_methods_are_checked_before_any_work():
    with pytest.raises(InputError, match="lcd"):
        comparison_spec("digits:8", beta=None, methods=["lcd"], seeds=1, n_train=100)


@pytest.mark.parametrize(("n_train", "epochs"), [(819, 60), (128, 420), (6060, 20), (10**6, 20)])
def test_small_data_are_gone_through_more_often(n_train, epochs):
    spec = comparison_spec("a", beta=None, methods=["vs"], seeds=1, n_train=n_train)
    assert spec.recipe["epochs"] == epochs
    starts = {run.recipe["film_init"] for run in spec.runs()}
    assert starts == {"identity"}  # see fig-film of the paper's results


def test_executors_by_name():
    with pytest.raises(InputError, match="executor"):
        make_executor("threads")


def test_durations_round_as_people_do():
    assert [duration(s) for s in (0.4, 89, 91, 3600, 7200)] == [
        "0 s", "89 s", "2 min", "60 min", "2.0 h",
    ]  # fmt: skip
