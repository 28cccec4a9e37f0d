"""Tables in files and pipes, in batches: CSV, Parquet, Arrow and NDJSON.

A source yields batches with the requested features, matched by name. Other columns can be carried along unchanged.
A sink writes columns. Its file gets its name only when everything has been written.
"""

from culpa.io.tables.formats import format_of, open_source
from culpa.io.tables.reading import Options
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
