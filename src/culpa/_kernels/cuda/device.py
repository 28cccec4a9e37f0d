"""GPUs: whether there is one, when it pays, and how the kernels of the `.cu` files are compiled and launched."""

from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from culpa._core.locks import Lock
from culpa._core.types import Array, Floats

MISSING = (
    "device='gpu' needs an NVIDIA GPU and CuPy, but {}. Install culpa[gpu] where there is one, or use device='auto'."
)
ProgramName = Literal["elimination", "factors"]
SOURCES: dict[ProgramName, tuple[str, ...]] = {  # in this order; each program is compiled at its first use
    "elimination": ("base.cu", "states.cu", "elimination.cu", "tree.cu", "rows.cu"),
    "factors": ("base.cu", "states.cu", "factors.cu", "tree.cu", "rows.cu"),
}
SPEED = 64.0  # operations on a GPU that take as long as one on the processor

_MOST_BYTES, _SHARE_OF_MEMORY = 8e9, 0.25
_THREADS_PER_PROCESSOR = 256  # as many as have room for all their registers
_ROOMY = 150_000  # bytes of shared memory; with less, blocks that walk rows are smaller
# operations of the array version that make it worth while to load CuPy and to compile, and to launch kernels
_WORTH_LOADING, _WORTH_LAUNCHING = 4e10, 2e9


class Options(NamedTuple):
    """How a program is compiled: see the `.cu` files."""

    OWN: int = 0  # numbers that a feature has of its own in a state: none by elimination, one by factors
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

    @property
    def flags(self) -> tuple[str, ...]:
        """The numbers as definitions for the compiler."""
        return tuple(f"-D{name}={value}" for name, value in self._asdict().items())

    @property
    def table_length(self) -> int:
        """Numbers in the records of all steps of the players at the bottom, for many rows."""
        return 2 * self._table_size(self.ROWS_BOTTOM)

    @property
    def stage_bytes(self) -> int:
        """Shared memory of a coalition in `walk_rows`: two stages."""
        return 2 * 16 * (self._table_size(self.STAGE) | 1)

    @property
    def own_bytes(self) -> int:
        """Shared memory of all threads in `walk_rows`: a state, and sums of the players that are not in registers."""
        return 8 * self.ROWS * self.ROWS_THREADS * (2 * self.STAGE + 2 + self.ROWS_BOTTOM - self.ROWS_SUMS)

    @property
    def constant_bytes(self) -> int:
        """Shared memory of all threads in `tabulate`: sums of all players but the last."""
        return 8 * self.THREADS * (self.ROWS_BOTTOM - 1)

    def _table_size(self, m: int) -> int:
        """As in `rows.cu`, with the records of `states.cu`."""
        if m < 2:
            return m
        return (1 + self.OWN) * m + 1 + 2 * self._table_size(m - 1)


# The same numbers of players are fastest for both kinds of steps.
OPTIONS: dict[ProgramName, Options] = {"elimination": Options(), "factors": Options(OWN=1)}


class Program(Protocol):
    """Kernels that are compiled together."""

    options: Options
    n_threads: int  # that walk one row side by side

    def launch(self, kernel: str, n_threads: int, *arguments: Any, block: int | None = None, shared: int = 0) -> None:
        """Run a kernel in at least so many threads, in blocks of a given size that share so many bytes."""
        ...


class Device(Protocol):
    """What the walk needs of a GPU; tests have one that runs the kernels on the processor."""

    xp: Any  # CuPy, or NumPy
    n_blocks: int  # that share the work if each has a multiprocessor of its own
    shared_bytes: int  # memory that the threads of such a block may share

    def program(self, name: ProgramName) -> Program:
        """Compiled at the first use."""
        ...

    def most_bytes(self) -> float:
        """How much memory the walk may take."""
        ...


class Cuda:
    """The current GPU, by CuPy. ``options`` replace those of the programs, to compare them."""

    def __init__(self, options: dict[ProgramName, Options] | None = None) -> None:
        import cupy

        attributes = cupy.cuda.Device().attributes
        self.xp, self.shared_bytes = cupy, attributes["MaxSharedMemoryPerBlockOptin"]
        self.n_blocks = attributes["MultiProcessorCount"]
        self._options, self._programs = OPTIONS | (options or {}), dict[ProgramName, CudaProgram]()

    def program(self, name: ProgramName) -> "CudaProgram":
        """CuPy keeps the compiled program on disk."""
        if name not in self._programs:
            options = self._options[name]
            if self.shared_bytes < _ROOMY:
                options = options._replace(ROWS_THREADS=128)
            self._programs[name] = CudaProgram(self.xp, name, options, self.n_blocks, self.shared_bytes)
        return self._programs[name]

    def most_bytes(self) -> float:
        """A share of what is free; CuPy keeps memory for reuse, which counts as free."""
        free = self.xp.cuda.Device().mem_info[0] + self.xp.get_default_memory_pool().free_bytes()
        return min(_MOST_BYTES, _SHARE_OF_MEMORY * float(free))


class CudaProgram:
    """A program of the current GPU, by CuPy."""

    def __init__(self, cupy: Any, name: ProgramName, options: Options, n_blocks: int, shared_bytes: int) -> None:
        self.options, self._shared_bytes = options, shared_bytes
        self.module = cupy.RawModule(code=source(name), options=("--std=c++17", *options.flags))
        self.n_threads = n_blocks * max(1, _THREADS_PER_PROCESSOR // options.THREADS) * options.THREADS
        self._kernels: dict[str, Any] = {}

    def launch(self, kernel: str, n_threads: int, *arguments: Any, block: int | None = None, shared: int = 0) -> None:
        """Launch and return; the GPU goes on working."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self.module.get_function(kernel)
            if shared:
                self._kernels[kernel].max_dynamic_shared_size_bytes = self._shared_bytes
        block = block or self.options.THREADS
        arguments = tuple(
            np.intp(0) if argument is None else argument for argument in arguments
        )  # None is a null pointer
        self._kernels[kernel]((-(-n_threads // block),), (block,), arguments, shared_mem=shared)


def source(name: ProgramName) -> str:
    """The text of a program."""
    folder = files("culpa._kernels.cuda")
    return "\n".join((folder / file).read_text(encoding="utf-8") for file in SOURCES[name])


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
        self._lock = Lock()
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
