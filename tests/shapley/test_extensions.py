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


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_all_orders_are_equally_likely(name):
    order = order_of(*ORDERS[name])
    orders = extensions.draw(order, 60 * len(all_of(order)), np.random.default_rng(0))
    assert p_value(orders, order) > 0.01


def test_unequal_chances_would_be_noticed():
    """The test above can fail: joining at random whoever may join is not enough."""
    order, rng = order_of(*ORDERS["N beside a chain"]), np.random.default_rng(0)
    orders = np.array([order.linear(rng.permutation(6).tolist()) for _ in range(3840)])
    assert p_value(orders, order) < 0.01


def irregular(n=30):
    """Everybody in one half is upstream of three of the other half: neither parts nor stages."""
    half = n // 2
    return [(a, half + b) for a in range(half) for b in (a, (3 * a + 1) % half, (7 * a + 2) % half)]


def test_too_many_to_count_are_refused():
    with pytest.raises(ValueError, match="relates 40 features"):
        extensions.draw(order_of(40, irregular(40)), 8, np.random.default_rng(0))
    gaussian = LatentGaussian(np.zeros(40), np.random.default_rng(1).normal(size=(40, 2)), 0.4)
    explainer = Explainer(gaussian, upstream=irregular(40))
    with pytest.raises(ValueError, match="into a group"):
        explainer.explain(np.ones((1, 40)))


def test_stages_and_unrelated_features_need_no_count_of_the_whole():
    """Of 60 features, two stages of 12 beside 36 in no chain."""
    edges = list(itertools.product(range(12), range(12, 24)))
    order = order_of(60, edges)
    orders = extensions.draw(order, 20, np.random.default_rng(0))
    assert all(admits(order, each) for each in orders.tolist())


def test_fewer_players_are_never_harder_to_count():
    """A row with missing cells is explained wherever a complete one is."""
    order = order_of(10, irregular(10))
    whole = extensions._counted(order)
    for left in itertools.combinations(range(10), 8):
        assert len(extensions._counted(order.among(left))) <= len(whole)


def test_a_rule_is_the_same_for_the_same_seed():
    order = order_of(*ORDERS["N beside a chain"])
    rules = [extension_rule.__wrapped__(order, 4, seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(rules[0].orders, rules[1].orders)
    assert (rules[0].orders != rules[2].orders).any()
    assert rules[0].n_replicates == 6
    assert rules[0].orders.shape == (6, 16, 6)
