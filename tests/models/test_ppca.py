"""LatentGaussian against dense textbook formulas, PPCA against maximum likelihood, EM against both."""

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import PCA, FactorAnalysis, IncrementalPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from culpa import PPCA, Explainer, LatentGaussian
from culpa.models import as_fitted_model
from culpa.models.em import em
from culpa.models.latent import marginal


def factors(n=300, d=6, p=2, noise=0.4, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(p, d))
    return rng.normal(size=(n, p)) @ W + noise * rng.normal(size=(n, d)) + np.arange(d)


@pytest.fixture(params=["one noise variance", "one per feature"])
def gaussian(request):
    rng = np.random.default_rng(0)
    noise = 0.3 if request.param == "one noise variance" else 0.1 + rng.random(5)
    return LatentGaussian(rng.normal(size=5), rng.normal(size=(5, 2)), noise)


def test_density_and_marginals(gaussian):
    X = np.random.default_rng(1).normal(size=(4, 5))
    dense = stats.multivariate_normal(gaussian.mean, gaussian.covariance)
    np.testing.assert_allclose(gaussian.log_density(X), dense.logpdf(X), rtol=1e-12)
    part = marginal(gaussian, [3, 1])
    np.testing.assert_allclose(part.covariance, gaussian.covariance[np.ix_([3, 1], [3, 1])], rtol=1e-12)
    np.testing.assert_allclose(part.mean, gaussian.mean[[3, 1]])
    holes = X.copy()
    holes[:, [0, 2, 4]] = np.nan
    np.testing.assert_allclose(gaussian.log_density(holes), part.log_density(X[:, [3, 1]]), rtol=1e-12)


@pytest.mark.parametrize("observed", [[], [2], [0, 3], [0, 1, 2, 3, 4]])
def test_conditional(gaussian, observed):
    X = np.random.default_rng(1).normal(size=(3, 5))
    C, hidden = gaussian.covariance, [i for i in range(5) if i not in observed]
    gain = C[np.ix_(hidden, observed)] @ np.linalg.inv(C[np.ix_(observed, observed)])
    mean, covariance = gaussian.conditional(X, observed)
    np.testing.assert_allclose(mean[:, observed], X[:, observed])
    np.testing.assert_allclose(
        mean[:, hidden], gaussian.mean[hidden] + (X - gaussian.mean)[:, observed] @ gain.T, atol=1e-12
    )
    expected = np.zeros((5, 5))
    expected[np.ix_(hidden, hidden)] = C[np.ix_(hidden, hidden)] - gain @ C[np.ix_(observed, hidden)]
    np.testing.assert_allclose(covariance, expected, atol=1e-12)


def test_expected_is_the_conditional_mean_given_the_others(gaussian):
    X = np.random.default_rng(1).normal(size=(3, 5))
    X[1, 2] = np.nan
    expected = gaussian.expected(X)
    for row in range(3):
        for i in range(5):
            others = [j for j in range(5) if j != i and not np.isnan(X[row, j])]
            mean, _ = gaussian.conditional(np.nan_to_num(X[row : row + 1]), others)
            assert expected[row, i] == pytest.approx(mean[0, i], abs=1e-11)


def test_expected_of_blocks_ignores_the_block(gaussian):
    X = np.random.default_rng(1).normal(size=(2, 5))
    expected = gaussian.expected(X, [[0, 3], [1], [2], [4]])
    mean, _ = gaussian.conditional(X, [1, 2, 4])
    np.testing.assert_allclose(expected[:, [0, 3]], mean[:, [0, 3]], atol=1e-12)


@pytest.mark.parametrize("blocks", [None, [[0, 3], [1, 2], [4]]])
def test_a_huge_cell_does_not_change_what_the_others_imply_for_it(gaussian, blocks):
    X = np.random.default_rng(1).normal(size=(4, 5))
    X[0, 2], X[1, [0, 4]], X[2, 1], X[2, 0] = 1e90, -1e12, 1e5, np.nan
    expected = gaussian.expected(X, blocks)
    for row in range(len(X)):
        for block in blocks or [[i] for i in range(5)]:
            seen = [i for i in block if not np.isnan(X[row, i])]
            without = X[[row]]
            without[:, seen] = np.nan
            np.testing.assert_allclose(expected[row, seen], gaussian.impute(without)[0, seen], rtol=1e-10)


def test_samples_have_the_models_moments(gaussian):
    X = gaussian.sample(200_000, 0)
    np.testing.assert_allclose(X.mean(axis=0), gaussian.mean, atol=0.03)
    np.testing.assert_allclose(np.cov(X, rowvar=False), gaussian.covariance, atol=0.05)


def test_rotation_keeps_the_distribution():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(5, 3))
    np.testing.assert_allclose(LatentGaussian(np.zeros(5), W, 0.2).covariance, W @ W.T + 0.2 * np.eye(5), rtol=1e-12)


def rebuilt(model, X):
    model = as_fitted_model(model)
    return model.to_user_units(model.gaussian.reconstruct(model.standardise(X)))


def test_reconstruction_rules():
    X = factors()
    pca = PCA(2).fit(X)
    np.testing.assert_allclose(rebuilt(pca, X), pca.inverse_transform(pca.transform(X)))
    fa = FactorAnalysis(2).fit(X)
    by_hand = fa.transform(X) @ fa.components_ + fa.mean_
    np.testing.assert_allclose(rebuilt(fa, X), by_hand, rtol=1e-9)


def test_immutable():
    gaussian = LatentGaussian([0.0, 0.0], [[1.0], [1.0]], 1.0)
    with pytest.raises(ValueError, match="read-only"):
        gaussian.loadings[0, 0] = 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [[1.0], [1.0]], 1.0), "do not fit together"),
        (([0.0, 0.0], [[1.0], [1.0]], 0.0), "positive"),
        (([0.0, 0.0], [[1.0], [np.nan]], 1.0), "finite"),
        (([0.0, 0.0], [[1.0], [1.0]], [1.0, 1.0], "least-squares"), "posterior"),
        (([0.0, 0.0], [[1.0], [1.0]], 1.0, "median"), "unknown reconstruction"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        LatentGaussian(*arguments)


class TestPPCA:
    def test_closed_form_is_maximum_likelihood(self):
        X = factors()
        model = PPCA(2).fit(X)
        variances = np.linalg.eigvalsh(np.cov(X, rowvar=False))[::-1]
        assert model.noise_variance_ == pytest.approx(variances[2:].mean())
        np.testing.assert_allclose(model.explained_variance_, variances[:2])
        np.testing.assert_allclose(model.covariance_, np.cov(X, rowvar=False), atol=1e-12)
        best = model.score(X)
        rng = np.random.default_rng(1)
        for _ in range(20):  # no neighbour is more likely (up to the divisor n - 1 instead of n)
            W = model.gaussian_.loadings * (1 + 0.05 * rng.normal(size=(6, 2)))
            worse = LatentGaussian(model.mean_, W, model.noise_variance_ * (1 + 0.05 * rng.normal()))
            assert worse.log_density(X).mean() < best + 1e-5

    @pytest.mark.parametrize("missing", [False, True])
    def test_shrinkage_draws_the_covariance_towards_its_diagonal(self, missing):
        X = np.random.default_rng(3).normal(size=(12, 5)) @ np.random.default_rng(4).normal(size=(5, 5))
        if missing:
            X[0, 0] = np.nan
        model = PPCA(4, shrinkage=0.1).fit(X)
        S = model.covariance_ if missing else np.cov(X.T)
        wanted = 0.9 * S + 0.1 * np.diag(np.diag(S))
        np.testing.assert_allclose(model.get_covariance(), wanted, rtol=1e-8)
        np.testing.assert_allclose(model.covariance_, S)  # what the data say stays
        # the maximum-likelihood model of the shrunk covariance, also with fewer components
        variances, U = np.linalg.eigh(wanted)
        model = PPCA(2, shrinkage=0.1).fit(X)
        if not missing:
            s2 = variances[:3].mean()
            C = s2 * np.eye(5) + U[:, 3:] @ np.diag(variances[3:] - s2) @ U[:, 3:].T
            np.testing.assert_allclose(model.get_covariance(), C)

    def test_shrinkage_makes_up_for_missing_rows(self):
        X = np.random.default_rng(3).normal(size=(4, 6))
        model = PPCA(5, shrinkage=0.2).fit(X)
        np.testing.assert_allclose(model.get_covariance(), 0.8 * np.cov(X.T) + 0.2 * np.diag(np.cov(X.T).diagonal()))

    def test_noise_is_a_factor_on_the_noise_variance_alone(self):
        X = np.random.default_rng(3).normal(size=(40, 5)) * [5, 4, 1, 1, 1]
        plain = PPCA(2).fit(X)
        for factor in (0.1, 3.0):
            model = PPCA(2, noise=factor).fit(X)
            assert model.noise_variance_ == pytest.approx(factor * plain.noise_variance_)
            np.testing.assert_allclose(model.residuals(X), plain.residuals(X), atol=1e-12)
            np.testing.assert_allclose(model.explained_variance_, plain.explained_variance_)
            along = model.components_ @ model.get_covariance() @ model.components_.T
            np.testing.assert_allclose(along, np.diag(plain.explained_variance_), atol=1e-10)

    def test_bad_noise_and_shrinkage(self):
        X = np.random.default_rng(3).normal(size=(40, 5))
        for options in ({"noise": 0}, {"noise": -1.0}, {"noise": np.inf}):
            with pytest.raises(ValueError, match="noise must be a number above 0"):
                PPCA(2, **options).fit(X)
        for share in (-0.1, 1.1, "some"):
            with pytest.raises(ValueError, match="shrinkage must be a number from 0 to 1"):
                PPCA(2, shrinkage=share).fit(X)

    def test_attributes_agree_with_scikit_learn(self):
        X = factors()
        ours, theirs = PPCA(3).fit(X), PCA(3, svd_solver="full").fit(X)
        for name in ("explained_variance_", "explained_variance_ratio_", "mean_", "noise_variance_", "n_components_"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name))
        np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-12)
        np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance())
        np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(X)))
        np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), ours.reconstruct(X))
        np.testing.assert_allclose(ours.score(X), theirs.score(X))

    def test_number_of_components(self):
        X = factors()
        share = np.cumsum(np.linalg.eigvalsh(np.cov(X, rowvar=False))[::-1]) / np.cov(X, rowvar=False).trace()
        assert PPCA(share[2]).fit(X).n_components_ == 3
        assert PPCA(share[2] + 1e-6).fit(X).n_components_ == 4
        assert PPCA(0.999999).fit(X).n_components_ == 5
        assert PPCA("mle").fit(X).n_components_ == 2

    @pytest.mark.parametrize(
        ("n_components", "rows", "message"),
        [
            (6, 300, r"n_components=6 must be less than the number of features, 6"),
            (0, 300, "n_components must be a whole number of at least 1, a number above 0 and below 1"),
            (1.5, 300, 'a share of the variance. or "mle", got 1.5'),
            ("mlee", 300, 'n_components must be a whole number .* or "mle", got .mlee'),
            (4, 4, r"needs at least 5 rows"),
            ("mle", 4, r"at least as many rows as features"),
        ],
    )
    def test_bad_number_of_components(self, n_components, rows, message):
        with pytest.raises(ValueError, match=message):
            PPCA(n_components).fit(factors()[:rows])


class TestEM:
    def test_equals_the_closed_form_on_complete_data(self):
        """From a start far away, so that the answer is not handed in."""
        X = factors()
        closed = PPCA(2).fit(X)
        rng = np.random.default_rng(5)
        start = LatentGaussian(rng.normal(size=6), rng.normal(size=(6, 2)), 3.0)
        found = em(X, start, max_iter=20_000, tol=1e-12)
        assert found.converged
        n = len(X)
        np.testing.assert_allclose(found.model.mean, closed.mean_, atol=1e-6)
        np.testing.assert_allclose(found.model.covariance * n / (n - 1), closed.gaussian_.covariance, atol=1e-6)
        by_name = PPCA(2, method="em", tol=1e-12, max_iter=5000).fit(X)
        np.testing.assert_allclose(by_name.gaussian_.covariance, closed.gaussian_.covariance, atol=1e-6)
        np.testing.assert_allclose(by_name.covariance_, closed.covariance_, atol=1e-6)
        assert by_name.n_iter_ >= 1

    def test_likelihood_never_falls(self):
        X = factors(n=100)
        X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
        model = LatentGaussian(np.zeros(6), np.random.default_rng(1).normal(size=(6, 2)), 2.0)
        seen = []
        for _ in range(30):
            seen.append(model.log_density(X).sum())
            model = em(X, model, max_iter=1, tol=0.0).model
        assert (np.diff(seen) > -1e-9).all()

    def test_few_missing_cells_take_few_steps_however_small_the_noise(self):
        X = factors(n=2000, noise=0.01)
        X[np.random.default_rng(1).random(X.shape) < 0.02] = np.nan
        model = PPCA(2).fit(X)
        assert model.converged_
        assert model.n_iter_ < 20
        # the likelihood is at its maximum: wherever the parameters go, it falls
        n, rng = len(X), np.random.default_rng(2)
        W, noise = model.gaussian_.loadings * np.sqrt((n - 1) / n), model.noise_variance_ * (n - 1) / n
        best = LatentGaussian(model.mean_, W, noise).log_density(X).sum()
        for size in (1e-3, 1e-2):
            for _ in range(10):
                moved = LatentGaussian(
                    model.mean_ + size * np.sqrt(noise) * rng.normal(size=6),
                    W + size * np.sqrt(noise) * rng.normal(size=W.shape),
                    noise * np.exp(size * rng.normal()),
                )
                assert moved.log_density(X).sum() < best

    def test_stopping_early_is_said(self):
        X = factors(n=100)
        X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
        with pytest.warns(
            ConvergenceWarning, match=r"stopped after 2 steps .* fewer components, .* \(max_iter of PPCA\)"
        ):
            model = PPCA(2, max_iter=2).fit(X)
        assert not model.converged_

    def test_missing_cells_beat_mean_imputation(self):
        truth = np.cov(factors(n=20_000, seed=0), rowvar=False)
        X = factors(n=500, seed=0)
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
        imputed = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
        ours = PPCA(2).fit(X)
        assert ours.converged_
        naive = PPCA(2).fit(imputed).gaussian_.covariance
        error = np.linalg.norm(ours.gaussian_.covariance - truth)
        assert error < 0.5 * np.linalg.norm(naive - truth)
        assert np.linalg.norm(ours.covariance_ - truth) < 0.5 * np.linalg.norm(naive - truth)

    def test_share_of_variance_with_missing_cells(self):
        X = factors(n=500, noise=0.1)
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
        assert PPCA(0.95).fit(X).n_components_ == 2

    def test_rejects_what_it_cannot_do(self):
        X = factors()
        X[3, 2] = np.nan
        with pytest.raises(ValueError, match="method='closed-form' needs complete rows"):
            PPCA(2, method="closed-form").fit(X)
        X[:, 4] = np.nan
        with pytest.raises(ValueError, match="column 'x4' of X contains only NaN"):
            PPCA(2).fit(X)


class TestOtherPeoplesModels:
    @pytest.mark.parametrize("kind", [PCA, IncrementalPCA])
    def test_noise_variance(self, kind):
        X = factors()
        gaussian = as_fitted_model(kind(2).fit(X)).gaussian
        assert float(gaussian.noise_variance) == pytest.approx(PPCA(2).fit(X).noise_variance_, rel=0.02)

    def test_noise_variance_with_fewer_rows_than_features(self):
        X = factors()[:5]
        gaussian = as_fitted_model(PCA(2).fit(X)).gaussian
        assert float(gaussian.noise_variance) == pytest.approx(PPCA(2).fit(X).noise_variance_, rel=1e-9)

    @pytest.mark.parametrize("scaler", [StandardScaler(), RobustScaler(), MinMaxScaler((-2, 5)), MaxAbsScaler()])
    def test_pipelines_of_scalers(self, scaler):
        X = factors() * [1.0, 10.0, 0.1, 5.0, 2.0, 1.0]
        pipeline = make_pipeline(scaler, "passthrough", StandardScaler(), PCA(2)).fit(X)
        scaled = pipeline[:-1].transform(X)
        residual = scaled - pipeline[-1].inverse_transform(pipeline.transform(X))
        why = Explainer(pipeline).explain(X[:7])
        np.testing.assert_allclose(why.score, (residual[:7] ** 2).sum(axis=1))
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
        shifted = X[:7].copy()
        shifted[:, 1] = why.expected[:, 1]  # expected values are in the user's units
        np.testing.assert_allclose(Explainer(pipeline).explain(shifted).score, why.score_if_fixed[:, 1])

    def test_what_cannot_be_explained(self):
        from sklearn.decomposition import TruncatedSVD
        from sklearn.preprocessing import PolynomialFeatures

        X = factors()
        with pytest.raises(TypeError, match="model is a TruncatedSVD of sklearn; expected"):
            Explainer(TruncatedSVD(2).fit(X))
        with pytest.raises(TypeError, match="step 'polynomialfeatures' of the Pipeline"):
            Explainer(make_pipeline(PolynomialFeatures(), PCA(2)).fit(X))
        with pytest.raises(ValueError, match="keeps all 6 components"):
            Explainer(PCA().fit(X))
        with pytest.raises(ValueError, match="not fitted"):
            Explainer(PCA(2))
        with pytest.raises(ValueError, match="which this model does not keep"):
            Explainer(PCA(2).fit(X), game="retraining")
