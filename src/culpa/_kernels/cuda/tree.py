"""Exact Shapley values from the tree of all coalitions on a GPU: launches the programs "elimination" and "factors".

The players decide in three ways, in this order:

| who | how many | how |
| --- | --- | --- |
| players above | the rest | here, depth first: each of their choices is a chunk of the tree |
| breadth-first players | as many as fit into memory | the GPU holds one state per coalition of them |
| players at the bottom | ``BOTTOM``, or none | a thread walks them, depth first, from each of these states |

Players at the bottom are single features. If the last players are groups, breadth-first players go on to the end.

| name | meaning |
| --- | --- |
| n | rows |
| m | features that wait |
| N | states, 2 ** (breadth-first players who have decided) |
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats, Positions
from culpa._kernels.cuda.device import Device, on_cpu
from culpa._kernels.cuda.states import Kind, State
from culpa._kernels.tree import TreeModel

_TILE = 128  # as in `elimination.cu`
_ROWS_PER_BLOCK = 128  # at most: more would leave less memory for coalitions
_FEWEST_ROWS_TOGETHER = 3  # for fewer, the table of steps does not pay, and of many players not for a few more
_MANY_PLAYERS, _FEWEST_ROWS_OF_MANY_PLAYERS = 28, 9


def walk_on_gpu(
    device: Device,
    kind: Kind,
    model: TreeModel,
    weights: tuple[Floats, Floats],
    sizes: list[int],
    progress: Callable[[float], None] | None = None,
) -> Floats:
    """Shapley values (n, players) of the players who decide in this order.

    Takes the model of the steps, the member weights and common weights by the size of a coalition, and the number of
    features of each player.
    """
    n, options = len(model.rows), device.program(kind.program).options
    most = min(_ROWS_PER_BLOCK, options.ROWS * options.ROWS_THREADS)
    fewest = _FEWEST_ROWS_TOGETHER if len(sizes) < _MANY_PLAYERS else _FEWEST_ROWS_OF_MANY_PLAYERS
    together = 1 if n < fewest else min(n, most)
    n_blocks = -(-n // together)
    blocks = [block for block in np.array_split(np.arange(n), n_blocks) if len(block)]
    values = np.zeros((n, len(sizes)))
    for done, block in enumerate(blocks):
        report = None if progress is None else _part(progress, done, len(blocks))
        spare = -len(block) % options.ROWS if together > 1 else 0  # the last row again: all threads are alike
        part = model._replace(rows=model.rows[np.append(block, np.repeat(block[-1], spare))])
        values[block] = _Walk(device, kind, part, weights, sizes).run(report)[: len(block)]
    return values


class _Places(NamedTuple):
    """Where the numbers of each feature are: see "Memory" in `states.cu`."""

    pairs_at: Positions  # (m,)
    rows_at: Positions
    columns: Positions
    n_pairs: int  # twos in all
    n_rows: int  # twos in all, of each row
    n_steps: int  # twos of the steps of a feature

    @classmethod
    def of(cls, sizes: list[int], n_bottom: int, own: int, n_step: int) -> "_Places":
        """``sizes``: features of each breadth-first player. ``n_bottom`` features decide after them."""
        counts: list[int] = []
        for place, size in enumerate(sizes):
            counts += [1 << place] + [2 << place] * (size - 1)
        columns = np.array([1 << len(sizes)] * n_bottom + counts[::-1], dtype=np.int64)
        pairs = np.cumsum(np.append(0, columns * (np.arange(1, len(columns) + 1) + own)))
        rows = (1 << len(sizes)) + np.cumsum(np.append(0, columns))
        steps = int((columns * np.arange(2, len(columns) + 2))[n_bottom:].max()) * n_step
        return cls(pairs[:-1], rows[:-1], columns, int(pairs[-1]), int(rows[-1]), steps)


class _Walk:
    """The tree of some rows."""

    def __init__(
        self, device: Device, kind: Kind, model: TreeModel, weights: tuple[Floats, Floats], sizes: list[int]
    ) -> None:
        self.device, self.kind, self.program, self.sizes = device, kind, device.program(kind.program), sizes
        self.n, self.start = len(model.rows), kind.start(model)
        xp, options, n_players = device.xp, self.program.options, len(sizes)
        self.together = self.n > 1
        n_bottom = options.ROWS_BOTTOM if self.together else options.BOTTOM
        single = n_players > n_bottom and all(size == 1 for size in sizes[-n_bottom:])
        self.bottom = n_bottom if single else 0
        self.n_wide = self._most_breadth_first(n_players - self.bottom)
        self.n_above = n_players - self.bottom - self.n_wide
        group = max(1, self.n // options.ROWS)  # threads that walk the rows of a coalition
        room = device.shared_bytes - options.own_bytes
        self.side = max(1, min(options.ROWS_THREADS // group, room // options.stage_bytes))
        walks_rows = self.bottom and self.together
        self.slots = self.side * device.n_blocks if walks_rows else max(1, self.program.n_threads // self.n)
        # more weights than there are sizes, because threads load them in advance
        self.member = xp.asarray(np.append(weights[0], np.zeros(n_bottom + 1)))
        sums = [_subtree_weights(table, n_bottom) for table in weights]
        self.subtree_weights = (*map(xp.asarray, sums), np.int32(sums[0].shape[1]))
        self.constants = tuple(self.start.constants)
        self.sums = xp.zeros((self.bottom + self.n_above, self.slots, self.n))
        self.all = xp.zeros((1 << self.n_wide, self.n))
        # what is the same for all rows
        self.constant = xp.zeros(1 << self.n_wide if walks_rows else 0)
        self.constant_sums = xp.zeros((self.bottom, self.program.n_threads if walks_rows else 0))
        places = self._places(self.n_wide)
        self.places = [xp.asarray(array) for array in places[:3]]
        # where the empty coalition of a chunk goes
        a, e = self._twos(len(places.columns))
        self.pairs_at = xp.asarray(places.pairs_at[a] + e * places.columns[a])
        self.rows_at = xp.asarray(np.append(0, places.rows_at))
        self.pairs, self.rows = xp.empty((places.n_pairs, 2)), xp.empty((places.n_rows * self.n, 2))
        self.steps = xp.empty((places.n_steps, 2)) if places.n_steps else None
        self.tables = xp.empty(options.table_length * max(options.SIDE, 1 << self.n_wide)) if walks_rows else None

    def run(self, progress: Callable[[float], None] | None) -> Floats:
        """Walk chunk after chunk; the GPU works while the next chunk is prepared."""
        for done, (above, state) in enumerate(self._chunks(self.start, 0, 0)):
            self._expand(state)
            self._walk_chunk(above)
            if progress is not None:
                float(self.all[0, 0])  # waits for the GPU
                progress((done + 1) / (1 << self.n_above))
        return self._values()

    def _chunks(self, state: State, player: int, above: int) -> Iterator[tuple[int, State]]:
        """All choices of the players above; bit i of the first number says whether player i is in."""
        if player == self.n_above:
            yield above, state
            return
        joined = skipped = state
        for _ in range(self.sizes[player]):
            joined, skipped = joined.join(), skipped.skip()
        yield from self._chunks(joined, player + 1, above | 1 << player)
        yield from self._chunks(skipped, player + 1, above)

    def _expand(self, state: State) -> None:
        """Make the states of all coalitions of the breadth-first players."""
        xp, n, launch, m = self.device.xp, self.n, self.program.launch, state.pairs.shape[1]
        a, e = self._twos(m)
        self.pairs[self.pairs_at] = xp.asarray(np.ascontiguousarray(state.pairs[:, a, e].T))
        rows = np.zeros((1 + m, n, 2))
        rows[0, :, 0], rows[1:, :, 0], rows[1:, :, 1] = state.rows[0], state.rows[1::2], state.rows[2::2]
        self.rows.reshape(-1, n, 2)[self.rows_at] = xp.asarray(rows)
        pairs_at, rows_at, columns = self.places
        j, N = m - 1, 1
        for size in self.sizes[self.n_above : self.n_above + self.n_wide]:
            for follower in range(size):
                who, follows = np.int32(j), np.int64(N // 2 if follower else 0)
                once, of_rows = (j, j + 1) if self.kind.in_parallel else (1, 1)
                if once:
                    arguments = self.pairs, self.steps, pairs_at, columns, np.int64(N), who, follows, *self.constants
                    launch("expand_pairs", once * _tiles(N), *arguments)
                arguments = self.pairs, self.steps, self.rows, pairs_at, rows_at, columns, np.int64(N), np.int32(n)
                launch("expand_rows", of_rows * _tiles(N * n), *arguments, who, follows)
                j, N = j - 1, N if follower else 2 * N

    def _walk_chunk(self, above: int) -> None:
        program, launch, N, n = self.program, self.program.launch, np.int64(1 << self.n_wide), np.int32(self.n)
        n_slots, members, results = np.int32(self.slots), np.int64(above), (self.all, self.sums)
        if not self.bottom:
            launch("count", self.slots * self.n, self.rows, N, n, n_slots, members, self.member, *results)
        elif self.together:
            options, block, side = program.options, program.options.ROWS_THREADS, np.int32(self.side)
            once = self.pairs, N, np.int32(program.n_threads), members, *self.constants, *self.subtree_weights
            kept = self.tables, self.constant, self.constant_sums
            launch("tabulate", program.n_threads, *once, *kept, shared=options.constant_bytes)
            shape = {"block": block, "shared": self.side * options.stage_bytes + options.own_bytes}
            several = self.tables, self.rows, N, n, side, members, *self.subtree_weights, self.constant
            launch("walk_rows", self.device.n_blocks * block, *several, *results, **shape)
        else:
            one = self.pairs, self.rows, N, n_slots, members, *self.constants, self.member
            launch("walk", self.slots, *one, *results)

    def _values(self) -> Floats:
        """Values add up to what all players gain, and differ from the sums with the member weights by the same number."""
        gained = self._gained()  # while the GPU works
        xp, bottom = self.device.xp, self.bottom
        sums = on_cpu(xp.sum(self.sums, axis=1))
        result = np.empty((len(self.sizes), self.n))
        result[: self.n_above] = sums[bottom:]
        if bottom:
            result[-bottom:] = (sums[:bottom] + on_cpu(xp.sum(self.constant_sums, axis=1))[:, None])[::-1]
        # a coalition's number has a bit for each breadth-first player: sum over the upper and over the lower half of bits
        low = self.n_wide // 2
        grid = self.all.reshape(1 << (self.n_wide - low), 1 << low, self.n)
        for axis, first in ((0, 0), (1, low)):
            half = on_cpu(xp.sum(grid, axis=axis))
            for bit in range(len(half).bit_length() - 1):
                members = np.arange(len(half)) >> bit & 1 == 1
                result[self.n_above + first + bit] = half[members].sum(axis=0)
        return np.asarray((result - (result.sum(axis=0) - gained) / len(result)).T)

    def _gained(self) -> Floats:
        """Value of the full coalition minus that of the empty one."""
        state = self.start
        for _ in range(sum(self.sizes)):
            state = state.join()
        return np.asarray(state.rows[0] - self.start.rows[0])

    def _twos(self, m: int) -> tuple[Positions, Positions]:
        """Feature and number in `State.pairs` of the twos of m features, as they are in memory."""
        own = self.program.options.OWN
        return np.tril_indices(m, own, m + own)

    def _places(self, n_wide: int) -> _Places:
        first = len(self.sizes) - self.bottom - n_wide
        return _Places.of(self.sizes[first : first + n_wide], self.bottom, self.program.options.OWN, self.kind.n_step)

    def _most_breadth_first(self, most: int) -> int:
        """How many players may decide breadth first within the memory."""
        n_wide, limit = 1, self.device.most_bytes()
        table = self.program.options.table_length if self.bottom and self.together else 0
        while n_wide < most:
            places = self._places(n_wide + 1)
            twos = places.n_pairs + places.n_steps + places.n_rows * self.n
            if 16.0 * twos + 8.0 * ((table + self.n) << (n_wide + 1)) > limit:
                break
            n_wide += 1
        return n_wide


def _subtree_weights(weights: Floats, most: int) -> Floats:
    """Sums of weights over the coalitions that extend one of each size, (1 + most, sizes), by how many players wait."""
    sums = [np.append(weights, np.zeros(most))]
    for _ in range(most):
        sums.append(sums[-1] + np.append(sums[-1][1:], 0.0))
    return np.stack(sums)


def _tiles(n: int) -> int:
    """Threads that go with n coalitions: see `TILE` in `tree.cu`."""
    return -(-n // _TILE) * _TILE


def _part(progress: Callable[[float], None], done: int, of: int) -> Callable[[float], None]:
    return lambda share: progress((done + share) / of)
