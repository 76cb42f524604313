"""CIFAR's pickles are read, and no other pickle does anything."""

import os
import pickle
import random

import numpy as np
import pytest

from curvewise.base.errors import InputError
from curvewise.data.unpickle import ByteArray, ByteType, load_batch

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


@pytest.mark.parametrize("protocol", [3, 4])
def test_arrays_lists_and_strings_come_back(protocol):
    content = {b"labels": [1, 2, 3], b"data": DATA, "filenames": [b"a.png", "b.png"]}
    batch = load_batch(pickle.dumps(content, protocol=protocol))
    assert batch["labels"] == [1, 2, 3]
    assert batch["filenames"] == ["a.png", "b.png"]
    assert batch["data"].dtype == np.uint8
    np.testing.assert_array_equal(batch["data"], DATA)


def test_python_2_pickle(tmp_path):
    assert pickle.loads(PYTHON_2, encoding="latin1")["data"].tolist() == [[5, 6]]
    path = tmp_path / "data_batch_1"
    path.write_bytes(PYTHON_2)
    batch = load_batch(path)
    assert batch["labels"] == [1, 0]
    assert batch["data"].tolist() == [[5, 6]]


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


@pytest.mark.parametrize(
    ("attack", "named"),
    [
        (b"cos\nsystem\n(S'exit 1'\ntR.", "os.system"),
        (b"c__builtin__\neval\n(S'1/0'\ntR.", "__builtin__.eval"),
        (b"cbuiltins\ngetattr\n.", "builtins.getattr"),
        (b"(S'exit 1'\nios\nsystem\n.", "os.system"),  # the opcode INST
        (b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.", "numpy.dtype.__init__"),
        (b"\x80\x04\x8c\x05numpy\x8c\x04load\x93.", "numpy.load"),
        (b"cnumpy.core.multiarray\nfromstring\n.", "numpy.core.multiarray.fromstring"),
        (b"ccurvewise.data.unpickle\nALLOWED\n.", "curvewise.data.unpickle.ALLOWED"),
    ],
)
def test_the_refused_name_is_given(attack, named):
    with pytest.raises(InputError, match=f"asks for {named}: do not trust") as caught:
        load_batch(attack)
    assert "\n" not in str(caught.value)


def test_what_stands_for_numpy_cannot_be_changed_from_inside():
    before = dict(vars(ByteArray)), dict(vars(ByteType))
    for name in (b"cnumpy\nndarray\n", b"cnumpy\ndtype\n"):
        with pytest.raises(InputError):
            load_batch(b"\x80\x02" + name + b"}U\x05arrayK\x01sb.")
    assert (dict(vars(ByteArray)), dict(vars(ByteType))) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps([1, 2]), "must hold a dict, got list"),
        (pickle.dumps({1: 2}), "with strings as keys"),
        (b"\x80\x05\x96" + (2**33).to_bytes(8, "little") + b".", "complete CIFAR pickle"),
        (pickle.dumps({"data": np.zeros((2, 2))}), "must be of type u1, got 'f8'"),
        (pickle.dumps({"data": np.array([[None]])}), "must be of type u1, got 'O8'"),
        (pickle.dumps({"data": np.asfortranarray(DATA)}), "row by row"),
        (PYTHON_2[:-5], "complete CIFAR pickle"),
        (PYTHON_2.replace(b"K\x02\x86", b"K\x03\x86"), "complete CIFAR pickle"),
        (b"", "complete CIFAR pickle"),
        (b"<html>not found</html>", "complete CIFAR pickle"),
    ],
)
def test_other_content_is_refused(content, message):
    with pytest.raises(InputError, match=message):
        load_batch(content)


def test_a_large_number_sets_no_memory_aside():
    assert load_batch(b"\x80\x02}r\xff\xff\xff\xff.") == {}  # memo place 4,294,967,295


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"data_batch_9: No such file"):
        load_batch(tmp_path / "data_batch_9")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_damaged_bytes_give_an_error_or_a_dict():
    rng = random.Random(0)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(PYTHON_2)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            assert isinstance(load_batch(bytes(damaged)), dict)
        except InputError:
            refused += 1
    assert refused > 1000
