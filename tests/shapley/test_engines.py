"""Exact values against brute force, sampled ones against exact, and shapiq as an outside witness."""

import itertools

import numpy as np
import pytest
import witness

from culpa import LatentGaussian, scores, shapley
from culpa.games import Conditional, Interventional, Retraining
from culpa.games import conditional as conditional_module


def model(d, p, seed, kind):
    rng = np.random.default_rng(seed)
    noise = 0.1 + rng.random(d) if kind == "factor analysis" else 0.1 + rng.random()
    return LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), noise)


def score(gaussian, name):
    if name == "combined":
        return scores.combined(gaussian, 3.0, 7.0), witness.score_matrix(gaussian, name, limits=(3.0, 7.0))
    if name == "features":
        return scores.of_features(gaussian, [0, 2]), witness.score_matrix(gaussian, "spe", features=[0, 2])
    return getattr(scores, name)(gaussian), witness.score_matrix(gaussian, name)


def all_orders(d):
    return shapley.OrderRule(np.stack([np.array(list(itertools.permutations(range(d))))]))


def singles(d):
    return [[i] for i in range(d)]


@pytest.fixture(params=["elimination", "latent"])
def walk(request, monkeypatch):
    """Force the conditional game down one of its two walks."""
    ratio = 0.0 if request.param == "elimination" else np.inf
    monkeypatch.setattr(conditional_module, "_WELL_CONDITIONED", {"residuals": ratio, "latent variables": ratio})


@pytest.mark.parametrize("kind", ["ppca", "factor analysis"])
@pytest.mark.parametrize("name", ["spe", "mse", "t2", "mahalanobis", "combined", "features"])
@pytest.mark.parametrize(("d", "p"), [(3, 1), (5, 2), (8, 5)])
def test_exact_equals_brute_force(walk, kind, name, d, p):
    gaussian = model(d, p, d, kind)
    quadratic, A = score(gaussian, name)
    X = 2 * np.random.default_rng(1).normal(size=(2, d))
    C = gaussian.covariance
    for game, value in (
        (Conditional(quadratic), witness.conditional_value),
        (Interventional(quadratic), witness.interventional_value),
    ):
        expected = [witness.shapley(witness.all_values(lambda x, S, value=value: value(C, A, x, S), x), d) for x in X]
        actual = shapley.exact(game, X, singles(d)).values
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
        np.testing.assert_allclose(game.base_value + actual.sum(axis=1), quadratic(X), rtol=1e-10)


@pytest.mark.parametrize("rank", ["components", "share"])
@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize(("d", "p"), [(3, 1), (6, 3), (8, 5)])
def test_retraining_equals_brute_force(rank, mean, d, p):
    rng = np.random.default_rng(d)
    covariance = np.cov(rng.normal(size=(40, d)) @ rng.normal(size=(d, d)), rowvar=False)
    X = rng.normal(size=(2, d))
    expected = [
        witness.shapley(
            witness.all_values(
                lambda x, S: witness.retraining_value(covariance, x, S, p, mean=mean, share=rank == "share"), x
            ),
            d,
        )
        for x in X
    ]
    game = Retraining(covariance, p, mean=mean, rank=rank)
    np.testing.assert_allclose(
        shapley.exact(game, X, singles(d)).values, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max()
    )


def test_retraining_on_copied_columns():
    """Copies have no variance of their own, but a PCA with as many components as features reconstructs them all."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(40, 3))[:, [0, 0, 1, 1, 2]]
    game = Retraining(np.cov(data, rowvar=False), 2, mean=False)
    x = rng.normal(size=(1, 5))
    for pair in itertools.combinations(range(5), 2):
        assert game.value(x, np.array(pair))[0] == pytest.approx(0.0, abs=1e-12)


def games_of(gaussian):
    quadratic = scores.mse(gaussian)
    return [
        Conditional(quadratic),
        Interventional(quadratic),
        Retraining(gaussian.covariance, gaussian.n_components, mean=True),
    ]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_value_is_what_the_walk_sums_up_to(walk, which):
    game = games_of(model(5, 2, 3, "ppca"))[which]
    X = np.random.default_rng(0).normal(size=(3, 5))
    table = shapley.tabulate(game, X, singles(5))
    for number, row in enumerate(table):
        members = np.array([i for i in range(5) if number >> i & 1], dtype=int)
        np.testing.assert_allclose(row, game.value(X, members), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_all_orders_equal_exact(walk, which):
    game = games_of(model(5, 2, 4, "ppca"))[which]
    X = np.random.default_rng(0).normal(size=(3, 5))
    averaged = shapley.permutation(game, X, singles(5), all_orders(5))
    np.testing.assert_allclose(averaged.values, shapley.exact(game, X, singles(5)).values, rtol=1e-10, atol=1e-13)


def by_rule(game, X, players):
    return shapley.permutation(game, X, players, shapley.order_rule(len(players), 5, 1))


def by_independent_orders(game, X, players):
    return shapley.permutation(game, X, players, independent(len(players), 10, 40))


def independent(n_players, n_orders, n_replicates):
    """Independent random orders."""
    orders = np.tile(np.arange(n_players), (n_replicates, n_orders, 1))
    return shapley.OrderRule(np.random.default_rng(1).permuted(orders, axis=2))


def by_algorithm1(game, X, players):
    return shapley.algorithm1(game, X, players, n_orders=256, seed=1)


@pytest.mark.parametrize("engine", [by_rule, by_independent_orders, by_algorithm1])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_sampling_agrees_within_its_standard_errors(engine, which):
    game = games_of(model(6, 3, 5, "ppca"))[which]
    X = 2 * np.random.default_rng(0).normal(size=(4, 6))
    sampled = engine(game, X, singles(6))
    exact = shapley.exact(game, X, singles(6)).values
    off = np.abs(sampled.values - exact)
    assert (off <= (10 if sampled.n_replicates == 6 else 4) * sampled.std_error + 1e-9).all()
    assert off.max() > 1e-6  # it did sample


@pytest.mark.parametrize("which", [0, 1, 2])
def test_permutation_is_efficient_with_few_orders(which):
    game = games_of(model(6, 3, 6, "ppca"))[which]
    X = np.random.default_rng(0).normal(size=(4, 6))
    few = shapley.permutation(game, X, singles(6), independent(6, 2, 2))
    total = game.value(X, np.arange(6))
    np.testing.assert_allclose(few.values.sum(axis=1) + game.base_value, total, rtol=1e-10)


def test_groups_are_players():
    gaussian = model(6, 3, 7, "ppca")
    game, A = Conditional(scores.spe(gaussian)), witness.score_matrix(gaussian, "spe")
    players = [[0, 3], [1], [2, 4, 5]]
    x = np.random.default_rng(0).normal(size=6)

    def value(_, coalition):
        members = sorted(i for player in coalition for i in players[player])
        return witness.conditional_value(gaussian.covariance, A, x, members)

    expected = witness.shapley({S: value(x, S) for S in witness.coalitions(3)}, 3)
    np.testing.assert_allclose(shapley.exact(game, x[None], players).values[0], expected, rtol=1e-10)
    averaged = shapley.permutation(game, x[None], players, all_orders(3))
    np.testing.assert_allclose(averaged.values[0], expected, rtol=1e-10)


def test_chunks_of_rows_and_coalitions_do_not_matter(walk):
    game = Conditional(scores.spe(model(9, 4, 8, "ppca")))
    X = np.random.default_rng(0).normal(size=(7, 9))
    whole = shapley.exact(game, X, singles(9), at_once=1 << 20).values
    np.testing.assert_allclose(shapley.exact(game, X, singles(9), at_once=64).values, whole, rtol=1e-11)


def test_progress_reaches_one():
    seen = []
    game = Conditional(scores.spe(model(8, 4, 8, "ppca")))
    shapley.exact(game, np.ones((1, 8)), singles(8), at_once=16, progress=lambda share, error: seen.append(share))
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1.0)


def test_shapiq_agrees():
    """shapiq's exact computer, fed our coalition values, returns our Shapley values."""
    from shapiq.game_theory.exact import ExactComputer

    d = 6
    game = Conditional(scores.spe(model(d, 3, 9, "ppca")))
    x = np.random.default_rng(0).normal(size=(1, d))
    table = shapley.tabulate(game, x, singles(d))[:, 0]

    def play(masks):
        return table[np.asarray(masks, dtype=np.int64) @ (1 << np.arange(d))]

    theirs = ExactComputer(game=play, n_players=d)("SV").get_n_order_values(1)
    np.testing.assert_allclose(theirs, shapley.exact(game, x, singles(d)).values[0], rtol=1e-9, atol=1e-11)
