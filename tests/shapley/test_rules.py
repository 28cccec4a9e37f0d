"""Sampling rules: unbiased, exact where they should be, honest about their error."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy import linalg, stats

from culpa import PPCA, Explainer, LatentGaussian, scores, shapley
from culpa.games import Conditional, Interventional
from culpa.shapley import plan
from culpa.shapley.down_sets import DownSets
from culpa.shapley.extensions import extension_rule
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.permutation import summarise
from culpa.shapley.rules import sobol_nets


def singles(d):
    return [[i] for i in range(d)]


def game(d, p, seed, kind=Conditional):
    rng = np.random.default_rng(seed)
    return kind(scores.spe(LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), 0.05 + rng.random())))


@pytest.mark.parametrize(("d", "net"), [(3, 3), (8, 5), (8, 2), (30, 5)])
def test_weights_of_a_mean_add_up_to_one(d, net):
    rule = shapley.default_rule(d, net, 0)
    assert rule.orders.shape == (6 << net, d)
    np.testing.assert_array_equal(np.sort(rule.orders, axis=1), np.broadcast_to(np.arange(d), rule.orders.shape))
    np.testing.assert_allclose(rule.weights.sum(axis=1), 1.0, rtol=1e-10)


def test_exact_for_games_of_pairs():
    """With who-comes-before-whom corrected for, nothing is left to chance in a game without larger interactions."""
    pairs = game(8, 3, 0, Interventional)
    X = np.random.default_rng(1).normal(size=(4, 8))
    exact = pairs.closed_form(X, singles(8))
    sampled = shapley.permutation(pairs, X, singles(8), shapley.default_rule(8, 5, 0))
    np.testing.assert_allclose(sampled.values, exact, rtol=0, atol=1e-6 * np.abs(exact).max())
    plain = shapley.permutation(pairs, X, singles(8), shapley.independent_rule(8, 192, 0))
    assert np.abs(plain.values - exact).max() > 1e-3 * np.abs(exact).max()


def test_better_than_independent_orders():
    errors = {"default": [], "independent": []}
    for seed in range(6):
        one, X = game(11, 6, seed), 2 * np.random.default_rng(seed).normal(size=(10, 11))
        exact = shapley.exact(one, X, singles(11)).values
        for name, rule in (
            ("default", shapley.default_rule(11, 6, seed)),
            ("independent", shapley.independent_rule(11, 6 << 6, seed)),
        ):
            values = shapley.permutation(one, X, singles(11), rule).values
            errors[name].append(np.linalg.norm(values - exact) / np.linalg.norm(exact))
    # error falls with the square root of the number of orders: half the error is four times sooner
    assert np.mean(errors["default"]) < 0.5 * np.mean(errors["independent"])


def covered(d, n_components, n_models, n_seeds, truth):
    """Shares of values that 95% and 99% intervals contain, and that are off by three standard errors, over many models."""
    hits = []
    for seed in range(n_models):
        rng = np.random.default_rng([d, n_components, seed])
        model = LatentGaussian(np.zeros(d), rng.normal(size=(d, n_components)), 0.05 + rng.random())
        rows = model.sample(3, rng) + 3 * rng.normal(size=(3, d)) * (
            rng.random((3, d)) < np.array([[0], [1 / d], [0.2]])
        )
        exact = truth(model).explain(rows).values
        for rule_seed in range(n_seeds):
            why = Explainer(model, method="permutation", n_orders=192 if d < 30 else 384, seed=rule_seed).explain(rows)
            for confidence in (0.95, 0.99):
                low, high = why.interval(confidence)
                hits.append(((low <= exact) & (exact <= high)).mean())
            hits.append((np.abs(why.values - exact) > 3 * why.std_error).mean())
    return np.mean(np.reshape(hits, (-1, 3)), axis=0)


@pytest.mark.parametrize("n_components", [2, 5, 12])
def test_intervals_are_honest(n_components):
    """Against exact values: 95% intervals cover 93% to 97%, and 99% intervals 98% to 99.6%."""
    share95, share99, far_off = covered(18, n_components, 16, 8, lambda model: Explainer(model, method="exact"))
    assert 0.93 <= share95 <= 0.97
    assert 0.98 <= share99 <= 0.996
    assert far_off < 0.045  # 3% by Student's t with five degrees of freedom


@pytest.mark.parametrize("n_components", [2, 20])
def test_intervals_are_honest_with_many_features(n_components):
    """The same against 32 times as many orders: with few components, rare orders decide."""
    share95, share99, far_off = covered(
        80, n_components, 5, 4, lambda model: Explainer(model, method="permutation", n_orders=12_288, seed=1000)
    )
    assert 0.93 <= share95 <= 0.97
    assert 0.98 <= share99 <= 0.996
    assert far_off < 0.045  # 3% by Student's t with five degrees of freedom


def by_kind(game, players, kinds, rule, X, exact):
    """Shares of values of each kind of player that 95% intervals contain, over some seeds."""
    hits = []
    for seed in range(12):
        shares = shapley.permutation(game, X, players, rule(seed))
        half = stats.t.ppf(0.975, shares.n_replicates - 1) * shares.std_error
        hits.append(np.abs(shares.values - exact) <= half + 1e-12)
    return [float(np.concatenate(hits)[:, np.array(kinds) == kind].mean()) for kind in np.unique(kinds)]


@pytest.mark.parametrize("sizes", [(6, *[1] * 10), (8, 4, *[1] * 4), (10, 4, 2)])
def test_intervals_are_honest_where_players_differ(sizes):
    """Clusters of features that imply each other, beside smaller ones and features that nothing implies."""
    shares = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        loadings = linalg.block_diag(*(rng.normal(size=(n, 2)) if n > 1 else np.zeros((1, 0)) for n in sizes))
        model = LatentGaussian(np.zeros(16), loadings, 0.1 + rng.random())
        X = model.sample(3, rng) + 3 * rng.normal(size=(3, 16)) * (rng.random((3, 16)) < 0.2)
        one = Conditional(scores.spe(model))
        exact = shapley.exact(one, X, singles(16)).values
        rule = partial(shapley.default_rule, 16, 5)
        shares.append(by_kind(one, singles(16), np.repeat(sizes, sizes), rule, X, exact))
    assert (np.mean(shares, axis=0) >= 0.92).all()
    assert np.mean(shares, axis=0)[-1] <= 0.98  # of the largest cluster


def test_intervals_are_honest_beside_chains():
    order = PartialOrder.from_chains([range(4), range(4, 8)], [f"x{i}" for i in range(12)])
    kinds, shares = np.repeat(["chain", "free"], [8, 4]), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        one = game(12, 3, seed)
        X = 2 * rng.normal(size=(3, 12))
        exact = shapley.asymmetric(one, X, singles(12), DownSets.find(order, 1e6)).values
        shares.append(by_kind(one, singles(12), kinds, lambda seed: extension_rule(order, 5, seed), X, exact))
    assert all(0.92 <= share <= 0.98 for share in np.mean(shares, axis=0))


def test_intervals_are_honest_for_groups_of_unequal_size():
    players, shares = [list(range(8)), [8, 9, 10], *([i] for i in range(11, 20))], []
    for seed in range(6):
        one = game(20, 4, seed)
        X = 2 * np.random.default_rng(seed).normal(size=(3, 20))
        exact = shapley.exact(one, X, players).values
        rule = partial(shapley.default_rule, len(players), 5)
        shares.append(by_kind(one, players, np.repeat(["group", "one"], [2, 9]), rule, X, exact))
    assert all(0.92 <= share <= 0.985 for share in np.mean(shares, axis=0))


def test_standard_errors_are_those_of_each_player():
    replicates = np.random.default_rng(0).normal(size=(6, 4, 30))
    shares = summarise(replicates, 1)
    assert shares.n_replicates == 6
    np.testing.assert_allclose(shares.std_error, replicates.std(axis=0, ddof=1) / np.sqrt(6))


@pytest.mark.parametrize("d", [1, 2])
def test_one_or_two_players_are_exact(d):
    """Random orders of two players would be coin tosses, whose spread in six nets says little."""
    X = np.random.default_rng(0).normal(size=(4, 6))
    sampled = shapley.permutation(game(6, 2, 0), X, singles(d), shapley.default_rule(d, 5, 0))
    np.testing.assert_allclose(sampled.values, shapley.exact(game(6, 2, 0), X, singles(d)).values, rtol=1e-10)
    np.testing.assert_allclose(sampled.std_error, 0.0, atol=1e-12)


def test_nets_complement_each_other():
    """Together, pieces of one sequence leave mean positions half as uneven as nets that know nothing of each other."""

    def unevenness(nets):
        return ((np.argsort(np.concatenate(nets), axis=1).mean(axis=0) - 3.5) ** 2).mean()

    seeds = range(20)
    together = [unevenness(sobol_nets(8, 4, np.random.default_rng(seed))) for seed in seeds]
    apart = [
        unevenness([sobol_nets(8, 4, np.random.default_rng([seed, k]), n_nets=1)[0] for k in range(6)])
        for seed in seeds
    ]
    assert np.mean(together) < 0.7 * np.mean(apart)


def test_a_pair_game_leaves_nothing_between_replicates():
    """What the controls explain is in no replicate, so it does not widen intervals."""
    pairs = game(8, 3, 0, Interventional)
    X = np.random.default_rng(1).normal(size=(4, 8))
    sampled = shapley.permutation(pairs, X, singles(8), shapley.default_rule(8, 5, 0))
    assert sampled.std_error.max() < 1e-6 * np.abs(sampled.values).max()


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 5)) @ rng.normal(size=(5, 12)) + 0.4 * rng.normal(size=(400, 12))


@pytest.mark.parametrize("tolerance", [0.05, 0.01])
def test_tolerance_is_met(table, tolerance):
    model = PPCA(5).fit(table)
    new = table[:60].copy()
    new[np.arange(60), np.arange(60) % 12] += 4
    exact = Explainer(model).explain(new).values
    sampled = Explainer(model, method="permutation", tolerance=tolerance).explain(new)
    errors = np.linalg.norm(sampled.values - exact, axis=1) / np.linalg.norm(exact, axis=1)
    claimed = np.linalg.norm(sampled.std_error, axis=1) / np.linalg.norm(sampled.values, axis=1)
    assert np.median(errors) <= tolerance
    assert np.median(claimed) <= tolerance
    assert np.median(errors) >= tolerance / 10  # and not by doing far more than was asked


def test_budget_is_kept(table):
    explainer = Explainer(PPCA(5).fit(table), method="permutation", tolerance=1e-6, max_coalitions=5000)
    assert 1000 <= explainer.explain(table[:2]).n_evaluations <= 5000


def test_unreachable_tolerance_is_said(table, monkeypatch):
    monkeypatch.setattr(plan, "_LARGEST_NET", 6)
    with pytest.warns(UserWarning, match="tolerance 1e-06 was not reached with 384 orders"):
        Explainer(PPCA(5).fit(table), method="permutation", tolerance=1e-6).explain(table[:2])


def test_progress_tells_the_error(table):
    seen = []
    explainer = Explainer(
        PPCA(5).fit(table), method="permutation", progress=lambda share, error: seen.append((share, error))
    )
    explainer.explain(table[:2])
    errors = [error for _, error in seen if error is not None]
    assert len(errors) >= 2
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] <= 0.01
    assert seen[-1][0] == 1.0


def test_says_what_it_chose(table):
    model = PPCA(5).fit(table)
    assert Explainer(model).chosen == "exact: 4,096 coalitions of 12 players"
    assert (
        Explainer(model, exact_operations=1e4, n_orders=400).chosen
        == "permutation: 384 orders in 6 replicates, 12 players"
    )
    assert Explainer(model, game="interventional").chosen == "exact: closed form"
    assert Explainer(model, method="algorithm1").chosen == "algorithm1: 1,000 orders for each of 12 players"
    with pytest.raises(ValueError, match="tolerance must be a number above 0"):
        Explainer(model, tolerance=0)


def test_twenty_groups_are_exact_whatever_the_number_of_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 60)) + 0.4 * rng.normal(size=(300, 60))
    explainer = Explainer(PPCA(5).fit(X), groups={f"g{k}": range(3 * k, 3 * k + 3) for k in range(20)})
    assert explainer.chosen == "exact: 1,048,576 coalitions of 20 players"
    why = explainer.explain(X[:2])
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
    sampled = Explainer(
        explainer.model, groups=dict(zip(why.player_names, why.players, strict=True)), method="permutation"
    ).explain(X[:2])
    assert (np.abs(sampled.values - why.values) <= 6 * sampled.std_error).all()


@pytest.mark.parametrize("n_players", [3, 8, 12])
@pytest.mark.parametrize("tolerance", [1e-6, "top1"])
def test_a_budget_of_coalitions_is_kept_or_refused(n_players, tolerance):
    table = np.random.default_rng(0).normal(size=(60, n_players)) * np.arange(1, n_players + 1)
    for budget in (1, 6 * n_players - 1, 6 * n_players, 200, 1000):
        how = {"method": "permutation", "tolerance": tolerance, "max_coalitions": budget}
        explainer = Explainer(PPCA(2).fit(table), **how)
        if budget < 6 * n_players:
            with pytest.raises(ValueError, match=f"max_coalitions={budget} is too few for {n_players} players"):
                explainer.explain(table[:2])
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that ranks are not certain yet
                assert explainer.explain(table[:2]).n_evaluations <= budget
