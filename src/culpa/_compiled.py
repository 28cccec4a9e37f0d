"""Compiled kernels on the CPU, prepared only when they pay.

A kernel is a plain function over NumPy arrays that numba compiles on first use and keeps on disk. Importing numba and
compiling takes seconds the first time, so small jobs do without: each kernel has an array version of the same formula.
"""

import hashlib
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from culpa._vectors import FAST_MATH

Result = TypeVar("Result")

_working = threading.local()  # .yes in threads that do tasks
_READING = 8  # so many times faster than compiling a kernel is reading one that has been compiled before
_WORTH_LIMITING = 2000  # rows; setting the number of threads takes a fraction of a millisecond


class Kernel:
    """A function that numba compiles on its first call.

    It may call functions of `culpa._vectors` and those named in ``calls``, but no other of ours: numba would not notice
    when they change, and go on with what it keeps on disk.

    ``worth`` is the number of operations above which even the first compilation, of two to eight seconds, is worth waiting
    for: as many as the array version does in about as long.
    """

    def __init__(self, function: Callable[..., Any], worth: float, calls: tuple[Callable[..., Any], ...] = ()) -> None:
        self.function, self.worth, self.calls = function, worth, calls
        self.__doc__ = function.__doc__
        self._compiled: Callable[..., Any] | None = None
        self._done_without = 0.0  # operations

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None:
            self._compiled = self._compile()
        return self._compiled(*arguments)

    def _compile(self) -> Callable[..., Any]:
        import numba

        import culpa._numba_vectors  # noqa: F401

        options: dict[str, Any] = {"fastmath": set(FAST_MATH), "error_model": "numpy"}
        for function in self.calls:
            numba.extending.register_jitable(**options, forceinline=True)(function)
        self.function.__qualname__ = self._kept_as
        try:
            compiled: Callable[..., Any] = numba.njit(nogil=True, cache=True, **options)(self.function)
        except RuntimeError:  # there is no folder that numba may write to
            compiled = numba.njit(nogil=True, **options)(self.function)
        return compiled

    @cached_property
    def _kept_as(self) -> str:
        """Name under which numba keeps the kernel on disk: of the files behind it, numba looks at the kernel's only."""
        here = Path(__file__).parent
        files = {Path(function.__code__.co_filename) for function in self.calls}
        files |= {here / "_vectors.py", here / "_numba_vectors.py"}
        parts = b"".join(file.read_bytes() for file in sorted(files))
        return f"{self.function.__name__}_{hashlib.sha256(parts).hexdigest()[:8]}"

    def _is_on_disk(self) -> bool:
        """Whether it has been compiled before, in the place where numba looks first."""
        file = Path(self.function.__code__.co_filename)
        folder = Path(os.environ.get("NUMBA_CACHE_DIR") or file.parent / "__pycache__")
        return any(folder.rglob(f"{file.stem}.{self._kept_as}-*.nbi"))

    def pays(self, operations: float) -> bool:
        """Whether to use the kernel for a job of that size: not for small ones, until they have added up."""
        if self._compiled is not None:
            return True
        self._done_without += operations
        if self._done_without <= self.worth / _READING or find_spec("numba") is None:
            return False
        return self._done_without > self.worth or self._is_on_disk()


def kernel(*, worth: float, calls: tuple[Callable[..., Any], ...] = ()) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorator that makes a function a `Kernel`."""
    return lambda function: Kernel(function, worth, calls)


def n_threads(n_jobs: int | None) -> int:
    """Number of threads that ``n_jobs`` means, as in scikit-learn: -1 is all cores, ``None`` is 1."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a number of threads, -1 for all cores, or None for one, got {n_jobs!r}.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + int(n_jobs)) if n_jobs < 0 else int(n_jobs)


@lru_cache
def _blas() -> ThreadpoolController:
    # finding the BLAS libraries takes a millisecond, so do it once
    return ThreadpoolController()


@contextmanager
def one_blas_thread(n_rows: float = math.inf) -> Iterator[None]:
    """For products that are tall and narrow: BLAS threads gain nothing there, and stall next to a busy process."""
    if n_rows < _WORTH_LIMITING:
        yield
    else:
        with _blas().limit(limits=1, user_api="blas"):
            yield


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    # starting threads takes half a millisecond, as long as explaining a row may take, so they are kept
    return ThreadPoolExecutor(threads, thread_name_prefix="culpa")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def in_threads(
    function: Callable[[Any], Result],
    tasks: Iterable[Any],
    n_jobs: int | None,
    progress: Callable[[float, float | None], None] | None = None,
) -> list[Result]:
    """Map ``function`` over ``tasks`` in threads; more tasks than threads keep a busy machine from waiting.

    BLAS works with one thread inside: its own threads stall on small products next to a busy process.
    """
    tasks = list(tasks)
    threads = min(n_threads(n_jobs), len(tasks))
    if threads <= 1 or getattr(_working, "yes", False):  # a task of a task would wait for its own thread
        results = []
        for task in tasks:
            results.append(function(task))
            if progress is not None:
                progress(len(results) / len(tasks), None)
        return results
    found: dict[int, Result] = {}
    waiting = deque(enumerate(tasks))

    def work(report: Callable[[float, float | None], None] | None = None) -> None:
        _working.yes = True
        try:
            while waiting:
                try:
                    number, task = waiting.popleft()
                except IndexError:  # another thread was faster
                    break
                found[number] = function(task)
                if report is not None:
                    report(len(found) / len(tasks), None)
        finally:
            _working.yes = False

    with _blas().limit(limits=1, user_api="blas"):
        others = [_pool(threads - 1).submit(work) for _ in range(threads - 1)]
        try:
            work(progress)  # this thread is there anyway
        finally:
            waiting.clear()
            wait(others)
        for other in others:
            other.result()  # raises what went wrong there
    if progress is not None:
        progress(1.0, None)
    return [found[number] for number in range(len(tasks))]
