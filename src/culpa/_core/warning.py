"""Warnings of culpa: all are given here.

`warnings.catch_warnings` changes the filters of the whole process, and two threads that use it at once may leave them
changed for good. So callers that need no warning of some kind, or show warnings in their own way, say so here instead. What
they say is true for their own call, and for the threads that work for it.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import currentframe
from pathlib import Path

_unwanted: ContextVar[tuple[type[Warning], ...]] = ContextVar("unwanted", default=())
_PACKAGE = str(Path(__file__).parents[1])
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


class EmptyRowsWarning(UserWarning):
    """Some rows have no score."""


class FitWarning(UserWarning):
    """Something that you should know before you rely on a fitted detector.

    Examples
    --------
    Filters of warnings can name it.

    >>> from culpa import FitWarning
    >>> issubclass(FitWarning, UserWarning)
    True
    """


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Give a warning about the line that called this package, unless a caller does not want it."""
    listener = _listener.get()
    if issubclass(kind, _unwanted.get()):
        return
    if listener is not None:
        listener(text)
    else:
        warnings.warn(text, kind, stacklevel=_levels_inside())


def _levels_inside() -> int:
    """How many calls of this package led to `warn`."""
    frame, levels = currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, levels = frame.f_back, levels + 1
    return levels


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
