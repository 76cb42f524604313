"""Trees beside the networks: judged by rows they did not see, weighted by AUC, saved whole."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score

import curvewise as cw
from curvewise.base.errors import InputError
from curvewise.estimator.ensemble import spread, weigh
from curvewise.estimator.inputs import Rows, held_out
from curvewise.estimator.trees import Trees, grow_trees, trees_for

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype(np.float32)
Y = ((X[:, 0] * X[:, 1] > 0.9) | (RNG.random(300) < 0.03)).astype(np.int64)
FOLD = held_out(Y, 3, seed=0)
FAST = {"n_members": 6, "steps": 40, "hidden": (8,), "learning_rate": 0.02, "random_state": 0}
WEIGHT = RNG.uniform(0.2, 3, 300)


@pytest.fixture(scope="module")
def grown():
    return grow_trees(Rows(X, Y, WEIGHT), FOLD, 30, seed=5)


@pytest.fixture(scope="module")
def fitted():
    return cw.LCTClassifier(**FAST, trees=30).fit(X, Y)


def log_odds(scores):
    return scores[:, 1] - scores[:, 0]


def test_scores_are_those_of_scikit_learns_trees_also_out_of_fold(grown):
    model = ExtraTreesClassifier(30, random_state=5).fit(X, Y, WEIGHT)
    expected = np.log(model.predict_proba(X) + 1e-3)
    np.testing.assert_allclose(grown.scores(X), expected, atol=1e-12)
    for left in range(3):
        kept, rows = left != FOLD, left == FOLD
        model = ExtraTreesClassifier(10, random_state=6 + left)
        model.fit(X[kept], Y[kept], WEIGHT[kept])
        expected = np.log(model.predict_proba(X[rows]) + 1e-3)
        np.testing.assert_allclose(grown.out_of_fold[rows], expected, atol=1e-12)


def test_threads_do_not_change_a_bit_and_trees_come_back_from_arrays(grown):
    one = grown.scores(X)
    torch.set_num_threads(3)
    assert np.array_equal(grown.scores(X), one)
    torch.set_num_threads(1)
    assert np.array_equal(grown.scores(X[:1]), one[:1])
    again = Trees.from_tensors(grown.to_tensors(), 4)
    assert np.array_equal(again.scores(X), grown.scores(X))
    assert np.array_equal(again.out_of_fold, grown.out_of_fold)
    assert (again.share, again.stretch) == (grown.share, grown.stretch)
    assert Trees.from_tensors({}, 4) is None


def test_the_share_is_the_closed_form_of_both_areas(grown):
    networks = np.stack([np.zeros(300), X[:, 0] + 2 * Y], axis=1)
    networks[::7] = np.nan
    weigh(grown, networks, Y)
    handicap = 1.2 * (1 / 10 - 1 / 30)  # 10 trees judged each row, 30 score new ones
    there = ~np.isnan(networks[:, 0])
    theirs = roc_auc_score(Y[there], log_odds(networks[there]))
    own = roc_auc_score(Y[there], log_odds(grown.out_of_fold[there]))
    assert grown.share == pytest.approx(1 / (1 + np.exp((theirs - own - handicap) / 0.05)))
    # Stretched, the trees' scores lie as far apart as the networks'.
    stretched = grown.stretch * grown.out_of_fold[there]
    assert spread(stretched) == pytest.approx(spread(networks[there]))


@given(st.floats(0, 1), st.floats(0.1, 10), st.integers(0, 99))
def test_joined_scores_lie_between_both(share, stretch, seed):
    networks, own = np.random.default_rng(seed).normal(size=(2, 20, 3))
    mixed = Trees([], own, 50, share, stretch).joined(networks, own)
    low, high = np.minimum(networks, stretch * own), np.maximum(networks, stretch * own)
    assert ((mixed >= low - 1e-9) & (mixed <= high + 1e-9)).all()


@given(st.integers(1, 10**7), st.integers(0, 1000))
def test_the_number_of_trees_keeps_its_budget(n, wanted):
    number = trees_for(n, wanted)
    assert 0 <= number <= wanted
    assert number * n <= 1_000_000
    assert (number == 0) == (n > 20_000 or wanted == 0)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        *(("left_child", 2**30), ("left_child", -1), ("right_child", 0), ("feature", 4)),
        *(("value", np.nan), ("threshold", np.inf), ("count", 10**6)),
        *(("feature", None), ("value", None), ("weight", None), ("out_of_fold", None)),
    ],
)
def test_nodes_that_lead_astray_and_missing_parts_are_refused(grown, name, first):
    tensors = {key: tensor.clone() for key, tensor in grown.to_tensors().items()}
    if first is None:
        del tensors[f"trees.{name}"]
    else:
        tensors[f"trees.{name}"][0] = first
    with pytest.raises(InputError, match="must be whole"):
        Trees.from_tensors(tensors, 4)


def test_trees_find_what_networks_smooth_over():
    """A rare class in small pockets: the two kinds together are no worse than networks alone."""
    rng = np.random.default_rng(3)
    x = rng.random(size=(1200, 2))
    y = ((x * 6 % 1 < 0.35).all(axis=1) & (rng.random(1200) < 0.8)).astype(int)
    train, test = slice(0, 800), slice(800, None)
    small = {"n_members": 6, "steps": 100, "random_state": 0}
    made, alone = (cw.LCTClassifier(**small, trees=t).fit(x[train], y[train]) for t in (100, 0))
    area = roc_auc_score(y[test], made.decision_function(x[test]))
    assert made.ensemble_.trees.share > 0.5
    assert area > roc_auc_score(y[test], alone.decision_function(x[test])) + 0.05


def test_a_warm_start_keeps_the_trees_without_which_the_networks_are_the_same(fitted):
    made = cw.LCTClassifier(**FAST, trees=30, warm_start=True).fit(X, Y)
    before = made.ensemble_.trees.trees
    made.set_params(n_members=9).fit(X, Y)
    assert made.ensemble_.trees.trees is before
    assert made.decision_function(X).shape == (300,)
    made.set_params(n_members=10, trees=40).fit(X, Y)
    assert len(made.ensemble_.trees.trees) == 40
    made.set_params(n_members=11, trees=0).fit(X, Y)
    assert made.ensemble_.trees is None
    assert made.tree_share_ == 0
    alone = cw.LCTClassifier(**FAST, trees=0).fit(X, Y)
    assert alone.ensemble_.trees is None
    assert np.array_equal(alone.score_samples(X), fitted.score_samples(X))
    assert cw.VSClassifier(**FAST).fit(X, Y).ensemble_.trees is None
