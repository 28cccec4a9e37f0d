"""Algorithm 1 of the paper, as printed: the reference that faster engines are checked and measured against.

Every feature draws its own orders, and both coalitions of every order are valued from the definition, with a linear solve
each. So the values do not add up to the score exactly.
"""

from collections.abc import Iterable

import numpy as np

from culpa._core.types import Floats
from culpa.games import Game
from culpa.shapley.shares import Players, Shares


def algorithm1(
    game: Game, X: Floats, players: Players, *, n_orders: int = 1000, seed: int | np.random.Generator | None = 0
) -> Shares:
    """Monte Carlo Shapley values, ``n_orders`` orders (the paper's Q) drawn for each player alone."""
    rng = np.random.default_rng(seed)
    values = np.empty((len(X), len(players)))
    std_error = np.empty_like(values)
    for i in range(len(players)):
        changes = np.empty((n_orders, len(X)))
        for q in range(n_orders):
            order = rng.permutation(len(players))
            before = order[: np.flatnonzero(order == i)[0]]
            changes[q] = _value(game, X, players, [*before, i]) - _value(game, X, players, before)
        values[:, i] = changes.mean(axis=0)
        std_error[:, i] = changes.std(axis=0, ddof=1) / np.sqrt(n_orders) if n_orders > 1 else np.nan
    return Shares(values, std_error, 2 * n_orders * len(players), n_orders)


def _value(game: Game, X: Floats, players: Players, members: Iterable[int]) -> Floats:
    features = [feature for i in members for feature in players[i]]
    return game.value(X, np.array(features, dtype=np.intp))
