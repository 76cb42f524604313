"""Tables and figure data of cells, against plain loops and scikit-learn."""

import time
from statistics import mean, stdev

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from curvewise import InputError, roc_band, roc_curve
from curvewise.stats.cells import Cell, CellAreas
from curvewise.stats.summary import (
    cell_statistics,
    method_summary,
    model_table,
    roc_bands,
    spread,
    spread_by,
)

RNG = np.random.default_rng(0)


def random_cell(seed, task="digits:8", beta=100.0, n=60, models=None, **others):
    y = np.arange(n) % 4 == 0  # the test sets of seeds differ in size and scores
    scores = {
        label: (RNG.normal(size=(count, n)) + y).astype(np.float32)
        for label, count in (models or {"VS": 4, "VS + LCT": 3}).items()
    }
    return Cell(task, beta, seed, y.astype(int), scores, **others)


CELLS = [random_cell(0), random_cell(1, n=80), random_cell(0, beta=10.0), random_cell(0, "other")]


def test_areas_are_those_of_scikit_learn():
    for cell in CELLS:
        assert list(cell.areas) == ["VS", "VS + LCT"]
        for label, scores in cell.scores.items():
            expected = [roc_auc_score(cell.y, score) for score in scores]
            np.testing.assert_allclose(cell.areas[label], expected, atol=1e-12)


def test_cell_statistics_are_those_of_the_models():
    lines = cell_statistics(CELLS).lines
    assert [(line.task, line.beta, line.seed, line.label) for line in lines] == [
        (cell.task, cell.beta, cell.seed, label) for cell in CELLS for label in ("VS", "VS + LCT")
    ]
    for line, areas in zip(
        lines, (areas for cell in CELLS for areas in cell.areas.values()), strict=True
    ):
        areas = areas.tolist()
        assert (line.models, line.diverged) == (len(areas), 0)
        assert (line.min, line.max) == (min(areas), max(areas))
        assert line.mean == pytest.approx(mean(areas), abs=1e-12)
        assert line.std == pytest.approx(stdev(areas), abs=1e-12)  # divided by models - 1


def test_a_method_is_averaged_over_cells_not_over_models():
    cells = [
        CellAreas("a", None, 0, {"VS": [0.5, 0.7], "CE": [0.6]}, diverged={"VS": 3, "SAM": 2}),
        CellAreas("b", None, 0, {"VS": [0.9, 0.8, 0.7, 0.8]}),
        CellAreas("c", None, 0, {"VS": [0.4]}),
    ]
    vs, ce, sam = method_summary(cells).rows()
    assert vs == {
        "label": "VS",
        "cells": 3,
        "models": 7,
        "diverged": 3,
        "mean": pytest.approx((0.6 + 0.8 + 0.4) / 3),
        "min": pytest.approx((0.5 + 0.7 + 0.4) / 3),
        "max": pytest.approx((0.7 + 0.9 + 0.4) / 3),
        "std": pytest.approx((stdev([0.5, 0.7]) + stdev([0.9, 0.8, 0.7, 0.8])) / 2),
    }
    assert (ce["cells"], ce["models"], ce["mean"]) == (1, 1, 0.6)
    assert np.isnan(ce["std"])
    assert (sam["label"], sam["cells"], sam["models"], sam["diverged"]) == ("SAM", 0, 0, 2)
    assert np.isnan(sam["mean"])


def test_scores_and_their_areas_give_the_same_table():
    known = [CellAreas(cell.task, cell.beta, cell.seed, cell.areas) for cell in CELLS]
    assert method_summary(known) == method_summary(CELLS)


def test_every_model_is_listed_with_its_settings():
    settings = {"VS": [{"tau": 0.0}, {"tau": 1.0}]}
    cell = random_cell(3, models={"VS": 2, "CE": 1}, settings=settings)
    rows = model_table([cell]).rows()
    assert [(row["label"], row["row"], row["settings"]) for row in rows] == [
        ("VS", 0, {"tau": 0.0}),
        ("VS", 1, {"tau": 1.0}),
        ("CE", 0, {}),
    ]
    assert rows[1]["auc"] == cell.areas["VS"][1]
    assert {(row["task"], row["beta"], row["seed"]) for row in rows} == {("digits:8", 100.0, 3)}


def test_bands_are_over_all_models_of_all_cells():
    bands = roc_bands(CELLS[:2], grid=[0.25, 0.5])
    assert list(bands) == ["VS", "VS + LCT"]
    curves = [roc_curve(cell.y, score) for cell in CELLS[:2] for score in cell.scores["VS"]]
    assert len(curves) == 8
    expected = roc_band(curves, [0.25, 0.5])
    for name in ("fpr", "mean", "low", "high", "std"):
        np.testing.assert_array_equal(getattr(bands["VS"], name), getattr(expected, name))


def test_the_usual_grid_serves_linear_and_logarithmic_figures():
    fpr = roc_bands(CELLS[:1])["VS"].fpr
    assert np.diff(fpr).max() < 1.001e-3
    seen = fpr[fpr > 0]
    assert seen[0] == pytest.approx(1e-4)
    assert np.diff(np.log10(seen)).max() < 0.02


def test_spread_gathers_areas_by_label_and_group():
    areas = spread(CELLS)
    expected = np.concatenate([cell.areas["VS + LCT"] for cell in CELLS])
    np.testing.assert_array_equal(areas["VS + LCT"], expected)
    by_beta = spread_by(CELLS)
    assert list(by_beta) == ["beta = 100", "beta = 10"]
    np.testing.assert_array_equal(by_beta["beta = 10"]["VS"], CELLS[2].areas["VS"])
    assert len(by_beta["beta = 100"]["VS"]) == 12
    assert list(spread_by(CELLS, "task")) == ["digits:8", "other"]
    assert list(spread_by(CELLS, "seed")) == ["seed = 0", "seed = 1"]
    as_they_are = [CellAreas("a", None, 0, {"VS": [0.5]}, diverged={"CE": 1})]
    assert spread_by(as_they_are) == {"data as they are": {"VS": [0.5]}}


def test_the_demo_is_summarised_at_once():
    cells = [random_cell(seed, n=900, models={"VS": 48, "VS + LCT": 48}) for seed in range(5)]
    start = time.perf_counter()
    method_summary(cells)
    assert time.perf_counter() - start < 0.5  # 480 areas take some 20 ms


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": {"VS": np.zeros(4)}}, r"'VS' must have shape \(models, 4\), got \(4,\)"),
        ({"scores": {"VS": np.zeros((2, 5))}}, r"got \(2, 5\)"),
        ({"scores": {"VS": np.zeros((0, 4))}}, r"got \(0, 4\)"),
        ({"settings": {"VS": [{}]}}, "settings of 'VS' must be as many as its models, 2, got 1"),
        ({"settings": {"LCT": [{}]}}, "settings of 'LCT' must be as many as its models, 0, got 1"),
    ],
)
def test_a_cell_that_does_not_fit_together_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Cell(
            **{
                "task": "a",
                "beta": 9.0,
                "seed": 2,
                "y": [0, 1, 0, 1],
                "scores": {"VS": np.zeros((2, 4))},
            }
            | arguments
        )


@pytest.mark.parametrize("areas", [[], [0.5, np.nan], [1.2], [-0.1], 0.5])
def test_areas_that_are_none_are_refused(areas):
    with pytest.raises(InputError, match=r"areas of 'VS' must be a list of numbers in \[0, 1\]"):
        CellAreas("a", None, 0, {"VS": areas})
    with pytest.raises(InputError, match="settings of 'VS'"):
        CellAreas("a", None, 0, {"VS": [0.5]}, settings={"VS": [{}, {}]})


def test_bad_scores_and_labels_say_where_they_are():
    where = "'VS' of task a, beta 9.0, seed 2: "
    cell = Cell("a", 9.0, 2, [0, 1], {"VS": [[0.0, 1.0], [np.nan, 1.0]]})
    with pytest.raises(InputError, match=where + "score must be finite, got nan at position 0"):
        method_summary([cell])
    with pytest.raises(InputError, match=where + "y must hold both classes"):
        method_summary([Cell("a", 9.0, 2, [1, 1], {"VS": [[0.0, 1.0]]})])


@pytest.mark.parametrize("table", [model_table, cell_statistics, method_summary, spread, roc_bands])
def test_no_cell_and_the_same_cell_twice_are_refused(table):
    with pytest.raises(InputError, match="at least one cell"):
        table([])
    with pytest.raises(InputError, match=r"task='digits:8', beta=100.0, seed=0\) twice"):
        table([random_cell(0), random_cell(0)])
    assert table(cell for cell in CELLS)  # read once, so an iterator will do
