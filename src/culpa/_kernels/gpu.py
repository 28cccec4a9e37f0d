"""Exact Shapley values from the tree of all coalitions on a GPU: the Python side of `gpu_tree.cu`.

The players decide in three ways, in this order:

| who | how many | how |
| --- | --- | --- |
| players above | the rest | here, depth first: each of their choices is a chunk of the tree |
| breadth-first players | as many as fit into memory | the GPU holds one state per coalition of them |
| players at the bottom | ``BOTTOM``, or none | a thread walks them, depth first, from each of these states |

Players at the bottom are single features. If the last players are groups, breadth-first players go on to the end.

| name | meaning |
| --- | --- |
| n | rows |
| m | features that wait |
| N | states, 2 ** (breadth-first players who have decided) |
"""

import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np

from culpa._core.types import Array, Floats
from culpa._kernels.tree import TreeModel

MISSING = (
    "device='gpu' needs an NVIDIA GPU and CuPy, and {}. Install culpa[gpu] on a machine with a GPU, or use device='auto'."
)
SPEED = 64.0  # operations on a GPU that take as long as one on the processor

_MOST_BYTES, _SHARE_OF_MEMORY = 3e9, 0.5
_ROWS_PER_BLOCK = 128  # at most: more would leave less memory for coalitions
_FEWEST_ROWS_TOGETHER = 3  # for fewer, the table of steps does not pay
# operations of the array version that make it worth while to load CuPy and to compile, and to launch kernels
_WORTH_LOADING, _WORTH_LAUNCHING = 4e10, 2e9


class Options(NamedTuple):
    """How the kernels are compiled: see `gpu_tree.cu`."""

    BOTTOM: int = 8
    IN_REGISTERS: int = 5
    ROWS: int = 2
    ROWS_IN_REGISTERS: int = 5
    THREADS: int = 128  # of a block

    @property
    def flags(self) -> tuple[str, ...]:
        """For the compiler."""
        return tuple(f"-D{name}={value}" for name, value in self._asdict().items())

    @property
    def table_size(self) -> int:
        """Numbers that describe all steps of the players at the bottom."""
        size = 0
        for m in range(1, self.BOTTOM + 1):
            size = 2 * m + 2 * size
        return size


class Device(Protocol):
    """What the walk needs of a GPU; tests have one that runs the kernels on the processor."""

    xp: Any  # CuPy, or NumPy
    options: Options
    n_threads: int  # that walk side by side

    def launch(self, kernel: str, n_threads: int, *arguments: Any) -> None:
        """Run a kernel of `gpu_tree.cu` in at least so many threads."""
        ...

    def most_bytes(self) -> float:
        """How much memory the walk may take."""
        ...


class Cuda:
    """The current GPU, by CuPy."""

    def __init__(self, options: Options | None = None) -> None:
        import cupy

        self.xp, self.options = cupy, options or Options()
        code = source()
        flags = ("--std=c++17", *self.options.flags)
        self.module = cupy.RawModule(code=code, options=flags)
        self._kernels: dict[str, Any] = {}
        blocks = cupy.cuda.Device().attributes["MultiProcessorCount"] * max(1, 256 // self.options.THREADS)
        self.n_threads = blocks * self.options.THREADS

    def launch(self, kernel: str, n_threads: int, *arguments: Any) -> None:
        """Compile at the first use; CuPy keeps the result on disk."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self.module.get_function(kernel)
        blocks = min(-(-n_threads // self.options.THREADS), 1 << 20)
        self._kernels[kernel]((blocks,), (self.options.THREADS,), arguments)

    def most_bytes(self) -> float:
        """A share of what is free; CuPy keeps memory for reuse, which counts as free."""
        free = self.xp.cuda.Device().mem_info[0] + self.xp.get_default_memory_pool().free_bytes()
        return min(_MOST_BYTES, _SHARE_OF_MEMORY * free)


def source() -> str:
    """The text of `gpu_tree.cu`."""
    return (files("culpa._kernels") / "gpu_tree.cu").read_text(encoding="utf-8")


@cache
def obstacle() -> str | None:
    """Why there is no GPU to use; ``None`` if there is one."""
    if find_spec("cupy") is None:
        return "CuPy is not installed"
    import cupy

    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA reports: {error}"
    return None if found else "CUDA finds no GPU"


def check_available() -> None:
    """Raise an error that says what is missing, if anything is."""
    if (missing := obstacle()) is not None:
        raise ValueError(MISSING.format(missing))


class _Loading:
    """The GPU of this process, and the work done so far without it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._device: Device | None = None
        self._operations_without = 0.0

    def device(self) -> Device:
        """Loaded at the first use."""
        with self._lock:
            if self._device is None:
                self._device = Cuda()
        return self._device

    def pays(self, operations: float) -> bool:
        """Whether a job is large enough. Small ones have to add up first, if nothing is loaded."""
        if operations < _WORTH_LAUNCHING or obstacle() is not None:
            return False
        if self._device is not None:
            return True
        self._operations_without += operations
        return self._operations_without >= _WORTH_LOADING


LOADING = _Loading()


class _State(NamedTuple):
    """A coalition of the players above: what waits, features from the one that decides last."""

    V: Floats  # (m, m)
    K: Floats
    rows: Floats  # (1 + 2 m, n): value, then delta and h of each feature

    def join(self) -> "_State":
        j = len(self.V) - 1
        inverse = 1 / self.V[j, j]
        kappa, gain = self.K[j, j] * inverse, self.V[j, :j] * inverse
        shift = self.K[j, :j] - kappa * self.V[j, :j]
        delta_j, h_j = self.rows[1 + 2 * j], self.rows[2 + 2 * j]
        g = delta_j * inverse
        rows = self.rows[: 1 + 2 * j].copy()
        rows[0] -= g * (h_j - kappa * delta_j) + kappa
        rows[1::2] -= np.outer(gain, delta_j)
        rows[2::2] -= np.outer(gain, h_j) + 2 * np.outer(shift, g)
        return _State(
            self.V[:j, :j] - np.outer(gain, self.V[j, :j]),
            self.K[:j, :j] - np.outer(gain, self.K[j, :j]) - np.outer(shift, gain),
            rows,
        )

    def skip(self) -> "_State":
        j = len(self.V) - 1
        return _State(self.V[:j, :j], self.K[:j, :j], self.rows[: 1 + 2 * j])


def walk_on_gpu(
    device: Device,
    model: TreeModel,
    weights: tuple[Floats, Floats],
    sizes: list[int],
    progress: Callable[[float], None] | None = None,
) -> Floats:
    """Shapley values (n, players) of the players who decide in this order, by elimination.

    Takes the model of `culpa._kernels.elimination_steps`, the member weights and common weights by the size of a coalition,
    and the number of features of each player.
    """
    n = len(model.rows)
    together = 1 if n < _FEWEST_ROWS_TOGETHER else min(n, _ROWS_PER_BLOCK)
    n_blocks = -(-n // together)
    blocks = [block for block in np.array_split(np.arange(n), n_blocks) if len(block)]
    values = np.zeros((n, len(sizes)))
    for done, block in enumerate(blocks):
        report = None if progress is None else _part(progress, done, len(blocks))
        part = model._replace(rows=model.rows[block])
        values[block] = _Walk(device, part, weights, sizes).run(report)
    return values


class _Walk:
    """The tree of some rows."""

    def __init__(self, device: Device, model: TreeModel, weights: tuple[Floats, Floats], sizes: list[int]) -> None:
        self.device, self.sizes, self.n = device, sizes, len(model.rows)
        xp, options = device.xp, device.options
        n_players, self.start = len(sizes), _start(model)
        single = n_players > options.BOTTOM and all(size == 1 for size in sizes[-options.BOTTOM :])
        self.bottom = options.BOTTOM if single else 0
        self.as_table = bool(self.bottom) and self.n > 1
        self.n_wide = self._most_breadth_first(n_players - self.bottom)
        self.n_above = n_players - self.bottom - self.n_wide
        # one more weight than there are sizes, because threads load them in advance
        self.weights = [xp.asarray(np.append(table, np.zeros(options.BOTTOM + 1))) for table in weights]
        self.slots = max(1, device.n_threads // (-(-self.n // options.ROWS) if self.as_table else self.n))
        if self.bottom and not self.as_table:
            self.slots = device.n_threads
        self.sums = xp.zeros((1 + self.bottom + self.n_above, self.slots, self.n))
        self.all = xp.zeros((1 << self.n_wide, self.n))
        lengths = self._lengths(self.n_wide)
        self.pairs = [xp.empty(max(1, lengths[0])) for _ in range(2)]
        self.rows = [xp.empty(lengths[1]) for _ in range(2)]
        self.tables = xp.empty(options.table_size << self.n_wide) if self.as_table else None

    def run(self, progress: Callable[[float], None] | None) -> Floats:
        """Walk chunk after chunk; the GPU works while the next chunk is prepared."""
        for done, (above, state) in enumerate(self._chunks(self.start, 0, 0)):
            self._walk_chunk(above, self._expand(state))
            if progress is not None:
                float(self.all[0, 0])  # waits for the GPU
                progress((done + 1) / (1 << self.n_above))
        return self._values()

    def _chunks(self, state: _State, player: int, above: int) -> Iterator[tuple[int, _State]]:
        """All choices of the players above; bit i of the first number says whether player i is in."""
        if player == self.n_above:
            yield above, state
            return
        joined = skipped = state
        for _ in range(self.sizes[player]):
            joined, skipped = joined.join(), skipped.skip()
        yield from self._chunks(joined, player + 1, above | 1 << player)
        yield from self._chunks(skipped, player + 1, above)

    def _expand(self, state: _State) -> tuple[Array, Array]:
        """States of all coalitions of the breadth-first players. They write and read two buffers in turn."""
        m, n, launch = len(state.V), self.n, self.device.launch
        lower = np.tril_indices(m)
        pairs = np.stack([state.V[lower], state.K[lower]], axis=1).ravel()
        now, N = 0, 1
        self.pairs[0][: len(pairs)] = self.device.xp.asarray(pairs)
        self.rows[0][: state.rows.size] = self.device.xp.asarray(np.ascontiguousarray(state.rows).ravel())
        for size in self.sizes[self.n_above : self.n_above + self.n_wide]:
            for follower in range(size):
                follows = N // 2 if follower else 0
                pairs, rows, after, rows_after = self.pairs[now], self.rows[now], self.pairs[1 - now], self.rows[1 - now]
                if m > 1:
                    launch("expand_pairs", (m - 1) * N, pairs, after, *map(_long, (N,)), _int(m), _long(follows))
                counts = _long(N), _int(n), _int(m), _long(follows)
                launch("expand_rows", m * N * n, pairs, rows, rows_after, *counts)
                now, m = 1 - now, m - 1
                N = N if follower else 2 * N
        return self.pairs[now], self.rows[now]

    def _walk_chunk(self, above: int, states: tuple[Array, Array]) -> None:
        (pairs, rows), launch, N = states, self.device.launch, 1 << self.n_wide
        results = (*self.weights, self.all, self.sums)
        if not self.bottom:
            counts = _long(N), _int(self.n), _int(self.slots), _long(above)
            launch("count", self.slots * self.n, rows, *counts, *results)
        elif self.as_table:
            launch("tabulate", self.device.n_threads, pairs, _long(N), self.tables)
            group = -(-self.n // self.device.options.ROWS)
            counts = _long(N), _int(self.n), _int(self.slots), _long(above)
            launch("walk_rows", self.slots * group, self.tables, rows, *counts, *results)
        else:
            launch("walk", self.device.n_threads, pairs, rows, _long(N), _long(above), *results)

    def _values(self) -> Floats:
        xp, bottom = self.device.xp, self.bottom
        sums = _on_cpu(xp.sum(self.sums, axis=1))
        result = np.empty((len(self.sizes), self.n))
        result[: self.n_above] = sums[1 + bottom :]
        if bottom:
            result[-bottom:] = sums[1 : 1 + bottom][::-1]
        # a coalition's number has a bit for each breadth-first player: sum over the upper and over the lower half of bits
        low = self.n_wide // 2
        grid = self.all.reshape(1 << (self.n_wide - low), 1 << low, self.n)
        halves = [(_on_cpu(xp.sum(grid, axis=0)), 0), (_on_cpu(xp.sum(grid, axis=1)), low)]
        for half, first in halves:
            for bit in range(len(half).bit_length() - 1):
                members = np.arange(len(half)) >> bit & 1 == 1
                result[self.n_above + first + bit] = half[members].sum(axis=0)
        return (result - sums[0]).T

    def _most_breadth_first(self, most: int) -> int:
        """How many players may decide breadth first within the memory."""
        n_wide = 1
        while n_wide < most:
            pairs, rows = self._lengths(n_wide + 1)
            table = self.device.options.table_size << (n_wide + 1) if self.as_table else 0
            if 8.0 * (2 * pairs + 2 * rows + table + (self.n << (n_wide + 1))) > self.device.most_bytes():
                break
            n_wide += 1
        return n_wide

    def _lengths(self, n_wide: int) -> tuple[int, int]:
        """How many numbers the states of pairs and of rows take at most while so many players decide breadth first."""
        first = len(self.sizes) - self.bottom - n_wide
        m, N, pairs, rows = sum(self.sizes[first:]), 1, 0, 0
        for size in (*self.sizes[first : first + n_wide], 0):
            pairs, rows = max(pairs, m * (m + 1) * N), max(rows, (2 * m + 1) * N * self.n)
            # while the features of a group decide one after the other, there are twice as many states already
            m, N = m - 1 if size else m, 2 * N
            pairs, rows = (max(pairs, m * (m + 1) * N), max(rows, (2 * m + 1) * N * self.n)) if size else (pairs, rows)
            m -= max(0, size - 1)
        return pairs, rows


def _start(model: TreeModel) -> _State:
    """The empty coalition. Features are scaled by powers of two to variances near 1, which changes no value."""
    V, K = model.pairs
    scale = np.exp2(-np.round(np.log2(np.diag(V)) / 2))
    rows = np.zeros((1 + 2 * len(V), len(model.rows)))
    rows[0], rows[1::2] = model.value, (model.rows * scale).T
    return _State(V * scale * scale[:, None], K * scale * scale[:, None], rows)


def _on_cpu(array: Array) -> Floats:
    return np.asarray(array.get() if hasattr(array, "get") else array)


def _long(number: int) -> np.int64:
    return np.int64(number)


def _int(number: int) -> np.int32:
    return np.int32(number)


def _part(progress: Callable[[float], None], done: int, of: int) -> Callable[[float], None]:
    return lambda share: progress((done + share) / of)
