"""Ensembles of models, against scikit-learn and averages written out."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from model_frames import scored_frame
from scipy.stats import norm, zscore
from sklearn.metrics import roc_auc_score

from curvewise import auc_interval, compare_auc
from curvewise.stats.ensembles import (
    ensemble_areas,
    ensemble_differences,
    ensemble_growth,
    with_ensembles,
)

RNG = np.random.default_rng(0)
Y = np.arange(120) % 5 == 0


def random_cell(seed):
    # Models of differing scale and skill, some of which the ensemble does not beat.
    skill = np.array([0.1, 0.3, 0.6, 3.5])[:, None]
    vs, lct = 10 * RNG.normal(size=(4, 120)) + 10 * skill * Y, RNG.normal(size=(3, 120)) + Y
    return "digits:8", 100.0, seed, Y, {"VS": vs.astype("f4"), "LCT": lct.astype("f4")}


CELLS = [random_cell(seed) for seed in range(3)]
MODELS = scored_frame(CELLS)


def standardised(scores):
    return zscore(np.asarray(scores, float), axis=1).mean(axis=0)


def test_the_ensemble_is_set_beside_its_models():
    lines = ensemble_areas(MODELS).itertuples()
    for _, _, seed, _, methods in CELLS:
        for method, scores in methods.items():
            line = next(lines)
            combined = standardised(scores)
            singles = [roc_auc_score(Y, score) for score in scores]
            assert (line.task, line.beta, line.seed) == ("digits:8", 100.0, seed)
            assert (line.method, line.models) == (method, len(scores))
            assert line.auc == pytest.approx(roc_auc_score(Y, combined), abs=1e-12)
            assert line.beats == sum(single < line.auc for single in singles)
            assert line.best_model == pytest.approx(max(singles), abs=1e-12)
            assert line.mean_model == pytest.approx(np.mean(singles), abs=1e-12)
            interval = auc_interval(Y, combined, 0.95)
            assert (line.low, line.high) == pytest.approx((interval.low, interval.high))
            assert (line.level, line.interval) == (0.95, "delong")
    assert next(lines, None) is None
    assert 3 in set(ensemble_areas(MODELS)["beats"])
    # It does not beat its equals.
    row = RNG.normal(size=120) + Y
    line = ensemble_areas(scored_frame([("a", None, 0, Y, {"VS": [row, row, -row]})])).iloc[0]
    assert (line.models, line.beats) == (3, 1)


def test_two_ensembles_are_compared_on_the_same_samples():
    lonely = ("other", None, 0, Y, {"VS": RNG.normal(size=(2, 120))})
    found = ensemble_differences(scored_frame([*CELLS, lonely]), "VS", "LCT")
    assert found["seed"].to_list() == [0, 1, 2]
    for cell, line in zip(CELLS, found.itertuples(), strict=True):
        first, second = (standardised(cell[4][method]) for method in ("VS", "LCT"))
        areas = roc_auc_score(Y, first), roc_auc_score(Y, second)
        assert line.difference == pytest.approx(areas[1] - areas[0], abs=1e-12)
        expected = compare_auc(Y, second, first)
        assert (line.low, line.high) == pytest.approx((expected.low, expected.high))
        assert line.p == pytest.approx(2 * norm.sf(abs(line.z)))
        assert line.p == pytest.approx(expected.p)
        assert (line.a, line.b, line.level, line.test) == ("VS", "LCT", 0.95, "delong")


SCORES = Y + RNG.normal(0, 1.5, (6, 120))
VALIDATION = np.array([0.7, 0.9, 0.6, 0.8, 0.5, 0.4])
SECONDS = np.array([1.0, 2, 4, 8, 16, 32])


def grown(**options):
    return ensemble_growth(Y, SCORES, VALIDATION, SECONDS, **options)


def test_sizes_and_orders_of_which_each_only_adds_members():
    found = grown(sizes=(1, 2, 4, 48), orders=3)
    expected = [[order, members] for order in range(3) for members in (1, 2, 4, 6)]
    assert found[["order", "members"]].to_numpy().tolist() == expected
    assert grown(orders=3).equals(grown(orders=3))
    assert grown(orders=2)["seconds"].nunique() > 4  # another order each
    for before, after in pairwise(grown(sizes=(1, 2, 3, 4, 5), orders=1).itertuples()):
        assert int(before.seconds) & int(after.seconds) == int(before.seconds)
        assert after.oracle >= before.oracle


def test_each_step_is_that_of_its_members():
    areas = [roc_auc_score(Y, score) for score in SCORES]
    for step in grown(sizes=(1, 2, 3), orders=8).itertuples():
        # Seconds are powers of two, so their sum tells which models there are.
        members = [k for k in range(6) if int(step.seconds) >> k & 1]
        assert len(members) == step.members
        assert step.ensemble == pytest.approx(roc_auc_score(Y, standardised(SCORES[members])))
        assert step.oracle == pytest.approx(max(areas[k] for k in members))
        best = max(members, key=lambda k: VALIDATION[k])
        assert step.chosen == pytest.approx(areas[best])


def test_one_ensemble_a_setting():
    settings = [{"omega": o, "gamma": 0.0, "tau": t} for t in (0, 1, 2) for o in (0.5, 0.9)]
    models = scored_frame([("a", 100.0, 0, Y, {"VS": SCORES})], settings)
    gone = models.iloc[[0]].assign(auc=np.nan, score=None, tau=3)
    more = with_ensembles(pd.concat([models, gone]), "VS", "mean", ["omega", "gamma"])
    means = more[more["method"] == "mean"]
    assert means["omega"].to_list() == [0.5, 0.9]
    assert np.isnan(means["tau"]).all()
    expected = [roc_auc_score(Y, standardised(SCORES[start::2])) for start in (0, 1)]
    np.testing.assert_allclose(means["auc"], expected, atol=1e-3)  # scores are float32
    assert len(more) == len(models) + 1 + 2
    # A method of which nothing is left has none.
    models = scored_frame([("a", 100.0, 0, Y, {"LCT": SCORES})])
    gone = models.iloc[[0]].assign(auc=np.nan, score=None, method="VS")
    more = with_ensembles(pd.concat([models, gone]), "VS", "mean", [])
    assert "mean" not in set(more["method"])
