"""Which format a table has, and the source that reads it."""

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from culpa._core.choices import TABLE_FORMATS
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
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True)
class Options:
    """How to read a table: everything that the file itself does not say."""

    format: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()  # texts and numbers that mean a missing cell, in addition to NA, null and so on
    strict: bool = False
    sparse: bool = False


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
        f"{path}: the file extension is not known. Specify the format with --input-format (input) or --format (output): "
        f"{', '.join(TABLE_FORMATS)}."
    )


def open_source(path: Path | None, options: Options, report: Callable[[str], None]) -> Source:
    """The table in a file, or on standard input for ``None``; ``report`` receives a message for each skipped line."""
    kind = format_of(path, options.format)
    if path is not None:
        _check_regular(path)
    if kind == "ndjson":
        from culpa.io.tables.ndjson import NdjsonTable

        return NdjsonTable(path, strict=options.strict, sparse=options.sparse, missing=options.missing, report=report)
    if kind == "csv":
        from culpa.io.tables.csv_table import CsvTable

        return CsvTable(
            path,
            delimiter=options.delimiter,
            decimal=options.decimal,
            encoding=options.encoding,
            missing=options.missing,
        )
    from culpa.io.tables.columnar import ArrowTable, ParquetTable

    table = ParquetTable if kind == "parquet" else ArrowTable
    return table(path, missing=options.missing)


def _check_regular(path: Path) -> None:
    """Check here that the file exists, so that the error is the same for every format."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise TableError(f"{path} is a folder, not a file.")
    if not stat.S_ISREG(mode):  # reading its beginning would remove it
        raise TableError(
            f"{path} is a pipe or a device, not a file. Redirect it to standard input, and pass '-' as table."
        )
