"""Contributions to coalitions for rows with missing cells, compiled.

A missing feature is in no coalition. So the covariance of the latent variables is that of the complete row, less what the
missing members m told, one after the other. With u = V w_m and delta = psi_m - w_m^T u:

    V <- V + u u^T / delta

What `culpa.games.marginals` needs are products with W. With G = W V W^T, H = W V b' V W^T, R = W z and M = W V b' z,
let t and e be the rows m of G and H, and c = R_m / delta:

    G <- G + t t^T / delta,   H <- H + (t e^T + e t^T) / delta + t t^T H_mm / delta^2
    R <- R + c t,             M <- M + c e + (M_m + c H_mm) t / delta

Only the diagonals of G and H are needed, and the rows of missing features. So a row with few missing cells costs little
more than a complete one, whatever the number of patterns.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._kernels.kernel import Kernel


def missing_cells(W, noise, alpha, b, trace, shares, weights, V, rows, starts, places, lacking, found):
    """Add contributions of all features to all coalitions to ``found``, (n, d).

    ``rows`` (n, d) have 0 where cells are missing. Row i misses ``lacking[places[starts[i] : starts[i + 1]]]``.
    ``weights`` (coalitions, d) are 1 / noise of the features inside, and 0 outside. Contributions to a coalition count by
    ``shares``, (coalitions,).
    """
    (d, p), n, n_lacking = W.shape, len(rows), len(lacking)
    columns, most = np.ascontiguousarray(W.T), 0
    for i in range(n):
        most = max(most, starts[i + 1] - starts[i])
    weighted, side = np.empty((d, p)), np.empty(d)
    G, H, bent = np.empty((n_lacking, d)), np.empty((n_lacking, d)), np.empty((p, d))
    g, h, own_g, own_h = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    ts, es, members = np.empty((most, d)), np.empty((most, d)), np.empty(most, dtype=np.int64)
    of_lacking = W[lacking]
    for c in range(len(V)):
        for i in range(d):
            side[i] = -1.0 if weights[c, i] > 0.0 else 1.0
            for e in range(p):
                weighted[i, e] = weights[c, i] * W[i, e]
        gains = np.dot(V[c], columns)
        z = np.dot(np.dot(rows, weighted), V[c])
        R = np.dot(z, columns)
        for e in range(p):
            for i in range(d):
                bent[e, i] = b[e] * gains[e, i]
        M = np.dot(z, bent)
        G[:] = np.dot(of_lacking, gains)
        H[:] = np.dot(np.ascontiguousarray(gains.T)[lacking], bent)
        g[:] = 0.0
        h[:] = 0.0
        for e in range(p):
            for i in range(d):
                g[i] += columns[e, i] * gains[e, i]
                h[i] += gains[e, i] * bent[e, i]
        for row in range(n):
            own_g[:] = g
            own_h[:] = h
            r, m, n_members = R[row], M[row], 0
            for at in range(starts[row], starts[row + 1]):
                if side[lacking[places[at]]] < 0.0:
                    members[n_members] = lacking[places[at]]
                    ts[n_members] = G[places[at]]
                    es[n_members] = H[places[at]]
                    n_members += 1
            for k in range(n_members):
                t, e, who = ts[k], es[k], members[k]
                inverse, curve = 1.0 / (noise[who] - t[who]), e[who]
                step = r[who] * inverse
                push = (m[who] + step * curve) * inverse
                bend = curve * inverse * inverse
                for i in range(d):
                    own_g[i] += t[i] * t[i] * inverse
                    own_h[i] += t[i] * (2.0 * inverse * e[i] + bend * t[i])
                    r[i] += step * t[i]
                    m[i] += step * e[i] + push * t[i]
                for later in range(k + 1, n_members):
                    t_at, e_at = t[members[later]], e[members[later]]
                    for i in range(d):
                        es[later, i] += inverse * (t[i] * e_at + e[i] * t_at) + bend * t_at * t[i]
                        ts[later, i] += inverse * t_at * t[i]
            for i in range(d):
                inverse = 1.0 / (noise[i] + side[i] * own_g[i])
                curve, left = own_h[i] * inverse, rows[row, i] - r[i]
                slope = inverse * (2.0 * m[i] + (side[i] * curve + alpha[i]) * left)
                found[row, i] += shares[c] * (left * slope - trace * (curve + alpha[i]))


MISSING_CELLS = Kernel(missing_cells, worth=2e8)
