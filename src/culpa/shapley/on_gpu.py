"""Values on a GPU: for which games, for which jobs, and how rows get there and back.

| what | kernels | for which games |
| --- | --- | --- |
| exact values | `culpa._kernels.cuda.tree` | minimal, and conditional unless noise is tiny and differs between features |
| sampled coalitions | those of CuPy | with contributions at once: `Game.marginals` |
| compiled forms | those of CuPy | all |

All others stay on the processor.
"""

from collections.abc import Callable

import numpy as np
from array_api_compat import is_cupy_array, is_torch_array, to_device

from culpa._core.choices import DeviceName
from culpa._core.types import Array, Floats
from culpa._kernels.cuda import device as gpu
from culpa._kernels.cuda.states import kind_of
from culpa._kernels.cuda.tree import walk_on_gpu
from culpa.games import Game
from culpa.games.arrays import as_array_like
from culpa.shapley.shares import Players, Progress, queue_of

SPEED = gpu.SPEED


def serves(game: Game) -> bool:
    """Whether the kernels can walk the game."""
    job = game.tree_job(np.empty((0, game.n_features)), np.arange(game.n_features))
    return job is not None and kind_of(job.steps) is not None


def usable(game: Game) -> bool:
    """Whether there is a GPU that can walk the game."""
    return serves(game) and gpu.obstacle() is None


def check(game: Game) -> None:
    """Raise an error if there is no GPU, or if it cannot walk the game."""
    gpu.check_available()
    if not serves(game):
        raise ValueError(
            "device='gpu' walks the conditional and the minimal game without given features, and not if the noise is tiny "
            "and differs between features, because digits would be lost. Use device='auto'."
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
    rows = on_processor(X)
    job = game.tree_job(rows, queue_of(players)[0])
    kind = None if job is None else kind_of(job.steps)
    if job is None or kind is None:
        return None
    if device == "auto" and not gpu.LOADING.pays(job.operations * 2.0 ** len(players)):
        return None
    report = None if progress is None else lambda share: progress(share, None)
    sizes = [len(player) for player in players]
    found = walk_on_gpu(gpu.LOADING.device(), kind, job.prepare(), weights(len(players)), sizes, report)
    return as_array_like(found, X)


def forms_pay(n_rows: int, n_coefficients: int, device: DeviceName) -> bool:
    """Whether forms of so many rows at a time should be evaluated on the GPU."""
    return n_rows > 0 and _is_for_gpu(float(n_rows) * n_coefficients, device)


def rows_there(X: Array, operations: float, device: DeviceName) -> Array | None:
    """NumPy rows as an array on the GPU, for so many operations there; ``None`` if the processor should do them."""
    if not isinstance(X, np.ndarray) or not X.shape[0] or not _is_for_gpu(operations, device):
        return None
    return gpu.LOADING.device().xp.asarray(X, dtype=np.float64)


def to_numpy(array: Array) -> Floats:
    """What was computed on the GPU, on the processor."""
    return gpu.on_cpu(array)


def _is_for_gpu(operations: float, device: DeviceName) -> bool:
    if device == "gpu":
        gpu.check_available()
        return True
    return device == "auto" and gpu.LOADING.pays(operations)


def on_processor(X: Array) -> Floats:
    """Rows of any library as a NumPy array."""
    return np.asarray(to_device(X, "cpu") if is_torch_array(X) or is_cupy_array(X) else X)
