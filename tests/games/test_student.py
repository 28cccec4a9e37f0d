"""The conditional game of Student-t rows against brute force from the dense formula of the t distribution."""

import itertools

import mpmath as mp
import numpy as np
import pytest
import witness

from culpa import Explainer, LatentGaussian, scores, shapley
from culpa.games import Conditional, Given
from culpa.games import conditional as conditional_module
from culpa.models import LatentMixture


def student(d, p, nu, *, alike=True, noise=None):
    rng = np.random.default_rng(d)
    noise = noise or (0.1 + rng.random() if alike else 0.1 + rng.random(d))
    return LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), noise, degrees_of_freedom=nu)


def student_value(scale, nu, A, x, S):
    """E[x^T A x | x_S] of a t distribution with this scale matrix, term by term."""
    S, H = list(S), [i for i in range(len(x)) if i not in S]
    inverse = np.linalg.inv(scale[np.ix_(S, S)]) if S else np.zeros((0, 0))
    mean = np.zeros(len(x))
    mean[S] = x[S]
    mean[H] = scale[np.ix_(H, S)] @ inverse @ x[S]
    left = scale[np.ix_(H, H)] - scale[np.ix_(H, S)] @ inverse @ scale[np.ix_(S, H)]
    covariance = left * (nu + x[S] @ inverse @ x[S]) / (nu + len(S) - 2)
    return mean @ A @ mean + (A[np.ix_(H, H)] * covariance).sum()


def brute_force(g, A, X, players):
    nu = g.degrees_of_freedom
    scale = g.covariance * (nu - 2) / nu
    result = []
    for x in X:
        values = {
            S: student_value(scale, nu, A, x, sorted(i for k in S for i in players[k]))
            for S in witness.coalitions(len(players))
        }
        result.append(witness.shapley(values, len(players)))
    return np.array(result)


def singles(d):
    return [[i] for i in range(d)]


def agree(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.fixture(params=["elimination", "latent"])
def walk(request, monkeypatch):
    """Force the game down one of its two walks."""
    ratio = 0.0 if request.param == "elimination" else np.inf
    monkeypatch.setattr(conditional_module, "_WELL_CONDITIONED", {"residuals": ratio, "latent variables": ratio})


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("name", ["spe", "t2", "mahalanobis", "combined"])
@pytest.mark.parametrize(("d", "p", "nu"), [(3, 1, 2.5), (5, 2, 4.0), (8, 5, 12.0)])
def test_exact_values_equal_brute_force(walk, alike, name, d, p, nu):
    g = student(d, p, nu, alike=alike)
    limits = (3.0, 7.0) if name == "combined" else ()
    score, A = getattr(scores, name)(g, *limits), witness.score_matrix(g, name, limits=limits)
    X = 2 * np.random.default_rng(1).normal(size=(2, d))
    X[0, 0] = 30.0
    game = Conditional(score)
    expected = brute_force(g, A, X, singles(d))
    agree(shapley.exact(game, X, singles(d)).values, expected)
    agree(shapley.compile_exact(game, singles(d))(X).values, expected)
    agree(expected.sum(axis=1), score(X) - game.base_value)
    assert np.abs(expected - gaussian_values(g, name, limits, X)).max() > 1e-3 * np.abs(expected).max()


def gaussian_values(g, name, limits, X):
    """So that the tests above could fail: a Gaussian with the same covariance has other values."""
    usual = LatentGaussian(g.mean, g.loadings, g.noise_variance)
    return shapley.exact(Conditional(getattr(scores, name)(usual, *limits)), X, singles(g.n_features)).values


def test_the_definition_is_the_dense_formula():
    g = student(6, 2, 3.5)
    score = scores.spe(g)
    X = np.random.default_rng(0).normal(size=(3, 6))
    table = shapley.tabulate(Conditional(score), X, singles(6))
    for at, row in enumerate(table):
        S = [i for i in range(6) if at >> i & 1]
        expected = [student_value(g.covariance * 1.5 / 3.5, 3.5, score.matrix, x, S) for x in X]
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(Conditional(score).value(X, np.array(S, dtype=int)), expected, rtol=1e-9, atol=1e-12)


def test_orders_and_their_forms_equal_exact_values(walk):
    g = student(5, 2, 4.0)
    game, X = Conditional(scores.spe(g)), np.random.default_rng(1).normal(size=(3, 5))
    rule = shapley.OrderRule(np.stack([np.array(list(itertools.permutations(range(5))))]))
    expected = shapley.exact(game, X, singles(5)).values
    agree(shapley.permutation(game, X, singles(5), rule).values, expected)


def value_in_sixty_digits(g, x, S):
    """The dense formula for SPE."""
    mp.mp.dps = 60
    W, d, nu = mp.matrix(g.loadings.tolist()), len(x), mp.mpf(g.degrees_of_freedom)
    scale = (W * W.T + mp.mpf(float(g.noise_variance)) * mp.eye(d)) * (nu - 2) / nu
    residual = mp.eye(d) - W * (W.T * W) ** -1 * W.T
    A, H = residual.T * residual, [i for i in range(d) if i not in S]

    def part(M, rows, columns):
        return mp.matrix([[M[i, j] for j in columns] for i in rows])

    inverse, known = part(scale, S, S) ** -1, mp.matrix([x[i] for i in S])
    filled = part(scale, range(d), S) * inverse * known
    left = part(scale, H, H) - part(scale, H, S) * inverse * part(scale, S, H)
    factor = (nu + (known.T * inverse * known)[0]) / (nu + len(S) - 2)
    trace = sum(A[i, j] * left[a, b] for a, i in enumerate(H) for b, j in enumerate(H))
    return float((filled.T * A * filled)[0] + factor * trace)


def test_tiny_noise_keeps_digits():
    g = student(6, 2, 4.0, noise=1e-7)
    game, X = Conditional(scores.spe(g)), np.random.default_rng(1).normal(size=(2, 6))
    table = shapley.tabulate(game, X, singles(6))
    for S in ([4], [0, 4], [1, 5], [0, 1, 5], [1, 3, 4], [0, 1, 3, 4], [0, 2, 3, 4, 5]):
        expected = [value_in_sixty_digits(g, x, S) for x in X.tolist()]
        np.testing.assert_allclose(table[sum(1 << i for i in S)], expected, rtol=1e-9)
    forms = shapley.compile_exact(game, singles(6))
    normal = g.sample(3, seed=0)
    agree(forms(normal).values, shapley.exact(game, normal, singles(6)).values, 1e-6)


@pytest.mark.parametrize("name", ["spe", "mahalanobis"])
def test_groups_missing_cells_and_given_features(name):
    g = student(7, 3, 3.0)
    A = witness.score_matrix(g, name)
    X = 2 * np.random.default_rng(3).normal(size=(3, 7))
    groups = {"a": [0, 3], "b": [1, 5, 6]}
    why = Explainer(g, score=name, groups=groups).explain(X)
    agree(why.values, brute_force(g, A, X, [[0, 3], [1, 5, 6], [2], [4]]))

    holes = X.copy()
    holes[:, [2, 5]] = np.nan
    why = Explainer(g, score=name).explain(holes)
    players = [[i] for i in (0, 1, 3, 4, 6)]
    agree(why.values[:, [0, 1, 3, 4, 6]], brute_force(g, A, X, players))
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)

    game = Given(Conditional(getattr(scores, name)(g)), np.array([4, 0]))
    scale = g.covariance / 3
    why = Explainer(g, score=name, given=[0, 4]).explain(X)
    for x, values, base in zip(X, why.values, why.base_value, strict=True):
        table = {
            S: student_value(scale, 3.0, A, x, [0, 4, *([1, 2, 3, 5, 6][k] for k in S)]) for S in witness.coalitions(5)
        }
        agree(values, witness.shapley(table, 5))
        assert base == pytest.approx(table[()], rel=1e-9)
    np.testing.assert_allclose(game.base_values(X), why.base_value, rtol=1e-9)


def test_flow_sheets_go_the_same_way():
    g = student(5, 2, 3.0)
    X = np.random.default_rng(3).normal(size=(2, 5))
    why = Explainer(g, upstream=[("x0", "x1", "x2", "x3", "x4")]).explain(X)
    A, scale = witness.score_matrix(g, "spe"), g.covariance / 3
    for x, values in zip(X, why.values, strict=True):
        worth = [student_value(scale, 3.0, A, x, range(k)) for k in range(6)]
        agree(values, np.diff(worth))


def test_torch_walks_the_same_game():
    torch = pytest.importorskip("torch", reason="torch is not installed; it is optional")
    g = student(6, 2, 3.0)
    X = np.random.default_rng(3).normal(size=(4, 6))
    explainer = Explainer(g)
    found = explainer.shares(torch.asarray(X)).values
    agree(found.numpy(), explainer.explain(X).values, 1e-12)


def test_sampled_values_come_within_their_errors():
    g = student(30, 4, 4.0)
    X = g.sample(6, seed=1)
    X[:, 3] += 10
    sampled = Explainer(g, method="permutation", n_orders=200).explain(X)
    better = Explainer(g, method="permutation", n_orders=6000, seed=1).explain(X)
    off = (sampled.values - better.values) / np.hypot(sampled.std_error, better.std_error)
    assert np.sqrt((off**2).mean()) < 2.0
    np.testing.assert_allclose(sampled.values.sum(axis=1) + sampled.base_value, sampled.score, rtol=1e-9)


def test_values_of_many_coalitions_know_the_tails():
    """Kernel regression values coalitions at once, and must not take Student-t rows for Gaussian ones."""
    rng = np.random.default_rng(0)
    g = LatentGaussian(np.zeros(5), rng.normal(size=(5, 2)), 0.3, degrees_of_freedom=5.0)
    game, X = Conditional(scores.mahalanobis(g)), 3 * rng.normal(size=(3, 5))
    members = (np.arange(32)[:, None] >> np.arange(5) & 1).astype(float)
    each = [game.value(X, np.flatnonzero(mask)) for mask in members]
    np.testing.assert_allclose(game.values(X, members), each, rtol=1e-9)


def test_densities_of_student_rows_are_refused():
    """Their values would not add up to the score."""
    student = LatentGaussian(np.zeros(3), np.ones((3, 1)), 0.5, degrees_of_freedom=4.0)
    with pytest.raises(ValueError, match="Student"):
        LatentMixture([0.5, 0.5], (student, student))
    with pytest.raises(ValueError, match="score='nll' is not available for a Student model"):
        Explainer(student, "nll")
