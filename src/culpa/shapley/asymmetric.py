"""Asymmetric Shapley values: causes join before their effects, and so are credited with what they imply about them.

A Shapley value is a player's mean change of value over all orders. The asymmetric one is the mean over the admissible
orders, in which everybody joins after all players upstream. Coalitions are then down-sets, and with r and b as in
`culpa.shapley.down_sets`

    phi_i = sum over S of r(S) b(S + i) / b(S) (v(S + i) - v(S)).

Values add up to the score as always. Without any relation they are the Shapley values.

References
----------
Frye, Rowat and Feige (2020), "Asymmetric Shapley values: incorporating causal knowledge into model-agnostic
explainability".
"""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace

from culpa._core.types import Array, Positions
from culpa.games import Coalitions, Game
from culpa.games.arrays import as_array_like, row_chunks
from culpa.shapley.down_sets import DownSets
from culpa.shapley.shares import Players, Progress, Shares, join_player, queue_of, skip_player

_VALUES_PER_CHUNK = 1 << 22  # values of down-sets x rows held at a time
_MOST_ROWS = 256  # at a time
_CELLS_PER_CHUNK = 1 << 20  # numbers of coalitions' state held at a time


def asymmetric(
    game: Game, X: Array, players: Players, down_sets: DownSets, *, progress: Progress | None = None
) -> Shares:
    """Exact asymmetric Shapley values, by valuing every down-set once."""
    xp, values = array_namespace(X), []
    rows_at_once = max(1, min(_MOST_ROWS, _VALUES_PER_CHUNK // len(down_sets)))
    chunks = row_chunks(X, rows_at_once)
    for done, rows in enumerate(chunks):
        values.append(_shares(_worth(game, rows, players, down_sets), down_sets))
        if progress is not None:
            progress((done + 1) / len(chunks), None)
    result = xp.concat(values, axis=0) if values else xp.zeros((0, len(players)), dtype=X.dtype, device=X.device)
    return Shares(result, xp.zeros_like(result), len(down_sets), 0)


def _shares(worth: Array, down_sets: DownSets) -> Array:
    """Shares (n, players) from the worth of all down-sets, (N, n)."""
    xp = array_namespace(worth)
    shares: dict[int, Array] = {}
    for place, player in enumerate(down_sets.order):
        steps = down_sets.steps(place)
        before, after = (xp.take(worth, as_array_like(sets, worth), axis=0) for sets in steps[:2])
        shares[player] = as_array_like(steps.share, worth) @ (after - before)
    return xp.stack([shares[player] for player in range(len(shares))], axis=1)


def _worth(game: Game, X: Array, players: Players, down_sets: DownSets) -> Array:
    """Values of all down-sets, (N, n)."""
    xp = array_namespace(X)
    found = list(_walk(game, X, [players[i] for i in down_sets.order], down_sets))
    place = np.empty(len(down_sets), dtype=np.intp)
    place[np.concatenate([sets for sets, _ in found])] = np.arange(len(down_sets))
    return xp.take(xp.concat([worth for _, worth in found], axis=0), as_array_like(place, X), axis=0)


def _walk(game: Game, X: Array, players: Players, down_sets: DownSets) -> Iterator[tuple[Positions, Array]]:
    """Down-sets and their values, (sets, n), piece by piece. Players are in the order in which they decide.

    Coalitions go through the players together, in batches that are split when they become too large. Who may not join is
    skipped, and a coalition that nobody else may join is dropped.
    """
    xp, n_features, last = array_namespace(X), game.n_features, down_sets.last_to_join()
    most = max(1, _CELLS_PER_CHUNK // (n_features * (X.shape[0] + n_features)))
    nobody = xp.full((1, X.shape[0]), game.base_value, dtype=X.dtype, device=X.device)
    start = _Batch(game.start(X, queue_of(players), branching=True), np.zeros(1, dtype=np.intp), nobody)
    yield start.sets, start.worth
    waiting = [(0, start)]
    while waiting:
        place, batch = waiting.pop()
        if len(batch.sets) > most:
            parts = np.array_split(np.arange(len(batch.sets)), -(-len(batch.sets) // most))
            waiting += [(place, batch.choose(part)) for part in parts]
            continue
        child, size = down_sets.children[place, batch.sets].astype(np.intp), len(players[place])
        following = [batch.choose(np.flatnonzero(last[batch.sets] > place)).skip(size)]
        joining = np.flatnonzero(child >= 0)
        if len(joining):
            joined = batch.choose(joining).join(size, child[joining])
            yield joined.sets, joined.worth
            following.append(joined.choose(np.flatnonzero(last[joined.sets] > place)))
        left = [part for part in following if len(part.sets)]
        if left:
            waiting.append((place + 1, left[0] if len(left) == 1 else left[0].concat(left[1])))


class _Batch(NamedTuple):
    """Coalitions that wait for the same player, which down-sets they are, and their values (sets, n)."""

    coalitions: Coalitions
    sets: Positions
    worth: Array

    def choose(self, which: Positions) -> Self:
        """Some of the coalitions of the batch."""
        if len(which) == len(self.sets):
            return self
        at = as_array_like(which, self.worth)
        worth = array_namespace(self.worth).take(self.worth, at, axis=0)
        return type(self)(self.coalitions.choose(at), self.sets[which], worth)

    def skip(self, size: int) -> Self:
        """A player of ``size`` features is passed over."""
        return self._replace(coalitions=skip_player(self.coalitions, size))

    def join(self, size: int, sets: Positions) -> Self:
        """A player of ``size`` features joins, which makes these sets."""
        coalitions, change = join_player(self.coalitions, size)
        return type(self)(coalitions, sets, self.worth + change)

    def concat(self, other: Self) -> Self:
        """The coalitions of both batches."""
        worth = array_namespace(self.worth).concat([self.worth, other.worth], axis=0)
        sets = np.concatenate([self.sets, other.sets])
        return type(self)(self.coalitions.concat(other.coalitions), sets, worth)
