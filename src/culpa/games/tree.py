"""Walking the tree of all coalitions by elimination, compiled, in a few kilobytes.

The step is that of `culpa.games.elimination`, with a few rows as features that never join: row r has the entries
V_ar = delta_a, K_ar = -c_a and K_rr = value. Then moving delta, c and the value along is the elimination of V and K itself,
but for the trace: when feature j joins, with v = V_j / V_jj, kappa = K_jj / V_jj and w = K_j - kappa V_j,

    V_ae <- V_ae - v_a V_je
    K_ae <- K_ae - v_a K_je - w_a v_e,   and K_rr <- K_rr - v_r (K_jr + w_r) - kappa.

Rows have the numbers 0 to R - 1. Features follow, from the one that decides last, so that what still waits is the leading
part of both triangles, whatever has been decided. A state is K_rr of every row, then V and K of the pairs (a, 0) to (a, a)
for a = R, R + 1, ...: those of feature a begin at a (a + 1) - R^2. Each entry is as wide as there are lanes.

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
_ROWS = 8  # that share what does not depend on the row, at most
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
        if len(sizes) < FEWEST_PLAYERS:
            raise ValueError(f"a tree needs {FEWEST_PLAYERS} players, got {len(sizes)}.")
        self._rows = rows[:, ::-1]
        self._n_blocks = -(-len(rows) // _ROWS)
        self._R = -(-len(rows) // max(1, self._n_blocks))
        self._model = _starting_state(V, K, value, self._R)
        self._weights = inside, outside
        waiting = np.append(0, np.cumsum(sizes[::-1]))[::-1].astype(np.int64)  # before each player decides
        n_last = _LAST if waiting[-1 - _LAST] == _LAST else 0
        n_below = min(_DEEP + _LAST, len(sizes) - _SIDE_BY_SIDE)
        n_again = min(_AGAIN, len(sizes) - _SIDE_BY_SIDE - n_below)
        self._n_afresh = len(sizes) - _SIDE_BY_SIDE - n_below - n_again
        side_by_side = waiting[self._n_afresh + n_again]
        # states of kinds 1, 2 and 3, and of every depth of kind 4, which is smaller by the feature that has joined
        states = [self._length(waiting[0]), self._length(waiting[self._n_afresh]), LANES * self._length(side_by_side)]
        states += [LANES * self._length(w - 1) for w in waiting[-1 - n_below : len(sizes) - n_last]]
        scratch = 2 * max(waiting[0] + self._R, LANES * (side_by_side + self._R))
        weights = LANES * 2 * (n_below + 1)
        ends = np.cumsum([length + -length % LANES for length in (*states, scratch, self._R * weights, weights)])
        places = np.append(0, ends[:-1]).astype(np.int64)
        self._plan = waiting, self._n_afresh, n_again, n_last, places
        self._n_work = int(ends[-1])

    @property
    def n_pieces(self) -> int:
        """In how many pieces the work comes, those of some rows after those of others."""
        return self._n_blocks << self._n_afresh

    def walk(self, first: int, last: int) -> tuple[slice, Floats]:
        """Pieces ``first`` to ``last`` (exclusive): the rows they belong to, and their part of the Shapley values."""
        work = np.empty(self._n_work + LANES)
        work = work[-(work.ctypes.data // work.itemsize) % LANES :]  # vectors that straddle cache lines are slow
        blocks = slice(first >> self._n_afresh, (last - 1 >> self._n_afresh) + 1)
        here = slice(blocks.start * self._R, min(blocks.stop * self._R, len(self._rows)))
        rows = np.zeros(((blocks.stop - blocks.start) * self._R, self._rows.shape[1]))  # those to spare are all 0
        rows[: here.stop - here.start] = self._rows[here]
        sums = np.zeros((len(rows), len(self._plan[0])))
        start = blocks.start << self._n_afresh
        tree_kernel(self._model, rows, self._R, *self._weights, *self._plan, work, first - start, last - start, sums)
        return here, (sums[:, :-1] - sums[:, -1:])[: here.stop - here.start]

    def _length(self, n_waiting: int) -> int:
        """Of a state in one lane."""
        R, a = self._R, self._R + int(n_waiting)
        return a * (a + 1) - R**2


def _starting_state(V: Floats, K: Floats, value: float, R: int) -> Floats:
    """Nobody has joined, and the rows are not there yet."""
    bordered = np.zeros((2, R + len(V), R + len(V)))
    bordered[:, R:, R:] = V[::-1, ::-1], K[::-1, ::-1]
    pairs = bordered[:, *np.tril_indices(R + len(V))].T[R * (R + 1) // 2 :]
    return np.append(np.full(R, value), pairs)


def _join(S, T, source, target, j, R, mask, like):
    """Feature j joins where ``mask`` is 1; what follows is written to ``target``, which may be the same as ``source``.

    T keeps v and w of each row and feature.
    """
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


def _last_three(S, sums, weights, source, R, n_sums, depth, like):
    """The last three players join in every way, for all rows: adds to their sums and to that of this depth."""
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
    t = 2 * (depth + 1) * W
    in1, out1 = load(weights, t, like), load(weights, t + W, like)
    in2, out2 = load(weights, t + 2 * W, like), load(weights, t + 3 * W, like)
    in3, out3 = load(weights, t + 4 * W, like), load(weights, t + 5 * W, like)
    for r in range(R):
        one = source + (R + 2 * r) * W
        two = one + (2 * R + 2) * W
        three = two + (2 * R + 4) * W
        V10, K10 = load(S, one, like), load(S, one + W, like)
        V20, K20 = load(S, two, like), load(S, two + W, like)
        V30, K30 = load(S, three, like), load(S, three + W, like)
        value = load(S, source + r * W, like)
        q1, q2, q3, q12, q13, q23, q123 = _three(
            value, V10, V20, V30, K10, K20, K30, V11, V21, V22, V31, V32, V33, K11, K21, K22, K31, K32, K33
        )
        s = r * n_sums
        store(sums, s, load(sums, s, like) + out1 * (q1 + q2 + q3) + out2 * (q12 + q13 + q23) + out3 * q123)
        q1, q2, q3, q12, q13, q23, q123 = in1 * q1, in1 * q2, in1 * q3, in2 * q12, in2 * q13, in2 * q23, in3 * q123
        store(sums, s + W, load(sums, s + W, like) + q1 + q12 + q13 + q123)
        store(sums, s + 2 * W, load(sums, s + 2 * W, like) + q2 + q12 + q23 + q123)
        store(sums, s + 3 * W, load(sums, s + 3 * W, like) + q3 + q13 + q23 + q123)
        here = s + n_sums // 2 + depth * W
        store(sums, here, load(sums, here, like) + q1 + q2 + q3 + q12 + q13 + q23 + q123)


@kernel(worth=5e8, calls=(_join, _one, _two, _three, _last_three))
def tree_kernel(model, rows, R, inside, outside, waiting, n_afresh, n_again, n_last, places, work, first, last, out):
    """The walk described above, of pieces ``first`` to ``last``: 2^n_afresh of them for each R rows.

    Adds to ``out`` (rows, players + 1): inside-weighted values of the coalitions with each player, and last the
    outside-weighted values of all. While lanes walk, each row has sums in this order: outside-weighted values of all
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
    n_sums = 2 * everybody
    for piece in range(first, last):
        block = (piece >> n_afresh) * R
        S[: model.size] = model
        for a in range(R, R + waiting[0]):
            for r in range(R):
                S[a * (a + 1) - R * R + 2 * r] = rows[block + r, a - R]
        members = 0
        for i in range(n_afresh):
            if piece >> i & 1:
                members += 1
                for j in range(R + waiting[i] - 1, R + waiting[i + 1] - 1, -1):
                    _join(S, T, afresh, afresh, j, R, 1.0, 0.0)
        for choice in range(1 << n_again):
            a = R + waiting[n_afresh]
            length = a * (a + 1) - R * R
            S[again : again + length] = S[afresh : afresh + length]
            n_in[:] = members
            for i in range(n_again):
                if choice >> i & 1:
                    n_in += 1
                    for j in range(R + waiting[n_afresh + i] - 1, R + waiting[n_afresh + i + 1] - 1, -1):
                        _join(S, T, again, again, j, R, 1.0, 0.0)
            a = R + waiting[before]
            for cell in range(a * (a + 1) - R * R):
                store(S, lanes + cell * LANES, zero + S[again + cell])
            for i in range(_SIDE_BY_SIDE):
                for b in range(LANES):
                    n_in[b] += b >> i & 1
                    weights[b] = b >> i & 1
                mask = load(weights, 0, zero)
                for j in range(R + waiting[before + i] - 1, R + waiting[before + i + 1] - 1, -1):
                    _join(S, T, lanes, lanes, j, R, mask, zero)
            for t in range(n_below + 1):
                for b in range(LANES):
                    weights[2 * t * LANES + b] = inside[n_in[b] + t]
                    weights[(2 * t + 1) * LANES + b] = outside[n_in[b] + t]
            sums[: R * n_sums] = 0.0
            for r in range(R):
                value = load(S, lanes + r * LANES, zero)
                store(sums, r * n_sums, load(weights, LANES, zero) * value)
                store(sums, r * n_sums + everybody, load(weights, 0, zero) * value)
            depth = 0
            turn[0] = below
            while True:
                i = turn[depth]
                here = everybody + depth * LANES
                if i == end:
                    if n_last:
                        _last_three(S, sums, weights, places[2 + depth], R, n_sums, depth, zero)
                    if depth == 0:
                        break
                    for s in range(0, R * n_sums, n_sums):
                        total, own, up = load(sums, s + here, zero), s + joined[depth], s + here - LANES
                        store(sums, own, load(sums, own, zero) + total)
                        store(sums, up, load(sums, up, zero) + total)
                    depth -= 1
                    continue
                source, target = places[2 + depth], places[3 + depth]
                for j in range(R + waiting[i] - 1, R + waiting[i + 1] - 1, -1):
                    _join(S, T, source, target, j, R, 1.0, zero)
                    source = target
                turn[depth] = i + 1
                depth += 1
                turn[depth] = i + 1
                joined[depth] = (n_players - i) * LANES
                win, wout = load(weights, 2 * depth * LANES, zero), load(weights, (2 * depth + 1) * LANES, zero)
                for r in range(R):
                    value, s = load(S, target + r * LANES, zero), r * n_sums
                    store(sums, s + here + LANES, win * value)
                    store(sums, s, load(sums, s, zero) + wout * value)
            for r in range(R):
                row = out[block + r]
                for b in range(LANES):
                    s = r * n_sums + b
                    total = sums[s + everybody]
                    row[n_players] += sums[s]
                    for i in range(n_afresh):
                        row[i] += (piece >> i & 1) * total
                    for i in range(n_again):
                        row[n_afresh + i] += (choice >> i & 1) * total
                    for i in range(_SIDE_BY_SIDE):
                        row[before + i] += (b >> i & 1) * total
                    for i in range(below, n_players):
                        row[i] += sums[s + (n_players - i) * LANES]
