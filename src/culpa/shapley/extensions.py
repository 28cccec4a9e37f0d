"""Random admissible orders of a partial order, all equally likely.

An order of players is put together from orders of parts:

- Parts without a relation between them are shuffled into each other, every shuffle equally likely.
- Parts of which each lies upstream of the next follow each other.
- A part that is neither is drawn step by step, with the exact numbers of admissible orders that go on (`DownSets.draw`).
- If its down-sets are too many to count, random swaps of neighbours serve (Karzanov and Khachiyan 1991). Orders are then
  equally likely up to an error that shrinks with the number of swaps. Wilson (2004) bounds the swaps that are needed.
"""

import math
from functools import lru_cache

import numpy as np

from culpa._core.types import Mask, Positions
from culpa.shapley.down_sets import DownSets
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.rules import N_NETS, Rule, averaging_rule

_MOST_COUNTED = 200_000  # down-sets of a part: counting them takes about a second
_CHAINS = 32 * N_NETS  # orders that are swapped at the same time


@lru_cache(maxsize=16)
def extension_rule(order: PartialOrder, log2_net: int, seed: int) -> Rule:
    """As many sets of 2^log2_net random admissible orders as the default rule has nets; each is a replicate."""
    orders = draw(order, N_NETS << log2_net, np.random.default_rng(seed))
    return averaging_rule(np.split(orders, N_NETS))


def draw(order: PartialOrder, n_orders: int, rng: np.random.Generator) -> Positions:
    """Random admissible orders, (n_orders, players)."""
    if len(order) == 1:
        return np.zeros((n_orders, 1), dtype=np.intp)
    for parts, put_together in ((order.parallel, _shuffled), (order.series, _in_turn)):
        if len(parts) > 1:
            orders = [np.array(part, dtype=np.intp)[draw(order.among(part), n_orders, rng)] for part in parts]
            return put_together(orders, rng)
    counted = _counted(order)
    return counted.draw(n_orders, rng) if counted is not None else _swapped(order, n_orders, rng)


def is_counted(order: PartialOrder) -> bool:
    """Whether `draw` is exact: random swaps are not needed."""
    for parts in (order.parallel, order.series):
        if len(parts) > 1:
            return all(is_counted(order.among(part)) for part in parts)
    return len(order) == 1 or _counted(order) is not None


@lru_cache(maxsize=8)
def _counted(order: PartialOrder) -> DownSets | None:
    return DownSets.find(order, _MOST_COUNTED)


def _shuffled(orders: list[Positions], rng: np.random.Generator) -> Positions:
    sizes = [order.shape[1] for order in orders]
    whose = rng.permuted(np.tile(np.repeat(np.arange(len(orders)), sizes), (len(orders[0]), 1)), axis=1)
    result = np.empty(whose.shape, dtype=np.intp)
    for part, order in enumerate(orders):
        result[whose == part] = order.ravel()  # row by row, as many per row as the part has players
    return result


def _in_turn(orders: list[Positions], rng: np.random.Generator) -> Positions:
    return np.hstack(orders)


def _swapped(order: PartialOrder, n_orders: int, rng: np.random.Generator) -> Positions:
    """Chains of orders: many swaps first, then one order of each chain after every few swaps.

    Orders of one chain are alike, and follow each other in the result. So parts of the result are independent of each
    other if they are long, and their spread gives honest standard errors.
    """
    d = len(order)
    free = np.array([[i != j and not order.related(i, j) for j in range(d)] for i in range(d)])
    n_chains = min(_CHAINS, n_orders)
    chains = np.array([order.linear(rng.permutation(d).tolist()) for _ in range(n_chains)], dtype=np.intp).T
    # n^3 log(n) swaps are enough, and a sweep tries n of them
    _sweep(chains, free, math.ceil(0.5 * d**2 * math.log(d)), rng)
    found = np.empty((n_chains, -(-n_orders // n_chains), d), dtype=np.intp)
    for sample in range(found.shape[1]):
        _sweep(chains, free, d, rng)
        found[:, sample] = chains.T
    return found.reshape(-1, d)[:n_orders]


def _sweep(chains: Positions, free: Mask, n_sweeps: int, rng: np.random.Generator) -> None:
    """Swap neighbours that are free to, with probability 1/2, in place: even pairs, then odd pairs. (players, chains)"""
    d = len(chains)
    flat = free.ravel()
    for _ in range(n_sweeps):
        for start in (0, 1):
            first, second = chains[start : d - 1 : 2], chains[start + 1 : d : 2]
            bits = rng.integers(256, size=-(-first.size // 8), dtype=np.uint8)
            coins = np.unpackbits(bits, count=first.size).reshape(first.shape)
            difference = (second - first) * (coins & flat.take(first * d + second))
            first += difference
            second -= difference
