"""Where users' calls enter: NumPy's treatment of underflow is the usual one inside, whatever the caller has set."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import isfunction
from typing import Any, ParamSpec, TypeVar

import numpy as np

C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")


def entrance(function: Callable[P, R]) -> Callable[P, R]:
    """A function in which numbers may become 0, as probabilities of far rows do, without an error.

    >>> import numpy as np
    >>> with np.errstate(all="raise"):
    ...     entrance(np.exp)(-1000.0).item()
    0.0
    """

    @wraps(function)
    def entered(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(under="ignore"):
            return function(*args, **kwargs)

    return entered


def on_what_is_held(method: Callable[..., R]) -> Callable[..., R]:
    """A method that works on what its object is now (`_held`), even if another thread changes the object meanwhile."""

    @wraps(method)
    def of_now(self: Any, *args: Any, **kwargs: Any) -> R:
        return method(self._held(), *args, **kwargs)

    return of_now


def entered(cls: C, through: Callable[[Any], Any] = entrance) -> C:
    """A class whose public methods are all entrances; what makes a dataclass only keeps its fields."""
    called = ("__call__",) if is_dataclass(cls) else ("__init__", "__call__")
    for name, method in list(vars(cls).items()):
        if isfunction(method) and (not name.startswith("_") or name in called):
            setattr(cls, name, through(method))
        elif isinstance(method, classmethod):
            setattr(cls, name, classmethod(through(method.__func__)))
    return cls


def entered_as_held(cls: C) -> C:
    """The same, where each call works on what the object is at its beginning."""
    return entered(cls, lambda method: entrance(on_what_is_held(method)))
