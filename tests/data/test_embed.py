"""Embedding images: features as the backbone gives them, a source by itself, resumable."""

import importlib.util

import numpy as np
import pytest
import torch

import curvewise as cw
from command_line import command
from curvewise.data import embed as embedding, feature_bank
from curvewise.networks.pretrained import PACKAGES

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
    monkeypatch.setattr(feature_bank, "CHUNK", 8)
    out = tmp_path / "features.npz"

    def stop(what, done, total):
        if done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embedding.embed(task(), out, progress=stop)
    assert not out.exists()
    kept = sorted((tmp_path / ".features.npz.parts").rglob("*.npy"))
    assert len(kept) == 2
    before = {file: file.stat().st_ino for file in kept}
    seen = []

    def watch(what, done, total):
        seen.append(done)
        for file, inode in before.items():
            assert file.stat().st_ino == inode  # neither removed nor written again

    embedding.embed(task(), out, progress=watch)
    assert seen == [8, 16, 20, 8]
    whole = embedding.embed(task(), tmp_path / "other.npz")
    first, second = np.load(out), np.load(whole)
    for name in first.files:
        np.testing.assert_array_equal(first[name], second[name])


def test_the_command_resizes_when_told_to(tmp_path):
    np.savez(
        tmp_path / "images.npz",
        **{name: getattr(task(), name) for name in ("x_train", "y_train", "x_test", "y_test")},
    )
    words = ("embed", f"npz:{tmp_path / 'images.npz'}", "--out")
    ended = command(*words, tmp_path / "large.npz", "--size", 64)
    assert ended.code == 0, ended.err
    assert command(*words, tmp_path / "small.npz").code == 0
    large, small = (np.load(tmp_path / f"{name}.npz")["x_train"] for name in ("large", "small"))
    again = embedding.embed(task(), tmp_path / "again.npz", size=64)
    np.testing.assert_array_equal(np.load(again)["x_train"], large)
    assert np.abs(large - small).mean() > 0.01
    ended = command(*words, tmp_path / "x.npz", "--size", 4)
    assert ended.code == 2
    assert "size must be a whole number >= 8, got 4" in ended.err


def test_only_images_and_networks_with_features_are_taken(tmp_path):
    with pytest.raises(cw.InputError, match="embed needs images, got digits:8"):
        embedding.embed(cw.load_task("digits:8"), tmp_path / "x.npz")
    with pytest.raises(cw.InputError, match=r"must be an \.npz file"):
        embedding.embed(task(), tmp_path / "x.csv")
    with pytest.raises(cw.InputError, match="small-cnn has no pretrained features"):
        embedding.embed(task(), tmp_path / "x.npz", backbone="small-cnn")
