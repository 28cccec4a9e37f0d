"""The minimal game against numerical minimisation, with every engine."""

import itertools

import array_api_strict
import numpy as np
import pytest
import witness
from scipy import optimize

import culpa._kernels.kernel
from culpa import PPCA, Explainer, Explanation, LatentGaussian, PCADetector, games, scores, shapley

SCORES = ["spe", "mse", "t2", "mahalanobis"]


def gaussian(d, p, seed=0, noise=0.3):
    return LatentGaussian(np.zeros(d), np.random.default_rng(seed).normal(size=(d, p)), noise)


def rows_of(d, n=3, seed=1):
    return 2 * np.random.default_rng(seed).normal(size=(n, d))


def setting(model, name, locality=0.01):
    A = witness.score_matrix(model, name)
    return games.Minimal(getattr(scores, name)(model), locality), A, locality * np.trace(A) / len(A)


def singles(d):
    return [[i] for i in range(d)]


def brute_force(A, x, gamma):
    """Shapley values, base value and score."""
    values = {S: witness.minimal_value(A, x, S, gamma) for S in witness.coalitions(len(x))}
    whole = tuple(range(len(x)))
    return witness.shapley(values, len(x)), values[()], values[whole]


def test_the_witness_minimises():
    """A general minimiser finds the same smallest score."""
    _, A, gamma = setting(gaussian(5, 2), "spe")
    x = rows_of(5)[0]
    for S in ([], [1], [0, 3, 4]):
        free = [i for i in range(5) if i not in S]

        def cost(move, free=free):
            there = x.copy()
            there[free] += move
            return there @ A @ there + gamma * move @ move

        found = optimize.minimize(cost, np.zeros(len(free)), tol=1e-14).fun
        assert found == pytest.approx(witness.minimal_value(A, x, S, gamma), rel=1e-6)


@pytest.mark.parametrize("locality", [1e-4, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("noise", [0.3, [0.2, 0.9, 0.4, 0.1, 0.7, 0.3]])
@pytest.mark.parametrize("name", SCORES)
def test_values_of_coalitions(name, noise, locality):
    game, A, gamma = setting(gaussian(6, 2, noise=noise), name, locality)
    X = rows_of(6)
    table = shapley.tabulate(game, X, singles(6))
    for number, walked in enumerate(table):
        members = np.array([i for i in range(6) if number >> i & 1], dtype=int)
        expected = [witness.minimal_value(A, x, members, gamma) for x in X]
        np.testing.assert_allclose(game.value(X, members) + game.base_values(X), expected, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(walked + game.base_values(X), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("d", "p"), [(3, 1), (5, 2), (8, 5)])
@pytest.mark.parametrize("name", SCORES)
def test_exact_and_compiled_values_equal_brute_force(name, d, p):
    model = gaussian(d, p)
    _, A, gamma = setting(model, name)
    X = rows_of(d, 2)
    for explainer in (Explainer(model, name, "minimal"), Explainer(model, name, "minimal").compile()):
        why = explainer.explain(X)
        for row, x in enumerate(X):
            values, base, whole = brute_force(A, x, gamma)
            np.testing.assert_allclose(why.values[row], values, rtol=1e-9, atol=1e-9 * np.abs(values).max())
            assert why.base_value[row] == pytest.approx(base, rel=1e-9)
            assert why.score[row] == pytest.approx(whole, rel=1e-9)


def test_its_dual_has_the_same_values():
    game, A, gamma = setting(gaussian(6, 2), "spe")
    X = rows_of(6)
    u, B = X @ A, A + gamma * np.eye(6)
    for row, x in enumerate(X):
        dual = {}
        for S in witness.coalitions(6):
            at = list(S)
            dual[S] = u[row, at] @ np.linalg.solve(B[np.ix_(at, at)], u[row, at])
        values = shapley.exact(game, x[None], singles(6)).values[0]
        np.testing.assert_allclose(values, witness.shapley(dual, 6), rtol=1e-10, atol=1e-12)


def test_groups_join_together():
    game, A, gamma = setting(gaussian(6, 2), "spe")
    groups = [[0, 2], [1], [3, 4, 5]]
    for x in rows_of(6):
        values = {
            S: witness.minimal_value(A, x, [i for k in S for i in groups[k]], gamma) for S in witness.coalitions(3)
        }
        actual = shapley.exact(game, x[None], groups).values[0]
        np.testing.assert_allclose(actual, witness.shapley(values, 3), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("hole", [None, 1, 3])
def test_given_features_stay_where_they_are(hole):
    model = gaussian(6, 2)
    _, A, gamma = setting(model, "spe")
    given, others = [1, 4], [0, 2, 3, 5]
    X = rows_of(6)
    missing = [] if hole is None else [hole]
    X[:, missing] = np.nan
    why = Explainer(model, "spe", "minimal", given=given).explain(X)
    known, players = ([i for i in group if i != hole] for group in (given, others))
    at = [others.index(i) for i in players]
    seen = sorted([*known, *players])
    A, added = witness.observed_score(model.covariance, A, seen)
    for row, x in enumerate(X):
        values = {
            S: added
            + witness.minimal_value(A, x[seen], [seen.index(i) for i in (*known, *(players[k] for k in S))], gamma)
            for S in witness.coalitions(len(players))
        }
        np.testing.assert_allclose(why.values[row, at], witness.shapley(values, len(players)), rtol=1e-8, atol=1e-10)
        assert why.base_value[row] == pytest.approx(values[()], rel=1e-8)


def test_causes_join_first():
    model = gaussian(4, 2)
    _, A, gamma = setting(model, "spe")
    x = rows_of(4)[0]
    orders = [order for order in itertools.permutations(range(4)) if order.index(2) < order.index(0)]
    expected = np.zeros(4)
    for order in orders:
        worth = [witness.minimal_value(A, x, order[:k], gamma) for k in range(5)]
        for k, i in enumerate(order):
            expected[i] += (worth[k + 1] - worth[k]) / len(orders)
    why = Explainer(model, "spe", "minimal", upstream=[(2, 0)]).explain(x[None])
    np.testing.assert_allclose(why.values[0], expected, rtol=1e-9)


@pytest.mark.parametrize("pays", [True, False])
@pytest.mark.parametrize("name", SCORES)
def test_kernels_equal_arrays(name, pays, monkeypatch):
    game, _, _ = setting(gaussian(9, 3), name)
    X = rows_of(9)
    expected = shapley.exact(game, X, singles(9)).values
    monkeypatch.setattr(culpa._kernels.kernel.Kernel, "pays", lambda self, operations: pays)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(shapley.exact(game, X, singles(9)).values, expected, atol=1e-11 * scale)


def test_other_array_libraries():
    game, _, _ = setting(gaussian(6, 2), "spe")
    X = rows_of(6)
    there = shapley.exact(game, array_api_strict.asarray(X), singles(6)).values
    np.testing.assert_allclose(np.asarray(there), shapley.exact(game, X, singles(6)).values, rtol=1e-12)


@pytest.mark.parametrize("noise", [1e-3, 1e-7, 1e-11])
@pytest.mark.parametrize("name", SCORES)
def test_tiny_noise_keeps_digits(name, noise):
    """Values of tiny residuals add up, walked and sampled."""
    model = gaussian(8, 3, noise=noise)
    game, _, _ = setting(model, name)
    X = model.sample(3, np.random.default_rng(0))
    values = shapley.exact(game, X, singles(8)).values
    total = values.sum(axis=1) + game.base_values(X)
    np.testing.assert_allclose(total, game.score(X), rtol=1e-9)
    sampled = shapley.permutation(game, X, singles(8), shapley.order_rule(8, 3, 0)).values
    np.testing.assert_allclose(sampled.sum(axis=1), values.sum(axis=1), rtol=1e-8)


def test_a_score_in_other_units_gives_the_same_explanation():
    model = gaussian(7, 3)
    spe, mse = (Explainer(model, name, "minimal").explain(rows_of(7)) for name in ("spe", "mse"))
    np.testing.assert_allclose(mse.values * 7, spe.values, rtol=1e-10)


def test_far_from_local_is_the_squared_residual():
    """Where moves are dear, blame is proportional to the squared residual: complete decomposition."""
    model = gaussian(7, 3)
    X = rows_of(7)
    why = Explainer(model, "spe", "minimal", locality=1e8).explain(X)
    residuals = (X @ witness.score_matrix(model, "spe")) ** 2
    np.testing.assert_allclose(
        why.values / why.values.sum(axis=1, keepdims=True), residuals / residuals.sum(axis=1, keepdims=True), rtol=1e-6
    )


def test_detector_and_dictionary():
    table = np.random.default_rng(0).normal(size=(200, 6)) @ np.random.default_rng(1).normal(size=(6, 6))
    detector = PCADetector(n_components=2, game="minimal").fit(table)
    why = detector.explain(table[:4], locality=0.1)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
    assert why.game == "minimal"
    again = Explanation.from_dict(why.to_dict())
    np.testing.assert_array_equal(again.base_value, why.base_value)
    with pytest.raises(ValueError, match="locality"):
        Explainer(PPCA(2).fit(table), game="minimal", locality=0)
