"""Any quadratic form under a Gaussian: against brute force, on both walks, compiled, sampled, with holes and groups."""

import numpy as np
import pytest
import witness
from sklearn.decomposition import PCA, MiniBatchSparsePCA, SparsePCA, TruncatedSVD
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from culpa import PPCA, Explainer, LatentGaussian, shapley
from culpa._kernels.kernel import Kernel
from culpa.games import ConditionalForm
from culpa.games import form as form_module
from culpa.scores import QuadraticForm
from culpa.shapley.forms import forms_from_probes


@pytest.fixture(params=["elimination", "latent"])
def walk(request, monkeypatch):
    monkeypatch.setattr(form_module, "WELL_CONDITIONED", 0.0 if request.param == "elimination" else np.inf)


def form(d, p, seed, *, offset, noise=0.3):
    rng = np.random.default_rng(seed)
    gaussian = LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), noise)
    r = rng.normal(size=d - 1) if offset else np.zeros(d - 1)
    return QuadraticForm("spe", gaussian, np.zeros(d), np.zeros(p), rng.normal(size=(d - 1, d)), r)


def brute_force(score, X):
    """The definition: E|F x + r|^2 given x_S, with an extra feature that is always 1 for the offset."""
    C, F = score.gaussian.covariance, score.root
    d = len(C)
    result = []
    for x in X:

        def value(x, S):
            S = list(S)
            m, V = np.zeros(d), C
            if S:
                gain = C[:, S] @ np.linalg.inv(C[np.ix_(S, S)])
                m, V = gain @ x[S], C - gain @ C[S, :]
            return ((F @ m + score.offset) ** 2).sum() + np.trace(F @ V @ F.T)

        result.append(witness.shapley(witness.all_values(value, x), d))
    return np.array(result)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize(("d", "p"), [(3, 1), (5, 2), (8, 5)])
def test_exact_equals_brute_force(walk, d, p, offset):
    score = form(d, p, d, offset=offset)
    X = 2 * np.random.default_rng(1).normal(size=(2, d))
    game, players = ConditionalForm(score), [[i] for i in range(d)]
    expected = brute_force(score, X)
    actual = shapley.exact(game, X, players).values
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_allclose(game.base_value + actual.sum(axis=1), score(X), rtol=1e-10)
    sampled = shapley.permutation(game, X, players, shapley.order_rule(d, 6, 0))
    assert (np.abs(sampled.values - expected) <= 6 * sampled.std_error + 1e-9).all()


@pytest.mark.parametrize("offset", [False, True])
def test_values_of_many_coalitions(offset):
    game = ConditionalForm(form(5, 2, 1, offset=offset))
    X = np.random.default_rng(0).normal(size=(2, 5))
    members = (np.arange(32)[:, None] >> np.arange(5) & 1).astype(float)
    table = shapley.tabulate(game, X, [[i] for i in range(5)])
    np.testing.assert_allclose(game.values(X, members), table, rtol=1e-10)


def test_kernel_regression_of_a_matrix_that_is_a_pca():
    X = rows()
    ppca = PPCA(2).fit(X)
    M = ppca.components_.T @ ppca.components_
    why = Explainer(reconstruct_matrix=M, normal=ppca, method="kernel").explain(X[:3])
    exact = Explainer(ppca).explain(X[:3])
    assert (np.abs(why.values - exact.values) <= 6 * why.std_error + 1e-8).all()


@pytest.mark.parametrize("exact", [True, False])
def test_compiled_equals_walked(walk, exact):
    game, players = ConditionalForm(form(6, 3, 1, offset=False)), [[0, 3], [1], [2], [4], [5]]
    X = np.random.default_rng(0).normal(size=(4, 6))
    if exact:
        compiled, walked = shapley.compile_exact(game, players)(X), shapley.exact(game, X, players)
    else:
        rule = shapley.order_rule(5, 5, 0)
        walked = shapley.permutation(game, X, players, rule)
        compiled = forms_from_probes(game, lambda rows: shapley.permutation(game, rows, players, rule).values[None])(X)
    np.testing.assert_allclose(compiled.values, walked.values, rtol=1e-9, atol=1e-9)
    assert not ConditionalForm(form(6, 3, 1, offset=True)).quadratic  # forms have no linear part


def test_kernel_equals_brute_force(monkeypatch):
    monkeypatch.setattr(Kernel, "pays", lambda self, operations: True)
    game, players = ConditionalForm(form(7, 3, 2, offset=False)), [[i] for i in range(7)]
    X = np.random.default_rng(0).normal(size=(2, 7))
    assert game.tree_job(X, np.arange(7)) is not None
    values = shapley.exact(game, X, players).values
    np.testing.assert_allclose(values, brute_force(game.score, X), rtol=1e-9, atol=1e-9)
    assert ConditionalForm(form(7, 3, 2, offset=True)).tree_job(X, np.arange(7)) is None  # the kernel knows no offset


def test_tiny_noise_keeps_digits():
    """The latent walk, which tiny noise chooses, against elimination with sixty digits."""
    mpmath = pytest.importorskip("mpmath")
    score = form(4, 2, 3, offset=True, noise=1e-10)
    x = np.array([[1.0, -2.0, 0.5, 1.5]])
    game = ConditionalForm(score)
    actual = shapley.tabulate(game, x, [[i] for i in range(4)])[:, 0]
    with mpmath.workdps(60):
        W, F, r = (mpmath.matrix(a.tolist()) for a in (score.gaussian.loadings, score.root, score.offset))
        C = W * W.T + mpmath.mpf(float(score.gaussian.noise_variance)) * mpmath.eye(4)
        for number in range(1, 15):
            S = [i for i in range(4) if number >> i & 1]
            C_SS = mpmath.matrix([[C[i, j] for j in S] for i in S])
            C_S = mpmath.matrix([[C[i, j] for j in S] for i in range(4)])
            gain = C_S * C_SS**-1
            m = gain * mpmath.matrix([float(x[0, j]) for j in S])
            V = C - gain * C_S.T
            rho, spread = F * m + r, F * V * F.T
            exact = sum(value**2 for value in rho) + sum(spread[i, i] for i in range(3))
            assert actual[number] == pytest.approx(float(exact), rel=1e-9)


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, 6)) * 2 + 0.5 * rng.normal(size=(n, 6)) + [9, 0, 4, -5, 1, 2]


@pytest.mark.parametrize(
    "model",
    [SparsePCA(2, alpha=0.5, random_state=0), MiniBatchSparsePCA(2, random_state=0), TruncatedSVD(2)],
    ids=lambda model: type(model).__name__,
)
def test_models_of_scikit_learn(model):
    X = rows()
    model.fit(X)
    new = X[:5] + np.random.default_rng(1).normal(size=(5, 6))
    why = Explainer(model, normal=X).explain(new)
    own = ((new - model.inverse_transform(model.transform(new))) ** 2).sum(axis=1)
    np.testing.assert_allclose(why.score, own, rtol=1e-9)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, own, rtol=1e-9)
    assert why.exact
    mean = Explainer(model, "mse", normal=X).explain(new)
    np.testing.assert_allclose(mean.values, why.values / 6, rtol=1e-9)
    some = Explainer(model, normal=X, features=[1, 2]).explain(new)
    residual = new - model.inverse_transform(model.transform(new))
    np.testing.assert_allclose(some.score, (residual[:, [1, 2]] ** 2).sum(axis=1), rtol=1e-9)
    with pytest.raises(TypeError, match=r"also pass normal=\.\.\."):
        Explainer(model)
    with pytest.raises(ValueError, match="is not a reconstruction error: use 'spe' or 'mse'"):
        Explainer(model, "t2", normal=X)


def test_in_a_pipeline():
    X = rows()
    pipeline = make_pipeline(StandardScaler(), SparsePCA(2, random_state=0)).fit(X)
    why = Explainer(pipeline, normal=X).explain(X[:5])
    scaled = pipeline[:-1].transform(X[:5])
    residual = scaled - pipeline[-1].inverse_transform(pipeline[-1].transform(scaled))
    np.testing.assert_allclose(why.score, (residual**2).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(why.data, X[:5])
    assert np.abs(why.expected - X.mean(axis=0)).max() < 30  # back in the user's units


def test_a_matrix_that_is_a_pca_is_that_pca():
    X = rows()
    pca, ppca = PCA(2).fit(X), PPCA(2).fit(X)
    M = pca.components_.T @ pca.components_
    exact = Explainer(ppca).explain(X[:5])
    holed = X[:5].copy()
    holed[0, 1] = holed[3, 4] = np.nan
    for matrix in (M, (M, ppca.mean_ - M @ ppca.mean_)):
        explainer = Explainer(reconstruct_matrix=matrix, normal=ppca)
        why = explainer.explain(X[:5])
        for name in ("values", "score", "expected", "score_if_fixed"):
            np.testing.assert_allclose(getattr(why, name), getattr(exact, name), rtol=1e-8, atol=1e-9)
        assert why.base_value == pytest.approx(exact.base_value)
        np.testing.assert_allclose(explainer.compile().explain(X[:5]).values, exact.values, rtol=1e-8, atol=1e-9)
        for options in ({"given": ["x0"]}, {"groups": {"g": [0, 1]}}, {"upstream": [(0, 1)]}):
            ours = Explainer(reconstruct_matrix=matrix, normal=ppca, **options).explain(holed)
            np.testing.assert_allclose(
                ours.values, Explainer(ppca, **options).explain(holed).values, rtol=1e-8, atol=1e-9
            )


def test_an_offset_changes_what_would_fix_a_row():
    X = rows()
    matrix = (np.diag([0.5] * 6), np.ones(6))
    explainer = Explainer(reconstruct_matrix=matrix, normal=X)
    why = explainer.explain(X[:4])
    np.testing.assert_allclose(why.score, ((0.5 * X[:4] - 1) ** 2).sum(axis=1), rtol=1e-9)
    fixed = X[:4].copy()
    fixed[:, 2] = why.expected[:, 2]
    np.testing.assert_allclose(why.score_if_fixed[:, 2], ((0.5 * fixed - 1) ** 2).sum(axis=1), rtol=1e-9)
    holed = X[:4].copy()
    holed[:, 0] = np.nan
    holed_why = explainer.explain(holed)
    np.testing.assert_allclose(holed_why.values.sum(axis=1) + holed_why.base_value, holed_why.score, rtol=1e-9)
    with pytest.raises(ValueError, match="smallest at the mean of normal rows"):
        Explainer(reconstruct_matrix=matrix, normal=X, game="interventional")
    with pytest.raises(ValueError, match="ranking='rbc' is a part of a quadratic score"):
        Explainer(reconstruct_matrix=matrix, normal=X, ranking="rbc")
    assert Explainer(reconstruct_matrix=matrix, normal=X, ranking="fault-odds").explain(X[:2]).suspicion is not None
    with pytest.raises(ValueError, match="cannot be compiled"):
        explainer.compile()
