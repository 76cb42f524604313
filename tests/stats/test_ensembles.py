"""Ensembles of a method's models, against the scores combined by hand."""

import numpy as np
import pytest
from scipy.stats import norm, rankdata, zscore
from sklearn.metrics import roc_auc_score

from curvewise import InputError, auc_interval, compare_auc
from curvewise.stats.cells import Cell
from curvewise.stats.ensembles import ensemble_differences, ensemble_summary

RNG = np.random.default_rng(0)
Y = np.arange(120) % 5 == 0


def random_cell(seed):
    # Models of differing scale and skill, some of which the ensemble does not beat.
    skill = np.array([0.1, 0.3, 0.6, 3.5])[:, None]
    return Cell(
        "digits:8", 100.0, seed, Y,
        {"VS": 10 * RNG.normal(size=(4, 120)) + 10 * skill * Y,
         "LCT": RNG.normal(size=(3, 120)) + Y},
    )  # fmt: skip


CELLS = [random_cell(seed) for seed in range(3)]
COMBINE = {
    "standardised": lambda scores: zscore(scores, axis=1).mean(axis=0),
    "rank": lambda scores: rankdata(scores, axis=1).mean(axis=0),
}


@pytest.mark.parametrize("method", COMBINE)
def test_the_ensemble_is_set_beside_its_models(method):
    lines = iter(ensemble_summary(CELLS, method, level=0.9).lines)
    for cell in CELLS:
        for label, scores in cell.scores.items():
            line = next(lines)
            combined = COMBINE[method](scores)
            singles = [roc_auc_score(Y, score) for score in scores]
            assert (line.task, line.beta, line.seed) == ("digits:8", 100.0, cell.seed)
            assert (line.label, line.models) == (label, len(scores))
            assert line.auc == pytest.approx(roc_auc_score(Y, combined), abs=1e-12)
            assert line.beats == sum(single < line.auc for single in singles)
            assert line.best_model == pytest.approx(max(singles), abs=1e-12)
            assert line.mean_model == pytest.approx(np.mean(singles), abs=1e-12)
            interval = auc_interval(Y, combined, 0.9)
            assert (line.low, line.high) == pytest.approx((interval.low, interval.high))
            assert (line.level, line.interval) == (0.9, "delong")
    assert next(lines, None) is None
    assert {line.beats for line in ensemble_summary(CELLS, method).lines} >= {3}


def test_an_ensemble_does_not_beat_its_equals():
    row = RNG.normal(size=120) + Y
    line = ensemble_summary([Cell("a", None, 0, Y, {"VS": [row, row, -row]})]).lines[0]
    assert (line.models, line.beats) == (3, 1)


@pytest.mark.parametrize("method", COMBINE)
def test_two_ensembles_are_compared_on_the_same_samples(method):
    lines = ensemble_differences(CELLS, "VS", "LCT", method, level=0.9).lines
    assert [line.seed for line in lines] == [0, 1, 2]
    for cell, line in zip(CELLS, lines, strict=True):
        first, second = (COMBINE[method](cell.scores[label]) for label in ("VS", "LCT"))
        areas = roc_auc_score(Y, first), roc_auc_score(Y, second)
        assert line.difference == pytest.approx(areas[1] - areas[0], abs=1e-12)
        expected = compare_auc(Y, second, first, level=0.9)
        assert (line.low, line.high) == pytest.approx((expected.low, expected.high))
        assert line.p == pytest.approx(2 * norm.sf(abs(line.z)))
        assert line.p == pytest.approx(expected.p)
        assert (line.a, line.b, line.level, line.test) == ("VS", "LCT", 0.9, "delong")


def test_cells_without_both_methods_are_left_out():
    lonely = Cell("other", None, 0, Y, {"VS": RNG.normal(size=(2, 120))})
    assert len(ensemble_differences([*CELLS, lonely], "VS", "LCT").lines) == 3
    assert len(ensemble_summary([*CELLS, lonely]).lines) == 7
    with pytest.raises(InputError, match="label must be one of 'VS', 'LCT', got 'CE'"):
        ensemble_differences(CELLS, "VS", "CE")


def test_rows_are_plain():
    for table in (ensemble_summary(CELLS), ensemble_differences(CELLS, "VS", "LCT")):
        for row in table.rows():
            assert {type(value) for value in row.values()} <= {str, float, int}
    with pytest.raises(InputError, match="did you mean 'rank'"):
        ensemble_summary(CELLS, "ranks")
