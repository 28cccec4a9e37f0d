"""Rows that follow orders: the part of `culpa._kernels.orders` that is done for every row.

Four rows take the four lanes of a vector, and eight rows a tile of two vectors, which share what is read of the model. A
tile of four vectors would need more registers than there are. The few rows that do not fill a vector are walked in
`culpa._kernels.orders`, with an order in each lane.

| name | meaning |
| --- | --- |
| ``gains`` | what four orders say about all rows: `Gains` |
| ``followed`` | rows that follow them: `Followed` |
| ``like`` | a vector or a tile, as in `culpa._kernels.vectors`; it decides how many rows follow |
| ``earned`` | changes of value by order, player and row; by order, row and player for the few rows |
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from typing import Any, NamedTuple

import numpy as np

from culpa._kernels.vectors import LANES, TILE, load, store, width_of


class Gains(NamedTuple):
    """Steps of as many orders as there are lanes. All but ``order`` lie by step, then by lane."""

    order: Any  # (LANES,): positions of these orders among all
    y: Any  # by latent variable in between; the step before the first has a gain of 0
    by: Any  # b y, the same
    curvature: Any
    constant: Any  # curvature variance


class Followed(NamedTuple):
    """Rows on their way through these orders."""

    z: Any
    delta: Any
    earned: Any


class Kept(NamedTuple):
    """Where the factors of each step are stored, (d, orders, n); empty if nobody asked for them."""

    deltas: Any
    slopes: Any


def follow_rows(row, queues, paid, loadings, columns, gains, followed, kept, like):
    """Walk as many rows as ``like`` holds, from ``row`` on, in the orders of ``gains``, and find what players earn.

    ``columns`` (d, rows) are the rows by feature.
    """
    z, delta, earned = followed
    k, n, p, n_players = queues.shape[1], columns.shape[1], loadings.shape[1], earned.shape[1]
    width = width_of(like)
    cells, w, payments = columns.reshape(columns.size), loadings.reshape(loadings.size), earned.reshape(earned.size)
    z[: LANES * p * width] = 0.0
    delta[: LANES * width] = 0.0
    payments[: LANES * n_players * width] = 0.0
    for step in range(k):
        for lane in range(LANES):
            order = gains.order[lane]
            feature, own = queues[order, step], step * LANES + lane
            surprise, slope = load(cells, feature * n + row, like), like
            delta_before = load(delta, lane * width, like)
            at, before = lane * p * width, step * p * LANES + lane
            for i in range(p):
                y_before, by_i = load(gains.y, before, 0.0), load(gains.by, before, 0.0)
                z_i = load(z, at, like) + y_before * delta_before
                surprise = surprise - load(w, feature * p + i, 0.0) * z_i
                slope = slope + by_i * z_i
                store(z, at, z_i)
                at += width
                before += LANES
            store(delta, lane * width, surprise)
            slope = 2.0 * slope + gains.curvature[own] * surprise
            to = (lane * n_players + paid[order, step]) * width
            store(payments, to, load(payments, to, like) + (surprise * slope - gains.constant[own]))
            if kept.deltas.shape[0] > 0:
                store(kept.deltas[feature, order], row, surprise)
                store(kept.slopes[feature, order], row, slope)


def pay_rows(row, values, total, weights, n_replicates, n_orders, earned, like):
    """Add the weighted changes of value that as many rows as ``like`` holds earned, from ``row`` on.

    Values lie one after the other as they are used: by rows, by player, by replicate. Weights are those of
    `arrange_weights`. ``total`` gets what all players earned in ``n_orders`` orders.
    """
    n_players, width = earned.shape[1], width_of(like)
    payments, apart = earned.reshape(earned.size), n_players * width
    to, weight, sum_of_one = row * n_players * n_replicates, 0, like
    for player in range(n_players):
        at = player * width
        # one name for each of the four orders, so that all are read once for all replicates
        first, second = load(payments, at, like), load(payments, at + apart, like)
        third, fourth = load(payments, at + 2 * apart, like), load(payments, at + 3 * apart, like)
        sum_of_one = sum_of_one + first
        for _ in range(n_replicates):
            paid = load(values, to, like) + load(weights, weight, 0.0) * first + load(weights, weight + 1, 0.0) * second
            paid = paid + load(weights, weight + 2, 0.0) * third + load(weights, weight + 3, 0.0) * fourth
            store(values, to, paid)
            to += width
            weight += LANES
    store(total, row, load(total, row, like) + n_orders * sum_of_one)  # every order adds up to the same


def arrange_weights(weights, first, arranged):
    """Weights of the orders from ``first`` on that are walked together, by player, by replicate, by lane.

    Spare lanes get 0.
    """
    n_replicates, n_orders, n_players = weights.shape
    for s in range(n_replicates):
        for lane in range(LANES):
            at = s * LANES + lane
            for player in range(n_players):
                arranged[at] = weights[s, first + lane, player] if first + lane < n_orders else 0.0
                at += n_replicates * LANES


def pay_few(values, weights, earned, first, row, i, like):
    """Add the weighted changes of value that players from i on earned in the orders from ``first`` on, for one row."""
    for s in range(values.shape[0]):
        mine = values[s, row]
        total = load(mine, i, like)
        for lane in range(min(LANES, weights.shape[1] - first)):
            total = total + load(weights[s, first + lane], i, like) * load(earned[lane, row], i, like)
        store(mine, i, total)


def by_replicate(values, few_values, n):
    """The values of all rows as (replicates, players, n)."""
    n_replicates, few, n_players = few_values.shape
    result, row, at = np.empty((n_replicates, n_players, n)), 0, 0
    while row < n - few:
        width = TILE if row + TILE <= n - few else LANES
        for player in range(n_players):
            for s in range(n_replicates):
                result[s, player, row : row + width] = values[at : at + width]
                at += width
        row += width
    for s in range(n_replicates):
        for r in range(few):
            result[s, :, row + r] = few_values[s, r]
    return result
