"""Random admissible orders of a partial order, all equally likely.

An order of players is put together from orders of parts:

- Parts without a relation between them are shuffled into each other, every shuffle equally likely.
- Parts of which each lies upstream of the next follow each other.
- A part that is neither is drawn step by step, with the exact numbers of admissible orders that go on (`DownSets.draw`).
- If its down-sets are too many to count, the flow sheet is refused.
"""

from functools import lru_cache

import numpy as np

from culpa._core.types import Positions
from culpa.shapley.down_sets import DownSets
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.rules import N_REPLICATES, OrderRule

_MOST_COUNTED = 200_000  # down-sets of a part: counting them takes about a second


@lru_cache(maxsize=4)
def extension_rule(order: PartialOrder, log2_orders: int, seed: int) -> OrderRule:
    """So many random admissible orders in each replicate."""
    orders = draw(order, N_REPLICATES << log2_orders, np.random.default_rng(seed))
    return OrderRule(orders.reshape(N_REPLICATES, -1, len(order)))


def draw(order: PartialOrder, n_orders: int, rng: np.random.Generator) -> Positions:
    """Random admissible orders, (n_orders, players)."""
    if len(order) == 1:
        return np.zeros((n_orders, 1), dtype=np.intp)
    for parts, put_together in ((order.parallel, _shuffled), (order.series, _in_turn)):
        if len(parts) > 1:
            orders = [np.array(part, dtype=np.intp)[draw(order.among(part), n_orders, rng)] for part in parts]
            return put_together(orders, rng)
    return _counted(order).draw(n_orders, rng)


@lru_cache(maxsize=8)
def _counted(order: PartialOrder) -> DownSets:
    found = DownSets.find(order, _MOST_COUNTED)
    if found is None:
        raise ValueError(
            f"upstream relates {len(order)} features in so many ways that their orders cannot be counted. "
            "Put features of one stage into a group, or state that all features of a stage are upstream of the next stage."
        )
    return found


def _shuffled(orders: list[Positions], rng: np.random.Generator) -> Positions:
    sizes = [order.shape[1] for order in orders]
    whose = rng.permuted(np.tile(np.repeat(np.arange(len(orders)), sizes), (len(orders[0]), 1)), axis=1)
    result = np.empty(whose.shape, dtype=np.intp)
    for part, order in enumerate(orders):
        result[whose == part] = order.ravel()  # row by row, as many per row as the part has players
    return result


def _in_turn(orders: list[Positions], rng: np.random.Generator) -> Positions:
    return np.hstack(orders)
