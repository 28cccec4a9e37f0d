"""Examples in docstrings that need the files of data sets are skipped where these are not."""

import os

import pytest


def pytest_collection_modifyitems(items):
    """Skip them."""
    if "CULPA_DATA" not in os.environ:
        for item in items:
            if item.name.startswith("culpa.datasets.files.load_"):
                item.add_marker(pytest.mark.skip(reason="CULPA_DATA names no folder with data sets"))
