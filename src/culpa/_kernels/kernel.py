"""A function that numba compiles when that pays.

A kernel is a plain Python function over NumPy arrays. numba compiles it on its first call and keeps the result on disk
(`culpa._kernels.cache`). Importing numba and compiling takes seconds, so small jobs do without: every kernel has an array
version of the same formula, and the engines ask `Kernel.pays` which of the two to use.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from culpa._core.locks import Lock
from culpa._core.threads import InterruptAfterwards, in_own_thread
from culpa._kernels.cache import CompiledOnDisk, folder_for_numba, warn_uncached
from culpa._kernels.vectors import FAST_MATH

_READING_SPEEDUP = 8  # reading a compiled kernel from disk is about so many times faster than compiling it

_COMPILE_SECONDS = 10.0  # that a fork waits: numba has locks of its own, and a child without them does without numba

_OPTIONS: dict[str, Any] = {"fastmath": set(FAST_MATH), "error_model": "numpy"}  # of numba

_in_python = threading.Event()
_no_numba = threading.Event()  # in a child process of one that was compiling: numba's lock stays closed for ever


class Kernel:
    """A function that numba compiles on its first call.

    It may call the functions of `culpa._kernels.vectors` and those listed in ``calls``. The list is needed twice: to
    compile these functions into the kernel, and to notice that a file has changed since the kernel was compiled.

    ``worth`` is the number of operations above which even the first compilation, of two to eight seconds, is worth
    waiting for. It is about what the array version does in that time.
    """

    def __init__(self, function: Callable[..., Any], worth: float, calls: tuple[Callable[..., Any], ...] = ()) -> None:
        self.function, self.worth, self.calls = function, worth, calls
        self.__doc__ = function.__doc__
        self._compiled: Callable[..., Any] | None = None
        self._compiling = Lock(_COMPILE_SECONDS)
        self._operations_without = 0.0

    def __call__(self, *arguments: Any) -> Any:
        if _in_python.is_set() or (_no_numba.is_set() and not self.is_ready):
            return self.function(*arguments)
        if self._compiled is None:
            with self._compiling:
                if self._compiled is None:
                    return self._first_call(arguments)
        try:
            # numba looks at arguments with Python code, and loses exceptions that are raised there
            with InterruptAfterwards():
                return self._compiled(*arguments)
        except Exception as problem:  # arguments of another type are compiled and cached too
            return self._call_uncached(arguments, problem)

    def _first_call(self, arguments: tuple[Any, ...]) -> Any:
        compiled = in_own_thread(self._prepare)  # imports numba, parts of which go on after any exception
        try:
            result = in_own_thread(compiled, *arguments)  # numba compiles here, or reads what it compiled before
        except Exception as problem:
            return self._call_uncached(arguments, problem)
        self.on_disk.mark()
        self._compiled = compiled
        return result

    def _call_uncached(self, arguments: tuple[Any, ...], problem: Exception) -> Any:
        """Call the kernel compiled without a cache, in case that was the problem: it is read before the kernel starts."""
        if isinstance(problem.__cause__, KeyboardInterrupt):  # if somebody else handles Ctrl-C
            raise problem.__cause__
        with self._compiling:
            compiled = self._compile()
            result = in_own_thread(compiled, *arguments)  # raises the same again if the cache was not the problem
            self._compiled = compiled
        self.on_disk.discard()
        warn_uncached(f"{self.on_disk.folders[0].parent} cannot be used ({type(problem).__name__}: {problem})")
        return result

    @property
    def is_ready(self) -> bool:
        """Whether this process has compiled the kernel or read it from disk."""
        return self._compiled is not None

    @cached_property
    def on_disk(self) -> CompiledOnDisk:
        """What numba keeps of this kernel on disk."""
        return CompiledOnDisk.of(self.function, self.calls)

    def pays(self, operations: float) -> bool:
        """Whether to use the kernel for a job of that size. Small jobs have to add up first: `note_work_without`."""
        if self.is_ready or _no_numba.is_set():
            return self.is_ready
        total = self._operations_without + operations
        if total <= self.worth / _READING_SPEEDUP or find_spec("numba") is None:
            return False
        return total > self.worth or self.on_disk.is_marked()

    def note_work_without(self, operations: float) -> None:
        """Count a job that was done by arrays instead, so that many small jobs make the kernel pay."""
        self._operations_without += operations

    def forget(self) -> None:
        """Return to the state of a new process: neither compiled nor read, and no work counted."""
        self._compiled, self._operations_without = None, 0.0

    def _prepare(self) -> Callable[..., Any]:
        import numba

        import culpa._kernels.numba_vectors  # noqa: F401

        for function in self.calls:
            numba.extending.register_jitable(**_OPTIONS, forceinline=True)(function)
        folder = self.on_disk.create()
        if folder is None:
            warn_uncached(f"{' and '.join(str(folder.parent) for folder in self.on_disk.folders)} cannot be written to")
            return self._compile()
        try:
            with folder_for_numba(folder):
                return self._compile(cache=True)
        except (OSError, RuntimeError) as problem:  # numba found no place to write either
            warn_uncached(str(problem))
            return self._compile()

    def _compile(self, *, cache: bool = False) -> Callable[..., Any]:
        import numba

        compiled: Callable[..., Any] = numba.njit(nogil=True, cache=cache, **_OPTIONS)(self.function)
        return compiled


@contextmanager
def kernels_in_python() -> Iterator[None]:
    """Run all kernels as plain Python while this lasts: slow, but a debugger can step through them."""
    _in_python.set()
    try:
        yield
    finally:
        _in_python.clear()


def _look_at_numba() -> None:
    """In a child process: do without numba if a thread that is gone was importing it or compiling."""
    numba = sys.modules.get("numba")
    compiler = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    lock = getattr(compiler, "_lock", None)
    importing = getattr(getattr(numba, "__spec__", None), "_initializing", False)
    if importing or (lock is not None and not lock.acquire(blocking=False)):
        _no_numba.set()
    elif lock is not None:
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_look_at_numba)
