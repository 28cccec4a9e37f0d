"""Tables in files and pipes, in batches: CSV, Parquet, Arrow and NDJSON.

A source hands out batches of the features it is asked for, matched by name, with other columns carried along untouched.
A sink writes columns and puts its file in place only when everything has been written.
"""

from culpa.tables.base import Batch, Carried, Source, TableError
from culpa.tables.formats import FORMATS, Options, format_of, open_source
from culpa.tables.sink import Sink, open_sink

__all__ = [
    "FORMATS",
    "Batch",
    "Carried",
    "Options",
    "Sink",
    "Source",
    "TableError",
    "format_of",
    "open_sink",
    "open_source",
]
