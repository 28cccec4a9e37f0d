"""Shapley values from sampled orders.

One order serves all players: they join in turn, and each is paid its marginal contribution times the weight that the rule
gives to that step. What the weighted contributions leave over of the score is shared out equally, so that the values add
up.
"""

from itertools import pairwise

import numpy as np
from array_api_compat import array_namespace

from culpa._core.choices import DeviceName
from culpa._core.threads import in_threads, n_threads
from culpa._core.types import Array, Floats, Positions
from culpa._kernels.orders import OrderWalk
from culpa.games import Coalitions, Game
from culpa.games.arrays import as_array_like, row_chunks
from culpa.shapley import on_gpu
from culpa.shapley.rules import Rule
from culpa.shapley.shares import Players, Progress, Shares

# Numbers of coalitions' state held at a time by arrays. On a GPU a step takes as long for few orders as for many.
_CELLS_PER_CHUNK, _CELLS_PER_CHUNK_ON_GPU = 1 << 20, 1 << 26
_ORDERS_PER_TASK = 64  # at least
_ROWS_PER_TASK = 256
_LONG_JOB = 1e9  # operations


def permutation(
    game: Game,
    X: Array,
    players: Players,
    rule: Rule,
    *,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
    device: DeviceName = "auto",
) -> Shares:
    """Shapley values by the given rule, with standard errors from its replicates."""
    replicates = replicated(game, X, players, rule, n_jobs=n_jobs, progress=progress, device=device)
    return summarise(replicates, rule.n_evaluations)


def replicated(
    game: Game,
    X: Array,
    players: Players,
    rule: Rule,
    *,
    n_jobs: int | None,
    progress: Progress | None = None,
    device: DeviceName = "auto",
) -> Array:
    """Shapley values by each replicate of a rule, (replicates, n, players)."""
    xp = array_namespace(X)
    there = on_gpu.order_walk(game, X, _operations(game, X.shape[0], rule), device)
    if there is not None:
        result = _replicates_on_gpu(there, X, players, rule)
        if progress is not None:
            progress(1.0, None)
        return result
    chunks = row_chunks(X, _ROWS_PER_TASK)
    replicates: list[Array] = []
    for done, rows in enumerate(chunks):
        replicates.append(_replicates(game, rows, players, rule, n_jobs))
        if progress is not None:
            progress((done + 1) / len(chunks), None)
    empty = xp.zeros((rule.n_replicates, 0, len(players)), dtype=X.dtype, device=X.device)
    return xp.concat(replicates, axis=1) if replicates else empty


def summarise(replicates: Array, n_evaluations: int) -> Shares:
    """Mean and standard error of replicates (replicates, n, players).

    A few replicates tell little about the error of one value, so intervals have few degrees of freedom. Other players
    cannot help: some matter much, and others not at all, and a mean of their errors is too small for the former.
    """
    xp, n = array_namespace(replicates), replicates.shape[0]
    values = xp.mean(replicates, axis=0)
    if n == 1:
        return Shares(values, xp.full_like(values, float("nan")), n_evaluations, n)
    return Shares(values, xp.std(replicates, axis=0, correction=1) / n**0.5, n_evaluations, n)


def steps(players: Players, orders: Positions) -> tuple[Positions, Positions]:
    """Features in the order in which they join, and the player that each step pays, both (orders, k).

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


def usable_order_walk(game: Game, X: Array, operations: float) -> OrderWalk | None:
    """The compiled walk over orders, if the game offers one and it pays for that many operations."""
    walk = game.order_walk(X)
    if walk is None or walk.kernel.pays(operations):
        return walk
    walk.kernel.note_work_without(operations)
    return None


def _operations(game: Game, n: int, rule: Rule) -> float:
    return rule.n_evaluations * (game.cost.order_coalition + n * game.cost.order_row)


def _replicates_on_gpu(walk: on_gpu.OrdersOnGpu, X: Array, players: Players, rule: Rule) -> Array:
    values, total = walk.changes(*steps(players, rule.orders), rule.weights)
    return as_array_like(_adding_up(values, total / len(rule.orders)), X)


def _replicates(game: Game, X: Array, players: Players, rule: Rule, n_jobs: int | None) -> Array:
    """Estimates (replicates, n, players), each adding up to the score."""
    values, total = weighted_changes(game, X, players, rule, n_jobs)
    return _adding_up(values, total / len(rule.orders))


def weighted_changes(
    game: Game, X: Array, players: Players, rule: Rule, n_jobs: int | None = -1
) -> tuple[Array, Array]:
    """Changes of value by player, weighted, (replicates, players, n), and their unweighted total over all orders, (n,)."""
    queues, paid = steps(players, rule.orders)
    operations = _operations(game, X.shape[0], rule)
    compiled = usable_order_walk(game, X, operations)
    if compiled is None:
        cells = _CELLS_PER_CHUNK if isinstance(X, np.ndarray) else _CELLS_PER_CHUNK_ON_GPU
        batch = max(1, cells // (game.n_features * (X.shape[0] + game.n_features)))
    else:  # several tasks per thread of a long job, so that a busy core does not hold up the rest
        pieces = n_threads(n_jobs) * (4 if operations > _LONG_JOB else 1)
        batch = max(_ORDERS_PER_TASK, -(-len(rule.orders) // pieces))

    def walk(which: slice) -> tuple[Array, Array]:
        if compiled is not None:
            return compiled.changes(queues[which], paid[which], rule.weights[:, which])
        coalitions = game.start(X, queues[which], branching=False)
        return _walk_arrays(coalitions, X, paid[which], rule.weights[:, which])

    tasks = [slice(start, start + batch) for start in range(0, len(rule.orders), batch)]
    parts = in_threads(walk, tasks, 1 if compiled is None else n_jobs)
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def _adding_up(values: Array, score: Array) -> Array:
    """Values (replicates, players, n) as (replicates, n, players), with what they leave over of the score shared out."""
    xp = array_namespace(values)
    gap = score[None, None, :] - xp.sum(values, axis=1, keepdims=True)
    return xp.permute_dims(values + gap / values.shape[1], (0, 2, 1))


def _walk_arrays(coalitions: Coalitions, X: Array, paid: Positions, weights: Floats) -> tuple[Array, Array]:
    """Weighted changes of value by player, (replicates, players, n), and their unweighted total over all orders, (n,)."""
    xp = array_namespace(X)
    batch, k = paid.shape
    changes = []
    for _ in range(k):
        coalitions, change = coalitions.join()
        changes.append(change)
    # from the order of steps to the order of players, in which a group's features are neighbours
    steps_by_player = np.argsort(paid, axis=1, kind="stable").T
    which = as_array_like((steps_by_player * batch + np.arange(batch)).ravel(), X)
    change = xp.reshape(xp.take(xp.concat(changes, axis=0), which, axis=0), (k, batch, X.shape[0]))
    player = np.sort(paid[0])
    pay = as_array_like(np.ascontiguousarray(weights[:, :, player].transpose(2, 0, 1)), X)
    values = pay @ change  # (k, replicates, n)
    if k > weights.shape[2]:
        ends = np.cumsum(np.bincount(player))
        values = xp.stack([xp.sum(values[a:b, :, :], axis=0) for a, b in pairwise([0, *ends.tolist()])], axis=0)
    return xp.permute_dims(values, (1, 0, 2)), xp.sum(xp.sum(change, axis=0), axis=0)
