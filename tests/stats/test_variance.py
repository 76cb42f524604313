"""What settings and chance explain, against scipy, scikit-learn, loops and simulated groups."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.preprocessing import PolynomialFeatures

from curvewise import InputError
from curvewise.stats.variance import polynomial_fit, variance_parts


def random_groups(seed, sizes, between=1.0, within=1.0):
    rng = np.random.default_rng(seed)
    return [between * rng.normal() + within * rng.normal(size=size) for size in sizes]


@pytest.mark.parametrize("sizes", [[8] * 8, [2, 3], [1, 5, 2], [4, 4, 4]])
def test_the_test_is_scipys(sizes):
    groups = random_groups(1, sizes)
    parts = variance_parts(groups)
    oracle = stats.f_oneway(*groups)
    assert parts.f == pytest.approx(oracle.statistic)
    assert parts.p == pytest.approx(oracle.pvalue)
    assert (parts.groups, parts.values) == (len(sizes), sum(sizes))


def test_variances_are_those_of_a_loop_over_values():
    groups = random_groups(2, [5] * 6, between=2.0)
    means = [sum(group) / 5 for group in groups]
    grand = sum(means) / 6
    inside = sum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True)
                 for value in group) / (30 - 6)  # fmt: skip
    across = 5 * sum((mean - grand) ** 2 for mean in means) / (6 - 1)
    parts = variance_parts(groups)
    assert parts.within == pytest.approx(inside)
    assert parts.between == pytest.approx((across - inside) / 5)
    # Of equal groups: the variance of the means, less the part that chance has in it.
    assert parts.between == pytest.approx(np.var(means, ddof=1) - inside / 5)
    assert parts.correlation == pytest.approx(parts.between / (parts.between + inside))


def test_estimates_are_unbiased_also_for_groups_of_different_sizes():
    found = [variance_parts(random_groups(k, [2, 4, 9, 3, 6] * 3, 3.0, 2.0)) for k in range(1500)]
    assert np.mean([parts.between for parts in found]) == pytest.approx(9, rel=0.05)
    assert np.mean([parts.within for parts in found]) == pytest.approx(4, rel=0.03)


def test_a_large_group_does_not_count_for_all():
    groups = random_groups(3, [1, 20, 2], between=5.0)
    parts = variance_parts(groups)
    # How much a unit of variance between groups adds to their mean square.
    weight = sum(size * (1 - size / 23) for size in (1, 20, 2)) / 2
    assert parts.between == pytest.approx(parts.within * (parts.f - 1) / weight)
    assert parts.between > 0


def test_the_interval_holds_the_truth_as_often_as_it_says():
    truth = 0.8  # between 4, within 1
    found = [variance_parts(random_groups(k, [8] * 8, 2.0), level=0.9) for k in range(1000)]
    held = np.mean([parts.low <= truth <= parts.high for parts in found])
    assert held == pytest.approx(0.9, abs=0.03)
    assert np.mean([parts.high < truth for parts in found]) == pytest.approx(0.05, abs=0.02)


def test_p_is_uniform_where_groups_do_not_differ():
    found = [variance_parts(random_groups(k, [4] * 5, between=0.0)) for k in range(500)]
    assert stats.kstest([parts.p for parts in found], "uniform").pvalue > 0.001


@given(
    seed=st.integers(0, 1000),
    sizes=st.lists(st.integers(2, 5), min_size=2, max_size=5),
    stretch=st.floats(0.01, 100),
    shift=st.floats(-100, 100),
)
@settings(deadline=None, max_examples=60)
def test_units_change_variances_alone(seed, sizes, stretch, shift):
    groups = random_groups(seed, sizes)
    parts = variance_parts(groups)
    other = variance_parts([stretch * group + shift for group in groups])
    assert parts.between >= 0
    assert 0 <= parts.low <= parts.correlation <= parts.high <= 1
    assert other.within == pytest.approx(stretch**2 * parts.within, rel=1e-6)
    assert other.correlation == pytest.approx(parts.correlation, abs=1e-6)
    assert other.p == pytest.approx(parts.p, abs=1e-6)


def test_groups_without_variance_of_their_own_explain_everything():
    parts = variance_parts([[0.1] * 3, [0.3] * 3])
    assert (parts.within, parts.f, parts.p, parts.correlation) == (0, np.inf, 0, 1)
    assert (parts.low, parts.high) == (1, 1)


def test_equal_means_explain_nothing():
    parts = variance_parts([[1.0, 3.0], [0.0, 4.0]])
    assert (parts.f, parts.p, parts.between, parts.correlation) == (0, 1, 0, 0)


def test_values_that_do_not_differ_say_nothing():
    parts = variance_parts([[0.1] * 3, [0.1] * 3])
    assert np.isnan([parts.between, parts.within, parts.f, parts.p, parts.correlation]).all()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[1.0, 2.0]], r"two at least with two values in one, got sizes \[2\]"),
        ([[1.0], [2.0]], r"got sizes \[1, 1\]"),
        ([[1.0, 2.0], []], "group 2 must be a list of finite numbers"),
        ([[1.0, np.nan], [2.0]], "group 1 must be a list of finite numbers"),
    ],
)
def test_bad_groups_are_refused(groups, message):
    with pytest.raises(InputError, match=message):
        variance_parts(groups)


def test_a_level_is_a_share():
    with pytest.raises(InputError, match="level must lie strictly between 0 and 1, got 1"):
        variance_parts([[1.0, 2.0], [3.0]], level=1)


def noisy_points(seed, n=60, d=3):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 3, (n, d))
    return x, x[:, 0] ** 2 - x.prod(axis=1) + rng.normal(size=n)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_it_is_scikit_learns_regression_on_polynomial_features(d, degree):
    x, y = noisy_points(d, d=d)
    features = PolynomialFeatures(degree)
    oracle = LinearRegression().fit(features.fit_transform(x), y)
    expected = oracle.predict(features.transform(x))
    fit = polynomial_fit(x, y, degree)
    assert 0.05 < fit.r2 < 0.99
    assert fit.r2 == pytest.approx(r2_score(y, expected), abs=1e-9)
    np.testing.assert_allclose(fit.prediction, expected, atol=1e-7)
    elsewhere = np.random.default_rng(9).uniform(-1, 4, (20, d))
    expected = oracle.predict(features.transform(elsewhere))
    np.testing.assert_allclose(fit.at(elsewhere), expected, atol=1e-6)
    terms = features.n_output_features_
    assert len(fit.terms) == len(fit.coefficients) == fit.rank == terms
    adjusted = 1 - (1 - fit.r2) * (60 - 1) / (60 - terms)
    assert fit.adjusted_r2 == pytest.approx(adjusted)


def test_coefficients_are_those_of_the_scaled_variables():
    x, y = noisy_points(4)
    fit = polynomial_fit(x, y)
    u = (x - x.mean(axis=0)) / x.std(axis=0)
    features = PolynomialFeatures(2)
    oracle = LinearRegression(fit_intercept=False).fit(features.fit_transform(u), y)
    np.testing.assert_allclose(fit.coefficients, oracle.coef_, atol=1e-9)
    powers = [tuple(term.count(k) for k in range(3)) for term in fit.terms]
    assert powers == [tuple(row) for row in features.powers_]


def test_the_adjusted_share_of_pure_noise_is_near_zero():
    rng = np.random.default_rng(0)
    fits = [polynomial_fit(rng.normal(size=(30, 3)), rng.normal(size=30)) for _ in range(200)]
    # Nine terms besides the constant explain 9/29 of noise in 30 points.
    assert np.mean([fit.r2 for fit in fits]) == pytest.approx(9 / 29, abs=0.02)
    assert np.mean([fit.adjusted_r2 for fit in fits]) == pytest.approx(0, abs=0.03)


@given(
    seed=st.integers(0, 1000),
    n=st.integers(12, 40),
    stretch=st.lists(st.floats(0.01, 100), min_size=2, max_size=2),
    shift=st.lists(st.floats(-1000, 1000), min_size=2, max_size=2),
    sign=st.sampled_from([-1, 1]),
)
@settings(deadline=None, max_examples=60)
def test_units_change_no_share(seed, n, stretch, shift, sign):
    x, y = noisy_points(seed, n, 2)
    fit = polynomial_fit(x, y)
    assert 0 <= fit.r2 <= 1
    assert fit.adjusted_r2 <= fit.r2
    other = polynomial_fit(x * stretch * sign + shift, stretch[0] * sign * y + shift[1])
    assert other.r2 == pytest.approx(fit.r2, abs=1e-6)
    again = (other.prediction - shift[1]) / (stretch[0] * sign)
    np.testing.assert_allclose(again, fit.prediction, atol=1e-5)


def test_more_terms_never_explain_less():
    x, y = noisy_points(3)
    shares = [polynomial_fit(x, y, degree).r2 for degree in (1, 2, 3)]
    assert shares == sorted(shares)
    assert polynomial_fit(x[:, :1], y).r2 <= shares[1]


def test_a_variable_that_does_not_vary_explains_nothing():
    x, y = noisy_points(5)
    alone = polynomial_fit(x[:, :1], y)
    x[:, 1:] = 0.1
    fit = polynomial_fit(x, y)
    assert fit.rank == 3
    assert fit.r2 == pytest.approx(alone.r2)
    assert fit.adjusted_r2 == pytest.approx(alone.adjusted_r2)
    assert polynomial_fit(x[:, 1:], y).r2 == pytest.approx(0)


def test_two_points_are_met_and_nothing_is_known_beyond():
    fit = polynomial_fit([[0.5, 0.0], [0.5, 3.0]], [0.2, 0.4])
    assert fit.r2 == 1
    assert np.isnan(fit.adjusted_r2)
    np.testing.assert_allclose(fit.prediction, [0.2, 0.4])


def test_values_that_do_not_vary_have_no_share():
    fit = polynomial_fit([[0.0], [1.0], [2.0], [3.0]], [0.3] * 4)
    assert np.isnan(fit.r2)
    assert np.isnan(fit.adjusted_r2)
    np.testing.assert_allclose(fit.at([[10.0]]), [0.3])


@pytest.mark.parametrize(
    ("x", "y", "degree", "message"),
    [
        ([1, 2], [1, 2], 2, r"x must have shape \(n, d\)"),
        ([[1], [2]], [1], 2, "y must have a value for each"),
        ([[1]], [1], 2, "at least 2"),
        ([[1], [2]], [1, np.nan], 2, "must be finite"),
        ([[1], [2]], [1, 2], 0, "degree must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_points_are_refused(x, y, degree, message):
    with pytest.raises(InputError, match=message):
        polynomial_fit(x, y, degree)


def test_points_must_have_as_many_variables():
    with pytest.raises(InputError, match=r"x must have shape \(m, 1\), got \(2, 2\)"):
        polynomial_fit([[0], [1], [2]], [0, 1, 2]).at([[1, 2], [3, 4]])
