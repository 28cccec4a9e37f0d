"""Shapley values from sampled orders.

One order serves all players: everybody joins in turn and is paid the change of value it brings. So the payments of each
order add up to the score exactly, however few orders are walked. Standard errors come from independent replicates.
"""

from collections.abc import Callable, Sequence

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa.games import Game
from culpa.games.base import Array, like
from culpa.shapley.base import Players, Shares
from culpa.shapley.orders import sobol_orders

_AT_ONCE = 1 << 20  # numbers of coalitions' state held at a time


def permutation(
    game: Game,
    X: Array,
    players: Players,
    *,
    n_orders: int = 1024,
    n_replicates: int = 8,
    seed: int | np.random.Generator | None = 0,
    orders: Sequence[NDArray[np.intp]] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Shares:
    """Mean change of value over ``n_orders`` orders in ``n_replicates`` independently scrambled sets.

    ``orders`` gives the sets explicitly; with a single set the standard errors are unknown (NaN).
    """
    xp = array_namespace(X)
    if orders is None:
        rng = np.random.default_rng(seed)
        each = max(2, n_orders // n_replicates)
        orders = [sobol_orders(len(players), each, rng) for _ in range(n_replicates)]
    means = []
    for done, replicate in enumerate(orders):
        means.append(_mean_change(game, X, players, np.asarray(replicate)))
        if progress is not None:
            progress((done + 1) / len(orders))
    stacked = xp.stack(means)
    values = xp.mean(stacked, axis=0)
    if len(means) > 1:
        std_error = xp.std(stacked, axis=0, correction=1) / len(means) ** 0.5
    else:
        std_error = xp.full_like(values, float("nan"))
    return Shares(values, std_error, sum(replicate.size for replicate in orders), len(means))


def _mean_change(game: Game, X: Array, players: Players, orders: NDArray[np.intp]) -> Array:
    """Mean change of value that each player brings, over the given orders, (n, players)."""
    xp = array_namespace(X)
    batch = max(1, _AT_ONCE // (game.n_features * (X.shape[0] + game.n_features)))
    sums = xp.zeros((len(players), X.shape[0]), dtype=X.dtype, device=X.device)
    for start in range(0, len(orders), batch):
        sums = sums + _walk(game, X, players, orders[start : start + batch])
    return xp.permute_dims(sums, (1, 0)) / len(orders)


def _walk(game: Game, X: Array, players: Players, orders: NDArray[np.intp]) -> Array:
    """Change of value that each player brings, summed over the orders, (players, n)."""
    xp = array_namespace(X)
    queues = np.array([[feature for i in order for feature in players[i]] for order in orders], dtype=np.intp)
    # whom each step of each order pays: groups are paid once per member
    paid = np.array([[i for i in order for _ in players[i]] for order in orders], dtype=np.intp)
    coalitions = game.start(X, queues, branching=False)
    sums = xp.zeros((len(players), X.shape[0]), dtype=X.dtype, device=X.device)
    for step in range(queues.shape[1]):
        coalitions, change = coalitions.join()
        pay = (np.arange(len(players))[:, None] == paid[:, step]).astype(np.float64)
        sums = sums + like(pay, X) @ change
    return sums
