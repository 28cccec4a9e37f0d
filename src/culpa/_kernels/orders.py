"""Sampled orders, compiled: four orders at a time.

This is the step of `culpa.games.latent` for features with the same noise psi and the same weight a. The covariance of the
latent variables, given the coalition, is kept as U D U^T, where U has ones on its diagonal and zeros below, and D is
diagonal. That keeps as many digits as a square root without taking one, and costs no more than the covariance itself
(Bierman 1976). When a feature with loadings w joins, with f = U^T w, v = D f and t_j = psi + v_0 f_0 + ... + v_j f_j:

    for each column j and i < j:   U_ij <- U_ij - h_i pull_j,   h_i <- h_i + U_ij v_j;   then h_j = v_j
    D_j <- D_j t_(j-1) / t_j,      pull_j = f_j / t_(j-1),      t_(-1) = psi

At the end the last t is the variance of the feature, and y = h / variance is the gain of the latent variables. Then,
for every row,

    delta = x - w^T z,   slope = 2 sum of b y z + curvature delta,   curvature = a psi / variance + sum of b y^2
    change of value = delta slope - curvature variance,   z <- z + y delta

The pass that updates U also multiplies it by the loadings of the feature that joins next, which gives the next f. In the
same way z is updated by the previous step's y in the pass that reads it.

U and D are followed through whole orders first, which leaves the gain y of every step. Then rows follow these orders, with
a row in each lane (`culpa._kernels.order_rows`). Only rows that do not fill a vector, as a single row, take the steps
together with U, with an order in each lane.

| symbol | code | meaning |
| --- | --- | --- |
| W | ``loadings`` | (d, p) |
| U, D, f, h, y, z | ``U``, ``D``, ``f``, ``h``, ``y``, ``z`` | see above; each entry is as wide as there are lanes |
| b y | ``by`` | weighted gain |
| delta, slope | ``delta``, ``slope`` | the factors of a change of value |
| | ``paid`` | which player each step pays |
| | ``earned`` | changes of value by lane, row and player |
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from culpa._core.threads import stop_if_given_up
from culpa._core.types import Floats, Positions
from culpa._kernels.kernel import Kernel
from culpa._kernels.order_rows import (
    Followed,
    Gains,
    Kept,
    arrange_weights,
    by_replicate,
    follow_rows,
    pay_few,
    pay_rows,
)
from culpa._kernels.vectors import LANES, TILE, gather, lanes_of_zero, load, store, tile_of_zero

_OPERATIONS_PER_CALL = 4e8


class OrderWalk(NamedTuple):
    """Model and rows of a game whose sampled orders a compiled kernel can walk."""

    loadings: Floats  # (d, p)
    psi: float
    a: float
    b: Floats  # (p,)
    rows: Floats  # (n, d)

    @property
    def kernel(self) -> Kernel:
        """The kernel that does it."""
        return ORDERS

    def changes(self, queues: Positions, paid: Positions, weights: Floats) -> tuple[Floats, Floats]:
        """Everybody joins, in each order.

        Takes the features in the order in which they join and the player that each step pays, both (orders, k), and
        weights (replicates, orders, players) of the steps that pay each player. Returns weighted changes of value by
        player, (replicates, players, n), and their unweighted total, (n,).
        """
        nothing, walk, n = np.empty((0, 0, 0)), self._as_floats(), len(self.rows)
        values, total = np.zeros((len(weights), weights.shape[2], n)), np.zeros(n)
        for which in self._pieces(queues):
            here = np.ascontiguousarray(weights[:, which], dtype=np.float64)
            paid_here, paid_in_all, _ = ORDERS(walk, queues[which], paid[which], here, nothing, nothing)
            values += paid_here
            total += paid_in_all
        return values, total

    def factors(self, queues: Positions) -> tuple[Floats, Floats, Floats]:
        """Each step's change of value as delta * slope + constant, by the feature that joins.

        Delta and slope are (d, orders, n), constants (d, orders).
        """
        walk, n, d = self._as_floats(), len(self.rows), len(self.loadings)
        parts = []
        for which in self._pieces(queues):
            here = queues[which]
            delta, slope = np.zeros((d, len(here), n)), np.zeros((d, len(here), n))
            parts.append((delta, slope, ORDERS(walk, here, here, np.empty((0, len(here), d)), delta, slope)[2]))
        if len(parts) == 1:
            return parts[0]
        delta, slope, constant = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
        return delta, slope, constant

    def _pieces(self, queues: Positions) -> Iterator[slice]:
        """Orders that take a tenth of a second or so, because Ctrl-C is answered between two calls of the kernel."""
        n_orders, k = queues.shape
        p, n = self.loadings.shape[1], len(self.rows)
        most = int(_OPERATIONS_PER_CALL / (k * (p**2 + 2 * n * p + 1)))
        most = max(LANES, most - most % LANES)
        for start in range(0, n_orders, most):
            stop_if_given_up()
            yield slice(start, start + most)

    def _as_floats(self) -> "OrderWalk":
        loadings, b, rows = (
            np.ascontiguousarray(array, dtype=np.float64) for array in (self.loadings, self.b, self.rows)
        )
        return OrderWalk(loadings, self.psi, self.a, b, rows)


def _update_covariance(U, D, f, h, w_next, loadings, loadings_of, psi, p, zero):
    """Move U and D on, leave the next f and h. Returns the variance and its inverse."""
    t = zero + psi
    inverse = 1.0 / t
    cell = 0
    for j in range(p):
        f_j, D_j = load(f, j * LANES, zero), load(D, j * LANES, zero)
        f_next = gather(loadings, j, loadings_of, zero)
        store(w_next, j * LANES, f_next)
        v_j, pull = D_j * f_j, f_j * inverse
        t_before = t
        t = t + v_j * f_j
        inverse = 1.0 / t
        store(D, j * LANES, D_j * t_before * inverse)
        for i in range(j):
            U_ij, h_i = load(U, cell, zero), load(h, i * LANES, zero)
            moved = U_ij - h_i * pull
            store(U, cell, moved)
            store(h, i * LANES, h_i + U_ij * v_j)
            f_next = f_next + moved * load(w_next, i * LANES, zero)
            cell += LANES
        store(h, j * LANES, v_j)
        store(f, j * LANES, f_next)
    return t, inverse


def order_walk(walk, queues, paid, weights, deltas, slopes):
    """Everybody joins, in the orders ``queues`` (orders, k).

    Returns changes of value, weighted and added up by the player that each step pays, (replicates, players, n); their
    unweighted total, (n,); and the constants of the steps by feature, (d, orders). Where ``deltas`` and ``slopes`` (d,
    orders, n) are not empty, the factors of each step are stored there under its feature.
    """
    a, b, psi = walk.a, walk.b, walk.psi
    (d, p), n = walk.loadings.shape, walk.rows.shape[0]
    n_replicates, n_orders, n_players = weights.shape
    k = queues.shape[1]
    keep = deltas.shape[0] > 0
    few = n % LANES  # rows that do not fill a vector
    whole = n - few
    columns = walk.rows[:whole].T.copy()
    loadings, cells = walk.loadings.reshape(d * p), walk.rows.reshape(n * d)
    total, constants = np.zeros(n), np.zeros((d, n_orders))
    values, few_values = np.zeros(n_replicates * n_players * whole), np.zeros((n_replicates, few, n_players))
    arranged = np.empty(n_players * n_replicates * LANES)
    U, D, f, h = np.empty(p * (p - 1) // 2 * LANES), np.empty(p * LANES), np.zeros(p * LANES), np.zeros(p * LANES)
    w, w_next = np.zeros(p * LANES), np.zeros(p * LANES)
    order, feature, loadings_of = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    payee, change, slope_of = np.empty(LANES, np.int64), np.empty(LANES), np.empty(LANES)
    n_kept = k if whole else 1  # steps whose gains are kept: all of them if rows follow afterwards
    y, by = np.zeros((n_kept + 1) * p * LANES), np.zeros(n_kept * p * LANES)
    gains = Gains(order, y, by, np.zeros(k * LANES), np.zeros(k * LANES))
    z, delta, earned = np.empty(few * p * LANES), np.zeros(few * LANES), np.empty((LANES, few, n_players))
    room = TILE if whole >= TILE else LANES
    followed = Followed(np.empty(LANES * p * room), np.empty(LANES * room), np.empty((LANES, n_players, room)))
    kept = Kept(deltas, slopes)
    zero, tile = lanes_of_zero(), tile_of_zero()
    for first in range(0, n_orders, LANES):
        n_here = min(LANES, n_orders - first)
        for lane in range(LANES):
            order[lane] = min(first + lane, n_orders - 1)  # spare lanes repeat the last order, and are not paid
            loadings_of[lane] = queues[order[lane], 0] * p
        z[:] = 0.0
        earned[:] = 0.0
        U[:] = 0.0
        for i in range(p):
            start = gather(loadings, i, loadings_of, zero)
            store(w_next, i * LANES, start)
            store(f, i * LANES, start)
            store(D, i * LANES, zero + 1.0)
        before, after = 0, p * LANES  # where the gains of the previous step and of this one lie
        y[: p * LANES] = 0.0  # so that the first step moves nothing
        for step in range(k):
            w, w_next = w_next, w
            for lane in range(LANES):
                feature[lane] = queues[order[lane], step]
                payee[lane] = paid[order[lane], step]
                loadings_of[lane] = queues[order[lane], min(step + 1, k - 1)] * p
            variance, inverse = _update_covariance(U, D, f, h, w_next, loadings, loadings_of, psi, p, zero)
            curvature = a * psi * inverse
            own = before if whole else 0
            for i in range(p):
                y_i = load(h, i * LANES, zero) * inverse
                store(y, after + i * LANES, y_i)
                store(by, own + i * LANES, b[i] * y_i)
                curvature = curvature + b[i] * y_i * y_i
            store(gains.curvature, step * LANES, curvature)
            store(gains.constant, step * LANES, curvature * variance)
            if keep:
                for lane in range(LANES):
                    constants[feature[lane], order[lane]] = -gains.constant[step * LANES + lane]
            for r in range(few):
                surprise, slope = gather(cells, (whole + r) * d, feature, zero), zero
                delta_before = load(delta, r * LANES, zero)
                for i in range(p):
                    at = (r * p + i) * LANES
                    z_i = load(z, at, zero) + load(y, before + i * LANES, zero) * delta_before
                    store(z, at, z_i)
                    surprise = surprise - load(w, i * LANES, zero) * z_i
                    slope = slope + load(by, own + i * LANES, zero) * z_i
                store(delta, r * LANES, surprise)
                slope = 2.0 * slope + curvature * surprise
                store(change, 0, surprise * slope - curvature * variance)
                for lane in range(LANES):
                    earned[lane, r, payee[lane]] += change[lane]
                if keep:
                    store(slope_of, 0, slope)
                    for lane in range(LANES):
                        deltas[feature[lane], order[lane], whole + r] = delta[r * LANES + lane]
                        slopes[feature[lane], order[lane], whole + r] = slope_of[lane]
            before, after = after, after + p * LANES if whole else before
        if whole:
            arrange_weights(weights, first, arranged)
        row = 0
        while row + TILE <= whole:
            follow_rows(row, queues, paid, walk.loadings, columns, gains, followed, kept, tile)
            pay_rows(row, values, total, arranged, n_replicates, n_here, followed.earned, tile)
            row += TILE
        while row < whole:
            follow_rows(row, queues, paid, walk.loadings, columns, gains, followed, kept, zero)
            pay_rows(row, values, total, arranged, n_replicates, n_here, followed.earned, zero)
            row += LANES
        in_lanes = n_players - n_players % LANES
        for r in range(few):
            total[whole + r] += n_here * earned[0, r].sum()  # every order adds up to the same
            for i in range(0, in_lanes, LANES):
                pay_few(few_values, weights, earned, first, r, i, zero)
            for i in range(in_lanes, n_players):
                pay_few(few_values, weights, earned, first, r, i, 0.0)
    return by_replicate(values, few_values, n), total, constants


ORDERS = Kernel(
    order_walk, worth=5e8, calls=(_update_covariance, follow_rows, pay_rows, arrange_weights, pay_few, by_replicate)
)
