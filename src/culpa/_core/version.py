"""The version of culpa."""

__version__ = "0.1.0"
