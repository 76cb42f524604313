"""A worker's stack gives what training and scoring each run alone gives."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from curvewise.losses.registry import METHODS, evaluation_lambda, make_objective
from curvewise.networks.registry import build_network
from curvewise.sweep.plan import Problem, Stack, stacks
from curvewise.sweep.spec import Spec
from curvewise.sweep.work import condition_like, score_metrics, train_stack
from curvewise.training.loop import fit
from curvewise.training.model import logits_at
from curvewise.training.recipe import Recipe


def problem(kind: str = "features", validation: bool = False) -> Problem:
    rng = np.random.default_rng(3)
    y = (np.arange(160) % 8 == 0).astype(np.int64)
    x = rng.normal(size=(160, 5)).astype(np.float32) + y[:, None]
    if kind == "image":
        x = rng.integers(0, 256, (160, 1, 8, 8)).astype(np.uint8)
    kept = (x[:32], y[:32]) if validation else (None, None)
    return Problem(
        x, y, x[::-1].copy(), y[::-1].copy(), "abc", ("no", "yes"), kind,
        ((0.5,), (0.25,)) if kind == "image" else None, *kept,
    )  # fmt: skip


def planned(method: dict, **spec) -> list:
    given = {"tasks": ["digits:8"], "recipe": {"epochs": 2, "lr": 0.05}, "methods": [method]}
    return Spec.from_dict({**given, **spec}).runs()


def stacked(runs) -> Stack:
    return Stack(tuple(runs), tuple(f"run-{n}" for n in range(len(runs))), "abc")


CASES = {
    "vs": {"omega": [0.5, 0.9], "tau": [0, 2]},
    "lct": {"omega": [0.5, 0.9], "tau": ["0:3:0.33", "0:3:0"]},
    "constant-film": {"tau": [1, 2]},
    "unconditioned": {"tau": ["0:3:0.33", "0:3:0"]},
    "weighted-ce": {"lr": [0.1, 0.01]},
    "focal": {"lr": [0.1, 0.01]},
    "auc-margin": {"lr": [0.1, 0.01]},
    "ldam": {"scale": 5.0, "lr": [0.1, 0.01]},
    "ce": {"rho": 0.1, "lr": [0.1, 0.01]},
    "logit-adjustment": {"tau": [0.5, 1.0]},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_stack_scores_as_each_run_alone(method):
    data = problem()
    runs = planned({"method": method, **CASES[method]}, network={"name": "mlp", "hidden": [8]})
    assert len(stacks(runs, [48] * len(runs))) == 1
    results = train_stack(stacked(runs), data)
    assert [result.identity for result in results] == [f"run-{n}" for n in range(len(runs))]
    for run, result in zip(runs, results, strict=True):
        counts = np.bincount(data.y_train).tolist()
        objective = make_objective(run.method, run.settings, counts)
        recipe = Recipe(**run.recipe)
        network = build_network("mlp", in_shape=(5,), hidden=(8,), seed=recipe.seed_weights)
        network = condition_like(run.method, network)
        trained = fit(network, objective, data.x_train, data.y_train, recipe).network
        logits = logits_at(trained, data.x_test, evaluation_lambda(objective, run.evaluate))[0]
        expected = (logits[:, 1] - logits[:, 0]).numpy()
        assert result.state == "done"
        assert result.scores == pytest.approx(expected, abs=1e-4)
        assert result.metrics["auc"] == pytest.approx(
            roc_auc_score(data.y_test, result.scores), abs=1e-12
        )
    assert len({result.scores.tobytes() for result in results}) == len(runs)


def test_the_same_stack_gives_the_same_bits():
    runs = planned({"method": "lct", **CASES["lct"]})
    first, second = (train_stack(stacked(runs), problem()) for _ in range(2))
    assert [a.scores.tobytes() for a in first] == [b.scores.tobytes() for b in second]


def test_images_without_a_network_get_the_small_cnn():
    runs = planned({"method": "vs"})
    (result,) = train_stack(stacked(runs), problem("image"))
    assert result.scores.shape == (160,)
    assert np.isfinite(result.scores).all()


def test_validation_is_scored_too():
    data = problem(validation=True)
    (result,) = train_stack(stacked(planned({"method": "vs"})), data)
    assert result.validation_scores.shape == (32,)
    assert result.metrics["validation_auc"] == pytest.approx(
        roc_auc_score(data.y_validation, result.validation_scores)
    )


def test_a_diverged_member_says_so_and_has_no_scores():
    runs = planned({"method": "vs", "lr": [0.01, 1e30]}, recipe={"epochs": 4})
    calm, wild = train_stack(stacked(runs), problem())
    assert calm.state == "done"
    assert wild.state == "diverged"
    assert wild.scores is None
    assert "the loss is" in wild.message or "not finite" in wild.message


def test_metrics_against_plain_counting():
    rng = np.random.default_rng(5)
    y, score = rng.integers(0, 2, 300), rng.normal(size=300)
    metrics = score_metrics(y, score)
    called = score >= 0
    assert metrics["tpr"] == called[y == 1].mean()
    assert metrics["fpr"] == called[y == 0].mean()
    assert metrics["accuracy"] == pytest.approx((called == y).mean())
    assert metrics["auc"] == pytest.approx(roc_auc_score(y, score))
    assert metrics["average_precision"] == pytest.approx(average_precision_score(y, score))
    allowed = [t for t in score if (score[y == 0] >= t).mean() <= 0.1]
    best = max((score[y == 1] >= t).mean() for t in allowed)
    assert metrics["tpr_at_fpr_0.1"] == pytest.approx(best, abs=0.02)
