"""Arrays of any library that follows the array API standard."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from culpa._core.types import Array, Floats, Positions


def as_array_like(array: Any, X: Array) -> Array:
    """``array`` in the namespace and on the device of ``X``; a number becomes a 64-bit number."""
    if isinstance(X, np.ndarray):
        return np.asarray(array)
    # torch would make a 32-bit number of a Python number, and warns about arrays that are read-only
    return array_namespace(X).asarray(np.array(array), device=device(X))


def row_chunks(X: Array, size: int) -> list[Array]:
    """``X`` cut into chunks of at most ``size`` rows."""
    n = X.shape[0]
    return [X[start : min(start + size, n), :] for start in range(0, n, size)]


def gather_pairs(matrix: Floats, queues: Positions, X: Array) -> Array:
    """Submatrices (B, k, k) of a (d, d) matrix, rows and columns in the order of each queue."""
    return as_array_like(matrix[queues[:, :, None], queues[:, None, :]], X)


def gather_columns(X: Array, queues: Positions) -> Array:
    """Columns of ``X`` in the order of each queue, (B, k, n)."""
    xp = array_namespace(X)
    flat = xp.take(xp.permute_dims(X, (1, 0)), as_array_like(queues.reshape(-1), X), axis=0)
    return xp.reshape(flat, (*queues.shape, X.shape[0]))
