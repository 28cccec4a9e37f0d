"""Sums over orders that a sampling rule needs of the players who come before one player, compiled.

`culpa.shapley.controls` turns them into the covariance of controls. That covariance is mostly the number of orders in
which two others both come before the player. These numbers are counted with one bit for each order, 64 at a time.

| name | meaning |
| --- | --- |
| ``orders`` | (Q, P), the players in the order in which they join |
| ``places`` | (Q,), the position of the player in each order |
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._kernels.kernel import Kernel
from culpa._kernels.vectors import TILE, count_bits, load, store, tile_of_zero

_BITS = 64


def sums_before(orders, places, table, n_nets):
    """Sums over the orders in which each other comes before the player of what its place has in a table (P, TILE).

    Returns these sums, (nets, P, TILE), and in how many orders two others both come before the player, (P, P).
    """
    (Q, P), tile = orders.shape, tile_of_zero()
    sums, together = np.zeros(n_nets * P * TILE), np.zeros((P, P))
    bits = np.zeros((P, -(-Q // _BITS)), np.uint64)
    values = table.reshape(P * TILE)
    for q in range(Q):
        own, bit, net = load(values, places[q] * TILE, tile), np.uint64(1) << np.uint64(q % _BITS), q // (Q // n_nets)
        for place in range(places[q]):
            other = orders[q, place]
            at = (net * P + other) * TILE
            store(sums, at, load(sums, at, tile) + own)
            bits[other, q // _BITS] |= bit
    for i in range(P):
        for j in range(i + 1):
            both = 0
            for word in range(bits.shape[1]):
                both += count_bits(bits[i, word] & bits[j, word])
            together[i, j] = together[j, i] = both
    return sums.reshape((n_nets, P, TILE)), together


def sum_of_those_before(orders, places, table, numbers):
    """For each order, the sum of ``numbers`` (P, TILE) over those who come before the player, (Q, TILE).

    What the place of the player has in the table (P, TILE) is added.
    """
    (Q, P), tile = orders.shape, tile_of_zero()
    starts, flat, result = table.reshape(P * TILE), numbers.reshape(P * TILE), np.empty(Q * TILE)
    for q in range(Q):
        total = load(starts, places[q] * TILE, tile)
        for place in range(places[q]):
            total = total + load(flat, orders[q, place] * TILE, tile)
        store(result, q * TILE, total)
    return result.reshape((Q, TILE))


# about as many operations as the array version does in the time of compiling
SUMS_BEFORE = Kernel(sums_before, worth=3e10)
SUM_OF_THOSE_BEFORE = Kernel(sum_of_those_before, worth=3e10)
