"""How a feature joins where noise is tiny, as compiled steps for `culpa._kernels.tree_kernel`.

Elimination would lose digits there. So these steps carry factors of the covariance instead. They are for the games of
`culpa.games.latent` whose features have the same noise psi and the same weight a.

The waiting features depend on the p latent variables only through W z. Rotate the latent variables by an orthogonal
matrix H, so that W H is a lower triangle L when features are listed from the one that decides last: feature i depends on
rotated variables 0 to i only. Given the coalition, the covariance of the rotated variables stays diagonal, D, if L is
updated instead. Besides L and D the steps need only Q = H^T diag(b) H and, for every row, s = H^T diag(b) z. When
feature j joins, with f = L_j, v = D f and t_e = psi + v_e f_e + ... + v_j f_j (so that t_(j+1) = psi):

    variance = t_0,  u = Q v / variance,  slope = 2 v^T s / variance,  curvature = v^T u / variance + a psi / variance
    change of value = delta_j slope + curvature (delta_j^2 - variance)
    delta <- delta - L v delta_j / variance,  s <- M^T (s + u delta_j)
    L <- L M,  Q <- M^T Q M,  D_e <- D_e t_(e+1) / t_e

where M_ee = 1 and M_ie = -v_i pull_e for i > e, with pull_e = f_e / t_(e+1). The variance is a sum of positive terms, so
no digits are lost, however small psi is. A step costs as much as there are waiting features, whatever p is.

| symbol | code | meaning |
| --- | --- | --- |
| L, Q, D | ``L_ie``, ``Q_ie``, ``D_e`` | see above |
| delta, s | ``delta_0``, ``s_0`` | pair of feature 0 and a row |
| variance | ``variance`` | variance of feature j given the coalition |
| a psi | ``a_psi`` | |
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._core.types import Floats
from culpa._kernels.layout import feature_pair_at, load_pair, own_at, row_pair_at, value_at
from culpa._kernels.tree import Steps, TreeModel
from culpa._kernels.tree_kernel import pairs_of_last_three, seven_values, tree_kernel
from culpa._kernels.vectors import load, store, width_of


def factored_model(W: Floats, psi: float, a: float, b: Floats, rows: Floats, value: float) -> TreeModel:
    """Model of a game with loadings W (k, p), features in the order in which they decide."""
    k = len(W)
    strongest_first = np.argsort(-(W**2).sum(axis=0), kind="stable")  # else they would drown the digits of weak ones
    W, b = W[:, strongest_first], b[strongest_first]
    rotation, triangle = np.linalg.qr(W[::-1].T)
    p = len(triangle)
    pairs, D = np.zeros((2, k, k)), np.ones((k, 1))
    pairs[0, :, :p], pairs[1, :p, :p] = triangle.T, rotation.T @ (b[:, None] * rotation)
    return TreeModel(np.array([psi, a * psi]), pairs, D, rows[:, ::-1], value)


def _update_diagonal(state, scratch, source, target, j, layout, psi, mask, like):
    """Move D on. Leaves v and pull in scratch, and zeros for `_update_factors`; returns variance and its inverse."""
    width, zero = width_of(like), like * 0.0
    v_at, pull_at, below_at, beyond_at = 0, (j + 1) * width, 2 * (j + 1) * width, 3 * (j + 1) * width
    t = zero + psi
    inverse = 1.0 / t
    for e in range(j, -1, -1):
        own = own_at(layout, e) * width
        f_e = mask * load(state, source + feature_pair_at(layout, j, e) * width, like)
        D_e = load(state, source + own, like)
        v_e = D_e * f_e
        store(scratch, v_at + e * width, v_e)
        store(scratch, pull_at + e * width, f_e * inverse)
        store(scratch, below_at + e * width, zero)
        store(scratch, beyond_at + e * width, zero)
        t_before = t
        t = t + v_e * f_e
        inverse = 1.0 / t
        if e < j:
            store(state, target + own, D_e * t_before * inverse)
    return t, inverse


def _update_factors(state, scratch, source, target, j, layout, inverse, curvature, like):
    """Move L, Q and delta on. Leaves u in scratch; returns the curvature.

    With h_ie = sum of Q_ik v_k over k > e, which is (Q v)_i on its way to the left, Q_ie moves by pull_e h_ie, and by
    pull_i times what is below it in column e: h_ei minus pull_e times the sum of v_k h_ke over k > i.
    """
    width, zero = width_of(like), like * 0.0
    v_at, pull_at, below_at, beyond_at = 0, (j + 1) * width, 2 * (j + 1) * width, 3 * (j + 1) * width
    u_at = 4 * (j + 1) * width
    for i in range(j, -1, -1):
        block = feature_pair_at(layout, i, 0) * width
        v_i, pull_i = load(scratch, v_at + i * width, like), load(scratch, pull_at + i * width, like)
        Qv, Lv = load(scratch, below_at + i * width, like), zero
        for e in range(i, -1, -1):
            at = block + 2 * e * width
            L_ie, Q_ie = load_pair(state, source + at, like)
            v_e, pull_e = load(scratch, v_at + e * width, like), load(scratch, pull_at + e * width, like)
            below, beyond = load(scratch, below_at + e * width, like), load(scratch, beyond_at + e * width, like)
            if i < j:
                store(state, target + at, L_ie - pull_e * Lv)
                store(state, target + at + width, Q_ie - pull_e * Qv - pull_i * (below - pull_e * beyond))
            store(scratch, below_at + e * width, below + v_i * Q_ie)
            store(scratch, beyond_at + e * width, beyond + v_i * Qv)
            Qv = Qv + Q_ie * v_e
            Lv = Lv + L_ie * v_e
        u_i = Qv * inverse
        store(scratch, u_at + i * width, u_i)
        curvature = curvature + v_i * u_i
        if i < j:
            gain_i = Lv * inverse
            for r in range(layout.n_rows):
                at = row_pair_at(layout, i, r) * width
                delta_j = load(state, source + row_pair_at(layout, j, r) * width, like)
                store(state, target + at, load(state, source + at, like) - gain_i * delta_j)
    return curvature


def _update_rows(state, scratch, source, target, j, layout, variance, inverse, curvature, like):
    """Move s and the value of every row on."""
    width, zero = width_of(like), like * 0.0
    v_at, pull_at, u_at = 0, (j + 1) * width, 4 * (j + 1) * width
    for r in range(layout.n_rows):
        delta_j = load(state, source + row_pair_at(layout, j, r) * width, like)
        slope, beyond = zero, zero
        for e in range(j, -1, -1):
            at = (row_pair_at(layout, e, r) + 1) * width
            s_e, v_e = load(state, source + at, like), load(scratch, v_at + e * width, like)
            slope = slope + v_e * s_e
            s_e = s_e + load(scratch, u_at + e * width, like) * delta_j
            if e < j:
                store(state, target + at, s_e - load(scratch, pull_at + e * width, like) * beyond)
            beyond = beyond + v_e * s_e
        change = delta_j * (2.0 * slope * inverse + curvature * delta_j) - curvature * variance
        value = load(state, source + value_at(r) * width, like)
        store(state, target + value_at(r) * width, value + change)


def join(state, scratch, constants, source, target, j, layout, mask, like):
    """Feature j joins. Scratch holds five vectors over features: v, pull, two sums of `_update_factors`, and u."""
    psi, a_psi = constants[0], constants[1]
    variance, inverse = _update_diagonal(state, scratch, source, target, j, layout, psi, mask, like)
    start = like * 0.0 + mask * a_psi
    curvature = inverse * _update_factors(state, scratch, source, target, j, layout, inverse, start, like)
    _update_rows(state, scratch, source, target, j, layout, variance, inverse, curvature, like)


def _prepare_two(psi, a_psi, L_00, L_10, L_11, Q_00, Q_10, Q_11, D_0, D_1):
    """What `_two` needs to know of the model when features 0 and 1 wait."""
    # 0 joins
    v = D_0 * L_00
    variance = psi + v * L_00
    inverse = 1.0 / variance
    slope = v * inverse
    curve = slope * slope * Q_00 + a_psi * inverse
    only_0 = 2.0 * slope, curve, curve * variance
    # 1 joins
    v_0, v_1 = D_0 * L_10, D_1 * L_11
    t_1 = psi + v_1 * L_11
    variance = t_1 + v_0 * L_10
    inverse = 1.0 / variance
    slope_0, slope_1 = v_0 * inverse, v_1 * inverse
    u_0, u_1 = Q_00 * slope_0 + Q_10 * slope_1, Q_10 * slope_0 + Q_11 * slope_1
    curve = slope_0 * u_0 + slope_1 * u_1 + a_psi * inverse
    only_1 = 2.0 * slope_0, 2.0 * slope_1, curve, curve * variance
    # 0 joins after 1; m is the entry of -M
    m = v_1 * L_10 / t_1
    v = D_0 * t_1 * inverse * L_00
    variance = psi + v * L_00
    inverse = 1.0 / variance
    slope = v * inverse
    curve = slope * slope * (Q_00 - m * (2.0 * Q_10 - m * Q_11)) + a_psi * inverse
    return only_0, only_1, (L_00 * slope_0, u_0 - m * u_1, m, 2.0 * slope, curve, curve * variance)


def _two(prepared, delta_0, delta_1, s_0, s_1):
    """Changes of value of a row when 0 joins, when 1 joins, and when both do."""
    only_0, only_1, both = prepared
    slope, curve, constant = only_0
    change_0 = delta_0 * (slope * s_0 + curve * delta_0) - constant
    slope_0, slope_1, curve, constant = only_1
    change_1 = delta_1 * (slope_0 * s_0 + slope_1 * s_1 + curve * delta_1) - constant
    gain, u, m, slope, curve, constant = both
    delta_0 = delta_0 - gain * delta_1
    s_0 = s_0 + u * delta_1 - m * s_1
    return change_0, change_1, change_1 + delta_0 * (slope * s_0 + curve * delta_0) - constant


def prepare_last_three(state, constants, source, layout, like):
    """What `values_of_last_three` needs: `_prepare_two` without feature 2, the step of 2, `_prepare_two` after it."""
    width = width_of(like)
    psi, a_psi = constants[0], constants[1]
    L, Q = pairs_of_last_three(state, source, layout, like)
    L_00, L_10, L_11, L_20, L_21, L_22 = L
    Q_00, Q_10, Q_11, Q_20, Q_21, Q_22 = Q
    D_0 = load(state, source + own_at(layout, 0) * width, like)
    D_1 = load(state, source + own_at(layout, 1) * width, like)
    D_2 = load(state, source + own_at(layout, 2) * width, like)
    without = _prepare_two(psi, a_psi, L_00, L_10, L_11, Q_00, Q_10, Q_11, D_0, D_1)
    v_0, v_1, v_2 = D_0 * L_20, D_1 * L_21, D_2 * L_22
    t_2 = psi + v_2 * L_22
    t_1 = t_2 + v_1 * L_21
    variance = t_1 + v_0 * L_20
    inverse, inverse_1 = 1.0 / variance, 1.0 / t_1
    slope_0, slope_1, slope_2 = v_0 * inverse, v_1 * inverse, v_2 * inverse
    u_0 = Q_00 * slope_0 + Q_10 * slope_1 + Q_20 * slope_2
    u_1 = Q_10 * slope_0 + Q_11 * slope_1 + Q_21 * slope_2
    u_2 = Q_20 * slope_0 + Q_21 * slope_1 + Q_22 * slope_2
    curve = slope_0 * u_0 + slope_1 * u_1 + slope_2 * u_2 + a_psi * inverse
    gain_0, gain_1 = L_00 * slope_0, L_10 * slope_0 + L_11 * slope_1
    pull_0 = L_20 * inverse_1
    m_10, m_20, m_21 = pull_0 * v_1, pull_0 * v_2, L_21 / t_2 * v_2  # entries of -M
    QM_10, QM_20 = Q_10 - m_10 * Q_11 - m_20 * Q_21, Q_20 - m_10 * Q_21 - m_20 * Q_22
    Q_00 = Q_00 - m_10 * (Q_10 + QM_10) - m_20 * (Q_20 + QM_20)
    Q_10 = QM_10 - m_21 * QM_20
    Q_11 = Q_11 - m_21 * (2.0 * Q_21 - m_21 * Q_22)
    L_10 = L_10 - m_10 * L_11
    D_0, D_1 = D_0 * t_1 * inverse, D_1 * t_2 * inverse_1
    after = _prepare_two(psi, a_psi, L_00, L_10, L_11, Q_00, Q_10, Q_11, D_0, D_1)
    step = (slope_0, slope_1, slope_2), (u_0, u_1, u_2), (m_10, m_20, m_21), (gain_0, gain_1), (curve, curve * variance)
    return without, step, after


def values_of_last_three(prepared, value, pair_0, pair_1, pair_2):
    """Feature 2 is skipped or joins; `_two` does the rest."""
    without, step, after = prepared
    (slope_0, slope_1, slope_2), (u_0, u_1, u_2), (m_10, m_20, m_21), (gain_0, gain_1), (curve, constant) = step
    (delta_0, s_0), (delta_1, s_1), (delta_2, s_2) = pair_0, pair_1, pair_2
    without_2 = _two(without, delta_0, delta_1, s_0, s_1)
    slope = slope_0 * s_0 + slope_1 * s_1 + slope_2 * s_2
    value_2 = value + delta_2 * (2.0 * slope + curve * delta_2) - constant
    s_0, s_1, s_2 = s_0 + u_0 * delta_2, s_1 + u_1 * delta_2, s_2 + u_2 * delta_2
    s_0, s_1 = s_0 - m_10 * s_1 - m_20 * s_2, s_1 - m_21 * s_2
    after_2 = _two(after, delta_0 - gain_0 * delta_2, delta_1 - gain_1 * delta_2, s_0, s_1)
    return seven_values(value, without_2, value_2, after_2)


_CALLS = (_update_diagonal, _update_factors, _update_rows, _prepare_two, _two)
FACTORED = Steps(tree_kernel(join, prepare_last_three, values_of_last_three, *_CALLS, worth=3e9), n_own=1, n_scratch=5)
