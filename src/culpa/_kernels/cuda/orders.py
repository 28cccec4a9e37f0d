"""Sampled orders on a GPU: the Python side of `orders.cu`.

| name | meaning |
| --- | --- |
| n | rows |
| d | features |
| p | latent variables |
| k | steps of an order |
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats, Positions
from culpa._kernels.cuda.device import Device, on_cpu
from culpa._kernels.orders import OrderWalk

_SHARE_OF_BYTES = 0.25  # of what the device may use, for gains and for changes of value
_MOST_BLOCKS = 1 << 12  # that follow orders whose triangles do not fit into shared memory
_FEWEST_THREADS, _FEW = 32, 512  # of a block, and threads for each multiprocessor


class _Part(NamedTuple):
    """Orders that are walked together, on the device."""

    which: slice
    queues: Any  # (orders, k)
    paid: Any
    gains: Any  # (orders, k, p, 2)
    variances: Any  # (orders, k)


class OrdersOnGpu:
    """Orders of a game on a GPU: the same numbers as those of `OrderWalk`, up to rounding."""

    def __init__(self, device: Device, walk: OrderWalk) -> None:
        xp = device.xp
        self._device, self._program, self._walk = device, device.program("orders"), walk
        self._loadings, self._b = xp.asarray(np.ascontiguousarray(walk.loadings)), xp.asarray(walk.b * 1.0)
        self._p = walk.loadings.shape[1]

    @property
    def xp(self) -> Any:
        """CuPy, or what stands for it."""
        return self._device.xp

    def changes(self, queues: Positions, paid: Positions, weights: Floats) -> tuple[Floats, Floats]:
        """`OrderWalk.changes`: weighted changes of value (replicates, players, n), and their unweighted total (n,)."""
        xp, (n_replicates, n_orders, n_players) = self._device.xp, weights.shape
        n = len(self._walk.rows)
        values, total = np.zeros((n_replicates, n_players, n)), np.zeros(n)
        most_rows = self._room() // (8 * n_players)
        at_once = max(1, min(n_orders, self._room() // (16 * queues.shape[1] * self._p)))
        size = max(1, min(n, most_rows // at_once))
        nothing = xp.zeros(1)
        for part in self._parts(queues, paid, at_once):
            pay = xp.asarray(np.ascontiguousarray(weights[:, part.which].transpose(2, 0, 1)))
            for rows in (slice(start, min(start + size, n)) for start in range(0, n, size)):
                earned = xp.zeros((n_players, len(part.queues), rows.stop - rows.start))
                self._pay(part, self._walk.rows[rows], earned, (None, None, nothing))
                values[:, :, rows] += on_cpu(xp.matmul(pay, earned)).transpose(1, 0, 2)
                total[rows] += on_cpu(xp.sum(xp.sum(earned, axis=0), axis=0))
        return values, total

    def factors(self, queues: Positions) -> tuple[Any, Any, Any]:
        """`OrderWalk.factors`, on the device: delta and slope (d, orders, n), constants (d, orders)."""
        xp, n, d = self._device.xp, len(self._walk.rows), len(self._walk.loadings)
        (part,) = self._parts(queues, queues, len(queues))
        kept = xp.zeros((d, len(queues), n)), xp.zeros((d, len(queues), n)), xp.zeros((d, len(queues)))
        self._pay(part, self._walk.rows, None, kept)
        return kept

    def _room(self) -> int:
        return int(_SHARE_OF_BYTES * self._device.most_bytes())

    def _parts(self, queues: Positions, paid: Positions, size: int) -> Iterator[_Part]:
        xp, p = self._device.xp, self._p
        for start in range(0, len(queues), size):
            which = slice(start, start + size)
            here, payees = (xp.asarray(np.ascontiguousarray(array[which], dtype=np.int32)) for array in (queues, paid))
            gains, variances = xp.empty((*here.shape, p, 2)), xp.empty(here.shape)
            self._follow(here, gains, variances)
            yield _Part(which, here, payees, gains, variances)

    def _follow(self, queues: Any, gains: Any, variances: Any) -> None:
        """Gains and variances of every step."""
        device, p, (n_orders, k) = self._device, self._p, queues.shape
        vectors, triangle = 8 * (6 * p + 1), 8 * (p * (p - 1) // 2)
        fits = vectors + triangle <= device.shared_bytes
        n_blocks = n_orders if fits else min(n_orders, _MOST_BLOCKS)
        triangles = None if fits else device.xp.empty(n_blocks * triangle // 8)
        sizes = np.int32(n_orders), np.int32(k), np.int32(p), np.float64(self._walk.psi)
        block = min(self._program.options.ORDER_THREADS, _warps(p))
        self._program.launch(
            "follow_orders",
            n_blocks * block,
            *(self._loadings, self._b, queues, *sizes, triangles, gains, variances),
            block=block,
            shared=vectors + (triangle if fits else 0),
        )

    def _pay(self, part: _Part, rows: Floats, earned: Any, kept: tuple[Any, Any, Any]) -> None:
        """Walk rows (n, d): changes of value to ``earned``, or factors to ``kept``."""
        device, p, (n_orders, k), n = self._device, self._p, part.queues.shape, len(rows)
        n_threads = n_orders * n
        # small blocks if there is little work, so that all multiprocessors have some, or if z needs much room
        most = self._program.options.ORDER_THREADS // 2
        block = _FEWEST_THREADS if n_threads < _FEW * device.n_blocks else most
        while block > _FEWEST_THREADS and 8 * p * block > device.shared_bytes // 2:
            block //= 2
        fits = 8 * p * block <= device.shared_bytes
        means = None if fits else device.xp.empty(p * (-(-n_threads // block) * block))
        sizes = *(np.int32(size) for size in (n_orders, k, p, n)), np.float64(self._walk.a * self._walk.psi)
        columns = device.xp.asarray(np.ascontiguousarray(rows.T))
        self._program.launch(
            "pay_orders",
            n_threads,
            *(self._loadings, part.queues, part.paid, part.gains, part.variances, columns, *sizes, means),
            *(earned, *kept),
            block=block,
            shared=8 * p * block if fits else 0,
        )


def _warps(n: int) -> int:
    """Threads in whole warps."""
    return -(-n // 32) * 32
