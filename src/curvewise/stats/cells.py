"""Cells, what every table is made from: one test set and the models scored on it.

A cell is one task at one beta and one seed, with its models by the label of their method. Tables
hold one dataclass a line, and give plain dicts; printing and drawing happen elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from curvewise.base.errors import InputError, require_choice
from curvewise.roc.curve import Floats, auc

Line = TypeVar("Line", bound=Any)
Settings = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Table(Generic[Line]):
    """Lines of one kind, in order."""

    lines: tuple[Line, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the lines as plain dicts."""
        return [asdict(line) for line in self.lines]


class Place(NamedTuple):
    """What a cell is known by."""

    task: str
    beta: float | None
    seed: int


@dataclass(frozen=True, eq=False)
class CellAreas:
    """A cell of which only the AUC of each model is known: `areas` (K,) by label.

    `settings` may say what each model was trained with, `diverged` how many models of a label
    have no area, `n_train` and `n_test` how many samples there were.

    >>> CellAreas("cifar10:3/5", 100.0, 0, {"VS": np.array([0.7, 0.8])}).areas["VS"]
    array([0.7, 0.8])
    """

    task: str
    beta: float | None
    seed: int
    areas: Mapping[str, Floats]
    settings: Settings = field(default_factory=dict)
    diverged: Mapping[str, int] = field(default_factory=dict)
    n_train: int | None = None
    n_test: int | None = None

    def __post_init__(self) -> None:
        areas = {label: np.asarray(given, np.float64) for label, given in self.areas.items()}
        for label, values in areas.items():
            if (
                values.ndim != 1
                or len(values) == 0
                or not bool(np.all(np.abs(values - 0.5) <= 0.5))
            ):
                raise InputError(
                    f"areas of {label!r} must be a list of numbers in [0, 1], got {values}"
                )
        _check_settings(self.settings, {label: len(values) for label, values in areas.items()})
        object.__setattr__(self, "areas", areas)


@dataclass(frozen=True, eq=False)
class Cell:
    """One test set: labels y (n,), and the scores (K, n) of K models a label.

    `settings`, `diverged` and `n_train` are as in `CellAreas`.

    >>> cell = Cell("digits:8", 100.0, 0, [0, 1, 0, 1], {"VS": [[0.1, 0.9, 0.6, 0.4]]})
    >>> cell.areas["VS"]
    array([0.75])
    """

    task: str
    beta: float | None
    seed: int
    y: ArrayLike
    scores: Mapping[str, ArrayLike]
    settings: Settings = field(default_factory=dict)
    diverged: Mapping[str, int] = field(default_factory=dict)
    n_train: int | None = None

    def __post_init__(self) -> None:
        shapes = {label: np.shape(scores) for label, scores in self.scores.items()}
        for label, shape in shapes.items():
            if len(shape) != 2 or shape[0] == 0 or shape[1] != self.n_test:
                raise InputError(
                    f"scores of {label!r} must have shape (models, {self.n_test}), got {shape}"
                )
        _check_settings(self.settings, {label: shape[0] for label, shape in shapes.items()})

    @property
    def n_test(self) -> int:
        """Number of test samples."""
        return len(np.asarray(self.y))

    @cached_property
    def areas(self) -> dict[str, Floats]:
        """AUC of each model (K,) by label."""
        return {label: self._areas(label) for label in self.scores}

    def _areas(self, label: str) -> Floats:
        scores = np.asarray(self.scores[label])
        try:
            return np.array([auc(self.y, score) for score in scores])
        except InputError as error:
            place = f"task {self.task}, beta {self.beta}, seed {self.seed}"
            raise InputError(f"{label!r} of {place}: {error}") from None


def _check_settings(settings: Settings, models: Mapping[str, int]) -> None:
    for label, given in settings.items():
        if len(given) != models.get(label, 0):
            raise InputError(
                f"settings of {label!r} must be as many as its models, {models.get(label, 0)}, "
                f"got {len(given)}"
            )


Measured = Cell | CellAreas
Some = TypeVar("Some", bound=Measured)


def placed(cells: Iterable[Some]) -> dict[Place, Some]:
    """Return the cells by their place; none may be there twice, and one at least."""
    found: dict[Place, Some] = {}
    for cell in cells:
        place = Place(cell.task, cell.beta, cell.seed)
        if place in found:
            raise InputError(f"a cell must be given once, got {place} twice")
        found[place] = cell
    if not found:
        raise InputError("a summary needs at least one cell, got none")
    return found


def labels_of(cells: Iterable[Measured]) -> list[str]:
    """Return the labels of all cells in the order in which they first appear."""
    return list(dict.fromkeys(label for cell in cells for label in (*cell.areas, *cell.diverged)))


def require_labels(cells: Iterable[Measured], *wanted: str) -> None:
    """Raise if one of the wanted labels is in no cell."""
    known = labels_of(cells)
    for label in wanted:
        require_choice("label", label, known)
