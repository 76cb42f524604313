"""Ensembles of a few models at a time: one for each setting, or growing member by member."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvewise.base.errors import InputError
from curvewise.roc.curve import auc
from curvewise.roc.metrics import ensemble_score
from curvewise.stats.cells import Cell, require_labels

SIZES = (1, 2, 4, 8, 16, 32, 48)


@dataclass(frozen=True)
class Growth:
    """The first `members` models of one random order: what they give together, and each alone.

    `ensemble` is the AUC of the mean of their standardised scores, `chosen` that of the one
    with the highest validation AUC, `oracle` the highest test AUC, which nobody can choose
    without looking at the test set. `seconds` is the time that training them took.
    """

    order: int
    members: int
    ensemble: float
    chosen: float
    oracle: float
    seconds: float


def ensemble_growth(
    y: ArrayLike,
    scores: ArrayLike,
    validation: ArrayLike,
    seconds: ArrayLike,
    *,
    sizes: Sequence[int] = SIZES,
    orders: int = 20,
    seed: int = 0,
) -> list[Growth]:
    """Put K models in random orders and follow what the first few of each give.

    Parameters
    ----------
    y, scores
        Test labels (n,) and scores (K, n).
    validation, seconds
        AUC on the validation part and training time of each model, (K,).
    sizes
        Numbers of members; those above K are left out, K is there in any case.

    >>> found = ensemble_growth([0, 0, 1, 1], [[1, 2, 3, 2], [2, 1, 2, 3]], [0.9, 0.8], [1, 1])
    >>> found[1]
    Growth(order=0, members=2, ensemble=1.0, chosen=0.875, oracle=0.875, seconds=2.0)
    """
    members = np.asarray(scores)
    kept, times = np.asarray(validation, np.float64), np.asarray(seconds, np.float64)
    if kept.shape != (len(members),) or times.shape != kept.shape:
        raise InputError(
            f"validation and seconds must have shape ({len(members)},), got {kept.shape} and "
            f"{times.shape}"
        )
    if not np.isfinite(kept).all():
        raise InputError(f"validation must hold finite numbers, got {kept}")
    areas = np.array([auc(y, score) for score in members])
    counts = sorted({*(size for size in sizes if size < len(members)), len(members)})
    generator = np.random.default_rng(seed)
    found = []
    for number in range(orders):
        order = generator.permutation(len(members))
        for count in counts:
            first = order[:count]
            found.append(
                Growth(
                    order=number,
                    members=count,
                    ensemble=auc(y, ensemble_score(members[first])),
                    chosen=float(areas[first[np.argmax(kept[first])]]),
                    oracle=float(areas[first].max()),
                    seconds=float(times[first].sum()),
                )
            )
    return found


def with_ensembles(cell: Cell, label: str, name: str, by: Sequence[str]) -> Cell:
    """Return the cell with one more label: ensembles of a label's models that agree in settings.

    Each score is the mean of the standardised scores of the models with the same `by`; such a
    group may lack models that diverged.

    >>> settings = [{"omega": 0.5, "tau": tau} for tau in (0, 1)]
    >>> cell = Cell("a", None, 0, [0, 0, 1, 1], {"VS": [[1, 2, 3, 2], [2, 1, 2, 3]]},
    ...             {"VS": settings})
    >>> more = with_ensembles(cell, "VS", "mean of two", ["omega"])
    >>> more.areas["mean of two"].tolist(), more.settings["mean of two"]
    ([1.0], [{'omega': 0.5}])
    """
    require_labels([cell], label)
    if label not in cell.scores:
        return cell
    if label not in cell.settings:
        raise InputError(f"settings of {label!r} must be known, got none")
    scores = np.asarray(cell.scores[label])
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row, settings in enumerate(cell.settings[label]):
        groups.setdefault(tuple(settings[key] for key in by), []).append(row)
    combined: NDArray[np.float64] = np.stack(
        [ensemble_score(scores[rows]) for rows in groups.values()]
    )
    return replace(
        cell,
        scores={**cell.scores, name: combined},
        settings={
            **cell.settings,
            name: [dict(zip(by, values, strict=True)) for values in groups],
        },
    )
