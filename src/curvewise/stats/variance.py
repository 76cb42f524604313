"""What settings explain of a measure, as a polynomial and at all, and what chance does."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtrc, fdtri

from curvewise.base.errors import InputError, require_open, require_whole

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
    points, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] == 0:
        raise InputError(f"x must have shape (n, d), got {points.shape}")
    if values.shape != points.shape[:1] or len(values) < 2:
        shapes = f"{values.shape} and {points.shape}"
        raise InputError(f"y must have a value for each of x's points, at least 2, got {shapes}")
    if not (np.isfinite(points).all() and np.isfinite(values).all()):
        raise InputError("x and y must be finite, got nan or infinity")
    require_whole("degree", degree)
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
    prediction = design @ coefficients
    r2, spare = _share(values, prediction), len(values) - int(rank)
    adjusted = 1 - (1 - r2) * (len(values) - 1) / spare if spare > 0 else NAN
    return PolynomialFit(terms, coefficients, center, scale, int(rank), r2, adjusted, prediction)


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


@dataclass(frozen=True)
class VarianceParts:
    """One-way analysis of variance of values in groups.

    `between` and `within` are the variances of the groups' true means and of values about them,
    estimated by ``(MS_between - MS_within) / n_0``, at least 0, and MS_within; n_0 is the number
    of values a group, less a little if groups differ in it. `f` and `p` test that all groups have
    one mean. `correlation` (intraclass) is ``between / (between + within)``, the share that
    groups explain, and [`low`, `high`] its interval from the F distribution, exact for normal
    values in groups of one size. All are nan if no two values differ.
    """

    groups: int
    values: int
    between: float
    within: float
    f: float
    p: float
    correlation: float
    low: float
    high: float
    level: float


def variance_parts(groups: Sequence[ArrayLike], *, level: float = 0.95) -> VarianceParts:
    """Separate the variance between groups from that within, as `VarianceParts` says.

    At least two groups, and two values or more in at least one.

    >>> parts = variance_parts([[1.0, 3.0], [5.0, 7.0]])
    >>> parts.f, parts.within, parts.between, round(parts.correlation, 3)
    (8.0, 2.0, 7.0, 0.778)
    """
    require_open("level", level, 0, 1)
    known = [_checked(number, values) for number, values in enumerate(groups, 1)]
    sizes = np.array([len(values) for values in known])
    k, n = len(known), int(sizes.sum())
    if k < 2 or n <= k:
        got = sizes.tolist()
        raise InputError(f"groups must be two at least with two values in one, got sizes {got}")
    everything = np.concatenate(known)
    if np.ptp(everything) == 0:
        return VarianceParts(k, n, NAN, NAN, NAN, NAN, NAN, NAN, NAN, level)
    means = np.array([values.mean() for values in known])
    mean_square_between = float((sizes * (means - everything.mean()) ** 2).sum()) / (k - 1)
    inside = sum(float(((v - v.mean()) ** 2).sum()) for v in known if np.ptp(v) > 0)
    within = inside / (n - k)
    f = mean_square_between / within if within > 0 else float("inf")
    p = float(fdtrc(k - 1, n - k, f))
    size = (n - float((sizes**2).sum()) / n) / (k - 1)
    between = max((mean_square_between - within) / size, 0.0)
    low, high = (
        _correlation(f / float(fdtri(k - 1, n - k, share)), size)
        for share in ((1 + level) / 2, (1 - level) / 2)
    )
    correlation = between / (between + within)
    return VarianceParts(k, n, between, within, f, p, correlation, low, high, level)


def _checked(number: int, values: ArrayLike) -> Doubles:
    group = np.asarray(values, dtype=np.float64)
    if group.ndim != 1 or len(group) == 0 or not np.isfinite(group).all():
        raise InputError(f"group {number} must be a list of finite numbers, got {values!r}")
    return group


def _correlation(f: float, size: float) -> float:
    """Return the intraclass correlation that goes with a ratio of mean squares."""
    return 1.0 if np.isinf(f) else max((f - 1) / (f - 1 + size), 0.0)
