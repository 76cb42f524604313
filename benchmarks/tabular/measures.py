"""What is measured of one method on one fold."""

import subprocess
import time
import warnings
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from benchmarks.tabular.datasets import folds, load, seed_of
from benchmarks.tabular.peers import METHODS
from numpy.typing import NDArray

from curvewise.base.errors import InputError
from curvewise.roc.curve import roc_curve

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

BINS = 15


class Cell(NamedTuple):
    """One fit: a method on one fold; `fold` counts through all repeats."""

    dataset: str
    fold: int
    method: str


@dataclass(frozen=True)
class Measured:
    """The measures of a cell; `y` and `score` of the test rows, so that others can be taken later.

    Brier score and calibration error are nan for a method that only ranks.
    """

    cell: Cell
    auc: float
    tpr_at_1: float
    tpr_at_10: float
    brier: float
    calibration_error: float
    fit_seconds: float
    predict_seconds: float
    y: Labels
    score: Floats


def expected_calibration_error(y: Labels, probability: Floats, bins: int = BINS) -> float:
    """Mean over rows of | share of positives - mean probability | in the row's bin.

    Bins hold equally many rows, but never part equal probabilities: those share the lowest bin
    that one of them falls in, so that the order of the rows does not matter.

    >>> expected_calibration_error(np.array([0, 1, 1]), np.array([0.25, 0.25, 0.75]))
    0.25
    """
    edges = np.quantile(probability, np.arange(1, bins) / bins)
    place = np.searchsorted(edges, probability, side="left")
    gaps = np.bincount(place, weights=y - probability, minlength=bins)  # rows times the difference
    return float(np.abs(gaps).sum() / len(y))


def measure(cell: Cell) -> Measured:
    """Fit the method on the training part of the fold and judge it on the rest."""
    dataset = load(cell.dataset)
    train, test = folds(dataset)[cell.fold]
    model = METHODS[cell.method](seed_of(cell.dataset, cell.fold) % 2**31)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers, about small samples
        start = time.perf_counter()
        model.fit(dataset.x.iloc[train], dataset.y[train])
        fitted = time.perf_counter()
        score = np.asarray(model.predict_proba(dataset.x.iloc[test])[:, 1], dtype=np.float64)
        done = time.perf_counter()
    if not np.isfinite(score).all():
        raise InputError(f"probabilities must be finite, got {(~np.isfinite(score)).sum()} others")
    y = dataset.y[test]
    curve = roc_curve(y, score)
    ranks_only = getattr(model, "ranks_only", False)
    return Measured(
        cell=cell,
        auc=curve.auc,
        tpr_at_1=float(curve.tpr_at(0.01)),
        tpr_at_10=float(curve.tpr_at(0.10)),
        brier=np.nan if ranks_only else float(np.mean((score - y) ** 2)),
        calibration_error=np.nan if ranks_only else expected_calibration_error(y, score),
        fit_seconds=fitted - start,
        predict_seconds=done - fitted,
        y=y,
        score=score,
    )


@cache
def revision() -> str:
    """Return the commit that is measured, with + if files differ from it."""
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "no revision"
