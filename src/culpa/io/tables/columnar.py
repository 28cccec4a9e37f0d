"""Parquet and Arrow (Feather) files: columns with types of their own.

Both formats are full of offsets, lengths and indices, and the readers trust some of them. So every batch is validated in
full before a cell is used: a damaged file is an error, not a crash or a wrong number.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from culpa.io.tables.columns import check_numeric, find_for_model, kind, to_matrix
from culpa.io.tables.numbers import Missing
from culpa.io.tables.pipe import Pipe
from culpa.io.tables.table import Batch, Column, FileTable, TableError

ROWS = 1 << 16  # rows at a time
_BUFFER = 1 << 20  # bytes of a Parquet column held at a time, so that huge row groups do not matter
_FILE = b"ARROW1\0\0"  # how Arrow files begin, before their stream
_MOST_ROWS = 1 << 31  # of one batch; a column of nothing but nulls takes no space, so its length proves nothing
# what the readers raise about damaged files, beside their own exceptions: names and texts that are not UTF-8
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError, SystemError, OverflowError)


class ColumnarTable(FileTable):
    """What the two have in common: a schema that is known before any row is read."""

    what = "a table"
    kind = "arrow"
    skipped = 0

    def __init__(self, path: Path | None, *, missing: Sequence[str] = (), pipe: Pipe | None = None) -> None:
        super().__init__(path)
        self.missing, self.pipe = Missing(missing), pipe
        self._done, self._total = 0, 0
        try:
            self.schema: Any = self._open()
            self._columns = {field.name: Column(kind(field.type)) for field in self.schema}
        except _DAMAGE as error:
            raise TableError(f"{self.name} cannot be read as {self.what}: {_brief(error)}") from None

    def columns(self) -> Mapping[str, Column]:
        """What kind of column each is, by its type in the file."""
        return self._columns

    def look(self, name: str) -> list[Any]:
        """The first cells of a column; none on a pipe, which can be read only once."""
        if not self.again:
            return []
        try:
            first = next(self._valid_pieces([name]), None)
            cells = [] if first is None else first.column(name)[:2000].to_pylist()
        except _DAMAGE:
            return []  # whoever reads the rows says what is wrong
        return [cell for cell in cells if cell is not None and not self.missing.has(cell)]

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows; carried columns keep their types."""
        find_for_model(features, carried, self.schema.names, self.name)
        for name in features:
            check_numeric(name, self._columns[name], self.name)
        wanted = list(dict.fromkeys((*features, *carried)))
        self.missing_found.clear()
        self._done = 0
        try:
            for batch in self._valid_pieces(wanted):
                rows = np.arange(self._done, self._done + batch.num_rows)
                cells = [batch.column(name) for name in features]
                X = to_matrix(cells, features, self.name, rows, self.missing, self.missing_found)
                self._done += batch.num_rows
                yield Batch(rows, X, {name: batch.column(name) for name in carried})
        except _DAMAGE as error:
            raise TableError(f"{self.name} is damaged after row {self._done}: {_brief(error)}") from None

    def share(self) -> float | None:
        """Rows read of all rows."""
        return self._done / self._total if self._total else None

    def _valid_pieces(self, wanted: Sequence[str]) -> Iterator[Any]:
        """Record batches with the wanted columns, checked in full, a limited number of rows at a time."""
        for whole in self._pieces(wanted):
            batch = whole.select(list(wanted))
            batch.validate(full=True)
            if batch.num_rows > _MOST_ROWS:
                raise pa.ArrowInvalid(f"a batch claims to have {batch.num_rows:,} rows")
            for start in range(0, batch.num_rows, ROWS):
                yield batch.slice(start, ROWS)

    def _on_disk(self) -> Any:
        """The open file. Its name need not be UTF-8."""
        return pa.OSFile(os.fsencode(str(self.path)))

    def _open(self) -> Any:
        """Look at the file; returns its schema."""
        raise NotImplementedError

    def _pieces(self, wanted: Sequence[str]) -> Iterator[Any]:
        """Record batches with at least the wanted columns."""
        raise NotImplementedError


class ParquetTable(ColumnarTable):
    """A table in a Parquet file, read by row groups."""

    what = "a Parquet file"
    kind = "parquet"

    def __init__(self, path: Path | None, *, missing: Sequence[str] = (), pipe: Pipe | None = None) -> None:
        if path is None:
            raise TableError("Parquet cannot be read from a pipe, because its index is at the end. Pass a file.")
        super().__init__(path, missing=missing)

    def _open(self) -> Any:
        import pyarrow.parquet as pq

        with self._on_disk() as disk, pq.ParquetFile(disk) as file:
            self._total = file.metadata.num_rows
            return file.schema_arrow

    def _pieces(self, wanted: Sequence[str]) -> Iterator[Any]:
        import pyarrow.parquet as pq

        options: dict[str, Any] = {"buffer_size": _BUFFER, "pre_buffer": False, "page_checksum_verification": True}
        with self._on_disk() as disk, pq.ParquetFile(disk, **options) as file:
            yield from file.iter_batches(batch_size=ROWS, columns=list(wanted))


class ArrowTable(ColumnarTable):
    """An Arrow (Feather) file, or an Arrow stream on standard input."""

    what = "an Arrow file"

    def _open(self) -> Any:
        if self.path is None:
            pipe = self.pipe or Pipe()
            if pipe.look(lambda seen: len(seen) >= len(_FILE))[0].startswith(_FILE):
                pipe.read(len(_FILE))  # a file contains a stream between its marks
            self._stream: Any = pa.ipc.open_stream(pipe)
            return self._stream.schema
        with self._on_disk() as file:
            return self._reader(file)[0]

    def _pieces(self, wanted: Sequence[str]) -> Iterator[Any]:
        if self.path is None:
            yield from self._stream
            return
        # not a memory map: if another process shortens the file, reading it would end this process
        with self._on_disk() as file:
            yield from self._reader(file, [self.schema.names.index(name) for name in wanted])[1]

    def _reader(self, file: Any, fields: Sequence[int] = ()) -> tuple[Any, Iterator[Any]]:
        """Schema and batches of the random-access format, or of the stream format in a file."""
        options = pa.ipc.IpcReadOptions(included_fields=list(fields))
        try:
            reader = pa.ipc.open_file(file, options=options)
        except pa.ArrowInvalid:
            file.seek(0)
            stream = pa.ipc.open_stream(file, options=options)
            return stream.schema, iter(stream)
        return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
