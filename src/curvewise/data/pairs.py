"""Two classes, or two groups of classes, out of a source with many: "cat/dog" -> labels 0 and 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Side:
    """One side of a pair: its name and the source's labels that belong to it."""

    name: str
    labels: tuple[int, ...]


def parse_pair(
    source: str,
    argument: str,
    names: Sequence[str],
    groups: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Side, Side]:
    """Return both sides of "A/B": the first is class 0, the majority, the second class 1.

    A side is a class by name or by number, or one of `groups`. Case does not matter, nor does
    whether words are joined by "-" or "_".

    >>> first, second = parse_pair("pets", "Cat/2", ["bird", "cat", "dog"])
    >>> first, second
    (Side(name='cat', labels=(1,)), Side(name='dog', labels=(2,)))
    """
    parts = argument.split("/")
    if len(parts) != 2:
        raise InputError(
            f"{source} needs a pair of classes as in {source}:{names[0]}/{names[1]}, "
            f"got {argument!r}"
        )
    first, second = (_side(source, part, names, groups or {}) for part in parts)
    if shared := sorted(set(first.labels) & set(second.labels)):
        raise InputError(
            f"the two sides of {source}:{argument} must differ, both hold {names[shared[0]]!r}"
        )
    return first, second


def pair_name(pair: tuple[Side, Side]) -> str:
    """Return "A/B" with both names in full."""
    return "/".join(side.name for side in pair)


def _side(
    source: str, text: str, names: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> Side:
    wanted = _plain(text)
    by_name = {_plain(name): label for label, name in enumerate(names)}
    if wanted.isdecimal() and int(wanted) < len(names):
        return Side(names[int(wanted)], (int(wanted),))
    if wanted in by_name:
        return Side(names[by_name[wanted]], (by_name[wanted],))
    for group, members in groups.items():
        if wanted == _plain(group):
            return Side(group, tuple(by_name[_plain(member)] for member in members))
    choices = [*groups, *names]
    listed = ", ".join(choices if len(choices) <= 12 else [*choices[:12], "..."])
    raise InputError(
        f"a class of {source} must be a number below {len(names)} or one of {listed}, "
        f"got {text!r}{did_you_mean(wanted, choices)}"
    )


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def pair_rows(
    labels: NDArray[np.int64], first: Side, second: Side
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of both sides in their order, and their labels 0 and 1.

    >>> rows, y = pair_rows(np.array([5, 3, 8, 3]), Side("cat", (3,)), Side("dog", (5,)))
    >>> rows.tolist(), y.tolist()
    ([0, 1, 3], [1, 0, 0])
    """
    rows = np.flatnonzero(np.isin(labels, first.labels + second.labels))
    return rows, np.isin(labels[rows], second.labels).astype(np.int64)


def count_deviations(
    y_train: NDArray[np.int64],
    y_test: NDArray[np.int64],
    pair: tuple[Side, Side],
    complete: tuple[int, int],
) -> list[str]:
    """Return a sentence for each side and part whose count is not that of the complete source.

    `complete` holds the training and test samples that a class of the source has.
    """
    found = []
    for part, y, full in (("training", y_train, complete[0]), ("test", y_test, complete[1])):
        for label, side in enumerate(pair):
            count, expected = int((y == label).sum()), full * len(side.labels)
            if count != expected:
                found.append(
                    f"the {part} part holds {count:,} samples of {side.name}, "
                    f"the complete source {expected:,}"
                )
    return found
