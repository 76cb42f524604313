"""CIFAR-10 and CIFAR-100 as two-class tasks, from the Python version of their files.

Krizhevsky 2009, "Learning multiple layers of features from tiny images". A pair "A/B" has A as
class 0, the majority, and B as class 1, the minority.

The files are pickles, and a pickle is a program: it may name any function of any module and have it
called. CIFAR's name three things, all of which a numpy array of bytes needs. The unpickler here
knows these names only, and puts classes of its own in their place: numpy's trust the state that
they are given, and a false one can bring down the process.
"""

import io
import pickle
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError, require
from curvewise.data.pairs import Labelled, pair_task, parse_pair
from curvewise.data.task import SourceOptions, Task

PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
VEHICLES = ("airplane", "automobile", "ship", "truck")
FURNITURE = ("bed", "chair", "couch", "table", "wardrobe")
ELECTRONICS = ("clock", "keyboard", "lamp", "telephone", "television")


@dataclass(frozen=True)
class Edition:
    """What one of the two sets calls its files and labels, and how large it is."""

    source: str
    title: str
    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    meta: str
    prefix: str  # of the keys of labels and of their names
    groups: Mapping[str, tuple[str, ...]]
    complete: tuple[int, int]  # samples a class in the training and the test part
    mean: tuple[float, float, float]  # of the training pixels, on the scale 0 to 1
    std: tuple[float, float, float]


CIFAR10 = Edition(
    source="cifar10",
    title="CIFAR-10",
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    meta="batches.meta",
    prefix="",
    groups={"animal": ANIMALS, "vehicle": VEHICLES},
    complete=(5000, 1000),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR100 = Edition(
    source="cifar100",
    title="CIFAR-100",
    folder="cifar-100-python",
    archive="cifar-100-python.tar.gz",
    train=("train",),
    test="test",
    meta="meta",
    prefix="fine_",
    groups={"furniture": FURNITURE, "electronics": ELECTRONICS},
    complete=(500, 100),
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
)


def cifar10(argument: str, options: SourceOptions) -> Task:
    """Return two classes of CIFAR-10, "cat/dog" or "3/5", or "animal/vehicle".

    Images are uint8 (n, 3, 32, 32). The files are looked for in the data folder, unpacked or as
    the downloaded tar.gz.
    """
    return _task(CIFAR10, argument, cifar10_files(options))


def cifar100(argument: str, options: SourceOptions) -> Task:
    """Return two fine classes of CIFAR-100, or "household": furniture against electronics."""
    if argument != "household":
        return _task(CIFAR100, argument, cifar100_files(options))
    task = _task(CIFAR100, "furniture/electronics", cifar100_files(options))
    return replace(task, name="cifar100:household")


def _place(edition: Edition, options: SourceOptions) -> Path:
    """Return the folder or archive of an edition, or raise with how to get it."""
    folder = options.data_folder / edition.folder
    archive = options.data_folder / edition.archive
    require(
        folder.is_dir() or archive.is_file(),
        f"{edition.source} needs the folder {folder} or the file {archive}, found neither: "
        f"get {edition.archive} from {PAGE}",
    )
    return folder if folder.is_dir() else archive


cifar10_files, cifar100_files = partial(_place, CIFAR10), partial(_place, CIFAR100)


def _task(edition: Edition, argument: str, place: Path) -> Task:
    files = _read(edition, place)
    names = files[edition.meta].get(f"{edition.prefix}label_names", [])
    require(
        isinstance(names, list) and len(names) >= 2,
        f"{edition.meta} of {edition.title} must list its classes, got {names!r}",
    )
    pair = parse_pair(edition.source, argument, names, edition.groups)
    return pair_task(
        edition.source,
        pair,
        (_labelled(edition, file, files.pop(file), len(names)) for file in edition.train),
        _labelled(edition, edition.test, files.pop(edition.test), len(names)),
        complete=edition.complete,
        details={
            "source": f"{edition.title} ({PAGE})",
            "mean": list(edition.mean),
            "std": list(edition.std),
        },
    )


def _read(edition: Edition, place: Path) -> dict[str, dict[str, Any]]:
    """Return the content of every file that the task needs, by name."""
    wanted = (*edition.train, edition.test, edition.meta)
    contents = {}
    try:
        if place.is_dir():
            for name in wanted:
                contents[name] = load_batch((place / name).read_bytes(), str(place / name))
        else:
            # A compressed archive reads well in one direction only: take members as they come.
            with tarfile.open(place, "r|gz") as members:
                for member in members:
                    name = member.name.removeprefix(f"{edition.folder}/")
                    if name in wanted and (stream := members.extractfile(member)) is not None:
                        contents[name] = load_batch(stream.read(), f"{name} in {place}")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InputError(
            f"{place} must be complete, got {error}: get {edition.archive} again from {PAGE}"
        ) from None
    for name in wanted:
        require(name in contents, f"{place} must hold {edition.folder}/{name}, found no such file")
    return contents


def _labelled(edition: Edition, file: str, content: dict[str, Any], n_classes: int) -> Labelled:
    """Return the images (n, 3, 32, 32) and labels (n,) of one file."""
    name, key = f"{file} of {edition.title}", f"{edition.prefix}labels"
    images, labels = content.get("data"), content.get(key)
    labels = labels if isinstance(labels, list) else []
    if not isinstance(images, np.ndarray) or images.shape[1:] != (3072,):
        got = getattr(images, "shape", type(images).__name__)
        raise InputError(f"{name} must hold 'data' as bytes (n, 3072), got {got}")
    wrong = [label for label in labels if label not in range(n_classes)]
    require(
        len(labels) == len(images) and not wrong,
        f"{name} must hold '{key}' as a list of {len(images)} numbers from 0 to "
        f"{n_classes - 1}, got {repr(wrong[0]) if wrong else len(labels)}",
    )
    return images.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)


class ByteType:
    """In place of `numpy.dtype`: unsigned bytes, the only type in these files."""

    def __init__(self, code: Any, *_: Any) -> None:
        require(code in ("u1", b"u1", "|u1", b"|u1"), f"arrays must be of type u1, got {code!r}")

    def __setstate__(self, state: Any) -> None:
        """Ignore what follows the code: byte order and alignment, which bytes do not have."""


class ByteArray:
    """In place of `numpy.ndarray` and of the function that makes an empty one."""

    def __init__(self, *_: Any) -> None:
        self.array: NDArray[np.uint8] = np.empty((0, 0), dtype=np.uint8)

    def __setstate__(self, state: Any) -> None:
        """Take the values of a two-dimensional array in C order."""
        _, shape, kind, column_order, values = state
        require(
            isinstance(kind, ByteType) and isinstance(values, bytes) and not column_order,
            "arrays must hold unsigned bytes row by row, got another layout",
        )
        rows, columns = shape
        self.array = np.frombuffer(values, dtype=np.uint8).reshape(rows, columns)


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): ByteArray,
    ("numpy._core.multiarray", "_reconstruct"): ByteArray,  # its name since numpy 2
    ("numpy", "ndarray"): ByteArray,
    ("numpy", "dtype"): ByteType,
}


class ByteUnpickler(pickle._Unpickler):
    """An `Unpickler` that knows arrays of bytes and Python's own containers, nothing else.

    It is the one written in Python, fast enough here (0.1 s a file): the one in C sets memory
    aside for whatever number a damaged file holds, up to all there is.
    """

    dispatch: ClassVar[dict[int, Any]] = {
        code: step
        for code, step in pickle._Unpickler.dispatch.items()
        if code != pickle.BYTEARRAY8[0]  # likewise, and these files are older than it
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for an allowed name, or raise `InputError`."""
        require(
            (module, name) in ALLOWED,
            f"a CIFAR file must hold only arrays, lists and strings, got a pickle that asks "
            f"for {module}.{name}: do not trust this file",
        )
        return ALLOWED[module, name]


def load_batch(data: bytes, name: str = "the CIFAR file") -> dict[str, Any]:
    """Return the dict in a CIFAR pickle, with keys and names as text; errors call it `name`.

    Python 2 wrote the originals, in strings that are neither text nor bytes; they load as bytes
    and are decoded here. Arrays are uint8 (n, d) and read-only.

    >>> load_batch(pickle.dumps({b"label_names": [b"cat", b"dog"], b"num_vis": 3072}))
    {'label_names': ['cat', 'dog'], 'num_vis': 3072}
    """
    try:
        content = ByteUnpickler(io.BytesIO(data), encoding="bytes").load()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except Exception as error:  # a damaged pickle fails in whatever way its bytes happen to read
        raise InputError(
            f"{name} must be a complete CIFAR pickle, got one that fails to load: {error!r}"
        ) from None
    require(isinstance(content, dict), f"{name} must hold a dict, got {type(content).__name__}")
    return {str(_text(key)): _plain(value) for key, value in content.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, ByteArray):
        return value.array
    return [_text(item) for item in value] if isinstance(value, list) else _text(value)


def _text(value: Any) -> Any:
    return value.decode("latin1") if isinstance(value, bytes) else value
