"""How rows with a few missing cells differ from the same rows with these cells filled in, compiled.

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
features that fill up the last vector have loadings of 0. Contributions of missing features are meaningless, and may be
infinite: nobody reads them.

| symbol | code | meaning |
| --- | --- | --- |
| r, t, g, q | the first four parts of ``state`` | one number for each feature |
| K, L | two more parts of ``state`` for each missing feature | |
| z, B z | the first two parts of ``known`` | mean of the latent variables |
| V w, B V w | two more parts of ``known`` for each missing feature | |

There are no functions for the parts of the kernel, and no slices in its inner loops. For each array that is passed to a
function or cut out of another one, numba counts references, which would take longer than the rest.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from typing import Any, NamedTuple

import numpy as np

from culpa._kernels.kernel import Kernel
from culpa._kernels.vectors import TILE, aligned_zeros, load, store, tile_of_zero

MOST_IN_ALL_SETS = 3  # missing features of which all sets are paid; of more, one set of each size


class Alike(NamedTuple):
    """A model whose features have the same noise and weight, with features in columns that fill vectors."""

    loadings: Any  # (p, columns)
    b: Any  # (p,), filled up to whole vectors
    psi: float
    a: float


class Prepared(NamedTuple):
    """Coalitions, for all rows."""

    members: Any  # (coalitions, d): features inside, and then the others
    n_members: Any  # (coalitions,)
    side: Any  # (coalitions, columns): 1 for features outside, -1 for those inside
    gains: Any  # (coalitions, p, columns): V w
    by_feature: Any  # the same with p last, filled up to whole vectors
    spread: Any  # (coalitions, columns): g
    bend: Any  # (coalitions, columns): q
    inverse: Any  # (coalitions, columns): 1 / h


def _contribution(r, t, q, sign, inverse, a_psi):
    """Of features, given 1 / h."""
    return inverse * (r * (2.0 * t + (sign * q * inverse + a_psi) * r) - q) - a_psi


def contrasts(model, prepared, rows, missing, turns, weights, nets, result):
    """Add weighted contributions to result, (nets, n, columns): to all coalitions, with sets of the missing features.

    ``rows`` (n, columns) are filled in, and ``missing`` (n, k) says which features are. ``turns`` (coalitions, k) are
    orders of the missing features, in which they join if not all sets of them are paid. ``nets`` (coalitions,) says where
    in the result contributions to a coalition go. Their weights (coalitions, k + 1, k + 1, 2) are given by how many missing
    features are members of the coalition as it is prepared, and by how many of them are members where the contribution is
    made. The last axis has the mean of the weights of features outside and inside, and half their difference.
    """
    psi, a_psi, b, precision = model.psi, model.a * model.psi, model.b, 1.0 / model.psi
    (p, columns), (n, k), p_filled = model.loadings.shape, missing.shape, len(model.b)
    loadings, cells = model.loadings.reshape(p * columns), rows.reshape(n * columns)
    K_0, L_0, n_sets, all_sets = 4 * columns, 5 * columns, 1 << k, k <= MOST_IN_ALL_SETS
    state, known = aligned_zeros((4 + 2 * k) * columns), aligned_zeros((2 + 2 * k) * p_filled)
    across, like = np.empty((k, 2)), tile_of_zero()
    for c in range(len(prepared.side)):
        side, gains = prepared.side[c], prepared.gains[c].reshape(p * columns)
        by_feature = prepared.by_feature[c].reshape(columns * p_filled)
        spread, bend, inverses, turn, weight = (
            prepared.spread[c],
            prepared.bend[c],
            prepared.inverse[c],
            turns[c],
            weights[c],
        )
        paid, inside, n_members = result[nets[c]].reshape(n * columns), prepared.members[c], prepared.n_members[c]
        for at in range(n):
            own, n_inside = at * columns, 0
            for m in range(k):
                n_inside += side[missing[at, m]] < 0.0
            for e in range(0, p_filled, TILE):
                first, second = like, like  # two sums, so that one need not wait for the other
                for member in range(0, n_members - 1, 2):
                    i, i_too = inside[member], inside[member + 1]
                    first = first + load(by_feature, i * p_filled + e, like) * cells[own + i]
                    second = second + load(by_feature, i_too * p_filled + e, like) * cells[own + i_too]
                if n_members % 2:
                    i = inside[n_members - 1]
                    first = first + load(by_feature, i * p_filled + e, like) * cells[own + i]
                first = (first + second) * precision
                store(known, e, first)
                store(known, p_filled + e, load(b, e, like) * first)
                for m in range(k):
                    gain = load(by_feature, missing[at, m] * p_filled + e, like)
                    store(known, (2 + 2 * m) * p_filled + e, gain)
                    store(known, (3 + 2 * m) * p_filled + e, load(b, e, like) * gain)
            # the state of the coalition, and contributions to it
            mean_weight, half_difference = weight[n_inside, n_inside, 0], weight[n_inside, n_inside, 1]
            if n_inside and not all_sets:
                mean_weight, half_difference = 0.0, 0.0
            for i in range(0, columns, TILE):
                r, t, K, L = load(cells, own + i, like), like, like, like
                for e in range(p):
                    w, gain = load(loadings, e * columns + i, like), load(gains, e * columns + i, like)
                    r, t = r - w * known[e], t + gain * known[p_filled + e]
                    K, L = K + w * known[2 * p_filled + e], L + gain * known[3 * p_filled + e]
                g, q, sign = load(spread, i, like), load(bend, i, like), load(side, i, like)
                store(state, i, r)
                store(state, columns + i, t)
                store(state, 2 * columns + i, g)
                store(state, 3 * columns + i, q)
                store(state, K_0 + i, K)
                store(state, L_0 + i, L)
                change = _contribution(r, t, q, sign, load(inverses, i, like), a_psi)
                store(paid, own + i, load(paid, own + i, like) + (mean_weight + half_difference * sign) * change)
                for m in range(1, k):
                    K, L = like, like
                    for e in range(p):
                        K = K + load(loadings, e * columns + i, like) * known[(2 + 2 * m) * p_filled + e]
                        L = L + load(gains, e * columns + i, like) * known[(3 + 2 * m) * p_filled + e]
                    store(state, K_0 + 2 * m * columns + i, K)
                    store(state, L_0 + 2 * m * columns + i, L)
            # one missing feature moves at a time: so that all sets of them occur, or all leave and then join in turn
            n_inside_now, moved = n_inside, 0
            n_moves = n_sets - 1 if all_sets else n_inside + k
            for move in range(1, n_moves + 1):
                m = 0
                if all_sets:
                    while not (move >> m) & 1:
                        m += 1
                elif move > n_inside:
                    m = turn[move - n_inside - 1]
                else:
                    while side[missing[at, m]] > 0.0 or (moved >> m) & 1:
                        m += 1
                j, K_at, L_at = missing[at, m], K_0 + 2 * m * columns, L_0 + 2 * m * columns
                leaves = (side[j] < 0.0) != bool((moved >> m) & 1)
                moved ^= 1 << m
                n_inside_now += -1 if leaves else 1
                pays, last = all_sets or move >= n_inside, move == n_moves
                n_kept = k  # missing features that may move again: with all sets, the first ones move most often
                while all_sets and n_kept > 0 and not (n_moves - move) >> (n_kept - 1):
                    n_kept -= 1
                mean_weight, half_difference = weight[n_inside, n_inside_now, 0], weight[n_inside, n_inside_now, 1]
                r_j, t_j, g_j, q_j = state[j], state[columns + j], state[2 * columns + j], state[3 * columns + j]
                move_by = -1.0 / (psi - g_j) if leaves else 1.0 / (psi + g_j)
                shift, pull = move_by * r_j, t_j + move_by * r_j * q_j
                for other in range(k):
                    across[other, 0] = move_by * state[K_at + missing[at, other]]
                    across[other, 1] = state[L_at + missing[at, other]]
                for i in range(0, columns, TILE):
                    K, L, sign = load(state, K_at + i, like), load(state, L_at + i, like), load(side, i, like)
                    cK = move_by * K
                    r = load(state, i, like) - shift * K
                    t = load(state, columns + i, like) + shift * L - pull * cK
                    g = load(state, 2 * columns + i, like) - cK * K
                    q = load(state, 3 * columns + i, like) + cK * (q_j * cK - 2.0 * L)
                    if pays:
                        change = _contribution(r, t, q, sign, 1.0 / (psi + sign * g), a_psi)
                        store(
                            paid, own + i, load(paid, own + i, like) + (mean_weight + half_difference * sign) * change
                        )
                    if not last:
                        store(state, i, r)
                        store(state, columns + i, t)
                        store(state, 2 * columns + i, g)
                        store(state, 3 * columns + i, q)
                        for other in range(n_kept):
                            cK_m, L_m = across[other, 0], across[other, 1]
                            to = K_0 + 2 * other * columns + i
                            store(state, to, load(state, to, like) - cK_m * K)
                            to += columns
                            store(state, to, load(state, to, like) + cK * (cK_m * q_j - L_m) - cK_m * L)


CONTRASTS = Kernel(contrasts, worth=1.5e9, calls=(aligned_zeros, _contribution))
