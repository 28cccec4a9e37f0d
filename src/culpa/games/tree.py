"""Walking the tree of all coalitions by elimination, compiled, in a few kilobytes.

The step is that of `culpa.games.elimination`, with the row as one more feature that never joins: give it number 0 and the
entries V_a0 = delta_a, K_a0 = -c_a and K_00 = value. Then moving delta, c and the value along is the elimination of V and
K itself, but for the trace: when feature j joins, with v = V_j / V_jj, kappa = K_jj / V_jj and w = K_j - kappa V_j,

    V_ae <- V_ae - v_a V_je
    K_ae <- K_ae - v_a K_je - w_a v_e,   and K_00 <- K_00 - kappa.

Features are numbered from the one that decides last, so what still waits is the leading part of both triangles, whatever
has been decided. Pair a, e has cell a (a + 1) / 2 + e: V in all lanes, then K in all lanes.

To keep a state for every player on the way would be most of the memory. So players decide in five ways, in this order:

1. some: a number counts through their choices, and the state is worked out afresh for each;
2. four: the same, starting from the state of 1, so that little is worked out again;
3. two: their four choices are the lanes, which take the same decisions from here on and so move in step;
4. six, depth first, with one state per player on the way;
5. the last three: their seven coalitions at once, in the processor's registers.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np

from culpa._compiled import kernel
from culpa._vectors import LANES, lanes_of_zero, load, store, width
from culpa.games.base import Floats

# Players of kinds 2, 3, 4 and 5 above.
_AGAIN, _SIDE_BY_SIDE, _DEEP, _LAST = 4, LANES.bit_length() - 1, 6, 3
FEWEST_PLAYERS = _SIDE_BY_SIDE + _LAST


class Tree:
    """The tree of all coalitions, ready to be walked piece by piece.

    Takes covariance and sandwich (k, k), rows (n, k) and value of the empty coalition, features in the order of the
    queue; weights of a coalition's value for a member and for an outsider, by the number of players in it; and how many
    features each player has. Fastest when the largest players come first.
    """

    def __init__(
        self, V: Floats, K: Floats, rows: Floats, value: float, inside: Floats, outside: Floats, sizes: list[int]
    ) -> None:
        self._model = _starting_state(V, K, value)
        self._rows = rows[:, ::-1]
        self._weights = inside, outside
        waiting = np.append(0, np.cumsum(sizes[::-1]))[::-1].astype(np.int64)  # before each player decides
        n_last = _LAST if waiting[-1 - _LAST] == _LAST else 0
        n_below = min(_DEEP + _LAST, len(sizes) - _SIDE_BY_SIDE)
        n_again = min(_AGAIN, len(sizes) - _SIDE_BY_SIDE - n_below)
        self._n_afresh = len(sizes) - _SIDE_BY_SIDE - n_below - n_again
        side_by_side = waiting[self._n_afresh + n_again]
        states = [_length(waiting[0]), _length(waiting[self._n_afresh]), LANES * _length(side_by_side)]
        states += [LANES * _length(w - 1) for w in waiting[-1 - n_below : len(sizes) - n_last]]
        scratch = 2 * max(waiting[0], LANES * side_by_side)
        sums = weights = LANES * 2 * (n_below + 1)
        ends = np.cumsum([length + -length % LANES for length in (*states, scratch, sums, weights)])
        places = np.append(0, ends[:-1]).astype(np.int64)
        self._plan = waiting, self._n_afresh, n_again, n_last, places
        self._n_work = int(ends[-1])

    @property
    def n_pieces(self) -> int:
        """In how many pieces the work comes, those of one row after those of the other."""
        return len(self._rows) << self._n_afresh

    def walk(self, first: int, last: int) -> tuple[slice, Floats]:
        """Pieces ``first`` to ``last`` (exclusive): the rows they belong to, and their part of the Shapley values."""
        work = np.empty(self._n_work + LANES)
        work = work[-(work.ctypes.data // work.itemsize) % LANES :]  # vectors that straddle cache lines are slow
        here = slice(first >> self._n_afresh, (last - 1 >> self._n_afresh) + 1)
        rows, start = np.ascontiguousarray(self._rows[here]), here.start << self._n_afresh
        sums = np.zeros((len(rows), len(self._plan[0])))
        tree_kernel(self._model, rows, *self._weights, *self._plan, work, first - start, last - start, sums)
        return here, sums[:, :-1] - sums[:, -1:]


def _starting_state(V: Floats, K: Floats, value: float) -> Floats:
    """Nobody has joined, and the row is not there yet."""
    bordered = np.zeros((2, len(V) + 1, len(V) + 1))
    bordered[:, 1:, 1:] = V[::-1, ::-1], K[::-1, ::-1]
    bordered[1, 0, 0] = value
    return np.ascontiguousarray(bordered[:, *np.tril_indices(len(V) + 1)].T).reshape(-1)


def _length(n_waiting: int) -> int:
    """Of a state in one lane."""
    return int((n_waiting + 1) * (n_waiting + 2))


def _join(S, T, source, target, j, mask, like):
    """Feature j joins where ``mask`` is 1; what follows is written to ``target``, which may be the same as ``source``.

    T keeps v and w of each feature.
    """
    W = width(like)
    own = source + j * (j + 1) * W
    last = own + 2 * j * W
    inverse = mask / load(S, last, like)
    kappa = load(S, last + W, like) * inverse
    for e in range(j):
        V = load(S, own + 2 * e * W, like)
        store(T, 2 * e * W, V * inverse)
        store(T, (2 * e + 1) * W, load(S, own + (2 * e + 1) * W, like) * mask - kappa * V)
    for a in range(j):
        v, w = load(T, 2 * a * W, like), load(T, (2 * a + 1) * W, like)
        cell = a * (a + 1) * W
        for e in range(a + 1):
            there = own + 2 * e * W
            V = load(S, source + cell, like) - v * load(S, there, like)
            K = load(S, source + cell + W, like) - v * load(S, there + W, like) - w * load(T, 2 * e * W, like)
            store(S, target + cell, V)
            store(S, target + cell + W, K)
            cell += 2 * W
    store(S, target + W, load(S, target + W, like) - kappa)


def _one(V10, V11, K10, K11):
    """Change of value when 1 joins."""
    g = V10 / V11
    return g * (K11 * g - 2 * K10) - K11 / V11


def _two(V10, V11, V20, V21, V22, K10, K11, K20, K21, K22):
    """Changes of value when 1 joins, when 2 does, and when both do."""
    inverse = 1 / V22
    kappa = K22 * inverse
    v0, v1 = V20 * inverse, V21 * inverse
    w0, w1 = K20 - kappa * V20, K21 - kappa * V21
    only2 = 0.0 - v0 * (K20 + w0) - kappa
    then1 = _one(V10 - v1 * V20, V11 - v1 * V21, K10 - v1 * K20 - w1 * v0, K11 - v1 * K21 - w1 * v1)
    return _one(V10, V11, K10, K11), only2, only2 + then1


def _three(S, source, like):
    """Values when 1, 2, 3, 1 and 2, 1 and 3, 2 and 3, all three join."""
    W = width(like)
    value = load(S, source + W, like)
    V10, K10 = load(S, source + 2 * W, like), load(S, source + 3 * W, like)
    V11, K11 = load(S, source + 4 * W, like), load(S, source + 5 * W, like)
    V20, K20 = load(S, source + 6 * W, like), load(S, source + 7 * W, like)
    V21, K21 = load(S, source + 8 * W, like), load(S, source + 9 * W, like)
    V22, K22 = load(S, source + 10 * W, like), load(S, source + 11 * W, like)
    V30, K30 = load(S, source + 12 * W, like), load(S, source + 13 * W, like)
    V31, K31 = load(S, source + 14 * W, like), load(S, source + 15 * W, like)
    V32, K32 = load(S, source + 16 * W, like), load(S, source + 17 * W, like)
    V33, K33 = load(S, source + 18 * W, like), load(S, source + 19 * W, like)
    q1, q2, q12 = _two(V10, V11, V20, V21, V22, K10, K11, K20, K21, K22)
    inverse = 1 / V33
    kappa = K33 * inverse
    v0, v1, v2 = V30 * inverse, V31 * inverse, V32 * inverse
    w0, w1, w2 = K30 - kappa * V30, K31 - kappa * V31, K32 - kappa * V32
    V10, V11, K10, K11 = V10 - v1 * V30, V11 - v1 * V31, K10 - v1 * K30 - w1 * v0, K11 - v1 * K31 - w1 * v1
    V20, V21, V22 = V20 - v2 * V30, V21 - v2 * V31, V22 - v2 * V32
    K20, K21, K22 = K20 - v2 * K30 - w2 * v0, K21 - v2 * K31 - w2 * v1, K22 - v2 * K32 - w2 * v2
    q13, q23, q123 = _two(V10, V11, V20, V21, V22, K10, K11, K20, K21, K22)
    q3 = value - v0 * (K30 + w0) - kappa
    return q1 + value, q2 + value, q3, q12 + value, q13 + q3, q23 + q3, q123 + q3


@kernel(worth=1.5e9, calls=(_join, _one, _two, _three))
def tree_kernel(model, rows, inside, outside, waiting, n_afresh, n_again, n_last, places, work, first, last, out):
    """The walk described above, of pieces ``first`` to ``last``: piece u is choice u mod 2^n_afresh for row u >> n_afresh.

    Adds to ``out`` (rows, players + 1): inside-weighted values of the coalitions with each player, and last the
    outside-weighted values of all. While lanes walk, sums are kept in this order: outside-weighted values of all
    coalitions; inside-weighted ones of those with each player, later players first; and of those that extend the
    coalition at each depth.
    """
    n_players = waiting.shape[0] - 1
    before = n_afresh + n_again
    below = before + _SIDE_BY_SIDE  # the first player who decides depth first
    n_below = n_players - below
    end = n_players - n_last
    afresh, again, lanes = places[0], places[1], places[2]
    S, T, sums, weights = work, work[places[-3] :], work[places[-2] :], work[places[-1] :]
    zero = lanes_of_zero()
    n_in = np.zeros(LANES, np.int64)
    turn, joined = np.zeros(n_below + 1, np.int64), np.zeros(n_below + 1, np.int64)
    everybody = (n_below + 1) * LANES
    for piece in range(first, last):
        row = piece >> n_afresh
        S[: model.size] = model
        for a in range(1, waiting[0] + 1):
            S[a * (a + 1)] = rows[row, a - 1]
        members = 0
        for i in range(n_afresh):
            if piece >> i & 1:
                members += 1
                for j in range(waiting[i], waiting[i + 1], -1):
                    _join(S, T, afresh, afresh, j, 1.0, 0.0)
        for choice in range(1 << n_again):
            length = (waiting[n_afresh] + 1) * (waiting[n_afresh] + 2)
            S[again : again + length] = S[afresh : afresh + length]
            n_in[:] = members
            for i in range(n_again):
                if choice >> i & 1:
                    n_in += 1
                    for j in range(waiting[n_afresh + i], waiting[n_afresh + i + 1], -1):
                        _join(S, T, again, again, j, 1.0, 0.0)
            for cell in range((waiting[before] + 1) * (waiting[before] + 2)):
                store(S, lanes + cell * LANES, zero + S[again + cell])
            for i in range(_SIDE_BY_SIDE):
                for b in range(LANES):
                    n_in[b] += b >> i & 1
                    weights[b] = b >> i & 1
                mask = load(weights, 0, zero)
                for j in range(waiting[before + i], waiting[before + i + 1], -1):
                    _join(S, T, lanes, lanes, j, mask, zero)
            for t in range(n_below + 1):
                for b in range(LANES):
                    weights[2 * t * LANES + b] = inside[n_in[b] + t]
                    weights[(2 * t + 1) * LANES + b] = outside[n_in[b] + t]
            sums[:everybody] = 0.0
            value = load(S, lanes + LANES, zero)
            store(sums, everybody, load(weights, 0, zero) * value)
            store(sums, 0, load(weights, LANES, zero) * value)
            depth = 0
            turn[0] = below
            while True:
                here = everybody + depth * LANES
                i = turn[depth]
                if i == end:
                    total = load(sums, here, zero)
                    if n_last:
                        q1, q2, q3, q12, q13, q23, q123 = _three(S, places[2 + depth], zero)
                        t = 2 * (depth + 1) * LANES
                        by_nobody = load(weights, t + LANES, zero) * (q1 + q2 + q3)
                        by_nobody = by_nobody + load(weights, t + 3 * LANES, zero) * (q12 + q13 + q23)
                        by_nobody = by_nobody + load(weights, t + 5 * LANES, zero) * q123
                        store(sums, 0, load(sums, 0, zero) + by_nobody)
                        weight = load(weights, t, zero)
                        q1, q2, q3 = weight * q1, weight * q2, weight * q3
                        weight = load(weights, t + 2 * LANES, zero)
                        q12, q13, q23 = weight * q12, weight * q13, weight * q23
                        q123 = q123 * load(weights, t + 4 * LANES, zero)
                        store(sums, LANES, load(sums, LANES, zero) + q1 + q12 + q13 + q123)
                        store(sums, 2 * LANES, load(sums, 2 * LANES, zero) + q2 + q12 + q23 + q123)
                        store(sums, 3 * LANES, load(sums, 3 * LANES, zero) + q3 + q13 + q23 + q123)
                        total = total + q1 + q2 + q3 + q12 + q13 + q23 + q123
                    if depth == 0:
                        break
                    own, up = joined[depth], here - LANES
                    store(sums, own, load(sums, own, zero) + total)
                    store(sums, up, load(sums, up, zero) + total)
                    depth -= 1
                    continue
                source, target = places[2 + depth], places[3 + depth]
                for j in range(waiting[i], waiting[i + 1], -1):
                    _join(S, T, source, target, j, 1.0, zero)
                    source = target
                turn[depth] = i + 1
                depth += 1
                turn[depth] = i + 1
                joined[depth] = (n_players - i) * LANES
                value = load(S, target + LANES, zero)
                store(sums, here + LANES, load(weights, 2 * depth * LANES, zero) * value)
                by_nobody = load(weights, (2 * depth + 1) * LANES, zero) * value
                store(sums, 0, load(sums, 0, zero) + by_nobody)
            store(sums, everybody, total)
            for b in range(LANES):
                out[row, n_players] += sums[b]
                for i in range(n_afresh):
                    out[row, i] += (piece >> i & 1) * sums[everybody + b]
                for i in range(n_again):
                    out[row, n_afresh + i] += (choice >> i & 1) * sums[everybody + b]
                for i in range(_SIDE_BY_SIDE):
                    out[row, before + i] += (b >> i & 1) * sums[everybody + b]
                for i in range(below, n_players):
                    out[row, i] += sums[(n_players - i) * LANES + b]
