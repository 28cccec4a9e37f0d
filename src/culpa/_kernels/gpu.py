"""GPUs: whether there is one, when it pays, and how the kernels of the `.cu` files are compiled and launched."""

import threading
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np

from culpa._core.types import Array, Floats

MISSING = (
    "device='gpu' needs an NVIDIA GPU and CuPy, but {}. Install culpa[gpu] where there is one, or use device='auto'."
)
SOURCES = "gpu_tree.cu", "gpu_rows.cu", "gpu_orders.cu"  # in this order
SPEED = 64.0  # operations on a GPU that take as long as one on the processor

_MOST_BYTES, _SHARE_OF_MEMORY = 8e9, 0.25
_THREADS_PER_PROCESSOR = 256  # as many as have room for all their registers
_ROOMY = 150_000  # bytes of shared memory; with less, blocks that walk rows are smaller
# operations of the array version that make it worth while to load CuPy and to compile, and to launch kernels
_WORTH_LOADING, _WORTH_LAUNCHING = 4e10, 2e9


class Options(NamedTuple):
    """How the kernels are compiled: see `gpu_tree.cu` and `gpu_rows.cu`."""

    BOTTOM: int = 9
    IN_REGISTERS: int = 5
    THREADS: int = 128  # of a block
    TABLE_IN_REGISTERS: int = 6
    ROWS_BOTTOM: int = 12
    STAGE: int = 7
    ROWS_IN_REGISTERS: int = 6
    ROWS_SUMS: int = 4
    ROWS: int = 2  # of each thread
    ROWS_THREADS: int = 256  # of a block that walks rows
    SIDE: int = 32
    ORDER_THREADS: int = 256  # at most, of a block that walks orders

    @property
    def flags(self) -> tuple[str, ...]:
        """For the compiler."""
        return tuple(f"-D{name}={value}" for name, value in self._asdict().items())

    @property
    def table_length(self) -> int:
        """Numbers in the records of all steps of the players at the bottom, for many rows."""
        return 2 * _table_size(self.ROWS_BOTTOM)

    @property
    def stage_bytes(self) -> int:
        """Shared memory of a coalition in `walk_rows`: two stages."""
        return 2 * 16 * (_table_size(self.STAGE) | 1)

    @property
    def own_bytes(self) -> int:
        """Shared memory of all threads in `walk_rows`: a state, and sums of the players that are not in registers."""
        return 8 * self.ROWS * self.ROWS_THREADS * (2 * self.STAGE + 2 + self.ROWS_BOTTOM - self.ROWS_SUMS)


def _table_size(m: int) -> int:
    """As in `gpu_rows.cu`."""
    return 0 if m == 0 else m + 1 + 2 * _table_size(m - 1)


class Device(Protocol):
    """What the walk needs of a GPU; tests have one that runs the kernels on the processor."""

    xp: Any  # CuPy, or NumPy
    options: Options
    n_threads: int  # that walk one row side by side
    n_blocks: int  # that share the work if each has a multiprocessor of its own
    shared_bytes: int  # memory that the threads of such a block may share

    def launch(self, kernel: str, n_threads: int, *arguments: Any, block: int | None = None, shared: int = 0) -> None:
        """Run a kernel in at least so many threads, in blocks of a given size that share so many bytes."""
        ...

    def most_bytes(self) -> float:
        """How much memory the walk may take."""
        ...


class Cuda:
    """The current GPU, by CuPy."""

    def __init__(self, options: Options | None = None) -> None:
        import cupy

        attributes = cupy.cuda.Device().attributes
        self.shared_bytes = attributes["MaxSharedMemoryPerBlockOptin"]
        self.xp, self.options = (
            cupy,
            options or (Options() if self.shared_bytes > _ROOMY else Options(ROWS_THREADS=128)),
        )
        self.module = cupy.RawModule(code=source(), options=("--std=c++17", *self.options.flags))
        self._kernels: dict[str, Any] = {}
        threads = self.options.THREADS
        self.n_blocks = attributes["MultiProcessorCount"]
        self.n_threads = self.n_blocks * max(1, _THREADS_PER_PROCESSOR // threads) * threads

    def launch(self, kernel: str, n_threads: int, *arguments: Any, block: int | None = None, shared: int = 0) -> None:
        """Compile at the first use; CuPy keeps the result on disk."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self.module.get_function(kernel)
            if shared:
                self._kernels[kernel].max_dynamic_shared_size_bytes = self.shared_bytes
        block = block or self.options.THREADS
        arguments = tuple(
            np.intp(0) if argument is None else argument for argument in arguments
        )  # None is a null pointer
        self._kernels[kernel]((-(-n_threads // block),), (block,), arguments, shared_mem=shared)

    def most_bytes(self) -> float:
        """A share of what is free; CuPy keeps memory for reuse, which counts as free."""
        free = self.xp.cuda.Device().mem_info[0] + self.xp.get_default_memory_pool().free_bytes()
        return min(_MOST_BYTES, _SHARE_OF_MEMORY * float(free))


def source() -> str:
    """The text of all kernels."""
    folder = files("culpa._kernels")
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in SOURCES)


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

    def is_large(self, operations: float) -> bool:
        """Whether a job may pay; a quick check."""
        return operations >= _WORTH_LAUNCHING

    def pays(self, operations: float) -> bool:
        """Whether a job is large enough. Small ones have to add up first, if nothing is loaded."""
        if not self.is_large(operations) or obstacle() is not None:
            return False
        if self._device is not None:
            return True
        self._operations_without += operations
        return self._operations_without >= _WORTH_LOADING


LOADING = _Loading()


def on_cpu(array: Array) -> Floats:
    """An array of the device as a NumPy array."""
    return np.asarray(array.get() if hasattr(array, "get") else array)
