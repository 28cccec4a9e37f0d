"""Tables in files and pipes, in batches: CSV, Parquet, Arrow and NDJSON.

A source hands out batches of the features it is asked for, matched by name, with other columns carried along untouched.
A sink writes columns and puts its file in place only when everything has been written.
"""

from culpa.io.tables.formats import Options, format_of, open_source
from culpa.io.tables.sink import Sink, open_sink
from culpa.io.tables.table import Batch, Carried, Source, TableError

__all__ = [
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
