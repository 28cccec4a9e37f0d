"""How a feature joins by Gaussian elimination, as compiled steps for `culpa._kernels.tree_kernel`.

`culpa.games.elimination` derives the step. Here a row is treated as one more feature that never joins: its pairs are
V_ir = delta_i and K_ir = -c_i, and K_rr is the value of the coalition. Then delta, c and the value change by the same
formula as V and K, apart from the trace term. When feature j joins, with

    gain_e = V_je / V_jj,   kappa = K_jj / V_jj,   shift_e = K_je - kappa V_je

for every row and feature e that is left,

    V_ie <- V_ie - gain_i V_je
    K_ie <- K_ie - gain_i K_je - shift_i gain_e
    value <- value - gain_r (K_jr + shift_r) - kappa

| symbol | code | meaning |
| --- | --- | --- |
| V | ``V_ie`` | covariance of the waiting features i and e, given the coalition |
| K | ``K_ie`` | (V A V)_ie, A the score's matrix |
| delta_i | ``delta_0`` | x_i minus its mean given the coalition; stored as V_ir |
| -c_i | ``k_0`` | minus (V A m)_i, m the mean given the coalition; stored as K_ir |
| 1 / V_jj | ``inverse`` | 0 in lanes where j does not join |
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._core.types import Floats
from culpa._kernels.layout import feature_at, feature_pair_at, load_pair, value_at
from culpa._kernels.tree import Steps, TreeModel
from culpa._kernels.tree_kernel import pairs_of_last_three, seven_values, tree_kernel
from culpa._kernels.vectors import load, store, width_of


def elimination_model(covariance: Floats, sandwich: Floats, rows: Floats, value: float) -> TreeModel:
    """Model of a game with covariance C and sandwich C A C, both (k, k), features in the order in which they decide."""
    pairs = np.stack([covariance[::-1, ::-1], sandwich[::-1, ::-1]])
    return TreeModel(np.empty(0), pairs, np.empty((len(covariance), 0)), rows[:, ::-1], value)


def join(state, scratch, constants, source, target, j, layout, mask, like):
    """Feature j joins. Scratch keeps gain and shift of each row and feature; rows count before features in ``e``."""
    width, n_rows = width_of(like), layout.n_rows
    own = source + feature_at(layout, j) * width
    V_jj, K_jj = load_pair(state, source + feature_pair_at(layout, j, j) * width, like)
    inverse = mask / V_jj
    kappa = K_jj * inverse
    for e in range(n_rows + j):
        V_je, K_je = load_pair(state, own + 2 * e * width, like)
        gain, shift = V_je * inverse, K_je - kappa * V_je
        store(scratch, 2 * e * width, gain)
        store(scratch, (2 * e + 1) * width, shift)
        if e < n_rows:
            value = load(state, source + value_at(e) * width, like)
            store(state, target + value_at(e) * width, value - gain * (K_je + shift) - kappa)
    for i in range(j):
        gain_i, shift_i = load_pair(scratch, 2 * (n_rows + i) * width, like)
        block = feature_at(layout, i) * width
        for e in range(n_rows + i + 1):
            at = block + 2 * e * width
            V_ie, K_ie = load_pair(state, source + at, like)
            V_je, K_je = load_pair(state, own + 2 * e * width, like)
            store(state, target + at, V_ie - gain_i * V_je)
            store(state, target + at + width, K_ie - gain_i * K_je - shift_i * load(scratch, 2 * e * width, like))


def _one(delta, k, V, K):
    """Change of value when the only feature left joins."""
    g = delta / V
    return g * (K * g - 2.0 * k) - K / V


def _two(pair_0, pair_1, V_00, V_10, V_11, K_00, K_10, K_11):
    """Changes of value when 0 joins, when 1 joins, and when both do."""
    (delta_0, k_0), (delta_1, k_1) = pair_0, pair_1
    inverse = 1.0 / V_11
    kappa = K_11 * inverse
    gain_r, gain_0 = delta_1 * inverse, V_10 * inverse
    shift_r, shift_0 = k_1 - kappa * delta_1, K_10 - kappa * V_10
    only_1 = 0.0 - gain_r * (k_1 + shift_r) - kappa
    then_0 = _one(
        delta_0 - gain_0 * delta_1,
        k_0 - gain_0 * k_1 - shift_0 * gain_r,
        V_00 - gain_0 * V_10,
        K_00 - gain_0 * K_10 - shift_0 * gain_0,
    )
    return _one(delta_0, k_0, V_00, K_00), only_1, only_1 + then_0


def prepare_last_three(state, constants, source, layout, like):
    """V and K of the last three features."""
    return pairs_of_last_three(state, source, layout, like)


def values_of_last_three(prepared, value, pair_0, pair_1, pair_2):
    """Feature 2 is skipped or joins; `_two` does the rest."""
    (V_00, V_10, V_11, V_20, V_21, V_22), (K_00, K_10, K_11, K_20, K_21, K_22) = prepared
    (delta_0, k_0), (delta_1, k_1), (delta_2, k_2) = pair_0, pair_1, pair_2
    without_2 = _two(pair_0, pair_1, V_00, V_10, V_11, K_00, K_10, K_11)
    inverse = 1.0 / V_22
    kappa = K_22 * inverse
    gain_r, gain_0, gain_1 = delta_2 * inverse, V_20 * inverse, V_21 * inverse
    shift_r, shift_0, shift_1 = k_2 - kappa * delta_2, K_20 - kappa * V_20, K_21 - kappa * V_21
    pair_0 = delta_0 - gain_0 * delta_2, k_0 - gain_0 * k_2 - shift_0 * gain_r
    pair_1 = delta_1 - gain_1 * delta_2, k_1 - gain_1 * k_2 - shift_1 * gain_r
    V_00, V_10, V_11 = V_00 - gain_0 * V_20, V_10 - gain_1 * V_20, V_11 - gain_1 * V_21
    K_00 = K_00 - gain_0 * K_20 - shift_0 * gain_0
    K_10 = K_10 - gain_1 * K_20 - shift_1 * gain_0
    K_11 = K_11 - gain_1 * K_21 - shift_1 * gain_1
    after_2 = _two(pair_0, pair_1, V_00, V_10, V_11, K_00, K_10, K_11)
    value_2 = value - gain_r * (k_2 + shift_r) - kappa
    return seven_values(value, without_2, value_2, after_2)


ELIMINATION = Steps(
    tree_kernel(join, prepare_last_three, values_of_last_three, _one, _two, worth=5e8), n_own=0, n_scratch=2
)
