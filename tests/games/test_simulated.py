"""Values of functions where normal rows are Student-t, in several modes, or have margins of their own."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
import witness
from sklearn.decomposition import SparsePCA
from sklearn.ensemble import IsolationForest

from culpa import Explainer, MixturePPCA, PCADetector, StudentPPCA
from culpa.models import as_fitted_model


def student_rows(n=300, d=5, seed=0):
    rng = np.random.default_rng(seed)
    rows = 1.5 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.5 * rng.normal(size=(n, d))
    return rows * np.sqrt(8 / rng.chisquare(10, size=n))[:, None] + 5


def rows_in_modes(n=300, d=5, seed=0):
    """Two modes that overlap, so that some features leave the mode open."""
    rng = np.random.default_rng(seed)
    which = rng.random(n) < 0.4
    means, loadings = 2.0 * rng.normal(size=(2, d)), rng.normal(size=(2, 2, d))
    z, noise = rng.normal(size=(n, 2)), 0.6 * rng.normal(size=(n, d))
    parts = [z @ loading + mean + noise for mean, loading in zip(means, loadings, strict=True)]
    return np.where(which[:, None], *parts)


def skewed_rows(n=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(size=(n, 1)) * rng.uniform(0.4, 1.0, size=d) + 0.4 * rng.normal(size=(n, d)))


def student(seed=0):
    X = student_rows(seed=seed)
    return X, StudentPPCA(2, degrees_of_freedom=10.0).fit(X)


def mixture(seed=0):
    X = rows_in_modes(seed=seed)
    return X, MixturePPCA(2, n_components=2).fit(X)


MODELS = {"student": student, "mixture": mixture}


def faulty(X, n=4):
    new = X[:n].copy()
    new[np.arange(n), np.arange(n) % X.shape[1]] += 3
    return new


def own_score(model, name):
    """The score of the model itself, as a function of rows."""
    score, fitted = Explainer(model, name).score, as_fitted_model(model)
    return lambda R: score(fitted.standardise(R))


def covered(sampled, exact):
    low, high = sampled.interval(0.95)
    return (low <= exact) & (exact <= high)


@pytest.mark.parametrize("name", ["spe", "mahalanobis"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_models_own_score_converges_to_its_exact_explanation(kind, name):
    X, model = MODELS[kind]()
    new = faulty(X)
    exact = Explainer(model, name).explain(new)
    errors = []
    for n_orders in (64, 2048):
        why = Explainer(score=own_score(model, name), normal=model, n_orders=n_orders).explain(new)
        errors.append(np.linalg.norm(why.values - exact.values) / np.linalg.norm(exact.values))
        witness.assert_sampled_agrees(why, exact)
    assert errors[1] < 0.04
    assert errors[1] < errors[0]


@pytest.mark.parametrize("kind", MODELS)
def test_intervals_cover_over_models_and_seeds(kind):
    """95% intervals cover 90 to 98% of the exact values, on average over models, rows and seeds."""
    hits = []
    for seed in range(10):
        X, model = MODELS[kind](seed)
        for name in ("spe", "mahalanobis"):
            exact = Explainer(model, name).explain(faulty(X))
            why = Explainer(score=own_score(model, name), normal=model, n_orders=100, seed=seed).explain(faulty(X))
            hits.append(covered(why, exact.values).mean())
    assert 0.90 <= np.mean(hits) <= 0.98


@pytest.mark.parametrize("options", [{"groups": {"pair": [0, 3]}}, {"given": ["x1"]}], ids=str)
@pytest.mark.parametrize("kind", MODELS)
def test_rules_of_players_and_missing_cells(kind, options):
    X, model = MODELS[kind]()
    new = faulty(X)
    new[0, 2] = new[1, 1] = np.nan
    new[2, 1:4] = np.nan
    exact = Explainer(model, "spe", **options).explain(new)
    why = Explainer(score=own_score(model, "spe"), normal=model, n_orders=1024, **options).explain(new)
    assert (np.abs(why.values - exact.values) <= 5 * why.std_error + 1e-9).all()
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
    np.testing.assert_allclose(why.score, exact.score, rtol=0.35)
    np.testing.assert_allclose(why.expected, exact.expected)


def brute_force(f, model, row, n_draws=40_000):
    """Shapley values of one row in the copula's conditional game, with draws of textbook formulas for all coalitions."""
    rng = np.random.default_rng(99)
    mean, C, d = model.standard.mean, model.standard.covariance, len(row)
    z = (model.margins.to_normal(row[None])[0] - model.centre) / model.scale
    value, error = {}, {}
    for known in (list(S) for k in range(d + 1) for S in combinations(range(d), k)):
        others = [i for i in range(d) if i not in known]
        gain = C[np.ix_(others, known)] @ np.linalg.inv(C[np.ix_(known, known)])
        centre = mean[others] + gain @ (z[known] - mean[known])
        spread = C[np.ix_(others, others)] - gain @ C[np.ix_(known, others)]
        scores = np.tile(z, (n_draws, 1))
        if others:
            scores[:, others] = rng.multivariate_normal(centre, spread, size=n_draws)
        scored = f(model.margins.to_user(model.centre + model.scale * scores))
        value[tuple(known)], error[tuple(known)] = scored.mean(), scored.std() / np.sqrt(n_draws)
    result, variance = np.zeros(d), np.zeros(d)
    for j in range(d):
        for S in (S for S in value if j not in S):
            weight, larger = factorial(len(S)) * factorial(d - 1 - len(S)) / factorial(d), tuple(sorted((*S, j)))
            result[j] += weight * (value[larger] - value[S])
            variance[j] += weight**2 * (error[larger] ** 2 + error[S] ** 2)
    return result, np.sqrt(variance)


def test_copula_against_brute_force():
    X = skewed_rows()
    detector = PCADetector(2, model="copula").fit(X)
    model = as_fitted_model(detector)
    new = faulty(X, 3)

    def f(R):
        return np.log1p(np.abs(R[:, 0] * R[:, 1])) + np.abs(R[:, 2] - R[:, 3])

    why = Explainer(score=f, normal=detector, n_orders=2048).explain(new)
    gaussian = Explainer(score=f, normal=X, n_orders=2048).explain(new)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
    np.testing.assert_array_equal(why.score, f(new))
    for row, values, stated in zip(new, why.values, why.std_error, strict=True):
        exact, error = brute_force(f, model, row)
        assert (np.abs(values - exact) <= 4 * np.hypot(stated, error)).all()
    assert np.abs(why.values - gaussian.values).max() > 20 * why.std_error.max()  # a Gaussian would not have done


NORMAL = {
    "student detector": (student_rows, lambda X: PCADetector(2, model="student").fit(X)),
    "copula detector": (skewed_rows, lambda X: PCADetector(2, model="copula").fit(X)),
    "detector with modes": (rows_in_modes, lambda X: PCADetector(2, modes=2).fit(X)),
    "StudentPPCA": (student_rows, lambda X: StudentPPCA(2).fit(X)),
    "MixturePPCA": (rows_in_modes, lambda X: MixturePPCA(2, n_components=2).fit(X)),
    "LatentMixture": (rows_in_modes, lambda X: MixturePPCA(2, n_components=2).fit(X).mixture_),
}


@pytest.mark.parametrize("kind", NORMAL)
def test_what_normal_may_be(kind):
    """Expected values are those of the model itself, and scores if fixed are those of the fixed rows."""
    make, fit = NORMAL[kind]
    X = make()
    normal, new = fit(X), faulty(X)
    own = Explainer(normal, "mahalanobis", ranking="fault-odds").explain(new)
    forest = IsolationForest(n_estimators=20, random_state=0).fit(X)
    why = Explainer(forest, normal=normal, n_orders=16, ranking="fault-odds").explain(new)
    np.testing.assert_allclose(why.expected, own.expected)
    np.testing.assert_allclose(why.suspicion, own.suspicion, rtol=1e-6)
    np.testing.assert_array_equal(why.score, -forest.score_samples(new))
    fixed = new.copy()
    fixed[:, 1] = why.expected[:, 1]
    np.testing.assert_array_equal(why.score_if_fixed[:, 1], -forest.score_samples(fixed))
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
    rebuilt = Explainer(reconstruct=lambda R: R * 0.5, normal=normal, n_orders=16).explain(new)
    np.testing.assert_allclose(rebuilt.score, ((new * 0.5) ** 2).sum(axis=1))
    together = Explainer(forest, normal=normal, n_orders=16, game="interventional").explain(new)
    np.testing.assert_allclose(together.values.sum(axis=1) + together.base_value, together.score)


@pytest.mark.parametrize("kind", ["student detector", "copula detector", "detector with modes"])
def test_linear_reconstructions_need_gaussian_rows(kind):
    make, fit = NORMAL[kind]
    X = make()
    sparse = SparsePCA(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="the error of a linear reconstruction needs Gaussian normal rows"):
        Explainer(sparse, normal=fit(X))
    with pytest.raises(ValueError, match="needs Gaussian normal rows"):
        Explainer(reconstruct_matrix=np.eye(X.shape[1]) / 2, normal=fit(X))
