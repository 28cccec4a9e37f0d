"""Where results are written. A file is written under another name, and renamed when it is complete."""

import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from culpa._core.files import write_whole
from culpa._core.output import is_closed, write_all
from culpa.io.tables.columns import plain, without_zeros
from culpa.io.tables.csv_line import CsvLine
from culpa.io.tables.table import TableError

_NUMBER = r"^[+-]?(\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?$"  # which is no formula, whatever its sign
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how formulas of spreadsheets begin


class Sink(Protocol):
    """Takes columns of equal length, batch by batch: Arrow arrays, NumPy arrays or lists."""

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows.

        A sink may also have a method ``declare``, which takes the Arrow schema of all rows before the first of them.
        """


@contextmanager
def open_sink(
    path: Path | None, kind: str, *, force: bool = False, flush: bool = False, escape: bool = False
) -> Iterator[Sink]:
    """A sink for a file, or for standard output if ``path`` is ``None``. ``escape`` disarms formulas in texts of CSV.

    The file appears under its name when the block ends well, and not at all otherwise.
    """
    if path is None:
        if is_closed():
            raise TableError("standard output is closed. Name a file with -o.")
        if kind in ("parquet", "arrow") and sys.stdout.isatty():
            raise TableError(f"{kind} cannot be shown on a terminal. Write to a file with -o, or use --format csv.")
        with _finished(_make(kind, sys.stdout.buffer, flush=flush)) as sink:
            yield _Disarmed(sink) if escape and kind == "csv" else sink
        sys.stdout.buffer.flush()
        return
    with write_whole(path, force=force) as file, _finished(_make(kind, file, flush=flush)) as sink:
        yield _Disarmed(sink) if escape and kind == "csv" else sink


@contextmanager
def _finished(sink: "_Arrow | _Ndjson") -> Iterator[Sink]:
    try:
        yield sink
    except BaseException:
        sink.abandon()
        raise
    sink.close()


_BYTES = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)


def _make(kind: str, file: Any, *, flush: bool) -> "_Arrow | _Ndjson":
    if kind == "ndjson":
        return _Ndjson(file, flush)
    if kind == "csv":
        return _Csv(file, _open_csv, flush)
    return _Arrow(file, {"parquet": _open_parquet, "arrow": _open_arrow}[kind], flush)


class _Arrow:
    """Parquet, Arrow and CSV through pyarrow. Types are those that were declared, or else those of the first batch."""

    def __init__(self, file: Any, start: Callable[[Any, Any], Any], flush: bool) -> None:
        self.file, self.start, self.flush = _Gate(file), start, flush
        self.writer: Any = None
        self.schema: Any = None
        self.unseen: set[str] = set()  # columns whose type is not known, because the first batch had no cell in them

    def declare(self, schema: Any) -> None:
        """Types of the columns, whatever the first batch holds."""
        if self.writer is None:
            self.schema = schema

    def write(self, columns: Mapping[str, Any]) -> None:
        if self.writer is None:
            self._begin(self._first(columns))
        else:
            self._go_on(columns)
        if self.flush:
            self.file.flush()

    def _first(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of the first batch, with their types for good."""
        if self.schema is not None:
            return {field.name: self._cells(columns, field) for field in self.schema}
        arrays = {name: _array(cells, name) for name, cells in columns.items()}
        self.unseen = {name for name, array in arrays.items() if types.is_null(array.type)}
        return {name: _settled(array) for name, array in arrays.items()}

    def _cells(self, columns: Mapping[str, Any], field: Any) -> Any:
        """The cells of a column as its type; a column that is not there is missing throughout."""
        if field.name not in columns:
            n = len(next(iter(columns.values())))
            return pa.nulls(n, field.type)
        array = _array(columns[field.name], field.name)
        is_text = types.is_string(array.type) or types.is_large_string(array.type)
        if field.name in self.unseen and not (is_text or types.is_null(array.type)):
            raise _changed(field.name, "unknown, because the first rows have no cell in it,", array.type)
        return _fit(array, field)

    def _begin(self, arrays: Mapping[str, Any]) -> None:
        batch = pa.RecordBatch.from_pydict(dict(arrays))
        self.schema = batch.schema
        try:
            self.writer = self.start(self.file, self.schema)
        except pa.ArrowException as error:
            raise self._unwritten(batch, error) from None
        self._write_batch(batch)

    def _go_on(self, columns: Mapping[str, Any]) -> None:
        if new := columns.keys() - set(self.schema.names):
            raise TableError(
                f"column {min(new)!r} is not in the first rows, which this format cannot store. Write NDJSON instead."
            )
        arrays = [self._cells(columns, field) for field in self.schema]
        self._write_batch(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def _write_batch(self, batch: Any) -> None:
        try:
            self.writer.write_batch(batch)
        except pa.ArrowException as error:
            raise self._unwritten(batch, error) from None

    def _unwritten(self, batch: Any, error: Exception) -> TableError:
        """An error that names the column of a batch that cannot be written."""
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            alone = pa.RecordBatch.from_arrays([array], names=[name])
            try:
                with self.start(_Gate(io.BytesIO()), alone.schema) as writer:
                    writer.write_batch(alone)
            except pa.ArrowException:
                return _not_storable(name, array.type)
        return TableError(" ".join(str(error).split())[:200])

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.file.shut = True  # the underlying file may be closed before this one is deleted

    def abandon(self) -> None:
        """Close without writing the end, which would make half a file look whole."""
        self.file.shut = True
        self.close()


class _Csv(_Arrow):
    """CSV. Times are written as precisely as those of their batch need, or as the texts that they are."""

    def declare(self, schema: Any) -> None:
        """Types of the columns, except for times."""
        super().declare(pa.schema([field for field in schema if not types.is_temporal(field.type)]))

    def _first(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        declared = {} if self.schema is None else {field.name: field for field in self.schema}
        self.unseen = set()  # whose cells are texts in any case
        return {
            name: self._cells(columns, declared[name]) if name in declared else _settled(_array(cells, name))
            for name, cells in columns.items()
        }

    def _begin(self, arrays: Mapping[str, Any]) -> None:
        self.types = pa.schema([(name, array.type) for name, array in arrays.items()])
        super()._begin({name: without_zeros(array) for name, array in arrays.items()})
        self._line = CsvLine(self.schema)  # for answers to single lines
        self._old: list[Any] = []  # writers of other types of times, which would close the file if they were deleted

    def _go_on(self, columns: Mapping[str, Any]) -> None:
        if (line := self._line(columns)) is not None:
            self.file.write(line)
            return
        arrays = [without_zeros(self._cells(columns, field)) for field in self.types]
        batch = pa.RecordBatch.from_arrays(arrays, names=self.types.names)
        if batch.schema != self.schema:
            self._old.append(self.writer)
            self.schema, self.writer = batch.schema, _open_csv(self.file, batch.schema, header=False)
        self._write_batch(batch)


class _Disarmed:
    """Puts an apostrophe before names and texts that a spreadsheet would take for formulas."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink

    def declare(self, schema: Any) -> None:
        self.sink.declare(pa.schema([field.with_name(_disarmed_name(field.name)) for field in schema]))

    def write(self, columns: Mapping[str, Any]) -> None:
        self.sink.write({_disarmed_name(name): _disarmed(_array(cells, name)) for name, cells in columns.items()})


def _disarmed_name(name: str) -> str:
    return f"'{name}" if name.startswith(_FORMULA) else name


def _disarmed(array: Any) -> Any:
    import pyarrow.compute as pc

    if not (types.is_string(array.type) or types.is_large_string(array.type)):
        return array
    armed = pc.and_not(pc.match_substring_regex(array, "^[=+@\\t\\r-]"), pc.match_substring_regex(array, _NUMBER))
    return pc.if_else(
        armed, pc.binary_join_element_wise(pa.scalar("'", array.type), array, pa.scalar("", array.type)), array
    )


class _Gate(io.RawIOBase):
    """A file that can be shut: what is written after that goes nowhere."""

    def __init__(self, file: Any) -> None:
        self.file, self.shut = file, False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.shut:
            write_all(self.file, data)
        return memoryview(data).nbytes

    def flush(self) -> None:
        if not self.shut:
            self.file.flush()


class _Ndjson:
    """One JSON object per row; a cell that is ``...`` is left out of its row."""

    def __init__(self, file: Any, flush: bool) -> None:
        self.file, self.flush = file, flush

    def write(self, columns: Mapping[str, Any]) -> None:
        lists = [_to_list(cells, name) for name, cells in columns.items()]
        names = list(columns)
        lines = [
            _json({name: cell for name, cell in zip(names, cells, strict=True) if cell is not ...})
            for cells in zip(*lists, strict=True)
        ]
        if lines:
            write_all(self.file, ("\n".join(lines) + "\n").encode())
        if self.flush:
            self.file.flush()

    def close(self) -> None:
        """Nothing to finish."""

    def abandon(self) -> None:
        """Nothing to finish."""


def _json(record: dict[str, Any]) -> str:
    """JSON that every reader accepts: numbers that are not finite become null."""
    try:
        return json.dumps(record, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        plain = {
            name: None if isinstance(cell, float) and not math.isfinite(cell) else cell for name, cell in record.items()
        }
        return json.dumps(plain, ensure_ascii=False, default=str)


def _open_csv(file: Any, schema: Any, *, header: bool = True) -> Any:
    import pyarrow.csv as pa_csv

    return pa_csv.CSVWriter(file, schema, write_options=pa_csv.WriteOptions(include_header=header))


def _open_parquet(file: Any, schema: Any) -> Any:
    import pyarrow.parquet as pq

    # measured numbers hardly repeat, so dictionary encoding would cost time and save nothing
    texts = [field.name for field in schema if types.is_string(field.type)]
    return pq.ParquetWriter(file, schema, use_dictionary=texts or False)


def _open_arrow(file: Any, schema: Any) -> Any:
    seekable = file.file is not sys.stdout.buffer
    return pa.ipc.new_file(file, schema) if seekable else pa.ipc.new_stream(file, schema)


def _array(cells: Any, name: str = "") -> Any:
    """Cells as an Arrow array; NaN becomes null, which every format has."""
    if isinstance(cells, pa.Array):
        return plain(cells)
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise TableError(
            f"column {name!r} mixes types of values, which this format cannot store ({error}). Write NDJSON instead."
        ) from None


def _settled(array: Any) -> Any:
    """Types that every writer can take, and that later batches can keep."""
    return array.cast(pa.string()) if types.is_null(array.type) else array


def _fit(array: Any, field: Any) -> Any:
    if array.type == field.type:
        return array
    try:
        return array.cast(field.type)
    except pa.ArrowException:
        raise _changed(field.name, field.type, array.type) from None


def _changed(name: str, before: Any, after: Any) -> TableError:
    return TableError(
        f"column {name!r} changes its type from {before} to {after}, which this format cannot store. Write NDJSON instead."
    )


def _not_storable(name: str, type: Any) -> TableError:
    if any(is_bytes(type) for is_bytes in _BYTES):
        return TableError(
            f"column {name!r} contains bytes that are not UTF-8 text, which this format cannot store. Write "
            "Parquet instead."
        )
    instead = "Parquet or NDJSON" if types.is_nested(type) else "another format"
    return TableError(
        f"column {name!r} contains values of the type {str(type)[:60]}, which this format cannot store. Write {instead} "
        "instead, or leave out the column."
    )


def _to_list(cells: Any, name: str = "") -> list[Any]:
    if isinstance(cells, list):
        return cells
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":  # Arrow would take longer for a line of a pipe
        numbers: list[Any] = cells.tolist()
        return [None if number != number else number for number in numbers] if cells.dtype.kind == "f" else numbers
    array = _array(cells, name)
    try:
        if types.is_temporal(array.type) or types.is_decimal(array.type):
            array = without_zeros(array).cast(pa.string())
        elif any(is_bytes(array.type) for is_bytes in _BYTES):
            array = array.cast(pa.binary()).cast(pa.string())
    except pa.ArrowException:
        raise _not_storable(name, array.type) from None
    return array.to_pylist()  # type: ignore[no-any-return]
