"""Packages that culpa can do without: what is missing is said in one sentence, with the command that installs it."""

from importlib import import_module
from types import ModuleType


def require(package: str, who: str, extra: str = "app") -> ModuleType:
    """Import a package, or say who needs it and how to install it.

    >>> require("math", "The table of sines").__name__
    'math'
    >>> require("no_such_package", "The report")
    Traceback (most recent call last):
    ...
    ImportError: The report needs no_such_package: pip install 'culpa[app]'
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package.partition(".")[0]:
            raise
        raise ImportError(f"{who} needs {package}: pip install 'culpa[{extra}]'") from None
