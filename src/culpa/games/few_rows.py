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

FEW = 350  # rows x latent variables up to which this is the faster walk; with more, loops over rows are
_LANES = 64


@kernel(worth=5e8)
def few_rows_kernel(W, psi, a, b, rows, queues, paid, weights):  # type: ignore[no-untyped-def]
    """Everybody joins, in the orders ``queues`` (B, k), for ``rows`` (n, d); W is (p, d).

    Returns changes of value, weighted (R, B, players) and added up by whom each step pays, (R, n, players), and their plain
    total (n,).
    """
    p, n = W.shape[0], rows.shape[0]
    padded = p + -p % 3  # latent variables are taken three at a time; those to spare are always 0
    n_replicates, n_orders, n_players = weights.shape
    k, L = queues.shape[1], min(_LANES if n > 4 else 2 * _LANES, n_orders)  # so that all lanes' rows fit the cache
    values, total = np.zeros((n_replicates, n, n_players)), np.zeros(n)
    P, z, change = np.empty((p, p, L)), np.empty((n, padded, L)), np.empty((n, k, L))
    w, y, y_before, by = np.zeros((padded, L)), np.zeros((padded, L)), np.zeros((padded, L)), np.zeros((padded, L))
    c, c_next = np.zeros((padded, L)), np.zeros((padded, L))
    V, inverse, curvature, slope, delta = np.empty(L), np.empty(L), np.empty(L), np.empty(L), np.empty((n, L))
    order, joining, own = np.empty(L, np.int64), np.empty(L, np.int64), np.empty(n_players)
    for first in range(0, n_orders, L):
        P[:] = 0.0
        z[:] = 0.0
        delta[:] = 0.0
        for i in range(p):
            P[i, i] = 1.0
        for q in range(L):
            order[q] = min(first + q, n_orders - 1)  # lanes to spare repeat the last order, and are not counted
            joining[q] = queues[order[q], 0]
            for i in range(p):
                w[i, q] = W[i, joining[q]]
                c[i, q] = w[i, q]
        for step in range(k):
            V[:] = psi
            for i in range(0, padded, 3):
                c0, c1, c2, w0, w1, w2 = c[i], c[i + 1], c[i + 2], w[i], w[i + 1], w[i + 2]
                for q in range(L):
                    V[q] += c0[q] * w0[q] + c1[q] * w1[q] + c2[q] * w2[q]
            for q in range(L):
                inverse[q] = 1 / V[q]
                curvature[q] = a * psi * inverse[q]
            y, y_before = y_before, y
            for i in range(p):
                ci, yi, si, bi = c[i], y[i], by[i], b[i]
                for q in range(L):
                    yi[q] = ci[q] * inverse[q]
                    si[q] = bi * yi[q]
                    curvature[q] += si[q] * yi[q]
            for r in range(n):
                # z moves by what the step before found, in the same pass that looks at it
                zr, x, moved_by, found, out = z[r], rows[r], delta[r], inverse, change[r, step]
                for q in range(L):
                    found[q] = x[joining[q]]
                slope[:] = 0.0
                for i in range(0, padded, 3):
                    z0, z1, z2, y0, y1, y2 = zr[i], zr[i + 1], zr[i + 2], y_before[i], y_before[i + 1], y_before[i + 2]
                    w0, w1, w2, s0, s1, s2 = w[i], w[i + 1], w[i + 2], by[i], by[i + 1], by[i + 2]
                    for q in range(L):
                        t0 = z0[q] + y0[q] * moved_by[q]
                        t1 = z1[q] + y1[q] * moved_by[q]
                        t2 = z2[q] + y2[q] * moved_by[q]
                        z0[q] = t0
                        z1[q] = t1
                        z2[q] = t2
                        found[q] -= w0[q] * t0 + w1[q] * t1 + w2[q] * t2
                        slope[q] += s0[q] * t0 + s1[q] * t1 + s2[q] * t2
                for q in range(L):
                    moved_by[q] = found[q]
                    out[q] = 2 * found[q] * slope[q] + curvature[q] * (found[q] * found[q] - V[q])
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
        filled = min(L, n_orders - first)
        for q in range(filled):
            for r in range(n):
                own[:] = 0.0
                for step in range(k):
                    own[paid[first + q, step]] += change[r, step, q]
                if q == 0:  # every order adds up to the same
                    total[r] += filled * own.sum()
                for s in range(n_replicates):
                    mine, weight = values[s, r], weights[s, first + q]
                    for i in range(n_players):
                        mine[i] += weight[i] * own[i]
    return values, total
