"""Polynomials in several variables by least squares, and how much of the variance they explain."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvewise.base.errors import InputError

NAN = float("nan")
Doubles = NDArray[np.float64]
Term = tuple[int, ...]  # the variables that are multiplied: () is 1, (0, 2) is u_0 u_2


@dataclass(frozen=True, eq=False)
class PolynomialFit:
    """A polynomial in ``u = (x - center) / scale``, and how well it fits.

    `r2` is the share of y's variance that it explains, nan if y does not vary. `adjusted_r2` takes
    off what as many terms would explain of pure noise, ``1 - (1 - R2) (n - 1) / (n - rank)``, and
    is nan where they could explain anything (n <= rank). `rank` counts the terms that the points
    tell apart, `prediction` (n,) is the polynomial at the points it was fitted to.
    """

    terms: tuple[Term, ...]
    coefficients: Doubles
    center: Doubles
    scale: Doubles
    rank: int
    r2: float
    adjusted_r2: float
    prediction: Doubles

    def at(self, x: ArrayLike) -> Doubles:
        """Return the polynomial at points x (m, d)."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != len(self.center):
            raise InputError(f"x must have shape (m, {len(self.center)}), got {points.shape}")
        return _design(self.terms, (points - self.center) / self.scale) @ self.coefficients


def polynomial_fit(x: ArrayLike, y: ArrayLike, degree: int = 2) -> PolynomialFit:
    """Fit all products of up to `degree` of the variables x (n, d) to y (n,) by least squares.

    Variables are centred and scaled first, which changes neither R2 nor predictions and keeps the
    equations solvable. Terms that the points cannot tell apart share what they explain.

    >>> fit = polynomial_fit([[0], [1], [2], [3]], [1, 2, 5, 10])
    >>> fit.terms, round(fit.r2, 9), fit.at([[4]]).round(9).tolist()
    (((), (0,), (0, 0)), 1.0, [17.0])
    """
    points, values = _checked(x, y)
    if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
        raise InputError(f"degree must be a whole number of at least 1, got {degree!r}")
    varies = np.ptp(points, axis=0) > 0
    center = np.where(varies, points.mean(axis=0), points[0])
    scale = np.where(varies, points.std(axis=0), 1.0)
    terms = tuple(_terms(points.shape[1], degree))
    design = _design(terms, (points - center) / scale)
    # About the mean of y, so that a large constant costs no digits of the rest.
    mean = float(values.mean())
    solved, _, rank, _ = np.linalg.lstsq(design, values - mean, rcond=None)
    coefficients = np.asarray(solved, dtype=np.float64)
    coefficients[0] += mean
    prediction = design @ coefficients
    r2 = _share(values, prediction)
    spare = len(values) - int(rank)
    return PolynomialFit(
        terms=terms,
        coefficients=coefficients,
        center=center,
        scale=scale,
        rank=int(rank),
        r2=r2,
        adjusted_r2=1 - (1 - r2) * (len(values) - 1) / spare if spare > 0 else NAN,
        prediction=prediction,
    )


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[Doubles, Doubles]:
    points, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] == 0:
        raise InputError(f"x must have shape (n, d), got {points.shape}")
    if values.shape != points.shape[:1] or len(values) < 2:
        raise InputError(
            f"y must have a value for each of x's points, at least 2, got shapes {values.shape} "
            f"and {points.shape}"
        )
    if not (np.isfinite(points).all() and np.isfinite(values).all()):
        raise InputError("x and y must be finite, got nan or infinity")
    return points, values


def _terms(variables: int, degree: int) -> Iterator[Term]:
    for factors in range(degree + 1):
        yield from combinations_with_replacement(range(variables), factors)


def _design(terms: tuple[Term, ...], u: Doubles) -> Doubles:
    """Return the terms as columns, (n, terms); the empty product is 1."""
    return np.stack([u[:, list(term)].prod(axis=1) for term in terms], axis=1)


def _share(values: Doubles, prediction: Doubles) -> float:
    """Return R2, kept within [0, 1] from which only rounding could take it."""
    if np.ptp(values) == 0:
        return NAN
    missed = float(((values - prediction) ** 2).sum())
    total = float(((values - values.mean()) ** 2).sum())
    return min(max(1 - missed / total, 0.0), 1.0)
