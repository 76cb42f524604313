"""What settings explain of a measure, as a polynomial and at all, and what chance does."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

NAN = float("nan")
Doubles = NDArray[np.float64]
Term = tuple[int, ...]  # the variables that are multiplied: () is 1, (0, 2) is u_0 u_2


@dataclass(frozen=True, eq=False)
class PolynomialFit:
    """A polynomial in ``u = (x - center) / scale``, and how well it fits.

    `r2` is the share of y's variance that it explains, nan if y does not vary. `adjusted_r2` takes
    off what as many terms would explain of pure noise, ``1 - (1 - R2) (n - 1) / (n - rank)``, and
    is nan where they could explain anything (n <= rank, the terms that the points tell apart).
    """

    terms: tuple[Term, ...]
    coefficients: Doubles
    center: Doubles
    scale: Doubles
    r2: float
    adjusted_r2: float

    def at(self, x: ArrayLike) -> Doubles:
        """Return the polynomial at points x (m, d)."""
        return _design(self.terms, (np.asarray(x) - self.center) / self.scale) @ self.coefficients


def polynomial_fit(x: ArrayLike, y: ArrayLike, degree: int = 2) -> PolynomialFit:
    """Fit all products of up to `degree` of the variables x (n, d) to y (n,) by least squares.

    Variables are centred and scaled first, which changes neither R2 nor predictions and keeps the
    equations solvable. Terms that the points cannot tell apart share what they explain.

    >>> fit = polynomial_fit([[0], [1], [2], [3]], [1, 2, 5, 10])
    >>> fit.terms, round(fit.r2, 9), fit.at([[4]]).round(9).tolist()
    (((), (0,), (0, 0)), 1.0, [17.0])
    """
    points, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    varies = np.ptp(points, axis=0) > 0
    center = np.where(varies, points.mean(axis=0), points[0])
    scale = np.where(varies, points.std(axis=0), 1.0)
    variables = range(points.shape[1])
    terms = tuple(
        term for n in range(degree + 1) for term in combinations_with_replacement(variables, n)
    )
    design = _design(terms, (points - center) / scale)
    # About the mean of y, so that a large constant costs no digits of the rest.
    mean = float(values.mean())
    solved, _, rank, _ = np.linalg.lstsq(design, values - mean, rcond=None)
    coefficients = np.asarray(solved, dtype=np.float64)
    coefficients[0] += mean
    missed, total = (
        float((off**2).sum()) for off in (values - design @ coefficients, values - mean)
    )
    # Only rounding could take it out of [0, 1].
    r2 = min(max(1 - missed / total, 0.0), 1.0) if np.ptp(values) else NAN
    spare = len(values) - int(rank)
    adjusted = 1 - (1 - r2) * (len(values) - 1) / spare if spare > 0 else NAN
    return PolynomialFit(terms, coefficients, center, scale, r2, adjusted)


def _design(terms: tuple[Term, ...], u: Doubles) -> Doubles:
    """Return the terms as columns, (n, terms); the empty product is 1."""
    return np.stack([u[:, list(term)].prod(axis=1) for term in terms], axis=1)


def variance_parts(groups: Sequence[ArrayLike]) -> tuple[float, float]:
    """Return the variances of the groups' true means, and of values about them.

    By one-way analysis of variance: ``(MS_between - MS_within) / n_0``, at least 0, and MS_within;
    n_0 is the number of values a group, less a little if groups differ in it. Both are nan if no
    two values differ, or where there is one group, or one value in each.

    >>> variance_parts([[1.0, 3.0], [5.0, 7.0]])
    (7.0, 2.0)
    """
    known = [np.asarray(values, dtype=np.float64) for values in groups]
    sizes, k = np.array([len(values) for values in known]), len(known)
    n = int(sizes.sum())
    if not 1 < k < n or np.ptp(np.concatenate(known)) == 0:
        return NAN, NAN
    means = np.array([values.mean() for values in known])
    grand = np.concatenate(known).mean()
    mean_square_between = float((sizes * (means - grand) ** 2).sum()) / (k - 1)
    within = sum(float(((v - v.mean()) ** 2).sum()) for v in known if np.ptp(v) > 0) / (n - k)
    size = (n - float((sizes**2).sum()) / n) / (k - 1)
    return max((mean_square_between - within) / size, 0.0), within


def explained(
    grid: pd.DataFrame, repeats: pd.DataFrame, settings: Sequence[str], metrics: Sequence[str]
) -> pd.DataFrame:
    """Return for each metric what explains it: the settings as a polynomial, alone, and chance.

    `grid` has a model a row, `repeats` several of each setting. Chance is the variance within
    settings as a share of that over the grid; "settled" is what settings make of the variance
    where they were repeated.
    """
    rows = []
    for metric in metrics:
        models, again = (frame.dropna(subset=[metric]) for frame in (grid, repeats))
        y = models[metric]
        r2 = {f"R2, {name} alone": polynomial_fit(models[[name]], y).r2 for name in settings}
        groups = [values for _, values in again.groupby(list(settings))[metric]]
        between, within = variance_parts(groups)
        chance = within / y.var() if y.var() else NAN
        row = {"metric": metric, "R2": polynomial_fit(models[list(settings)], y).r2, **r2}
        row |= {"std": y.std(), "share of chance": chance}
        rows.append(row | {"settled": between / (between + within)})
    return pd.DataFrame(rows)
