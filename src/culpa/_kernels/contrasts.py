"""What rows with a few missing cells differ in from the same rows with these cells filled in, compiled.

`culpa.games.marginals` has the formulas and the symbols. A coalition S is prepared once for all rows: V w of every feature,
and what follows from it. A row that misses a few features needs other coalitions: those without the missing features, with
one of them, and so on. One missing feature moves in or out at a time. When feature j does, with K_i = w_i^T V w_j and
L_i = w_i^T V B V w_j, and with c = 1 / (psi + g_j) if it joins or c = -1 / (psi - g_j) if it leaves,

    r_i <- r_i - c r_j K_i
    t_i <- t_i + c r_j L_i - c K_i (t_j + c r_j q_j)
    g_i <- g_i - c K_i^2
    q_i <- q_i - 2 c K_i L_i + c^2 K_i^2 q_j

and the K and L of every missing feature m

    K_mi <- K_mi - c K_i K_m
    L_mi <- L_mi - c K_i L_m - c K_m L_i + c^2 K_i K_m q_j

where K_m and L_m are the entries of K and L at m. So a move takes a few operations for each feature, whatever the number of
latent variables, and rows with different cells missing share all that takes more. Lanes are neighbouring features. The
features that fill up the last vector have loadings of 0.

| symbol | code | meaning |
| --- | --- | --- |
| r, t, g, q | the first four parts of ``state`` | one number for each feature |
| K, L | the other parts of ``state`` | two parts for each missing feature |
| z | first row of ``z`` | mean of the latent variables; the other rows are B z, and V w and B V w of the missing features |
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from typing import Any, NamedTuple

import numpy as np

from culpa._kernels.kernel import Kernel
from culpa._kernels.vectors import TILE, load, store, tile_of_zero

_T, _G, _Q, _KL = 1, 2, 3, 4  # parts of a state after r, which is the first


class Alike(NamedTuple):
    """A model whose features have the same noise and weight, with features in columns that fill vectors."""

    loadings: Any  # (p, columns)
    b: Any  # (p,), filled up to whole vectors
    psi: float
    a: float


class Prepared(NamedTuple):
    """Coalitions, for all rows."""

    side: Any  # (coalitions, columns): 1 for features outside, -1 for those inside
    gains: Any  # (coalitions, p, columns): V w
    by_feature: Any  # the same with p last, filled up to whole vectors
    spread: Any  # (coalitions, columns): g
    bend: Any  # (coalitions, columns): q


def _contribution(r, t, q, sign, inverse, a_psi):
    """Of features, given 1 / h."""
    return inverse * (r * (2.0 * t + (sign * q * inverse + a_psi) * r) - q) - a_psi


def _pay_coalition(
    psi, a_psi, b, loadings, side, gains, by_feature, spread, bend, rows, missing, weights, paid, work, z, columns
):
    """Add the weighted contributions to one coalition, with every set of missing features, to those of each row.

    There are no functions for the parts of this, and no slices: for each array that is passed to a function, or cut out of
    another one, numba counts references, which would take longer than the rest.
    """
    p, p_used, k, n = len(b), len(loadings) // columns, missing.shape[1], missing.shape[0]
    like, moves, precision = tile_of_zero(), 1 << k, 1.0 / psi
    K_0, L_0, across = 4 * columns, 5 * columns, (4 + 2 * k) * columns
    for at in range(n):
        own = at * columns
        # z and B z, and V w and B V w of missing features
        for e in range(0, p, TILE):
            first, second = like, like  # two sums, so that one need not wait for the other
            for i in range(0, columns, 2):
                known = 0.5 * precision * (1.0 - side[i]) * rows[own + i]
                known_too = 0.5 * precision * (1.0 - side[i + 1]) * rows[own + i + 1]
                first = first + load(by_feature, i * p + e, like) * known
                second = second + load(by_feature, (i + 1) * p + e, like) * known_too
            store(z, e, first + second)
            store(z, p + e, load(b, e, like) * (first + second))
            for m in range(k):
                gain = load(by_feature, missing[at, m] * p + e, like)
                store(z, (2 + 2 * m) * p + e, gain)
                store(z, (3 + 2 * m) * p + e, load(b, e, like) * gain)
        n_inside = 0
        for m in range(k):
            n_inside += side[missing[at, m]] < 0.0
        # the state of the coalition, and contributions to it
        middle, half = weights[n_inside, n_inside, 0], weights[n_inside, n_inside, 1]
        for i in range(0, columns, TILE):
            r, t, K, L = load(rows, own + i, like), like, like, like
            for e in range(p_used):
                w, gain = load(loadings, e * columns + i, like), load(gains, e * columns + i, like)
                r, t = r - w * z[e], t + gain * z[p + e]
                K, L = K + w * z[2 * p + e], L + gain * z[3 * p + e]
            g, q, sign = load(spread, i, like), load(bend, i, like), load(side, i, like)
            store(work, i, r)
            store(work, columns + i, t)
            store(work, 2 * columns + i, g)
            store(work, 3 * columns + i, q)
            store(work, K_0 + i, K)
            store(work, L_0 + i, L)
            change = _contribution(r, t, q, sign, 1.0 / (psi + sign * g), a_psi)
            store(paid, own + i, load(paid, own + i, like) + (middle + half * sign) * change)
            for m in range(1, k):
                K, L = like, like
                for e in range(p_used):
                    K = K + load(loadings, e * columns + i, like) * z[(2 + 2 * m) * p + e]
                    L = L + load(gains, e * columns + i, like) * z[(3 + 2 * m) * p + e]
                store(work, K_0 + 2 * m * columns + i, K)
                store(work, L_0 + 2 * m * columns + i, L)
        # one missing feature moves at a time, so that all sets of them occur
        r_inside, moved = n_inside, 0
        for move in range(1, moves):
            m = 0
            while not (move >> m) & 1:
                m += 1
            j, K_at, L_at = missing[at, m], K_0 + 2 * m * columns, L_0 + 2 * m * columns
            leaves = (side[j] < 0.0) != bool((moved >> m) & 1)
            moved ^= 1 << m
            r_inside += -1 if leaves else 1
            middle, half = weights[n_inside, r_inside, 0], weights[n_inside, r_inside, 1]
            r_j, t_j, g_j, q_j = work[j], work[columns + j], work[2 * columns + j], work[3 * columns + j]
            c = -1.0 / (psi - g_j) if leaves else 1.0 / (psi + g_j)
            shift, pull = c * r_j, t_j + c * r_j * q_j
            for other in range(k):
                work[across + 2 * other] = c * work[K_at + missing[at, other]]
                work[across + 2 * other + 1] = work[L_at + missing[at, other]]
            for i in range(0, columns, TILE):
                K, L, sign = load(work, K_at + i, like), load(work, L_at + i, like), load(side, i, like)
                cK = c * K
                r = load(work, i, like) - shift * K
                t = load(work, columns + i, like) + shift * L - pull * cK
                g = load(work, 2 * columns + i, like) - cK * K
                q = load(work, 3 * columns + i, like) + cK * (q_j * cK - 2.0 * L)
                change = _contribution(r, t, q, sign, 1.0 / (psi + sign * g), a_psi)
                store(paid, own + i, load(paid, own + i, like) + (middle + half * sign) * change)
                if move + 1 < moves:
                    store(work, i, r)
                    store(work, columns + i, t)
                    store(work, 2 * columns + i, g)
                    store(work, 3 * columns + i, q)
                    for other in range(k):
                        cK_m, L_m = work[across + 2 * other], work[across + 2 * other + 1]
                        to = K_0 + 2 * other * columns + i
                        store(work, to, load(work, to, like) - cK_m * K)
                        to += columns
                        store(work, to, load(work, to, like) + cK * (cK_m * q_j - L_m) - cK_m * L)


def contrasts(model, prepared, rows, missing, weights, nets, result):
    """Add weighted contributions to result, (nets, n, columns): to all coalitions, with every set of missing features.

    ``rows`` (n, columns) are filled in, and ``missing`` (n, k) says which features are. ``nets`` (coalitions,) says where
    in the result contributions to a coalition go. Their weights (coalitions, k + 1, k + 1, 2) are given by how many missing
    features are members of the coalition as it is prepared, and by how many of them are members where the contribution is
    made. The last axis has the mean of the weights of features outside and inside, and half their difference.
    """
    (n, columns), k, p = rows.shape, missing.shape[1], model.loadings.shape[0]
    work, z = np.zeros((4 + 2 * k) * columns + 2 * k), np.empty((2 + 2 * k) * len(model.b))
    a_psi, loadings, cells = model.a * model.psi, model.loadings.reshape(p * columns), rows.reshape(n * columns)
    for c in range(len(prepared.side)):
        _pay_coalition(
            model.psi,
            a_psi,
            model.b,
            loadings,
            prepared.side[c],
            prepared.gains[c].reshape(p * columns),
            prepared.by_feature[c].reshape(columns * len(model.b)),
            prepared.spread[c],
            prepared.bend[c],
            cells,
            missing,
            weights[c],
            result[nets[c]].reshape(n * columns),
            work,
            z,
            columns,
        )


CONTRASTS = Kernel(contrasts, worth=5e8, calls=(_contribution, _pay_coalition))
