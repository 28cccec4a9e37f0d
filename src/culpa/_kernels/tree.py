"""Walking the tree of all coalitions, compiled, in a few kilobytes.

How a feature joins is told by `Steps`; here is who decides when. A state is the value of every row; then, for each feature
that waits, from the one that decides last, delta and one more number of every row, and whatever a step needs to know
of its pairs with those before it. So what still waits is the leading part of a state, whatever has been decided. Each
number is as wide as there are lanes.

To keep a state for every player on the way would be most of the memory. So players decide in five ways, in this order:

1. some: a number counts through their choices, and the state is worked out afresh for each;
2. four: the same, starting from the state of 1, so that little is worked out again;
3. two: their four choices are the lanes, which take the same decisions from here on and so move in step;
4. six, depth first, with one state per player on the way;
5. the last three: their seven coalitions at once, in the processor's registers.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats
from culpa._kernels.kernel import Kernel
from culpa._kernels.vectors import LANES, lanes_of_zero, load, store, width

# Players of kinds 2, 3, 4 and 5 above.
_AGAIN, _SIDE_BY_SIDE, _DEEP, _LAST = 4, LANES.bit_length() - 1, 6, 3
_ROWS = 8  # that share what does not depend on the row, at most
FEWEST_PLAYERS = _SIDE_BY_SIDE + _LAST


class Steps(NamedTuple):
    """How features join.

    ``kernel`` comes from `tree_kernel`. In a state, a feature has two numbers with every row, with every feature before it
    and with itself, and ``n_own`` more. While it joins, ``n_scratch`` numbers are needed per row and feature.
    """

    kernel: Kernel
    n_own: int
    n_scratch: int

    def begin(self, R: int, a: int) -> int:
        """Where the numbers of feature a begin in a state of R rows: its length, if just a features wait."""
        return R + a * (2 * R + a + 1 + self.n_own)


class Tree:
    """The tree of all coalitions, ready to be walked piece by piece.

    Takes the steps and their constants; what the model has for a state: both numbers of pairs of features (2, k, k), and
    what features have of their own (k, n_own), from the feature that decides last; rows (n, k), likewise; value of the
    empty coalition; weights of a coalition's value for a member and for an outsider, by the number of players in it;
    and how many features each player has, in the order in which they decide. Fastest when the largest come first.
    """

    def __init__(
        self,
        steps: Steps,
        constants: Floats,
        pairs: Floats,
        own: Floats,
        rows: Floats,
        value: float,
        weights: tuple[Floats, Floats],
        sizes: list[int],
    ) -> None:
        if len(sizes) < FEWEST_PLAYERS:
            raise ValueError(f"a tree needs {FEWEST_PLAYERS} players, got {len(sizes)}.")
        self._steps, self._constants, self._weights = steps, constants, weights
        self._rows = rows
        self._n_blocks = -(-len(rows) // _ROWS)
        self._R = R = -(-len(rows) // max(1, self._n_blocks))
        self._model = _starting_state(R, value, pairs, own)
        waiting = np.append(0, np.cumsum(sizes[::-1]))[::-1].astype(np.int64)  # before each player decides
        n_last = _LAST if waiting[-1 - _LAST] == _LAST else 0
        n_below = min(_DEEP + _LAST, len(sizes) - _SIDE_BY_SIDE)
        n_again = min(_AGAIN, len(sizes) - _SIDE_BY_SIDE - n_below)
        self._n_afresh = len(sizes) - _SIDE_BY_SIDE - n_below - n_again
        side_by_side = waiting[self._n_afresh + n_again]
        begins = np.array([steps.begin(R, a) for a in range(waiting[0] + 1)], dtype=np.int64)
        # states of kinds 1, 2 and 3, and of every depth of kind 4, which is smaller by the feature that has joined
        states = [begins[waiting[0]], begins[waiting[self._n_afresh]], LANES * begins[side_by_side]]
        states += [LANES * begins[w - 1] for w in waiting[-1 - n_below : len(sizes) - n_last]]
        scratch = steps.n_scratch * max(waiting[0] + R, LANES * (side_by_side + R))
        sums = LANES * 2 * (n_below + 1)
        ends = np.cumsum([length + -length % LANES for length in (*states, scratch, R * sums, sums)])
        places = np.append(0, ends[:-1]).astype(np.int64)
        self._plan = waiting, begins, self._n_afresh, n_again, n_last, places
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
        model = self._constants, self._model, rows, self._R
        self._steps.kernel(*model, *self._weights, *self._plan, work, first - start, last - start, sums)
        return here, (sums[:, :-1] - sums[:, -1:])[: here.stop - here.start]


def _starting_state(R: int, value: float, pairs: Floats, own: Floats) -> Floats:
    """Nobody has joined, and the rows are not there yet."""
    k, n_own = own.shape
    numbers = np.zeros((k, R + k, 2))
    numbers[:, R:, 0], numbers[:, R:, 1] = pairs
    there = np.repeat(np.tri(k, R + k, R, dtype=bool), 2, axis=1)
    both = np.hstack([numbers.reshape(k, -1), own]), np.hstack([there, np.ones((k, n_own), dtype=bool)])
    return np.append(np.full(R, value), both[0][both[1]])


def weights_of_three(weights, depth, like):
    """Weights of coalitions that are one, two and three players larger than that of this depth, inside and outside."""
    W = width(like)
    t = 2 * (depth + 1) * W
    inside = load(weights, t, like), load(weights, t + 2 * W, like), load(weights, t + 4 * W, like)
    outside = load(weights, t + W, like), load(weights, t + 3 * W, like), load(weights, t + 5 * W, like)
    return inside, outside


def add_three(sums, own, here, by_size, values, like):
    """Add to a row's ``own`` sums, and to that of this depth, values when the last three join in every way.

    Values are those of 1, 2, 3, 1 and 2, 1 and 3, 2 and 3, and all; 1 decides last.
    """
    W = width(like)
    (in1, in2, in3), (out1, out2, out3) = by_size
    q1, q2, q3, q12, q13, q23, q123 = values
    store(sums, own, load(sums, own, like) + out1 * (q1 + q2 + q3) + out2 * (q12 + q13 + q23) + out3 * q123)
    q1, q2, q3, q12, q13, q23, q123 = in1 * q1, in1 * q2, in1 * q3, in2 * q12, in2 * q13, in2 * q23, in3 * q123
    store(sums, own + W, load(sums, own + W, like) + q1 + q12 + q13 + q123)
    store(sums, own + 2 * W, load(sums, own + 2 * W, like) + q2 + q12 + q23 + q123)
    store(sums, own + 3 * W, load(sums, own + 3 * W, like) + q3 + q13 + q23 + q123)
    store(sums, own + here, load(sums, own + here, like) + q1 + q2 + q3 + q12 + q13 + q23 + q123)


def tree_kernel(
    join: Callable[..., Any], decide_last: Callable[..., Any], *helpers: Callable[..., Any], worth: float
) -> Kernel:
    """The walk described above with these steps.

    ``join(S, T, constants, source, target, j, R, mask, like)``: of the state at ``source`` in S, whose feature j decides
    next, feature j joins where ``mask`` is 1; what follows is written to ``target``, which may be the same. T is scratch.

    ``decide_last(S, sums, weights, constants, source, R, n_sums, depth, like)``: the last three join in every way, for all
    rows; adds to their sums and to that of this depth.
    """

    def tree_walk(
        constants,
        model,
        rows,
        R,
        inside,
        outside,
        waiting,
        begins,
        n_afresh,
        n_again,
        n_last,
        places,
        work,
        first,
        last,
        out,
    ):
        """Pieces ``first`` to ``last``: 2^n_afresh of them for each R rows.

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
            for a in range(waiting[0]):
                for r in range(R):
                    S[begins[a] + 2 * r] = rows[block + r, a]
            members = 0
            for i in range(n_afresh):
                if piece >> i & 1:
                    members += 1
                    for j in range(waiting[i] - 1, waiting[i + 1] - 1, -1):
                        join(S, T, constants, afresh, afresh, j, R, 1.0, 0.0)
            for choice in range(1 << n_again):
                length = begins[waiting[n_afresh]]
                S[again : again + length] = S[afresh : afresh + length]
                n_in[:] = members
                for i in range(n_again):
                    if choice >> i & 1:
                        n_in += 1
                        for j in range(waiting[n_afresh + i] - 1, waiting[n_afresh + i + 1] - 1, -1):
                            join(S, T, constants, again, again, j, R, 1.0, 0.0)
                for cell in range(begins[waiting[before]]):
                    store(S, lanes + cell * LANES, zero + S[again + cell])
                for i in range(_SIDE_BY_SIDE):
                    for b in range(LANES):
                        n_in[b] += b >> i & 1
                        weights[b] = b >> i & 1
                    mask = load(weights, 0, zero)
                    for j in range(waiting[before + i] - 1, waiting[before + i + 1] - 1, -1):
                        join(S, T, constants, lanes, lanes, j, R, mask, zero)
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
                            decide_last(S, sums, weights, constants, places[2 + depth], R, n_sums, depth, zero)
                        if depth == 0:
                            break
                        for s in range(0, R * n_sums, n_sums):
                            total, own, up = load(sums, s + here, zero), s + joined[depth], s + here - LANES
                            store(sums, own, load(sums, own, zero) + total)
                            store(sums, up, load(sums, up, zero) + total)
                        depth -= 1
                        continue
                    source, target = places[2 + depth], places[3 + depth]
                    for j in range(waiting[i] - 1, waiting[i + 1] - 1, -1):
                        join(S, T, constants, source, target, j, R, 1.0, zero)
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

    return Kernel(tree_walk, worth, (join, decide_last, weights_of_three, add_three, *helpers))
