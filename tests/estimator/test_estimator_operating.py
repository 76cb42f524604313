"""Operating points of fitted estimators: what they promise, and what `predict` makes of them."""

import warnings
from copy import copy
from dataclasses import asdict, replace
from math import inf

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import binom

import curvewise as cw
from curvewise.base.errors import InputError

FAST = {"n_members": 6, "trees": 10, "steps": 60, "hidden": (8,), "learning_rate": 0.02}
FAST["random_state"] = 0


def simulated(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, np.where(rng.random(n) < expit(2 * x[:, 0] - x[:, 1] - 3.0), "ill", "well")


X, Y = simulated(600, 0)
X_CAL, Y_CAL = simulated(2000, 1)
NEW, Y_NEW = simulated(3000, 2)


@pytest.fixture(scope="module")
def fitted():
    torch.set_num_threads(1)
    return cw.LCTClassifier(**FAST).fit(X, Y)


@pytest.fixture(scope="module")
def set_aside():
    torch.set_num_threads(1)
    return cw.LCTClassifier(**FAST, calibration_fraction=0.5).fit(*simulated(2400, 3))


def test_a_point_keeps_what_the_binomial_allows(fitted):
    point = fitted.choose_operating_point(X_CAL, Y_CAL, max_fpr=0.05, confidence=0.95)
    wrong = np.sum(fitted.predict(X_CAL, at=point)[Y_CAL == "well"] == "ill")
    n = np.sum(Y_CAL == "well")
    assert (point.false_positives, point.n_negative) == (wrong, n)
    # So many may be wrong that as few at an FPR of 5 % would have a chance of at most 5 %.
    assert binom.cdf(wrong, n, 0.05) <= 0.05 < binom.cdf(wrong + 1, n, 0.05)
    assert point.tau is None
    assert point.note == f"FPR <= 0.05 on new data with confidence 0.95, from {n:,} negatives"
    # `predict` does what the threshold on the log-odds of the rare class says.
    odds = -fitted.decision_function(NEW)  # "ill" is the first class
    assert np.array_equal(fitted.predict(NEW, at=point) == "ill", odds >= point.threshold)
    point = fitted.choose_operating_point(X_CAL, Y_CAL, min_tpr=0.8, confidence=0.9)
    missed = np.sum(fitted.predict(X_CAL, at=point)[Y_CAL == "ill"] == "well")
    n = np.sum(Y_CAL == "ill")
    assert point.tpr == pytest.approx(1 - missed / n)
    assert binom.cdf(missed, n, 0.2) <= 0.1 < binom.cdf(missed + 1, n, 0.2)
    # Without confidence the rate holds on the rows that are given.
    point = fitted.choose_operating_point(X_CAL, Y_CAL, max_fpr=0.05, confidence=None)
    sure = fitted.choose_operating_point(X_CAL, Y_CAL, max_fpr=0.05)
    assert point.confidence is None
    assert point.note == "chosen on these rows, nothing is promised of new data"
    assert sure.fpr < point.fpr <= 0.05
    assert sure.threshold > point.threshold


def test_rows_that_fit_set_aside_serve_the_same(set_aside):
    scores, labels = set_aside.calibration_scores_, set_aside.calibration_labels_
    assert len(labels) == set_aside.class_counts_.sum() == 1200
    point = set_aside.choose_operating_point(max_fpr=0.05)
    assert point.confidence == 0.95
    assert "approximate" not in point.note
    # The rows are those that a split by the same seed leaves out.
    x, y = simulated(2400, 3)
    kept = np.sort(set_aside.ensemble_.scores(set_aside.inputs_.blocks(x))[:, 1])
    assert np.isin(scores[:, 1], kept).all()
    slope, offset = set_aside.recalibration_
    odds = (slope * scores + offset) @ [1, -1]
    direct = cw.choose_operating_point(labels == 0, odds, max_fpr=0.05, confidence=0.95)
    assert point.threshold == direct.threshold
    assert np.mean(set_aside.predict(x[y == "well"], at=point) == "ill") < 0.06


def test_a_prior_moves_the_point_along_and_is_its_prevalence(set_aside):
    before = set_aside.choose_operating_point(max_fpr=0.05)
    moved = copy(set_aside).set_params(prior=0.5)
    after = moved.choose_operating_point(max_fpr=0.05)
    called = moved.predict(NEW, at=after)
    assert after.threshold > before.threshold + 1
    assert np.array_equal(called, set_aside.predict(NEW, at=before))
    asked = set_aside.choose_operating_point(X_CAL, Y_CAL, cost_ratio=50, prevalence=0.01)
    for prior in (0.01, [0.01, 0.99]):
        made = copy(set_aside).set_params(prior=prior)
        point = made.choose_operating_point(X_CAL, Y_CAL, cost_ratio=50)
        assert point.prevalence == 0.01
        assert (point.tpr, point.fpr, point.ppv) == (asked.tpr, asked.fpr, asked.ppv)
        other = made.choose_operating_point(X_CAL, Y_CAL, cost_ratio=50, prevalence=0.3)
        assert other.prevalence == 0.3


def test_points_of_other_scores_models_and_priors_are_refused(set_aside, fitted, tmp_path):
    point = set_aside.choose_operating_point(max_fpr=0.1)
    at_one_tau = set_aside.choose_operating_point(X_CAL, Y_CAL, max_fpr=0.1, tau=3.0)
    others = [
        fitted.choose_operating_point(X_CAL, Y_CAL, max_fpr=0.1),
        cw.choose_operating_point(Y_CAL == "ill", set_aside.rare_log_odds(X_CAL), max_fpr=0.1),
        replace(point, tau=3.0),
        0.3,
    ]
    for other in others:
        with pytest.raises(InputError, match="at must be a point that this model's choose_"):
            set_aside.predict(X, at=other)
    called = set_aside.predict(X, at=point)
    again = cw.load(cw.save(set_aside, tmp_path / "model.safetensors"))
    assert np.array_equal(again.predict(X, at=cw.OperatingPoint(**asdict(point))), called)
    moved = copy(set_aside).set_params(prior=0.5)
    with pytest.raises(InputError, match="another prior; choose it anew"):
        moved.predict(X, at=point)
    moved.predict(X, at=at_one_tau)  # no prior moves these scores


def test_out_of_fold_scores_make_a_point_approximate(fitted):
    point = fitted.choose_operating_point(max_fpr=0.05)
    assert point.note.startswith("approximate: chosen on out-of-fold scores")
    assert point.confidence is None
    assert point.n_negative + point.n_positive == len(fitted.out_of_fold_) <= len(Y)
    assert 0 < np.mean(fitted.predict(NEW[Y_NEW == "well"], at=point) == "ill") < 0.1
    alone = cw.LCTClassifier(**{**FAST, "n_members": 1}).fit(X, Y)
    with pytest.raises(InputError, match="held no rows out, so X and y must be given"):
        alone.choose_operating_point(max_fpr=0.1)


def test_too_few_rows_for_a_promise_and_a_rate_that_no_threshold_keeps(fitted):
    negatives, positives = np.flatnonzero(Y_CAL == "well"), np.flatnonzero(Y_CAL == "ill")
    rows = [*negatives[:298], *positives[:40]]
    words = "FPR <= 0.01 with confidence 0.95 needs at least 299 negatives, got 298"
    with pytest.warns(UserWarning, match=words):
        point = fitted.choose_operating_point(X_CAL[rows], Y_CAL[rows], max_fpr=0.01)
    assert (point.threshold, point.note) == (inf, words)
    assert set(fitted.predict(NEW, at=point)) == {"well"}
    rows.append(negatives[298])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        point = fitted.choose_operating_point(X_CAL[rows], Y_CAL[rows], max_fpr=0.01)
    assert point.threshold < inf
    assert point.false_positives == 0
    rule = {"min_tpr": 0.95, "confidence": 0.9}
    with pytest.warns(UserWarning, match="needs at least 45 positives, got 40"):
        point = fitted.choose_operating_point(X_CAL[rows], Y_CAL[rows], **rule)
    assert point.threshold == -inf
    assert set(fitted.predict(NEW, at=point)) == {"ill"}
    labels = np.where(np.arange(len(X_CAL)) == fitted.rare_log_odds(X_CAL).argmax(), "well", "ill")
    with pytest.warns(UserWarning, match="no finite threshold keeps this rate on these rows"):
        point = fitted.choose_operating_point(X_CAL, labels, max_fpr=0.0, confidence=None)
    assert point.threshold == inf


def test_a_cost_ratio(fitted):
    point = fitted.choose_operating_point(X_CAL, Y_CAL, cost_ratio=10)
    odds = -fitted.decision_function(X_CAL)

    def cost(threshold):
        called = odds >= threshold
        return 10 * np.sum(~called[Y_CAL == "ill"]) + np.sum(called[Y_CAL == "well"])

    assert cost(point.threshold) == min(cost(threshold) for threshold in [*odds, inf])
    # Calibrated odds: a call pays where p / (1 - p) is above 1 / 10.
    assert cost(point.threshold) <= cost(np.log(0.1)) <= 1.15 * cost(point.threshold)
    dear = fitted.choose_operating_point(X_CAL, Y_CAL, cost_ratio=10, prevalence=0.5)
    assert dear.threshold < point.threshold
    assert dear.prevalence == 0.5


def test_a_threshold_at_one_lambda_and_a_lambda_at_the_threshold_zero(fitted):
    point = fitted.choose_operating_point(X_CAL, Y_CAL, max_fpr=0.05, tau=1.0)
    assert point.tau == 1
    score = fitted.score_samples(NEW, 1.0)
    assert np.array_equal(fitted.predict(NEW, at=point) == "ill", score >= point.threshold)
    n = np.sum(Y_CAL == "well")
    assert binom.cdf(point.false_positives, n, 0.05) <= 0.05
    # A lambda at the threshold zero.
    point = fitted.choose_operating_point(X_CAL, Y_CAL, max_fpr=0.2, by="lambda")
    assert point.threshold == 0
    for tau in np.linspace(0, 3, 61):  # from the safe end up to the first that fails
        wrong = np.sum(fitted.score_samples(X_CAL[Y_CAL == "well"], tau) >= 0)
        if binom.cdf(wrong, n, 0.2) > 0.05:
            break
        expected = tau
    assert point.tau == pytest.approx(expected)
    assert 0 < point.tau < 3  # else the test says little
    called = fitted.predict(NEW, at=point) == "ill"
    assert np.array_equal(called, fitted.score_samples(NEW, point.tau) >= 0)
    assert point.note.startswith("FPR <= 0.2 on new data with confidence 0.95")
    caught = fitted.choose_operating_point(X_CAL, Y_CAL, min_tpr=0.5, by="lambda")
    assert caught.tpr > 0.5
    assert fitted.choose_operating_point(X_CAL, Y_CAL, min_tpr=0.7, by="lambda").tau >= caught.tau


def test_no_lambda_keeps_the_rate(fitted):
    rule = {"min_tpr": 0.9999, "confidence": 0.01}
    with pytest.warns(UserWarning, match="no tau in"):
        point = fitted.choose_operating_point(X_CAL, Y_CAL, by="lambda", **rule)
    assert point.threshold == -inf
    assert point.note.startswith("no tau in [0, 3] keeps TPR >= 0.9999")
    with pytest.warns(UserWarning, match="needs at least 299 negatives"):
        few = fitted.choose_operating_point(X_CAL[:200], Y_CAL[:200], max_fpr=0.01, by="lambda")
    assert few.threshold == inf
    assert set(fitted.predict(NEW, at=few)) == {"well"}


WRONG = [
    ({"max_fpr": 0.1, "min_tpr": 0.9}, "exactly one of max_fpr, min_tpr, cost_ratio"),
    ({"max_fpr": 2}, "max_fpr must .* 0 and 1, got 2"),
    ({"max_fpr": 0.1, "confidence": 1.0}, "confidence must .* 0 and 1"),
    ({"max_fpr": 0.1, "by": "tau"}, "by must be .* got 'tau'"),
    ({"by": "lambda"}, "exactly one of max_fpr, min_tpr"),
    ({"by": "lambda", "max_fpr": 0.1, "tau": 1.0}, "goes without tau and cost_ratio"),
    ({"by": "lambda", "max_fpr": 0.1, "confidence": None}, "and with confidence"),
    ({"max_fpr": 0.1, "tau": 9.0}, r"tau must be in \[0, 3\]"),
    ({"max_fpr": 0.1, "y": None}, "X and y go together"),
    ({"max_fpr": 0.1, "tau": 1.0, "X": None, "y": None}, "one lambda needs rows X and y"),
    ({"max_fpr": 0.1, "y": np.where(Y_CAL == "ill", "dead", Y_CAL)}, r"\['ill', 'well'\], .*dead"),
    ({"max_fpr": 0.1, "y": np.full(2000, "well")}, r"only \['well'\] \(2000 rows\)"),
    ({"max_fpr": 0.1, "y": Y_CAL[:-1]}, "inconsistent numbers of samples"),
]


@pytest.mark.parametrize(("rules", "words"), WRONG, ids=[words for _, words in WRONG])
def test_wrong_rules_and_rows_are_refused(fitted, rules, words):
    with pytest.raises(ValueError, match=words):
        fitted.choose_operating_point(**{"X": X_CAL, "y": Y_CAL, **rules})


def test_groups_take_the_exactness_from_a_promise():
    x, y = simulated(1500, 1)
    made = cw.LCTClassifier(**FAST, calibration_fraction=0.5)
    made.fit(x, y, groups=np.arange(1500) // 3)
    with pytest.warns(UserWarning, match="rows of one group are alike"):
        point = made.choose_operating_point(max_fpr=0.05)
    assert "on new data with confidence" in point.note


def test_models_of_other_seeds_refuse_a_point_also_without_recalibration():
    one = {**FAST, "n_members": 1, "trees": 0}  # nothing is left out, so nothing is recalibrated
    point = cw.LCTClassifier(**one).fit(X, Y).choose_operating_point(X_CAL, Y_CAL, max_fpr=0.05)
    assert cw.LCTClassifier(**one).fit(X, Y).predict(NEW[:5], at=point).shape == (5,)  # the same
    other = cw.LCTClassifier(**{**one, "random_state": 1}).fit(X, Y)
    with pytest.raises(InputError, match="at must be a point that this model's"):
        other.predict(NEW[:5], at=point)
