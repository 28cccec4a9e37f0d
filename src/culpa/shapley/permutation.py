"""Shapley values from sampled orders.

One order serves all players: everybody joins in turn and is paid the change of value it brings, times the weight that the
rule gives to that step. What the weights leave over of the score is shared out equally, so that the values add up.
"""

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa._core.threads import in_threads, n_threads
from culpa._core.types import Array
from culpa.games import Game
from culpa.games.game import like, row_chunks
from culpa.shapley.rules import Rule
from culpa.shapley.shares import Players, Progress, Shares

_CELLS_PER_CHUNK = 1 << 20  # numbers of coalitions' state held at a time by arrays
_ORDERS_PER_TASK = 64  # at least
_ROWS_PER_TASK = 256
_LONG = 1e9  # operations


def permutation(
    game: Game,
    X: Array,
    players: Players,
    rule: Rule,
    *,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
) -> Shares:
    """Shapley values by the given rule, with standard errors from its replicates."""
    xp = array_namespace(X)
    chunks = row_chunks(X, _ROWS_PER_TASK)
    replicates: list[Any] = []
    for done, rows in enumerate(chunks):
        replicates.append(_replicates(game, rows, players, rule, n_jobs))
        if progress is not None:
            progress((done + 1) / len(chunks), None)
    empty = xp.zeros((rule.n_replicates, 0, len(players)), dtype=X.dtype, device=X.device)
    return summarise(xp.concat(replicates, axis=1) if replicates else empty, rule.n_evaluations)


def summarise(replicates: Array, n_evaluations: int) -> Shares:
    """Mean and standard error of replicates (R, n, players)."""
    xp, R = array_namespace(replicates), replicates.shape[0]
    values = xp.mean(replicates, axis=0)
    unknown = xp.full_like(values, float("nan"))
    return Shares(values, xp.std(replicates, axis=0, correction=1) / R**0.5 if R > 1 else unknown, n_evaluations, R)


def steps(players: Players, orders: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Features in the order in which they join, and whom each step pays, both (Q, k).

    A group's features join one after the other, and each of these steps pays the group.
    """
    sizes = np.array([len(player) for player in players])
    if (sizes == 1).all():
        members = np.array([player[0] for player in players], dtype=np.intp)
        paid = orders
        queues = orders if (members == np.arange(len(members))).all() else members[orders]
    else:
        paid = np.stack([np.repeat(order, sizes[order]) for order in orders])
        queues = np.stack([np.concatenate([players[i] for i in order]) for order in orders]).astype(np.intp)
    return np.ascontiguousarray(queues), np.ascontiguousarray(paid)


def _replicates(game: Game, X: Array, players: Players, rule: Rule, n_jobs: int | None) -> Array:
    """Estimates (R, n, players) of every replicate, each adding up to the score."""
    xp = array_namespace(X)
    queues, paid = steps(players, rule.orders)
    operations = rule.n_evaluations * (game.cost.order_coalition + X.shape[0] * game.cost.order_row)
    nobody: Any = game.start(X, queues[:1], branching=False)
    compiled = getattr(nobody, "walk_pays", lambda _: False)(operations)
    if not compiled:
        batch = max(1, _CELLS_PER_CHUNK // (game.n_features * (X.shape[0] + game.n_features)))
    else:  # several tasks per thread of a long job, so that a busy core does not hold up the rest
        pieces = n_threads(n_jobs) * (4 if operations > _LONG else 1)
        batch = max(_ORDERS_PER_TASK, -(-len(rule.orders) // pieces))

    def walk(which: slice) -> tuple[Any, Any]:
        if compiled:
            return nobody.walk(queues[which], paid[which], rule.weights[:, which])  # type: ignore[no-any-return]
        coalitions = game.start(X, queues[which], branching=False)
        return _walk_arrays(coalitions, X, paid[which], rule.weights[:, which])

    tasks = [slice(start, start + batch) for start in range(0, len(rule.orders), batch)]
    parts = in_threads(walk, tasks, n_jobs if compiled else 1)
    values = sum(part[0] for part in parts)
    score = sum(part[1] for part in parts) / len(rule.orders)
    gap = score[None, None, :] - xp.sum(values, axis=1, keepdims=True)
    return xp.permute_dims(values + gap / len(players), (0, 2, 1))


def _walk_arrays(
    coalitions: Any, X: Array, paid: NDArray[np.intp], weights: NDArray[np.float64]
) -> tuple[Array, Array]:
    """Weighted changes of value by player, (R, players, n), and their unweighted total over all orders, (n,)."""
    xp = array_namespace(X)
    R, batch, n_players = weights.shape
    each = np.arange(batch)
    values = xp.zeros((R * n_players, X.shape[0]), dtype=X.dtype, device=X.device)
    total = xp.zeros((X.shape[0],), dtype=X.dtype, device=X.device)
    for step in range(paid.shape[1]):
        coalitions, change = coalitions.join()
        pay = np.zeros((R, n_players, batch))
        pay[:, paid[:, step], each] = weights[:, each, paid[:, step]]
        values = values + like(pay.reshape(R * n_players, batch), X) @ change
        total = total + xp.sum(change, axis=0)
    return xp.reshape(values, (R, n_players, X.shape[0])), total
