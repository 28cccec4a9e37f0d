"""CSV through pyarrow, block by block."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from culpa.io.tables import dialect
from culpa.io.tables.columns import check_numeric, find, kind, take_as_missing, to_matrix
from culpa.io.tables.missing import Missing
from culpa.io.tables.table import Batch, Column, TableError, standard_input

_SAMPLE = 1 << 18  # bytes looked at to learn the dialect and the kinds of columns
_BLOCK = 1 << 22  # bytes read at a time

_PLACE = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to \w+: invalid value '(.*)'", re.DOTALL)
_RAGGED = re.compile(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)")


class CsvTable:
    """A CSV file, or CSV on standard input."""

    skipped = 0
    live = False

    def __init__(
        self, path: Path | None, *, delimiter: str | None, decimal: str | None, encoding: str, missing: Sequence[str]
    ) -> None:
        self.path, self.encoding = path, encoding
        self.name = "standard input" if path is None else str(path)
        self.again = path is not None
        self._file: Any = None
        sample, complete = self._sample()
        text = dialect.decode(sample, encoding, self.name, complete=complete)
        if not text.strip():
            raise TableError(f"{self.name}: the table is empty.")
        self.delimiter = delimiter or dialect.detect_delimiter(text)
        self.decimal = decimal or dialect.detect_decimal(text, self.delimiter)
        if self.decimal == self.delimiter:
            raise TableError(
                f"{self.name}: {self.decimal!r} cannot be both the delimiter and the decimal mark. Set --delimiter or "
                "--decimal."
            )
        self.missing = Missing((*pa_csv.ConvertOptions().null_values, *missing), self.decimal)
        self._booleans: set[str] = set()
        self._columns, self.names = self._look(text)

    def columns(self) -> Mapping[str, Column]:
        """Kinds as the first rows suggest."""
        for name in self._columns:
            find(name, self.names, self.name)
        return self._columns

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows; carried columns stay the text they are."""
        for name in (*features, *carried):
            find(name, self.names, self.name)
        for name in features:
            check_numeric(name, self._columns[name], self.name)
        wanted = [*features, *(name for name in carried if name not in features)]
        done = 0
        try:
            for batch in self._open(wanted, features):
                if batch.num_rows:
                    arrays = {name: batch.column(wanted.index(name)) for name in wanted}
                    X = to_matrix([arrays[name] for name in features], features, self.name, done, self.missing)
                    rows = np.arange(done, done + batch.num_rows)
                    yield Batch(rows, X, {name: arrays[name] for name in carried})
                    done += batch.num_rows
        except pa.ArrowInvalid as error:
            raise TableError(self._sentence(str(error))) from None
        except UnicodeError:
            raise TableError(
                f"{self.name}: the text is not encoded in {self.encoding}. Specify its encoding, for example "
                "--encoding latin-1."
            ) from None

    def share(self) -> float | None:
        """Bytes read of all bytes."""
        if self.path is None or self._file is None or self._file.closed:
            return None
        return float(self._file.tell() / max(1, self._file.size()))

    def _sample(self) -> tuple[bytes, bool]:
        if self.path is None:
            self._pipe = _Pipe()
            return self._pipe.look()
        with pa.input_stream(self.path, compression="detect") as file:
            sample = file.read(_SAMPLE + 1)
        return sample[:_SAMPLE], len(sample) <= _SAMPLE

    def _look(self, text: str) -> tuple[dict[str, Column], list[str]]:
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(text.encode()),
                read_options=pa_csv.ReadOptions(use_threads=False),  # so that errors know their row
                parse_options=self._parse_options(),
                convert_options=pa_csv.ConvertOptions(decimal_point=self.decimal, null_values=self.missing.texts),
            )
        except pa.ArrowInvalid as error:
            raise TableError(self._sentence(str(error))) from None
        columns = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            what = kind(column.type)
            columns[name] = Column(what, *self._example(column.to_pylist())) if what != "number" else Column(what)
            if pa.types.is_boolean(column.type):
                self._booleans.add(name)
        return columns, table.column_names

    def _example(self, cells: Sequence[Any]) -> tuple[Any, int | None]:
        """The first cell that is not a number, and its row if other cells are numbers."""
        present = {row: cell for row, cell in enumerate(cells) if cell is not None and not self.missing.has(cell)}
        others = {row: cell for row, cell in present.items() if not dialect.is_number(str(cell), self.decimal)}
        row, cell = next(iter((others or present).items()), (None, None))
        return cell, row if 0 < len(others) < len(present) else None

    def _parse_options(self) -> Any:
        return pa_csv.ParseOptions(delimiter=self.delimiter)

    def _open(self, wanted: Sequence[str], features: Sequence[str]) -> Any:
        types = dict.fromkeys(wanted, pa.string())
        # every number is read as float64: a column may start with whole numbers or with nothing at all
        types |= {name: pa.bool_() if name in self._booleans else pa.float64() for name in features}
        return pa_csv.open_csv(
            self._stream(),
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK, encoding=self.encoding),
            parse_options=self._parse_options(),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(wanted),
                column_types=types,
                decimal_point=self.decimal,
                null_values=self.missing.texts,
                strings_can_be_null=False,
            ),
        )

    def _stream(self) -> Any:
        if self.path is None:
            return self._pipe
        self._file = pa.OSFile(str(self.path), "rb")
        packed = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}.get(self.path.suffix.lower())
        return self._file if packed is None else pa.CompressedInputStream(self._file, packed)

    def _sentence(self, message: str) -> str:
        """pyarrow's error message with names instead of numbers. Its row 1 is the header; our row 0 is below the header."""
        if place := _PLACE.search(message):
            column, row, cell = int(place[1]), int(place[2]) - 2, place[3]
            return (
                f"{self.name}: column {self.names[column]!r} contains {cell[:40]!r} in row {row}, which is not a number "
                f"(the delimiter is {self.delimiter!r}, the decimal mark is {self.decimal!r}). {take_as_missing(cell)}"
            )
        if ragged := _RAGGED.search(message):
            return f"{self.name}: row {int(ragged[1]) - 2} has {ragged[3]} cell(s), but the header has {ragged[2]}."
        return f"{self.name}: {' '.join(message.split())[:200]}"


class _Pipe(io.RawIOBase):
    """Standard input whose beginning has been looked at and comes once more."""

    def __init__(self) -> None:
        self._rest = b""

    def look(self) -> tuple[bytes, bool]:
        """What has arrived, at least the header and one row; and whether that is all."""
        while len(self._rest) < _SAMPLE and self._rest.count(b"\n") < 2:
            chunk = standard_input().read1(_SAMPLE)
            if not chunk:
                return self._rest, True
            self._rest += chunk
        return self._rest, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._rest[: len(buffer)] or standard_input().read1(len(buffer))
        self._rest = self._rest[len(buffer) :]
        buffer[: len(chunk)] = chunk
        return len(chunk)
