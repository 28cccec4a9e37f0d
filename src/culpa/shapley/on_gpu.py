"""Exact values on a GPU: for which games, for which jobs, and how rows get there and back.

The kernels walk games by elimination (`culpa._kernels.elimination_steps`): the conditional game unless the noise is tiny,
and the minimal game. All others stay on the processor.
"""

from collections.abc import Callable

import numpy as np
from array_api_compat import is_cupy_array, is_torch_array, to_device

from culpa._core.choices import DeviceName
from culpa._core.types import Array, Floats
from culpa._kernels import gpu
from culpa._kernels.elimination_steps import ELIMINATION
from culpa.games import Game
from culpa.games.arrays import as_array_like
from culpa.shapley.shares import Players, Progress, queue_of

SPEED = gpu.SPEED


def serves(game: Game) -> bool:
    """Whether the kernels can walk the game."""
    job = game.tree_job(np.empty((0, game.n_features)), np.arange(game.n_features))
    return job is not None and job.steps is ELIMINATION


def usable(game: Game) -> bool:
    """Whether there is a GPU that can walk the game."""
    return serves(game) and gpu.obstacle() is None


def check(game: Game) -> None:
    """Raise an error if there is no GPU, or if it cannot walk the game."""
    gpu.check_available()
    if not serves(game):
        raise ValueError(
            "device='gpu' walks the conditional and the minimal game without given features, and not if the noise is tiny, "
            "because digits would be lost. Use device='auto'."
        )


def values(
    game: Game,
    X: Array,
    players: Players,
    weights: Callable[[int], tuple[Floats, Floats]],
    device: DeviceName,
    progress: Progress | None,
) -> Array | None:
    """Shapley values (n, players) like ``X``; ``None`` if the processor should do it.

    Players are in the order in which they decide, and ``weights`` is `culpa.shapley.exact.size_weights`.
    """
    if device == "cpu" or not X.shape[0] or len(players) < 2 or not all(players):
        return None
    cost = game.cost.tree_coalition + game.cost.tree_row * X.shape[0]
    if device == "auto" and not gpu.LOADING.is_large(cost * 2.0 ** len(players)):
        return None
    rows = np.asarray(to_device(X, "cpu") if is_torch_array(X) or is_cupy_array(X) else X)
    job = game.tree_job(rows, queue_of(players)[0])
    if job is None or job.steps is not ELIMINATION:
        return None
    if device == "auto" and not gpu.LOADING.pays(job.operations * 2.0 ** len(players)):
        return None
    report = None if progress is None else lambda share: progress(share, None)
    sizes = [len(player) for player in players]
    found = gpu.walk_on_gpu(gpu.LOADING.device(), job.prepare(), weights(len(players)), sizes, report)
    return as_array_like(found, X)
