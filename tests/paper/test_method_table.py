"""Eight methods in three ways: a recorded sweep, and made-up rows with known answers."""

import numpy as np
import pytest
from recorded_sweeps import Y, record_sweep
from scipy.stats import friedmanchisquare, ttest_rel
from sklearn.metrics import roc_auc_score

from curvewise.losses.registry import METHODS
from curvewise.paper.csv_files import rounded
from curvewise.paper.experiment import Reading
from curvewise.paper.method_table import (
    DEFAULTS,
    GRIDS,
    METHOD_TABLE,
    TASKS,
    WAYS,
    compared_with,
    method_rows,
)
from curvewise.paper.profiles import Profile
from curvewise.stats.dyadic import classes_of, dyadic_p, holm
from curvewise.sweep.store import Store

LABELS = [METHODS[name].label for name in GRIDS]
ALL_TASKS = [task for tasks in TASKS.values() for task in tasks]


def made_up(gains=None, seed=0):
    rng, rows = np.random.default_rng(seed), []
    for task in ALL_TASKS:
        base = rng.uniform(0.8, 0.9)
        for label in LABELS:
            areas = {
                way: base + (gains or {}).get((label, way), 0) + rng.normal(0, 0.005)
                for way in (*WAYS, "mean", "oracle")
            }
            rows.append({"task": task, "method": label, "tries": 48, "diverged": 0,
                         "alone_models": 12, "chosen_settings": None, **areas})  # fmt: skip
    return rounded({"": rows})


def column(rows, label, way):
    return np.array([row[way] for row in rows if row["method"] == label])


def test_means_and_ranks():
    rows = made_up()[""]
    table = {row["method"]: row for row in method_rows(rows)}
    assert list(table) == LABELS
    for way in WAYS:
        areas = np.array([column(rows, label, way) for label in LABELS])
        ranks = 1 + (areas[None, :, :] > areas[:, None, :]).sum(axis=1)  # how many are better
        for label, own, mean in zip(LABELS, ranks, areas.mean(axis=1), strict=True):
            assert table[label][way] == pytest.approx(mean)
            assert table[label][f"rank {way}"] == pytest.approx(own.mean())
        # Friedman's statistic is a function of the mean ranks alone.
        means = np.array([table[label][f"rank {way}"] for label in LABELS])
        k, n = areas.shape
        statistic = 12 * n / (k * (k + 1)) * ((means - (k + 1) / 2) ** 2).sum()
        assert statistic == pytest.approx(friedmanchisquare(*areas).statistic)


def test_tests_against_vs_alone():
    rows = made_up({("VS + LCT", "ensemble"): 0.02})[""]
    tests = compared_with("VS, alone", rows)
    assert len(tests) == 8 * 3 - 1
    pairs = [classes_of(task) for task in ALL_TASKS]
    for row in tests:
        label, _, way = row["method"].rpartition(", ")
        first, second = column(rows, "VS", "alone"), column(rows, label, way)
        assert row["difference"] == pytest.approx((second - first).mean())
        assert row["t-test p"] == pytest.approx(ttest_rel(second, first).pvalue, rel=1e-5)
        assert row["p (shared classes)"] == pytest.approx(dyadic_p(second - first, pairs), rel=1e-4)
    assert [row["p (Holm)"] for row in tests] == holm(row["p (shared classes)"] for row in tests)
    assert len(compared_with("CE, alone", rows)) == 23


def test_the_verdict_follows_the_numbers():
    gains = {("focal", "alone"): 0.03, ("LDAM", "chosen"): 0.03, ("CE", "ensemble"): 0.03}
    outcome = METHOD_TABLE.present(made_up(gains), Profile())
    for words in ("alone: focal", "chosen: LDAM", "ensemble: CE", "over 11 tasks"):
        assert words in outcome.verdict
    assert "(1 alone, 1 chosen, 1 ensemble)" in outcome.verdict
    assert [len(rows) for rows in outcome.tables.values()] == [8, 23, 23]


def test_a_method_without_models_is_last():
    data = made_up()
    for row in data[""]:
        if row["method"] == "AUC margin":
            row |= dict.fromkeys((*WAYS, "mean", "oracle"))
    outcome = METHOD_TABLE.present(data, Profile())
    table = {row["method"]: row for row in next(iter(outcome.tables.values()))}
    assert np.isnan(table["AUC margin"]["alone"])
    assert table["AUC margin"]["rank ensemble"] == 8


def test_every_method_has_48_tries_and_its_default():
    for spec in METHOD_TABLE.sweeps(Profile()):
        alone = spec.name.endswith("-alone")
        assert {grid.label: grid.size for grid in spec.methods} == dict.fromkeys(
            LABELS, 12 if alone else 48
        )
        assert spec.validation == 0.25
        for run in spec.runs()[: 8 * 12] if alone else ():
            expected = DEFAULTS.get(run.method, METHODS[run.method].settings)
            assert run.settings == dict(expected)
            assert run.recipe["lr"] == 0.1
    classes = {one for task in ALL_TASKS[:10] for one in classes_of(task)}
    assert len(classes) == 10


def test_collected_from_a_store(tmp_path):
    profile = Profile("laptop", "tiny")
    with Store(tmp_path / "runs.db") as store:
        scores = {}
        for number, spec in enumerate(METHOD_TABLE.sweeps(profile)):
            scores |= record_sweep(
                store, spec, seed=number,
                diverged=lambda run: run.method == "focal" and run.task.startswith("cifar"),
            )  # fmt: skip
        rows = rounded(METHOD_TABLE.collect(Reading(profile, store, None)))[""]
        assert len(rows) == (3 + 1) * 8
        for row in rows:
            sweep = "table-methods-" + ("cifar" if "cifar" in row["task"] else "fashion")
            own = list(store.runs(sweep, label=row["method"], task=row["task"]))
            done = [record for record in own if record.state == "done"]
            assert (row["tries"], row["diverged"]) == (len(own), len(own) - len(done))
            if not done:
                assert row["method"] == "focal"
                assert row["alone"] is row["chosen"] is row["ensemble"] is None
                continue
            areas = [roc_auc_score(Y, scores[record.identity]) for record in done]
            best = int(np.argmax([record.metrics["validation_auc"] for record in done]))
            assert row["chosen"] == pytest.approx(areas[best], abs=1e-6)
            assert row["oracle"] == pytest.approx(max(areas), abs=1e-6)
            alone = store.runs(f"{sweep}-alone", label=row["method"], task=row["task"])
            assert row["alone"] == pytest.approx(np.mean([r.auc for r in alone]), abs=1e-6)
    METHOD_TABLE.present({"": rows}, profile)
