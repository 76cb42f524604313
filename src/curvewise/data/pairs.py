"""Two classes, or two groups of classes, out of a source with many: "cat/dog" -> labels 0 and 1."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvewise.base.errors import InputError, did_you_mean, require
from curvewise.data.reading import listed
from curvewise.data.task import Task

Labelled = tuple[NDArray[Any], NDArray[np.integer[Any]]]  # images (n, ...), labels (n,)
Side = tuple[str, tuple[int, ...]]  # its name, and the source's labels that belong to it
Pair = tuple[Side, Side]


def parse_pair(
    source: str,
    argument: str,
    names: Sequence[str],
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Pair:
    """Return both sides of "A/B": the first is class 0, the majority, the second class 1.

    A side is a class by name or by number, or one of `groups`. Case does not matter, nor does
    whether words are joined by "-" or "_".

    >>> parse_pair("pets", "Cat/2", ["bird", "cat", "dog"])
    (('cat', (1,)), ('dog', (2,)))
    """
    parts = argument.split("/")
    require(
        len(parts) == 2,
        f"{source} needs a pair of classes as in {source}:{names[0]}/{names[1]}, got {argument!r}",
    )
    first, second = (_side(source, part, names, groups or {}) for part in parts)
    if shared := sorted({*first[1]} & {*second[1]}):
        raise InputError(
            f"the two sides of {source}:{argument} must differ, both hold {names[shared[0]]!r}"
        )
    return first, second


def _side(
    source: str, text: str, names: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> Side:
    wanted = _plain(text)
    labels = {_plain(name): label for label, name in enumerate(names)}
    if wanted.isdecimal() and int(wanted) < len(names):
        wanted = _plain(names[int(wanted)])
    if wanted in labels:
        return names[labels[wanted]], (labels[wanted],)
    for group, members in groups.items():
        if wanted == _plain(group):
            return group, tuple(labels[_plain(member)] for member in members)
    choices = [*groups, *names]
    raise InputError(
        f"a class of {source} must be a number below {len(names)} or one of {listed(choices)}, "
        f"got {text!r}{did_you_mean(wanted, choices)}"
    )


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def pair_task(
    source: str,
    pair: Pair,
    train: Iterable[Labelled],
    test: Labelled,
    *,
    complete: tuple[int, int],
    details: Mapping[str, Any],
) -> Task:
    """Return the task "source:A/B" of the images of both sides, in their order.

    `train` comes file by file; `complete` holds the training and test samples that a class of the
    complete source has, for a sentence in the details on each side and part that differs.
    """
    (x_train, y_train), (x_test, y_test) = _picked(train, pair), _picked([test], pair)
    deviations = []
    for part, y, full in (("training", y_train, complete[0]), ("test", y_test, complete[1])):
        for label, (side, labels) in enumerate(pair):
            count, expected = int((y == label).sum()), full * len(labels)
            if count != expected:
                deviations.append(
                    f"the {part} part holds {count:,} samples of {side}, "
                    f"the complete source {expected:,}"
                )
    class_names = (pair[0][0], pair[1][0])
    return Task(
        name=f"{source}:{'/'.join(class_names)}",
        kind="image",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        class_names=class_names,
        details={**details, "deviations": deviations},
    )


def _picked(files: Iterable[Labelled], pair: Pair) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the images of a pair, and labels 0 and 1."""
    (_, negative), (_, positive) = pair
    x, y = [], []
    for images, labels in files:
        chosen = np.isin(labels, negative + positive)
        x.append(images[chosen])
        y.append(np.isin(labels[chosen], positive).astype(np.int64))
    return np.concatenate(x), np.concatenate(y)
