"""What settings and chance explain, against scipy, scikit-learn, loops and simulated groups."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.preprocessing import PolynomialFeatures

from curvewise.stats.variance import explained, polynomial_fit, variance_parts


@pytest.mark.parametrize("sizes", [[8] * 8, [2, 3], [1, 20, 2]])
def test_variances_are_those_of_a_loop_over_values(sizes):
    rng, n, k = np.random.default_rng(3), sum(sizes), len(sizes)
    groups = [5 * rng.normal() + rng.normal(size=size) for size in sizes]
    means = [sum(group) / len(group) for group in groups]
    grand = sum(sum(group) for group in groups) / n
    named = zip(groups, means, strict=True)
    inside = sum((value - mean) ** 2 for group, mean in named for value in group) / (n - k)
    around = zip(sizes, means, strict=True)
    across = sum(size * (mean - grand) ** 2 for size, mean in around) / (k - 1)
    assert across / inside == pytest.approx(stats.f_oneway(*groups).statistic)
    # How much a unit of variance between groups adds to their mean square.
    weight = sum(size * (1 - size / n) for size in sizes) / (k - 1)
    between, within = variance_parts(groups)
    assert within == pytest.approx(inside)
    assert between == pytest.approx((across - inside) / weight)
    assert between > 0


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
    np.testing.assert_allclose(fit.at(x), expected, atol=1e-7)
    elsewhere = np.random.default_rng(9).uniform(-1, 4, (20, d))
    expected = oracle.predict(features.transform(elsewhere))
    np.testing.assert_allclose(fit.at(elsewhere), expected, atol=1e-6)
    terms = features.n_output_features_
    assert len(fit.terms) == len(fit.coefficients) == terms
    assert fit.adjusted_r2 == pytest.approx(1 - (1 - fit.r2) * (60 - 1) / (60 - terms))


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
    again = (other.at(x * stretch * sign + shift) - shift[1]) / (stretch[0] * sign)
    np.testing.assert_allclose(again, fit.at(x), atol=1e-5)


def test_more_terms_never_explain_less_and_a_constant_variable_nothing():
    x, y = noisy_points(3)
    shares = [polynomial_fit(x, y, degree).r2 for degree in (1, 2, 3)]
    assert shares == sorted(shares)
    assert polynomial_fit(x[:, :1], y).r2 <= shares[1]
    x, y = noisy_points(5)
    alone = polynomial_fit(x[:, :1], y)
    x[:, 1:] = 0.1
    fit = polynomial_fit(x, y)
    assert (fit.r2, fit.adjusted_r2) == pytest.approx((alone.r2, alone.adjusted_r2))
    assert polynomial_fit(x[:, 1:], y).r2 == pytest.approx(0)


def test_two_points_are_met_and_what_does_not_vary_has_no_share():
    fit = polynomial_fit([[0.5, 0.0], [0.5, 3.0]], [0.2, 0.4])
    assert (fit.r2, fit.adjusted_r2) == pytest.approx((1, np.nan), nan_ok=True)
    np.testing.assert_allclose(fit.at([[0.5, 0.0], [0.5, 3.0]]), [0.2, 0.4])
    fit = polynomial_fit([[0.0], [1.0], [2.0], [3.0]], [0.3] * 4)
    assert np.isnan([fit.r2, fit.adjusted_r2]).all()
    np.testing.assert_allclose(fit.at([[10.0]]), [0.3])
    between, within = variance_parts([[0.1] * 3, [0.3] * 3])
    assert between > within == 0
    assert variance_parts([[1.0, 3.0], [0.0, 4.0]])[0] == 0
    for groups in ([[0.1] * 3, [0.1] * 3], [[1.0, 2.0]], [[1.0], [2.0]], []):
        assert np.isnan(variance_parts(groups)).all()


def test_settings_and_chance_are_set_beside_each_other():
    x, y = noisy_points(1, d=2)
    grid = pd.DataFrame({"omega": x[:, 0], "tau": x[:, 1], "auc": y, "still": 0.5})
    grid.loc[7, "auc"] = np.nan  # a model that diverged
    there = np.arange(60) != 7
    again = [(0, [1.0, 3.0]), (1, [5.0, 7.0])]
    rows = [{"omega": o, "tau": 0, "auc": v, "still": 0.5} for o, values in again for v in values]
    first, second = explained(grid, pd.DataFrame(rows), ["omega", "tau"], ["auc", "still"]).to_dict(
        "records"
    )
    assert first["R2"] == polynomial_fit(x[there], y[there]).r2
    assert first["R2, tau alone"] == polynomial_fit(x[there, 1:], y[there]).r2
    assert first["std"] == pytest.approx(np.std(y[there], ddof=1))
    assert first["share of chance"] == pytest.approx(2 / np.var(y[there], ddof=1))
    assert first["settled"] == pytest.approx(7 / 9)
    assert np.isnan([second["R2"], second["share of chance"], second["settled"]]).all()
