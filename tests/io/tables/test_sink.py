"""Sinks write everything, or raise an error."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from culpa.io.tables import open_sink

COLUMNS = {"row": np.arange(500), "score": np.linspace(0, 1, 500)}


class Parts(io.RawIOBase):
    """Standard output without a buffer, which takes up to 1,000 bytes at a time."""

    def __init__(self):
        self.got = b""

    def writable(self):
        return True

    def write(self, data):
        part = bytes(data)[:1000]
        self.got += part
        return len(part)


def written(kind, file, monkeypatch):
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=file, isatty=lambda: False))
    with open_sink(None, kind) as sink:
        sink.write(COLUMNS)
        sink.write(COLUMNS)
    return file.got if isinstance(file, Parts) else file.getvalue()


@pytest.mark.parametrize("kind", ["csv", "ndjson", "arrow", "parquet"])
def test_a_file_that_takes_parts_gets_everything(kind, monkeypatch):
    whole = written(kind, io.BytesIO(), monkeypatch)
    assert len(whole) > 2000
    assert written(kind, Parts(), monkeypatch) == whole
