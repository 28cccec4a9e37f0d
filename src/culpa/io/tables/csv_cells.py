"""Cells of CSV files and of CSV on standard input, parsed by pyarrow a block of whole rows at a time."""

import csv
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from culpa.io.reading import Options
from culpa.io.tables.lines import (
    UNCLOSED,
    UNREADABLE,
    WHITESPACE,
    Lines,
    cut_line_at_blanks,
    decode,
    detect_delimiter,
    is_blank,
    lines_of,
    mark_of,
    rows_of,
    wrong_encoding,
)
from culpa.io.tables.numbers import Spelling
from culpa.io.tables.pipe import Pipe
from culpa.io.tables.table import TableError, Wanted

_SAMPLE = 1 << 18  # bytes looked at to learn the dialect and the kinds of columns
_BLOCK = 1 << 22  # bytes read at a time
_HEAD = 400  # lines looked at for names and marks
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_NOT_PLAIN = re.compile(rb"[\"\n\r\x0b\x0c]")


@dataclass
class CsvBlock:
    """Some rows of CSV. ``n`` and ``ragged`` are known after reading: rows, and places of others with their cells."""

    content: bytes
    delimiter: str
    width: int
    encoding: str = "utf-8"
    n: int = 0
    ragged: list[tuple[int, int]] = field(default_factory=list)

    def read(self, wanted: Wanted, spelling: Spelling) -> tuple[list[Any], list[Any]]:
        """Columns of numbers, as texts if pyarrow cannot convert them by itself, and columns of texts."""
        numbers, texts, odd, coded = wanted
        types = {j: pa.dictionary(pa.int32(), pa.string()) if j in coded else pa.string() for j in texts}
        plain = [j for j in numbers if j not in odd]
        as_texts = dict.fromkeys(numbers, pa.string())
        if plain and not (spelling.thousands or spelling.decimal == self.delimiter):
            with suppress(pa.ArrowInvalid):  # a missing cell, or something that is no number
                found = self._parse(as_texts | types | dict.fromkeys(plain, pa.float64()), spelling)
                both = {j: types[j] for j in texts if j in plain}
                more = found | (self._parse(both, spelling) if both else {})
                return [found[j] for j in numbers], [more[j] for j in texts]
        found = self._parse(as_texts | types, spelling)
        return [found[j] for j in numbers], [found[j] for j in texts]

    def _parse(self, types: dict[int, Any], spelling: Spelling) -> dict[int, Any]:
        self.ragged = []

        def note(row: Any) -> str:
            self.ragged.append(((row.number or 1) - 1, row.actual_columns))
            return "skip"

        if is_blank(self.content):
            self.n = 0
            return {j: pa.array([], kind) for j, kind in types.items()}
        wanted = {str(j): kind for j, kind in types.items()} or {"0": pa.string()}
        table = pa_csv.read_csv(
            pa.BufferReader(self.content),
            read_options=pa_csv.ReadOptions(
                use_threads=False,  # so that rows have numbers
                block_size=max(len(self.content), 1 << 16) + 1,
                column_names=[str(j) for j in range(self.width)],
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=mark_of(self.delimiter).decode(), newlines_in_values=True, invalid_row_handler=note
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(wanted),
                column_types=wanted,
                decimal_point=spelling.decimal if spelling.decimal != self.delimiter else ".",
                null_values=spelling.missing.silent,
                strings_can_be_null=False,
            ),
        )
        self.n = table.num_rows
        columns = {j: table.column(str(j)) for j in types}
        return {j: each.chunk(0) if each.num_chunks == 1 else each.combine_chunks() for j, each in columns.items()}

    def marked(self, columns: Sequence[int], most: int, spelling: Spelling) -> list[list[str]]:
        """Texts of columns with a mark that may be part of a number."""
        if not (b"." in self.content or b"," in self.content):
            return [[] for _ in columns]
        cells = self._parse(dict.fromkeys(columns, pa.string()), spelling)
        return [
            each.filter(pc.match_substring_regex(each, "[.,]")).slice(0, most).to_pylist() for each in cells.values()
        ]

    def plain(self) -> list[bytes] | None:
        """The cells of a single row without quotes, which needs no parser; ``None`` if there is more to a block.

        Most lines of a pipe are such, and come alone. A parser of tables takes longer to start than to read them.
        """
        body = self.content.rstrip(b"\r\n")
        cells = [] if _NOT_PLAIN.search(body) else body.split(mark_of(self.delimiter))
        self.n, self.ragged = 1, []
        return cells if len(cells) == self.width else None

    def rows(self) -> "Iterator[CsvBlock]":
        """The rows one by one."""
        for row in rows_of(self.content, self.delimiter):
            if not is_blank(row):
                yield CsvBlock(row, self.delimiter, self.width, self.encoding)

    def check(self, place: str) -> None:
        """Refuse what is no text of the table."""
        if self.content.isascii():
            return
        if UNREADABLE.encode() in self.content:
            raise UnreadableError(f"{wrong_encoding(place, self.encoding)}")
        if UNCLOSED.encode() in self.content:
            raise UnreadableError(f'{place}: a quote (") is opened and not closed on its line.')

    def readable(self) -> "CsvBlock":
        """The rows without those that are no text of the table."""
        marks = UNREADABLE.encode(), UNCLOSED.encode()
        good = [row for row in rows_of(self.content, self.delimiter) if not any(mark in row for mark in marks)]
        return CsvBlock(b"".join(good), self.delimiter, self.width, self.encoding)


class UnreadableError(TableError):
    """A line of a pipe that is no text of the table."""


class CsvCells:
    """A CSV file, or CSV on standard input."""

    kind, typed = "csv", False
    nulls: Sequence[str] = tuple(pa_csv.ConvertOptions().null_values)

    def __init__(self, path: Path | None, options: Options, pipe: Pipe | None = None) -> None:
        self.path, self.encoding, self.live = path, options.encoding, path is None
        self.name = "standard input" if path is None else str(path)
        self.decisions: list[str] = []
        self._file: Any = None
        self._pipe = pipe or (Pipe() if path is None else None)
        text = self._sample_text()
        if not text.strip():
            raise TableError(f"{self.name}: the table is empty.")
        said = re.match(r"sep=(.)\r?\n", text)
        self._said, self._text = bool(said), text[said.end() :] if said else text
        given = options.delimiter or (said[1] if said else None)
        self.delimiter = given or detect_delimiter(self._text)
        usual = "\t" if path is not None and path.suffix.lower() == ".tsv" else ","
        if given is None and self.delimiter != usual:
            what = "blanks" if self.delimiter == WHITESPACE else repr(self.delimiter)
            self.decisions.append(f"delimiter {what}")

    def head(self, *, whole: bool = False) -> list[list[str]]:
        """The cells of the first lines that are not blank, or with ``whole`` of all that were looked at for marks."""
        lines = lines_of(self._text)
        if whole and not re.search(rf'(?:^|[\n\r"]|{re.escape(self.delimiter)})[ +-]*\d*[.,]\d', self._text):
            return []  # no cell begins like a number with a mark
        lines = [line for line in lines[: None if whole else _HEAD] if line.strip()]
        if self.delimiter == WHITESPACE:
            return [cut_line_at_blanks(line) for line in lines]
        try:
            return list(csv.reader(lines, delimiter=self.delimiter))
        except csv.Error:
            return [line.rstrip("\r\n").split(self.delimiter) for line in lines]

    def about(self, names: Sequence[str]) -> list[str]:
        """Check the names of the header, and tell what is odd about them."""
        if UNREADABLE in "".join(names):
            raise wrong_encoding(self.name, self.encoding)
        return []

    def sample(self, width: int, skip: int) -> CsvBlock:
        """Cells of the first rows, as texts."""
        content = [self._text.encode()]
        lines = Lines(
            lambda size: content.pop() if content else b"",
            *("utf-8", self.delimiter, self.name, width),
            whole=self._sample_is_all,
            live=self.live,
        )
        block = self._block(b"".join(_without_head(lines, skip, self.delimiter)), width)
        return block.readable() if self.live else block

    def blocks(self, width: int, skip: int) -> Iterator[CsvBlock]:
        """Cells of all rows, block by block."""
        with self._stream() as read:
            lines = Lines(read, self.encoding, self.delimiter, self.name, width, _BLOCK, live=self.live)
            for content in _without_head(lines, skip + self._said, self.delimiter):
                yield self._block(content, width)

    def share(self) -> float | None:
        """Bytes read of all bytes."""
        if self._file is None or self._file.closed:
            return None
        return float(self._file.tell() / max(1, self._file.size()))

    def _block(self, content: bytes, width: int) -> CsvBlock:
        return CsvBlock(content, self.delimiter, width, self.encoding)

    def _sample_text(self) -> str:
        if self._pipe is not None:
            sample, complete = self._pipe.look(_enough)
        else:
            with self._stream() as read:
                sample = read(_SAMPLE + 1)
            complete, sample = len(sample) <= _SAMPLE, sample[:_SAMPLE]
        self._sample_is_all = complete
        return decode(sample, self.encoding, self.name, complete=complete, live=self.live)

    @contextmanager
    def _stream(self) -> Iterator[Callable[[int], bytes]]:
        if self._pipe is not None:
            yield self._pipe.read1
            return
        assert self.path is not None
        self._file = pa.OSFile(os.fsencode(str(self.path)), "rb")  # names need not be UTF-8
        packed = _PACKED.get(self.path.suffix.lower())

        def read(size: int) -> bytes:
            try:
                return bytes(stream.read(size))
            except (pa.ArrowException, OSError) as error:
                raise TableError(f"{self.name} cannot be unpacked: {' '.join(str(error).split())[:160]}") from None

        with self._file if packed is None else pa.CompressedInputStream(self._file, packed) as stream:
            yield read


def _enough(seen: bytes) -> bool:
    """Whether a pipe has shown its header and a row with a number."""
    lines = [line for line in seen.splitlines()[:-1] if line.strip()] if b"\n" in seen else []
    whole = lines if not seen.endswith(b"\n") else [*lines, seen.splitlines()[-1]]
    return len(whole) > 1 and any(re.search(rb"(?<![\w])[+-]?\d", line) for line in whole[1:])


def _without_head(lines: Lines, skip: int, delimiter: str) -> Iterator[bytes]:
    """Blocks of rows without the first ones that are not blank."""
    for block in lines:
        if skip:
            used = 0
            for row in rows_of(block, delimiter):
                if not skip:
                    break
                skip -= not row.isspace()
                used += len(row)
            block = block[used:]
        if not is_blank(block):
            yield block
