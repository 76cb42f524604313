"""FiLM's choices: effects that were put in are found, and only those; the sweep has them all."""

import numpy as np
import pytest
from made_up_models import MadeUpProblems, area_rows_of

from curvewise.paper import film
from curvewise.paper.csv_files import rounded
from curvewise.paper.film import CHOICES, FILM, VARIANTS, label_of
from curvewise.paper.profiles import Profile
from curvewise.paper.running import read_data, run_experiment
from curvewise.sweep.executors import serial

TASKS = ("fashion-mnist:0/6", "fashion-mnist:2/4", "fashion-mnist:1/3", "cifar10:cat/dog")
EFFECTS = {"identity init": 0.03, "scaled": -0.01, "per sample": 0.0}


def made_up(tasks=TASKS):
    rows = []
    for number, task in enumerate(tasks):
        base = 0.8 + 0.02 * number + np.array([-0.02, 0.0, 0.02])
        areas = {"VS": base + 0.005}
        for variant in VARIANTS:
            areas[label_of(variant)] = base + sum(EFFECTS.get(name, 0) for name in variant)
        rows += area_rows_of(areas, task)
    return rounded({"": rows})


def test_effects_that_were_put_in_are_found():
    outcome = FILM.present(made_up(), Profile())
    averages, effects = outcome.tables.values()
    assert [row["change"] for row in effects] == [
        "paper init to identity init", "raw to scaled", "per batch to per sample",
    ]  # fmt: skip
    for row, effect in zip(effects, EFFECTS.values(), strict=True):
        assert row["comparisons"] == 16  # four tasks, four settings of the other two choices
        for name in ("mean", "min", "max"):
            assert row[name] == pytest.approx(effect, abs=1e-9)
            assert row[f"{name}: better"] == (16 if effect > 0 else 0)
        assert row["std"] == pytest.approx(0, abs=1e-9)
    by_method = {row["method"]: row for row in averages}
    assert next(iter(by_method)) == "VS"
    assert by_method["VS"]["mean AUC"] == pytest.approx(0.835)
    best = by_method["LCT: identity init, raw, per batch"]
    assert best["mean AUC"] == pytest.approx(0.86)
    assert best["mean: better than VS"] == "4 of 4"
    assert by_method["LCT: paper init, raw, per batch"]["mean: better than VS"] == "0 of 4"
    assert "LCT: identity init, raw, per batch has the highest mean AUC" in outcome.verdict
    assert "identity init is better in mean in 16 of 16 (+0.0300)" in outcome.verdict
    assert "scaled is better in mean in 0 of 16 (-0.0100)" in outcome.verdict


def test_panels_have_vs_and_both_initialisations_in_every_group():
    figure = FILM.present(made_up(), Profile()).figures["fig-film"]
    assert len(figure.axes) == 4
    for axes in figure.axes:
        assert len(axes.patches) == 4 * 3
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "VS", "LCT, paper init", "LCT, identity init",
    ]  # fmt: skip


def test_sweeps_train_every_combination_under_its_name():
    specs = FILM.sweeps(Profile())
    assert [spec.size for spec in specs] == [3 * 9 * 48, 9 * 48]
    settings = {
        run.label: tuple(run.recipe[name] for name in CHOICES)
        for run in specs[0].runs()
        if run.method == "lct"
    }
    assert len(settings) == len(set(settings.values())) == 8
    assert settings["LCT: paper init, raw, per batch"] == ("paper", False, "batch")
    assert settings["LCT: identity init, scaled, per sample"] == ("identity", True, "sample")
    assert settings["LCT: paper init, scaled, per batch"] == ("paper", True, "batch")


@pytest.mark.parametrize(("profile", "initial"), [("paper", "paper"), ("laptop", "identity")])
def test_one_variant_is_lct_as_other_figures_have_it(profile, initial):
    spec = FILM.sweeps(Profile(profile))[1]
    plain = Profile(profile).spec("a", spec.tasks, [{"method": "lct", "grid": "paper"}])
    wanted = label_of((f"{initial} init", "raw", "per batch"))
    own = [run for run in spec.runs() if run.label == wanted]
    assert [run.identity("x") for run in own] == [run.identity("x") for run in plain.runs()]


def test_from_the_store_to_files(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "TASKS", (TASKS[:1], TASKS[-1:]))
    profile = Profile("laptop", "tiny")
    shown = run_experiment(FILM, profile, tmp_path, serial(), MadeUpProblems())
    (rows,) = read_data("fig-film", tmp_path).values()
    assert len(rows) == 2 * 9 * 2
    averages = shown.outcome.tables["Averages over 2 tasks"]
    for row in averages:
        own = [r["auc"] for r in rows if r["method"] == row["method"]]
        assert row["mean AUC"] == pytest.approx(np.mean(own))
        lows = [min(own[n : n + 2]) for n in (0, 2)]
        assert row["min"] == pytest.approx(np.mean(lows))
