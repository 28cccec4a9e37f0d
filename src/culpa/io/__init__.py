"""Files in and out: tables, model files, numbers that stand for missing cells."""

from typing import TYPE_CHECKING

from culpa._core.lazy import lazy

__all__ = ["ModelFileError", "load", "save"]

if TYPE_CHECKING:
    from culpa.io.model_container import ModelFileError
    from culpa.io.model_file import load, save
else:  # how tables are read must be known before anything else is loaded
    __getattr__ = lazy(
        __name__,
        {"ModelFileError": "culpa.io.model_container", "load": "culpa.io.model_file", "save": "culpa.io.model_file"},
    )
