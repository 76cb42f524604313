"""Reading CIFAR's pickles without running what is in them.

A pickle is a program: it may name any function of any module and have it called. CIFAR's files
name three things, all of which a numpy array of bytes needs. The `Unpickler` here knows these
names only, and puts classes of its own in their place: numpy's trust the state that they are
given, and a false one can bring down the process.
"""

import io
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError


class ByteType:
    """In place of `numpy.dtype`: unsigned bytes, the only type in these files."""

    def __init__(self, code: Any, *_: Any) -> None:
        if code not in ("u1", b"u1", "|u1", b"|u1"):
            raise InputError(f"arrays must be of type u1, got {code!r}")

    def __setstate__(self, state: Any) -> None:
        """Ignore what follows the code: byte order and alignment, which bytes do not have."""


class ByteArray:
    """In place of `numpy.ndarray` and of the function that makes an empty one."""

    def __init__(self, *_: Any) -> None:
        self.array: NDArray[np.uint8] = np.empty((0, 0), dtype=np.uint8)

    def __setstate__(self, state: Any) -> None:
        """Take the values of a two-dimensional array in C order."""
        _, shape, kind, column_order, values = state
        if not isinstance(kind, ByteType) or not isinstance(values, bytes) or column_order:
            raise InputError("arrays must hold unsigned bytes row by row, got another layout")
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
        if (module, name) not in ALLOWED:
            raise InputError(
                f"a CIFAR file must hold only arrays, lists and strings, got a pickle that asks "
                f"for {module}.{name}: do not trust this file"
            )
        return ALLOWED[module, name]


def load_batch(source: bytes | Path) -> dict[str, Any]:
    """Return the dict in a CIFAR pickle, given as bytes or as a path, with keys and names as text.

    Python 2 wrote the originals, in strings that are neither text nor bytes; they load as bytes
    and are decoded here. Arrays are uint8 (n, d) and read-only.

    >>> load_batch(pickle.dumps({b"label_names": [b"cat", b"dog"], b"num_vis": 3072}))
    {'label_names': ['cat', 'dog'], 'num_vis': 3072}
    """
    name = "the CIFAR file" if isinstance(source, bytes) else str(source)
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise InputError(f"a CIFAR file must be readable, got {name}: {error.strerror}") from None
    try:
        content = ByteUnpickler(io.BytesIO(data), encoding="bytes").load()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except Exception as error:  # a damaged pickle fails in whatever way its bytes happen to read
        raise InputError(
            f"{name} must be a complete CIFAR pickle, got one that fails to load: {error!r}"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{name} must hold a dict, got {type(content).__name__}")
    plain = {_text(key): _plain(value) for key, value in content.items()}
    if not all(isinstance(key, str) for key in plain):
        raise InputError(f"{name} must hold a dict with strings as keys, got other keys")
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, ByteArray):
        return value.array
    return [_text(item) for item in value] if isinstance(value, list) else _text(value)


def _text(value: Any) -> Any:
    return value.decode("latin1") if isinstance(value, bytes) else value
