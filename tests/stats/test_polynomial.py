"""Polynomials by least squares, against scikit-learn, and what no change of units may change."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.preprocessing import PolynomialFeatures

from curvewise import InputError
from curvewise.stats.polynomial import polynomial_fit


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
def test_bad_input_is_refused(x, y, degree, message):
    with pytest.raises(InputError, match=message):
        polynomial_fit(x, y, degree)


def test_points_must_have_as_many_variables():
    with pytest.raises(InputError, match=r"x must have shape \(m, 1\), got \(2, 2\)"):
        polynomial_fit([[0], [1], [2]], [0, 1, 2]).at([[1, 2], [3, 4]])
