"""Exact Shapley values from the tree of all coalitions on a GPU: launches `gpu_tree.cu` and `gpu_rows.cu`.

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
from culpa._kernels.gpu import Device, on_cpu
from culpa._kernels.tree import TreeModel

_TILE = 128  # as in `gpu_tree.cu`
_ROWS_PER_BLOCK = 128  # at most: more would leave less memory for coalitions
_FEWEST_ROWS_TOGETHER = 3  # for fewer, the table of steps does not pay, and of many players not for a few more
_MANY_PLAYERS, _FEWEST_ROWS_OF_MANY_PLAYERS = 28, 9


class _State(NamedTuple):
    """A coalition of the players above: what waits, features from the one that decides last."""

    V: Floats  # (m, m)
    K: Floats
    rows: Floats  # (1 + 2 m, n): value, then delta and h of each feature

    def join(self) -> "_State":
        j = len(self.V) - 1
        inverse = 1 / self.V[j, j]
        kappa, gain = self.K[j, j] * inverse, self.V[j, :j] * inverse
        shift = self.K[j, :j] - kappa * self.V[j, :j]
        delta_j, h_j = self.rows[1 + 2 * j], self.rows[2 + 2 * j]
        g = delta_j * inverse
        rows = self.rows[: 1 + 2 * j].copy()
        rows[0] -= g * (h_j - kappa * delta_j) + kappa
        rows[1::2] -= np.outer(gain, delta_j)
        rows[2::2] -= np.outer(gain, h_j) + 2 * np.outer(shift, g)
        return _State(
            self.V[:j, :j] - np.outer(gain, self.V[j, :j]),
            self.K[:j, :j] - np.outer(gain, self.K[j, :j]) - np.outer(shift, gain),
            rows,
        )

    def skip(self) -> "_State":
        j = len(self.V) - 1
        return _State(self.V[:j, :j], self.K[:j, :j], self.rows[: 1 + 2 * j])


def walk_on_gpu(
    device: Device,
    model: TreeModel,
    weights: tuple[Floats, Floats],
    sizes: list[int],
    progress: Callable[[float], None] | None = None,
) -> Floats:
    """Shapley values (n, players) of the players who decide in this order, by elimination.

    Takes the model of `culpa._kernels.elimination_steps`, the member weights and common weights by the size of a coalition,
    and the number of features of each player.
    """
    n = len(model.rows)
    most = min(_ROWS_PER_BLOCK, device.options.ROWS * device.options.ROWS_THREADS)
    fewest = _FEWEST_ROWS_TOGETHER if len(sizes) < _MANY_PLAYERS else _FEWEST_ROWS_OF_MANY_PLAYERS
    together = 1 if n < fewest else min(n, most)
    n_blocks = -(-n // together)
    blocks = [block for block in np.array_split(np.arange(n), n_blocks) if len(block)]
    values = np.zeros((n, len(sizes)))
    for done, block in enumerate(blocks):
        report = None if progress is None else _part(progress, done, len(blocks))
        spare = -len(block) % device.options.ROWS if together > 1 else 0  # the last row again: all threads are alike
        part = model._replace(rows=model.rows[np.append(block, np.repeat(block[-1], spare))])
        values[block] = _Walk(device, part, weights, sizes).run(report)[: len(block)]
    return values


class _Places(NamedTuple):
    """Where the numbers of each feature are: see "Memory" in `gpu_tree.cu`."""

    pairs_at: Positions  # (m,)
    rows_at: Positions
    columns: Positions
    n_pairs: int  # twos in all
    n_rows: int  # twos in all, of each row

    @classmethod
    def of(cls, sizes: list[int], n_bottom: int) -> "_Places":
        """``sizes``: features of each breadth-first player. ``n_bottom`` features decide after them."""
        counts: list[int] = []
        for place, size in enumerate(sizes):
            counts += [1 << place] + [2 << place] * (size - 1)
        columns = np.array([1 << len(sizes)] * n_bottom + counts[::-1], dtype=np.int64)
        pairs = np.cumsum(np.append(0, columns * np.arange(1, len(columns) + 1)))
        rows = (1 << len(sizes)) + np.cumsum(np.append(0, columns))
        return cls(pairs[:-1], rows[:-1], columns, int(pairs[-1]), int(rows[-1]))


class _Walk:
    """The tree of some rows."""

    def __init__(self, device: Device, model: TreeModel, weights: tuple[Floats, Floats], sizes: list[int]) -> None:
        self.device, self.sizes, self.n, self.start = device, sizes, len(model.rows), _start(model)
        xp, options, n_players = device.xp, device.options, len(sizes)
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
        self.slots = self.side * device.n_blocks if walks_rows else max(1, device.n_threads // self.n)
        # more weights than there are sizes, because threads load them in advance
        self.weights = [xp.asarray(np.append(table, np.zeros(n_bottom + 1))) for table in weights]
        sums = [_subtree_weights(table, n_bottom) for table in weights]
        self.subtree_weights = (*map(xp.asarray, sums), np.int32(sums[0].shape[1]))
        self.sums = xp.zeros((1 + self.bottom + self.n_above, self.slots, self.n))
        self.all = xp.zeros((1 << self.n_wide, self.n))
        places = self._places(self.n_wide)
        self.places = [xp.asarray(array) for array in places[:3]]
        # where the empty coalition of a chunk goes
        a, e = np.tril_indices(len(places.columns))
        self.pairs_at = xp.asarray(places.pairs_at[a] + e * places.columns[a])
        self.rows_at = xp.asarray(np.append(0, places.rows_at))
        self.pairs, self.rows = xp.empty((places.n_pairs, 2)), xp.empty((places.n_rows * self.n, 2))
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

    def _chunks(self, state: _State, player: int, above: int) -> Iterator[tuple[int, _State]]:
        """All choices of the players above; bit i of the first number says whether player i is in."""
        if player == self.n_above:
            yield above, state
            return
        joined = skipped = state
        for _ in range(self.sizes[player]):
            joined, skipped = joined.join(), skipped.skip()
        yield from self._chunks(joined, player + 1, above | 1 << player)
        yield from self._chunks(skipped, player + 1, above)

    def _expand(self, state: _State) -> None:
        """Make the states of all coalitions of the breadth-first players."""
        xp, n, launch = self.device.xp, self.n, self.device.launch
        lower = np.tril_indices(len(state.V))
        self.pairs[self.pairs_at] = xp.asarray(np.stack([state.V[lower], state.K[lower]], axis=1))
        rows = np.zeros((1 + len(state.V), n, 2))
        rows[0, :, 0], rows[1:, :, 0], rows[1:, :, 1] = state.rows[0], state.rows[1::2], state.rows[2::2]
        self.rows.reshape(-1, n, 2)[self.rows_at] = xp.asarray(rows)
        pairs_at, rows_at, columns = self.places
        j, N = len(state.V) - 1, 1
        for size in self.sizes[self.n_above : self.n_above + self.n_wide]:
            for follower in range(size):
                counts = np.int32(j), np.int64(N // 2 if follower else 0)
                rows_first = pairs_at, rows_at, columns, np.int64(N), np.int32(n), *counts
                launch("expand_rows", (j + 1) * _tiles(N * n), self.pairs, self.rows, *rows_first)
                if j:
                    launch("expand_pairs", j * _tiles(N), self.pairs, pairs_at, columns, np.int64(N), *counts)
                j, N = j - 1, N if follower else 2 * N

    def _walk_chunk(self, above: int) -> None:
        device, launch, N, n = self.device, self.device.launch, np.int64(1 << self.n_wide), np.int32(self.n)
        n_slots, members, results = np.int32(self.slots), np.int64(above), (self.all, self.sums)
        if not self.bottom:
            launch("count", self.slots * self.n, self.rows, N, n, n_slots, members, *self.weights, *results)
        elif self.together:
            options, block, side = device.options, device.options.ROWS_THREADS, np.int32(self.side)
            launch("tabulate", device.n_threads, self.pairs, N, members, *self.subtree_weights, self.tables)
            shape = {"block": block, "shared": self.side * options.stage_bytes + options.own_bytes}
            several = self.tables, self.rows, N, n, side, members, *self.subtree_weights, *results
            launch("walk_rows", device.n_blocks * block, *several, **shape)
        else:
            launch("walk", self.slots, self.pairs, self.rows, N, n_slots, members, *self.weights, *results)

    def _values(self) -> Floats:
        xp, bottom = self.device.xp, self.bottom
        sums = on_cpu(xp.sum(self.sums, axis=1))
        result = np.empty((len(self.sizes), self.n))
        result[: self.n_above] = sums[1 + bottom :]
        if bottom:
            result[-bottom:] = sums[1 : 1 + bottom][::-1]
        # a coalition's number has a bit for each breadth-first player: sum over the upper and over the lower half of bits
        low = self.n_wide // 2
        grid = self.all.reshape(1 << (self.n_wide - low), 1 << low, self.n)
        for axis, first in ((0, 0), (1, low)):
            half = on_cpu(xp.sum(grid, axis=axis))
            for bit in range(len(half).bit_length() - 1):
                members = np.arange(len(half)) >> bit & 1 == 1
                result[self.n_above + first + bit] = half[members].sum(axis=0)
        return np.asarray((result - sums[0]).T)

    def _places(self, n_wide: int) -> _Places:
        first = len(self.sizes) - self.bottom - n_wide
        return _Places.of(self.sizes[first : first + n_wide], self.bottom)

    def _most_breadth_first(self, most: int) -> int:
        """How many players may decide breadth first within the memory."""
        n_wide, limit = 1, self.device.most_bytes()
        table = self.device.options.table_length if self.bottom and self.together else 0
        while n_wide < most:
            places = self._places(n_wide + 1)
            numbers = 2.0 * (places.n_pairs + places.n_rows * self.n) + ((table + self.n) << (n_wide + 1))
            if 8.0 * numbers > limit:
                break
            n_wide += 1
        return n_wide


def _start(model: TreeModel) -> _State:
    """The empty coalition. Features are scaled by powers of two to variances near 1, which changes no value."""
    V, K = model.pairs
    scale = np.exp2(-np.round(np.log2(np.diag(V)) / 2))
    rows = np.zeros((1 + 2 * len(V), len(model.rows)))
    rows[0], rows[1::2] = model.value, (model.rows * scale).T
    return _State(V * scale * scale[:, None], K * scale * scale[:, None], rows)


def _subtree_weights(weights: Floats, most: int) -> Floats:
    """Sums of weights over the coalitions that extend one of each size, (1 + most, sizes), by how many players wait."""
    sums = [np.append(weights, np.zeros(most))]
    for _ in range(most):
        sums.append(sums[-1] + np.append(sums[-1][1:], 0.0))
    return np.stack(sums)


def _tiles(n: int) -> int:
    """Threads that go with n coalitions: see `TILE` in `gpu_tree.cu`."""
    return -(-n // _TILE) * _TILE


def _part(progress: Callable[[float], None], done: int, of: int) -> Callable[[float], None]:
    return lambda share: progress((done + share) / of)
