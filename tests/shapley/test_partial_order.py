"""Partial orders: relations that follow from others, parts, and loops."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from culpa.shapley import PartialOrder

NAMES = list("abcdefgh")


@st.composite
def relations(draw):
    """Pairs (a, b) with a < b, of eight players."""
    pairs = list(itertools.combinations(range(8), 2))
    return draw(st.lists(st.sampled_from(pairs), max_size=12))


def reachable(edges):
    """All pairs that follow from others, by repeating what follows until nothing new does."""
    found = set(edges)
    while True:
        more = {(a, d) for a, b in found for c, d in found if b == c} - found
        if not more:
            return found
        found |= more


def pairs_of(order):
    return {(a, b) for b, upstream in enumerate(order.before) for a in range(len(order)) if upstream >> a & 1}


def admits(order, players):
    """Whether everybody comes after all players upstream."""
    return all(not order.before[b] >> a & 1 for b, a in itertools.combinations(players, 2))


@given(relations())
def test_relations_are_transitive(edges):
    order = PartialOrder.from_chains(edges, NAMES)
    assert pairs_of(order) == reachable(edges)
    assert {(b, a) for a, downstream in enumerate(order.after) for b in range(8) if downstream >> b & 1} == {
        (b, a) for a, b in reachable(edges)
    }
    assert order.constrains == bool(edges)


@given(relations(), st.permutations(range(8)), st.integers(1, 8))
def test_among_some_players(edges, players, n):
    order, left = PartialOrder.from_chains(edges, NAMES), players[:n]
    wanted = {(left.index(a), left.index(b)) for a, b in reachable(edges) if a in left and b in left}
    assert pairs_of(order.among(left)) == wanted


@given(relations(), st.permutations(range(8)))
def test_a_linear_order_is_admissible_and_follows_the_preference(edges, preference):
    order = PartialOrder.from_chains(edges, NAMES)
    linear = order.linear(preference)
    assert sorted(linear) == list(range(8))
    assert admits(order, linear)
    if admits(order, preference):
        assert linear == list(preference)


@given(relations())
def test_parts(edges):
    order, related = PartialOrder.from_chains(edges, NAMES), reachable(edges)
    for parts in (order.parallel, order.series):
        assert sorted(i for part in parts for i in part) == list(range(8))
    for one, other in itertools.combinations(order.parallel, 2):
        assert not any((a, b) in related or (b, a) in related for a in one for b in other)
    for one, other in itertools.combinations(order.series, 2):
        assert all((a, b) in related for a in one for b in other)
    assert len(order.parallel) == 1 or len(order.series) == 1


def test_chains():
    chain = PartialOrder.from_chains([(3, 1, 0, 2)], NAMES[:4])
    assert chain.series == [[3], [1], [0], [2]]
    assert chain.parallel == [[0, 1, 2, 3]]
    assert chain.width == 1
    assert PartialOrder((0,) * 5).width == 5
    assert not admits(chain, [3, 0, 1, 2])


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14))
def test_players_of_a_loop_join_in_any_order(edges):
    """Whoever is upstream of a player, and not downstream of it as well."""
    known = reachable(edges)
    order = PartialOrder.from_chains(edges, NAMES)
    assert pairs_of(order) == {(a, b) for a, b in known if (b, a) not in known}


def test_long_chains_need_no_recursion():
    n = 3000
    order = PartialOrder.from_chains([range(n)], [str(i) for i in range(n)])
    assert order.before[-1].bit_count() == n - 1
