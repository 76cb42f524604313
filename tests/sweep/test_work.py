"""What runs are trained on (thinned, split and scaled by the training part alone), and a stack."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.decomposition import PCA
from sklearn.metrics import average_precision_score, roc_auc_score

from curvewise.base.errors import InputError
from curvewise.data.feature_bank import FeatureBank
from curvewise.data.registry import load_task
from curvewise.losses.registry import METHODS, evaluation_lambda, make_objective
from curvewise.networks.registry import build_network
from curvewise.sweep.executors import Serial
from curvewise.sweep.plan import Problem, Stack, make_plan, stacks
from curvewise.sweep.run import run_sweep
from curvewise.sweep.spec import Spec
from curvewise.sweep.store import Store
from curvewise.sweep.work import Problems, as_features, condition_like, score_metrics, train_stack
from curvewise.training.loop import fit
from curvewise.training.model import logits_at
from curvewise.training.recipe import Recipe


def run_of(**given):
    base = {"tasks": ["digits:8"], "betas": [20], "seeds": [3], "methods": [{"method": "vs"}]}
    return Spec.from_dict({**base, **given}).runs()[0]


def test_a_problem_is_its_task_standardised_and_a_part_may_be_kept_for_validation():
    problem, split = (Problems().load(run_of(validation=share)) for share in (None, 0.25))
    task = load_task("digits:8", beta=20, seed=3)
    assert problem.y_train.tolist() == task.y_train.tolist()
    assert split.y_test.tolist() == problem.y_test.tolist() == task.y_test.tolist()
    mean, std = task.x_train.mean(0), task.x_train.std(0)
    moving = std > 1e-6
    expected = (task.x_test[:, moving] - mean[moving]) / std[moving]
    assert problem.x_test[:, moving] == pytest.approx(expected, abs=1e-4)
    assert (problem.x_train[:, ~moving] == 0).all()
    assert problem.x_train.dtype == np.float32
    n = len(problem.y_train)
    assert len(split.y_train) + len(split.y_validation) == n
    assert len(split.y_validation) == pytest.approx(0.25 * n, abs=2)
    assert {0, 1} == set(split.y_validation.tolist())


def test_principal_components_are_the_training_parts():
    problem = Problems().load(run_of(features={"pca": 10}))
    task = load_task("digits:8", beta=20, seed=3)
    found = PCA(10).fit(task.x_train.astype(np.float64))
    expected = np.abs(found.transform(task.x_test) / np.sqrt(found.explained_variance_.mean()))
    assert np.abs(problem.x_test) == pytest.approx(expected, abs=1e-4)
    assert problem.x_train.var(axis=0, ddof=1).mean() == pytest.approx(1, abs=1e-4)
    with pytest.raises(InputError, match="pca must be at most 4 here, got 5"):
        as_features([np.zeros((9, 4)), np.zeros((3, 4))], pca=5)


def test_images_for_an_mlp_are_pixels_in_a_row():
    images = np.random.default_rng(0).integers(0, 256, (20, 1, 4, 4)).astype(np.uint8)
    train, test = as_features([images, images[:5]], pca=None)
    assert train.shape == (20, 16)
    assert train.mean(axis=0) == pytest.approx(np.zeros(16), abs=1e-5)
    assert test == pytest.approx(train[:5])


def test_the_fingerprint_tells_problems_apart():
    problems = Problems()
    changes = [{}, {"seeds": [4]}, {"betas": [10]}, {"tasks": ["digits:3"]}, {"validation": 0.2}]
    changes += [{"features": {"pca": 8}}, {"features": {"pca": 9}}]
    runs = [run_of(**change) for change in changes]
    prints = [problems.describe(run).fingerprint for run in runs]
    assert len(set(prints)) == len(prints)
    assert prints == [Problems().describe(run).fingerprint for run in runs]
    assert [problems.load(run).fingerprint for run in runs] == prints
    other = replace(runs[0], method="ce", number=9)
    assert problems.describe(other).fingerprint == prints[0]


def embedding_run(file, beta=4, **features):
    features = {"embed": "efficientnet-lite0", **features}
    return run_of(tasks=[f"npz:{file}"], betas=[beta], seeds=[0], features=features)


@pytest.fixture
def pairs(tmp_path):
    """Return files of the three pairs of three classes, 16 images each to train and 4 to test."""
    images = np.random.default_rng(1).integers(0, 256, (3, 20, 3, 32, 32), dtype=np.uint8)
    files = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        train, test = ([images[c][part] for c in (a, b)] for part in (slice(16), slice(16, 20)))
        files.append(tmp_path / f"{a}{b}.npz")
        x = {"x_train": np.concatenate(train), "x_test": np.concatenate(test)}
        np.savez(files[-1], **x, y_train=np.repeat([0, 1], 16), y_test=np.repeat([0, 1], 4))
    return files


def test_features_of_a_backbone_are_made_once(tmp_path, pairs, monkeypatch):
    pytest.importorskip("efficientnet_lite_pytorch")
    sizes = []
    compute = FeatureBank._embedded
    monkeypatch.setattr(
        FeatureBank, "_embedded", lambda bank, x: (sizes.append(len(x)), compute(bank, x))[1]
    )
    problems = Problems(cache_dir=tmp_path / "cache")
    made = [problems.load(embedding_run(file)) for file in pairs]
    assert {(p.kind, p.x_train.shape[1], len(p.x_train)) for p in made} == {("features", 1280, 20)}
    # 0/1 takes 16 and 4 of the two classes; the pairs that follow take what was thinned away.
    assert sum(sizes[:2]) == 20 + 8
    assert sum(sizes) <= 60
    for file in pairs:
        problems.load(embedding_run(file, beta=1))
    assert sum(sizes) == 60
    monkeypatch.setattr("curvewise.data.feature_bank.build_network", None)  # would fail
    again = Problems(cache_dir=tmp_path / "cache").load(embedding_run(pairs[2]))
    assert again.x_train.tobytes() == made[2].x_train.tobytes()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["features-efficientnet-lite0"]


def test_features_of_resized_images_are_others(tmp_path, pairs):
    pytest.importorskip("efficientnet_lite_pytorch")
    problems = Problems(cache_dir=tmp_path / "cache")
    plain, resized = embedding_run(pairs[0]), embedding_run(pairs[0], size=48)
    assert plain.features == {"embed": "efficientnet-lite0"}
    assert problems.describe(plain).fingerprint != problems.describe(resized).fingerprint
    assert np.abs(problems.load(plain).x_test - problems.load(resized).x_test).mean() > 0.01


def test_a_backbone_without_weights_is_refused_before_any_work(pairs):
    run = embedding_run(pairs[0], embed="resnet32")
    with pytest.raises(InputError, match=r"backbone must be one of .*got 'resnet32'"):
        Problems().describe(run)


def spec_with(weights):
    return Spec.from_dict(
        {
            "tasks": ["digits:8"],
            "network": {"name": "mlp", "hidden": [6], "weights": str(weights)},
            # One step that moves nothing, so that the scores are those of the file's weights.
            "recipe": {"epochs": "none", "steps": 1, "lr": 1e-12},
            "methods": [{"method": "vs", "tau": [0.0, 1.0]}],
        }
    )


def save(path, seed, hidden=6):
    network = build_network("mlp", in_shape=(64,), hidden=(hidden,), seed=seed)
    save_file(network.state_dict(), path)
    return network


def test_models_start_from_the_weights_of_a_file(tmp_path):
    network = save(tmp_path / "start.safetensors", seed=5)
    spec, problems = spec_with(tmp_path / "start.safetensors"), Problems()
    save(tmp_path / "wide.safetensors", seed=0, hidden=7)
    with Store(tmp_path / "runs.db") as store:
        run_sweep(spec, store, Serial(), problems)
        found = [store.scores(record.identity) for record in store.runs("sweep", state="done")]
        assert run_sweep(spec_with(tmp_path / "wide.safetensors"), store, Serial(), problems).failed
        reasons = [record.message for record in store.runs(state="failed")]
    problem = problems.load(spec.runs()[0])
    with torch.no_grad():
        logits = network(torch.from_numpy(problem.x_test))
    expected = (logits[:, 1] - logits[:, 0]).numpy()
    assert len(found) == len(reasons) == 2
    for scores in found:
        np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert all("weights must fit MLP" in reason for reason in reasons)


def test_published_weights_have_their_own_normalization_and_pixels_in_a_row_none(pairs, tmp_path):
    images = {"tasks": [f"npz:{pairs[0]}"], "betas": [None]}
    problems = Problems(cache_dir=tmp_path)
    expected = {"resnext50-32x4d": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), "mlp": None}
    expected["resnet32"] = problems.load(run_of(**images)).normalization
    save(tmp_path / "start.safetensors", seed=5)
    for name, normalization in expected.items():
        network = {"name": name, "weights": str(tmp_path / "start.safetensors")}
        assert problems.load(run_of(**images, network=network)).normalization == normalization


def test_other_weights_under_the_same_name_are_another_run(tmp_path):
    path, identities = tmp_path / "start.safetensors", []
    with pytest.raises(InputError, match=r"there is no weights file .*start\.safetensors"):
        make_plan(spec_with(path).runs(), Problems().describe)
    for seed in (5, 6):
        save(path, seed)
        rows, _ = make_plan(spec_with(path).runs(), Problems().describe)
        identities.append({identity for _, identity, _ in rows})
    assert not identities[0] & identities[1]


def problem(kind: str = "features", validation: bool = False) -> Problem:
    rng = np.random.default_rng(3)
    y = (np.arange(160) % 8 == 0).astype(np.int64)
    x = rng.normal(size=(160, 5)).astype(np.float32) + y[:, None]
    if kind == "image":
        x = rng.integers(0, 256, (160, 1, 8, 8)).astype(np.uint8)
    kept = (x[:32], y[:32]) if validation else (None, None)
    scale, names = ((0.5,), (0.25,)) if kind == "image" else None, ("no", "yes")
    return Problem(x, y, x[::-1].copy(), y[::-1].copy(), "abc", names, kind, scale, *kept)


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
    "glmc": {"lr": [0.1, 0.01], "power": 0.5},
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
        area = roc_auc_score(data.y_test, result.scores)
        assert result.metrics["auc"] == pytest.approx(area, abs=1e-12)
    assert len({result.scores.tobytes() for result in results}) == len(runs)


def test_images_without_a_network_get_the_small_cnn():
    (result,) = train_stack(stacked(planned({"method": "vs"})), problem("image"))
    assert result.scores.shape == (160,)
    assert np.isfinite(result.scores).all()


def test_validation_is_scored_too():
    data = problem(validation=True)
    (result,) = train_stack(stacked(planned({"method": "vs"})), data)
    assert result.validation_scores == pytest.approx(result.scores[::-1][:32], abs=1e-5)
    area = roc_auc_score(data.y_validation, result.validation_scores)
    assert result.metrics["validation_auc"] == pytest.approx(area)


def test_a_diverged_member_says_so_and_has_no_scores():
    runs = planned({"method": "vs", "lr": [0.01, 1e30]}, recipe={"epochs": 4})
    calm, wild = train_stack(stacked(runs), problem())
    assert (calm.state, wild.state, wild.scores) == ("done", "diverged", None)
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
