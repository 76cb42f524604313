"""A bank of features: every image once, whatever kills or damages it; embedded tasks as files."""

import importlib.util
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from PIL import Image
from torch import nn

import curvewise as cw
from command_line import command
from curvewise.data import feature_bank
from curvewise.data.cache import find_caches, remove_caches
from curvewise.data.feature_bank import FeatureBank, embed
from curvewise.networks.registry import PACKAGES

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.5)
needs_weights = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in PACKAGES),
    reason="the extra [pretrained] is not installed",
)


class Pixels(nn.Module):
    """A backbone whose features are the pixels it was given.

    It notes the size of its batches, and how many different images they had.
    """

    def __init__(self):
        super().__init__()
        self.pretrained_cfg = {"mean": MEAN, "std": STD}
        self.sizes, self.batches = set(), []
        self.fails_at = None

    def features(self, x):
        if self.fails_at == len(self.batches):
            raise KeyboardInterrupt
        self.sizes.add(len(x))
        self.batches.append(len(torch.unique(x, dim=0)))
        return x.flatten(1)


@pytest.fixture
def backbone(monkeypatch):
    made = Pixels()
    monkeypatch.setattr(feature_bank, "build_network", lambda name, in_shape: made)
    return made


def pictures(n, side=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 3, side, side), dtype=np.uint8)


def normalised(images):
    mean, std = (np.array(part)[:, None, None] for part in (MEAN, STD))
    return ((images / 255 - mean) / std).reshape(len(images), -1)


def chunks(folder):
    return sorted(folder.rglob("chunk-*.npy"))


@needs_weights
@pytest.mark.parametrize("size", [None, 48])
def test_features_are_the_backbones_whatever_the_batches(tmp_path, monkeypatch, size):
    images = pictures(70, side=32)
    bank = FeatureBank(tmp_path / "piecemeal", size=size)
    for rows in ([69], [4, 3, 60], range(40, 59)):
        bank.features(images[rows], name="a few")
    found = bank.features(images, name="all")
    at_once = FeatureBank(tmp_path / "at once", size=size).features(images, name="all")
    np.testing.assert_allclose(found, at_once, rtol=0, atol=1e-5)
    network = cw.build_network("efficientnet-lite0", in_shape=(3, 32, 32)).eval()
    raw = torch.from_numpy(images).float()
    if size is not None:
        raw = nn.functional.interpolate(raw, (size, size), mode="bilinear")
    with torch.no_grad():
        expected = network.features((raw - 127) / 128).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * expected.max())
    assert found.dtype == np.float32
    with pytest.raises(cw.InputError, match=r"got uint8 of shape \(70, 1"):
        bank.features(images[:, :1], name="grey")
    monkeypatch.setattr(feature_bank, "build_network", None)  # nothing is left to compute
    again = FeatureBank(tmp_path / "piecemeal", size=size).features(images, name="all")
    assert again.tobytes() == found.tobytes()


some_rows = st.lists(st.integers(0, 11), min_size=1, max_size=20)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(some_rows, st.booleans()), min_size=1, max_size=4))
def test_every_image_is_computed_once(tmp_path_factory, calls):
    folder, pool, network = tmp_path_factory.mktemp("bank"), pictures(12), Pixels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_bank, "build_network", lambda name, in_shape: network)
        patch.setattr(feature_bank, "CHUNK", 5)
        bank = FeatureBank(folder)
        for rows, anew in calls:
            bank = FeatureBank(folder) if anew else bank
            steps = []
            found = bank.features(
                pool[rows], name="x", progress=lambda *step, steps=steps: steps.append(step)
            )
            np.testing.assert_allclose(found, normalised(pool[rows]), atol=1e-5)
            assert steps[-1] == ("embedding x", len(rows), len(rows))
            assert steps == sorted(set(steps))
    assert sum(network.batches) == len({row for rows, _ in calls for row in rows})


def test_batches_and_chunks_are_bounded_and_a_key_is_of_bytes_and_shape(tmp_path, backbone):
    bank = FeatureBank(tmp_path)
    bank.features(pictures(300), name="x")
    assert backbone.batches == [64, 64, 64, 64, 44]
    assert backbone.sizes == {64}
    files = list(bank.folder.iterdir())
    assert sorted(len(np.load(file, allow_pickle=False)) for file in files) == [44, 256]
    backbone.batches.clear()
    images, bank = pictures(20), FeatureBank(tmp_path / "bank", size=8)
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")[3:]
    found = bank.features(mapped, name="x")
    np.testing.assert_array_equal(bank.features(images[3:], name="x"), found)
    assert sum(backbone.batches) == 17
    wide = bank.features(images[3:6].reshape(3, 3, 2, 8), name="x")  # equal bytes
    assert sum(backbone.batches) == 20
    assert np.abs(found[:3] - wide).max() > 0.1


@pytest.mark.parametrize(("height", "width"), [(40, 24), (5, 9), (16, 16)])
def test_resizing_is_bilinear_and_antialiased_where_it_shrinks(tmp_path, backbone, height, width):
    images = np.random.default_rng(2).integers(0, 256, (4, 3, height, width), dtype=np.uint8)
    found = FeatureBank(tmp_path, size=16).features(images, name="x")
    planes = [Image.fromarray(plane) for plane in images.reshape(-1, height, width).astype("f4")]
    resized = [np.asarray(plane.resize((16, 16), Image.Resampling.BILINEAR)) for plane in planes]
    expected = normalised(np.array(resized).reshape(4, 3, 16, 16))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_damaged_chunks_are_told_and_computed_again(tmp_path, backbone, monkeypatch):
    monkeypatch.setattr(feature_bank, "CHUNK", 8)
    images, bank = pictures(24), FeatureBank(tmp_path)
    bank.features(images, name="x")
    order = np.random.default_rng(0).permutation(24)
    for damage in (
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: b"",
    ):
        victim = chunks(tmp_path)[1]
        victim.write_bytes(damage(victim.read_bytes()))
        backbone.batches.clear()
        with pytest.warns(UserWarning, match=f"{victim.name} is damaged; its features are comp"):
            found = bank.features(images[order], name="x")
        np.testing.assert_allclose(found, normalised(images[order]), atol=1e-5)
        assert backbone.batches == [8]
        assert all_there(tmp_path, images, backbone)


def all_there(folder, images, backbone):
    """Tell whether a new bank has all of the images, without a warning."""
    backbone.batches.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureBank(folder).features(images, name="x")
    return not backbone.batches


def test_two_banks_in_one_folder_at_once(tmp_path, backbone, monkeypatch):
    monkeypatch.setattr(feature_bank, "CHUNK", 8)
    images = pictures(64)
    orders = [np.random.default_rng(seed).permutation(64) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(FeatureBank(tmp_path).features, images[o], name="x") for o in orders]
    for order, call in zip(orders, calls, strict=True):
        np.testing.assert_allclose(call.result(), normalised(images[order]), atol=1e-5)
    assert all_there(tmp_path, images, backbone)
    assert not list(tmp_path.rglob(".unfinished-*"))


def test_what_is_no_chunk_is_left_alone_until_the_bank_is_cleaned_away(tmp_path, backbone):
    images, banks = pictures(5), [FeatureBank(tmp_path), FeatureBank(tmp_path, size=8)]
    shapes = [bank.features(images, name="x").shape for bank in banks]
    assert shapes == [(5, 3 * side * side) for side in (4, 8)]  # in folders of their own
    half = banks[0].folder / f".unfinished-{'0' * 32}"
    half.write_bytes(b"half")
    assert all_there(tmp_path, images, backbone)
    assert half.read_bytes() == b"half"
    (tmp_path / "features-thesis").mkdir()
    (tmp_path / "features-thesis" / "letter.txt").write_text("not a cache")
    caches = find_caches(tmp_path)
    assert [cache.path for cache in caches] == [bank.folder for bank in banks]
    assert {cache.state for cache in caches} == {"whole"}
    size = sum(file.stat().st_size for file in tmp_path.glob("features-eff*/*"))
    assert remove_caches(caches) == size
    assert not any(bank.folder.exists() for bank in banks)
    np.testing.assert_allclose(banks[0].features(images, name="x"), normalised(images), atol=1e-5)
    assert len(chunks(tmp_path)) == 1


def test_other_sizes_and_networks_and_what_is_no_image_are_refused(tmp_path):
    with pytest.raises(cw.InputError, match=r"size must be a whole number of at least 8, got 7"):
        FeatureBank(tmp_path, size=7)
    with pytest.raises(cw.InputError, match=r"backbone must be one of .*got 'small-cnn'"):
        FeatureBank(tmp_path, "small-cnn")
    for images in (np.zeros((2, 3, 8, 8)), pictures(2).reshape(2, 48), pictures(0)):
        with pytest.raises(cw.InputError, match=r"images must be uint8 of shape \(n, 3, H, W\)"):
            FeatureBank(tmp_path).features(images, name="x")
    with pytest.raises(cw.InputError, match="embed needs images, got digits:8"):
        embed(cw.load_task("digits:8"), tmp_path / "x.npz")
    with pytest.raises(cw.InputError, match=r"must be an \.npz file"):
        embed(image_task(), tmp_path / "x.csv")


def image_task(n=20):
    x, y = pictures(n, side=32), (np.arange(n) % 4 == 0).astype(np.int64)
    return cw.Task("made", "image", x, y, x[:8], y[:8], ("cat", "dog"), groups=np.arange(n) // 2)


@needs_weights
def test_the_command_makes_a_source_and_resizes_when_told_to(tmp_path):
    task = image_task()
    names = ("x_train", "y_train", "x_test", "y_test", "groups")
    np.savez(tmp_path / "images.npz", **{name: getattr(task, name) for name in names})
    words = ("embed", f"npz:{tmp_path / 'images.npz'}", "--out", tmp_path / "f.npz", "--size")
    ended = command(*words, 48)
    assert ended.code == 0, ended.err
    found = cw.load_task(f"npz:{tmp_path / 'f.npz'}")
    expected = FeatureBank(tmp_path / "bank", size=48).features(task.x_train, name="x")
    np.testing.assert_allclose(found.x_train, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(found.y_test, task.y_test)
    np.testing.assert_array_equal(found.groups, task.groups)
    assert {path.name for path in tmp_path.iterdir()} == {"images.npz", "f.npz", "bank"}
    ended = command(*words, 4)
    assert ended.code == 2
    assert "size must be a whole number of at least 8, got 4" in ended.err


def test_a_killed_embedding_goes_on_where_it_was(tmp_path, backbone, monkeypatch):
    monkeypatch.setattr(feature_bank, "CHUNK", 8)
    out, task, seen = tmp_path / "features.npz", image_task(), []
    backbone.fails_at = 2
    with pytest.raises(KeyboardInterrupt):
        embed(task, out)
    assert not out.exists()
    assert len(chunks(tmp_path / ".features.npz.parts")) == 2
    backbone.fails_at = None
    backbone.batches.clear()
    embed(task, out, progress=lambda *step: seen.append(step[1]))
    assert backbone.batches == [4]
    assert seen == [8, 16, 20, 8]
    assert list(tmp_path.iterdir()) == [out]
    found = np.load(out)
    assert found["class_names"].tolist() == ["cat", "dog"]
    np.testing.assert_allclose(found["x_train"], normalised(task.x_train), atol=1e-5)
    np.testing.assert_allclose(found["x_test"], normalised(task.x_test), atol=1e-5)
