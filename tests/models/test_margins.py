"""Margins: normal scores by their definition, increasing and finite everywhere, and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from culpa.models.margins import Margin, Margins, Tail


def columns(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [
            rng.normal(size=n),
            rng.exponential(size=n),
            rng.random(n),
            rng.standard_t(2, size=n),
            rng.integers(0, 4, size=n),
            rng.random(n) < 0.03,
            np.full(n, 3.0),
        ]
    )


def test_scores_of_training_values_are_their_mid_ranks():
    x = np.array([5.0, 1.0, 2.0, 2.0, np.nan, 9.0])
    expected = stats.norm.ppf((stats.rankdata(x[~np.isnan(x)]) - 0.5) / 5)
    np.testing.assert_allclose(Margin.of(x).to_normal(x[~np.isnan(x)]), expected, atol=1e-15)
    assert np.isnan(Margin.of(x).to_normal(np.array([np.nan]))).all()


@pytest.mark.parametrize("n", [2, 3, 10, 300, 5000])
def test_every_number_has_a_finite_score_and_larger_numbers_larger_ones(n):
    margins = Margins.of(columns(n))
    reach = np.concatenate([np.linspace(-30, 30, 2001), [-1e12, -1e4, 1e4, 1e12]])
    grid = np.tile(np.sort(reach)[:, None], (1, 7))
    Z = margins.to_normal(grid)
    assert np.isfinite(Z).all()
    assert (np.diff(Z, axis=0) > 0).all()
    np.testing.assert_allclose(margins.to_user(Z), grid, rtol=1e-6, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 2)), min_size=1, max_size=60), st.floats(-1e7, 1e7))
def test_any_column_has_an_increasing_margin(values, new):
    margin = Margin.of(np.array(values))
    x = np.unique([*values, new, new + 1.0])
    z = margin.to_normal(x)
    assert np.isfinite(z).all()
    assert (np.diff(z) >= -1e-12).all()  # to rounding, for numbers of 1e-160
    known = np.isin(x, values)
    np.testing.assert_allclose(margin.to_user(z)[known], x[known], rtol=1e-9, atol=1e-9)


def test_large_columns_keep_few_knots_and_little_error():
    x = np.random.default_rng(0).gamma(2.0, size=50_000)
    margin = Margin.of(x)
    assert len(margin.values) <= 513
    exact = stats.norm.ppf((stats.rankdata(x) - 0.5) / len(x))
    assert np.abs(margin.to_normal(x) - exact).max() < 0.03


@pytest.mark.parametrize(
    ("distribution", "low", "high"),
    [(stats.norm, 0.0, 0.05), (stats.expon, 0.0, 0.15), (stats.pareto(3.0), 0.2, 0.5), (stats.uniform, 0.0, 0.0)],
)
def test_tails_are_as_heavy_as_those_of_the_distribution(distribution, low, high):
    x = np.sort(distribution.rvs(size=20_000, random_state=0))
    assert low <= Tail.of(x).shape <= high


def test_scores_beyond_the_training_values_are_about_right():
    """Of exponential values the tail is exact: P(x > 25) = exp(-25)."""
    margin = Margin.of(np.random.default_rng(3).exponential(size=20_000))
    found = margin.to_normal(np.array([15.0, 25.0]))
    np.testing.assert_allclose(found, stats.norm.isf(np.exp([-15.0, -25.0])), rtol=0.06)


def test_constant_columns_count_in_their_own_units():
    margin = Margin.of(np.full(10, 7.0))
    np.testing.assert_array_equal(margin.to_normal(np.array([7.0, 9.5])), [0.0, 2.5])
    np.testing.assert_array_equal(margin.to_user(np.array([0.0, 2.5])), [7.0, 9.5])


def test_arrays_and_back():
    margins = Margins.of(columns(2000))
    again = Margins.from_arrays(margins.to_arrays())
    X = 3 * np.random.default_rng(1).normal(size=(50, 7))
    np.testing.assert_array_equal(again.to_normal(X), margins.to_normal(X))
    np.testing.assert_array_equal(again.to_user(X), margins.to_user(X))
    assert again.are_increasing
    arrays = margins.to_arrays()
    arrays["values"] = arrays["values"][::-1]
    assert not Margins.from_arrays(arrays).are_increasing
