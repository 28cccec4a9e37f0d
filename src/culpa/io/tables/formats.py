"""Opening tables: formats, several files as one table, and tables whose units differ from those of a model."""

import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

from culpa._core.choices import INPUT_FORMATS
from culpa.columns.units import conversion, same_unit
from culpa.io.reading import Options
from culpa.io.tables.columnar import ArrowTable, ParquetTable
from culpa.io.tables.csv_cells import CsvCells
from culpa.io.tables.excel import ExcelCells
from culpa.io.tables.long import LongTable
from culpa.io.tables.ndjson import NdjsonTable
from culpa.io.tables.pipe import Pipe
from culpa.io.tables.selection import Period, select
from culpa.io.tables.table import Batch, Cells, Column, Source, Stage, TableError
from culpa.io.tables.text_table import TextTable
from culpa.io.tables.timed import TimedTable
from culpa.io.tables.times import UNITS
from culpa.monitoring.times import are_days

_OF_FORMATS = {
    "csv": ".csv .tsv .txt",
    "parquet": ".parquet .pq",
    "arrow": ".arrow .feather .ipc",
    "ndjson": ".ndjson .jsonl",
    "excel": ".xlsx .xlsm",
}
_ENDINGS = {ending: name for name, endings in _OF_FORMATS.items() for ending in endings.split()}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


class _Converted(Stage):
    """A table in other units."""

    def __init__(self, inner: Source, units: Mapping[str, str]) -> None:
        super().__init__(inner)
        self._wanted = units

    @property
    def units(self) -> Mapping[str, str]:
        """The units into which columns are converted."""
        return {**self.inner.units, **self._wanted}

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows in these units. A feature that nobody can convert is refused."""
        steps = [(j, *self._step(name)) for j, name in enumerate(features) if name in self._wanted]
        for batch in self.inner.batches(features, carried):
            X = batch.X.copy(order="F")
            for j, factor, shift in steps:
                X[:, j] = X[:, j] * factor + shift
            yield replace(batch, X=X)

    def _step(self, name: str) -> tuple[float, float]:
        unit, wanted = self.inner.units[name], self._wanted[name]
        found = conversion(unit, wanted)
        if found is None:
            raise _other_unit(self.inner, name, wanted)
        return found


def _other_unit(source: Source, name: str, wanted: str) -> TableError:
    return TableError(
        f"{source.name}: column {name!r} is in {source.units[name]!r}, but it was in {wanted!r} before. Convert it, or "
        "correct the row of units."
    )


def check_unit(source: Source, units: Mapping[str, str], name: str) -> Source:
    """The table, unless a column is in another unit. Values of a long table are not converted, because tags differ."""
    if name in units and not same_unit(source.units.get(name, units[name]), units[name]):
        raise _other_unit(source, name, units[name])
    return source


def in_units(source: Source, units: Mapping[str, str], report: Callable[[str], None]) -> Source:
    """The table with its columns in these units, where they are others than its row of units names."""
    own = source.units
    others = {name: unit for name, unit in units.items() if name in own and not same_unit(own[name], unit)}
    for name, unit in others.items():
        if conversion(own[name], unit):
            report(f"{source.name}: column {name!r} is converted from {own[name]} to {unit}.")
    return _Converted(source, others) if others else source


def expand(texts: Sequence[str]) -> list[Path | None]:
    """The files that are meant by paths and patterns such as ``line3/*.parquet``; ``None`` for a dash.

    The files of a pattern are sorted by name, and numbers in names by their value.
    """
    paths: list[Path | None] = []
    for text in texts:
        if text == "-":
            paths.append(None)
        elif re.search(r"[*?\[]", text) and not Path(text).exists():
            found = sorted(glob(text, recursive=True), key=_natural)
            if not found:
                raise TableError(f"{text}: no file matches this pattern.")
            paths += map(Path, found)
        else:
            paths.append(Path(text))
    if None in paths and len(paths) > 1:
        raise TableError("standard input cannot be combined with files.")
    return paths


def _natural(name: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name)]


class SeveralTables(Stage):
    """Tables with the same columns as one table; rows are numbered on. What is not said here is that of the first."""

    time = None

    def __init__(self, sources: Sequence[Source]) -> None:
        super().__init__(sources[0])
        self.sources = list(sources)
        self.name = f"{sources[0].name} and {len(sources) - 1} more"
        self.again = all(source.again for source in sources)
        self._at = 0

    @property
    def decisions(self) -> list[str]:
        """Those about the first file, and where others differ."""
        first = self.sources[0].decisions
        others = [
            f"{source.name}: {', '.join(source.decisions)}" for source in self.sources[1:] if source.decisions != first
        ]
        return [*first, *others[:3]]

    @property
    def missing_found(self) -> Counter[str]:
        """Texts that were read as missing cells, over all files."""
        return sum((source.missing_found for source in self.sources), Counter[str]())

    @property
    def units(self) -> Mapping[str, str]:
        """Of the first file that names a unit."""
        return {name: unit for source in reversed(self.sources) for name, unit in source.units.items()}

    @property
    def skipped(self) -> int:
        """Rows that were skipped, over all files."""
        return sum(source.skipped for source in self.sources)

    def columns(self) -> Mapping[str, Column]:
        """Those of the first file; a column is numeric if it is so in all files that have it."""
        columns = dict(self.sources[0].columns())
        for source in self.sources[1:]:
            others = source.columns()
            for name, column in columns.items():
                if column.kind == "number" and others.get(name, column).kind != "number":
                    columns[name] = others[name]
        return columns

    def files(self) -> Sequence[Source]:
        """Paths of the files, in the order in which they are read."""
        return [file for source in self.sources for file in source.files()]

    def look(self, name: str) -> list[Any]:
        """The first cells of all files that have the column."""
        return [cell for source in self.sources if name in source.columns() for cell in source.look(name)]

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """The rows of all files."""
        done = 0
        for at, source in enumerate(self.sources):
            self._at, used, last = at, 0, -1
            for batch in source.batches(features, carried):
                last = int(batch.rows[-1]) if len(batch.rows) else last
                yield replace(batch, rows=batch.rows + done, begins=at > 0 and not used)
                used += len(batch.rows)
            done += max(last + 1, used + source.skipped)  # rows that were skipped at its end count, too

    def share(self) -> float | None:
        """Files read of all files."""
        share = self.sources[self._at].share()
        return None if share is None else (self._at + share) / len(self.sources)


def format_of(path: Path, formats: Sequence[str] = INPUT_FORMATS) -> str:
    """The format that a file's name ends in."""
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in _PACKED and "".join(endings[-2:-1]) in (".csv", ".tsv", ".txt"):
        return "csv"
    if endings and _ENDINGS.get(endings[-1]) in formats:
        return _ENDINGS[endings[-1]]
    raise TableError(
        f"{path}: the file extension is not known. Specify the format with --input-format (input) or --format (output): "
        f"{', '.join(formats)}."
    )


def open_source(path: Path | None, options: Options, report: Callable[[str], None]) -> Source:
    """The table in a file, or on standard input for ``None``; ``report`` receives a message for each skipped line."""
    pipe, kind = None, options.format
    if path is None:
        pipe = Pipe()
        kind = kind or pipe.format()
    else:
        if path.is_dir():
            raise TableError(f"{path} is a folder, not a file. Name its files, for example '{path / '*.csv'}'.")
        kind = kind or format_of(path)
        _check_regular(path)
    if kind == "ndjson":
        return NdjsonTable(path, options, report, pipe)
    if kind in ("csv", "excel"):
        cells: Cells = CsvCells(path, options, pipe) if kind == "csv" else ExcelCells(path, options)
        return TextTable(cells, options, report)
    return (ParquetTable if kind == "parquet" else ArrowTable)(path, missing=options.missing, pipe=pipe)


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
        whole = LongTable(whole, options)
        options = replace(options, time=options.long[1], time_format=None)  # the pivoted times have their own type
    return TimedTable(whole, options, selection)


def excluded_periods(path: Path, options: Options) -> list[Period]:
    """The periods that a table lists, by its first two columns of times: beginning and end.

    An end without a time of day includes that day. Numbers since 1970 are in UTC. Days in Excel are times at midnight.
    """
    import pandas as pd

    source = open_source(path, Options(encoding=options.encoding), lambda text: None)
    found: list[Any] = []
    for name in source.columns():
        column = TimedTable(source, Options(time=name, time_format=options.time_format, hints=options.hints))
        if len(found) == 2 or not column.holds_times(name):
            continue
        moments: list[Any] = []
        for batch in column.batches([], [name]):
            times: Any = batch.times() if batch.times is not None else ()
            is_epoch, cells = column.time_format.name in UNITS, batch.carried[name]
            times = times.tz_localize("UTC") if is_epoch else times
            if found and not is_epoch:
                texts = map(str, cells if isinstance(cells, list) else cells.to_pylist())
                all_days = source.kind == "excel" and bool(are_days(times).all())
                days = [all_days or not re.search(r"\d:\d", text) for text in texts]
                times = [end + pd.Timedelta(days=int(day)) for end, day in zip(times, days, strict=True)]
            moments.extend(times)
        found.append(moments)
    if len(found) < 2:
        raise TableError(
            f"{path}: --exclude-file needs two columns of times, the beginning and the end of each period."
        )
    for row, (start, end) in enumerate(zip(*found, strict=True)):
        if (start.tz is None) == (end.tz is None) and end < start:
            raise TableError(f"{path}: the period in row {row} ends before it begins.")
    return list(zip(*found, strict=True))


def _check_regular(path: Path) -> None:
    """Check here that the file exists, so that the error is the same for every format."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):  # reading its beginning would remove it
        raise TableError(
            f"{path} is a pipe or a device, not a file. Redirect it to standard input, and pass '-' as table."
        )
