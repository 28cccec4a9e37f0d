"""Threads that share a job, BLAS threads that stay out of their way, and a main thread that answers Ctrl-C."""

import math
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from types import FrameType
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from culpa._core.locks import Lock

Task = TypeVar("Task")
Result = TypeVar("Result")
_ROWS_WORTH_LIMITING = 2000  # rows; setting the number of threads takes a fraction of a millisecond
_LONG_CALL = 1 << 18  # numbers in an array; the eigenvectors of a matrix of that size take a tenth of a second
_SECONDS_TO_WAIT = 0.2  # between two looks for signals, where a signal does not wake the main thread


class _ThisThread(threading.local):
    """What the current thread is doing."""

    given_up: threading.Event | None = None  # of the call of `in_threads` that it works for


_this_thread = _ThisThread()


class GivenUpError(Exception):
    """A task need not be finished, because the main thread was interrupted or another task failed."""


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


class _OneBlasThread:
    """Limits BLAS to one thread while at least one thread is inside; the number of BLAS threads belongs to the process."""

    def __init__(self) -> None:
        self._changing = Lock(1.0)
        self._n_inside = 0

    def forget(self) -> None:
        """Start anew: after a fork, the threads inside are gone."""
        if self._n_inside:
            self._limit.restore_original_limits()
        self._n_inside = 0

    def __enter__(self) -> None:
        with self._changing:
            if not self._n_inside:
                self._limit = _blas().limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changing:
            if self._n_inside == 1:
                self._limit.restore_original_limits()
            self._n_inside = max(0, self._n_inside - 1)  # 0 already in a process that was forked inside


_limited = _OneBlasThread()


@contextmanager
def one_blas_thread(n_rows: float = math.inf) -> Iterator[None]:
    """For products that are tall and narrow: BLAS threads gain nothing there, and stall next to a busy process."""
    if n_rows < _ROWS_WORTH_LIMITING:
        yield
    else:
        with _limited:
            yield


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    # starting threads takes half a millisecond, as long as explaining a row may take, so they are kept
    return ThreadPoolExecutor(threads, thread_name_prefix="culpa")


def _forget_threads() -> None:
    _pool.cache_clear()
    _limited.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # threads do not survive a fork


def in_threads(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    n_jobs: int | None,
    progress: Callable[[float, float | None], None] | None = None,
) -> list[Result]:
    """Map ``function`` over ``tasks`` in threads; more tasks than threads keep a busy machine from waiting.

    BLAS works with one thread inside: its own threads stall on small products next to a busy process.
    """
    tasks = list(tasks)
    threads = min(n_threads(n_jobs), len(tasks))
    if threads <= 1 or _this_thread.given_up is not None:  # a task of a task would wait for its own thread
        results = []
        for task in tasks:
            results.append(function(task))
            if progress is not None:
                progress(len(results) / len(tasks), None)
        return results
    found: dict[int, Result] = {}
    waiting = deque(enumerate(tasks))
    given_up = threading.Event()

    def work(report: Callable[[float, float | None], None] | None = None) -> None:
        _this_thread.given_up = given_up
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
            _this_thread.given_up = None

    with _limited:
        others = [_pool(threads - 1).submit(copy_context().run, work) for _ in range(threads - 1)]
        try:
            work(progress)  # this thread is there anyway
            _wait_for(others)
        except BaseException as error:
            waiting.clear()
            given_up.set()
            # the others stop soon, unless they wait for a compiler
            wait(others, _SECONDS_TO_WAIT if isinstance(error, KeyboardInterrupt) else None)
            raise
        for other in others:
            other.result()  # raises what went wrong there
    if progress is not None:
        progress(1.0, None)
    return [found[number] for number in range(len(tasks))]


def _wait_for(results: list[Any]) -> None:
    while wait(results, _SECONDS_TO_WAIT).not_done:
        pass


def stop_if_given_up() -> None:
    """Long tasks of `in_threads` call this every tenth of a second or so."""
    given_up = _this_thread.given_up
    if given_up is not None and given_up.is_set():
        raise GivenUpError


def interruptible(function: Callable[..., Result], *arrays: Any) -> Result:
    """Call a function on arrays so that Ctrl-C is answered at once, if an array is large."""
    return in_own_thread(function, *arrays) if any(array.size > _LONG_CALL for array in arrays) else function(*arrays)


class InterruptAfterwards:
    """Raises the `KeyboardInterrupt` of a Ctrl-C when the block ends, for code that would lose the exception.

    It leaves signals alone that somebody else handles, and those outside the main thread, where Python raises none.
    """

    def __enter__(self) -> None:
        self._arrived = False
        self._holds = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._holds:
            signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if self._holds:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._arrived:
                raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._arrived = True


def in_own_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function so that Ctrl-C is answered at once; its result is lost then, and it ends some time later.

    Python raises `KeyboardInterrupt` in the main thread only, and between two of its own instructions. A call of LAPACK or
    of a compiler is one instruction. So the function runs in another thread while the main thread waits.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    result: Future[Result] = Future()
    context = copy_context()

    def work() -> None:
        try:
            result.set_result(context.run(function, *arguments))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=work, name="culpa-long-call").start()
    _wait_for([result])
    return result.result()
