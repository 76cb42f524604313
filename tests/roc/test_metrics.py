"""All scalar metrics at once, against scikit-learn."""

from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scored_cases import SCORE, Y, every_case, scored
from sklearn import metrics

from curvewise import binary_metrics

PROBABILITY = 1 / (1 + np.exp(-SCORE))


@every_case
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_metric_is_that_of_scikit_learn(y, score, threshold, weighted):
    weight = np.random.default_rng(1).random(len(y)) + 0.1 if weighted else None
    found = binary_metrics(y, score, threshold, fbeta=3, weight=weight)
    called = (np.asarray(score) >= threshold).astype(int)
    weigh = {"sample_weight": weight}
    quiet = {"sample_weight": weight, "zero_division": 0}
    tpr = metrics.recall_score(y, called, **weigh)
    tnr = metrics.recall_score(y, called, pos_label=0, **weigh)
    precision, recall, _ = metrics.precision_recall_curve(y, score, **weigh)
    expected = {
        "tpr": tpr,
        "fpr": 1 - tnr,
        "precision": metrics.precision_score(y, called, **quiet),
        "accuracy": metrics.accuracy_score(y, called, **weigh),
        "f1": metrics.f1_score(y, called, **quiet),
        "fbeta": metrics.fbeta_score(y, called, beta=3, **quiet),
        "gmean": sqrt(tpr * tnr),
        "auroc": metrics.roc_auc_score(y, score, **weigh),
        "auprc": metrics.auc(recall, precision),
        "average_precision": metrics.average_precision_score(y, score, **weigh),
    }
    for name, value in expected.items():
        # The root in gmean turns a rounding of 1e-16 under it into 1e-8.
        tolerance = 1e-7 if name == "gmean" else 1e-12
        assert getattr(found, name) == pytest.approx(value, abs=tolerance), name


def test_nothing_called_positive_gives_zeros_not_nan():
    found = binary_metrics(Y, SCORE, threshold=20.0)
    assert (found.tpr, found.fpr, found.gmean) == (0, 0, 0)
    assert (found.precision, found.f1, found.fbeta) == (0, 0, 0)
    assert found.accuracy == np.mean(Y == 0)
    # How the scores rank has nothing to do with the threshold.
    assert found.auroc == binary_metrics(Y, SCORE).auroc
    # F-beta at 0 is precision, here too.
    assert binary_metrics(Y, SCORE, threshold=20.0, fbeta=0).fbeta == 0


def test_everything_called_positive():
    found = binary_metrics(Y, SCORE, threshold=-20.0)
    assert (found.tpr, found.fpr, found.gmean) == (1, 1, 0)
    assert found.precision == found.accuracy == np.mean(Y)
    # Sums of weights in another order round differently: FPR must not pass 1.
    for weight in np.random.default_rng(0).random((30, len(Y))):
        found = binary_metrics(Y, SCORE, threshold=-20.0, weight=weight)
        assert found.fpr == pytest.approx(1)
        assert found.fpr <= 1
        assert found.gmean == pytest.approx(0, abs=1e-7)


def test_a_score_at_the_threshold_is_called():
    assert binary_metrics([0, 1], [0.4, 0.5]).tpr == 1


def test_log_odds_are_cut_at_zero():
    probability, odds = binary_metrics(Y, PROBABILITY), binary_metrics(Y, SCORE, threshold=0)
    assert (odds.tpr, odds.fpr, odds.f1) == (probability.tpr, probability.fpr, probability.f1)


def test_fbeta_goes_from_precision_to_recall():
    assert binary_metrics(Y, SCORE, fbeta=1).fbeta == binary_metrics(Y, SCORE).f1
    found = binary_metrics(Y, SCORE, fbeta=0)
    assert found.fbeta == pytest.approx(found.precision)
    found = binary_metrics(Y, SCORE, fbeta=1e6)
    assert found.fbeta == pytest.approx(found.tpr)


@pytest.mark.parametrize("position", ["highest", "lowest"])
def test_a_sample_of_weight_zero_is_not_there(position):
    order = np.argsort(SCORE)
    ignored = order[-1] if position == "highest" else order[0]
    weight = np.ones(len(Y))
    weight[ignored] = 0
    expected = binary_metrics(np.delete(Y, ignored), np.delete(SCORE, ignored))
    found = binary_metrics(Y, SCORE, weight=weight)
    assert vars(found) == pytest.approx(vars(expected))


@pytest.mark.parametrize("convert", [list, torch.tensor], ids=["list", "tensor"])
def test_containers_make_no_difference(convert):
    assert binary_metrics(convert(Y), convert(SCORE)) == binary_metrics(Y, SCORE)
    assert binary_metrics(Y.astype(bool), SCORE) == binary_metrics(Y, SCORE)


@given(scored, st.integers(-7, 7), st.floats(0.1, 10))
def test_every_metric_is_a_share(samples, threshold, fbeta):
    found = binary_metrics(*samples, threshold, fbeta=fbeta)
    assert all(0 <= value <= 1 + 1e-12 for value in vars(found).values()), found
