"""Suspicious cells: found where they were planted, and the subspace of the rest is that of clean rows."""

import numpy as np
import pytest
from scipy import stats

from culpa.models.cells import _Search, flag_cells
from culpa.models.em import em
from culpa.models.latent import LatentGaussian
from culpa.models.univariate import location_and_scale, wrap


def simulated(n=300, d=15, p=3, seed=0):
    """Rows with p components, and the loadings behind them."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(d, p))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return rng.normal(size=(n, p)) @ W.T + 0.4 * rng.normal(size=(n, d)), W


def dirtied(X, share, how, seed=0, size=6.0):
    """Rows with a share of wrong cells: single ones, or every column for a stretch; and which cells these are."""
    rng = np.random.default_rng(seed)
    n, d = X.shape
    if how == "cells":
        wrong = rng.random((n, d)) < share
        signs = rng.choice([-1, 1], (n, d))
    else:
        length = int(share * n)
        start = rng.integers(0, n - length + 1, d)
        rows = np.arange(n)[:, None]
        wrong = (rows >= start) & (rows < start + length)
        signs = rng.choice([-1, 1], d)
    return np.where(wrong, X + size * X.std(axis=0) * signs, X), wrong


def fitted(X, p):
    """Principal subspace of standardised rows by expectation-maximisation, in the units of the rows."""
    mean, spread = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    Z = (X - mean) / spread
    filled = np.nan_to_num(Z)
    start = LatentGaussian.from_covariance(filled.T @ filled / len(X), p)
    return spread[:, None] * em(Z, start, max_iter=200, tol=1e-7).model.loadings


def distance(A, B):
    """Of two subspaces: norm of the sines of their principal angles."""
    a, b = np.linalg.qr(A)[0], np.linalg.qr(B)[0]
    return np.linalg.norm(a @ a.T - b @ b.T) / np.sqrt(2)


def without(X, flags):
    return np.where(flags.mask, np.nan, X)


@pytest.mark.parametrize("how", ["cells", "stretch"])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_subspace_of_dirty_rows_is_nearly_that_of_clean_rows(share, how):
    X, W = simulated()
    dirty, wrong = dirtied(X, share, how)
    flags = flag_cells(dirty)
    assert flags.mask[wrong].mean() > 0.99
    assert flags.mask[~wrong].mean() < 0.002
    error = distance(fitted(without(dirty, flags), 3), W)
    assert error < 0.5 * distance(fitted(dirty, 3), W)
    assert error < 1.4 * distance(fitted(X, 3), W)


@pytest.mark.parametrize("seed", range(3))
def test_clean_rows_lose_next_to_nothing(seed):
    X, W = simulated(seed=seed)
    flags = flag_cells(X)
    assert flags.mask.mean() < 0.001
    assert flags.converged
    assert distance(fitted(without(X, flags), 3), W) < 1.1 * distance(fitted(X, 3), W)


def test_small_wrong_cells_are_found_up_to_a_tenth():
    X, W = simulated(n=500, d=20, p=4, seed=1)
    dirty, wrong = dirtied(X, 0.1, "cells", size=3.0)
    flags = flag_cells(dirty)
    assert flags.mask[wrong].mean() > 0.85
    assert distance(fitted(without(dirty, flags), 4), W) < 0.5 * distance(fitted(dirty, 4), W)


def test_residuals_are_standardised_and_expected_values_are_near_the_true_ones():
    X, _ = simulated()
    dirty, _ = dirtied(X, 0.05, "cells")
    flags = flag_cells(dirty)
    keep = ~flags.mask
    residual = flags.residual[keep]
    assert abs(np.median(residual)) < 0.1
    assert stats.median_abs_deviation(residual) * 1.4826 == pytest.approx(1, abs=0.1)
    # expected values are what the clean cells were, up to noise
    assert np.std((flags.expected - X)[flags.mask]) < 1.3 * 0.4


def test_judging_is_conditioning_on_the_other_cells():
    """The formulas with latent variables, and the downdates of the greedy search, against dense Gaussian conditionals."""
    rng = np.random.default_rng(3)
    Z = simulated(n=40, d=7, p=2)[0]
    Z[3, 2] += 9
    Z[5, [0, 4]] += 9
    search = _Search(Z, 2)
    used = rng.random(Z.shape) < 0.8
    model = search.model
    fit, residual = search.judge(used)
    for i, j in np.ndindex(*Z.shape):
        others = [k for k in np.flatnonzero(used[i]) if k != j]
        mean, covariance = model.conditional(Z[i : i + 1], others)
        assert fit[i, j] == pytest.approx(mean[0, j], abs=1e-9)
        assert residual[i, j] == pytest.approx((Z[i, j] - mean[0, j]) / np.sqrt(covariance[j, j]), abs=1e-9)
    every = np.ones_like(used)
    kept = search.without_worst(Z, every, every, 3.0)
    for i in range(len(Z)):
        left = list(range(7))
        while len(left) > 4:
            size = {}
            for j in left:
                expected, covariance = model.conditional(Z[i : i + 1], [k for k in left if k != j])
                size[j] = abs(Z[i, j] - expected[0, j]) / np.sqrt(covariance[j, j])
            worst = max(size, key=size.get)
            if size[worst] <= 3:
                break
            left.remove(worst)
        assert np.flatnonzero(kept[i]).tolist() == left
    assert not kept[3, 2]


def test_missing_cells_are_neither_judged_nor_needed():
    X, _ = simulated()
    dirty, wrong = dirtied(X, 0.05, "cells")
    missing = np.random.default_rng(9).random(X.shape) < 0.1
    missing[4] = True  # a whole row
    dirty[missing] = np.nan
    flags = flag_cells(dirty)
    assert not flags.mask[missing].any()
    assert np.isnan(flags.residual[missing]).all()
    assert np.isnan(flags.expected[missing]).all()
    assert flags.mask[wrong & ~missing].mean() > 0.99


def test_columns_that_hardly_vary_are_not_judged():
    X, _ = simulated()
    X[:, 2] = 7.0
    X[:, 5] = 0.0
    X[:5, 5] = 1.0
    flags = flag_cells(X)
    assert not flags.mask[:, [2, 5]].any()
    assert np.isnan(flags.residual[:, [2, 5]]).all()
    assert not flag_cells(np.ones((20, 3))).mask.any()
    assert not flag_cells(X[:, [0, 2]]).mask.any()


def test_exact_relations_do_not_turn_rounding_into_suspicion():
    X = np.random.default_rng(0).normal(size=(200, 2)) @ np.random.default_rng(1).normal(size=(2, 6)) + 1e6
    X[11, 3] += 1.0
    flags = flag_cells(X)
    assert flags.mask[11, 3]
    assert flags.mask.sum() == 1
    assert flags.expected[11, 3] == pytest.approx(X[11, 3] - 1, abs=0.05)


def test_units_do_not_matter():
    X, _ = simulated()
    dirty, _ = dirtied(X, 0.05, "cells")
    units = np.geomspace(1e-6, 1e6, X.shape[1])
    np.testing.assert_array_equal(flag_cells(dirty).mask, flag_cells(dirty * units + 5 * units).mask)


def test_more_columns_than_rows():
    X, _ = simulated(n=60, d=100)
    dirty, wrong = dirtied(X, 0.05, "cells")
    flags = flag_cells(dirty)
    assert flags.mask[wrong].mean() > 0.99
    assert flags.mask[~wrong].mean() < 0.01


def test_no_column_loses_more_than_two_fifths():
    X, _ = simulated()
    rng = np.random.default_rng(0)
    X[:150, 0] = 50 * rng.normal(size=150)
    assert flag_cells(X).mask[:, 0].mean() <= 0.4


def test_a_row_loses_more_than_half_only_by_cells_that_are_far_off():
    X, _ = simulated(d=12)
    rng = np.random.default_rng(0)
    X[0] = 1e6
    X[1, :10] += rng.choice([-1, 1], 10) * rng.uniform(8, 20, 10)
    X[2:40, :10] += rng.choice([-1, 1], (38, 10)) * rng.uniform(1, 3, (38, 10))
    flags = flag_cells(X)
    assert flags.mask[:2].sum(axis=1).tolist() == [12, 10]
    location, scale = location_and_scale(X)
    near = np.abs(X - location) <= 3 * scale
    assert flags.mask[(flags.mask & near).any(axis=1)].sum(axis=1).max() in (4, 5, 6)


def test_few_rows_are_refused():
    with pytest.raises(ValueError, match="9 rows are too few"):
        flag_cells(np.zeros((9, 3)))


def test_location_and_scale():
    rng = np.random.default_rng(0)
    x = rng.normal(5, 2, size=2000)
    location, scale = location_and_scale(
        np.column_stack([x, np.where(rng.random(2000) < 0.3, 100.0, x), np.ones(2000)])
    )
    np.testing.assert_allclose(location, [5, 5, 1], atol=0.25)
    np.testing.assert_allclose(scale, [2, 2, 0], rtol=0.1)
    np.testing.assert_allclose(location_and_scale(x[:, None] + 1e9)[1], scale[:1], rtol=1e-6)
    missing = np.where(np.arange(2000) % 2 == 0, np.nan, x)[:, None]
    np.testing.assert_array_equal(location_and_scale(missing), location_and_scale(x[1::2, None]))


def test_wrap():
    z = np.array([0.0, 1.0, -1.0, 1.5, 3.0, -3.0, 4.0, 50.0, np.nan])
    wrapped = wrap(z)
    np.testing.assert_array_equal(wrapped[:4], z[:4])
    assert 0 < wrapped[4] == -wrapped[5] < 1.5
    np.testing.assert_array_equal(wrapped[6:], 0)
    assert wrap(np.array([1.5 + 1e-9]))[0] == pytest.approx(1.5, abs=1e-4)  # no jump
