"""Files in and out: tables, model files, numbers that stand for missing cells."""

from culpa.io.model_file import ModelFileError, load, save

__all__ = ["ModelFileError", "load", "save"]
