"""Walking several orders side by side, one in each lane of a vector.

The step of `culpa.games.latent` for features that are alike, with the posterior covariance as U D U^T: U has ones on its
diagonal and zeros below, D is diagonal. That keeps the digits of a square root without taking one, and takes as few
operations as the covariance itself (Bierman 1976). With f = U^T w, v = D f, and alpha_j = psi + v_0 f_0 + ... + v_j f_j:

    U_ij <- U_ij - K_i f_j / alpha_(j-1),  K_i <- K_i + U_ij v_j   for i < j, column after column; then K_j = v_j
    D_j <- D_j alpha_(j-1) / alpha_j

At the end the last alpha is V, and K / V is y. The pass that moves U on also multiplies it by the next feature's loadings.
Likewise z moves by what the step before found, in the same pass that looks at it.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._kernels.kernel import kernel
from culpa._kernels.vectors import LANES, gather, lanes_of_zero, load, store


def _pay(values, weights, own, first, row, i, like):
    """Add the weighted changes of value that players from i on were paid in the orders from ``first`` on."""
    for s in range(values.shape[0]):
        mine = values[s, row]
        total = load(mine, i, like)
        for q in range(min(LANES, weights.shape[1] - first)):
            total = total + load(weights[s, first + q], i, like) * load(own[q, row], i, like)
        store(mine, i, total)


@kernel(worth=5e8, calls=(_pay,))
def side_by_side_kernel(W, psi, a, b, rows, queues, paid, weights, deltas, slopes):
    """Everybody joins, in the orders ``queues`` (B, k), for ``rows`` (n, d); W is (d, p).

    Returns changes of value, weighted (R, B, players) and added up by whom each step pays, (R, n, players); their plain
    total (n,); and the constants of the steps by feature, (d, B). Where ``deltas`` and ``slopes`` (d, B, n) are not empty,
    each step's factors are kept there under its feature.
    """
    (d, p), n = W.shape, rows.shape[0]
    n_replicates, n_orders, n_players = weights.shape
    k = queues.shape[1]
    keep = deltas.shape[0] > 0
    loadings, cells = W.reshape(d * p), rows.reshape(n * d)
    values, total, constants = np.zeros((n_replicates, n, n_players)), np.zeros(n), np.zeros((d, n_orders))
    U, D, f, K = np.empty(p * (p - 1) // 2 * LANES), np.empty(p * LANES), np.zeros(p * LANES), np.zeros(p * LANES)
    z, delta, w, w_next = np.empty(n * p * LANES), np.zeros(n * LANES), np.zeros(p * LANES), np.zeros(p * LANES)
    y, y_before, by = np.zeros(p * LANES), np.zeros(p * LANES), np.zeros(p * LANES)
    change, slope_of, own = np.empty(LANES), np.empty(LANES), np.empty((LANES, n, n_players))
    order, feature, loadings_of = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    payee = np.empty(LANES, np.int64)
    zero = lanes_of_zero()
    for first in range(0, n_orders, LANES):
        for q in range(LANES):
            order[q] = min(first + q, n_orders - 1)  # lanes to spare repeat the last order, and are not paid
            loadings_of[q] = queues[order[q], 0] * p
        z[:] = 0.0
        y[:] = 0.0  # so that the first step moves nothing
        own[:] = 0.0
        U[:] = 0.0
        for i in range(p):
            start = gather(loadings, i, loadings_of, zero)
            store(w_next, i * LANES, start)
            store(f, i * LANES, start)
            store(D, i * LANES, zero + 1.0)
        for step in range(k):
            w, w_next, y, y_before = w_next, w, y_before, y
            for q in range(LANES):
                feature[q] = queues[order[q], step]
                payee[q] = paid[order[q], step]
                loadings_of[q] = queues[order[q], min(step + 1, k - 1)] * p
            V = zero + psi
            inverse = 1.0 / V
            cell = 0
            for j in range(p):
                fj, Dj = load(f, j * LANES, zero), load(D, j * LANES, zero)
                fj_next = gather(loadings, j, loadings_of, zero)
                store(w_next, j * LANES, fj_next)
                vj, pull = Dj * fj, fj * inverse
                before = V
                V = V + vj * fj
                inverse = 1.0 / V
                store(D, j * LANES, Dj * before * inverse)
                for i in range(j):
                    u, Ki = load(U, cell, zero), load(K, i * LANES, zero)
                    moved = u - Ki * pull
                    store(U, cell, moved)
                    store(K, i * LANES, Ki + u * vj)
                    fj_next = fj_next + moved * load(w_next, i * LANES, zero)
                    cell += LANES
                store(K, j * LANES, vj)
                store(f, j * LANES, fj_next)
            curvature = a * psi * inverse
            for i in range(p):
                yi = load(K, i * LANES, zero) * inverse
                store(y, i * LANES, yi)
                store(by, i * LANES, b[i] * yi)
                curvature = curvature + b[i] * yi * yi
            if keep:
                store(change, 0, curvature * V)
                for q in range(LANES):
                    constants[feature[q], order[q]] = -change[q]
            for r in range(n):
                found, slope, by_how_much = gather(cells, r * d, feature, zero), zero, load(delta, r * LANES, zero)
                for i in range(p):
                    at = (r * p + i) * LANES
                    zi = load(z, at, zero) + load(y_before, i * LANES, zero) * by_how_much
                    store(z, at, zi)
                    found = found - load(w, i * LANES, zero) * zi
                    slope = slope + load(by, i * LANES, zero) * zi
                store(delta, r * LANES, found)
                slope = 2.0 * slope + curvature * found
                store(change, 0, found * slope - curvature * V)
                for q in range(LANES):
                    own[q, r, payee[q]] += change[q]
                if keep:
                    store(slope_of, 0, slope)
                    for q in range(LANES):
                        deltas[feature[q], order[q], r] = delta[r * LANES + q]
                        slopes[feature[q], order[q], r] = slope_of[q]
        whole = n_players - n_players % LANES
        for r in range(n):
            total[r] += min(LANES, n_orders - first) * own[0, r].sum()  # every order adds up to the same
            for i in range(0, whole, LANES):
                _pay(values, weights, own, first, r, i, zero)
            for i in range(whole, n_players):
                _pay(values, weights, own, first, r, i, 0.0)
    return values, total, constants
