"""The compiled walk over the tree of all coalitions.

Players decide one after the other whether they are in. To keep one state per player would take most of the memory, so
players decide in five ways, in this order:

| who | how many | how |
| --- | --- | --- |
| piece players | the rest | the number of the piece says who is in; the state is computed from the start for each piece |
| restart players | 4 | a counter runs through their choices; each starts from the state of the piece |
| lane players | 2 | their four choices are the four SIMD lanes, which go through the same steps from here on |
| depth-first players | 6 | each joins, everything below is visited, then the player is skipped; one state per depth |
| register players | 3 | their seven non-empty coalitions at once, in processor registers |

The *players below* are those who decide after the lane players: depth-first and register players. *Depth* is the number
of them in the current coalition.

The Shapley value of player i is a weighted sum of the values of all coalitions. A coalition S has the weight a if i is a
member of S, and -b if not. Both depend on the size of S. To count -b for everybody, members get a + b:

    phi_i = sum over S with i of (a + b) v(S) - sum over all S of b v(S)

a + b is the *member weight* and b the *common weight* of S (`culpa.shapley.exact.size_weights`). The second sum is the
same for all players. In the first, "i is in S" holds for a whole subtree, so the sum of a subtree is added to player i
once, on the way back up.

| name | meaning |
| --- | --- |
| ``state`` | the work space; ``source`` and ``target`` are offsets of states in it |
| ``scratch`` | numbers that a step needs for a moment |
| ``sums``, ``weights`` | see `culpa._kernels.layout` |
| ``j``, ``i``, ``e`` | features, counted from the one that decides last |
| ``r`` | a row of the block of rows that share a state |
| ``like`` | template for `load`: a vector, or a plain number |
| ``value_02`` | v(S) when players 0 and 2 of the last three join; player 0 decides last |
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats, Positions
from culpa._kernels.kernel import Kernel
from culpa._kernels.layout import (
    COMMON,
    N_TOTALS,
    STATE_FUNCTIONS,
    SUM_FUNCTIONS,
    StateLayout,
    common_weight_at,
    depth_sum_at,
    feature_at,
    feature_pair_at,
    load_pair,
    member_weight_at,
    n_sums,
    player_sum_at,
    row_pair_at,
    value_at,
)
from culpa._kernels.vectors import LANES, lanes_of_zero, load, store, width_of

LANE_PLAYERS = LANES.bit_length() - 1


class Sections(NamedTuple):
    """Offsets of the parts of the work space, in doubles; ``depths`` has one state for each depth, 0 first."""

    piece: int
    restart: int
    depths: Positions
    scratch: int
    sums: int
    weights: int


class Walk(NamedTuple):
    """Everything that the kernel reads, apart from the rows."""

    constants: Floats  # of the steps
    start: Floats  # the state of the empty coalition, without rows
    layout: StateLayout
    waiting: Positions  # features that wait before each player decides, and 0 at the end
    member: Floats  # member weights by the size of a coalition
    common: Floats  # common weights, likewise
    n_piece: int  # how many players decide in each way; the lane players are always `LANE_PLAYERS`
    n_restart: int
    n_register: int
    sections: Sections


def empty_coalition(state, walk, rows, first_row):
    """Write the state of the empty coalition for the rows from ``first_row`` on."""
    for cell in range(walk.start.size):
        state[walk.sections.piece + cell] = walk.start[cell]
    for i in range(walk.waiting[0]):
        for r in range(walk.layout.n_rows):
            state[walk.sections.piece + row_pair_at(walk.layout, i, r)] = rows[first_row + r, i]


def fill_weights(weights, walk, n_members, n_below):
    """Weights of the lanes' coalitions at each depth, from the number of members that each lane has at depth 0."""
    for depth in range(n_below + 1):
        for lane in range(LANES):
            size = n_members[lane] + depth
            weights[member_weight_at(depth) * LANES + lane] = walk.member[size]
            weights[common_weight_at(depth) * LANES + lane] = walk.common[size]


def count_coalition(sums, row_sums, n_below, depth, member, common, value):
    """Count the value of the coalition that has just been reached at ``depth``: one coalition per lane."""
    like = value
    width = width_of(like)
    store(sums, row_sums + depth_sum_at(n_below, depth) * width, member * value)
    total = row_sums + COMMON * width
    store(sums, total, load(sums, total, like) + common * value)


def count_last_seven(sums, row_sums, n_below, depth, weights, values):
    """Count the seven coalitions that extend the one at ``depth`` by some of the register players."""
    value_0, value_1, value_2, value_01, value_02, value_12, value_012 = values
    like = value_0
    width = width_of(like)
    (member_1, member_2, member_3), (common_1, common_2, common_3) = weights
    total = row_sums + COMMON * width
    by_size = common_1 * (value_0 + value_1 + value_2) + common_2 * (value_01 + value_02 + value_12)
    store(sums, total, load(sums, total, like) + by_size + common_3 * value_012)
    # from here on the values are weighted
    value_0, value_1, value_2 = member_1 * value_0, member_1 * value_1, member_1 * value_2
    value_01, value_02, value_12 = member_2 * value_01, member_2 * value_02, member_2 * value_12
    value_012 = member_3 * value_012
    at = row_sums + player_sum_at(0) * width
    store(sums, at, load(sums, at, like) + value_0 + value_01 + value_02 + value_012)
    at = row_sums + player_sum_at(1) * width
    store(sums, at, load(sums, at, like) + value_1 + value_01 + value_12 + value_012)
    at = row_sums + player_sum_at(2) * width
    store(sums, at, load(sums, at, like) + value_2 + value_02 + value_12 + value_012)
    at = row_sums + depth_sum_at(n_below, depth) * width
    everything = value_0 + value_1 + value_2 + value_01 + value_02 + value_12 + value_012
    store(sums, at, load(sums, at, like) + everything)


def pairs_of_last_three(state, source, layout, like):
    """First numbers of the pairs 00, 10, 11, 20, 21, 22 of the last three features, then their second numbers."""
    width = width_of(like)
    a_00, b_00 = load_pair(state, source + feature_pair_at(layout, 0, 0) * width, like)
    a_10, b_10 = load_pair(state, source + feature_pair_at(layout, 1, 0) * width, like)
    a_11, b_11 = load_pair(state, source + feature_pair_at(layout, 1, 1) * width, like)
    a_20, b_20 = load_pair(state, source + feature_pair_at(layout, 2, 0) * width, like)
    a_21, b_21 = load_pair(state, source + feature_pair_at(layout, 2, 1) * width, like)
    a_22, b_22 = load_pair(state, source + feature_pair_at(layout, 2, 2) * width, like)
    return (a_00, a_10, a_11, a_20, a_21, a_22), (b_00, b_10, b_11, b_20, b_21, b_22)


def seven_values(value, without_2, value_2, after_2):
    """Values of the seven coalitions, from the changes that {0}, {1} and {0, 1} bring without feature 2 and after it."""
    change_0, change_1, change_01 = without_2
    then_0, then_1, then_01 = after_2
    small = change_0 + value, change_1 + value, value_2
    return (*small, change_01 + value, then_0 + value_2, then_1 + value_2, then_01 + value_2)


def weights_of_last_seven(weights, depth, like):
    """Member weights and common weights of coalitions one, two and three players larger than at ``depth``."""
    width = width_of(like)
    member_1 = load(weights, member_weight_at(depth + 1) * width, like)
    member_2 = load(weights, member_weight_at(depth + 2) * width, like)
    member_3 = load(weights, member_weight_at(depth + 3) * width, like)
    common_1 = load(weights, common_weight_at(depth + 1) * width, like)
    common_2 = load(weights, common_weight_at(depth + 2) * width, like)
    common_3 = load(weights, common_weight_at(depth + 3) * width, like)
    return (member_1, member_2, member_3), (common_1, common_2, common_3)


def add_subtree(sums, walk, n_below, depth, place, like):
    """On the way up from ``depth``: pay the sum of the subtree to its player, and pass it on to the depth above."""
    width = width_of(like)
    size = n_sums(n_below) * width
    for row_sums in range(0, walk.layout.n_rows * size, size):
        subtree = load(sums, row_sums + depth_sum_at(n_below, depth) * width, like)
        player = row_sums + player_sum_at(place) * width
        above = row_sums + depth_sum_at(n_below, depth - 1) * width
        store(sums, player, load(sums, player, like) + subtree)
        store(sums, above, load(sums, above, like) + subtree)


def add_to_result(out, first_row, sums, walk, n_below, piece, choice):
    """Add the lanes' sums to the result: weighted values by player, and the totals in the last columns."""
    n_players = walk.waiting.shape[0] - 1
    first_in_lanes = walk.n_piece + walk.n_restart
    for r in range(walk.layout.n_rows):
        row = out[first_row + r]
        for lane in range(LANES):
            own = r * n_sums(n_below) * LANES + lane
            everything = sums[own + depth_sum_at(n_below, 0) * LANES]
            for i in range(walk.n_piece):
                row[i] += (piece >> i & 1) * everything
            for i in range(walk.n_restart):
                row[walk.n_piece + i] += (choice >> i & 1) * everything
            for i in range(LANE_PLAYERS):
                row[first_in_lanes + i] += (lane >> i & 1) * everything
            for place in range(n_below):
                row[n_players - 1 - place] += sums[own + player_sum_at(place) * LANES]
            for total in range(N_TOTALS):
                row[n_players + total] += sums[own + total * LANES]


HELPERS = (
    *(empty_coalition, fill_weights, count_coalition, count_last_seven),
    *(pairs_of_last_three, seven_values, weights_of_last_seven, add_subtree, add_to_result),
)


def tree_kernel(
    join: Callable[..., Any],
    prepare_last_three: Callable[..., Any],
    values_of_last_three: Callable[..., Any],
    *calls: Callable[..., Any],
    worth: float,
) -> Kernel:
    """The walk described above, with steps that say how a feature joins.

    ``join(state, scratch, constants, source, target, j, layout, mask, like)``: in the state at ``source``, in which
    feature j decides next, feature j joins where ``mask`` is 1. Writes the new state to ``target``, which may be
    ``source``.

    ``prepare_last_three(state, constants, source, layout, like)``: whatever `values_of_last_three` needs that does not
    depend on the row.

    ``values_of_last_three(prepared, value, pair_0, pair_1, pair_2)``: values of the seven coalitions that extend a
    coalition worth ``value`` by the last three features, given the pairs of these features and the row; in the order 0, 1,
    2, 01, 02, 12, 012.

    ``calls`` lists what these three call. ``worth`` is that of `Kernel`.
    """

    def tree_walk(walk, rows, work, first, last, out):
        """Walk the pieces from ``first`` to ``last``: 2^n_piece for each block of rows.

        Adds to ``out`` (rows, players + N_TOTALS): member-weighted values of the coalitions with each player, then the
        totals over all coalitions.
        """
        constants, layout, sections, waiting = walk.constants, walk.layout, walk.sections, walk.waiting
        n_rows, n_players = layout.n_rows, waiting.shape[0] - 1
        first_in_lanes = walk.n_piece + walk.n_restart
        first_below = first_in_lanes + LANE_PLAYERS
        n_below = n_players - first_below
        end = n_players - walk.n_register
        row_size = n_sums(n_below) * LANES
        state, scratch = work, work[sections.scratch :]
        sums, weights = work[sections.sums :], work[sections.weights :]
        zero = lanes_of_zero()
        n_members = np.zeros(LANES, np.int64)
        next_player, joined = np.zeros(n_below + 1, np.int64), np.zeros(n_below + 1, np.int64)  # by depth
        for piece in range(first, last):
            first_row = (piece >> walk.n_piece) * n_rows
            empty_coalition(state, walk, rows, first_row)
            in_piece = 0
            for i in range(walk.n_piece):
                if piece >> i & 1:
                    in_piece += 1
                    at = sections.piece
                    for j in range(waiting[i] - 1, waiting[i + 1] - 1, -1):
                        join(state, scratch, constants, at, at, j, layout, 1.0, 0.0)
            for choice in range(1 << walk.n_restart):
                for cell in range(feature_at(layout, waiting[walk.n_piece])):
                    state[sections.restart + cell] = state[sections.piece + cell]
                for lane in range(LANES):
                    n_members[lane] = in_piece
                for i in range(walk.n_restart):
                    if choice >> i & 1:
                        for lane in range(LANES):
                            n_members[lane] += 1
                        at, player = sections.restart, walk.n_piece + i
                        for j in range(waiting[player] - 1, waiting[player + 1] - 1, -1):
                            join(state, scratch, constants, at, at, j, layout, 1.0, 0.0)
                lanes = sections.depths[0]
                for cell in range(feature_at(layout, waiting[first_in_lanes])):
                    store(state, lanes + cell * LANES, zero + state[sections.restart + cell])
                for i in range(LANE_PLAYERS):
                    for lane in range(LANES):
                        n_members[lane] += lane >> i & 1
                        weights[lane] = lane >> i & 1  # for a moment, to make a vector of it
                    mask = load(weights, 0, zero)
                    player = first_in_lanes + i
                    for j in range(waiting[player] - 1, waiting[player + 1] - 1, -1):
                        join(state, scratch, constants, lanes, lanes, j, layout, mask, zero)
                fill_weights(weights, walk, n_members, n_below)
                for cell in range(n_rows * row_size):
                    sums[cell] = 0.0
                for r in range(n_rows):
                    member = load(weights, member_weight_at(0) * LANES, zero)
                    common = load(weights, common_weight_at(0) * LANES, zero)
                    value = load(state, lanes + value_at(r) * LANES, zero)
                    count_coalition(sums, r * row_size, n_below, 0, member, common, value)
                depth = 0
                next_player[0] = first_below
                while True:
                    player, source = next_player[depth], sections.depths[depth]
                    if player == end:
                        if walk.n_register:
                            prepared = prepare_last_three(state, constants, source, layout, zero)
                            seven = weights_of_last_seven(weights, depth, zero)
                            for r in range(n_rows):
                                pair_0 = load_pair(state, source + row_pair_at(layout, 0, r) * LANES, zero)
                                pair_1 = load_pair(state, source + row_pair_at(layout, 1, r) * LANES, zero)
                                pair_2 = load_pair(state, source + row_pair_at(layout, 2, r) * LANES, zero)
                                value = load(state, source + value_at(r) * LANES, zero)
                                values = values_of_last_three(prepared, value, pair_0, pair_1, pair_2)
                                count_last_seven(sums, r * row_size, n_below, depth, seven, values)
                        if depth == 0:
                            break
                        add_subtree(sums, walk, n_below, depth, n_players - 1 - joined[depth], zero)
                        depth -= 1
                        continue
                    target = sections.depths[depth + 1]
                    for j in range(waiting[player] - 1, waiting[player + 1] - 1, -1):
                        join(state, scratch, constants, source, target, j, layout, 1.0, zero)
                        source = target
                    next_player[depth] = player + 1
                    depth += 1
                    next_player[depth] = player + 1
                    joined[depth] = player
                    member = load(weights, member_weight_at(depth) * LANES, zero)
                    common = load(weights, common_weight_at(depth) * LANES, zero)
                    for r in range(n_rows):
                        value = load(state, target + value_at(r) * LANES, zero)
                        count_coalition(sums, r * row_size, n_below, depth, member, common, value)
                add_to_result(out, first_row, sums, walk, n_below, piece, choice)

    steps = (join, prepare_last_three, values_of_last_three)
    return Kernel(tree_walk, worth, (*steps, *calls, *HELPERS, *STATE_FUNCTIONS, *SUM_FUNCTIONS))
