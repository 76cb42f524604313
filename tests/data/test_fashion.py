"""Fashion-MNIST's idx files, generated and Debian's; pairs of classes by name, number and group."""

import gzip
import os

import numpy as np
import pytest
from image_samples import idx

from curvewise.base.errors import InputError
from curvewise.data import fashion
from curvewise.data.fashion import fashion_mnist, fashion_mnist_files, read_idx
from curvewise.data.pairs import pair_task, parse_pair
from curvewise.data.task import SourceOptions


def write(folder, packed: bool):
    """Three images of each class to train on and one to test; pixel (0, 0) is the class."""
    folder.mkdir(parents=True)
    for part, repeats in (("train", 3), ("t10k", 1)):
        labels = np.tile(np.arange(10, dtype=np.uint8), repeats)
        images = np.zeros((len(labels), 28, 28), np.uint8)
        images[:, 0, 0] = labels
        for stem, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = gzip.compress(idx(array)) if packed else idx(array)
            (folder / f"{part}-{stem}-ubyte{'.gz' * packed}").write_bytes(content)


@pytest.mark.parametrize(
    ("place", "packed"), [("", True), ("fashion-mnist", False), ("FashionMNIST/raw", True)]
)
def test_pairs_from_every_place(tmp_path, packed, place):
    write(tmp_path / "data" / place, packed)
    options = SourceOptions(data_dir=tmp_path / "data")
    task = fashion_mnist("t-shirt/6", options)
    assert (task.name, task.class_counts) == ("fashion-mnist:t-shirt/shirt", (3, 3))
    assert (task.x_train.shape, task.x_train.dtype) == ((6, 1, 28, 28), np.uint8)
    np.testing.assert_array_equal(task.x_train[:, 0, 0, 0], 6 * task.y_train)
    assert len(task.details["deviations"]) == 4
    assert (task.details["mean"], task.details["std"]) == ([0.286], [0.353])


def test_a_file_is_read_once_and_again_when_it_changes(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    write(folder, packed=True)
    options, read = SourceOptions(data_dir=folder), []
    whole = fashion.read_idx
    monkeypatch.setattr(fashion, "read_idx", lambda *a: read.append(a[0].name) or whole(*a))
    before = fashion_mnist("0/6", options)
    fashion_mnist("1/2", options)
    assert len(read) == 4
    before.x_train[:] = 9  # a task is a copy
    assert fashion_mnist("0/6", options).x_train.max(axis=(1, 2, 3)).tolist() == [0, 6] * 3
    images = np.full((30, 28, 28), 7, np.uint8)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    assert fashion_mnist("0/6", options).x_train.min() == 7
    assert read[4:] == ["train-images-idx3-ubyte.gz"]


def test_debians_folder_is_the_last_that_is_looked_into(tmp_path, monkeypatch):
    monkeypatch.setattr(fashion, "DEBIAN_FOLDER", tmp_path / "debian")
    options = SourceOptions(data_dir=tmp_path / "data")
    sentence = "data/fashion-mnist, .*debian: install .* dataset-fashion-mnist, or .*https://"
    with pytest.raises(InputError, match=sentence):
        fashion_mnist("0/6", options)
    write(tmp_path / "debian", packed=True)
    assert fashion_mnist("0/6", options).class_counts == (3, 3)


GOOD = idx(np.arange(6, dtype=np.uint8).reshape(1, 2, 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "got an empty file"),
        (b"\x00\x00\x08\x01" + GOOD[4:], "begins with 00000803, got 00000801"),
        (GOOD[:10], "bytes that its header announces"),
        (GOOD[:-1], "the 6 bytes that its header announces, got 5"),
        (GOOD + b"\x00", "the 6 bytes that its header announces, got 7"),
        (idx(np.zeros((0, 28, 28), np.uint8)), "the 0 bytes"),
        (GOOD[:4] + b"\xff" * 12 + b"abc", "header announces, got 3"),
        (gzip.compress(GOOD, mtime=0)[:-9], "be a complete file|got 1f8b"),
    ],
)
def test_idx_files_are_checked(tmp_path, content, message):
    path = tmp_path / "images"
    for pack in (bytes, gzip.compress):
        path.write_bytes(pack(GOOD))
        np.testing.assert_array_equal(read_idx(path, 3), np.arange(6).reshape(1, 2, 3))
        path.write_bytes(pack(content))
        with pytest.raises(InputError, match=f"^{path} must .*({message})"):
            read_idx(path, 3)


def test_images_and_labels_must_belong_together(tmp_path):
    write(tmp_path / "data", packed=False)
    (tmp_path / "data" / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(7, np.uint8)))
    with pytest.raises(InputError, match=r"28 x 28 images for the 7 labels .*\(30, 28, 28\)"):
        fashion_mnist("0/6", SourceOptions(data_dir=tmp_path / "data"))


def test_debian_package(tmp_path):
    options = SourceOptions(data_dir=tmp_path)
    try:
        fashion_mnist_files(options)
    except InputError:
        if not os.environ.get("CI"):
            pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    task = fashion_mnist("t-shirt/shirt", options)
    assert task.class_counts == (6000, 6000)
    assert np.bincount(task.y_test).tolist() == [1000, 1000]
    assert task.details["deviations"] == []


NAMES = ["airplane", "pine_tree", "cat", "dog"]
GROUPS = {"animal": ("cat", "dog"), "thing": ("airplane",)}


@pytest.mark.parametrize(
    ("argument", "pair"),
    [
        ("3/0", (("dog", (3,)), ("airplane", (0,)))),
        (" CAT/Pine-Tree", (("cat", (2,)), ("pine_tree", (1,)))),
        ("pine_tree/animal", (("pine_tree", (1,)), ("animal", (2, 3)))),
    ],
)
def test_pairs(argument, pair):
    assert parse_pair("s", argument, NAMES, GROUPS) == pair


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("", "needs a pair of classes as in s:airplane/pine_tree, got ''"),
        ("cat/dog/airplane", "needs a pair of classes"),
        ("2/cat", "must differ, both hold 'cat'"),
        ("cat/animal", "must differ, both hold 'cat'"),
        ("cat/4", "must be a number below 4 or one of 'animal', 'thing', .* got '4'"),
        ("cat/dogg", "got 'dogg'; did you mean 'dog'?"),
        ("cat/²", "got '²'"),
    ],
)
def test_bad_pairs(argument, message):
    with pytest.raises(InputError, match=message):
        parse_pair("s", argument, NAMES, GROUPS)


def test_rows_keep_their_order_and_counts_that_differ_are_told():
    labels = np.random.default_rng(0).integers(0, 4, 200)
    pair = ("dog", (3,)), ("others", (0, 1))
    rows = np.arange(200).reshape(200, 1, 1, 1)
    parts = [(rows[:90], labels[:90]), (rows[90:], labels[90:])]
    counts = np.bincount(labels)
    complete = (int(counts[3]), 30)
    task = pair_task("s", pair, parts, (rows, labels), complete=complete, details={"source": "s"})
    assert (task.name, task.class_names) == ("s:dog/others", ("dog", "others"))
    expected = [(i, int(label != 3)) for i, label in enumerate(labels) if label != 2]
    assert list(zip(task.x_train.ravel(), task.y_train, strict=True)) == expected
    assert list(zip(task.x_test.ravel(), task.y_test, strict=True)) == expected
    others = counts[0] + counts[1]
    assert task.details["deviations"] == [
        f"the {part} part holds {count} samples of {side}, the complete source {whole}"
        for part, count, side, whole in (
            ("training", others, "others", 2 * counts[3]),
            ("test", counts[3], "dog", 30),
            ("test", others, "others", 60),
        )
    ]
