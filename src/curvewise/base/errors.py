"""Exceptions, and the checks whose messages every part shares.

Every error that Curvewise raises on purpose is a `CurvewiseError`. Messages state the
requirement and the value received, in one sentence. What comes from outside (public functions,
commands, files) is checked once, and trusted from there on.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

INFINITY = float("inf")


class CurvewiseError(Exception):
    """Base of every error raised on purpose."""


class InputError(CurvewiseError, ValueError):
    """A value that cannot be used; the message says what was required and what came."""


def require(holds: object, sentence: str) -> None:
    """Raise `InputError` with this sentence unless something holds.

    The sentence is made either way: where that is costly, or only a wrong value makes sense in
    it, and where the type checker is to learn from the condition, write `if` and `raise`.
    """
    if not holds:
        raise InputError(sentence)


def require_number(name: str, value: float, low: float, high: float = INFINITY) -> float:
    """Return `value` as a float if it lies in [low, high], else raise `InputError`.

    >>> require_number("gamma", 0.2, 0)
    0.2
    """
    number = _number(name, value)
    if not (low <= number <= high and abs(number) < INFINITY):
        bounds = f">= {low:g}" if high == INFINITY else f"in [{low:g}, {high:g}]"
        raise InputError(f"{name} must be {bounds} and finite, got {number:g}")
    return number


def require_open(name: str, value: float, low: float, high: float) -> float:
    """Return `value` as a float if it lies strictly between `low` and `high`."""
    number = _number(name, value)
    bounds = f"lie strictly between {low:g} and {high:g}"
    if high == INFINITY:
        bounds = f"be greater than {low:g} and finite"
    require(low < number < high, f"{name} must {bounds}, got {number:g}")
    return number


def _number(name: str, value: float) -> float:
    try:
        if isinstance(value, str | bytes | bool):  # "0.5" would convert, and hide a mistake
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, got {value!r}") from None


def require_whole(name: str, value: int, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least`.

    >>> require_whole("width", 16)
    16
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def require_numbers(
    name: str, values: "ArrayLike", low: float = -INFINITY, high: float = INFINITY
) -> "NDArray[np.float64]":
    """Return finite numbers in [low, high], one or more, as an array of the shape they have.

    >>> require_numbers("fpr", [0.0, 0.5], 0, 1)
    array([0. , 0.5])
    """
    import numpy as np

    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be finite numbers, got {values!r:.60}") from None
    fits = (low <= numbers) & (numbers <= high) & np.isfinite(numbers)
    if numbers.size == 0 or not fits.all():
        bounds = "" if (low, high) == (-INFINITY, INFINITY) else f" in [{low:g}, {high:g}]"
        wrong = f"{numbers[~fits].flat[0]:g}" if numbers.size else "none"
        raise InputError(f"{name} must be finite numbers{bounds}, one or more, got {wrong}")
    return numbers


def require_shape(name: str, values: Any, *sizes: int | str) -> None:
    """Raise `InputError` unless an array or tensor has this shape; a text stands for any size.

    >>> import numpy as np
    >>> require_shape("x", np.zeros((5, 2)), "n", 2)
    """
    shape = tuple(values.shape)
    fits = len(shape) == len(sizes) and all(
        isinstance(wanted, str) or wanted == size for wanted, size in zip(sizes, shape, strict=True)
    )
    wanted = ", ".join(map(str, sizes)) + "," * (len(sizes) == 1)
    require(fits, f"{name} must have shape ({wanted}), got {shape}")


def require_type(name: str, value: object, *kinds: type) -> None:
    """Raise `InputError` unless a value is of one of these types.

    >>> require_type("point", (0.1, 0.9), tuple, list)
    """
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InputError(f"{name} must be of type {wanted}, got {type(value).__name__}")


def require_one_of(**values: Any) -> str:
    """Return the name of the only argument that is given, that is, not None.

    >>> require_one_of(max_fpr=None, min_tpr=0.9)
    'min_tpr'
    """
    given = {name: value for name, value in values.items() if value is not None}
    names = ", ".join(values)
    require(len(given) == 1, f"exactly one of {names} must be given, got {given or 'none'}")
    return next(iter(given))


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
