"""Which format a table has, and the source that reads it."""

import stat
from collections.abc import Callable
from pathlib import Path

from culpa._core.choices import INPUT_FORMATS
from culpa.io.tables.pipe import Pipe
from culpa.io.tables.reading import Options
from culpa.io.tables.table import Source, TableError

_ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".xlsx": "excel",
    ".xlsm": "excel",
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


def format_of(path: Path | None, given: str | None, otherwise: str | None = None) -> str:
    """The format asked for, or the one that the file's name ends in; ``otherwise`` for pipes."""
    if given is not None:
        return given
    if path is None:
        return otherwise or "ndjson"
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in _PACKED and "".join(endings[-2:-1]) in (".csv", ".tsv", ".txt"):
        return "csv"
    if endings and endings[-1] in _ENDINGS:
        return _ENDINGS[endings[-1]]
    if otherwise is not None:
        return otherwise
    raise TableError(
        f"{path}: the file extension is not known. Name the format with --input-format (input) or --format (output): "
        f"{', '.join(INPUT_FORMATS)}."
    )


def open_source(path: Path | None, options: Options, report: Callable[[str], None]) -> Source:
    """The table in a file, or on standard input for ``None``; ``report`` receives a message for each skipped line."""
    pipe = Pipe() if path is None else None
    kind = format_of(path, options.format, otherwise=None if pipe is None else pipe.format() if not options.format else "csv")
    if path is not None:
        _check_regular(path)
    if kind == "ndjson":
        from culpa.io.tables.ndjson import NdjsonTable

        return NdjsonTable(
            path, strict=options.strict, sparse=options.sparse, missing=options.missing, report=report, pipe=pipe
        )
    if kind == "csv":
        from culpa.io.tables.csv_table import CsvTable

        return CsvTable(path, options, pipe)
    if kind == "excel":
        from culpa.io.tables.excel import ExcelTable

        return ExcelTable(path, options)
    from culpa.io.tables.columnar import ArrowTable, ParquetTable

    table = ParquetTable if kind == "parquet" else ArrowTable
    return table(path, missing=options.missing, pipe=pipe)


def _check_regular(path: Path) -> None:
    """Check here that the file exists, so that the error is the same for every format."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise TableError(f"{path} is a folder, not a file.")
    if not stat.S_ISREG(mode):  # reading its beginning would remove it
        raise TableError(
            f"{path} is a pipe or a device, not a file. Redirect it to standard input, and pass '-' as table."
        )
