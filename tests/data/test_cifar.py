"""CIFAR-10 and CIFAR-100 from folders and archives, real and generated."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
from image_samples import unpack, write_pickle

from curvewise.base.errors import InputError
from curvewise.data.cifar import cifar10, cifar100, missing_cifar10, missing_cifar100
from curvewise.data.options import SourceOptions

VEHICLES = (0, 1, 8, 9)
CLASSES = ["airplane", "automobile", "bird", "cat", "deer"]
CLASSES += ["dog", "frog", "horse", "ship", "truck"]
HOUSEHOLD = ["bed", "chair", "couch", "table", "wardrobe"]
HOUSEHOLD += ["clock", "keyboard", "lamp", "telephone", "television"]


def batch(labels, key, rng):
    """A file's content; the first pixel of an image is its label."""
    data = rng.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    data[:, 0] = labels
    return {b"data": data, key: list(map(int, labels)), b"batch_label": b"generated"}


def write_cifar10(folder: Path, train: list[list[int]], test: list[int]) -> None:
    rng = np.random.default_rng(0)
    for number, labels in enumerate(train, 1):
        write_pickle(folder / f"data_batch_{number}", batch(labels, b"labels", rng))
    write_pickle(folder / "test_batch", batch(test, b"labels", rng))
    write_pickle(folder / "batches.meta", {b"label_names": [name.encode() for name in CLASSES]})


def write_cifar100(folder: Path, names: list[str], train: list[int], test: list[int]) -> None:
    rng = np.random.default_rng(0)
    write_pickle(folder / "train", batch(train, b"fine_labels", rng))
    write_pickle(folder / "test", batch(test, b"fine_labels", rng))
    write_pickle(folder / "meta", {b"fine_label_names": [name.encode() for name in names]})


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> SourceOptions:
    """Five batches with two images of each class, one test image a class."""
    base = tmp_path_factory.mktemp("small")
    write_cifar10(base / "cifar-10-batches-py", [list(range(10)) * 2] * 5, list(range(10)))
    return SourceOptions(data_dir=base)


def test_first_class_is_0_and_pixels_are_channels_first(small):
    task = cifar10("cat/dog", small)
    assert task.class_names == ("cat", "dog")
    assert task.class_counts == (10, 10)
    assert task.x_train.shape == (20, 3, 32, 32)
    assert task.x_train.dtype == np.uint8
    labels = np.array([3, 5])
    np.testing.assert_array_equal(task.x_train[:, 0, 0, 0], labels[task.y_train])
    np.testing.assert_array_equal(task.x_test[:, 0, 0, 0], labels[task.y_test])
    # The first image of a file's 3072 values: red rows, then green, then blue.
    values = np.random.default_rng(0).integers(0, 256, (20, 3072), dtype=np.uint8)[3]
    assert task.x_train[0, 2, 4, 7] == values[2 * 1024 + 4 * 32 + 7]


def test_names_numbers_and_groups(small):
    assert cifar10("3/5", small).name == "cifar10:cat/dog"
    assert cifar10("3/5", small).fingerprint == cifar10("cat/dog", small).fingerprint
    swapped = cifar10("dog/cat", small)
    assert swapped.class_names == ("dog", "cat")
    np.testing.assert_array_equal(swapped.y_train, 1 - cifar10("cat/dog", small).y_train)
    groups = cifar10("animal/vehicle", small)
    assert groups.class_counts == (60, 40)
    vehicles = np.isin(groups.x_train[:, 0, 0, 0], VEHICLES)
    np.testing.assert_array_equal(groups.y_train, vehicles)


def test_details_tell_mean_std_and_what_is_not_complete(small):
    details = cifar10("cat/dog", small).details
    assert len(details["mean"]) == len(details["std"]) == 3
    assert len(details["deviations"]) == 4
    assert details["deviations"][0] == (
        "the training part holds 10 samples of cat, the complete source 5,000"
    )


def test_archive_gives_the_same_as_the_folder(small, tmp_path):
    folder = small.data_folder / "cifar-10-batches-py"
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        for path in sorted(folder.iterdir(), reverse=True):  # as in the original, out of order
            archive.add(path, f"cifar-10-batches-py/{path.name}")
    packed = SourceOptions(data_dir=tmp_path)
    assert missing_cifar10(packed) is None
    assert cifar10("cat/dog", packed).fingerprint == cifar10("cat/dog", small).fingerprint
    whole = (tmp_path / "cifar-10-python.tar.gz").read_bytes()
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz must be a complete tar.gz"):
        cifar10("cat/dog", packed)


def test_archive_without_a_file_is_refused(tmp_path):
    with tarfile.open(tmp_path / "cifar-100-python.tar.gz", "w:gz"):
        pass
    with pytest.raises(InputError, match="must hold cifar-100-python/train, found no such file"):
        cifar100("household", SourceOptions(data_dir=tmp_path))


def test_paper_sample_counts_of_a_cifar10_pair(tmp_path):
    train = [[3, 5] * 1000] * 5
    write_cifar10(tmp_path / "cifar-10-batches-py", train, [3, 5] * 1000)
    task = cifar10("cat/dog", SourceOptions(data_dir=tmp_path))
    assert task.details["deviations"] == []
    assert task.class_counts == (5000, 5000)
    for beta, minority in ((10, 500), (100, 50), (200, 25)):
        thinned = task.at_beta(beta, seed=0)
        assert thinned.class_counts == (5000, minority)
        assert np.bincount(thinned.y_test).tolist() == [1000, 1000]


def test_paper_sample_counts_of_household(tmp_path):
    train, test = list(range(10)) * 500, list(range(10)) * 100
    write_cifar100(tmp_path / "cifar-100-python", HOUSEHOLD, train, test)
    task = cifar100("household", SourceOptions(data_dir=tmp_path))
    assert task.name == "cifar100:household"
    assert task.class_names == ("furniture", "electronics")
    assert task.details["deviations"] == []
    np.testing.assert_array_equal(task.y_train, task.x_train[:, 0, 0, 0] >= 5)
    # The paper has 13 at beta = 200; 2,500 / 200 = 12.5 is rounded down here, as everywhere.
    for beta, minority in ((10, 250), (100, 25), (200, 12)):
        thinned = task.at_beta(beta, seed=0)
        assert thinned.class_counts == (2500, minority)
        assert np.bincount(thinned.y_test).tolist() == [500, 500]


def test_missing_data_name_the_places_and_the_source(tmp_path):
    options = SourceOptions(data_dir=tmp_path)
    for load, missing, stem in (
        (cifar10, missing_cifar10, "cifar-10"),
        (cifar100, missing_cifar100, "cifar-100"),
    ):
        sentence = missing(options)
        assert str(tmp_path / f"{stem}-python.tar.gz") in sentence
        assert "https://www.cs.toronto.edu/~kriz/cifar.html" in sentence
        with pytest.raises(InputError) as caught:
            load("cat/dog", options)
        assert str(caught.value) == sentence
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(InputError, match=r"cifar-10-batches-py.data_batch_1, which is not there"):
        cifar10("cat/dog", options)


def test_settings_without_effect_are_refused(small):
    with pytest.raises(InputError, match="cifar10 must be read without --image-size, got '64'"):
        cifar10("cat/dog", SourceOptions(data_dir=small.data_dir, image_size=64))
    with pytest.raises(InputError, match="without --positive, got 'dog'"):
        cifar10("cat/dog", SourceOptions(data_dir=small.data_dir, positive="dog"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({b"data": np.zeros((4, 3000), np.uint8)}, "3072 pixels an image, got 3000"),
        ({b"data": [1, 2]}, "'data' as a uint8 table, got list"),
        ({b"labels": [3, 5]}, "'labels' as a list of 4, got 2"),
        ({b"labels": None}, "'labels' as a list of 4, got NoneType"),
        ({b"labels": [3, 5, 3, 10]}, "must be 0 to 9, got 10"),
        ({b"labels": [3, 5, 3, "cat"]}, "must be 0 to 9, got 'cat'"),
    ],
)
def test_wrong_content_is_refused(tmp_path, change, message):
    folder = tmp_path / "cifar-10-batches-py"
    write_cifar10(folder, [[3, 5, 3, 5]] * 5, [3, 5])
    content = batch([3, 5, 3, 5], b"labels", np.random.default_rng(0)) | change
    write_pickle(folder / "data_batch_2", content)
    with pytest.raises(InputError, match=f"data_batch_2 of CIFAR-10 .*{message}|{message}"):
        cifar10("cat/dog", SourceOptions(data_dir=tmp_path))


def test_real_household(tmp_path_factory):
    options = SourceOptions(data_dir=unpack(tmp_path_factory, "cifar100"))
    task = cifar100("household", options)
    assert task.class_counts == (2500, 53)  # this copy lacks most electronics
    assert np.bincount(task.y_test).tolist() == [500, 50]
    assert any("53 samples of electronics" in text for text in task.details["deviations"])
    assert task.at_beta(100, seed=0).class_counts == (2500, 25)
    assert cifar100("bed/44", options).class_names == ("bed", "lizard")
    with pytest.raises(InputError, match="did you mean 'wardrobe'"):
        cifar100("wardrob/bed", options)


@pytest.mark.slow
def test_real_cifar10(tmp_path_factory):
    options = SourceOptions(data_dir=unpack(tmp_path_factory, "cifar10"))
    task = cifar10("animal/vehicle", options)
    assert task.class_counts == (30_000, 20_000)
    assert task.details["deviations"] == []
    pixels = task.x_train.transpose(1, 0, 2, 3).reshape(3, -1)
    # These are re-encoded as JPEG, which moves mean and spread a little.
    np.testing.assert_allclose(pixels.mean(1) / 255, task.details["mean"], atol=0.005)
    np.testing.assert_allclose(pixels.std(1) / 255, task.details["std"], atol=0.005)
    pair = cifar10("cat/dog", options)
    counts = [pair.at_beta(beta, seed=1).class_counts for beta in (10, 100, 200)]
    assert counts == [(5000, 500), (5000, 50), (5000, 25)]
