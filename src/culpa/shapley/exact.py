"""Exact Shapley values: a walk over the tree of all coalitions, eq. (8) of the paper.

Players are decided in order, each in or out. The first few are decided one at a time (depth first, so that memory stays
small), the last few all at once (breadth first, so that arrays are long).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa.games import Coalitions, Game
from culpa.games.base import Array, like
from culpa.shapley.base import Players, Shares, join_player, queue_of, skip_player

_AT_ONCE = 1 << 16  # values of coalitions x rows held at a time: about what fits the processor's cache


def exact(
    game: Game, X: Array, players: Players, *, progress: Callable[[float], None] | None = None, at_once: int = _AT_ONCE
) -> Shares:
    """Shapley values of all players by valuing all 2^players coalitions once."""
    xp = array_namespace(X)
    closed = game.closed_form(X, players)
    if closed is not None:
        return Shares(closed, xp.zeros_like(closed), 1, 0)
    rows = max(1, min(X.shape[0], at_once >> min(len(players), 10)))
    values = [
        _exact_rows(game, X[start : start + rows, :], players, at_once, progress)
        for start in range(0, X.shape[0], rows)
    ]
    result = xp.concat(values, axis=0)
    return Shares(result, xp.zeros_like(result), 1 << len(players), 0)


def tabulate(game: Game, X: Array, players: Players) -> Array:
    """Value of every coalition, (2^players, n); bit i of the row number says whether player i is in."""
    xp = array_namespace(X)
    value = xp.full((1, X.shape[0]), game.base_value, dtype=X.dtype, device=X.device)
    return _grow(game.start(X, queue_of(players), branching=True), value, [len(player) for player in players])


def size_weights(n_players: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weight of v(S) in the Shapley value of a member and of an outsider, by the size of S (0 to n_players)."""
    sizes = range(n_players + 1)
    inside = [0.0] + [1 / (n_players * math.comb(n_players - 1, k - 1)) for k in sizes[1:]]
    outside = [1 / (n_players * math.comb(n_players - 1, k)) for k in sizes[:-1]] + [0.0]
    return np.array(inside), np.array(outside)


def _grow(coalitions: Coalitions, value: Array, sizes: list[int]) -> Array:
    """Values of all coalitions that extend the given ones by the players waiting."""
    xp = array_namespace(value)
    for k, size in enumerate(sizes):
        joined, change = join_player(coalitions, size)
        value = xp.concat([value, value + change], axis=0)
        if k + 1 < len(sizes):
            coalitions = skip_player(coalitions, size).concat(joined)
    return value


def _exact_rows(
    game: Game, X: Array, players: Players, at_once: int, progress: Callable[[float], None] | None
) -> Array:
    xp = array_namespace(X)
    n_players, sizes = len(players), [len(player) for player in players]
    inside, outside = size_weights(n_players)
    both = inside + outside
    wide = max(1, min(n_players, int(math.log2(max(2, at_once / X.shape[0])))))
    deep = n_players - wide
    bits = (np.arange(1 << wide)[None, :] >> np.arange(wide)[:, None]) & 1
    count = bits.sum(axis=0)
    phi: list[Any] = [xp.zeros(X.shape[0], dtype=X.dtype, device=X.device) for _ in players]

    def leaf(coalitions: Coalitions, value: Array, taken: list[int]) -> None:
        value = _grow(coalitions, value, sizes[deep:])
        at = count + len(taken)
        weights = np.vstack([bits * both[at], both[at][None, :], outside[at][None, :]])
        sums = like(weights, X) @ value
        for k in range(wide):
            phi[deep + k] = phi[deep + k] + sums[k, :]
        for i in taken:
            phi[i] = phi[i] + sums[wide, :]
        for i in range(n_players):
            phi[i] = phi[i] - sums[wide + 1, :]

    def descend(i: int, coalitions: Coalitions, value: Array, taken: list[int], done: float) -> None:
        if i == deep:
            leaf(coalitions, value, taken)
            if progress is not None:
                progress(done + 0.5**deep)
            return
        descend(i + 1, skip_player(coalitions, sizes[i]), value, taken, done)
        joined, change = join_player(coalitions, sizes[i])
        descend(i + 1, joined, value + change, [*taken, i], done + 0.5 ** (i + 1))

    empty = xp.full((1, X.shape[0]), game.base_value, dtype=X.dtype, device=X.device)
    descend(0, game.start(X, queue_of(players), branching=True), empty, [], 0.0)
    return xp.stack(phi, axis=1)
