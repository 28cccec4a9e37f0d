"""Exact Shapley values from the tree of all coalitions: the Python side of `culpa._kernels.tree_kernel`.

A game offers a `TreeJob`. If the kernel pays, the exact engine makes a `Tree` of it, and threads walk the tree piece by
piece.

| name | meaning |
| --- | --- |
| k | features of all players together |
| n | rows |
| ``n_rows`` | rows of a block: they share a state, and with it everything that does not depend on the row |
| ``sizes`` | features of each player |
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats, Positions
from culpa._kernels.kernel import Kernel
from culpa._kernels.layout import COMMON, N_TOTALS, StateLayout, common_weight_at, feature_at, n_sums, starting_state
from culpa._kernels.tree_kernel import LANE_PLAYERS, Sections, Walk
from culpa._kernels.vectors import LANES

# Players who decide in each way: see `culpa._kernels.tree_kernel`.
_RESTART_PLAYERS, _DEPTH_FIRST_PLAYERS, _REGISTER_PLAYERS = 4, 6, 3
_ROWS_PER_BLOCK = 8  # at most
FEWEST_PLAYERS = LANE_PLAYERS + _REGISTER_PLAYERS


class Steps(NamedTuple):
    """How features join: the kernel, and the memory that it needs."""

    kernel: Kernel  # from `tree_kernel`
    n_own: int  # numbers that a feature has of its own in a state
    n_scratch: int  # numbers per row and feature that are needed while a feature joins


class TreeModel(NamedTuple):
    """What the steps know about the model and the rows. Features are in the order in which they decide, the last first."""

    constants: Floats
    pairs: Floats  # (2, k, k): both numbers of each pair of features
    own: Floats  # (k, n_own): the own numbers of each feature
    rows: Floats  # (n, k)
    value: float  # of the empty coalition


class TreeJob(NamedTuple):
    """A tree that a game offers to have walked by a compiled kernel."""

    steps: Steps
    operations: float  # that arrays would take per coalition, for all rows
    prepare: Callable[[], TreeModel]  # called only if the kernel is used


class TreePart(NamedTuple):
    """What some pieces of the tree add to the Shapley values (rows, players) of the rows that they belong to."""

    rows: slice
    values: Floats


class Tree:
    """The tree of all coalitions, ready to be walked piece by piece.

    Takes the member weights and the common weights by the size of a coalition (see `culpa._kernels.tree_kernel`), and the
    number of features of each player, in the order in which they decide. It is fastest if large players come first.
    """

    def __init__(self, steps: Steps, model: TreeModel, weights: tuple[Floats, Floats], sizes: list[int]) -> None:
        n_players = len(sizes)
        if n_players < FEWEST_PLAYERS:
            raise ValueError(f"a tree needs {FEWEST_PLAYERS} players, got {n_players}.")
        self._kernel, self._n_rows, self._n_players = steps.kernel, len(model.rows), n_players
        self._n_blocks = -(-self._n_rows // _ROWS_PER_BLOCK)
        layout = StateLayout(-(-self._n_rows // max(1, self._n_blocks)), steps.n_own)
        self._rows = np.zeros((self._n_blocks * layout.n_rows, model.rows.shape[1]))  # the last block is padded by 0
        self._rows[: self._n_rows] = model.rows
        waiting = np.append(0, np.cumsum(sizes[::-1]))[::-1].astype(np.int64)
        n_below = min(_DEPTH_FIRST_PLAYERS + _REGISTER_PLAYERS, n_players - LANE_PLAYERS)
        n_restart = min(_RESTART_PLAYERS, n_players - LANE_PLAYERS - n_below)
        n_piece = n_players - LANE_PLAYERS - n_below - n_restart
        # registers hold single features only; groups are walked depth first to the end
        n_register = _REGISTER_PLAYERS if waiting[-1 - _REGISTER_PLAYERS] == _REGISTER_PLAYERS else 0
        sections, self._n_work = _sections(layout, steps.n_scratch, waiting, n_piece, n_restart, n_register)
        self._spare_work: list[Floats] = []  # of finished tasks; a new one costs a few microseconds
        start = starting_state(layout, model.value, model.pairs, model.own)
        self._walk = Walk(model.constants, start, layout, waiting, *weights, n_piece, n_restart, n_register, sections)

    @property
    def n_pieces(self) -> int:
        """Number of pieces of work. The pieces of one block of rows are consecutive."""
        return self._n_blocks << self._walk.n_piece

    @property
    def work_bytes(self) -> int:
        """Size of the work space that each thread needs."""
        return 8 * self._n_work

    def walk(self, first: int, last: int) -> TreePart:
        """Walk the pieces from ``first`` to ``last`` (exclusive)."""
        n_piece, n_rows = self._walk.n_piece, self._walk.layout.n_rows
        blocks = slice(first >> n_piece, (last - 1 >> n_piece) + 1)
        rows = self._rows[blocks.start * n_rows : blocks.stop * n_rows]
        here = slice(blocks.start * n_rows, min(blocks.stop * n_rows, self._n_rows))
        sums = np.zeros((len(rows), self._n_players + N_TOTALS))
        before = blocks.start << n_piece
        try:
            work = self._spare_work.pop()
        except IndexError:  # none is free
            work = _aligned(self._n_work)
        self._kernel(self._walk, rows, work, first - before, last - before, sums)
        self._spare_work.append(work)
        sums = sums[: here.stop - here.start]
        values, totals = sums[:, : self._n_players], sums[:, self._n_players :]
        return TreePart(here, values - totals[:, COMMON : COMMON + 1])


def _sections(
    layout: StateLayout, n_scratch: int, waiting: Positions, n_piece: int, n_restart: int, n_register: int
) -> tuple[Sections, int]:
    """The work space: states of the piece, of a restart and of each depth, scratch, sums and weights; and its length."""
    n_players = len(waiting) - 1
    first_in_lanes = n_piece + n_restart
    first_below = first_in_lanes + LANE_PLAYERS
    n_below = n_players - first_below
    lengths = [feature_at(layout, waiting[0]), feature_at(layout, waiting[n_piece])]
    lengths += [LANES * feature_at(layout, waiting[first_in_lanes])]
    # at depth 1 and below, one player has joined, so that at least one feature less is waiting
    lengths += [LANES * feature_at(layout, w - 1) for w in waiting[first_below : n_players - n_register]]
    n_states = len(lengths)
    n = layout.n_rows
    lengths += [n_scratch * max(waiting[0] + n, LANES * (waiting[first_in_lanes] + n))]
    lengths += [n * n_sums(n_below) * LANES, (common_weight_at(n_below) + 1) * LANES]
    ends = np.cumsum([length + -length % LANES for length in lengths]).astype(np.int64)
    starts = np.append(0, ends[:-1])
    piece, restart, scratch, sums, weights = (int(starts[i]) for i in (0, 1, n_states, n_states + 1, n_states + 2))
    return Sections(piece, restart, starts[2:n_states].copy(), scratch, sums, weights), int(ends[-1])


def _aligned(n: int) -> Floats:
    """An empty array that starts where a vector may start: vectors that straddle cache lines are slow."""
    work = np.empty(n + LANES)
    return work[-(work.ctypes.data // work.itemsize) % LANES :]
