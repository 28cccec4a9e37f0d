"""Where every number lies: the offsets of everything that the tree kernel keeps in its work space.

Nothing else in this package spells out an offset. The functions below are plain Python and are compiled into the
kernels, where they cost nothing: the compiler turns them into additions.

**State.** What a coalition knows about the features that are still waiting. Features are numbered from the one that
decides last (0), so the features that still wait are always the leading part of a state, and a state of fewer features
is a prefix of a longer one.

    state   = value of row 0, ..., value of row n_rows - 1, block of feature 0, block of feature 1, ...
    block i = pair (i, row 0), ..., pair (i, row n_rows - 1), pair (i, feature 0), ..., pair (i, feature i), own numbers

A *pair* is two consecutive numbers. What they mean is up to the steps:

| steps | pair of feature i and a row | pair of features i and e <= i | own numbers |
| --- | --- | --- | --- |
| `culpa._kernels.elimination_steps` | delta_i, k_i | V_ie, K_ie | none |
| `culpa._kernels.factored_steps` | delta_i, s_i | L_ie, Q_ie | D_i |

**Sums.** What is added up for each row while lanes walk: `N_TOTALS` totals over all coalitions, then for each player who
decides in lanes (the last player first) the weighted values of the coalitions with that player, then the same for the
coalitions that extend the current coalition at each depth.

**Weights.** For each depth, the member weight and the common weight of a coalition's value: see
`culpa._kernels.tree_kernel`.

Offsets count numbers. Where lanes are used each number is `width` doubles wide, so the caller multiplies by the width.
"""

from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats
from culpa._kernels.vectors import load, width_of

N_TOTALS = 1  # totals over all coalitions that are kept for each row
COMMON = 0  # the total that is subtracted from the sum of every player


class StateLayout(NamedTuple):
    """Shape of a state: how many rows share it, and how many numbers a feature has of its own."""

    n_rows: int
    n_own: int


def value_at(r: int) -> int:
    """Offset of the value of row r."""
    return r


def feature_at(layout: StateLayout, i: int) -> int:
    """Offset of the block of feature i, which is also the length of a state in which features 0 to i - 1 wait."""
    return layout.n_rows + i * (2 * layout.n_rows + i + 1 + layout.n_own)


def row_pair_at(layout: StateLayout, i: int, r: int) -> int:
    """Offset of the pair of feature i and row r."""
    return feature_at(layout, i) + 2 * r


def feature_pair_at(layout: StateLayout, i: int, e: int) -> int:
    """Offset of the pair of features i and e, e <= i."""
    return feature_at(layout, i) + 2 * (layout.n_rows + e)


def own_at(layout: StateLayout, i: int) -> int:
    """Offset of the own numbers of feature i."""
    return feature_pair_at(layout, i, i + 1)


def load_pair(state: Floats, offset: int, like: Any) -> tuple[Any, Any]:
    """Both numbers of the pair at ``offset``, which counts doubles."""
    return load(state, offset, like), load(state, offset + width_of(like), like)


def n_sums(n_below: int) -> int:
    """How many sums a row has when ``n_below`` players decide in lanes."""
    return N_TOTALS + 2 * n_below + 1


def player_sum_at(place: int) -> int:
    """Offset of a player's sum; ``place`` counts from the player who decides last."""
    return N_TOTALS + place


def depth_sum_at(n_below: int, depth: int) -> int:
    """Offset of the sum of the coalitions that extend the current coalition at ``depth``."""
    return N_TOTALS + n_below + depth


def member_weight_at(depth: int) -> int:
    """Offset of the member weight of a coalition at ``depth``."""
    return 2 * depth


def common_weight_at(depth: int) -> int:
    """Offset of the common weight of a coalition at ``depth``."""
    return 2 * depth + 1


# What a kernel may call: see `culpa._kernels.kernel.Kernel`.
STATE_FUNCTIONS = (value_at, feature_at, row_pair_at, feature_pair_at, own_at, load_pair)
SUM_FUNCTIONS = (n_sums, player_sum_at, depth_sum_at, member_weight_at, common_weight_at)


def starting_state(layout: StateLayout, value: float, pairs: Floats, own: Floats) -> Floats:
    """The state of the empty coalition, worth ``value``, with zeros where the rows belong.

    Takes the pairs of features (2, k, k) and their own numbers (k, n_own).
    """
    k = len(own)
    state = np.zeros(feature_at(layout, k))
    state[: layout.n_rows] = value
    for i in range(k):
        start, end = feature_pair_at(layout, i, 0), own_at(layout, i)
        state[start:end] = pairs[:, i, : i + 1].T.ravel()
        state[end : end + layout.n_own] = own[i]
    return state
