"""Random admissible orders: all of them, and all equally often."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from culpa import Explainer, LatentGaussian
from culpa.shapley import PartialOrder, extension_rule, extensions

N = [(0, 2), (1, 2), (1, 3)]  # the smallest order that is made neither of parallel parts nor of a series
ORDERS = {
    "none": (4, []),
    "chain and two": (5, [(3, 1), (1, 4)]),
    "tree": (5, [(0, 1), (0, 2), (2, 3), (2, 4)]),
    "two layers": (5, [(a, b) for a in (0, 3) for b in (1, 2, 4)]),
    "N": (4, N),
    "N beside a chain": (6, [*N, (5, 4)]),
    "N behind one": (5, [*N, (4, 0), (4, 1)]),
}


def order_of(n_players, edges):
    return PartialOrder.from_chains(edges, [str(i) for i in range(n_players)])


def admits(order, players):
    """Whether everybody comes after all players upstream."""
    return all(not order.before[b] >> a & 1 for b, a in itertools.combinations(players, 2))


def all_of(order):
    return [each for each in itertools.permutations(range(len(order))) if admits(order, each)]


def p_value(orders, order):
    """Of the hypothesis that all admissible orders are equally likely."""
    found = Counter(map(tuple, orders.tolist()))
    wanted = all_of(order)
    assert found.keys() <= set(wanted)
    return stats.chisquare([found[each] for each in wanted]).pvalue


@pytest.fixture
def by_swaps(monkeypatch):
    """Nothing may be counted."""
    monkeypatch.setattr(extensions, "_MOST_COUNTED", 0)
    extensions._counted.cache_clear()
    extension_rule.cache_clear()
    yield
    extensions._counted.cache_clear()
    extension_rule.cache_clear()


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_all_orders_are_equally_likely(name):
    order = order_of(*ORDERS[name])
    assert extensions.is_counted(order)
    orders = extensions.draw(order, 60 * len(all_of(order)), np.random.default_rng(0))
    assert p_value(orders, order) > 0.01


def test_so_they_are_by_random_swaps(by_swaps):
    order = order_of(*ORDERS["N beside a chain"])
    assert not extensions.is_counted(order)
    # the orders of a chain are alike, so a small sample of each of many draws
    orders = np.concatenate([extensions.draw(order, 64, np.random.default_rng(seed)) for seed in range(60)])
    assert p_value(orders, order) > 0.01


def test_one_swap_at_a_time_would_be_noticed(by_swaps, monkeypatch):
    """The test above can fail: without swaps, orders are random, but not equally likely."""
    monkeypatch.setattr(extensions, "_sweep", lambda *args: None)
    order = order_of(*ORDERS["N beside a chain"])
    assert p_value(extensions.draw(order, 3840, np.random.default_rng(0)), order) < 0.01


def test_swapped_orders_are_admissible_and_reach_both_ends(by_swaps):
    rng = np.random.default_rng(1)
    edges = [(int(a), 10 + int(b)) for a, b in rng.integers(10, size=(25, 2))]
    order = order_of(20, edges)
    orders = extensions.draw(order, 200, rng)
    assert all(admits(order, each) for each in orders.tolist())
    place = np.argsort(orders, axis=1)
    assert (place.max(axis=0) - place.min(axis=0) > 8).all()


def test_values_by_random_swaps_agree(by_swaps):
    rng = np.random.default_rng(2)
    gaussian = LatentGaussian(np.zeros(7), rng.normal(size=(7, 2)), 0.4)
    X, upstream = rng.normal(size=(3, 7)), [(0, 2), (1, 2), (1, 3), (4, 3)]
    exact = Explainer(gaussian, upstream=upstream).explain(X)
    explainer = Explainer(gaussian, upstream=upstream, method="permutation", n_orders=1500)
    assert "by random swaps" in explainer.chosen
    sampled = explainer.explain(X)
    assert (np.abs(sampled.values - exact.values) <= 6 * sampled.std_error + 1e-12).all()
    np.testing.assert_allclose(sampled.values.sum(axis=1) + sampled.base_value, sampled.score, rtol=1e-11)


def test_a_rule_is_the_same_for_the_same_seed():
    order = order_of(*ORDERS["N beside a chain"])
    rules = [extension_rule.__wrapped__(order, 4, seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(rules[0].orders, rules[1].orders)
    assert (rules[0].orders != rules[2].orders).any()
    assert rules[0].n_replicates == 6
    assert rules[0].orders.shape == (96, 6)
