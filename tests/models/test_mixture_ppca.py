"""MixturePPCA: recovers modes, likelihood never falls, missing cells, few rows, determinism."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from culpa import PPCA, LatentGaussian, LatentMixture, MixturePPCA
from culpa.models import mixture_em
from culpa.models.em import Rows

MEANS = np.array([[0.0, 0, 0, 0, 0], [8.0, -8, 0, 4, 0], [-6.0, 6, 6, 0, 3]])


def plant(n=600, seed=0, noise=0.3):
    """Three modes, one half, a third and a sixth of the rows, each with two directions of its own."""
    rng = np.random.default_rng(seed)
    truth = np.sort(rng.choice(3, size=n, p=[1 / 2, 1 / 3, 1 / 6]))
    loadings = np.random.default_rng(42).normal(size=(3, 2, 5))
    X = np.stack([rng.normal(size=2) @ loadings[k] + MEANS[k] for k in truth])
    return X + noise * rng.normal(size=X.shape), truth


def with_holes(X, share=0.15, seed=1):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def test_modes_are_recovered():
    X, truth = plant()
    model = MixturePPCA(n_components=2).fit(X)
    assert model.n_modes_ == 3
    assert model.converged_
    assert list(model.weights_) == sorted(model.weights_, reverse=True)
    assert (model.predict(X) == truth).mean() > 0.99
    np.testing.assert_allclose(model.means_, MEANS, atol=0.4)
    np.testing.assert_allclose(np.sqrt(model.noise_variances_), 0.3, atol=0.05)
    assert min(model.bic_, key=model.bic_.get) == 3


def test_missing_cells():
    X, truth = plant()
    model = MixturePPCA(3, 2).fit(with_holes(X))
    assert (model.predict(X) == truth).mean() > 0.98
    np.testing.assert_allclose(model.means_, MEANS, atol=0.5)
    np.testing.assert_allclose(np.sqrt(model.noise_variances_), 0.3, atol=0.08)


def test_the_density_is_that_of_a_mixture():
    X, _ = plant(200)
    model = MixturePPCA(3, 2).fit(X)
    holes = with_holes(X[:20])
    for rows in (X[:20], holes):
        for x, log_density in zip(rows, model.score_samples(rows), strict=True):
            S = np.flatnonzero(~np.isnan(x))
            density = sum(
                weight * stats.multivariate_normal(mode.mean[S], mode.covariance[np.ix_(S, S)]).pdf(x[S])
                for weight, mode in zip(model.weights_, model.mixture_.modes, strict=True)
            )
            assert log_density == pytest.approx(np.log(density))


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_the_densities_of_rows_with_patterns_of_their_own(holes):
    X, _ = plant(100)
    mode = MixturePPCA(1, 2).fit(X).mixture_.modes[0]
    rows = with_holes(X, holes)
    alone = [
        stats.multivariate_normal(mode.mean[seen], mode.covariance[np.ix_(seen, seen)]).logpdf(row[seen])
        for row, seen in ((row, ~np.isnan(row)) for row in rows)
        if seen.any()
    ]
    np.testing.assert_allclose(mode.log_density(rows[~np.isnan(rows).all(axis=1)]), alone, rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 4),
    p=st.integers(1, 3),
    missing=st.sampled_from([0.0, 0.1, 0.4]),
)
def test_the_likelihood_never_decreases(seed, k, p, missing):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) * rng.random(4) * 3 + rng.choice([-2.0, 0.0, 3.0], size=(60, 1))
    X = np.where(rng.random(X.shape) < missing, np.nan, X)
    rows = Rows(X)
    first = rng.dirichlet(np.ones(k), size=len(X))
    floor = mixture_em.least_noise(rows, 2)
    try:
        found = mixture_em.em(rows, first, [p] * k, floor=floor, max_iter=25, tol=0.0)
    except mixture_em.StarvedModeError:
        return
    rises = np.diff(found.log_likelihoods)
    assert rises.min(initial=0.0) >= -1e-8 * max(1.0, abs(found.log_likelihood))


def test_the_last_likelihood_is_that_of_the_model():
    X, _ = plant(300)
    fitted = mixture_em.fit_modes(X, 3, [2, 2, 2], n_init=2, max_iter=100, tol=1e-9, seed=0)
    assert fitted.log_likelihood == pytest.approx(float(fitted.mixture.log_density(X).sum()))
    model = MixturePPCA(3, 2).fit(X)
    assert (np.diff(model.log_likelihoods_) >= -1e-6).all()


@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_one_mode_is_ppca(holes):
    X = with_holes(plant(300)[0], holes)
    one, ppca = MixturePPCA(1, 2, tol=1e-13, max_iter=3000).fit(X), PPCA(2, tol=1e-11).fit(X)
    mode = one.mixture_.modes[0]
    np.testing.assert_allclose(mode.mean, ppca.mean_, atol=1e-4 if holes else 1e-10)
    np.testing.assert_allclose(mode.covariance, ppca.get_covariance(), atol=1e-3 if holes else 1e-9)
    np.testing.assert_allclose(one.covariance_, ppca.covariance_, atol=1e-3 if holes else 1e-9)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_one_mode_chooses_as_many_components_as_ppca(share):
    X = plant(300)[0]
    assert MixturePPCA(1, share).fit(X).n_components_ == (PPCA(share).fit(X).n_components_,)


def test_noise_and_shrinkage_are_those_of_ppca():
    X = plant(300)[0]
    one, ppca = (
        model(noise=2.0, shrinkage=0.1).fit(X)
        for model in (lambda **known: MixturePPCA(1, 2, **known), lambda **known: PPCA(2, **known))
    )
    np.testing.assert_allclose(one.mixture_.covariance, ppca.get_covariance(), rtol=1e-9)


def test_fits_are_deterministic_given_the_seed():
    X = with_holes(plant(300)[0], 0.05)
    first, again, other = (MixturePPCA(3, 2, seed=seed).fit(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.means_, again.means_)
    np.testing.assert_array_equal(first.score_samples(X), again.score_samples(X))
    np.testing.assert_allclose(first.score(X), other.score(X), rtol=1e-3)


def test_numbers_of_components_may_differ_by_mode():
    X, _ = plant()
    assert MixturePPCA(3, [3, 1, 2]).fit(X).n_components_ in [
        (3, 1, 2),
        (1, 3, 2),
        (2, 3, 1),
        (3, 2, 1),
        (1, 2, 3),
        (2, 1, 3),
    ]
    assert MixturePPCA(3, 0.9).fit(X).n_components_ == (2, 2, 2)


@pytest.mark.parametrize(
    ("parameters", "rows", "message"),
    [
        ({"n_modes": 4, "n_components": 2}, 8, "too few for 4 mode"),
        ({"n_modes": 2, "n_components": 5}, 50, "must be less than the number of features"),
        ({"n_modes": 2, "n_components": [1, 2, 3]}, 50, "lists 3 numbers"),
        ({"n_modes": 0}, 50, "n_modes"),
        ({"n_components": "many"}, 50, "n_components"),
    ],
)
def test_clear_errors(parameters, rows, message):
    with pytest.raises(ValueError, match=message):
        MixturePPCA(**parameters).fit(plant(rows)[0])


def test_too_many_modes_for_rows_that_repeat():
    X = np.repeat(plant(3)[0], 5, axis=0)
    with pytest.raises(ValueError, match="Ask for fewer modes"):
        MixturePPCA(5, 2).fit(X)


def test_columns_without_numbers_and_rows_that_do_not_vary():
    X = plant(50)[0]
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="contains only NaN"):
        MixturePPCA().fit(X)
    with pytest.raises(ValueError, match="no column of X varies"):
        MixturePPCA().fit(np.ones((20, 3)))


def test_a_collapsed_mode_is_told():
    """Half of the rows lie on a line exactly: the density there has no bound but the least noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[:100] = rng.normal(size=(100, 1)) * [1.0, 2.0, 3.0] + 20
    with pytest.warns(ConvergenceWarning, match="hardly any noise"):
        model = MixturePPCA(2, 1).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert (model.noise_variances_ > 0).all()


def test_automatic_modes_do_not_chase_repeated_rows():
    X = np.vstack([plant(200)[0], np.tile(plant(1)[0], (20, 1))])
    assert MixturePPCA(n_components=2, max_modes=6).fit(X).noise_variances_.min() > 1e-3


def test_a_mixture_checks_itself():
    mode = LatentGaussian([0.0, 0.0], [[1.0], [1.0]], 0.1)
    with pytest.raises(ValueError, match="add up to 1"):
        LatentMixture([0.5, 0.6], (mode, mode))
    with pytest.raises(ValueError, match="as many weights"):
        LatentMixture([1.0], (mode, mode))
    with pytest.raises(ValueError, match="same number of features"):
        LatentMixture([0.5, 0.5], (mode, LatentGaussian([0.0], [[1.0]], 0.1)))
    with pytest.raises(ValueError, match="Student-t tails have no exact explanation"):
        LatentMixture([0.5, 0.5], (mode, LatentGaussian([0.0, 0.0], [[1.0], [1.0]], 0.1, degrees_of_freedom=4.0)))


def test_samples_have_the_moments_of_the_mixture():
    mixture = MixturePPCA(3, 2).fit(plant()[0]).mixture_
    X = mixture.sample(40_000, 0)
    np.testing.assert_allclose(X.mean(axis=0), mixture.mean, atol=0.15)
    np.testing.assert_allclose(np.cov(X.T), mixture.covariance, atol=0.8)
    np.testing.assert_allclose(mixture.centred().mean, 0, atol=1e-12)
