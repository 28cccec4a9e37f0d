"""Compiled steps of `culpa.games.elimination`, for `culpa._kernels.tree`.

A few rows are features that never join: row r has the entries V_ar = delta_a, K_ar = -c_a and K_rr = value. Then moving
delta, c and the value along is the elimination of V and K itself, but for the trace: when feature j joins, with
v = V_j / V_jj, kappa = K_jj / V_jj and w = K_j - kappa V_j,

    V_ae <- V_ae - v_a V_je
    K_ae <- K_ae - v_a K_je - w_a v_e,   and K_rr <- K_rr - v_r (K_jr + w_r) - kappa.

Rows have the numbers 0 to R - 1, features follow. A feature has V and K of its pairs with rows, with features before it
and with itself.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._core.types import Floats
from culpa._kernels.tree import Steps, Tree, add_three, tree_kernel, weights_of_three
from culpa._kernels.vectors import load, store, width


def elimination_tree(
    V: Floats, K: Floats, rows: Floats, value: float, weights: tuple[Floats, Floats], sizes: list[int]
) -> Tree:
    """The tree of a game with covariance and sandwich (k, k), features in the order of the queue."""
    pairs = np.stack([V[::-1, ::-1], K[::-1, ::-1]])
    return Tree(ELIMINATION, np.empty(0), pairs, np.empty((len(V), 0)), rows[:, ::-1], value, weights, sizes)


def _join(S, T, constants, source, target, j, R, mask, like):
    """Feature j joins; T keeps v and w of each row and feature."""
    j += R
    W = width(like)
    own = source + (j * (j + 1) - R * R) * W
    inverse = mask / load(S, own + 2 * j * W, like)
    kappa = load(S, own + (2 * j + 1) * W, like) * inverse
    for e in range(j):
        V, K = load(S, own + 2 * e * W, like), load(S, own + (2 * e + 1) * W, like)
        v, w = V * inverse, K - kappa * V
        store(T, 2 * e * W, v)
        store(T, (2 * e + 1) * W, w)
        if e < R:
            store(S, target + e * W, load(S, source + e * W, like) - v * (K + w) - kappa)
    cell = R * W
    for a in range(R, j):
        v, w = load(T, 2 * a * W, like), load(T, (2 * a + 1) * W, like)
        for e in range(a + 1):
            there = own + 2 * e * W
            V = load(S, source + cell, like) - v * load(S, there, like)
            K = load(S, source + cell + W, like) - v * load(S, there + W, like) - w * load(T, 2 * e * W, like)
            store(S, target + cell, V)
            store(S, target + cell + W, K)
            cell += 2 * W


def _one(V10, V11, K10, K11):
    """Change of value when 1 joins."""
    g = V10 / V11
    return g * (K11 * g - 2.0 * K10) - K11 / V11


def _two(V10, V11, V20, V21, V22, K10, K11, K20, K21, K22):
    """Changes of value when 1 joins, when 2 does, and when both do."""
    inverse = 1.0 / V22
    kappa = K22 * inverse
    v0, v1 = V20 * inverse, V21 * inverse
    w0, w1 = K20 - kappa * V20, K21 - kappa * V21
    only2 = 0.0 - v0 * (K20 + w0) - kappa
    then1 = _one(V10 - v1 * V20, V11 - v1 * V21, K10 - v1 * K20 - w1 * v0, K11 - v1 * K21 - w1 * v1)
    return _one(V10, V11, K10, K11), only2, only2 + then1


def _three(value, V10, V20, V30, K10, K20, K30, V11, V21, V22, V31, V32, V33, K11, K21, K22, K31, K32, K33):
    """Values when 1, 2, 3, 1 and 2, 1 and 3, 2 and 3, all three join; 0 is the row."""
    q1, q2, q12 = _two(V10, V11, V20, V21, V22, K10, K11, K20, K21, K22)
    inverse = 1.0 / V33
    kappa = K33 * inverse
    v0, v1, v2 = V30 * inverse, V31 * inverse, V32 * inverse
    w0, w1, w2 = K30 - kappa * V30, K31 - kappa * V31, K32 - kappa * V32
    V10, V11, K10, K11 = V10 - v1 * V30, V11 - v1 * V31, K10 - v1 * K30 - w1 * v0, K11 - v1 * K31 - w1 * v1
    V20, V21, V22 = V20 - v2 * V30, V21 - v2 * V31, V22 - v2 * V32
    K20, K21, K22 = K20 - v2 * K30 - w2 * v0, K21 - v2 * K31 - w2 * v1, K22 - v2 * K32 - w2 * v2
    q13, q23, q123 = _two(V10, V11, V20, V21, V22, K10, K11, K20, K21, K22)
    q3 = value - v0 * (K30 + w0) - kappa
    return q1 + value, q2 + value, q3, q12 + value, q13 + q3, q23 + q3, q123 + q3


def _last_three(S, sums, weights, constants, source, R, n_sums, depth, like):
    """The last three players join in every way."""
    W = width(like)
    core = source + 3 * R * W
    V11, K11 = load(S, core, like), load(S, core + W, like)
    core += 2 * R * W + 2 * W
    V21, K21 = load(S, core, like), load(S, core + W, like)
    V22, K22 = load(S, core + 2 * W, like), load(S, core + 3 * W, like)
    core += 2 * R * W + 4 * W
    V31, K31 = load(S, core, like), load(S, core + W, like)
    V32, K32 = load(S, core + 2 * W, like), load(S, core + 3 * W, like)
    V33, K33 = load(S, core + 4 * W, like), load(S, core + 5 * W, like)
    by_size = weights_of_three(weights, depth, like)
    for r in range(R):
        one = source + (R + 2 * r) * W
        two = one + (2 * R + 2) * W
        three = two + (2 * R + 4) * W
        V10, K10 = load(S, one, like), load(S, one + W, like)
        V20, K20 = load(S, two, like), load(S, two + W, like)
        V30, K30 = load(S, three, like), load(S, three + W, like)
        value = load(S, source + r * W, like)
        values = _three(value, V10, V20, V30, K10, K20, K30, V11, V21, V22, V31, V32, V33, K11, K21, K22, K31, K32, K33)
        add_three(sums, r * n_sums, n_sums // 2 + depth * W, by_size, values, like)


ELIMINATION = Steps(tree_kernel(_join, _last_three, _one, _two, _three, worth=5e8), n_own=0, n_scratch=2)
