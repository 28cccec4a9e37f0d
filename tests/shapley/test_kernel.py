"""Kernel regression: what it is made of, that it converges, and that its errors are honest."""

import itertools
import sys
import threading

import numpy as np
import pytest
from scipy import stats
from threadpoolctl import threadpool_info

from culpa import Explainer, LatentGaussian, scores, shapley
from culpa.games import Conditional, Game, Given, Interventional, Minimal, Retraining
from culpa.shapley import kernel as kernel_function
from culpa.shapley import paired_rule
from culpa.shapley.kernel import N_FOLDS, PairedRule, _covariance, _cross, _rho


def gaussian(d, p, seed=0, noise=0.3):
    return LatentGaussian(np.zeros(d), np.random.default_rng(seed).normal(size=(d, p)), noise)


def singles(d):
    return [[i] for i in range(d)]


def all_signs(d):
    return np.array(list(itertools.product([-1.0, 1.0], repeat=d)))


class FromTable(Game):
    """A game with a given value for every coalition, the same for all rows."""

    base_value = 0.0
    n_features = 5

    def __init__(self, value, d):
        assert d == self.n_features
        self._value = value

    def value(self, X, members):
        return np.full(len(X), self._value(frozenset(np.asarray(members).tolist())))


@pytest.mark.parametrize(
    "game",
    [
        Conditional(scores.spe(gaussian(6, 2))),
        Conditional(scores.t2(gaussian(6, 2, noise=np.linspace(0.1, 0.6, 6)))),
        Conditional(scores.mahalanobis(gaussian(6, 2, noise=1e-8))),
        Given(Conditional(scores.spe(gaussian(6, 2))), np.array([1, 4])),
        Minimal(scores.mahalanobis(gaussian(6, 2))),
        Given(Minimal(scores.spe(gaussian(6, 2))), np.array([1, 4])),
    ],
    ids=["spe", "t2", "tiny noise", "given", "minimal", "given minimal"],
)
def test_values_of_many_coalitions_at_once(game):
    X = np.random.default_rng(0).normal(size=(3, 6))
    masks = (all_signs(6) + 1) / 2
    expected = np.stack([game.value(X, np.flatnonzero(mask)) for mask in masks])
    np.testing.assert_allclose(game.values(X, masks), expected, rtol=1e-7, atol=1e-9)


def test_covariances_are_those_of_all_odd_interactions():
    """With independent coefficients of variance rho^order, listed one by one."""
    d = 5
    signs = all_signs(d)
    sets = [T for k in (1, 3, 5) for T in itertools.combinations(range(d), k)]
    terms = np.array([signs[:, list(T)].prod(axis=1) for T in sets]).T  # (coalitions, sets)
    prior = np.array([_rho(d) ** len(T) for T in sets])
    scale = prior.sum()
    np.testing.assert_allclose(_covariance(signs, signs), (terms * prior) @ terms.T / scale, atol=1e-12)
    phi = np.array([[2 * (i in T) / len(T) for T in sets] for i in range(d)])
    np.testing.assert_allclose(_cross(signs), (phi * prior) @ terms.T / scale, atol=1e-12)


def test_shapley_values_are_twice_the_odd_coefficients_over_their_order():
    """The formula behind `_cross`, for one interaction of three."""
    d, T = 5, (0, 2, 3)
    game = FromTable(lambda S: np.prod([1.0 if i in S else -1.0 for i in T]) + 1.0, d)
    values = shapley.exact(game, np.zeros((1, d)), singles(d)).values[0]
    np.testing.assert_allclose(values, [2 / 3 if i in T else 0.0 for i in range(d)], atol=1e-12)


def test_surrogates_have_not_seen_the_fold_that_they_predict(monkeypatch):
    monkeypatch.setattr(kernel_engine_module(), "_MOST_FITTED", 60)
    rule = paired_rule.__wrapped__(6, 80, 3)
    h = np.random.default_rng(0).normal(size=(80, 2))
    fold = np.arange(80) % N_FOLDS
    error, by_fold = rule._surrogates(h, fold)
    K = _covariance(rule.signs[:60], rule.signs[:60]) + 1e-3 * np.eye(60)
    whole = np.linalg.solve(K, h[:60])
    for r in range(N_FOLDS):
        kept = np.flatnonzero(fold[:60] != r)
        out = np.flatnonzero(fold[:60] == r)
        solved = np.linalg.solve(K[np.ix_(kept, kept)], h[kept])
        np.testing.assert_allclose(error[out], h[out] - K[np.ix_(out, kept)] @ solved, atol=1e-9)
        phi = (len(out) * rule.cross[:, kept] @ solved + 2 * rule.cross @ whole) / (len(out) + 2)
        np.testing.assert_allclose(by_fold[r], phi.T, atol=1e-9)
    later = _covariance(rule.signs[60:], rule.signs[:60]) @ whole
    np.testing.assert_allclose(error[60:], h[60:] - later, atol=1e-9)


def kernel_engine_module():
    import importlib

    return importlib.import_module("culpa.shapley.kernel")


def test_additive_games_are_exact():
    worth = np.array([1.0, -2.0, 0.5, 3.0, 0.0])
    game = FromTable(lambda S: sum(worth[i] for i in S), 5)
    shares = kernel_function(game, np.zeros((2, 5)), singles(5), paired_rule(5, 40, 0))
    np.testing.assert_allclose(shares.values, [worth, worth], atol=1e-9)
    np.testing.assert_allclose(shares.std_error, 0, atol=1e-9)


@pytest.mark.parametrize("n_pairs", [20, 300, 3000])
def test_values_add_up_in_every_replicate(n_pairs):
    game = Conditional(scores.spe(gaussian(7, 3)))
    X = np.random.default_rng(0).normal(size=(4, 7))
    rule = paired_rule(7, n_pairs, 0)
    values = game.values(X, rule.coalitions())
    np.testing.assert_allclose(rule.replicates(values).sum(axis=2), (values[-1] - values[-2])[None] * np.ones((10, 1)))


@pytest.mark.parametrize(
    "game",
    [
        Conditional(scores.spe(gaussian(8, 3))),
        Interventional(scores.spe(gaussian(8, 3))),
        Minimal(scores.mahalanobis(gaussian(8, 3))),
        Retraining(gaussian(8, 3).covariance, 3, mean=True),
    ],
    ids=["conditional", "interventional", "minimal", "retraining"],
)
def test_converges_to_exact_values(game):
    X = 2 * np.random.default_rng(1).normal(size=(3, 8))
    exact = shapley.exact(game, X, singles(8)).values
    sampled = kernel_function(game, X, singles(8), paired_rule(8, 400, 0))
    assert (np.abs(sampled.values - exact) <= 5 * sampled.std_error + 1e-9).all()
    assert np.linalg.norm(sampled.values - exact) < 0.08 * np.linalg.norm(exact)


@pytest.mark.parametrize(("d", "n_pairs"), [(8, 60), (12, 100), (12, 400)])
def test_intervals_cover_as_often_as_they_say(d, n_pairs):
    game = Conditional(scores.spe(gaussian(d, d // 2)))
    X = 2 * np.random.default_rng(1).normal(size=(12, d))
    exact = shapley.exact(game, X, singles(d)).values
    covered = []
    for seed in range(40):
        shares = kernel_function(game, X, singles(d), paired_rule.__wrapped__(d, n_pairs, seed))
        quantile = stats.t.ppf(0.975, shares.n_replicates - 1)
        covered.append((np.abs(shares.values - exact) <= quantile * shares.std_error).mean())
    assert 0.90 <= np.mean(covered) <= 0.98


def test_the_mean_over_seeds_is_right():
    """The surrogate is biased, the result is not: less than the error of a mean of forty."""
    d = 10
    game = Conditional(scores.spe(gaussian(d, 5)))
    X = 2 * np.random.default_rng(1).normal(size=(6, d))
    exact = shapley.exact(game, X, singles(d)).values
    found = np.array([kernel_function(game, X, singles(d), paired_rule(d, 60, seed)).values for seed in range(40)])
    z = (found.mean(axis=0) - exact) / (found.std(axis=0, ddof=1) / np.sqrt(40))
    assert np.sqrt((z**2).mean()) < 1.5


def test_needs_ten_times_fewer_coalitions_than_independent_orders():
    d = 16
    game = Conditional(scores.spe(gaussian(d, 8)))
    X = 2 * np.random.default_rng(1).normal(size=(8, d))
    exact = shapley.exact(game, X, singles(d)).values

    def error(values):
        return np.median(np.linalg.norm(values - exact, axis=1) / np.linalg.norm(exact, axis=1))

    rule = paired_rule(d, 1000, 0)
    by_kernel = error(kernel_function(game, X, singles(d), rule).values)
    orders = np.tile(np.arange(d), (6, 10 * rule.n_evaluations // d // 6, 1))
    orders = shapley.OrderRule(np.random.default_rng(0).permuted(orders, axis=2))
    assert by_kernel < error(shapley.permutation(game, X, singles(d), orders).values)


class TestExplainer:
    def test_tolerance(self):
        model = gaussian(14, 4)
        explainer = Explainer(model, method="kernel", tolerance=0.02)
        X = model.sample(20, np.random.default_rng(3)) + np.eye(20, 14) * 4
        why = explainer.explain(X)
        exact = Explainer(model).explain(X).values
        errors = np.linalg.norm(why.values - exact, axis=1) / np.linalg.norm(exact, axis=1)
        assert np.median(errors) < 0.03
        assert explainer.chosen == f"kernel: {why.n_evaluations:,} coalitions of 14 players"
        assert why.method == "kernel"
        assert why.n_replicates == N_FOLDS
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)

    @pytest.mark.parametrize("how", [{}, {"tolerance": 1e-6}, {"n_orders": 100}, {"max_coalitions": 256}])
    def test_few_players_are_exact(self, how):
        """All coalitions of eight players are cheaper than regressions on more."""
        model = gaussian(8, 3)
        X = 2 * np.random.default_rng(0).normal(size=(5, 8))
        X[3, 2] = np.nan
        why = Explainer(model, method="kernel", **how).explain(X)
        assert why.exact
        assert why.n_evaluations <= 256
        np.testing.assert_allclose(
            why.values, Explainer(model, method="exact").explain(X).values, rtol=1e-9, atol=1e-12
        )

    @pytest.mark.parametrize("budget", [4, 21, 64, 127, 128, 142, 200, 255, 5000])
    def test_budgets_are_kept_or_refused(self, budget):
        for d in (2, 4, 6, 8, 9, 14, 70):
            X = np.ones((2, d))
            X[1, 0] = np.nan
            explainer = Explainer(gaussian(d, 1), method="kernel", max_coalitions=budget)
            if budget < min(162 if d == 70 else 128, 2**d):
                with pytest.raises(ValueError, match="max_coalitions"):
                    explainer.explain(X)
            else:
                assert explainer.explain(X).n_evaluations <= budget

    def test_intervals_where_a_large_share_is_asked_for(self):
        """A quarter of the coalitions at most is drawn, so that intervals are not too short."""
        model, X = gaussian(8, 3), 2 * np.random.default_rng(1).normal(size=(6, 8))
        exact = Explainer(model, method="exact").explain(X).values
        inside = []
        for seed in range(60):
            why = Explainer(model, method="kernel", max_coalitions=250, seed=seed).explain(X)
            assert not why.exact
            assert why.n_evaluations <= 66
            low, high = why.interval()
            inside.append(((low <= exact) & (exact <= high)).mean())
        assert np.mean(inside) > 0.92

    @pytest.mark.parametrize(
        ("d", "asked"), [(8, {"n_orders": 1}), (14, {"n_orders": 1}), (18, {"max_coalitions": 128})]
    )
    def test_intervals_hold_for_the_fewest_coalitions(self, d, asked):
        model, X = gaussian(d, 3), 2 * np.random.default_rng(1).normal(size=(6, d))
        exact = Explainer(model, method="exact").explain(X).values
        inside = []
        for seed in range(40):
            why = Explainer(model, method="kernel", seed=seed, **asked).explain(X)
            assert not why.exact
            low, high = why.interval()
            inside.append(((low <= exact) & (exact <= high)).mean())
        assert np.mean(inside) > 0.92

    def test_budgets_below_all_coalitions(self):
        why = Explainer(gaussian(8, 3), method="kernel", max_coalitions=200).explain(np.ones((2, 8)))
        assert not why.exact

    @pytest.mark.parametrize("score", ["spe", "mahalanobis"])
    @pytest.mark.parametrize("noise", [1e-4, 1e-8, 1e-10])
    def test_values_add_up_where_the_noise_is_tiny(self, noise, score):
        model = LatentGaussian(np.zeros(14), np.random.default_rng(0).normal(size=(14, 3)), noise)
        X = model.sample(6, 1)
        X[3:, 5] = np.nan
        why = Explainer(model, score, method="kernel", n_orders=8).explain(X)
        assert not why.exact
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-9)

    @pytest.mark.parametrize(
        ("score", "noise"), [("spe", 1e-5), ("mahalanobis", 1e-5), ("spe", 1e-8), ("mahalanobis", 1e-8), ("t2", 1e-11)]
    )
    def test_a_row_alone_is_as_in_a_table_where_the_noise_is_tiny(self, noise, score):
        model = LatentGaussian(np.zeros(14), np.random.default_rng(0).normal(size=(14, 3)), noise)
        X = model.sample(12, 1) + np.eye(12, 14) * 4 * np.sqrt(noise)
        explainer = Explainer(model, score, method="kernel", n_orders=40)
        table = explainer.explain(X).values
        for i, row in enumerate(X):
            alone = explainer.explain(row[None]).values[0]
            np.testing.assert_allclose(alone, table[i], rtol=0, atol=1e-11 * np.abs(table[i]).max())

    @pytest.mark.parametrize("game", ["conditional", "interventional", "minimal"])
    @pytest.mark.parametrize("score", ["spe", "t2"])
    def test_models_without_components(self, score, game):
        model = LatentGaussian(np.zeros(14), np.zeros((14, 0)), 0.5)
        X = np.random.default_rng(0).normal(size=(3, 14))
        why = Explainer(model, score, game=game, method="kernel", n_orders=8).explain(X)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-9, atol=1e-12)

    def test_groups_given_and_missing_cells(self):
        model = gaussian(9, 3)
        X = 2 * np.random.default_rng(0).normal(size=(5, 9))
        X[0, 2] = X[1, 5] = np.nan
        for options in ({"groups": {"pair": [0, 1]}}, {"given": [3, 5]}, {"game": "minimal"}):
            exact = Explainer(model, **options).explain(X)
            why = Explainer(model, method="kernel", n_orders=100, **options).explain(X)
            assert (np.abs(why.values - exact.values) <= 6 * why.std_error + 1e-9).all()
            np.testing.assert_allclose(why.values.sum(axis=1), exact.values.sum(axis=1), rtol=1e-9)

    def test_budget_and_small_games(self):
        assert (
            Explainer(gaussian(8, 3), method="kernel", max_coalitions=150).explain(np.ones((1, 8))).n_evaluations <= 150
        )
        three = Explainer(gaussian(3, 1), method="kernel")
        assert three.chosen == "exact: 8 coalitions of 3 players"
        assert three.explain(np.ones((1, 3))).exact

    def test_refusals(self):
        with pytest.raises(ValueError, match="upstream"):
            Explainer(gaussian(6, 2), method="kernel", upstream=[(0, 1)])
        with pytest.raises(ValueError, match="cannot be compiled"):
            Explainer(gaussian(6, 2), method="kernel").compile()

    def test_unreachable_tolerance_is_said(self, monkeypatch):
        monkeypatch.setattr(kernel_engine_module(), "_MOST_PAIRS", 100)
        with pytest.warns(UserWarning, match="was not reached with 200 coalitions"):
            Explainer(gaussian(12, 6), method="kernel", tolerance=1e-4).explain(np.ones((1, 12)))


class TestCtrlC:
    """A call of numpy cannot be interrupted, so calls are short, or another thread makes them."""

    def test_the_threads_of_blas_do_not_wait_for_each_other(self):
        numbers = []

        class Watching(Conditional):
            def values(self, X, members):
                numbers.extend(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")
                return super().values(X, members)

        kernel_function(Watching(scores.spe(gaussian(6, 2))), np.ones((3, 6)), singles(6), paired_rule(6, 50, 0))
        assert set(numbers) == {1}

    def test_long_regressions_run_in_another_thread(self, monkeypatch):
        threads, replicates = [], PairedRule.replicates

        def watched(rule, values):
            threads.append(threading.current_thread())
            return replicates(rule, values)

        monkeypatch.setattr(PairedRule, "replicates", watched)
        game, rule = Conditional(scores.spe(gaussian(6, 2))), paired_rule(6, 2000, 0)
        for n_rows in (100, 1):
            kernel_function(game, np.ones((n_rows, 6)), singles(6), rule)
        long, short = threads
        assert long is not short
        assert short is threading.main_thread()

    def test_pieces_change_no_number(self, monkeypatch):
        whole = paired_rule.__wrapped__(12, 300, 0)
        monkeypatch.setattr(sys.modules["culpa.shapley.kernel"], "_CELLS_PER_CALL", 100)
        pieces = paired_rule.__wrapped__(12, 300, 0)
        np.testing.assert_array_equal(pieces.signs, whole.signs)
        np.testing.assert_array_equal(pieces.precision, whole.precision)
