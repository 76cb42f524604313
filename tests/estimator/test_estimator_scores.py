"""Scores against plain loops over members and lambdas, closed forms and simulated truth."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax, logit
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from torch import nn

import curvewise as cw
from curvewise.base.errors import InputError
from curvewise.estimator import ensemble, fitting
from curvewise.estimator.ensemble import Member, Reader, fit_recalibration
from curvewise.estimator.fitting import take_in_scale
from curvewise.networks.architectures import MLP
from curvewise.networks.conditioning import condition
from curvewise.training.stacked import fit_stacked

FAST = {"n_members": 4, "trees": 10, "steps": 60, "hidden": (8,), "learning_rate": 0.02}
FAST["random_state"] = 0
RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 3)) * [1, 10, 0.1]
Y = (RNG.random(500) < expit(1.5 * X[:, 0] + 8 * X[:, 2] - 2.5)).astype(int)
LCT = cw.LossFamily(0.7, 0.2, cw.LinearDensity(0.0, 3.0, 0.33), reduction="expected_mean")
VS = cw.LossFamily(0.9, 0.3, 1.5, reduction="expected_mean")
MANY = cw.LossFamily([0.2, 0.3, 0.5], 0.1, cw.LinearDensity(0.0, 2.0, 0.5))


@pytest.fixture(scope="module")
def fitted():
    torch.set_num_threads(1)
    return cw.LCTClassifier(**FAST).fit(X, Y)


def conditioned(family, d=5, classes=2, hidden=(7, 6), seed=0):
    torch.manual_seed(seed)
    network = MLP(d, classes, hidden)
    return condition(network, family, init="paper", scale_lambda=bool(family.drawn)).eval()


def by_hand(network, family, x, lams, counts, oversampling):
    """Mean over lambdas of the log-odds (two classes) or centred log-probabilities, in a loop."""
    found = []
    for lam in lams:
        with torch.no_grad():
            logits = network(x, lam).double()
        settings = family.hyperparameters(lam.double())
        numbers = {name: v.item() for name, v in settings.items() if torch.is_tensor(v)}
        odds = cw.calibrated_log_odds(logits, class_counts=counts, **settings | numbers)
        shown = torch.tensor(oversampling, dtype=torch.float64).log()
        odds = odds - shown[1] + shown[0] if len(counts) == 2 else odds - shown
        found.append(odds)
    mean = torch.stack(found).mean(0)
    # Log-probabilities are known up to a constant of a row.
    return mean if mean.dim() == 1 else mean - mean.mean(1, keepdim=True)


@pytest.mark.parametrize(
    ("family", "counts", "oversampling"),
    [
        (LCT, (5.0, 95.0), (3.0, 1.0)),
        (VS, (900.0, 13.5), (1.0, 2.5)),
        (MANY, (60.0, 30.0, 10.0), (1.0, 1.0, 4.0)),
    ],
    ids=["lct", "vs", "three classes"],
)
@pytest.mark.parametrize("hidden", [(7, 6), ()])
def test_the_readout_is_the_mean_over_lambdas(family, counts, oversampling, hidden):
    network = conditioned(family, classes=len(counts), hidden=hidden)
    x = torch.randn(20, 5)
    taus = [0.0, 0.7, 2.0]
    lams = torch.tensor([[tau] for tau in taus]) if family.drawn else torch.zeros(1, 0)
    weight, bias = Member(network, family, counts, oversampling).calibrated_readout(taus)
    with torch.no_grad():
        scores = network.features(x).double() @ weight.T + bias
    expected = by_hand(network, family, x, lams, counts, oversampling)
    binary = len(counts) == 2
    found = scores[:, 1] - scores[:, 0] if binary else scores - scores.mean(1, keepdim=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert expected.std() > 0.01  # else it says nothing


@pytest.mark.parametrize("family", [LCT, VS], ids=["lct", "vs"])
@pytest.mark.parametrize("hidden", [(7, 6), ()])
def test_what_inputs_were_multiplied_by_is_taken_in(family, hidden):
    network = conditioned(family, hidden=hidden)
    x, scale = torch.randn(20, 5), torch.rand(5) + 0.1
    lam = torch.tensor([2.0]) if family.drawn else torch.zeros(0)
    with torch.no_grad():
        before, expected = network(x, lam), network(x * scale, lam)
        take_in_scale(network, scale)
        np.testing.assert_allclose(network(x, lam), expected, atol=1e-5)
    assert (before - expected).abs().max() > 0.01


def test_members_go_through_what_they_differ_in_side_by_side():
    settings = fitting.Settings(tau_range=(0.0, 1.5))
    families = [settings.family(k) for k in range(12)]
    assert [family.omega for family in families] == [0.5, 0.7, 0.9] * 4
    assert [family.gamma for family in families] == [0, 0, 0.1, 0.1, 0.2, 0.2] * 2
    assert [family.tau.height_at_high for family in families] == [0, 0.3, 0.66, 1] * 3
    assert settings.taus() == (0, 0.5, 1, 1.5)
    for n, noise, steps in ((500, 0.5, 268), (40_000, 0.25, 1200)):
        recipe = settings.recipe(n, (5,), seed=3)
        assert (recipe.input_noise, recipe.steps, recipe.seed_weights) == (noise, steps, 3)
    recipe = settings.recipe(500, (3, 8, 8), seed=0)
    assert (recipe.input_noise, recipe.steps, recipe.film_hidden) == (0, 600, 32)


def test_only_our_own_networks_are_scaled(monkeypatch):
    """Others may begin with anything, and use their inputs more than once."""
    spy = Mock(wraps=fit_stacked)
    monkeypatch.setattr(fitting, "fit_stacked", spy)
    cw.LCTClassifier(**FAST).fit(X, Y)
    cw.LCTClassifier(**FAST, network=lambda shape, c: MLP(shape[0], c, (4,))).fit(X, Y)
    ours, others = (call.kwargs["input_scale"] for call in spy.call_args_list)
    assert ours.shape[0] == 4
    assert len(np.unique(ours, axis=0)) > 1
    assert others is None


class Convolved(nn.Module):
    """A network that does not stack."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.one, self.last = nn.BatchNorm1d(5), nn.Linear(5, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.one(self.norm(x))))


@pytest.mark.parametrize("kind", ["layered", "linear", "other"])
@pytest.mark.parametrize("n", [1, 512, 1300])
def test_a_reader_is_a_loop_over_members(kind, n):
    hidden = (7, 6) if kind == "layered" else ()
    networks = [conditioned(LCT, hidden=hidden, seed=k) for k in range(3)]
    if kind == "other":
        networks = [condition(Convolved(), LCT).eval() for _ in range(3)]
    width = networks[0].linear.in_features
    readouts = [(torch.randn(2, width).double(), torch.randn(2).double()) for _ in networks]
    reader = Reader(networks, readouts)
    x = RNG.normal(size=(n, 5)).astype(np.float32)
    with torch.no_grad():
        parts = [
            (network.features(torch.from_numpy(x)).double() @ weight.T + bias).numpy()
            for network, (weight, bias) in zip(networks, readouts, strict=True)
        ]
    np.testing.assert_allclose(reader.each(x), np.stack(parts), atol=1e-4)
    np.testing.assert_allclose(reader.mixed(x), np.sum(parts, axis=0), atol=1e-4)
    # A row's score does not depend, in any bit, on the rows it came with.
    assert np.array_equal(reader.mixed(x)[:1], reader.mixed(x[:1]))
    cut = np.concatenate([reader.mixed(part) for part in np.array_split(x, min(n, 2))])
    # Layers of a kind we do not know may round by a row's place in its block.
    np.testing.assert_allclose(reader.mixed(x), cut, rtol=0, atol=1e-5 * (kind == "other"))


def test_the_size_of_a_block_does_not_matter(fitted, monkeypatch):
    whole = fitted.decision_function(X)
    assert np.array_equal(whole[:7], fitted.decision_function(X[:7]))
    monkeypatch.setattr(ensemble, "ROWS", 100)
    np.testing.assert_allclose(fitted.decision_function(X), whole, atol=1e-5)


def test_an_estimators_scores_are_a_loop_over_its_networks_and_trees(fitted):
    made = fitted.ensemble_
    features = torch.from_numpy(np.concatenate(list(fitted.inputs_.blocks(X))))
    lams = torch.tensor([[tau] for tau in made.taus])
    mean, at_three = np.zeros(len(X)), np.zeros(len(X))
    for share, member in zip(made.weights, made.members, strict=True):
        counts, times = member.class_counts, member.oversampling
        odds = by_hand(member.network, member.family, features, lams, counts, times)
        mean += share * odds.numpy()
        with torch.no_grad():
            logits = member.network(features, torch.tensor([3.0])).double().numpy()
        at_three += share * (logits[:, 1] - logits[:, 0])
    assert made.weights.sum() == pytest.approx(1)
    grown = made.trees
    chance = np.mean([tree.predict(features.numpy())[:, 1] for tree in grown.trees], axis=0)
    odds = np.log(chance + 1e-3) - np.log(1 - chance + 1e-3)
    both = (1 - grown.share) * mean + grown.share * grown.stretch * odds
    slope, offset = fitted.recalibration_
    expected = slope * both + offset[1] - offset[0]
    np.testing.assert_allclose(fitted.decision_function(X), expected, atol=1e-4)
    np.testing.assert_allclose(fitted.score_samples(X, tau=3.0), at_three, atol=1e-4)
    np.testing.assert_allclose(fitted.score_samples(X), at_three, atol=1e-4)
    # The methods agree.
    odds, probability = fitted.decision_function(X), fitted.predict_proba(X)
    np.testing.assert_allclose(probability[:, 1], expit(odds), rtol=1e-12)
    np.testing.assert_allclose(probability.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), probability, rtol=1e-9)
    assert np.array_equal(fitted.predict(X), (odds > 0).astype(int))


def test_a_tau_that_was_not_drawn_is_refused(fitted):
    with pytest.raises(InputError, match=r"tau must be in \[0, 3\] and finite, got 4"):
        fitted.score_samples(X, tau=4)
    fixed = cw.VSClassifier(tau=1.0, **FAST).fit(X, Y)
    assert fixed.score_samples(X).shape == (500,)
    with pytest.raises(InputError, match="fixed loss, so no tau can be chosen, got 2"):
        fixed.score_samples(X, tau=2)
    with pytest.raises(InputError, match="lambda can be chosen if it was drawn"):
        fixed.choose_operating_point(X, Y, max_fpr=0.1, by="lambda")


@pytest.mark.parametrize(("rare", "other"), [("a", "b"), (True, False), (-1.0, 5.0)])
def test_the_rare_class_is_the_positive_one_wherever_it_stands(rare, other):
    labels = np.where(Y == 1, rare, other)
    estimator = cw.LCTClassifier(**FAST).fit(X, labels)
    assert estimator.classes_.tolist() == sorted([rare, other])
    assert estimator.positive_class_ == rare
    second = estimator.classes_[1] == rare
    odds = estimator.decision_function(X)
    assert roc_auc_score(Y, odds if second else -odds) > 0.85
    assert estimator.predict_proba(X)[:, int(second)].mean() == pytest.approx(Y.mean(), abs=0.04)
    assert roc_auc_score(Y, estimator.score_samples(X)) > 0.85  # always of the rare one
    point = estimator.choose_operating_point(X, labels, max_fpr=0.1, confidence=None)
    called = estimator.predict(X, at=point)
    assert np.mean(called[Y == 0] == rare) == point.fpr <= 0.1
    assert np.mean(called[Y == 1] == rare) == point.tpr > 0.3


@pytest.mark.parametrize("rare", [0, 1])
def test_a_prior_shifts_log_odds_by_the_closed_form(rare):
    estimator = cw.LCTClassifier(**FAST).fit(X, Y if rare == 1 else 1 - Y)
    before = estimator.decision_function(X)
    after = estimator.set_params(prior=0.3).decision_function(X)
    sign, by_class = (1, [0.7, 0.3]) if rare == 1 else (-1, [0.3, 0.7])
    np.testing.assert_allclose(after - before, sign * (logit(0.3) - logit(Y.mean())), rtol=1e-9)
    np.testing.assert_allclose(estimator.set_params(prior=by_class).decision_function(X), after)
    own = estimator.set_params(prior=Y.mean()).decision_function(X)
    np.testing.assert_allclose(own, before, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_recalibration_without_a_penalty_is_logistic_regression(monkeypatch, weighted, classes):
    monkeypatch.setattr(ensemble, "STRENGTH", 1e-9)
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(800, classes)) * 2
    codes = np.array([rng.choice(classes, p=row) for row in np.exp(log_softmax(truth, axis=1))])
    scores = 0.5 * truth + np.arange(classes)  # too flat, and shifted
    weight = rng.uniform(0.2, 3, 800) if weighted else None
    slope, offset = fit_recalibration(scores, codes, weight)
    # One slope for all classes: a regression on differences to class 0, which is binary for two.
    if classes == 2:
        peer = LogisticRegression(C=1e9, tol=1e-10)
        peer.fit(scores[:, 1:] - scores[:, :1], codes, sample_weight=weight)
        assert slope == pytest.approx(peer.coef_[0, 0], rel=1e-3)
        assert offset[1] - offset[0] == pytest.approx(peer.intercept_[0], abs=1e-3)
    else:  # the scores' weighted likelihood has no slope left at its top
        errors = np.exp(log_softmax(slope * scores + offset, axis=1)) - np.eye(3)[codes]
        share = np.ones(800) if weight is None else weight
        assert abs((share[:, None] * errors * scores).sum()) < 0.05
        np.testing.assert_allclose((share[:, None] * errors).sum(0), 0, atol=0.05)
        assert slope == pytest.approx(2, rel=0.15)


def test_recalibration_keeps_the_order_and_believes_few_rows_little():
    against = np.stack([np.zeros(200), np.random.default_rng(2).normal(size=200)], axis=1)
    codes = (against[:, 1] < 0).astype(int)  # the scores say the opposite
    slope, offset = fit_recalibration(against, codes)
    assert slope == ensemble.LEAST_SLOPE
    odds = against[:, 1] - against[:, 0]
    after = slope * against + offset
    assert np.array_equal(np.argsort(after[:, 1] - after[:, 0]), np.argsort(odds))
    few, _ = fit_recalibration(np.array([[0.0, 1.0], [0.0, -1.0]]), np.array([0, 1]))
    assert 0.85 < few < 1
    codes = np.array([0, 0, 0, 1, 0])
    only_zeros = np.where(codes[:, None] == 1, np.nan, [0.0, 1.0])  # the one 1 was not left out
    for held in (np.full((5, 2), np.nan), only_zeros):
        slope, offset = fit_recalibration(held, codes)
        assert slope == 1
        assert not offset.any()


def simulated(n, seed):
    """A logistic model of two features with 3 % of the rare class."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    odds = 1.5 * x[:, 0] - 1.0 * x[:, 1] - 4.9
    return x, odds, (rng.random(n) < expit(odds)).astype(int)


@pytest.mark.parametrize(
    "estimator",
    [
        cw.LCTClassifier(6, hidden=(16,), trees=50, steps=250, random_state=0),
        cw.LCTClassifier(6, hidden=(16,), trees=50, steps=250, batch_size=8, random_state=0),
        cw.VSClassifier(0.7, 0.1, 1.0, n_members=6, hidden=(16,), steps=250, random_state=0),
    ],
    ids=["lct", "every eighth row rare", "vs"],
)
def test_probabilities_are_those_of_the_simulated_model(estimator):
    """Loss, oversampling and snapshots are corrected for, with and without the last touch.

    With 4,000 rows there are about 120 rare ones, so the base rate itself is known to a standard
    error of 9 %: the mean probability must be within 20 % of it. The slope of log-odds on 20,000
    test rows, of which 600 are rare, has a standard error of .04 by itself, and that of a fit
    to 120 rare rows about .1: it must be within .25 of 1. Batches of 8 with one rare row each
    show that class four times too often, which would move log-odds by log 4 = 1.4.
    """
    x, _, y = simulated(4000, 1)
    x_test, odds, y_test = simulated(20_000, 2)
    assert 0.025 < y.mean() < 0.035
    estimator.fit(x, y)
    if estimator.batch_size:
        assert max(estimator.ensemble_.members[0].oversampling) > 3.5
    found = estimator.decision_function(x_test)
    assert expit(found).mean() == pytest.approx(y_test.mean(), rel=0.2)
    slope = LogisticRegression(C=1e9).fit(found[:, None], y_test).coef_[0, 0]
    assert slope == pytest.approx(1, abs=0.25)
    assert roc_auc_score(y_test, found) > roc_auc_score(y_test, odds) - 0.02
    # Before the last touch the closed form alone has the base rate, if not the slope.
    raw = estimator.ensemble_.scores(estimator.inputs_.blocks(x_test))
    assert expit(raw[:, 1] - raw[:, 0]).mean() == pytest.approx(y_test.mean(), rel=0.4)


def test_many_classes():
    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.5, random_state=0, stratify=y)
    kept = cw.subsample_long_tail(y, 10, seed=0)
    estimator = cw.LCTClassifier(3, hidden=(32,), steps=150, random_state=0).fit(x[kept], y[kept])
    probability = estimator.predict_proba(x_test)
    np.testing.assert_allclose(probability.sum(1), 1, rtol=1e-12)
    assert roc_auc_score(y_test, probability, multi_class="ovr") > 0.97
    assert np.mean(estimator.predict(x_test) == y_test) > 0.8
    odds = estimator.decision_function(x_test)
    np.testing.assert_allclose(expit(odds), probability, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(np.exp(estimator.predict_log_proba(x_test)), probability, rtol=1e-9)
    rarest = np.argmin(np.bincount(y[kept]))
    assert roc_auc_score(y_test == rarest, estimator.score_samples(x_test)) > 0.95
    with pytest.raises(InputError, match=r"prior must hold 10 probabilities .*, got 0\.5"):
        estimator.set_params(prior=0.5).predict_proba(x_test)
    even = estimator.set_params(prior=[0.1] * 10)
    shift = np.log(0.1) - np.log(np.bincount(y[kept]) / len(kept))
    expected = log_softmax(np.log(probability) + shift, axis=1)
    np.testing.assert_allclose(even.predict_log_proba(x_test), expected, atol=1e-6)
    with pytest.raises(InputError, match="rare_log_odds needs two classes, got 10"):
        estimator.rare_log_odds(x_test)
