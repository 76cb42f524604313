"""Exceptions, and the checks whose messages every part shares.

Every error that Curvewise raises on purpose is a `CurvewiseError`. Messages state the
requirement and the value received, in one sentence.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral


class CurvewiseError(Exception):
    """Base of every error raised on purpose."""


class InputError(CurvewiseError, ValueError):
    """A value that cannot be used; the message says what was required and what came."""


def require_number(name: str, value: float, low: float, high: float = float("inf")) -> float:
    """Return `value` as a float if it lies in [low, high], else raise `InputError`.

    >>> require_number("gamma", 0.2, 0)
    0.2
    """
    number = _number(name, value)
    if not (low <= number <= high and abs(number) < float("inf")):
        bounds = f">= {low:g}" if high == float("inf") else f"in [{low:g}, {high:g}]"
        raise InputError(f"{name} must be {bounds} and finite, got {number:g}")
    return number


def require_open(name: str, value: float, low: float, high: float) -> float:
    """Return `value` as a float if it lies strictly between `low` and `high`."""
    number = _number(name, value)
    if not low < number < high:
        bounds = f"lie strictly between {low:g} and {high:g}"
        if high == float("inf"):
            bounds = f"be greater than {low:g} and finite"
        raise InputError(f"{name} must {bounds}, got {number:g}")
    return number


def require_whole(name: str, value: int, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least`.

    >>> require_whole("width", 16)
    16
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def _number(name: str, value: float) -> float:
    try:
        if isinstance(value, str | bytes):  # "0.5" would convert, and hide a mistake
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, got {value!r}") from None


def require_choice(name: str, value: str, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`, else raise with the nearest name."""
    options = list(options)
    if value not in options:
        raise InputError(
            f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}"
            f"{did_you_mean(value, options)}"
        )
    return value


def did_you_mean(name: object, options: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the option nearest to `name`, or an empty string.

    >>> did_you_mean("tua", ["tau", "gamma"])
    "; did you mean 'tau'?"
    """
    close = get_close_matches(str(name), list(options), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
