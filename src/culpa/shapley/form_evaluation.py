"""Quadratic forms of many rows: a product of coefficients, one row for each form, and products of features.

A compiled kernel (`culpa._kernels.form_values`) does it for many rows of few features, and BLAS otherwise.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache

import numpy as np
from array_api_compat import array_namespace

from culpa._core.threads import in_threads, n_threads, one_blas_thread
from culpa._core.types import Array, Floats, Positions
from culpa._kernels.form_values import FormValues
from culpa.games.arrays import as_array_like, row_chunks

_CHUNK = 1 << 20  # products of features held at a time: large enough that calling BLAS costs nothing
_CHUNK_ELSEWHERE = 1 << 24  # the same on a GPU
_ALONE = 10**7  # multiplications that one thread does before another one could have started
_AT_ONCE = 10**9  # multiplications that a compiled kernel does in a tenth of a second, after which Ctrl-C is answered
_FEW_ROWS = 4  # of which all products are found at once
_LIMITED = 10**6  # multiplications from which on BLAS uses threads, and limiting these costs little


def n_products(n_features: int) -> int:
    """Number of products x_a x_b with a <= b."""
    return n_features * (n_features + 1) // 2


@lru_cache(maxsize=8)
def upper(d: int) -> tuple[Positions, Positions]:
    """All pairs a <= b of features: np.triu_indices(d), which would take five times as long if d is small."""
    everybody = np.arange(d)
    first, second = np.nonzero(np.less_equal.outer(everybody, everybody))
    return first, second


def evaluate_threaded(
    flat: Floats, constants: Floats, X: Floats, coordinates: Floats | None, n_jobs: int | None
) -> Floats:
    """flat @ products of features + constants, for all rows: threads over chunks, one BLAS thread in each."""
    n, d = X.shape
    if n <= _FEW_ROWS:
        rows = X if coordinates is None else X @ coordinates
        first, second = upper(d)
        # next to busy processes, threads of BLAS would wait for each other ten times as long as one takes
        with one_blas_thread() if n * flat.size > _LIMITED else nullcontext():
            return np.asarray((rows[:, first] * rows[:, second]) @ flat.T + constants)
    chunk = max(256, _CHUNK // n_products(d))
    # a few tasks per thread, so that a busy core does not hold up the rest; none too small to be worth a thread
    size = max(_ALONE // flat.size, -(-n // (8 * n_threads(n_jobs))))
    result = np.empty((n, len(flat)))
    compiled = FormValues.if_worth(flat, constants, n)
    if compiled is not None:
        size = min(size, max(1, _AT_ONCE // flat.size))

    def evaluate(rows: slice) -> None:
        if compiled is not None:
            compiled.evaluate(X[rows] if coordinates is None else X[rows] @ coordinates, result[rows])
            return
        products = np.empty((n_products(d), min(chunk, rows.stop - rows.start)))
        for start in range(rows.start, rows.stop, chunk):
            stop = min(start + chunk, rows.stop)
            rows_here = X[start:stop] if coordinates is None else X[start:stop] @ coordinates
            here = products[:, : stop - start]
            _multiply(np.ascontiguousarray(rows_here.T), here)
            np.add((flat @ here).T, constants, out=result[start:stop])

    in_threads(evaluate, [slice(start, min(start + size, n)) for start in range(0, n, size)], n_jobs)
    return result


def evaluate_each(
    flat: Sequence[Floats], constants: Sequence[Floats], X: Floats, starts: Positions, n_jobs: int | None = -1
) -> Floats:
    """The same by several sets of forms in the features' own coordinates.

    Rows are sorted by the set that they go through, and ``starts`` tells where the rows of each begin and the last end.
    """
    n, d = X.shape
    chunk = max(256, _CHUNK // n_products(d))
    result = np.empty((n, len(constants[0])))

    def evaluate(start: int) -> None:
        stop = min(start + chunk, n)
        products = np.empty((n_products(d), stop - start))
        _multiply(np.ascontiguousarray(X[start:stop].T), products)
        first, last = np.searchsorted(starts, [start, stop - 1], side="right") - 1
        for k in range(first, last + 1):
            here = slice(max(start, starts[k]), min(stop, starts[k + 1]))
            values = flat[k] @ products[:, here.start - start : here.stop - start]
            np.add(values.T, constants[k], out=result[here])

    in_threads(evaluate, range(0, n, chunk), n_jobs)
    return result


def _multiply(columns: Floats, products: Floats) -> None:
    """Products of features a <= b, (products, n), of features (d, n)."""
    d, at = len(columns), 0
    for a in range(d):
        np.multiply(columns[a:], columns[a], out=products[at : at + d - a])
        at += d - a


def evaluate_elsewhere(
    flat: Floats, constants: Floats, X: Array, coordinates: Floats | None, n_jobs: int | None
) -> Array:
    """The same for arrays of another library, such as torch tensors on a GPU."""
    xp = array_namespace(X)
    d = X.shape[1]
    first, second = (as_array_like(index, X) for index in np.triu_indices(d))
    weights, shift = as_array_like(flat.T, X), as_array_like(constants, X)
    chunk = max(1, _CHUNK_ELSEWHERE // n_products(d))
    parts = []
    for rows in row_chunks(X, chunk):
        if coordinates is not None:
            rows = rows @ as_array_like(coordinates, X)
        products = xp.take(rows, first, axis=1) * xp.take(rows, second, axis=1)
        parts.append(products @ weights + shift)
    return xp.concat(parts, axis=0) if parts else xp.zeros((0, flat.shape[0]), dtype=X.dtype, device=X.device)
