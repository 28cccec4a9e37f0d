"""A function that numba compiles when it pays.

A kernel is a plain function over NumPy arrays that numba compiles on first use and keeps on disk. Importing numba and
compiling takes seconds the first time, so small jobs do without: each kernel has an array version of the same formula.
"""

import hashlib
import os
from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from culpa._kernels.vectors import FAST_MATH

_READING = 8  # so many times faster than compiling a kernel is reading one that has been compiled before


class Kernel:
    """A function that numba compiles on its first call.

    It may call functions of `culpa._kernels.vectors` and those named in ``calls``, but no other of ours: numba would not
    notice when they change, and go on with what it keeps on disk.

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

        import culpa._kernels.numba_vectors  # noqa: F401

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
        files |= {here / "vectors.py", here / "numba_vectors.py"}
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
