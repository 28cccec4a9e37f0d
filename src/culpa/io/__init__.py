"""Files in and out: tables, model files, numbers that stand for missing cells."""

from culpa.io.model_checks import ModelFileError
from culpa.io.model_file import load, save

__all__ = ["ModelFileError", "load", "save"]
