"""Tables in files and pipes, in batches: CSV, Parquet, Arrow and NDJSON.

A source yields batches with the requested features, matched by name. Other columns can be carried along unchanged.
A sink writes columns. Its file gets its name only when everything has been written.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "Batch",
    "Carried",
    "Options",
    "Selection",
    "Sink",
    "Source",
    "TableError",
    "TimedTable",
    "excluded_periods",
    "format_of",
    "open_sink",
    "open_source",
    "open_table",
    "select",
]

if TYPE_CHECKING:
    from culpa.io.tables.formats import excluded_periods, format_of, open_source, open_table
    from culpa.io.tables.reading import Options
    from culpa.io.tables.selection import Selection, select
    from culpa.io.tables.sink import Sink, open_sink
    from culpa.io.tables.table import Batch, Carried, Source, TableError
    from culpa.io.tables.timed import TimedTable
else:
    # loaded on first use, because reading a model file needs `reading`, but not pyarrow
    _HOMES = {
        "Batch": "culpa.io.tables.table",
        "Carried": "culpa.io.tables.table",
        "Options": "culpa.io.tables.reading",
        "Selection": "culpa.io.tables.selection",
        "Sink": "culpa.io.tables.sink",
        "Source": "culpa.io.tables.table",
        "TableError": "culpa.io.tables.table",
        "TimedTable": "culpa.io.tables.timed",
        "excluded_periods": "culpa.io.tables.formats",
        "format_of": "culpa.io.tables.formats",
        "open_sink": "culpa.io.tables.sink",
        "open_source": "culpa.io.tables.formats",
        "open_table": "culpa.io.tables.formats",
        "select": "culpa.io.tables.selection",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
