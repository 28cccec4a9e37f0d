"""Walking many orders side by side: for few rows, where the covariance of the latent variables is most of the work.

The step of `culpa.games.latent` for features that are alike, with the posterior covariance P = R R^T itself, which takes
half the operations of its root and is accurate enough unless the noise is tiny:

    c = P w,  V = psi + w^T c,  y = c / V
    P <- P - y c^T

Moving P on and multiplying it by the next feature's loadings are one pass over its lower triangle. Lanes are orders: every
loop over them is long and vectorised, which loops over few rows or few latent variables are not.
"""

import numpy as np

from culpa._compiled import kernel

FEW_ROWS = 40  # from here on, loops over rows are the longer ones
_LANES = 64


@kernel(worth=5e8)
def few_rows_kernel(W, psi, a, b, rows, queues, paid, weights):  # type: ignore[no-untyped-def]
    """Everybody joins, in the orders ``queues`` (B, k), for ``rows`` (n, d); W is (p, d).

    Returns changes of value, weighted (R, B, players) and added up by whom each step pays, (R, n, players), and their plain
    total (n,).
    """
    p, n = W.shape[0], rows.shape[0]
    even = p + p % 2  # latent variables are taken two at a time; an odd one gets a companion that is always 0
    n_replicates, n_orders, n_players = weights.shape
    k, L = queues.shape[1], min(_LANES, n_orders)
    values, total = np.zeros((n_replicates, n, n_players)), np.zeros(n)
    P, z, change = np.empty((p, p, L)), np.empty((n, even, L)), np.empty((n, L, n_players))
    w, y, by = np.zeros((even, L)), np.zeros((even, L)), np.zeros((even, L))
    c, c_next, weight_of_z = np.zeros((even, L)), np.zeros((even, L)), np.zeros(even)
    weight_of_z[:p] = b
    V, inverse, curvature, delta, slope = np.empty(L), np.empty(L), np.empty(L), np.empty(L), np.empty(L)
    order, joining = np.empty(L, np.int64), np.empty(L, np.int64)
    for first in range(0, n_orders, L):
        filled = min(L, n_orders - first)  # the other lanes repeat the last order, and are not counted
        P[:] = 0.0
        z[:] = 0.0
        change[:] = 0.0
        for i in range(p):
            P[i, i] = 1.0
        for q in range(L):
            order[q] = min(first + q, n_orders - 1)
            joining[q] = queues[order[q], 0]
            for i in range(p):
                w[i, q] = W[i, joining[q]]
                c[i, q] = w[i, q]
        for step in range(k):
            V[:] = psi
            for i in range(0, even, 2):
                c0, c1, w0, w1 = c[i], c[i + 1], w[i], w[i + 1]
                for q in range(L):
                    V[q] += c0[q] * w0[q] + c1[q] * w1[q]
            for q in range(L):
                inverse[q] = 1 / V[q]
                curvature[q] = a * psi * inverse[q]
            for i in range(0, even, 2):
                c0, c1, y0, y1, s0, s1 = c[i], c[i + 1], y[i], y[i + 1], by[i], by[i + 1]
                b0, b1 = weight_of_z[i], weight_of_z[i + 1]
                for q in range(L):
                    y0[q] = c0[q] * inverse[q]
                    y1[q] = c1[q] * inverse[q]
                    s0[q] = b0 * y0[q]
                    s1[q] = b1 * y1[q]
                    curvature[q] += s0[q] * y0[q] + s1[q] * y1[q]
            for r in range(n):
                zr, x = z[r], rows[r]
                for q in range(L):
                    delta[q] = x[joining[q]]
                slope[:] = 0.0
                for i in range(0, even, 2):
                    z0, z1, w0, w1, s0, s1 = zr[i], zr[i + 1], w[i], w[i + 1], by[i], by[i + 1]
                    for q in range(L):
                        delta[q] -= w0[q] * z0[q] + w1[q] * z1[q]
                        slope[q] += s0[q] * z0[q] + s1[q] * z1[q]
                for i in range(0, even, 2):
                    z0, z1, y0, y1 = zr[i], zr[i + 1], y[i], y[i + 1]
                    for q in range(L):
                        z0[q] += y0[q] * delta[q]
                        z1[q] += y1[q] * delta[q]
                for q in range(L):
                    slope[q] = 2 * delta[q] * slope[q] + curvature[q] * (delta[q] * delta[q] - V[q])
                for q in range(filled):
                    change[r, q, paid[first + q, step]] += slope[q]
            if step + 1 == k:
                break
            for q in range(L):
                joining[q] = queues[order[q], step + 1]
            for i in range(p):
                wi, loadings = w[i], W[i]
                for q in range(L):
                    wi[q] = loadings[joining[q]]
            c_next[:] = 0.0
            for i in range(p):
                yi, wi, Pi, next_i = y[i], w[i], P[i], c_next[i]
                for j in range(i):
                    Pij, cj, wj, next_j = Pi[j], c[j], w[j], c_next[j]
                    for q in range(L):
                        moved = Pij[q] - yi[q] * cj[q]
                        Pij[q] = moved
                        next_i[q] += moved * wj[q]
                        next_j[q] += moved * wi[q]
                Pii, ci = Pi[i], c[i]
                for q in range(L):
                    Pii[q] -= yi[q] * ci[q]
                    next_i[q] += Pii[q] * wi[q]
            c, c_next = c_next, c
        for q in range(filled):
            for r in range(n):
                own = change[r, q]
                for i in range(n_players):
                    total[r] += own[i]
                for s in range(n_replicates):
                    mine, weight = values[s, r], weights[s, first + q]
                    for i in range(n_players):
                        mine[i] += weight[i] * own[i]
    return values, total
