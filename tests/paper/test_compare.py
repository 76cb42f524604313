"""`curvewise compare` and `curvewise sweep` as a person would use them."""

import json

import pandas as pd
import pytest
from matplotlib.image import imread

from command_line import command, done
from curvewise.base.errors import InputError
from curvewise.cli.compare import why_no_p
from curvewise.cli.options import tell
from curvewise.cli.sweep import status_table
from curvewise.sweep.plan import Result
from curvewise.sweep.run import duration
from curvewise.sweep.spec import Spec, comparison_spec
from curvewise.sweep.store import Store

SPEC = """
name = "tiny"
tasks = ["digits:8", "digits:3"]
betas = [50]
network = {name = "mlp", hidden = [4]}
recipe = {epochs = 1}
methods = [{method = "vs", tau = [0, 3]}, {method = "lct", tau = "0:3:0.33"}]
"""
SERIAL = ("--executor", "serial")
COMPARE = ("compare", "digits:8", "--beta", 50, "--epochs", 1, *SERIAL)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "tiny.toml").write_text(SPEC)
    return folder, json.loads(done("sweep", "run", folder / "tiny.toml", *SERIAL, "--json"))


def test_a_sweep_prints_what_became_of_it_as_do_status_and_export(swept, tmp_path):
    folder, printed = swept
    assert (printed["runs"], printed["store"]) == (6, str(folder / "tiny.db"))
    assert {row["label"]: row["done"] for row in printed["status"]} == {"VS": 4, "VS + LCT": 2}
    assert json.loads(done("sweep", "run", folder / "tiny.toml", *SERIAL, "--json")) == printed
    store = folder / "tiny.db"
    by_task = json.loads(done("sweep", "status", store, "--by-task", "--json"))
    assert [(row["task"], row["label"], row["done"]) for row in by_task["sweeps"]["tiny"]] == [
        (task, label, count)
        for task in ("digits:8", "digits:3")
        for label, count in (("VS", 2), ("VS + LCT", 1))
    ]
    assert "VS + LCT" in done("sweep", "status", store)
    done("sweep", "export", store, tmp_path / "runs.csv")
    assert len(pd.read_csv(tmp_path / "runs.csv")[["task", "auc", "omega", "tau"]]) == 6


def test_a_dry_run_counts_and_estimates_what_is_left(swept, tmp_path):
    folder, _ = swept
    dry = ("sweep", "run", folder / "tiny.toml", "--dry-run")
    printed = json.loads(done(*dry, "--json"))
    assert printed == {"runs": 6, "done": 6, "stacks": 4, "seconds": 0}
    assert "6 runs in 4 stacks, 6 done, about 0 s" in done(*dry)
    fresh = json.loads(done(*dry, "--store", tmp_path / "new.db", "--json"))
    assert fresh["done"] == 0
    assert fresh["seconds"] > 0
    assert list(tmp_path.iterdir()) == []
    more = tmp_path / "more.toml"
    more.write_text(SPEC.replace("tau = [0, 3]", "tau = [0, 1, 3]"))
    dry = ("sweep", "run", more, "--dry-run", "--store", folder / "tiny.db")
    printed = json.loads(done(*dry, "--json"))
    # One of a point's seeds is its place in the grid: tau = 3 is another run there.
    assert (printed["runs"], printed["done"]) == (8, 4)
    assert printed["seconds"] > 0
    assert "8 runs in 4 stacks, 4 done, about" in done(*dry)
    more.write_text(SPEC.replace('0.33"', '0.33", repeats = 5'))
    assert json.loads(done("sweep", "run", more, "--dry-run", "--json"))["runs"] == 2 * (2 + 5)


def test_compare_makes_table_store_and_figures(tmp_path):
    words = (*COMPARE, "--seeds", 3, "--methods", "ce,focal,vs", "--out", tmp_path)
    printed = json.loads(done(*words, "--json"))
    models = {row["label"]: row["models"] for row in printed["methods"]}
    assert list(models.items()) == [("CE", 3), ("focal", 3), ("VS", 144)]
    pairs = {(row["a"], row["b"]) for row in printed["differences"]}
    assert pairs == {("CE", "focal"), ("CE", "VS")}
    assert len(printed["ensembles"]) == 9
    assert json.loads((tmp_path / "comparison.json").read_text())["methods"] == printed["methods"]
    for name in ("roc_bands.png", "auc_spread.png"):
        assert imread(tmp_path / name).shape[0] > 300
    status = json.loads(done("sweep", "status", tmp_path / "runs.db", "--json"))
    (row,) = (row for row in status["sweeps"]["compare"] if row["label"] == "VS")
    (line,) = (row for row in printed["methods"] if row["label"] == "VS")
    assert line["mean"] == pytest.approx(row["mean_auc"], abs=1e-9)


def test_compare_trains_as_told_and_its_table_says_why_there_is_no_p(tmp_path):
    changes = ("--preset", "tabular", "--set", "lr=0.003", "--set", "clip_norm=none")
    printed = done(*COMPARE, "--seeds", 2, "--methods", "ce,focal", *changes, "--out", tmp_path)
    with Store(tmp_path / "runs.db", readonly=True) as store:
        recipe = next(store.runs()).run.recipe
    expected = {"optimizer": "adamw", "lr": 0.003, "clip_norm": None, "epochs": 1}
    assert {name: recipe[name] for name in expected} == expected
    answer = ("has the higher mean AUC", "95 % interval")  # the report's, here too
    for expected in ("mean AUC", "ensemble of", "focal", "roc_bands.png", '16 "8"', *answer):
        assert expected in printed
    text = " ".join(printed.split())
    assert "AUC over the models of a subsample, averaged over 2 subsamples" in text
    assert "nan" not in text
    least = "at least 3 pairs are needed, got"
    assert f"\nno p for max, mean, min: {least} 2; no p for std: {least} 0\n" in printed
    rows = [  # methods are named where they differ
        {"b": b, "statistic": s, "reason": "", "corrected_reason": "no n" if b == "B" else ""}
        for b in ("A", "B")
        for s in ("max", "min")
    ]
    assert why_no_p(rows) == "no corrected p for B max, B min: no n"
    assert why_no_p(rows[:2]) == ""


def test_a_comparison_with_other_methods_lists_those_alone(tmp_path):
    known = {}
    for methods, labels in (
        ("ce,focal", ["CE", "focal"]),
        ("ce,ldam", ["CE", "LDAM"]),
        ("ce,focal", ["CE", "focal"]),  # as at first: the latest all the same
    ):
        words = (*COMPARE, "--seeds", 1, "--methods", methods, "--out", tmp_path, "--json")
        printed = json.loads(done(*words))
        assert [row["label"] for row in printed["methods"]] == labels
        status = json.loads(done("sweep", "status", tmp_path / "runs.db", "--json"))["sweeps"]
        assert [row["label"] for row in status["compare"]] == labels
        for row in printed["methods"]:
            assert known.setdefault(row["label"], row) == row  # reused, not trained again
    done("sweep", "export", tmp_path / "runs.db", tmp_path / "all.csv")
    table = pd.read_csv(tmp_path / "all.csv")
    assert sorted(table["label"]) == ["CE", "LDAM", "focal"]
    assert (table["attempts"] == 1).all()


def test_failures_of_an_earlier_spec_are_not_told(tmp_path):
    given = {"tasks": ["digits:8"], "methods": [{"method": "ce"}]}
    with Store(tmp_path / "runs.db") as store:
        for seed in (0, 1):
            spec = Spec.from_dict(given | {"seeds": [seed]})
            (run,) = spec.runs()
            store.add_sweep("a", spec.to_dict(), [(run, f"run {seed}", "data")])
            failed = Result(f"run {seed}", "failed", {}, None, None, 0.0, f"reason {seed}")
            store.record([failed], "box", {})
    printed = done("sweep", "status", tmp_path / "runs.db", "--failed")
    assert "reason 1" in printed
    assert "reason 0" not in printed


def test_beta_below_the_datas_own_is_told_once_however_many_runs_there_are(tmp_path):
    words = (*COMPARE, "--beta", 5, "--seeds", 2, "--methods", "ce,focal", "--out", tmp_path)
    ended = command(*words, "--json")
    told = "beta = 5 is below the data's own 9.322: 376 of the 811 majority samples are left out"
    assert (ended.code, ended.err) == (0, f"curvewise: warning: {told}\n")


def test_names_in_a_status_fold_and_are_never_cut(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    name = "table:measurements/of/the/second/hospital/people-who-came-back-in-2024.csv"
    row = {"done": 1200, "pending": 3, "diverged": 1, "failed": 2, "mean_auc": 0.5}
    rows = [
        {"task": name, "label": label, "min_auc": None, "max_auc": 1.0, **row}
        for label in ("VS", "a method with a long label")
    ]
    tell(False, None, status_table(rows, "pairs"))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    heads = {"task", "method", "done", "pending", "diverged", "failed", "mean", "AUC", "max"}
    assert heads <= set(" ".join(lines[:4]).split())
    start = next(number for number, line in enumerate(lines) if " task" in line)
    width = lines[start].index("method")
    assert "".join(line[:width].strip() for line in lines[start + 2 :]) == name


def test_the_spec_of_a_comparison_and_durations_as_people_round_them():
    given = {"beta": 10, "methods": ["vs"], "seeds": 1, "n_train": 100}
    for features in ({"embed": "efficientnet-lite0"}, {"embed": "efficientnet-lite0", "size": 96}):
        spec = comparison_spec("cifar10:0/1", features=features, **given)
        assert spec.runs()[0].features == features
    plain = comparison_spec("digits:8", **given).runs()[0]
    assert (plain.features, plain.network) == ({}, {"name": "mlp", "hidden": [64, 64]})
    convolutional = comparison_spec("a", **given, network="small-cnn").runs()[0]
    assert convolutional.network == {"name": "small-cnn"}
    # Small data are gone through more often, and FiLM starts as the identity.
    for n_train, epochs in ((819, 60), (128, 420), (6060, 20), (10**6, 20)):
        spec = comparison_spec("a", **(given | {"n_train": n_train}))
        assert spec.recipe["epochs"] == epochs
        assert {run.recipe["film_init"] for run in spec.runs()} == {"identity"}
    with pytest.raises(InputError, match="lcd"):
        comparison_spec("digits:8", **(given | {"methods": ["lcd"]}))
    texts = [duration(seconds) for seconds in (0.4, 89, 91, 3600, 7200)]
    assert texts == ["0 s", "89 s", "2 min", "60 min", "2.0 h"]
