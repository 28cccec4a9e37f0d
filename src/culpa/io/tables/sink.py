"""Where results are written. A file is written under another name, and renamed when it is complete."""

import io
import json
import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from culpa._core.files import write_whole
from culpa._core.output import is_closed, write_all
from culpa.io.tables.columns import plain, without_zeros
from culpa.io.tables.table import JsonCells, TableError

_NUMBER = r"^[+-]?(\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?$"  # which is no formula, whatever its sign
_NUMPY_KINDS = {"double": np.float64, "int64": np.int64, "bool": np.bool_}  # of Arrow's types
_BYTES = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how formulas of spreadsheets begin


class Sink(Protocol):
    """Takes columns of equal length, batch by batch: Arrow arrays, NumPy arrays or lists."""

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows to the output."""


class _Sink:
    """What formats have in common."""

    def __init__(self, file: Any, flush: bool, *, escape: bool = False) -> None:
        self.file, self.flush, self.escape = file, flush, escape

    def declare(self, schema: Any) -> None:
        """The types of all columns as an Arrow schema, whatever the first batch holds; some formats have no types."""

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows to the output; the first ones decide the types of its columns."""
        self._write(columns)
        if self.flush:
            self.file.flush()

    def _write(self, columns: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Write what ends a file."""

    def abandon(self) -> None:
        """Close without writing the end, which would make half a file look whole."""


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
    with nullcontext(sys.stdout.buffer) if path is None else write_whole(path, force=force) as file:
        sink: _Sink = {"ndjson": _Ndjson, "csv": _Csv, "parquet": _Parquet, "arrow": _Arrow}[kind](
            file, flush, escape=escape
        )
        try:
            yield sink
        except BaseException:
            sink.abandon()
            raise
        sink.close()
        if path is None:
            file.flush()


class _Typed(_Sink):
    """Formats with types of columns: those that were declared, or else those of the first batch."""

    schema: Any = None
    begun = False
    unseen: Collection[str] = ()  # columns whose type is not known, because the first batch had no cell in them

    def declare(self, schema: Any) -> None:
        self.schema = self.schema if self.begun else schema

    def _write(self, columns: Mapping[str, Any]) -> None:
        if not self.begun:
            batch, self.begun = self._first(columns), True
            self.schema = batch.schema
        elif new := columns.keys() - set(self.schema.names):
            raise TableError(
                f"column {min(new)!r} is not in the first rows, which this format cannot store. Write NDJSON instead."
            )
        else:
            batch = pa.RecordBatch.from_arrays(
                [self._cells(columns, field) for field in self.schema], schema=self.schema
            )
        try:
            self._put(batch)
        except pa.ArrowException as error:
            raise self._unwritten(batch, error) from None

    def _first(self, columns: Mapping[str, Any]) -> Any:
        """The first batch, with types for good: every writer can take them, and later batches can keep them."""
        known = {} if self.schema is None else {field.name: field for field in self.schema}
        arrays = {
            name: self._cells(columns, known[name]) if name in known else _array(columns[name], name)
            for name in dict.fromkeys((*known, *columns))
        }
        self.unseen = {name for name, array in arrays.items() if types.is_null(array.type)}
        return pa.RecordBatch.from_pydict(
            {name: array.cast(pa.string()) if name in self.unseen else array for name, array in arrays.items()}
        )

    def _cells(self, columns: Mapping[str, Any], field: Any) -> Any:
        """The cells of a column as its type; a column that is not there is missing throughout."""
        if field.name not in columns:
            return pa.nulls(len(next(iter(columns.values()))), field.type)
        array, before = _array(columns[field.name], field.name), field.type
        if field.name in self.unseen and not (_is_text(array.type) or types.is_null(array.type)):
            before = "unknown, because the first rows have no cell in it,"
        else:
            with suppress(pa.ArrowException):
                return array if array.type == field.type else array.cast(field.type)
        raise TableError(
            f"column {field.name!r} changes its type from {before} to {array.type}, which this format cannot store. "
            "Write NDJSON instead."
        )

    def _unwritten(self, batch: Any, error: Exception) -> TableError:
        """An error that names the column of a batch that cannot be written."""
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            alone = type(self)(io.BytesIO(), False)
            try:
                alone._put(pa.RecordBatch.from_arrays([array], names=[name]))
                alone.close()
            except pa.ArrowException:
                return _not_storable(name, array.type)
        return TableError(" ".join(str(error).split())[:200])

    def _put(self, batch: Any) -> None:
        """Write a batch in the format of the file."""
        raise NotImplementedError


class _Csv(_Typed):
    """CSV. Times are written as precisely as those of their batch need, or as the texts that they are."""

    line: Callable[[Mapping[str, Any]], bytes | None] | None = None  # writes answers to single lines

    def declare(self, schema: Any) -> None:
        names = [(_disarmed_name if self.escape else str)(name) for name in schema.names]
        super().declare(
            pa.schema([(name, t) for name, t in zip(names, schema.types, strict=True) if not types.is_temporal(t)])
        )

    def _write(self, columns: Mapping[str, Any]) -> None:
        columns = {name: _array(cells) if isinstance(cells, JsonCells) else cells for name, cells in columns.items()}
        if self.escape:
            columns = {_disarmed_name(name): _disarmed(_array(cells, name)) for name, cells in columns.items()}
        if self.line is not None and (line := self.line(columns)) is not None:
            write_all(self.file, line)
        else:
            super()._write(columns)

    def _first(self, columns: Mapping[str, Any]) -> Any:
        batch = super()._first(columns)
        self.unseen = ()  # their cells are texts in any case
        return batch.select(list(columns))

    def _put(self, batch: Any) -> None:
        import pyarrow.csv as pa_csv

        content, options = io.BytesIO(), pa_csv.WriteOptions(include_header=self.line is None)
        arrays = [without_zeros(array) for array in batch.columns]
        pa_csv.write_csv(pa.RecordBatch.from_arrays(arrays, names=batch.schema.names), content, options)
        self.line = self.line or CsvLine(batch.schema)
        write_all(self.file, content.getvalue())


class CsvLine:
    """Writes single rows of tables whose columns are numbers, flags or texts, as pyarrow does.

    Lines of a pipe are answered one by one. A table of one row would take longer than everything else about such an answer.
    """

    def __init__(self, schema: Any) -> None:
        self._columns = [(field.name, _NUMPY_KINDS.get(str(field.type))) for field in schema]
        self._is_plain = all(str(field.type) in (*_NUMPY_KINDS, "string") for field in schema)

    def __call__(self, columns: Mapping[str, Any]) -> bytes | None:
        """The line; ``None`` if there is other than one row, or if the types are not those of the schema."""
        if not self._is_plain:
            return None
        cells = [_only_cell(columns[name], kind) for name, kind in self._columns if name in columns]
        if any(cell is ... for cell in cells) or len(cells) != len(columns) or len(cells) != len(self._columns):
            return None
        at = [i for i, cell in enumerate(cells) if isinstance(cell, float)]
        numbers = pa.array([cells[i] for i in at], pa.float64(), from_pandas=True)  # NaN is a missing cell
        for i, text in zip(at, numbers.cast(pa.string()).to_pylist(), strict=True):
            cells[i] = text
        return (",".join("" if cell is None else cell for cell in cells) + "\n").encode()


def _only_cell(column: Any, kind: Any) -> Any:
    """The only cell: a float, or the text of anything else; ``None`` if it is missing, ``...`` if it is not plain."""
    if len(column) != 1:
        return ...
    if kind is None:
        cell = column[0].as_py() if isinstance(column, pa.Array) else column[0]
        quoted = '"' + cell.replace('"', '""') + '"' if isinstance(cell, str) else ...
        return None if cell is None else quoted
    if not isinstance(column, np.ndarray) or column.dtype != kind:
        return ...
    return column.item() if kind is np.float64 else str(column.item()).lower()


def _disarmed_name(name: str) -> str:
    """With an apostrophe, if a spreadsheet would take the name for a formula."""
    return f"'{name}" if name.startswith(_FORMULA) else name


def _disarmed(array: Any) -> Any:
    """The same for texts."""
    import pyarrow.compute as pc

    if not _is_text(array.type):
        return array
    armed = pc.and_not(pc.match_substring_regex(array, "^[=+@\\t\\r-]"), pc.match_substring_regex(array, _NUMBER))
    marked = pc.binary_join_element_wise(pa.scalar("'", array.type), array, pa.scalar("", array.type))
    return pc.if_else(armed, marked, array)


class _Binary(_Typed):
    """Formats with a writer, which ends them."""

    writer: Any = None

    def __init__(self, file: Any, flush: bool, *, escape: bool = False) -> None:
        super().__init__(_Gate(file), flush)

    def _open(self, schema: Any) -> Any:
        raise NotImplementedError

    def _put(self, batch: Any) -> None:
        self.writer = self.writer or self._open(batch.schema)
        self.writer.write_batch(batch)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.file.shut = True  # the underlying file may be closed before this one is deleted

    def abandon(self) -> None:
        self.file.shut = True
        self.close()


class _Parquet(_Binary):
    def _open(self, schema: Any) -> Any:
        import pyarrow.parquet as pq

        # measured numbers hardly repeat, so dictionary encoding would cost time and save nothing
        texts = [field.name for field in schema if types.is_string(field.type)]
        return pq.ParquetWriter(self.file, schema, use_dictionary=texts or False)


class _Arrow(_Binary):
    def _open(self, schema: Any) -> Any:
        seekable = self.file.file is not sys.stdout.buffer
        return pa.ipc.new_file(self.file, schema) if seekable else pa.ipc.new_stream(self.file, schema)


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


class _Ndjson(_Sink):
    """One JSON object per row; a cell that is ``...`` is left out of its row."""

    def _write(self, columns: Mapping[str, Any]) -> None:
        lists = [_to_list(cells, name) for name, cells in columns.items()]
        lines = [
            _json({name: cell for name, cell in zip(columns, cells, strict=True) if cell is not ...})
            for cells in zip(*lists, strict=True)
        ]
        if lines:
            write_all(self.file, ("\n".join(lines) + "\n").encode())


def _json(record: dict[str, Any]) -> str:
    """JSON that every reader accepts: numbers that are not finite become null."""
    try:
        return json.dumps(record, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        plain = {
            name: None if isinstance(cell, float) and not math.isfinite(cell) else cell for name, cell in record.items()
        }
        return json.dumps(plain, ensure_ascii=False, default=str)


def _array(cells: Any, name: str = "") -> Any:
    """Cells as an Arrow array; NaN becomes null, which every format has."""
    if isinstance(cells, pa.Array):
        return plain(cells)
    if isinstance(cells, JsonCells):
        texts = (
            cell if cell is None or isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) for cell in cells
        )
        return pa.array(texts, pa.string())
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise TableError(
            f"column {name!r} mixes types of values, which this format cannot store ({error}). Write NDJSON instead."
        ) from None


def _is_text(type: Any) -> bool:
    return bool(types.is_string(type) or types.is_large_string(type))


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
