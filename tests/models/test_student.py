"""Student-t models: densities against SciPy, EM by its properties, robustness by angles, conditionals by sampling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, stats
from sklearn.exceptions import ConvergenceWarning

from culpa import PPCA, Explainer, LatentGaussian, StudentPPCA, scores
from culpa.models.em import em
from culpa.models.latent import marginal
from culpa.models.student import robust_start


def student(d=5, p=2, nu=4.5, seed=0, alike=True):
    rng = np.random.default_rng(seed)
    noise = 0.3 if alike else 0.1 + rng.random(d)
    return LatentGaussian(rng.normal(size=d), rng.normal(size=(d, p)), noise, degrees_of_freedom=nu)


def scipy_t(model, features=None):
    """The distribution of some features, with SciPy's scale matrix."""
    at, nu = np.arange(model.n_features) if features is None else np.array(features), model.degrees_of_freedom
    return stats.multivariate_t(model.mean[at], model.covariance[np.ix_(at, at)] * (nu - 2) / nu, df=nu)


def factors(n, d=8, p=3, seed=0):
    """Rows, and the plane that they lie near."""
    rng, W = np.random.default_rng(seed), np.random.default_rng(42).normal(size=(p, d))
    return rng.normal(size=(n, p)) @ W + 0.5 * rng.normal(size=(n, d)) + 10 * np.arange(d), linalg.orth(W.T)


def angle(model, plane):
    return np.degrees(linalg.subspace_angles(model.components_.T, plane).max())


def observed_log_likelihood(X, scale, nu):
    """Of the observed cells, by SciPy."""
    total = 0.0
    for row in X:
        at = np.flatnonzero(~np.isnan(row))
        if len(at):
            total += stats.multivariate_t(scale.mean[at], scale.covariance[np.ix_(at, at)], df=nu).logpdf(row[at])
    return total


class TestDistribution:
    @pytest.mark.parametrize("alike", [True, False])
    def test_density(self, alike):
        model = student(alike=alike)
        X = 3 * np.random.default_rng(1).normal(size=(6, 5))
        np.testing.assert_allclose(model.log_density(X), scipy_t(model).logpdf(X), rtol=1e-12)
        X[:, [0, 3]] = np.nan
        np.testing.assert_allclose(model.log_density(X), scipy_t(model, [1, 2, 4]).logpdf(X[:, [1, 2, 4]]), rtol=1e-12)
        np.testing.assert_allclose(marginal(model, [1, 2, 4]).log_density(X[:, [1, 2, 4]]), model.log_density(X))

    def test_sample_has_the_covariance_and_the_tails(self):
        model = student(nu=6.0)
        X = model.sample(200_000, seed=0)
        np.testing.assert_allclose(np.cov(X.T), model.covariance, atol=0.03 * np.diag(model.covariance).max())
        # the squared distance of Student rows, over d, follows an F distribution
        f = model.squared_distance(X) * 6 / 4 / 5
        assert stats.kstest(f[:5000], stats.f(5, 6).cdf).pvalue > 0.01

    def test_conditional_covariance_by_sampling(self):
        """Rows near given values of two features have the variance that the formula says."""
        model = LatentGaussian(np.zeros(3), [[1.0], [0.8], [0.6]], 0.3, degrees_of_freedom=5.0)
        X = model.sample(3_000_000, seed=0)
        for at, factor in ((0.0, 0.6), (2.6, 2.09)):
            near = X[(np.abs(X[:, :2] - at) < 0.1).all(axis=1)]
            row = np.array([[at, at, np.nan]])
            mean, covariance = model.conditional(np.nan_to_num(row), [0, 1])
            assert model.spread_factor(row)[0] == pytest.approx(factor, abs=0.01)  # so that a Gaussian would fail
            expected = covariance[2, 2] * model.spread_factor(row)[0]
            squares = (near[:, 2] - mean[0, 2]) ** 2
            error = squares.std() / np.sqrt(len(near))
            assert abs(squares.mean() - expected) < 4 * error
            assert error < 0.1 * expected

    def test_gaussian_rows_are_unchanged(self):
        X = np.array([[1.0, np.nan, 3.0, 0.0, 1.0]])
        assert student(nu=np.inf).spread_factor(X) == 1
        assert student(nu=np.inf).tail == 0

    def test_two_degrees_are_too_few(self):
        with pytest.raises(ValueError, match="more than 2"):
            student(nu=2.0)


class TestExpectation:
    @settings(deadline=None, max_examples=25)
    @given(st.integers(0, 10**6), st.floats(0.0, 0.4), st.booleans())
    def test_the_observed_likelihood_never_decreases(self, seed, missing, fixed):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(12, 40)), int(rng.integers(3, 6))
        p = int(rng.integers(1, d))
        X = rng.standard_t(rng.uniform(1.0, 10.0), size=(n, p)) @ rng.normal(size=(p, d)) + rng.normal(size=(n, d))
        X[rng.random(X.shape) < missing] = np.nan
        X[:2] = rng.normal(size=(2, d))  # no column is empty
        start, nu = robust_start(X, p), 4.0 if fixed else None
        results = [em(X, start, max_iter=k, tol=0.0, degrees_of_freedom=nu) for k in range(1, 7)]
        likelihood = [observed_log_likelihood(X, result.model, result.degrees_of_freedom) for result in results]
        assert (np.diff(likelihood) >= -1e-7 * np.abs(likelihood[0])).all(), likelihood

    def test_the_result_is_a_maximum(self):
        """No nearby degrees of freedom and no nearby scale is more likely."""
        X = student(nu=5.0, seed=3).sample(300, seed=1)
        found = em(X, robust_start(X, 2), max_iter=2000, tol=1e-10, degrees_of_freedom=None)
        best = observed_log_likelihood(X, found.model, found.degrees_of_freedom)
        for factor in (0.98, 1.02):
            assert observed_log_likelihood(X, found.model, found.degrees_of_freedom * factor) < best
            scale = LatentGaussian(found.model.mean, found.model.loadings * factor, found.model.noise_variance)
            assert observed_log_likelihood(X, scale, found.degrees_of_freedom) < best
            noisier = LatentGaussian(found.model.mean, found.model.loadings, found.model.noise_variance * factor)
            assert observed_log_likelihood(X, noisier, found.degrees_of_freedom) < best
        assert 3.5 < found.degrees_of_freedom < 8

    def test_gaussian_rows_have_many_degrees_of_freedom(self):
        assert StudentPPCA(3).fit(factors(2000)[0]).degrees_of_freedom_ > 50


class TestEstimator:
    @pytest.mark.parametrize("missing", [0.0, 0.15])
    def test_many_degrees_of_freedom_equal_ppca(self, missing):
        X = factors(200)[0]
        X[np.random.default_rng(1).random(X.shape) < missing] = np.nan
        gaussian, heavy = PPCA(3).fit(X), StudentPPCA(3, degrees_of_freedom=1e8).fit(X)
        for name in ("mean_", "covariance_", "explained_variance_", "noise_variance_"):
            np.testing.assert_allclose(getattr(heavy, name), getattr(gaussian, name), rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(heavy.get_covariance(), gaussian.get_covariance(), rtol=1e-6, atol=1e-6)
        rows = factors(5, seed=9)[0]
        rows[0, 2], rows[1, 4] = 100.0, np.nan
        why, usual = (Explainer(model, score="mahalanobis").explain(rows) for model in (heavy, gaussian))
        np.testing.assert_allclose(why.values, usual.values, rtol=1e-5, atol=1e-6 * np.abs(usual.values).max())
        np.testing.assert_allclose(why.score, usual.score, rtol=2e-6)

    @pytest.mark.parametrize("kind", ["one cluster", "scattered", "single cells"])
    def test_gross_outliers_turn_the_plane_less_than_that_of_ppca(self, kind):
        X, plane = factors(400)
        rng = np.random.default_rng(5)
        bad = rng.permutation(400)[:40]
        if kind == "one cluster":
            X[bad] += 60 * rng.normal(size=8)
        elif kind == "scattered":
            X[bad] += 40 * rng.normal(size=(40, 8))
        else:
            X[bad, rng.integers(0, 8, size=40)] += 80
        robust, usual, clean = StudentPPCA(3).fit(X), PPCA(3).fit(X), PPCA(3).fit(factors(400)[0])
        assert angle(clean, plane) < angle(robust, plane) < (12.0 if kind == "one cluster" else 5.0)
        assert angle(usual, plane) > 50.0

    def test_a_share_of_the_variance_is_that_of_normal_rows(self):
        X = factors(400)[0]
        dirty = X.copy()
        dirty[::10] += 300 * np.random.default_rng(0).normal(size=(40, 8))
        assert StudentPPCA(0.9).fit(dirty).n_components_ == StudentPPCA(0.9).fit(X).n_components_ == 3

    def test_fits_are_deterministic(self):
        X = factors(100)[0]
        X[3, 2] = np.nan
        first, second = StudentPPCA(0.8).fit(X), StudentPPCA(0.8).fit(X)
        assert (first.get_covariance() == second.get_covariance()).all()
        assert first.degrees_of_freedom_ == second.degrees_of_freedom_

    def test_large_means_lose_no_digits(self):
        X = factors(200)[0]
        near, far = StudentPPCA(3).fit(X), StudentPPCA(3).fit(X + 1e8)
        np.testing.assert_allclose(far.get_covariance(), near.get_covariance(), rtol=1e-5, atol=1e-6)

    def test_constant_columns_and_few_rows(self):
        X = np.column_stack([factors(30)[0], np.full(30, 7.0)])
        assert np.isfinite(StudentPPCA(2).fit(X).get_covariance()).all()
        assert np.isfinite(StudentPPCA(2).fit(X[:4]).get_covariance()).all()
        assert np.isfinite(StudentPPCA(0.9).fit(X[:2]).get_covariance()).all()

    def test_rows_in_a_plane_recover(self):
        """Without any noise the noise variance stays at its floor."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 5))
        model = StudentPPCA(2).fit(X)
        assert 0 < model.noise_variance_ < 1e-9
        np.testing.assert_allclose(model.reconstruct(X), X, atol=1e-6)

    def test_what_cannot_be_learned_is_refused(self):
        X = factors(60)[0]
        same = np.tile(X[:1], (60, 1))
        with pytest.raises(ValueError, match="no column of X varies"):
            StudentPPCA(2).fit(same)
        same[:6] = X[:6]
        with pytest.raises(ValueError, match="most rows of X are equal"):
            StudentPPCA(2).fit(same)
        with pytest.raises(ValueError, match="needs at least 6 rows, got 4"):
            StudentPPCA(5).fit(X[:4])
        with pytest.raises(ValueError, match="must be less than the number of features, 8"):
            StudentPPCA(8).fit(X)
        with pytest.raises(ValueError, match="degrees_of_freedom must be a number above 2"):
            StudentPPCA(degrees_of_freedom=2).fit(X)
        with pytest.raises(ValueError, match="n_components must be"):
            StudentPPCA("mle").fit(X)
        X[:, 3] = np.nan
        with pytest.raises(ValueError, match="only NaN"):
            StudentPPCA(2).fit(X)

    def test_rows_are_needed_all_at_once(self):
        assert not hasattr(StudentPPCA(), "partial_fit")
        with pytest.raises(ValueError, match="the rows themselves"):
            StudentPPCA()._fit_moments(None)

    def test_few_steps_warn(self):
        with pytest.warns(ConvergenceWarning, match="max_iter of StudentPPCA"):
            StudentPPCA(3, max_iter=2).fit(factors(100)[0])

    def test_the_retraining_game_is_refused(self):
        with pytest.raises(ValueError, match="retrains a PCA, which a Student model is not"):
            Explainer(StudentPPCA(3).fit(factors(100)[0]), game="retraining")


class TestScoresOfRowsWithMissingCells:
    @pytest.mark.parametrize("n", [3, 60])  # few rows go by pattern, many alone
    @pytest.mark.parametrize("name", ["spe", "t2", "mahalanobis"])
    def test_expected_score_by_the_dense_formula(self, n, name):
        g = LatentGaussian(np.zeros(5), student().loadings, 0.3, degrees_of_freedom=4.5)
        score, rng = getattr(scores, name)(g), np.random.default_rng(2)
        X = 2 * rng.normal(size=(n, 5))
        X[rng.random(X.shape) < 0.4] = np.nan
        X[:, 0] = 1.0
        scale, A, nu = g.covariance * 2.5 / 4.5, score.matrix, 4.5
        for row, value in zip(X, score(X), strict=True):
            S, H = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
            inverse = np.linalg.inv(scale[np.ix_(S, S)])
            mean = row.copy()
            mean[H] = scale[np.ix_(H, S)] @ inverse @ row[S]
            left = scale[np.ix_(H, H)] - scale[np.ix_(H, S)] @ inverse @ scale[np.ix_(S, H)]
            covariance = left * (nu + row[S] @ inverse @ row[S]) / (nu + len(S) - 2)
            expected = mean @ A @ mean + (A[np.ix_(H, H)] * covariance).sum()
            assert value == pytest.approx(expected, rel=1e-11)

    def test_score_if_fixed_is_the_score_of_the_fixed_row(self):
        g = LatentGaussian(np.zeros(5), student().loadings, 0.3, degrees_of_freedom=4.5)
        score = scores.spe(g)
        X = 2 * np.random.default_rng(2).normal(size=(4, 5))
        X[0, 1] = X[2, 3] = X[2, 4] = np.nan
        expected, blocks = g.expected(X), [[i] for i in range(5)]
        found = score.if_fixed(X, score(X), expected, blocks)
        for k in range(5):
            fixed = X.copy()
            fixed[:, k] = np.where(np.isnan(X[:, k]), np.nan, expected[:, k])
            seen = ~np.isnan(X[:, k])
            np.testing.assert_allclose(found[seen, k], score(fixed)[seen], rtol=1e-9)
