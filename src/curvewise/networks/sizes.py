"""The one check that every network makes of its sizes."""

from numbers import Integral

from curvewise.base.errors import InputError


def require_size(name: str, value: int) -> int:
    """Return `value` if it is a whole number of at least 1, else raise `InputError`.

    >>> require_size("width", 16)
    16
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)
