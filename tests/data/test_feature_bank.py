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
    monkeypatch.setattr(feature_bank, "build_network", None)  # nothing is left to compute
    again = FeatureBank(tmp_path / "piecemeal", size=size).features(images, name="all")
    assert again.tobytes() == found.tobytes()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 11), min_size=1, max_size=20), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_every_image_is_computed_once(tmp_path_factory, calls):
    folder, pool, network = tmp_path_factory.mktemp("bank"), pictures(12), Pixels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_bank, "build_network", lambda name, in_shape: network)
        patch.setattr(feature_bank, "CHUNK", 5)
        bank = FeatureBank(folder)
        for rows, anew in calls:
            bank = FeatureBank(folder) if anew else bank
            seen = []
            found = bank.features(
                pool[rows], name="x", progress=lambda *call, seen=seen: seen.append(call)
            )
            np.testing.assert_allclose(found, normalised(pool[rows]), atol=1e-5)
            assert seen[-1] == ("embedding x", len(rows), len(rows))
            assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
    assert sum(network.batches) == len({row for rows, _ in calls for row in rows})


def test_batches_and_chunks_are_bounded(tmp_path, backbone):
    bank = FeatureBank(tmp_path)
    bank.features(pictures(300), name="x")
    assert backbone.batches == [64, 64, 64, 64, 44]
    assert backbone.sizes == {64}
    files = chunks(tmp_path)
    assert sorted(len(np.load(file, allow_pickle=False)) for file in files) == [44, 256]
    assert {file.parent for file in files} == {bank.folder}
    assert set(bank.folder.iterdir()) == set(files)


def test_memory_maps_are_read_as_arrays_are(tmp_path, backbone):
    images = pictures(20)
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")[3:]
    found = FeatureBank(tmp_path / "bank").features(mapped, name="x")
    np.testing.assert_allclose(found, normalised(images[3:]), atol=1e-5)
    backbone.batches.clear()
    FeatureBank(tmp_path / "bank").features(images[3:], name="x")
    assert backbone.batches == []


def test_equal_bytes_of_another_shape_are_another_image(tmp_path, backbone):
    images = pictures(3, side=4)
    wide = images.reshape(3, 3, 2, 8)
    bank = FeatureBank(tmp_path, size=8)
    first, second = bank.features(images, name="x"), bank.features(wide, name="x")
    assert sum(backbone.batches) == 6
    assert np.abs(first - second).max() > 0.1


@pytest.mark.parametrize(("height", "width"), [(40, 24), (5, 9), (40, 9), (16, 16)])
def test_resizing_is_bilinear_and_antialiased_where_it_shrinks(tmp_path, backbone, height, width):
    images = np.random.default_rng(2).integers(0, 256, (4, 3, height, width), dtype=np.uint8)
    found = FeatureBank(tmp_path, size=16).features(images, name="x")
    resized = [
        [
            np.asarray(
                Image.fromarray(plane.astype(np.float32)).resize(
                    (16, 16), Image.Resampling.BILINEAR
                )
            )
            for plane in image
        ]
        for image in images
    ]
    np.testing.assert_allclose(found, normalised(np.array(resized)), atol=1e-4)


def test_sizes_have_folders_of_their_own(tmp_path, backbone):
    images = pictures(3, side=16)
    shapes = [FeatureBank(tmp_path, size=s).features(images, name="x").shape for s in (None, 8, 12)]
    assert shapes == [(3, 3 * side * side) for side in (16, 8, 12)]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"features-efficientnet-lite0{end}" for end in ("", "-8", "-12")}


def test_a_killed_call_goes_on_where_it_was(tmp_path, backbone, monkeypatch):
    monkeypatch.setattr(feature_bank, "CHUNK", 64)
    images = pictures(200)
    backbone.fails_at = 2
    with pytest.raises(KeyboardInterrupt):
        FeatureBank(tmp_path).features(images, name="x")
    assert len(chunks(tmp_path)) == 2
    backbone.fails_at = None
    backbone.batches.clear()
    seen = []
    found = FeatureBank(tmp_path).features(
        images, name="x", progress=lambda *call: seen.append(call)
    )
    assert backbone.batches == [64, 8]
    assert [done for _, done, _ in seen] == [64, 128, 192, 200]
    np.testing.assert_allclose(found, normalised(images), atol=1e-5)


def shortened(content):
    return content[: len(content) // 2]


def flipped(content):
    return content[:-1] + bytes([content[-1] ^ 1])


def other_key(content):
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 128]) + content[at + 1 :]


@pytest.mark.parametrize(
    "damage", [shortened, flipped, other_key, lambda content: b"", lambda content: b"PK\x03\x04"]
)
@pytest.mark.parametrize("fresh", [True, False])
def test_damaged_chunks_are_told_and_computed_again(tmp_path, backbone, monkeypatch, damage, fresh):
    monkeypatch.setattr(feature_bank, "CHUNK", 8)
    images, bank = pictures(24), FeatureBank(tmp_path)
    bank.features(images, name="x")
    victim = chunks(tmp_path)[1]
    victim.write_bytes(damage(victim.read_bytes()))
    backbone.batches.clear()
    bank = FeatureBank(tmp_path) if fresh else bank
    order = np.random.default_rng(0).permutation(24)
    with pytest.warns(UserWarning, match=f"{victim.name} is damaged; its features are computed"):
        found = bank.features(images[order], name="x")
    np.testing.assert_allclose(found, normalised(images[order]), atol=1e-5)
    assert backbone.batches == [8]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureBank(tmp_path).features(images, name="x")
    assert backbone.batches == [8]


def test_what_is_no_chunk_is_left_alone(tmp_path, backbone):
    bank, images = FeatureBank(tmp_path), pictures(5)
    bank.features(images, name="x")
    others = [bank.folder / f".unfinished-{'0' * 32}", bank.folder / "notes.npy"]
    for file in others:
        file.write_bytes(b"half")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureBank(tmp_path).features(images, name="x")
    assert sum(backbone.batches) == 5
    assert [file.read_bytes() for file in others] == [b"half", b"half"]


def test_two_banks_in_one_folder_at_once(tmp_path, backbone, monkeypatch):
    monkeypatch.setattr(feature_bank, "CHUNK", 8)
    images = pictures(64)
    orders = [np.random.default_rng(seed).permutation(64) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda o: FeatureBank(tmp_path).features(images[o], name="x"), orders)
        )
    for order, features in zip(orders, found, strict=True):
        np.testing.assert_allclose(features, normalised(images[order]), atol=1e-5)
    backbone.batches.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureBank(tmp_path).features(images, name="x")
    assert backbone.batches == []
    assert not list(tmp_path.rglob(".unfinished-*"))


def test_what_another_bank_has_computed_meanwhile_is_taken(tmp_path, backbone):
    first, second, images = FeatureBank(tmp_path), FeatureBank(tmp_path), pictures(20)
    first.features(images[:10], name="x")
    second.features(images[10:], name="x")
    first.features(images, name="x")
    assert sum(backbone.batches) == 20


def test_cleaning_removes_a_bank_and_it_fills_again(tmp_path, backbone):
    images, banks = pictures(5), [FeatureBank(tmp_path), FeatureBank(tmp_path, size=8)]
    for bank in banks:
        bank.features(images, name="x")
    (banks[0].folder / f".unfinished-{'0' * 32}").write_bytes(b"half")
    caches = find_caches(tmp_path)
    assert [cache.path for cache in caches] == [bank.folder for bank in banks]
    assert {cache.state for cache in caches} == {"whole"}
    size = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert remove_caches(caches) == size
    assert list(tmp_path.iterdir()) == []
    found = banks[0].features(images, name="x")
    np.testing.assert_allclose(found, normalised(images), atol=1e-5)
    assert len(chunks(tmp_path)) == 1


@pytest.mark.parametrize("size", [7, -8, 96.0, True, "96"])
def test_a_size_is_a_whole_number(tmp_path, size):
    with pytest.raises(cw.InputError, match=r"size must be a whole number of at least 8, got"):
        FeatureBank(tmp_path, size=size)


@pytest.mark.parametrize("name", ["small-cnn", "resnext50-32x4d", "timm:resnet18", "x"])
def test_networks_without_weights_of_their_own_are_refused(tmp_path, name):
    with pytest.raises(cw.InputError, match=f"backbone must be one of .*got {name!r}"):
        FeatureBank(tmp_path, name)


def test_only_images_are_taken(tmp_path):
    for images in (np.zeros((2, 3, 8, 8)), pictures(2).reshape(2, 48), pictures(0)):
        with pytest.raises(cw.InputError, match=r"images must be uint8 of shape \(n, C, H, W\)"):
            FeatureBank(tmp_path).features(images, name="x")
    with pytest.raises(cw.InputError, match="embed needs images, got digits:8"):
        embed(cw.load_task("digits:8"), tmp_path / "x.npz")
    with pytest.raises(cw.InputError, match=r"must be an \.npz file"):
        embed(image_task(), tmp_path / "x.csv")


@needs_weights
def test_grey_images_are_refused(tmp_path):
    bank = FeatureBank(tmp_path)
    bank.features(pictures(1, side=32), name="x")
    with pytest.raises(cw.InputError, match="got 1 channels"):
        bank.features(pictures(1, side=32)[:, :1], name="x")


def image_task(n=20):
    x, y = pictures(n, side=32), (np.arange(n) % 4 == 0).astype(np.int64)
    return cw.Task("made", "image", x, y, x[:8], y[:8], ("cat", "dog"), groups=np.arange(n) // 2)


@needs_weights
def test_an_embedded_task_is_a_source_by_itself(tmp_path):
    task = image_task()
    found = cw.load_task(f"npz:{embed(task, tmp_path / 'features.npz')}")
    expected = FeatureBank(tmp_path / "bank").features(task.x_train, name="x")
    np.testing.assert_allclose(found.x_train, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(found.y_test, task.y_test)
    np.testing.assert_array_equal(found.groups, task.groups)
    assert found.class_names == ("cat", "dog")
    assert {path.name for path in tmp_path.iterdir()} == {"features.npz", "bank"}


def test_a_stopped_embedding_goes_on_where_it_was(tmp_path, backbone, monkeypatch):
    monkeypatch.setattr(feature_bank, "CHUNK", 8)
    out, task = tmp_path / "features.npz", image_task()

    def stop(what, done, total):
        if done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(task, out, progress=stop)
    assert not out.exists()
    kept = chunks(tmp_path / ".features.npz.parts")
    assert len(kept) == 2
    before = {file: file.stat().st_ino for file in kept}
    seen = []

    def watch(what, done, total):
        seen.append(done)
        for file, inode in before.items():
            assert file.stat().st_ino == inode  # neither removed nor written again

    embed(task, out, progress=watch)
    assert seen == [8, 16, 20, 8]
    first, second = np.load(out), np.load(embed(task, tmp_path / "other.npz"))
    for name in first.files:
        np.testing.assert_array_equal(first[name], second[name])


@needs_weights
def test_the_command_resizes_when_told_to(tmp_path):
    parts = ("x_train", "y_train", "x_test", "y_test")
    np.savez(tmp_path / "images.npz", **{name: getattr(image_task(), name) for name in parts})
    words = ("embed", f"npz:{tmp_path / 'images.npz'}", "--out")
    ended = command(*words, tmp_path / "large.npz", "--size", 48)
    assert ended.code == 0, ended.err
    large = np.load(tmp_path / "large.npz")["x_train"]
    again = embed(image_task(), tmp_path / "again.npz", size=48)
    np.testing.assert_array_equal(np.load(again)["x_train"], large)
    ended = command(*words, tmp_path / "x.npz", "--size", 4)
    assert ended.code == 2
    assert "size must be a whole number of at least 8, got 4" in ended.err
