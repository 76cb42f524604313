"""Embedding images: features as the backbone gives them, a source by itself, resumable."""

import importlib.util

import numpy as np
import pytest
import torch

import curvewise as cw
from curvewise.apps import embed as embedding
from curvewise.networks.efficientnet import PACKAGES

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in PACKAGES),
    reason="the extra [pretrained] is not installed",
)


def task(n=20):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
    y = (np.arange(n) % 4 == 0).astype(np.int64)
    return cw.Task("made", "image", x, y, x[:8], y[:8], ("cat", "dog"), groups=np.arange(n) // 2)


def test_features_are_the_backbones_and_the_file_is_a_source(tmp_path):
    out = embedding.embed(task(), tmp_path / "features.npz")
    found = cw.load_task(f"npz:{out}")
    network = cw.build_network("efficientnet-lite0", in_shape=(3, 32, 32)).eval()
    with torch.no_grad():
        expected = network.features((torch.from_numpy(task().x_train).float() - 127) / 128)
    np.testing.assert_allclose(found.x_train, expected.numpy(), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(found.y_test, task().y_test)
    assert found.class_names == ("cat", "dog")
    assert [p.name for p in tmp_path.iterdir()] == ["features.npz"]


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "CHUNK", 8)
    out = tmp_path / "features.npz"

    def stop(what, done, total):
        if done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embedding.embed(task(), out, progress=stop)
    assert not out.exists()
    kept = sorted((tmp_path / ".features.npz.parts").glob("*.npy"))
    assert len(kept) == 2
    before = {file: file.stat().st_mtime_ns for file in kept}
    seen = []

    def watch(what, done, total):
        seen.append(done)
        for file, time in before.items():
            assert file.stat().st_mtime_ns == time

    embedding.embed(task(), out, progress=watch)
    assert seen == [8, 16, 20, 8]
    whole = embedding.embed(task(), tmp_path / "other.npz")
    first, second = np.load(out), np.load(whole)
    for name in first.files:
        np.testing.assert_array_equal(first[name], second[name])


def test_only_images_and_networks_with_features_are_taken(tmp_path):
    with pytest.raises(cw.InputError, match="embed needs images, got digits:8"):
        embedding.embed(cw.load_task("digits:8"), tmp_path / "x.npz")
    with pytest.raises(cw.InputError, match=r"must be an \.npz file"):
        embedding.embed(task(), tmp_path / "x.csv")
    with pytest.raises(cw.InputError, match="small-cnn has no pretrained features"):
        embedding.embed(task(), tmp_path / "x.npz", backbone="small-cnn")
