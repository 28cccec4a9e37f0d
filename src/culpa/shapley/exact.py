"""Exact Shapley values: a walk over the tree of all coalitions, eq. (8) of the paper.

Players decide in order whether they are in. A compiled kernel walks the tree piece by piece, and a GPU does it for large
jobs (`culpa.shapley.on_gpu`). For small jobs arrays do it, the first players depth first and the others breadth first.
"""

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa._core.choices import DeviceName
from culpa._core.threads import in_threads
from culpa._core.types import Array
from culpa._kernels.tree import FEWEST_PLAYERS, Tree
from culpa.games import Coalitions, Game
from culpa.games.arrays import as_array_like, row_chunks
from culpa.shapley import on_gpu
from culpa.shapley.shares import Players, Progress, Shares, join_player, part_of, queue_of, skip_player

Bits = NDArray[np.int64]

# Values of coalitions x rows held at a time by arrays: about what fits the processor's cache, and more on a GPU.
_VALUES_PER_CHUNK, _VALUES_PER_CHUNK_ON_GPU = 1 << 16, 1 << 24
# Tasks for threads to share, and how many values a task has at least (a fifth of a millisecond) and at most (a twentieth
# of a second, because Ctrl-C is answered between two tasks). They do not depend on the number of threads, so the rounding
# of the result does not either.
_TASKS, _FEWEST_VALUES, _MOST_VALUES = 16, 1.2e5, 2e7


def exact(
    game: Game,
    X: Array,
    players: Players,
    *,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
    at_once: int | None = None,
    device: DeviceName = "auto",
) -> Shares:
    """Shapley values of all players by valuing all 2^players coalitions once."""
    xp = array_namespace(X)
    closed = game.closed_form(X, players)
    if closed is not None:
        return Shares(closed, xp.zeros_like(closed), 1, 0)
    at_once = at_once or (_VALUES_PER_CHUNK if isinstance(X, np.ndarray) else _VALUES_PER_CHUNK_ON_GPU)
    order = game.deciding_order(players)
    ordered = [players[i] for i in order]
    on_the_gpu = on_gpu.values(game, X, ordered, size_weights, device, progress)
    tree = _compiled_tree(game, X, ordered) if on_the_gpu is None else None
    if on_the_gpu is not None:
        result = xp.take(on_the_gpu, as_array_like(np.argsort(order), X), axis=1)
    elif tree is not None:
        result = np.zeros((len(X), len(players)))
        result[:, order] = _walk_tree(tree, len(X), len(players), n_jobs, progress)
    else:
        chunks, values = row_chunks(X, max(1, at_once >> min(len(players), 10))), []
        for done, rows in enumerate(chunks):
            report = part_of(progress, done, len(chunks))
            values.append(_walk_arrays(game, rows, players, at_once, report))
        result = xp.concat(values, axis=0) if values else xp.zeros((0, len(players)), dtype=X.dtype, device=X.device)
    return Shares(result, xp.zeros_like(result), 1 << len(players), 0)


def tabulate(game: Game, X: Array, players: Players) -> Array:
    """Value of every coalition, (2^players, n); bit i of the row number says whether player i is in."""
    value = _empty_value(game, X)
    return _grow(game.start(X, queue_of(players), branching=True), value, [len(player) for player in players])


def size_weights(n_players: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Member weights and common weights, by the size of a coalition S (0 to n_players).

    In the Shapley value of i, v(S) has the weight a if i is a member of S, and -b if not. So v(S) counts with a + b for the
    members (member weight) and with -b for everybody (b is the common weight).
    """
    sizes = range(n_players + 1)
    a = np.array([0.0] + [1 / (n_players * math.comb(n_players - 1, k - 1)) for k in sizes[1:]])
    b = np.array([1 / (n_players * math.comb(n_players - 1, k)) for k in sizes[:-1]] + [0.0])
    return a + b, b


def _compiled_tree(game: Game, X: Array, players: Players) -> Tree | None:
    """The tree of all coalitions, if the game offers a kernel for it and that pays."""
    if not isinstance(X, np.ndarray) or not len(X) or len(players) < FEWEST_PLAYERS:
        return None
    job = game.tree_job(X, queue_of(players)[0])
    if job is None:
        return None
    kernel, operations = job.steps.kernel, 2.0 ** len(players) * job.operations
    if not kernel.pays(operations):
        kernel.note_work_without(operations)
        return None
    return Tree(job.steps, job.prepare(), size_weights(len(players)), [len(player) for player in players])


def _walk_tree(tree: Tree, n: int, n_players: int, n_jobs: int | None, progress: Progress | None) -> Array:
    n_values = n * 2.0**n_players
    n_tasks = int(np.clip(max(min(n_values / _FEWEST_VALUES, _TASKS), n_values / _MOST_VALUES), 1, tree.n_pieces))
    edges = [tree.n_pieces * task // n_tasks for task in range(n_tasks + 1)]
    values = np.zeros((n, n_players))
    tasks = range(n_tasks)
    for part in in_threads(lambda task: tree.walk(edges[task], edges[task + 1]), tasks, n_jobs, progress):
        values[part.rows] += part.values
    return values


def _walk_arrays(game: Game, X: Array, players: Players, at_once: int, progress: Progress | None) -> Array:
    xp, sizes, n_players = array_namespace(X), [len(player) for player in players], len(players)
    wide = max(1, min(n_players, int(math.log2(max(2, at_once / X.shape[0])))))
    decided = n_players - wide
    # everything as large as the tree is made where the rows are: nothing large travels to a GPU
    tables = [as_array_like(table, X) for table in size_weights(n_players)]
    count = as_array_like(np.zeros(1, dtype=np.int64), X)
    for _ in range(wide):
        count = xp.concat([count, count + 1], axis=0)

    @cache
    def weights(joined: int) -> tuple[Array, ...]:
        return tuple(xp.take(table, count + joined)[:, None] for table in tables)

    start = game.start(X, queue_of(players), branching=True)
    phi = [xp.zeros(X.shape[0], dtype=X.dtype, device=X.device) for _ in players]
    common: Array = 0.0
    for done, (coalitions, value, members) in enumerate(_leaves(start, _empty_value(game, X), sizes[:decided])):
        value = _grow(coalitions, value, sizes[decided:])
        member_weights, common_weights = weights(int(members.sum()))
        common = common + xp.sum(common_weights * value, axis=0)
        everybody, waiting = _sums_with_each(member_weights * value, wide)
        for i in range(decided):
            if members[i]:
                phi[i] = phi[i] + everybody
        for i in range(wide):
            phi[decided + i] = phi[decided + i] + waiting[i]
        if progress is not None:
            progress((done + 1) / (1 << decided), None)
    return xp.stack(phi, axis=1) - common[:, None]


def _sums_with_each(value: Array, n_players: int) -> tuple[Array, list[Array]]:
    """Sum over all coalitions, and over those with each player, of values (2^players, n) in binary order.

    The coalitions with the last player are the upper half; adding it to the lower half leaves the others' sums alone.
    """
    xp = array_namespace(value)
    sums = []
    for i in reversed(range(n_players)):
        lower, upper = value[: 1 << i, :], value[1 << i :, :]
        sums.append(xp.sum(upper, axis=0))
        value = lower + upper
    return value[0, :], sums[::-1]


def _leaves(coalitions: Coalitions, value: Array, sizes: list[int]) -> Iterator[tuple[Coalitions, Array, Bits]]:
    """All choices of the players of these sizes, depth first: coalition, its value (1, n), and who is in."""
    if not sizes:
        yield coalitions, value, np.zeros(0, dtype=np.int64)
        return
    after, change = join_player(coalitions, sizes[0])
    for own, (start, worth) in enumerate(((skip_player(coalitions, sizes[0]), value), (after, value + change))):
        for leaf, its_value, members in _leaves(start, worth, sizes[1:]):
            yield leaf, its_value, np.append(own, members)


def _grow(coalitions: Coalitions, value: Array, sizes: list[int]) -> Array:
    """Values of all coalitions that extend the given ones by waiting players."""
    xp = array_namespace(value)
    for k, size in enumerate(sizes):
        joined, change = join_player(coalitions, size)
        value = xp.concat([value, value + change], axis=0)
        if k + 1 < len(sizes):
            coalitions = skip_player(coalitions, size).concat(joined)
    return value


def _empty_value(game: Game, X: Array) -> Array:
    return array_namespace(X).full((1, X.shape[0]), game.base_value, dtype=X.dtype, device=X.device)
