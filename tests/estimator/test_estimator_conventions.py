"""scikit-learn's conventions: its own suite, and what its tools do with an estimator."""

import copy
import pickle
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import curvewise as cw
from curvewise.base.errors import InputError
from curvewise.estimator import classifier
from curvewise.estimator.inputs import held_out, split_off

SMALL = {"trees": 10, "random_state": 0}
TINY = {**SMALL, "n_members": 2, "steps": 25, "hidden": (16,), "learning_rate": 0.03}
FAST = {**SMALL, "n_members": 6, "steps": 40, "hidden": (8,), "learning_rate": 0.02}
X, Y = make_classification(300, 5, n_informative=3, weights=[0.85], flip_y=0.02, random_state=0)


WHY = "training draws batches: a row that is there twice is not drawn as one of weight 2"
FAILING = {"check_sample_weight_equivalence_on_dense_data": WHY}
checks_of = partial(parametrize_with_checks, expected_failed_checks=lambda _: FAILING)


@checks_of([cw.LCTClassifier(**TINY), cw.VSClassifier(tau=1.0, **TINY)])
def test_scikit_learns_suite(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks_of([cw.LCTClassifier(), cw.VSClassifier()])
def test_scikit_learns_suite_with_nothing_set(estimator, check):
    check(estimator)


def same_bits(one, other, x=X) -> bool:
    return np.array_equal(one.predict_proba(x), other.predict_proba(x))


@pytest.fixture(scope="module")
def fitted():
    torch.set_num_threads(1)
    return cw.LCTClassifier(**FAST).fit(X, Y)


def test_pickled_estimators_say_the_same():
    estimator = cw.LCTClassifier(**FAST, calibration_fraction=0.3).fit(X, Y)
    estimator.predict(X)  # what is kept between calls is not pickled
    loaded = pickle.loads(pickle.dumps(estimator))
    assert "_reader" in vars(estimator.ensemble_).keys() - vars(loaded.ensemble_).keys()
    assert same_bits(loaded, estimator)
    assert np.array_equal(loaded.score_samples(X), estimator.score_samples(X))
    point = estimator.choose_operating_point(max_fpr=0.2, confidence=0.9)
    assert loaded.choose_operating_point(max_fpr=0.2, confidence=0.9) == point


def test_a_seed_makes_the_bits_and_leaves_the_global_generators_alone(fitted):
    before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    seeds = (0, np.random.RandomState(3), np.random.RandomState(3))
    made = [cw.LCTClassifier(**{**FAST, "random_state": seed}).fit(X, Y) for seed in seeds]
    assert same_bits(made[0], fitted)
    assert same_bits(made[1], made[2])
    assert not same_bits(made[1], fitted)
    after = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    assert before == after


def test_threads_are_set_for_a_fit_and_put_back(fitted):
    seen = []

    def network(in_shape, n_classes):
        seen.append(torch.get_num_threads())
        return torch.nn.Linear(*in_shape, n_classes)

    cw.LCTClassifier(3, steps=2, network=network, n_jobs=2).fit(X, Y)
    cw.LCTClassifier(3, steps=2, network=network).fit(X, Y)
    assert seen == [2] * 3 + [1] * 3
    assert torch.get_num_threads() == 1
    # Sums are taken in another order, so the last bits may differ.
    two = pickle.loads(pickle.dumps(fitted)).set_params(n_jobs=2)
    np.testing.assert_allclose(two.predict_proba(X), fitted.predict_proba(X), atol=1e-4)


def test_a_grid_is_searched():
    search = GridSearchCV(
        cw.LCTClassifier(**{**FAST, "n_members": 3}),
        {"weight_decay": [0.1, 40.0]},  # the latter leaves nothing of any weight
        scoring="neg_log_loss",
        cv=StratifiedKFold(2, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(X, Y)
    assert search.best_params_ == {"weight_decay": 0.1}
    assert roc_auc_score(Y, search.decision_function(X)) > 0.85


def test_a_row_of_weight_zero_is_not_there_and_weights_count(fitted):
    noise = np.random.default_rng(0).normal(5, 9, (40, 5))
    x, y = np.concatenate([noise, X]), np.concatenate([np.ones(40, int), Y])
    weight = np.repeat([0.0, 1.0], [40, len(Y)])
    ones = cw.LCTClassifier(**FAST).fit(X, Y, sample_weight=np.full(len(Y), 7.0))
    assert same_bits(cw.LCTClassifier(**FAST).fit(x, y, sample_weight=weight), ones)
    np.testing.assert_allclose(ones.predict_proba(X), fitted.predict_proba(X), atol=1e-4)
    weighted = cw.LCTClassifier(**FAST, calibration_fraction=0.3)
    weighted.fit(x, y, sample_weight=weight, groups=np.arange(len(y)))
    assert len(weighted.calibration_labels_) + weighted.class_counts_.sum() == len(Y)
    # Rare rows of weight 4 raise its share, and so the mean probability, as more rows would.
    weight = np.where(Y == 1, 4.0, 1.0)
    heavy = cw.LCTClassifier(**FAST).fit(X, Y, sample_weight=weight)
    share = weight[Y == 1].sum() / weight.sum()
    mean = np.average(heavy.predict_proba(X)[:, 1], weights=weight)
    assert mean == pytest.approx(share, abs=0.05)
    assert fitted.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), abs=0.03)
    # The wanted prior is counted from the weighted share, too.
    again = heavy.set_params(prior=share).predict_proba(X)[:, 1]
    assert np.average(again, weights=weight) == pytest.approx(mean, rel=1e-12)


def test_no_group_is_split_and_a_class_in_one_group_is_never_left_out():
    rng = np.random.default_rng(0)
    for seed in range(9):
        groups = rng.integers(0, 60, 400)
        y = (rng.random(60) < 0.15)[groups].astype(int)
        fold = held_out(y, 6, seed, groups)
        assert fold.max() >= 1
        for group in np.unique(groups):
            assert len(set(fold[groups == group])) == 1
        train, aside = split_off(y, 0.3, seed, groups)
        assert not set(groups[train]) & set(groups[aside])
        assert sorted([*train, *aside]) == list(range(400))
        assert set(y[train]) == set(y[aside]) == {0, 1}
    # Without groups the share of the rare class is kept.
    train, aside = split_off(y, 0.3, 0)
    assert y[train].mean() == pytest.approx(y[aside].mean(), abs=0.01)
    y, groups = np.array([0] * 30 + [1] * 6), np.array([*range(30), *[99] * 6])
    assert (held_out(y, 6, 0, groups) == -1).all()
    with pytest.warns(UserWarning, match=r"the only group of a class \(class counts \[30, 6\]\)"):
        estimator = cw.LCTClassifier(**FAST).fit(np.arange(36.0)[:, None] % 7, y, groups=groups)
    assert len(estimator.out_of_fold_) == 0  # so groups reach the folds of members
    with pytest.raises(InputError, match=r"calibration_fraction = 0\.5 must leave every class"):
        split_off(y, 0.5, 0, groups)


def networks_of(estimator) -> list[bytes]:
    return [
        b"".join(value.numpy().tobytes() for value in member.network.state_dict().values())
        for member in estimator.ensemble_.members
    ]


def test_warm_start_adds_members_and_keeps_the_old_ones(monkeypatch):
    stream = np.random.RandomState(1)  # what None stands for: other numbers at every call
    monkeypatch.setattr(classifier, "check_random_state", lambda given: stream)
    estimator = cw.LCTClassifier(**{**FAST, "random_state": None}, warm_start=True)
    estimator.set_params(calibration_fraction=0.3).fit(X, Y)
    old, aside = networks_of(estimator), estimator.calibration_labels_
    members = dict(zip(old, estimator.ensemble_.members, strict=True))
    scores = estimator.calibration_scores_
    estimator.set_params(n_members=12).fit(X, Y)
    new = networks_of(estimator)
    kept = [network for network in new if network in set(old)]
    assert kept == [network for network in old if network in set(new)]  # in order, the same bits
    assert len(new) > len(kept) > 0
    for network, member in zip(new, estimator.ensemble_.members, strict=True):
        assert members.get(network, member).family is member.family
    # Rows that were set aside stay so: no member ever learns from them.
    assert np.array_equal(aside, estimator.calibration_labels_)
    assert np.corrcoef(scores[:, 1], estimator.calibration_scores_[:, 1])[0, 1] > 0.9
    assert roc_auc_score(Y, estimator.decision_function(X)) > 0.9


def test_warm_start_goes_on_with_the_same_rows_and_networks_only():
    order = np.random.default_rng(0).permutation(len(Y))
    started = cw.LCTClassifier(**FAST, warm_start=True).fit(X, Y)
    before = started.decision_function(X)
    for words, parameters, x, y, more in (
        ("in their order", {}, X[order], Y[order], {}),
        ("hidden, tau_range", {"hidden": (4,)}, X, Y, {}),
        ("hidden, tau_range", {"tau_range": (0, 2)}, X, Y, {}),
        ("expecting 5 features", {}, X[:, :4], Y, {}),
        ("with their weights and groups", {}, X, Y, {"sample_weight": 1.0 + Y}),
        ("with their weights and groups", {}, X, Y, {"groups": np.arange(len(Y)) // 5}),
        ("n_members above the 6 there are, got 5", {"n_members": 5}, X, Y, {}),
        ("classes of the first fit", {}, X, Y + 1, {}),
        ("the rows of the first fit", {}, X[:-20], Y[:-20], {}),
    ):
        made = copy.copy(started).set_params(**{"n_members": 8, **parameters})
        with pytest.raises(ValueError, match=words):
            made.fit(x, y, **more)
        made.set_params(**FAST, tau_range=(0.0, 3.0))
        assert np.array_equal(made.decision_function(X), before)
    with pytest.warns(UserWarning, match="without a larger n_members trains nothing"):
        again = copy.copy(started).fit(X, Y)  # as in a forest
    assert networks_of(again) == networks_of(started)


def test_a_fit_that_fails_or_is_stopped_leaves_the_model_of_before(monkeypatch):
    made = cw.LCTClassifier(**FAST, warm_start=True).fit(X, Y)
    before, share = made.decision_function(X), made.tree_share_
    made.set_params(learning_rate=1e30, warm_start=False)
    with pytest.raises(InputError, match="no member could be trained"):
        made.fit(X * 10 + 3, np.where(Y, "A", "B"))
    assert list(made.classes_) == [0, 1]
    assert np.array_equal(made.decision_function(X), before)
    monkeypatch.setattr(classifier, "fit_recalibration", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        made.set_params(n_members=9, learning_rate=0.02, warm_start=True).fit(X, Y)
    assert made.tree_share_ == share  # trees are weighed anew by then
    assert np.array_equal(made.decision_function(X), before)


def test_without_warm_start_a_fit_forgets_the_one_before(fitted):
    estimator = cw.LCTClassifier(**FAST, calibration_fraction=0.3).fit(X, Y)
    assert len(estimator.calibration_scores_) == 90
    estimator.set_params(calibration_fraction=0.0).fit(X, Y)
    assert len(estimator.calibration_scores_) == 0
    assert same_bits(estimator, fitted)
    assert estimator.choose_operating_point(max_fpr=0.2).note.startswith("approximate")


def test_verbose_prints_ten_lines(capsys, fitted):
    assert same_bits(cw.LCTClassifier(**FAST, verbose=1).fit(X, Y), fitted)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("LCTClassifier: 10 % of 240 steps, ")
    assert lines[-1].startswith("LCTClassifier: 100 % of 240 steps, ")


def test_columns_go_by_name_or_where_only_one_table_has_names_by_place(fitted):
    named = pd.DataFrame(X, columns=list("abcde"))
    estimator = cw.LCTClassifier(**FAST).fit(named, Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        unnamed = estimator.predict_proba(X)
    with pytest.warns(UserWarning, match="has feature names"):
        renamed = fitted.predict_proba(named)
    np.testing.assert_array_equal(unnamed, renamed)
    numbered = pd.DataFrame(X)[[4, 3, 2, 1, 0]]  # numbers as names are found, too
    foreign = SimpleNamespace(to_pandas=lambda: pd.DataFrame(X))  # as polars has it
    for table in (numbered, foreign):
        np.testing.assert_array_equal(fitted.predict_proba(table), fitted.predict_proba(X))
