"""Variance between groups and within them: what settings do, and what chance does."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtrc, fdtri

from curvewise.base.errors import InputError, require_open

NAN = float("nan")


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
    found = [_checked(number, values) for number, values in enumerate(groups, 1)]
    sizes = np.array([len(values) for values in found])
    k, n = len(found), int(sizes.sum())
    if k < 2 or n <= k:
        raise InputError(
            f"groups must be two at least with two values in one of them, got sizes "
            f"{sizes.tolist()}"
        )
    everything = np.concatenate(found)
    if np.ptp(everything) == 0:
        return VarianceParts(k, n, NAN, NAN, NAN, NAN, NAN, NAN, NAN, level)
    grand = everything.mean()
    means = np.array([values.mean() for values in found])
    mean_square_between = float((sizes * (means - grand) ** 2).sum()) / (k - 1)
    inside = sum(
        float(((values - values.mean()) ** 2).sum()) for values in found if np.ptp(values) > 0
    )
    within = inside / (n - k)
    size = (n - float((sizes**2).sum()) / n) / (k - 1)
    between = max((mean_square_between - within) / size, 0.0)
    f = mean_square_between / within if within > 0 else float("inf")
    low, high = (
        _correlation(f / float(fdtri(k - 1, n - k, share)), size)
        for share in ((1 + level) / 2, (1 - level) / 2)
    )
    return VarianceParts(
        groups=k,
        values=n,
        between=between,
        within=within,
        f=f,
        p=float(fdtrc(k - 1, n - k, f)),
        correlation=between / (between + within),
        low=low,
        high=high,
        level=level,
    )


def _checked(number: int, values: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or len(found) == 0 or not np.isfinite(found).all():
        raise InputError(f"group {number} must be a list of finite numbers, got {values!r}")
    return found


def _correlation(f: float, size: float) -> float:
    """Return the intraclass correlation that goes with a ratio of mean squares."""
    return 1.0 if np.isinf(f) else max((f - 1) / (f - 1 + size), 0.0)
