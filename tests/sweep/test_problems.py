"""The problems of a sweep: thinned, split and scaled by the training part alone."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA

from curvewise.base.errors import InputError
from curvewise.data.feature_bank import FeatureBank
from curvewise.data.registry import load_task
from curvewise.sweep.spec import Spec
from curvewise.sweep.work import Problems, as_features


def run_of(**given):
    base = {"tasks": ["digits:8"], "betas": [20], "seeds": [3], "methods": [{"method": "vs"}]}
    return Spec.from_dict({**base, **given}).runs()[0]


def test_a_problem_is_its_task_standardised():
    problem = Problems().load(run_of())
    task = load_task("digits:8", beta=20, seed=3)
    assert problem.y_train.tolist() == task.y_train.tolist()
    assert problem.y_test.tolist() == task.y_test.tolist()
    mean, std = task.x_train.mean(0), task.x_train.std(0)
    moving = std > 1e-6
    expected = (task.x_test[:, moving] - mean[moving]) / std[moving]
    assert problem.x_test[:, moving] == pytest.approx(expected, abs=1e-4)
    assert (problem.x_train[:, ~moving] == 0).all()
    assert problem.x_train.dtype == np.float32


def test_principal_components_are_the_training_parts():
    problem = Problems().load(run_of(features={"pca": 10}))
    task = load_task("digits:8", beta=20, seed=3)
    found = PCA(10).fit(task.x_train.astype(np.float64))
    expected = np.abs(found.transform(task.x_test) / np.sqrt(found.explained_variance_.mean()))
    assert np.abs(problem.x_test) == pytest.approx(expected, abs=1e-4)
    assert problem.x_train.var(axis=0, ddof=1).mean() == pytest.approx(1, abs=1e-4)


def test_more_components_than_rows_or_columns():
    with pytest.raises(InputError, match="pca must be at most 4 here, got 5"):
        as_features([np.zeros((9, 4)), np.zeros((3, 4))], pca=5)


def test_images_for_an_mlp_are_pixels_in_a_row():
    images = np.random.default_rng(0).integers(0, 256, (20, 1, 4, 4)).astype(np.uint8)
    train, test = as_features([images, images[:5]], pca=None)
    assert train.shape == (20, 16)
    assert train.mean(axis=0) == pytest.approx(np.zeros(16), abs=1e-5)
    assert test == pytest.approx(train[:5])


def test_validation_is_a_part_of_the_training_part():
    problems = Problems()
    whole, split = problems.load(run_of()), problems.load(run_of(validation=0.25))
    assert split.y_test.tolist() == whole.y_test.tolist()
    n = len(whole.y_train)
    assert len(split.y_train) + len(split.y_validation) == n
    assert len(split.y_validation) == pytest.approx(0.25 * n, abs=2)
    assert {0, 1} == set(split.y_validation.tolist())


def test_the_fingerprint_tells_problems_apart():
    problems = Problems()
    runs = [
        run_of(),
        run_of(seeds=[4]),
        run_of(betas=[10]),
        run_of(tasks=["digits:3"]),
        run_of(features={"pca": 8}),
        run_of(features={"pca": 9}),
        run_of(validation=0.2),
    ]
    prints = [problems.describe(run).fingerprint for run in runs]
    assert len(set(prints)) == len(prints)
    assert prints == [Problems().describe(run).fingerprint for run in runs]
    assert [problems.load(run).fingerprint for run in runs] == prints
    other = replace(runs[0], method="ce", number=9)
    assert problems.describe(other).fingerprint == prints[0]


def embedding_run(file, beta=4, **features):
    return run_of(
        tasks=[f"npz:{file}"],
        betas=[beta],
        seeds=[0],
        features={"embed": "efficientnet-lite0", **features},
    )


@pytest.fixture
def pairs(tmp_path):
    """Return files of the three pairs of three classes, 16 images each to train and 4 to test."""
    images = np.random.default_rng(1).integers(0, 256, (3, 20, 3, 32, 32), dtype=np.uint8)
    files = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        train, test = ([images[c][part] for c in (a, b)] for part in (slice(16), slice(16, 20)))
        files.append(tmp_path / f"{a}{b}.npz")
        np.savez(
            files[-1],
            x_train=np.concatenate(train), y_train=np.repeat([0, 1], 16),
            x_test=np.concatenate(test), y_test=np.repeat([0, 1], 4),
        )  # fmt: skip
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
    run = run_of(tasks=[f"npz:{pairs[0]}"], betas=[4], features={"embed": "resnet32"})
    with pytest.raises(InputError, match=r"backbone must be one of .*got 'resnet32'"):
        Problems().describe(run)
