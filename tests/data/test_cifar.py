"""CIFAR-10 and CIFAR-100 from folders and archives; no pickle in them does anything."""

import os
import pickle
import random
import tarfile

import numpy as np
import pytest
from image_samples import cifar_batch, write_cifar10, write_cifar100

from curvewise.base.errors import InputError
from curvewise.data.cifar import ByteArray, ByteType, cifar10, cifar100, load_batch
from curvewise.data.task import SourceOptions


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> SourceOptions:
    """Five batches with two images of each class, one test image a class."""
    base = tmp_path_factory.mktemp("small")
    write_cifar10(base, list(range(10)) * 2, list(range(10)))
    return SourceOptions(data_dir=base)


def test_first_class_is_0_and_pixels_are_channels_first(small):
    task = cifar10("3/dog", small)
    assert (task.name, task.class_names) == ("cifar10:cat/dog", ("cat", "dog"))
    assert task.class_counts == (10, 10)
    assert (task.x_train.shape, task.x_train.dtype) == ((20, 3, 32, 32), np.uint8)
    labels = np.array([3, 5])
    np.testing.assert_array_equal(task.x_train[:, 0, 0, 0], labels[task.y_train])
    np.testing.assert_array_equal(task.x_test[:, 0, 0, 0], labels[task.y_test])
    # The first image of a file's 3072 values: red rows, then green, then blue.
    values = cifar_batch(range(10))[b"data"][3]
    assert task.x_train[0, 2, 4, 7] == values[2 * 1024 + 4 * 32 + 7]
    assert task.details["mean"] == [0.4914, 0.4822, 0.4465]
    assert task.details["std"] == [0.2470, 0.2435, 0.2616]
    assert task.details["deviations"][0].endswith("10 samples of cat, the complete source 5,000")
    groups = cifar10("animal/vehicle", small)
    assert groups.class_counts == (60, 40)
    vehicles = np.isin(groups.x_train[:, 0, 0, 0], (0, 1, 8, 9))
    np.testing.assert_array_equal(groups.y_train, vehicles)


def test_archive_gives_the_same_as_the_folder(small, tmp_path):
    place = tmp_path / "cifar-10-python.tar.gz"
    packed = SourceOptions(data_dir=tmp_path)
    with tarfile.open(place, "w:gz"):
        pass
    with pytest.raises(InputError, match=r"tar.gz must hold cifar-10-batches-py/data_batch_1"):
        cifar10("cat/dog", packed)
    with tarfile.open(place, "w:gz") as archive:
        folder = small.data_folder / "cifar-10-batches-py"
        for path in sorted(folder.iterdir(), reverse=True):  # as in the original, out of order
            archive.add(path, f"cifar-10-batches-py/{path.name}")
    assert cifar10("cat/dog", packed).fingerprint == cifar10("cat/dog", small).fingerprint
    place.write_bytes(place.read_bytes()[: place.stat().st_size // 2])
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz must be complete"):
        cifar10("cat/dog", packed)


def test_household_is_furniture_against_electronics(tmp_path):
    write_cifar100(tmp_path, list(range(10)) * 500, list(range(10)) * 100)
    task = cifar100("household", SourceOptions(data_dir=tmp_path))
    assert (task.name, task.class_names) == ("cifar100:household", ("furniture", "electronics"))
    np.testing.assert_array_equal(task.y_train, task.x_train[:, 0, 0, 0] >= 5)
    about = {"mean": [0.5071, 0.4865, 0.4409], "std": [0.2673, 0.2564, 0.2762], "deviations": []}
    assert {name: task.details[name] for name in about} == about


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({b"data": np.zeros((4, 3000), np.uint8)}, r"'data' as .* \(n, 3072\), got \(4, 3000\)"),
        ({b"data": [1, 2]}, "'data' .* got list"),
        ({b"labels": [3, 5]}, "'labels' as a list of 4 .*, got 2"),
        ({b"labels": 5}, "'labels' as a list of 4 .*, got 0"),
        ({b"labels": [3, 5, 3, "cat"]}, "from 0 to 9, got 'cat'"),
        (None, "cifar-10-batches-py must be complete, got .*data_batch_2"),
    ],
)
def test_wrong_content_is_refused(tmp_path, change, message):
    file = write_cifar10(tmp_path, [3, 5, 3, 5], [3, 5]) / "data_batch_2"
    file.unlink()
    if change is not None:
        file.write_bytes(pickle.dumps(cifar_batch([3, 5, 3, 5]) | change, protocol=4))
    with pytest.raises(InputError, match=f"(?=.*data_batch_2).*{message}"):
        cifar10("cat/dog", SourceOptions(data_dir=tmp_path))


DATA = np.arange(24, dtype=np.uint8).reshape(3, 8)
# Byte for byte as Python 2 wrote {"labels": [1, 0], "data": array([[5, 6]], uint8)}.
PYTHON_2 = (
    b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x01K\x00eU\x04dataq\x04"
    b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07"
    b"(K\x01K\x01K\x02\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\x09"
    b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x02\x05\x06tbu."
)


class Malicious:
    """Pickles as a call of `function`."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def test_arrays_lists_and_strings_come_back():
    content = {b"labels": [1, 2, 3], b"data": DATA, "filenames": [b"a.png", "b.png"]}
    batch = load_batch(pickle.dumps(content))
    assert (batch["labels"], batch["filenames"]) == ([1, 2, 3], ["a.png", "b.png"])
    assert batch["data"].dtype == np.uint8
    np.testing.assert_array_equal(batch["data"], DATA)
    assert pickle.loads(PYTHON_2, encoding="latin1")["data"].tolist() == [[5, 6]]
    batch = load_batch(PYTHON_2)
    assert (batch["labels"], batch["data"].tolist()) == ([1, 0], [[5, 6]])
    assert load_batch(b"\x80\x02}r\xff\xff\xff\xff.") == {}  # 4,294,967,295 sets no memory aside


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("wrap", [lambda item: item, lambda item: {b"data": DATA, b"x": [item]}])
def test_malicious_pickle_is_refused_and_nothing_runs(tmp_path, protocol, wrap):
    marker = tmp_path / "it-ran"
    attack = pickle.dumps(wrap(Malicious(os.system, f"echo > {marker}")), protocol=protocol)
    with pytest.raises(InputError, match=rf"asks for (numpy|{os.system.__module__}|_codecs)"):
        load_batch(attack)
    assert not marker.exists()
    pickle.loads(attack)  # the same bytes do harm elsewhere
    assert marker.exists()


def test_the_refused_name_is_given():
    for attack, named in (
        (b"cos\nsystem\n(S'exit 1'\ntR.", "os.system"),
        (b"cbuiltins\ngetattr\n.", "builtins.getattr"),
        (b"(S'exit 1'\nios\nsystem\n.", "os.system"),  # the opcode INST
        (b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.", "numpy.dtype.__init__"),
        (b"\x80\x04\x8c\x05numpy\x8c\x04load\x93.", "numpy.load"),
        (b"ccurvewise.data.cifar\nALLOWED\n.", "curvewise.data.cifar.ALLOWED"),
    ):
        with pytest.raises(InputError, match=f"^.* asks for {named}: do not trust this file$"):
            load_batch(attack)
    # What stands for numpy cannot be changed from inside either.
    before = dict(vars(ByteArray)), dict(vars(ByteType))
    for name in (b"cnumpy\nndarray\n", b"cnumpy\ndtype\n"):
        with pytest.raises(InputError):
            load_batch(b"\x80\x02" + name + b"}U\x05arrayK\x01sb.")
    assert (dict(vars(ByteArray)), dict(vars(ByteType))) == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_content_is_refused_and_damaged_bytes_give_an_error_or_a_dict():
    for content, message in (
        (pickle.dumps([1, 2]), "must hold a dict, got list"),
        (b"\x80\x05\x96" + (2**33).to_bytes(8, "little") + b".", "complete CIFAR pickle"),
        (pickle.dumps({"data": np.zeros((2, 2))}), "must be of type u1, got 'f8'"),
        (pickle.dumps({"data": np.asfortranarray(DATA)}), "row by row"),
        (PYTHON_2[:-5], "complete CIFAR pickle"),
        (PYTHON_2.replace(b"K\x02\x86", b"K\x03\x86"), "complete CIFAR pickle"),
        (b"<html>not found</html>", "complete CIFAR pickle"),
    ):
        with pytest.raises(InputError, match=message):
            load_batch(content)
    rng, refused = random.Random(0), 0
    for _ in range(2000):
        damaged = bytearray(PYTHON_2)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            assert isinstance(load_batch(bytes(damaged)), dict)
        except InputError:
            refused += 1
    assert refused > 1000
