"""Growing ensembles: a recorded sweep, and made-up growth with known means."""

import numpy as np
import pytest
from recorded_sweeps import Y_VALIDATION, Y, record_sweep
from sklearn.metrics import roc_auc_score

from curvewise.paper.csv_files import rounded
from curvewise.paper.ensembles import ENSEMBLES, NAME, growth_curves
from curvewise.paper.experiment import Reading
from curvewise.paper.profiles import Profile
from curvewise.sweep.store import Store


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return the specs, the data collected, and records and scores by task and label."""
    profile = Profile()
    specs = ENSEMBLES.sweeps(profile)
    with Store(tmp_path_factory.mktemp("store") / "runs.db") as store:
        scores = {}
        for spec in specs:
            scores |= record_sweep(
                store, spec, diverged=lambda run: run.label == "VS" and run.number == 7
            )
        data = rounded(ENSEMBLES.collect(Reading(profile, store, None)))
        groups = {}
        for spec in specs:
            for record in store.runs(spec.name, state="done"):
                groups.setdefault((record.run.task, record.run.label), []).append(record)
    return specs, data, groups, scores


def test_the_sweeps_keep_a_validation_part(recorded):
    specs = recorded[0]
    assert [spec.size for spec in specs] == [2 * 96, 96]
    assert all(spec.validation == 0.25 for spec in specs)
    assert ENSEMBLES.needs(Profile()) == ["fashion-mnist", "cifar10"]
    assert [spec.size for spec in ENSEMBLES.sweeps(Profile("paper", "tiny"))] == [8, 4]


def test_all_models_together_and_the_one_chosen(recorded):
    _, data, groups, scores = recorded
    assert len(data["comparison"]) == 6
    for row in data["comparison"]:
        records = groups[row["task"], row["method"]]
        own = np.array([scores[record.identity] for record in records], float)
        assert row["models"] == len(own) == (47 if row["method"] == "VS" else 48)
        assert row["validation_positives"] == Y_VALIDATION.sum()
        areas = [roc_auc_score(Y, score) for score in own]
        standard = (own - own.mean(1, keepdims=True)) / own.std(1, keepdims=True)
        together = roc_auc_score(Y, standard.mean(0))
        best = int(np.argmax([record.metrics["validation_auc"] for record in records]))
        assert row["ensemble"] == pytest.approx(together, abs=1e-6)
        assert row["chosen"] == pytest.approx(areas[best], abs=1e-6)
        assert row["oracle"] == pytest.approx(max(areas), abs=1e-6)
        assert row["mean"] == pytest.approx(np.mean(areas), abs=1e-6)
        assert row["difference"] == pytest.approx(together - areas[best], abs=1e-6)
        last = [
            step for step in data["growth"]
            if (step["task"], step["method"]) == (row["task"], row["method"])
            and step["members"] == len(own)
        ]  # fmt: skip
        assert len(last) == 20
        seconds = sum(record.seconds for record in records)
        for step in last:
            assert step["ensemble"] == pytest.approx(together, abs=1e-6)
            assert step["seconds"] == pytest.approx(seconds, rel=1e-5)


def test_what_is_shown(recorded):
    outcome = ENSEMBLES.present(recorded[1], Profile())
    assert len(outcome.figures[NAME].axes) == 6
    ahead = sum(row["difference"] > 0 for row in recorded[1]["comparison"])
    assert f"chosen on validation in {ahead} of 6 cases" in outcome.verdict
    table = next(iter(outcome.tables.values()))
    assert "best on test (cheating)" in table[0]


def test_means_over_orders():
    rows = [
        {"task": "a", "method": "VS", "order": k, "members": 2, "ensemble": value, "chosen": 0.5,
         "oracle": 0.9, "seconds": 3.0 + k}
        for k, value in enumerate((0.7, 0.8, 0.9))
    ]  # fmt: skip
    (line,) = growth_curves(rows)["a"]["VS"]
    assert line["ensemble"] == pytest.approx(0.8)
    assert (line["low"], line["high"], line["seconds"]) == (0.7, 0.9, 4.0)


@pytest.mark.parametrize(
    ("gain", "words"),
    [(0.05, "in 1 of 1 cases (DeLong p < 0.05 in 1)"), (-0.05, "in 0 of 1 cases")],
)
def test_the_verdict_follows_the_numbers(gain, words):
    steps = [
        {"task": "cifar10:cat/dog", "method": "VS", "order": 0, "members": m, "chosen": 0.8,
         "ensemble": 0.8 + gain * (m > 1), "oracle": 0.9, "seconds": float(m)}
        for m in (1, 4, 48)
    ]  # fmt: skip
    row = {"task": "cifar10:cat/dog", "method": "VS", "models": 48, "validation_positives": 12,
           "mean": 0.8, "chosen": 0.8, "ensemble": 0.8 + gain, "low": 0.7, "high": 0.9,
           "oracle": 0.9, "difference": gain, "p": 0.01}  # fmt: skip
    verdict = ENSEMBLES.present({"growth": steps, "comparison": [row]}, Profile()).verdict
    assert words in verdict
    assert "not below the best on the test set in 0:" in verdict
    row["oracle"] = 0.8 + gain
    level = ENSEMBLES.present({"growth": steps, "comparison": [row]}, Profile()).verdict
    assert "not below the best on the test set in 1:" in level
    assert ("from 4 members" in verdict) == (gain > 0)
