"""Expected moments of rows with missing cells: both ways of filling them in against the textbook formula."""

import numpy as np
import pytest

from culpa import PPCA, LatentGaussian
from culpa.models import em as em_module
from culpa.models.em import _fill_few, _fill_many, em, expected


def model(d=9, p=3, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return LatentGaussian(rng.normal(size=d), rng.normal(size=(d, p)), noise)


def with_holes(gaussian, n=80, share=0.3, seed=1):
    rng = np.random.default_rng(seed)
    d = len(gaussian.mean)
    X = rng.multivariate_normal(gaussian.mean, gaussian.covariance, size=n)
    X[rng.random(X.shape) < share] = np.nan
    X[:3] = np.nan  # nothing observed
    X[3, 1:] = np.nan
    X[4] = np.where(np.arange(d) == 2, np.nan, 1.0)
    return X[np.isnan(X).any(axis=1)]


def textbook(rows, gaussian):
    """Conditional means, and the sum of the conditional covariances, row by row."""
    filled, scatter = rows.copy(), np.zeros_like(gaussian.covariance)
    C = gaussian.covariance
    for row in filled:
        hidden, seen = np.flatnonzero(np.isnan(row)), np.flatnonzero(~np.isnan(row))
        pull = np.linalg.solve(C[np.ix_(seen, seen)], C[np.ix_(seen, hidden)])
        row[hidden] = gaussian.mean[hidden] + (row[seen] - gaussian.mean[seen]) @ pull
        scatter[np.ix_(hidden, hidden)] += C[np.ix_(hidden, hidden)] - C[np.ix_(hidden, seen)] @ pull
    return filled, scatter


@pytest.mark.parametrize("fill", [_fill_few, _fill_many])
@pytest.mark.parametrize("noise", [2.0, 0.3, 1e-3])
def test_filling_against_the_textbook(fill, noise):
    gaussian = model(noise=noise)
    rows = with_holes(gaussian)
    scatter = np.full((9, 9), 5.0)  # it is added to
    filled = fill(rows, np.isnan(rows), np.full(len(rows), 2.0), gaussian, scatter)
    wanted, added = textbook(rows, gaussian)
    np.testing.assert_allclose(filled, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scatter, 5 + 2 * added, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fill", [_fill_few, _fill_many])
def test_each_row_has_its_own_weight(fill):
    gaussian = model()
    rows = with_holes(gaussian, 12)
    parts = [np.zeros((9, 9)) for _ in rows]
    for row, part in zip(rows, parts, strict=True):
        fill(row[None], np.isnan(row[None]), np.ones(1), gaussian, part)
    weights, scatter = np.arange(1.0, 1.0 + len(rows)), np.zeros((9, 9))
    fill(rows, np.isnan(rows), weights, gaussian, scatter)
    np.testing.assert_allclose(scatter, np.einsum("n,nij->ij", weights, parts), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fill", [_fill_few, _fill_many])
def test_chunks_do_not_matter(fill, monkeypatch):
    gaussian = model()
    rows = with_holes(gaussian)
    monkeypatch.setattr(em_module, "_CHUNK", 40)
    scatter = np.zeros((9, 9))
    filled = fill(rows, np.isnan(rows), np.ones(len(rows)), gaussian, scatter)
    wanted, added = textbook(rows, gaussian)
    np.testing.assert_allclose(filled, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scatter, added, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fill", [_fill_few, _fill_many])
def test_no_rows(fill):
    scatter = np.zeros((9, 9))
    assert fill(np.empty((0, 9)), np.empty((0, 9), dtype=bool), np.empty(0), model(), scatter).shape == (0, 9)
    assert not scatter.any()


@pytest.mark.parametrize("few", [0, 3, 99])
def test_the_border_between_both_does_not_matter(few, monkeypatch):
    gaussian, start = model(), model(seed=5)
    X = with_holes(gaussian, 200, share=0.1)
    X = np.vstack([X, np.random.default_rng(2).multivariate_normal(gaussian.mean, gaussian.covariance, size=50)])
    wanted, covariance = em(X, start, max_iter=15, tol=0.0).model, expected(X, start).covariance
    monkeypatch.setattr(em_module, "_FEW_HIDDEN", few)
    np.testing.assert_allclose(em(X, start, max_iter=15, tol=0.0).model.covariance, wanted.covariance, rtol=1e-8)
    np.testing.assert_allclose(expected(X, start).covariance, covariance, rtol=1e-9, atol=1e-9)


def test_tiny_noise_goes_through_the_latent_variables():
    """Where the precision matrix would lose digits; the filled cells are still those of the plane."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 6))
    holes = X + 1e-6 * rng.normal(size=X.shape)
    holes[rng.random(X.shape) < 0.1] = np.nan
    np.testing.assert_allclose(PPCA(2).fit(holes).reconstruct(holes), X, atol=1e-4)
