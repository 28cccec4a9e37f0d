"""Which format a table has, and the source that reads it."""

import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from culpa._core.choices import INPUT_FORMATS
from culpa.io.reading import Options
from culpa.io.tables.converted import check_unit, in_units
from culpa.io.tables.pipe import Pipe
from culpa.io.tables.selection import Period, select
from culpa.io.tables.several import SeveralTables, expand
from culpa.io.tables.table import Source, TableError
from culpa.io.tables.timed import TimedTable
from culpa.io.tables.times import UNITS
from culpa.monitoring.times import are_days

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


def format_of(
    path: Path | None, given: str | None, otherwise: str | None = None, formats: Sequence[str] = INPUT_FORMATS
) -> str:
    """The format asked for, or the one that the file's name ends in; ``otherwise`` for pipes and other endings."""
    if given is not None:
        return given
    if path is None:
        return otherwise or "ndjson"
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in _PACKED and "".join(endings[-2:-1]) in (".csv", ".tsv", ".txt"):
        return "csv"
    if endings and _ENDINGS.get(endings[-1]) in formats:
        return _ENDINGS[endings[-1]]
    if otherwise is not None:
        return otherwise
    raise TableError(
        f"{path}: the file extension is not known. Specify the format with --input-format (input) or --format (output): "
        f"{', '.join(formats)}."
    )


def open_source(path: Path | None, options: Options, report: Callable[[str], None]) -> Source:
    """The table in a file, or on standard input for ``None``; ``report`` receives a message for each skipped line."""
    if path is not None and path.is_dir():
        raise TableError(f"{path} is a folder, not a file. Name its files, for example '{path / '*.csv'}'.")
    pipe = Pipe() if path is None else None
    kind = format_of(
        path, options.format, otherwise=None if pipe is None else pipe.format() if not options.format else "csv"
    )
    if path is not None:
        _check_regular(path)
    if kind == "ndjson":
        from culpa.io.tables.ndjson import NdjsonTable

        return NdjsonTable(path, options, report, pipe)
    if kind == "csv":
        from culpa.io.tables.csv_cells import CsvCells
        from culpa.io.tables.text_table import TextTable

        return TextTable(CsvCells(path, options, pipe), options, report)
    if kind == "excel":
        from culpa.io.tables.excel import ExcelCells
        from culpa.io.tables.text_table import TextTable

        return TextTable(ExcelCells(path, options), options, report)
    from culpa.io.tables.columnar import ArrowTable, ParquetTable

    table = ParquetTable if kind == "parquet" else ArrowTable
    return table(path, missing=options.missing, pipe=pipe)


def open_table(texts: Sequence[str], options: Options, report: Callable[[str], None]) -> TimedTable:
    """The rows of one or several files or patterns, as one table with times."""
    excluded = [] if options.exclude_file is None else excluded_periods(Path(options.exclude_file), options)
    selection = select(options.since, options.until, options.exclude, excluded)
    sources, units = [], dict(options.units)
    for path in expand(texts):
        source = open_source(path, options, report)
        sources.append(check_unit(source, units, options.long[2]) if options.long else in_units(source, units, report))
        units = {**sources[-1].units, **units}
    whole: Source = sources[0] if len(sources) == 1 else SeveralTables(sources)
    if options.long:
        from culpa.io.tables.long import LongTable

        whole = LongTable(whole, options)
        options = replace(options, time=options.long[1], time_format=None)  # the pivoted times have their own type
    return TimedTable(whole, options, selection)


def excluded_periods(path: Path, options: Options) -> list[Period]:
    """The periods that a table lists, by its first two columns of times: beginning and end.

    An end without a time of day includes that day. Numbers since 1970 are in UTC.
    """
    source = open_source(path, Options(encoding=options.encoding), lambda text: None)
    found: list[Any] = []
    for name in source.columns():
        column = TimedTable(source, Options(time=name, time_format=options.time_format, hints=options.hints))
        if len(found) == 2 or not column.holds_times(name):
            continue
        moments: list[Any] = []
        for batch in column.batches([], [name]):
            times: Any = batch.times() if batch.times is not None else ()
            if column.time_format.name in UNITS:
                moments.extend(times.tz_localize("UTC"))
            else:
                moments.extend(_ends(batch.carried[name], times, is_excel=source.kind == "excel") if found else times)
        found.append(moments)
    if len(found) < 2:
        raise TableError(
            f"{path}: --exclude-file needs two columns of times, the beginning and the end of each period."
        )
    for row, (start, end) in enumerate(zip(*found, strict=True)):
        if (start.tz is None) == (end.tz is None) and end < start:
            raise TableError(f"{path}: the period in row {row} ends before it begins.")
    return list(zip(*found, strict=True))


def _ends(cells: Any, times: Any, *, is_excel: bool) -> list[Any]:
    """Ends of periods: those without a time of day are the ends of their days. Days in Excel are times at midnight."""
    import pandas as pd

    clocks = [re.search(r"\d:\d", str(cell)) for cell in (cells if isinstance(cells, list) else cells.to_pylist())]
    all_days = is_excel and bool(are_days(times).all())
    return [
        end if clock and not all_days else end + pd.Timedelta(days=1) for end, clock in zip(times, clocks, strict=True)
    ]


def _check_regular(path: Path) -> None:
    """Check here that the file exists, so that the error is the same for every format."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):  # reading its beginning would remove it
        raise TableError(
            f"{path} is a pipe or a device, not a file. Redirect it to standard input, and pass '-' as table."
        )
