"""Ensembles of a few models, against scikit-learn and averages written out."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from curvewise import InputError
from curvewise.stats.cells import Cell
from curvewise.stats.ensemble_growth import ensemble_growth, with_ensembles

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1], 40)
SCORES = Y + RNG.normal(0, 1.5, (6, 80))
VALIDATION = np.array([0.7, 0.9, 0.6, 0.8, 0.5, 0.4])
SECONDS = np.array([1.0, 2, 4, 8, 16, 32])


def mean_standardised(scores):
    return np.mean([(score - score.mean()) / score.std() for score in scores], axis=0)


def grown(**options):
    return ensemble_growth(Y, SCORES, VALIDATION, SECONDS, **options)


def test_sizes_and_orders():
    found = grown(sizes=(1, 2, 4, 48), orders=3)
    assert [(step.order, step.members) for step in found] == [
        (order, members) for order in range(3) for members in (1, 2, 4, 6)
    ]
    assert grown(orders=3) == grown(orders=3)
    assert grown(orders=3) != grown(orders=3, seed=1)


def test_each_step_is_that_of_its_members():
    areas = [roc_auc_score(Y, score) for score in SCORES]
    for step in grown(sizes=(1, 2, 3), orders=8):
        # Seconds are powers of two, so their sum tells which models there are.
        members = [k for k in range(6) if int(step.seconds) >> k & 1]
        assert len(members) == step.members
        expected = roc_auc_score(Y, mean_standardised(SCORES[members]))
        assert step.ensemble == pytest.approx(expected)
        assert step.oracle == pytest.approx(max(areas[k] for k in members))
        best = max(members, key=lambda k: VALIDATION[k])
        assert step.chosen == pytest.approx(areas[best])


def test_an_order_only_adds_members():
    for before, after in pairwise(grown(sizes=(1, 2, 3, 4, 5), orders=1)):
        assert int(before.seconds) & int(after.seconds) == int(before.seconds)
        assert after.oracle >= before.oracle


def test_lengths_must_agree():
    with pytest.raises(InputError, match=r"must have shape \(6,\), got \(2,\) and \(6,\)"):
        ensemble_growth(Y, SCORES, [0.5, 0.6], SECONDS)
    with pytest.raises(InputError, match="validation must hold finite numbers"):
        ensemble_growth(Y, SCORES, [np.nan] * 6, SECONDS)


def test_one_ensemble_a_setting():
    settings = [{"omega": o, "gamma": 0.0, "tau": t} for t in (0, 1, 2) for o in (0.5, 0.9)]
    cell = Cell("a", 100.0, 0, Y, {"VS": SCORES}, {"VS": settings}, {"VS": 1})
    more = with_ensembles(cell, "VS", "mean", ["omega", "gamma"])
    assert more.settings["mean"] == [{"omega": o, "gamma": 0.0} for o in (0.5, 0.9)]
    expected = [roc_auc_score(Y, mean_standardised(SCORES[start::2])) for start in (0, 1)]
    np.testing.assert_allclose(more.areas["mean"], expected)
    np.testing.assert_allclose(more.areas["VS"], cell.areas["VS"])
    assert (more.task, more.beta, more.seed, more.diverged) == ("a", 100.0, 0, {"VS": 1})


def test_a_method_of_which_nothing_is_left_has_no_ensemble():
    cell = Cell("a", 100.0, 0, Y, {"LCT": SCORES}, diverged={"VS": 4})
    assert "mean" not in with_ensembles(cell, "VS", "mean", ["omega"]).scores
    with pytest.raises(InputError, match="label must be one of"):
        with_ensembles(cell, "CE", "mean", ["omega"])
    with pytest.raises(InputError, match="settings of 'LCT' must be known"):
        with_ensembles(cell, "LCT", "mean", ["omega"])
