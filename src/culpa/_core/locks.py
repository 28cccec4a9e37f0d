"""Locks that a forked process finds open.

A child process gets a copy of all locks, but only the thread that forked. A lock that another thread held at that moment
would never be released. So all locks of culpa are made here, and those whose holder is gone are renewed in the child.
"""

import functools
import os
import sys
import threading
from typing import Any
from weakref import ref

_all: "set[ref[Lock]]" = set()  # a plain set, of which a list is made at one go, whatever other threads add


class Lock:
    """A reentrant lock for ``with``; a copy of it is a new lock.

    A fork waits up to ``seconds`` for the thread that holds it, if what that thread does must not be cut in two.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._lock = threading.RLock()
        self._held_for_fork = False
        _all.add(ref(self, _all.discard))

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, (self.seconds,)

    def before_fork(self) -> None:
        """Wait for the thread that holds it."""
        self._held_for_fork = self.seconds > 0 and self._lock.acquire(timeout=self.seconds)

    def after_fork(self) -> None:
        """Let other threads go on."""
        if self._held_for_fork:
            self._held_for_fork = False
            self._lock.release()

    def renew(self) -> None:
        """In the child, whose only thread is the one that forked."""
        self.after_fork()
        if self._lock.acquire(blocking=False):  # nobody holds it, or this thread
            self._lock.release()
        else:
            self._lock = threading.RLock()


def _locks() -> "list[Lock]":
    return [lock for one in list(_all) if (lock := one()) is not None]


def _before_fork() -> None:
    for lock in _locks():
        lock.before_fork()


def _after_fork() -> None:
    for lock in _locks():
        lock.after_fork()


def _in_child() -> None:
    for lock in _locks():
        lock.renew()
    for cached in _cached_properties():
        cached.lock = threading.RLock()


def _cached_properties() -> list[Any]:
    """Those of culpa: in Python 3.11 each one has a lock."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("culpa")]
    classes = [value for module in modules for value in list(vars(module).values()) if isinstance(value, type)]
    values = [value for each in classes for value in vars(each).values()]
    return [value for value in values if isinstance(value, functools.cached_property) and hasattr(value, "lock")]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
