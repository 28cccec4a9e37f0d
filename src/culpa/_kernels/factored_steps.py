"""Compiled steps of `culpa.games.latent` for features that are alike, for `culpa._kernels.tree`.

The features still waiting see of the latent variables only W z. So turn the p latent variables until W, with its features
in reverse order, is a lower triangle L: then the first a features see the first a of them. Their covariance given the
coalition stays diagonal, D, if L moves along instead; besides L and D nothing but Q = R^T diag(b) R is needed, where R
tells the latent variables from the turned ones, and s = R^T diag(b) z of every row. When feature j joins, with
f = L_j, v = D f and t_e = psi + v_e f_e + ... + v_j f_j, the last being psi:

    V = t_0,  u = Q v / V,  slope = 2 v^T s / V,  curvature = v^T u / V + a psi / V
    change of value = delta_j slope + curvature (delta_j^2 - V)
    delta <- delta - L v delta_j / V,  s <- M^T (s + u delta_j)
    L <- L M,  Q <- M^T Q M,  D_e <- D_e t_(e+1) / t_e

with M_ee = 1 and M_ie = -v_i f_e / t_(e+1) for i > e. Nothing is lost by subtraction from V, however small the noise psi,
and a step costs as much as waits, whatever p.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._core.types import Floats
from culpa._kernels.tree import Steps, Tree, add_three, tree_kernel, weights_of_three
from culpa._kernels.vectors import load, store, width


def factored_tree(
    W: Floats,
    psi: float,
    a: float,
    b: Floats,
    rows: Floats,
    value: float,
    weights: tuple[Floats, Floats],
    sizes: list[int],
) -> Tree:
    """The tree of a game with loadings (k, p), features in the order of the queue."""
    k = len(W)
    strongest_first = np.argsort(-(W**2).sum(axis=0), kind="stable")  # else they would drown the digits of weak ones
    W, b = W[:, strongest_first], b[strongest_first]
    turn, triangle = np.linalg.qr(W[::-1].T)
    p = len(triangle)
    pairs, D = np.zeros((2, k, k)), np.ones((k, 1))
    pairs[0, :, :p], pairs[1, :p, :p] = triangle.T, turn.T @ (b[:, None] * turn)
    return Tree(FACTORED, np.array([psi, a * psi]), pairs, D, rows[:, ::-1], value, weights, sizes)


def _pairs_of(i, R):
    """Where the pairs of feature i with features begin in a state; those with rows come before, D_i after."""
    return R + i * (2 * R + i + 2) + 2 * R


def _join(S, T, constants, source, target, j, R, mask, like):
    """Feature j joins."""
    W, zero = width(like), like * 0.0
    psi, apsi = constants[0], constants[1]
    v, c, down, across = 0, (j + 1) * W, 2 * (j + 1) * W, 3 * (j + 1) * W  # places in T
    u = 4 * (j + 1) * W
    own = source + _pairs_of(j, R) * W
    V = zero + psi
    inverse = 1.0 / V
    for e in range(j, -1, -1):
        there = (_pairs_of(e, R) + 2 * (e + 1)) * W
        f, D = mask * load(S, own + 2 * e * W, like), load(S, source + there, like)
        ve = D * f
        store(T, v + e * W, ve)
        store(T, c + e * W, f * inverse)
        store(T, down + e * W, zero)
        store(T, across + e * W, zero)
        before = V
        V = V + ve * f
        inverse = 1.0 / V
        if e < j:
            store(S, target + there, D * before * inverse)
    # With h_ie = sum of Q_ik v_k over k > e, which is Qv on the way to the left: Q moves by c_e h_ie, and by c_i times what
    # is below of column e, h_ei less c_e times the sum of v_k h_ke over k > i.
    curvature = zero + mask * apsi
    for i in range(j, -1, -1):
        cell = _pairs_of(i, R) * W
        vi, ci = load(T, v + i * W, like), load(T, c + i * W, like)
        Qv, Lv = load(T, down + i * W, like), zero
        for e in range(i, -1, -1):
            at = cell + 2 * e * W
            L, Q = load(S, source + at, like), load(S, source + at + W, like)
            ve, ce = load(T, v + e * W, like), load(T, c + e * W, like)
            below, beyond = load(T, down + e * W, like), load(T, across + e * W, like)
            if i < j:
                store(S, target + at, L - ce * Lv)
                store(S, target + at + W, Q - ce * Qv - ci * (below - ce * beyond))
            store(T, down + e * W, below + vi * Q)
            store(T, across + e * W, beyond + vi * Qv)
            Qv = Qv + Q * ve
            Lv = Lv + L * ve
        Qv = Qv * inverse
        store(T, u + i * W, Qv)
        curvature = curvature + vi * Qv
        if i < j:
            pull = Lv * inverse
            for r in range(R):
                at = cell + 2 * (r - R) * W
                store(S, target + at, load(S, source + at, like) - pull * load(S, own + 2 * (r - R) * W, like))
    curvature = curvature * inverse
    for r in range(R):
        delta = load(S, own + 2 * (r - R) * W, like)
        slope, rest = zero, zero
        for e in range(j, -1, -1):
            at = (_pairs_of(e, R) + 2 * (r - R) + 1) * W
            s, ve = load(S, source + at, like), load(T, v + e * W, like)
            slope = slope + ve * s
            s = s + load(T, u + e * W, like) * delta
            if e < j:
                store(S, target + at, s - load(T, c + e * W, like) * rest)
            rest = rest + ve * s
        change = delta * (2.0 * slope * inverse + curvature * delta) - curvature * V
        store(S, target + r * W, load(S, source + r * W, like) + change)


def _plan_two(psi, apsi, L00, L10, L11, Q00, Q10, Q11, D0, D1):
    """What `_two` needs to know of the model when 0 and 1 wait."""
    v = D0 * L00
    V = psi + v * L00
    inverse = 1.0 / V
    slope = v * inverse
    curve = slope * slope * Q00 + apsi * inverse
    v0, v1 = D0 * L10, D1 * L11
    t1 = psi + v1 * L11
    V1 = t1 + v0 * L10
    inverse = 1.0 / V1
    slope10, slope11 = v0 * inverse, v1 * inverse
    u0, u1 = Q00 * slope10 + Q10 * slope11, Q10 * slope10 + Q11 * slope11
    curve1 = slope10 * u0 + slope11 * u1 + apsi * inverse
    # 0 joins after 1
    m = v1 * L10 / t1
    v = D0 * t1 * inverse * L00
    V2 = psi + v * L00
    inverse = 1.0 / V2
    slope2 = v * inverse
    curve2 = slope2 * slope2 * (Q00 - m * (2.0 * Q10 - m * Q11)) + apsi * inverse
    first = 2.0 * slope, curve, curve * V
    second = 2.0 * slope10, 2.0 * slope11, curve1, curve1 * V1
    return first, second, (L00 * slope10, u0 - m * u1, m, 2.0 * slope2, curve2, curve2 * V2)


def _two(plan, delta0, delta1, s0, s1):
    """Changes of value of a row when 0 joins, when 1 does, and when both do."""
    (slope, curve, rest), (slope10, slope11, curve1, rest1), (pull, u, m, slope2, curve2, rest2) = plan
    q0 = delta0 * (slope * s0 + curve * delta0) - rest
    q1 = delta1 * (slope10 * s0 + slope11 * s1 + curve1 * delta1) - rest1
    delta0 = delta0 - pull * delta1
    s0 = s0 + u * delta1 - m * s1
    return q0, q1, q1 + delta0 * (slope2 * s0 + curve2 * delta0) - rest2


def _last_three(S, sums, weights, constants, source, R, n_sums, depth, like):
    """The last three players join in every way."""
    W = width(like)
    psi, apsi = constants[0], constants[1]
    core = source + 3 * R * W
    L00, Q00, D0 = load(S, core, like), load(S, core + W, like), load(S, core + 2 * W, like)
    core += (2 * R + 3) * W
    L10, Q10 = load(S, core, like), load(S, core + W, like)
    L11, Q11, D1 = load(S, core + 2 * W, like), load(S, core + 3 * W, like), load(S, core + 4 * W, like)
    core += (2 * R + 5) * W
    L20, Q20 = load(S, core, like), load(S, core + W, like)
    L21, Q21 = load(S, core + 2 * W, like), load(S, core + 3 * W, like)
    L22, Q22, D2 = load(S, core + 4 * W, like), load(S, core + 5 * W, like), load(S, core + 6 * W, like)
    without = _plan_two(psi, apsi, L00, L10, L11, Q00, Q10, Q11, D0, D1)
    # 2 joins
    v0, v1, v2 = D0 * L20, D1 * L21, D2 * L22
    t2 = psi + v2 * L22
    t1 = t2 + v1 * L21
    V = t1 + v0 * L20
    inverse, inverse1 = 1.0 / V, 1.0 / t1
    slope0, slope1, slope2 = v0 * inverse, v1 * inverse, v2 * inverse
    u0 = Q00 * slope0 + Q10 * slope1 + Q20 * slope2
    u1 = Q10 * slope0 + Q11 * slope1 + Q21 * slope2
    u2 = Q20 * slope0 + Q21 * slope1 + Q22 * slope2
    curve = slope0 * u0 + slope1 * u1 + slope2 * u2 + apsi * inverse
    rest = curve * V
    pull0, pull1 = L00 * slope0, L10 * slope0 + L11 * slope1
    c0 = L20 * inverse1
    m10, m20, m21 = c0 * v1, c0 * v2, L21 / t2 * v2  # of -M
    h10, h20 = Q10 - m10 * Q11 - m20 * Q21, Q20 - m10 * Q21 - m20 * Q22  # of Q M
    Q00 = Q00 - m10 * (Q10 + h10) - m20 * (Q20 + h20)
    Q10 = h10 - m21 * h20
    Q11 = Q11 - m21 * (2.0 * Q21 - m21 * Q22)
    L10 = L10 - m10 * L11
    D0, D1 = D0 * t1 * inverse, D1 * t2 * inverse1
    after = _plan_two(psi, apsi, L00, L10, L11, Q00, Q10, Q11, D0, D1)
    by_size = weights_of_three(weights, depth, like)
    for r in range(R):
        zeroth = source + (R + 2 * r) * W
        first = zeroth + (2 * R + 3) * W
        second = first + (2 * R + 5) * W
        delta0, s0 = load(S, zeroth, like), load(S, zeroth + W, like)
        delta1, s1 = load(S, first, like), load(S, first + W, like)
        delta2, s2 = load(S, second, like), load(S, second + W, like)
        value = load(S, source + r * W, like)
        q0, q1, q01 = _two(without, delta0, delta1, s0, s1)
        q2 = value + delta2 * (2.0 * (slope0 * s0 + slope1 * s1 + slope2 * s2) + curve * delta2) - rest
        s0, s1, s2 = s0 + u0 * delta2, s1 + u1 * delta2, s2 + u2 * delta2
        s0, s1 = s0 - m10 * s1 - m20 * s2, s1 - m21 * s2
        q02, q12, q012 = _two(after, delta0 - pull0 * delta2, delta1 - pull1 * delta2, s0, s1)
        values = q0 + value, q1 + value, q2, q01 + value, q02 + q2, q12 + q2, q012 + q2
        add_three(sums, r * n_sums, n_sums // 2 + depth * W, by_size, values, like)


FACTORED = Steps(tree_kernel(_join, _last_three, _pairs_of, _plan_two, _two, worth=3e9), n_own=1, n_scratch=5)
