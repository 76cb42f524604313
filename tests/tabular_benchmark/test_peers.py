"""Every peer fits small tables with words, gaps and few positives."""

import importlib.util
from functools import partial

import numpy as np
import pandas as pd
import pytest
from benchmarks.tabular import adapters
from benchmarks.tabular.adapters import RankAverage, SizedToPositives, TriedAgain
from benchmarks.tabular.peers import METHODS, encoder
from scipy.stats import rankdata

from curvewise import LCTClassifier

NEEDS = {name: name for name in ("lightgbm", "xgboost", "tabm")} | dict.fromkeys(
    ("balanced-forest", "easy-ensemble", "rusboost", "smote-boosting", "tree-blend"), "imblearn"
)


def table(n=90, positives=6, seed=0):
    generator = np.random.default_rng(seed)
    y = np.zeros(n, np.int64)
    y[generator.choice(n, positives, replace=False)] = 1
    x = pd.DataFrame(
        {
            "number": y * 3 + generator.normal(size=n),
            "whole": generator.integers(0, 4, n),
            "word": np.where(generator.random(n) < 0.3, "a", "b"),
            "constant": 1.0,
            "gaps": np.where(generator.random(n) < 0.2, np.nan, generator.normal(size=n)),
        }
    )
    return x, y


def method(name):
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{name} needs {NEEDS[name]}: pip install '.[bench]'")
    return METHODS[name]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr("benchmarks.tabular.peers.TREES", 30)
    few = partial(LCTClassifier, n_members=6, steps=100)
    monkeypatch.setattr("benchmarks.tabular.peers.LCTClassifier", few)
    monkeypatch.setattr("benchmarks.tabular.tabm_peer.MOST_STEPS", 50)
    monkeypatch.setattr("curvewise.estimator.fitting.steps_for", lambda n: 60)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_a_method_ranks_and_repeats_itself(name):
    x, y = table()
    new, truth = table(seed=1)
    new.loc[0, "word"] = "unknown"
    first = method(name)(3).fit(x, y).predict_proba(new)
    assert first.shape == (len(new), 2)
    assert first.sum(axis=1) == pytest.approx(1)
    assert (first >= 0).all()
    if name not in ("rusboost", "lightgbm"):  # which see too little in 6 positives
        score = first[:, 1]
        assert (score[truth == 1][:, None] > score[truth == 0]).mean() > 0.7
    np.testing.assert_array_equal(method(name)(3).fit(x, y).predict_proba(new), first)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["tabm", "smote-boosting", "rusboost"])
def test_words_alone_and_two_positives_will_do(name):
    x, y = table(positives=2)
    words = pd.DataFrame({"one": x["word"], "two": np.where(y + (x["whole"] == 0) > 0, "c", "d")})
    assert np.isfinite(method(name)(0).fit(words, y).predict_proba(words)).all()
    train = pd.DataFrame({"a": [1.0, 2.0, 9.0, np.nan], "b": ["u", "v", "u", "u"]})
    test = pd.DataFrame({"a": [np.nan, 100.0], "b": ["v", "w"]})  # medians and levels of train
    assert encoder().fit(train).transform(test).tolist() == [[2.0, 0.0, 1.0], [100.0, 0.0, 0.0]]


class Constant:
    """Scores that were given, or an error."""

    def __init__(self, score=None, error=None):
        self.score, self.error = score, error

    def fit(self, x, y):
        if self.error:
            raise ValueError(self.error)
        return self

    def predict_proba(self, x):
        return np.column_stack([1 - self.score, self.score])


def test_the_blend_averages_ranks_sizes_follow_positives_and_another_seed_is_tried():
    one, two = np.array([0.1, 0.2, 0.9, 0.2]), np.array([0.7, 0.1, 0.8, 0.9])
    blend = RankAverage([Constant(one), Constant(two)]).fit(np.zeros(4), [0, 1, 0, 1])
    expected = (rankdata(one) + rankdata(two)) / 8
    assert blend.predict_proba(np.zeros(4))[:, 1] == pytest.approx(expected)
    assert blend.ranks_only
    # Another wrapper: sizes follow the positives.
    asked = []
    SizedToPositives(lambda n: asked.append(n) or Constant(np.ones(3))).fit(None, [0, 1, 1, 0])
    assert asked == [2]
    seeds = []

    def make(seed):
        seeds.append(seed)
        return Constant(np.ones(4), "ensemble is worse than random" if len(seeds) < 3 else None)

    x, y = np.zeros((4, 1)), [0, 0, 0, 1]
    assert TriedAgain(make, 0).fit(x, y).predict_proba(x)[:, 1].tolist() == [1.0] * 4
    assert len(set(seeds)) == 3
    never = TriedAgain(lambda _: Constant(error="is worse than random"), 0).fit(x, y)
    assert never.predict_proba(x)[:, 1] == pytest.approx([0.25] * 4)
    with pytest.raises(ValueError, match="something else"):
        TriedAgain(lambda _: Constant(error="something else"), 0).fit(x, y)
    assert adapters.TRIES > 3
