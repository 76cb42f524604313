"""Uncertainty of the area under the ROC curve: DeLong, bootstrap, and a bound that always holds.

DeLong, DeLong, Clarke-Pearson 1988 (Biometrics 44) in O(n log n); the bound is Chernoff's for
two-sample U-statistics (Hoeffding 1963, section 5).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import exp, log, log1p, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from curvewise.base.errors import require_choice, require_open, require_whole
from curvewise.roc.curve import Counts, Floats, Labels, Scores, check_scored

# Bootstrap replicates a block and draws a block: small enough to stay in cache and in memory.
BLOCK, MOST_DRAWS = 32, 1 << 20


@dataclass(frozen=True)
class AucInterval:
    """An area with its confidence interval.

    `method` names what was used: "delong", "bootstrap", or "chernoff" where those say nothing
    (one sample in a class, or no variance as at AUC = 1). `standard_error` is nan for "chernoff".
    """

    auc: float
    low: float
    high: float
    level: float
    method: str
    standard_error: float


@dataclass(frozen=True)
class AucComparison:
    """Difference of two areas on the same samples; z and p test whether it is 0.

    `method` is "delong", or "hoeffding" where DeLong's variance says nothing: z is then nan and
    p an upper bound.
    """

    auc_a: float
    auc_b: float
    difference: float
    low: float
    high: float
    level: float
    z: float
    p: float
    method: str


def auc_interval(
    y: Labels,
    score: Scores,
    level: float = 0.95,
    method: str = "delong",
    *,
    n_replicates: int = 2000,
    seed: int = 0,
) -> AucInterval:
    """Confidence interval for the area under the ROC curve.

    "delong" is area plus or minus its normal quantile times DeLong's standard error, cut to
    [0, 1]; "bootstrap" takes the quantiles of `n_replicates` stratified resamples. If one of them
    gives no variance, the interval is Chernoff's bound, wide but valid for any sample size.

    >>> interval = auc_interval([0, 0, 0, 1, 1], [0.1, 0.4, 0.3, 0.35, 0.8])
    >>> round(interval.auc, 3), interval.method
    (0.833, 'delong')
    """
    require_open("level", level, 0, 1)
    require_choice("method", method, ("delong", "bootstrap"))
    data = check_scored(y, score)
    # In ascending order, for searches are faster where the next value is near the last.
    placements = _placements(np.sort(data.positives), np.sort(data.negatives))
    area, error = _area(*placements), _error(*placements)
    if method == "bootstrap":
        areas = bootstrap_auc(y, score, n_replicates=n_replicates, seed=seed)
        error = float(areas.std())
        low, high = (float(q) for q in np.quantile(areas, [(1 - level) / 2, (1 + level) / 2]))
    else:
        reach = float(norm.ppf((1 + level) / 2)) * error
        low, high = max(area - reach, 0.0), min(area + reach, 1.0)
    pairs = min(len(data.positives), len(data.negatives))
    if pairs < 2 or not error > 0:  # resampling a single sample says nothing about its class
        low, high = chernoff_interval(area, pairs, level)
        return AucInterval(area, low, high, level, "chernoff", float("nan"))
    return AucInterval(area, low, high, level, method, error)


def bootstrap_auc(y: Labels, score: Scores, *, n_replicates: int = 2000, seed: int = 0) -> Floats:
    """Areas of `n_replicates` resamples, positives and negatives drawn apart (stratified)."""
    data = check_scored(y, score)
    require_whole("n_replicates", n_replicates)
    few, many = np.sort(data.positives), data.negatives
    flip = len(few) > len(many)
    if flip:
        few, many = np.sort(many), few
    # A member of the larger class matters only by its kind: how many of the smaller class score
    # less, and how many less or the same. What a kind adds to the area is read off the cumulative
    # counts of each resample of the smaller class.
    bounds = np.stack([np.searchsorted(few, many, side) for side in ("left", "right")])
    (below, up_to), kind = np.unique(bounds, axis=1, return_inverse=True)
    kind = np.sort(kind.reshape(-1))

    def block(child: np.random.SeedSequence, size: int) -> Floats:
        rng = np.random.Generator(np.random.SFC64(child))  # the fastest one for many integers
        drawn = rng.integers(0, len(few), (size, len(few)))
        drawn += np.arange(size)[:, None] * len(few)
        counts = np.bincount(drawn.ravel(), minlength=size * len(few)).reshape(size, len(few))
        cumulative = np.zeros((size, len(few) + 1), np.int64)
        np.cumsum(counts, axis=1, out=cumulative[:, 1:])
        gain = cumulative[:, below] + cumulative[:, up_to]
        kinds = kind.take(rng.integers(0, len(many), (size, len(many))))
        totals = [gain[row].take(kinds[row]).sum() for row in range(size)]
        return np.array(totals) / (2 * len(few) * len(many))

    # Blocks have seeds of their own, so that the number of threads changes nothing.
    most = max(1, min(BLOCK, MOST_DRAWS // len(many)))
    sizes = [min(most, n_replicates - start) for start in range(0, n_replicates, most)]
    seeds = np.random.SeedSequence(seed).spawn(len(sizes))
    with ThreadPoolExecutor() as pool:
        areas = np.concatenate(list(pool.map(block, seeds, sizes)))
    return areas if flip else 1 - areas


def compare_auc(
    y: Labels, score_a: Scores, score_b: Scores, *, level: float = 0.95
) -> AucComparison:
    """Test whether two scores of the same samples have the same area (DeLong, paired).

    `difference` is the area of a minus that of b.
    """
    require_open("level", level, 0, 1)
    first, second = check_scored(y, score_a), check_scored(y, score_b)
    (positives_a, negatives_a), (positives_b, negatives_b) = (
        _placements(data.positives, data.negatives) for data in (first, second)
    )
    smaller = min(len(positives_a), len(negatives_a))
    area_a, area_b = _area(positives_a, negatives_a), _area(positives_b, negatives_b)
    difference = area_a - area_b
    error = _error(positives_a - positives_b, negatives_a - negatives_b)
    # Equal placements of differing scores (two areas of 1) are no proof that areas are the same.
    ranks = [np.unique(data.score, return_inverse=True)[1] for data in (first, second)]
    identical = error == 0 and np.array_equal(ranks[0], ranks[1])
    if error > 0 or identical:
        method = "delong"
        z = difference / error if error > 0 else 0.0
        p = 2 * float(norm.sf(abs(z)))
        reach = float(norm.ppf((1 + level) / 2)) * error
    else:
        method = "hoeffding"
        z = float("nan")
        p = min(1.0, 2 * exp(-smaller * difference**2 / 2))
        reach = sqrt(2 * log(2 / (1 - level)) / smaller)
    low, high = max(difference - reach, -1.0), min(difference + reach, 1.0)
    return AucComparison(area_a, area_b, difference, low, high, level, z, p, method)


def chernoff_interval(area: float, pairs: int, level: float = 0.95) -> tuple[float, float]:
    """Interval for an area that is valid for any number of samples, if a wide one.

    `pairs` is the size of the smaller class: an area is an average over ways of forming that
    many independent pairs, so pairs * KL(area, true area) <= log(2 / (1 - level)) with
    probability `level` at least. At area 1 the lower end is ((1 - level) / 2)^(1 / pairs).
    """
    reach = log(2 / (1 - level)) / pairs
    return _chernoff_low(area, reach), 1 - _chernoff_low(1 - area, reach)


def _chernoff_low(area: float, reach: float) -> float:
    """Return the smallest true area whose divergence from the observed one is within reach."""
    if area == 0:
        return 0.0

    def excess(log_true: float) -> float:
        divergence = area * (log(area) - log_true)
        if area < 1:
            divergence += (1 - area) * (log1p(-area) - log1p(-exp(log_true)))
        return divergence - reach

    # The two-point entropy is at most log 2, so this is below the root.
    far = log(area) - (reach + log(2)) / area
    return exp(brentq(excess, far, log(area)))


def _placements(positives: Floats, negatives: Floats) -> tuple[Counts, Counts]:
    """Return for each score, in the order given, twice how many of the other class it is right of.

    For a positive these are the negatives below it, for a negative the positives above it, ties
    counting half.
    """

    def twice_below(score: Floats, others: Floats) -> Counts:
        others = np.sort(others)
        return np.searchsorted(others, score, "left") + np.searchsorted(others, score, "right")

    return twice_below(positives, negatives), 2 * len(positives) - twice_below(negatives, positives)


def _area(of_positives: Counts, of_negatives: Counts) -> float:
    return int(of_positives.sum()) / (2 * len(of_positives) * len(of_negatives))


def _error(of_positives: Counts, of_negatives: Counts) -> float:
    """Return DeLong's standard error from placements, or differences of them; 0 if it has none.

    Whole numbers keep a variance of 0 exactly 0, which fractions would not.
    """
    sizes = len(of_positives), len(of_negatives)
    if min(sizes) < 2:
        return 0.0
    spread = np.var(of_positives, ddof=1) * sizes[0] + np.var(of_negatives, ddof=1) * sizes[1]
    return sqrt(float(spread)) / (2 * sizes[0] * sizes[1])
