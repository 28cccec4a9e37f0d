"""Packages whose public names are loaded on first use (PEP 562), so that nobody waits for what is not needed."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from culpa._core.choices import suggestion


def lazy_from(package: str, **names: str) -> Callable[[str], object]:
    """`lazy`, for names that modules of the package hold: their names in one text, by module."""
    return lazy(package, {name: f"{package}.{home}" for home, held in names.items() for name in held.split()})


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """``__getattr__`` of a package, from its names and the modules that hold them.

    >>> lazy("culpa", {"sqrt": "math"})("sqrt").__name__
    'sqrt'
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{suggestion(name, list(homes))}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
