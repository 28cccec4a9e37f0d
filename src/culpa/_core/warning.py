"""Warnings of culpa: all are given here.

`warnings.catch_warnings` changes the filters of the whole process, and two threads that use it at once may leave them
changed for good. So callers that need no warning of some kind, or show warnings in their own way, say so here instead. What
they say is true for their own call, and for the threads that work for it.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_unwanted: ContextVar[tuple[type[Warning], ...]] = ContextVar("unwanted", default=())
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


class EmptyRowsWarning(UserWarning):
    """Some rows have no score."""


def warn(text: str, kind: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """Give a warning, unless a caller does not want it; ``stacklevel`` is that of `warnings.warn` in place of this call."""
    listener = _listener.get()
    if issubclass(kind, _unwanted.get()):
        return
    if listener is not None:
        listener(text)
    else:
        warnings.warn(text, kind, stacklevel=stacklevel + 1)


@contextmanager
def without_warnings(*kinds: type[Warning]) -> Iterator[None]:
    """Give no warnings of these kinds meanwhile."""
    before = _unwanted.set((*_unwanted.get(), *kinds))
    try:
        yield
    finally:
        _unwanted.reset(before)


@contextmanager
def warnings_told_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Call a function with the text of each warning meanwhile."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)
