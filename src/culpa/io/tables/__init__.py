"""Tables in files and pipes, in batches: CSV, Excel, Parquet, Arrow and NDJSON.

A source yields batches with the requested features, matched by name. Other columns can be carried along unchanged.
A sink writes columns. Its file gets its name only when everything has been written.
"""

from culpa.io.reading import Options
from culpa.io.tables.formats import format_of, open_source, open_table
from culpa.io.tables.sink import Sink, open_sink
from culpa.io.tables.table import Batch, Carried, Source, TableError
from culpa.io.tables.timed import TimedTable

__all__ = [
    "Batch",
    "Carried",
    "Options",
    "Sink",
    "Source",
    "TableError",
    "TimedTable",
    "format_of",
    "open_sink",
    "open_source",
    "open_table",
]
