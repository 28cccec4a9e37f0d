"""Asymmetric values against brute force over all admissible orders, with values of coalitions from their definitions."""

import itertools
import pickle
import sys

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import witness
from hypothesis import given, settings
from hypothesis import strategies as st

from culpa import Explainer, LatentGaussian, PCADetector, scores, shapley
from culpa.games import Conditional, Given, Interventional, Retraining
from culpa.shapley import DownSets, PartialOrder, asymmetric, plan

SCORES = ("spe", "t2", "mahalanobis")


def brute_force(value, n_players, edges):
    """Mean change of value over all orders in which every edge's first player comes before its second."""
    values = {S: value(S) for S in witness.coalitions(n_players)}
    total, n = np.zeros(n_players), 0
    for order in itertools.permutations(range(n_players)):
        if any(order.index(a) > order.index(b) for a, b in edges):
            continue
        n += 1
        for k, player in enumerate(order):
            total[player] += values[tuple(sorted(order[: k + 1]))] - values[tuple(sorted(order[:k]))]
    return total / n


def random_edges(rng, n_players, density):
    """Relations that follow a hidden order, so that there is no circle; some follow from others."""
    hidden = rng.permutation(n_players).tolist()
    return [(hidden[a], hidden[b]) for a, b in itertools.combinations(range(n_players), 2) if rng.random() < density]


def order_of(edges, n_players):
    return PartialOrder.from_chains(edges, [f"x{i}" for i in range(n_players)])


def gaussian_of(rng, d):
    noise = 0.1 + rng.random(d) if rng.random() < 0.5 else 0.1 + rng.random()
    return LatentGaussian(np.zeros(d), rng.normal(size=(d, max(1, d // 2))), noise)


def exactly(game, X, players, edges):
    return asymmetric(game, X, players, DownSets.find(order_of(edges, len(players)), np.inf)).values


def definition(gaussian, name, score, x):
    """What a set of features is worth, from the definition of the game."""
    C, p = gaussian.covariance, gaussian.n_components
    A = witness.score_matrix(gaussian, score)
    return {
        "conditional": lambda S: witness.conditional_value(C, A, x, S),
        "interventional": lambda S: witness.interventional_value(C, A, x, S),
        "retraining": lambda S: witness.retraining_value(C, x, S, p, mean=False),
    }[name]


def game_of(gaussian, name, score):
    if name == "retraining":
        return Retraining(gaussian.covariance, gaussian.n_components, mean=False)
    return {"conditional": Conditional, "interventional": Interventional}[name](getattr(scores, score)(gaussian))


GAMES = st.sampled_from(["conditional", "interventional", "retraining"])
SEEDS = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 7), st.floats(0, 1), GAMES, st.sampled_from(SCORES), SEEDS)
def test_exact_values_equal_brute_force_over_admissible_orders(d, density, name, score, seed):
    rng = np.random.default_rng(seed)
    gaussian, edges = gaussian_of(rng, d), random_edges(rng, d, density)
    X = 2 * rng.normal(size=(2, d))
    game = game_of(gaussian, name, score)
    found = exactly(game, X, [[i] for i in range(d)], edges)
    wanted = np.array([brute_force(definition(gaussian, name, score, x), d, edges) for x in X])
    scale = max(1.0, np.abs(wanted).max())
    assert np.abs(found - wanted).max() <= 1e-10 * scale
    total = game.total(X, np.arange(d)) - game.base_value
    assert np.abs(found.sum(axis=1) - total).max() <= 1e-10 * scale


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 5), st.floats(0, 1), GAMES, SEEDS)
def test_groups_are_players(n_groups, density, name, seed):
    rng = np.random.default_rng(seed)
    d = n_groups + 2
    owner = np.concatenate([np.arange(n_groups), rng.integers(n_groups, size=2)])
    players = [np.flatnonzero(owner == k).tolist() for k in range(n_groups)]
    gaussian, edges = gaussian_of(rng, d), random_edges(rng, n_groups, density)
    x = rng.normal(size=d)
    value = definition(gaussian, name, "spe", x)
    wanted = brute_force(lambda S: value(sorted(i for k in S for i in players[k])), n_groups, edges)
    found = exactly(game_of(gaussian, name, "spe"), x[None], players, edges)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("name", ["conditional", "interventional", "retraining"])
def test_without_relations_they_are_the_shapley_values(name):
    rng = np.random.default_rng(3)
    game, X = game_of(gaussian_of(rng, 9), name, "mahalanobis"), rng.normal(size=(5, 9))
    players = [[0, 4], *([i] for i in (1, 2, 3, 5, 6, 7, 8))]
    wanted = shapley.exact(game, X, players).values
    np.testing.assert_allclose(exactly(game, X, players, []), wanted, rtol=1e-10, atol=1e-11)


def test_tiny_noise_costs_no_digits():
    """There, the game is walked in its latent variables."""
    rng = np.random.default_rng(1)
    gaussian = LatentGaussian(np.zeros(6), rng.normal(size=(6, 2)), 1e-8)
    game, X, edges = Conditional(scores.spe(gaussian)), rng.normal(size=(2, 6)), [(5, 0), (5, 3), (1, 3)]
    wanted = [brute_force(lambda S, x=x: game.value(x[None], np.array(S, dtype=int))[0], 6, edges) for x in X]
    np.testing.assert_allclose(exactly(game, X, [[i] for i in range(6)], edges), wanted, rtol=1e-8)


def test_a_cause_gets_the_credit_for_what_it_implies_about_its_effect():
    """Two features that move together and are both off: upstream takes the blame that Shapley values share equally."""
    gaussian = LatentGaussian(np.zeros(2), np.array([[1.0], [1.0]]), 0.1)
    x, players = np.array([[3.0, 3.0]]), [[0], [1]]
    game = Conditional(scores.mahalanobis(gaussian))
    shared, first, second = (exactly(game, x, players, edges)[0] for edges in ([], [(0, 1)], [(1, 0)]))
    assert shared[0] == pytest.approx(shared[1])
    assert first[0] > shared[0] > first[1]
    np.testing.assert_allclose(first, second[::-1])
    assert first[0] == pytest.approx(9 / 1.1 - 1)  # what its own z-score says


def test_batches_do_not_matter(monkeypatch):
    rng = np.random.default_rng(2)
    game, X = game_of(gaussian_of(rng, 9), "conditional", "spe"), rng.normal(size=(7, 9))
    edges, players = [(0, 5), (0, 6), (6, 2), (8, 2)], [[i] for i in range(9)]
    whole = exactly(game, X, players, edges)
    module = sys.modules["culpa.shapley.asymmetric"]  # the package lists the function under this name
    monkeypatch.setattr(module, "_CELLS_PER_CHUNK", 500)
    monkeypatch.setattr(module, "_VALUES_PER_CHUNK", 500)
    np.testing.assert_allclose(exactly(game, X, players, edges), whole, rtol=1e-11, atol=1e-13)


def test_arrays_of_other_libraries():
    rng = np.random.default_rng(4)
    game, X = game_of(gaussian_of(rng, 5), "conditional", "spe"), rng.normal(size=(3, 5))
    players, edges = [[i] for i in range(5)], [(0, 1), (2, 1)]
    with array_api_strict.ArrayAPIStrictFlags(api_version="2024.12"):
        found = exactly(game, array_api_strict.asarray(X), players, edges)
    np.testing.assert_allclose(np.asarray(found), exactly(game, X, players, edges), rtol=1e-12)


def test_some_features_may_be_given():
    rng = np.random.default_rng(5)
    gaussian, x = gaussian_of(rng, 5), rng.normal(size=5)
    inner = Conditional(scores.spe(gaussian))
    value = definition(gaussian, "conditional", "spe", x)
    players = [0, 1, 3]
    wanted = brute_force(lambda S: value(sorted([2, 4, *(players[k] for k in S)])), 3, [(2, 0)])
    found = exactly(Given(inner, np.array([2, 4])), x[None], [[i] for i in players], [(2, 0)])[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


class TestExplainer:
    rng = np.random.default_rng(6)
    gaussian = LatentGaussian(np.zeros(6), rng.normal(size=(6, 2)), 0.3)
    X = 2 * rng.normal(size=(4, 6))
    upstream = (("x4", "x1", "x0"), ("x4", "x2"))
    edges = ((4, 1), (1, 0), (4, 2))

    def test_chains_name_features(self):
        explainer = Explainer(self.gaussian, upstream=self.upstream)
        why = explainer.explain(self.X)
        assert (why.method, why.exact, why.n_replicates) == ("asymmetric", True, 0)
        down_sets = DownSets.find(order_of(self.edges, 6), np.inf)
        assert explainer.chosen == f"asymmetric, exact: {len(down_sets)} admissible coalitions of 6 players"
        assert why.n_evaluations == len(down_sets)
        for x, values in zip(self.X, why.values, strict=True):
            wanted = brute_force(definition(self.gaussian, "conditional", "spe", x), 6, self.edges)
            np.testing.assert_allclose(values, wanted, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-11)
        by_position = Explainer(self.gaussian, upstream=[(4, 1, 0), [4, 2]]).explain(self.X)
        np.testing.assert_array_equal(by_position.values, why.values)

    @pytest.mark.parametrize("game", ["conditional", "interventional"])
    def test_who_is_missing_still_lies_between(self, game):
        """x1 is missing, and x4 still comes before x0."""
        X = self.X.copy()
        X[1, 1] = X[2, 4] = np.nan
        why = Explainer(self.gaussian, game=game, upstream=self.upstream).explain(X)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-11)
        for row, left, edges in ((1, [0, 2, 3, 4, 5], [(3, 0), (3, 1)]), (2, [0, 1, 2, 3, 5], [(1, 0)])):
            score = scores.spe(self.gaussian)
            whole = Interventional(score).where(~np.isnan(X[row])) if game == "interventional" else Conditional(score)
            row_alone = np.nan_to_num(X[[row]])
            wanted = brute_force(
                lambda S, whole=whole, x=row_alone, left=left: whole.value(
                    x, np.array([left[k] for k in S], dtype=int)
                )[0],
                5,
                edges,
            )
            np.testing.assert_allclose(why.values[row, left], wanted, rtol=1e-10, atol=1e-11)
        assert why.values[1, 1] == why.values[2, 4] == 0

    def test_nobody_left_to_come_before(self):
        X = self.X.copy()
        X[0, 4] = np.nan
        why = Explainer(self.gaussian, upstream=[("x4", "x2")]).explain(X[:1])
        np.testing.assert_allclose(why.values, Explainer(self.gaussian).explain(X[:1]).values, rtol=1e-11)

    def test_groups(self):
        groups = {"feed": ["x4", "x5"], "column": ["x0", "x1"]}
        why = Explainer(self.gaussian, groups=groups, upstream=[("feed", "column"), ("x3", "column")]).explain(self.X)
        assert why.player_names == ("column", "x2", "x3", "feed")
        players = [[0, 1], [2], [3], [4, 5]]
        for x, values in zip(self.X, why.values, strict=True):
            value = definition(self.gaussian, "conditional", "spe", x)
            wanted = brute_force(
                lambda S, value=value: value(sorted(i for k in S for i in players[k])), 4, [(3, 0), (2, 0)]
            )
            np.testing.assert_allclose(values, wanted, rtol=1e-10, atol=1e-11)

    def test_an_empty_flow_sheet_is_none(self):
        explainer = Explainer(self.gaussian, upstream=[])
        assert explainer.chosen == Explainer(self.gaussian).chosen
        assert explainer.explain(self.X).method == "exact"

    @pytest.mark.parametrize("method", ["auto", "permutation"])
    def test_compiled_values_are_the_same(self, method):
        explainer = Explainer(self.gaussian, method=method, upstream=self.upstream, n_orders=60)
        walked = explainer.explain(self.X)
        compiled = explainer.compile().explain(self.X)
        assert explainer.forms is not None
        np.testing.assert_allclose(compiled.values, walked.values, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(compiled.std_error, walked.std_error, rtol=1e-9, atol=1e-11)
        assert compiled.method == "asymmetric"

    def test_many_rows_are_compiled(self):
        explainer = Explainer(self.gaussian, upstream=self.upstream)
        X = np.random.default_rng(0).normal(size=(500, 6))
        few = explainer.explain(X[:5]).values
        assert explainer.forms is None
        many = explainer.explain(X).values
        assert explainer.forms is not None
        np.testing.assert_allclose(many[:5], few, rtol=1e-9, atol=1e-11)

    def test_sampled_values_agree_within_their_standard_errors(self):
        exact = Explainer(self.gaussian, upstream=self.upstream).explain(self.X)
        explainer = Explainer(self.gaussian, method="permutation", upstream=self.upstream, n_orders=400)
        sampled = explainer.explain(self.X)
        assert explainer.chosen == "asymmetric: 384 random orders in 6 replicates, 6 players"
        assert (sampled.method, sampled.exact, sampled.n_replicates) == ("asymmetric", False, 6)
        off = np.abs(sampled.values - exact.values)
        assert (off <= 6 * sampled.std_error + 1e-12).all()
        assert off.max() > 1e-4  # it did sample
        np.testing.assert_allclose(sampled.values.sum(axis=1) + sampled.base_value, sampled.score, rtol=1e-11)

    def test_many_features_are_sampled_until_the_tolerance_is_met(self):
        rng = np.random.default_rng(8)
        gaussian = LatentGaussian(np.zeros(40), rng.normal(size=(40, 3)), 0.5)
        X = rng.normal(size=(3, 40))
        X[1, 7] = np.nan
        explainer = Explainer(gaussian, tolerance=0.1, upstream=[("x0", "x1", "x2"), ("x7", "x8"), ("x3", "x8")])
        why = explainer.explain(X)
        assert explainer.chosen.startswith("asymmetric: ")
        assert np.linalg.norm(why.std_error) < 0.2 * np.linalg.norm(why.values)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-11)

    def test_a_chain_of_many_features_is_exact(self):
        rng = np.random.default_rng(9)
        gaussian = LatentGaussian(np.zeros(200), rng.normal(size=(200, 3)), 0.5)
        X = rng.normal(size=(2, 200))
        explainer = Explainer(gaussian, upstream=[range(199, -1, -1)])
        assert explainer.chosen == "asymmetric, exact: 201 admissible coalitions of 200 players"
        rule = shapley.OrderRule(np.stack([np.arange(199, -1, -1)[None]]))
        wanted = shapley.permutation(explainer.game, X, explainer.players, rule).values
        np.testing.assert_allclose(explainer.explain(X).values, wanted, rtol=1e-8, atol=1e-10)

    def test_copies_and_tensors(self):
        explainer = Explainer(self.gaussian, upstream=self.upstream)
        values = explainer.explain(self.X).values
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).explain(self.X).values, values)
        np.testing.assert_allclose(explainer.shares(self.X).values, values, rtol=1e-12)


def test_more_orders_than_a_float_can_count():
    """150 layers of five players: (5!)^150 admissible orders, of the order of 1e312."""
    edges = [(5 * k + a, 5 * k + 5 + b) for k in range(149) for a in range(5) for b in range(5)]
    down_sets = DownSets.find(order_of(edges, 750), np.inf)
    assert len(down_sets) == 150 * 31 + 1
    for place in range(750):
        steps = down_sets.steps(place)
        assert len(steps.share) == 16  # within its layer, a player joins any of the others' sets
        assert steps.share.sum() == pytest.approx(1.0, rel=1e-11)
        assert steps.share.max() == pytest.approx(1 / 5, rel=1e-11)


def test_too_many_down_sets():
    assert DownSets.find(order_of([(0, 1)], 60), 1e6) is None
    assert DownSets.find(order_of([(0, 1)], 12), 3071) is None
    assert len(DownSets.find(order_of([(0, 1)], 12), 3072)) == 3072
    gaussian = LatentGaussian(np.zeros(3), np.ones((3, 1)), 0.5)
    assert plan.most_down_sets(Conditional(scores.spe(gaussian)), 4e6) == 1000


class TestErrors:
    normal = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=["feed", "reactor", "product", "load"])

    def refused(self, match, **options):
        with pytest.raises(ValueError, match=match):
            PCADetector(2).fit(self.normal).explain(self.normal[:1], **options)

    def test_unknown_name(self):
        self.refused("did you mean 'feed'", upstream=[("fed", "reactor")])
        self.refused("positions 0 to 3", upstream=[(0, 9)])

    def test_a_chain_is_a_list_in_a_list(self):
        self.refused("a list of chains", upstream=("feed", "reactor"))
        self.refused("a list of chains", upstream=[("feed",)])
        self.refused("a list of chains", upstream=[{"feed", "reactor"}])

    def test_member_of_a_group(self):
        groups = {"unit": ["feed", "reactor"]}
        self.refused("in the group 'unit'", groups=groups, upstream=[("feed", "product")])
        self.refused("did you mean 'unit'", groups=groups, upstream=[("units", "product")])

    def test_given(self):
        self.refused("'load', which is given", given=["load"], upstream=[("load", "feed")])
        detector = PCADetector(2, given=["load"]).fit(self.normal)
        with pytest.raises(ValueError, match="'load', which is given"):
            detector.explain(self.normal[:1], upstream=[("load", "feed")])
        assert detector.explain(self.normal[:1], upstream=[("feed", "product")]).method == "asymmetric"

    def test_methods(self):
        self.refused("algorithm1", method="algorithm1", upstream=[("feed", "reactor")])
        wide = LatentGaussian(np.zeros(60), np.ones((60, 1)), 0.5)
        with pytest.raises(ValueError, match="too many"):
            Explainer(wide, method="exact", upstream=[("x0", "x1")])
