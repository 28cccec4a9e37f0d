"""Walking several orders side by side, one in each lane of a vector.

The step of `culpa.games.latent` for features that are alike, with the posterior covariance P = R R^T itself, which takes
half the operations of its root and is accurate enough unless the noise is tiny:

    c = P w,  V = psi + w^T c,  y = c / V
    P <- P - y c^T

Moving P on and multiplying it by the next feature's loadings are one pass over its lower triangle. Likewise z moves by what
the step before found, in the same pass that looks at it.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._compiled import kernel
from culpa._vectors import LANES, gather, lanes_of_zero, load, store


def _pay(values, weights, own, first, row, i, like):
    """Add the weighted changes of value that players from i on were paid in the orders from ``first`` on."""
    for s in range(values.shape[0]):
        mine = values[s, row]
        total = load(mine, i, like)
        for q in range(min(LANES, weights.shape[1] - first)):
            total = total + load(weights[s, first + q], i, like) * load(own[q, row], i, like)
        store(mine, i, total)


@kernel(worth=5e8, calls=(_pay,))
def side_by_side_kernel(W, psi, a, b, rows, queues, paid, weights):
    """Everybody joins, in the orders ``queues`` (B, k), for ``rows`` (n, d); W is (d, p).

    Returns changes of value, weighted (R, B, players) and added up by whom each step pays, (R, n, players), and their plain
    total (n,).
    """
    (d, p), n = W.shape, rows.shape[0]
    n_replicates, n_orders, n_players = weights.shape
    k = queues.shape[1]
    loadings, cells = W.reshape(d * p), rows.reshape(n * d)
    values, total = np.zeros((n_replicates, n, n_players)), np.zeros(n)
    P, z, delta = np.empty(p * (p + 1) // 2 * LANES), np.empty(n * p * LANES), np.zeros(n * LANES)
    w, y, y_before, by = np.zeros(p * LANES), np.zeros(p * LANES), np.zeros(p * LANES), np.zeros(p * LANES)
    c, c_next = np.zeros(p * LANES), np.zeros(p * LANES)
    change, own = np.empty(LANES), np.empty((LANES, n, n_players))
    order, feature, loadings_of = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    payee = np.empty(LANES, np.int64)
    zero = lanes_of_zero()
    for first in range(0, n_orders, LANES):
        for q in range(LANES):
            order[q] = min(first + q, n_orders - 1)  # lanes to spare repeat the last order, and are not paid
        z[:] = 0.0
        y[:] = 0.0  # so that the first step moves nothing
        own[:] = 0.0
        P[:] = 0.0
        for i in range(p):
            store(P, (i * (i + 1) // 2 + i) * LANES, zero + 1.0)
        for step in range(k):
            for q in range(LANES):
                feature[q] = queues[order[q], step]
                loadings_of[q] = feature[q] * p
                payee[q] = paid[order[q], step]
            for i in range(p):
                store(w, i * LANES, gather(loadings, i, loadings_of, zero))
                store(c_next, i * LANES, zero)
            cell = 0
            for i in range(p):
                yi, wi, ci = load(y, i * LANES, zero), load(w, i * LANES, zero), zero
                for j in range(i):
                    moved = load(P, cell, zero) - yi * load(c, j * LANES, zero)
                    store(P, cell, moved)
                    ci = ci + moved * load(w, j * LANES, zero)
                    store(c_next, j * LANES, load(c_next, j * LANES, zero) + moved * wi)
                    cell += LANES
                moved = load(P, cell, zero) - yi * load(c, i * LANES, zero)
                store(P, cell, moved)
                store(c_next, i * LANES, ci + moved * wi)
                cell += LANES
            c, c_next, y, y_before = c_next, c, y_before, y
            V = zero + psi
            for i in range(p):
                V = V + load(c, i * LANES, zero) * load(w, i * LANES, zero)
            inverse = 1.0 / V
            curvature = a * psi * inverse
            for i in range(p):
                yi = load(c, i * LANES, zero) * inverse
                store(y, i * LANES, yi)
                store(by, i * LANES, b[i] * yi)
                curvature = curvature + b[i] * yi * yi
            for r in range(n):
                found, slope, by_how_much = gather(cells, r * d, feature, zero), zero, load(delta, r * LANES, zero)
                for i in range(p):
                    at = (r * p + i) * LANES
                    zi = load(z, at, zero) + load(y_before, i * LANES, zero) * by_how_much
                    store(z, at, zi)
                    found = found - load(w, i * LANES, zero) * zi
                    slope = slope + load(by, i * LANES, zero) * zi
                store(delta, r * LANES, found)
                store(change, 0, 2.0 * found * slope + curvature * (found * found - V))
                for q in range(LANES):
                    own[q, r, payee[q]] += change[q]
        whole = n_players - n_players % LANES
        for r in range(n):
            total[r] += min(LANES, n_orders - first) * own[0, r].sum()  # every order adds up to the same
            for i in range(0, whole, LANES):
                _pay(values, weights, own, first, r, i, zero)
            for i in range(whole, n_players):
                _pay(values, weights, own, first, r, i, 0.0)
    return values, total
