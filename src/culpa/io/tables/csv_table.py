"""CSV through pyarrow, a block of whole lines at a time."""

import csv
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from culpa.io.tables import dialect, layout, marks
from culpa.io.tables.columns import check_each, check_numeric, find_for_model, plain, take_as_missing, to_matrix
from culpa.io.tables.lines import (
    UNCLOSED,
    UNREADABLE,
    WHITESPACE,
    Lines,
    cut_line_at_blanks,
    has_hidden_breaks,
    restored,
    wrong_encoding,
)
from culpa.io.tables.missing import KNOWN, Missing
from culpa.io.tables.numbers import Grouping, Spelling
from culpa.io.tables.pipe import Pipe
from culpa.io.tables.plain_line import plain_cells, plain_numbers
from culpa.io.tables.problems import explained
from culpa.io.tables.reading import Options
from culpa.io.tables.table import Batch, Column, Source, TableError
from culpa.io.tables.times import is_time

_SAMPLE = 1 << 18  # bytes looked at to learn the dialect and the kinds of columns
_BLOCK = 1 << 22  # bytes read at a time
_MOST_MARKED = 20_000  # numbers with a mark that are looked at to learn which mark it is
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

_NULLS: tuple[str, ...] = tuple(pa_csv.ConvertOptions().null_values)

_PLACE = re.compile(
    r"In CSV column #(\d+):(?: Row #(\d+):)? CSV conversion error to \w+: invalid value '(.*)'", re.DOTALL
)
_RAGGED = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


class CsvTable:
    """A CSV file, or CSV on standard input."""

    kind = "csv"
    time = None

    def __init__(
        self, path: Path | None, options: Options, pipe: Pipe | None = None, report: Callable[[str], None] = print
    ) -> None:
        self.report = report
        self.path, self.encoding, self.options = path, options.encoding, options
        self.name = "standard input" if path is None else str(path)
        self.again, self.live = path is not None, path is None
        self.decisions: list[str] = []
        self._told_unreadable = False
        self._refused, self._next = 0, 0  # rows of a pipe that were refused, and the number of the next row
        self.ragged: list[tuple[int, int]] = []  # rows with too few or too many cells, and how many they have
        self.hints: dict[str, str] = {}  # marks that cells of this table have shown
        self.missing_found: Counter[str] = Counter()
        self.coded: frozenset[str] = (
            frozenset()
        )  # carried columns to hand out as dictionaries, because few texts repeat
        self.numbers: frozenset[str] = frozenset()  # carried columns whose texts are read as numbers later
        self._file: Any = None
        self._pipe = pipe or (Pipe() if path is None else None)
        text = self._sample_text()
        if not text.strip():
            raise TableError(f"{self.name}: the table is empty.")
        text = self._choose_delimiter(text)
        lines = list(_cells(text, self.delimiter))
        self._choose_marks(lines, text)
        missing = Missing((*_NULLS, *KNOWN, *options.missing), self.decimal)
        self.missing, self.spelling = missing, Spelling(missing, self.decimal, self.thousands)
        self._grouping = Grouping(self.spelling)
        self._choose_layout(lines)
        self._booleans: set[str] = set()
        self._unseen: set[str] = set()  # columns of a pipe without any cell so far
        self._columns, self._head = self._look(text)

    @property
    def units(self) -> Mapping[str, str]:
        """Units of columns, from a row below their names."""
        return self.layout.units

    @property
    def names(self) -> list[str]:
        """The names of the columns, in the order of the file."""
        return self.layout.names

    def columns(self) -> Mapping[str, Column]:
        """Kinds as the first rows suggest."""
        return self._checked_columns

    @cached_property
    def _checked_columns(self) -> Mapping[str, Column]:
        self._check_header()
        check_each(self._columns, self.names, self.name)
        return self._columns

    def files(self) -> Sequence[Source]:
        """Itself."""
        return [self]

    def look(self, name: str) -> list[Any]:
        """The first cells of a column, as texts."""
        return [cell for cell in self._head[name] if cell and not self.missing.has(cell)]

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows; carried columns stay the text they are."""
        if not set(features) | set(carried) <= set(self.names):
            self._check_header()
        find_for_model(features, carried, self.names, self.name)
        self.missing_found.clear()
        try:
            for name in (
                features if not self.live or self.options.strict else ()
            ):  # rows of a pipe are refused one by one
                check_numeric(name, self._columns[name], self.name)
            yield from self._batches(features, carried)
        except marks.UnclearMarkError:
            raise
        except TableError as error:
            raise (explained(error, self, features) if self.again else error) from None

    def _batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        self.ragged, self._refused, done = [], 0, 0
        for block in self._blocks():
            try:
                yield self._batch(block, features, carried, done)
            except TableError:
                if not self.live:
                    raise
                yield from self._usable(block, features, carried, done)
            done = self._next
        if self._refused and self._refused == done:
            raise TableError(f"{self.name}: no row could be used.")

    def _batch(self, block: bytes, features: Sequence[str], carried: Sequence[str], done: int) -> Batch:
        if self.live:
            self._check_readable(block, done)
        numbers = [*features, *(name for name in carried if name in self.numbers)]
        if self._late.is_open and numbers:
            for piece in block.splitlines(keepends=True) if self.live else [block]:  # the same, however lines arrive
                self._check_marks(piece, numbers, done)
        if self._unseen and not self._unseen.isdisjoint(features):
            self._see(block, [name for name in features if name in self._unseen])
        single = self._plain_batch(block, features, carried, done) if self.live else None
        if single is not None:
            return single
        ragged = self._note_ragged(done) if self.options.skip_ragged else None
        arrays, n = self._parse(block, features, carried, done, ragged=ragged)
        rows = self._places(done, n)
        cells = [arrays[name] for name in features]
        X = to_matrix(cells, features, self.name, done, self.missing, self.missing_found, n)
        self._count_missing(block, features, X)
        back = restored if has_hidden_breaks(block) else _as_it_is
        return Batch(rows, X, {name: back(arrays[f"{name} "]) for name in carried})

    def _check_marks(self, block: bytes, names: Sequence[str], done: int) -> None:
        """Ask about the first decimal mark or thousands separator of the table, if it is unclear which of them it is."""
        if not self._late.is_open or not (b"." in block or b"," in block):
            return
        ragged: list[int] = []

        def note(row: Any) -> str:
            ragged.append((row.number or 1) - 1)
            return "skip"

        arrays, n = self._parse(block, (), names, done, ragged=note)
        texts = {name: plain(arrays[f"{name} "]) for name in dict.fromkeys(names)}
        columns = {}
        for name, array in texts.items():
            marked = pc.or_(pc.match_substring(array, "."), pc.match_substring(array, ","))
            some = array.filter(marked).slice(0, max(20, _MOST_MARKED // len(texts))).to_pylist()
            columns[name] = [cell for cell in some if not self.missing.has(cell.strip())]

        def row_of(name: str, cell: str) -> int:
            rows = np.setdiff1d(np.arange(n + len(ragged)), np.array(ragged, dtype=int))
            return done + int(rows[pc.index(texts[name], cell).as_py()])

        self._late.check(columns, row_of)

    def _see(self, block: bytes, names: Sequence[str]) -> None:
        """Settle what columns of a pipe hold that had no cell before."""
        arrays, n = self._parse(block, (), names, 0, ragged=lambda row: "skip")
        for name in names:
            self._unseen.discard(name)
            self._column(name, dict(zip(range(n), arrays[f"{name} "].to_pylist(), strict=True)))

    def _plain_batch(self, block: bytes, features: Sequence[str], carried: Sequence[str], done: int) -> Batch | None:
        """A single row without anything special; ``None`` if there is more to a block."""
        special = self._by_text or self.decimal != "." or self.coded or self._booleans or self.missing.numbers
        mark = b"\t" if self.delimiter == WHITESPACE else self.delimiter.encode()
        cells = None if special else plain_cells(block, mark, len(self.names))
        if cells is None:
            return None
        by_name = dict(zip(self.names, cells, strict=True))
        X = plain_numbers([by_name[name] for name in features])
        if X is None:
            return None
        texts = {name: pa.array([by_name[name].decode()], pa.string()) for name in carried}
        return Batch(self._places(done, 1), X, texts)

    def _usable(self, block: bytes, features: Sequence[str], carried: Sequence[str], done: int) -> Iterator[Batch]:
        """The rows of a pipe one by one: a bad one is reported and skipped, so that it does not stop the answers.

        If it shall stop them, the rows before it are answered.
        """
        for line in block.splitlines(keepends=True):
            if line.isspace():
                continue
            try:
                yield self._batch(line, features, carried, done)
            except TableError as error:
                if self.options.strict:
                    raise
                self._refused += 1
                self._next = done + 1
                self._tell(error)
            done = self._next
        self._next = done

    def _check_readable(self, block: bytes, row: int) -> None:
        if UNREADABLE.encode() in block:
            raise _UnreadableError(f"{wrong_encoding(f'{self.name}, row {row}', self.encoding)}")
        if UNCLOSED.encode() in block:
            raise _UnreadableError(f'{self.name}, row {row}: a quote (") is opened and not closed on its line.')

    def _tell(self, error: TableError) -> None:
        """Report a row that is skipped; of those that are no text of the table, only the first."""
        if not isinstance(error, _UnreadableError):
            self.report(f"{str(error).rstrip('.')}. The row is skipped.")
        elif not self._told_unreadable:
            self._told_unreadable = True
            self.report(f"{str(error).rstrip('.')}. Such rows are skipped and counted, and not reported again.")

    def _places(self, done: int, n: int) -> Any:
        """The rows of a block of which ``n`` could be used, counted in the file."""
        out = [row for row, _ in self.ragged if row >= done]
        self._next = done + n + len(out)
        return np.setdiff1d(np.arange(done, done + n + len(out)), out) if out else np.arange(done, done + n)

    def cells(self, names: Sequence[str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        """All cells of some columns as texts, block by block, with their rows. Ragged rows are left out and noted."""
        self.ragged, done = [], 0
        for block in self._blocks():
            arrays, n = self._parse(block, (), names, done, ragged=self._note_ragged(done))
            yield self._places(done, n), {name: restored(arrays[f"{name} "]) for name in names}
            done = self._next

    @property
    def skipped(self) -> int:
        """Rows with too few or too many cells, and rows of a pipe that could not be read."""
        return self._refused + (len(self.ragged) if self.options.skip_ragged else 0)

    def _note_ragged(self, done: int) -> Any:
        """What pyarrow calls for a row with another number of cells than the header."""

        def note(row: Any) -> str:
            self.ragged.append((done + (row.number or 1) - 1, row.actual_columns))
            return "skip"

        return note

    def share(self) -> float | None:
        """Bytes read of all bytes."""
        if self.path is None or self._file is None or self._file.closed:
            return None
        return float(self._file.tell() / max(1, self._file.size()))

    def _sample_text(self) -> str:
        if self._pipe is not None:
            sample, complete = self._pipe.look(_enough)
        else:
            with self._stream() as file:
                sample = file.read(_SAMPLE + 1)
            complete, sample = len(sample) <= _SAMPLE, sample[:_SAMPLE]
        self._sample_is_all = complete
        return dialect.decode(sample, self.encoding, self.name, complete=complete, live=self.live)

    def _choose_delimiter(self, text: str) -> str:
        """Settle the delimiter; returns the text without a line that names it."""
        said = re.match(r"sep=(.)\r?\n", text)
        self._said = bool(said)
        text = text[said.end() :] if said else text
        given = self.options.delimiter or (said[1] if said else None)
        self.delimiter = given or dialect.detect_delimiter(text)
        usual = "\t" if self.path is not None and self.path.suffix.lower() == ".tsv" else ","
        if given is None and self.delimiter != usual:
            what = "blanks" if self.delimiter == WHITESPACE else repr(self.delimiter)
            self.decisions.append(f"delimiter {what}")
        return text

    def _choose_marks(self, lines: Sequence[Sequence[str]], text: str) -> None:
        """Settle decimal mark and thousands separator."""
        given, hints = self.options, self.options.hints
        decimal, thousands, bare = given.decimal, given.thousands, False
        if decimal is None and thousands in (".", ","):
            decimal = "," if thousands == "." and self.delimiter != "," else "."
        if decimal is None:
            known = Missing((*_NULLS, *KNOWN, *given.missing))
            found = marks.detect(marks.cells_of_numbers(lines[1:], known.has), self.delimiter)
            if found.bare and not hints.get("decimal") and _may_show_marks(text, self.delimiter):
                every = list(_cells(text, self.delimiter, len(text)))[1:]  # the mark may be further down
                found = marks.detect(marks.cells_of_numbers(every, known.has), self.delimiter)
            if found.unsure is not None and not hints.get("decimal"):
                raise marks.ask(found, self.name)
            # whole numbers show no mark, so later rows are read as those of the training table
            recalled = found.unsure is not None or (
                found.bare and hints.get("decimal", ".") not in (".", self.delimiter)
            )
            decimal = hints["decimal"] if recalled else found.decimal
            group = hints.get("thousands", found.thousands if found.bare else None) if recalled else found.thousands
            self.hints = {"decimal": decimal} | ({"thousands": group} if group else {}) if found.seen else {}
            thousands = thousands or (group if group != decimal else None)
            bare = found.bare and not hints.get("decimal")
            self.decisions += [f"decimal mark {decimal!r}"] if decimal != "." else []
            self.decisions += [f"thousands separator {thousands!r}"] if thousands and not given.thousands else []
        inside = (
            marks.detect((cell for cells in lines[1:] for cell in cells), "") if decimal == self.delimiter else None
        )
        if inside is not None and inside.decimal != decimal and inside.unsure is None:  # not even in quoted cells
            raise TableError(
                f"{self.name}: {decimal!r} cannot be both the delimiter and the decimal mark. Set --delimiter or --decimal."
            )
        if thousands == decimal:
            raise TableError(f"{self.name}: {decimal!r} cannot be both the decimal mark and the thousands separator.")
        self.decimal, self.thousands = decimal, thousands
        self._late = marks.LateMarks(self.name, self.delimiter, decimal, is_open=bare)
        self._by_text = bool(thousands) or decimal == self.delimiter  # pyarrow cannot read such numbers

    def _choose_layout(self, lines: Sequence[Sequence[str]]) -> None:
        self.layout = layout.find_in(self.name, lines, self.spelling.is_number, self.missing.has, self.options)
        layout.check_widths(self.name, lines, self.layout)
        self.decisions += layout.in_words(self.layout, self.options.header_rows)
        if UNREADABLE in "".join((*self.names, *self.units.values())):
            raise wrong_encoding(self.name, self.encoding)

    def _check_header(self) -> None:
        """Ask about a header that looks like a row."""
        if self.layout.doubtful:
            first = ", ".join(self.names[:4]) + (", ..." if len(self.names) > 4 else "")
            raise TableError(
                f"{self.name}: the first line contains numbers instead of names ({first}). If it is a row, "
                "add --no-header (columns are then called c1, c2, ...) or --names a,b,c. If these are the names, "
                "add --header-rows 1."
            )

    def _look(self, text: str) -> tuple[dict[str, Column], dict[str, list[str]]]:
        """Kinds of columns, and their first cells as texts."""
        once = _Once(text.encode())
        lines = Lines(
            once, "utf-8", self.delimiter, self.name, len(self.names), whole=self._sample_is_all, live=self.live
        )
        blocks = self._skipping(lines)
        body = b"".join(line for block in blocks for line in (_readable_lines(block) if self.live else [block]))
        columns: dict[str, Column] = {}
        head: dict[str, list[str]] = {name: [] for name in self.names}
        if body:
            arrays, n = self._parse(body, (), self.names, 0, by_position=True, ragged=self._note_ragged(0))
            head = {name: arrays[str(position)].to_pylist() for position, name in enumerate(self.names)}
            rows = self._places(0, n).tolist()
        for name, cells in head.items():
            columns[name] = self._column(name, dict(zip(rows, cells, strict=True)) if cells else {})
        self.ragged = []
        return columns, head

    def _column(self, name: str, cells: Mapping[int, str]) -> Column:
        """What a column holds, by its first cells and their rows."""
        present = {row: cell for row, cell in cells.items() if cell and not self.missing.has(cell)}
        others = {row: cell for row, cell in present.items() if not self.spelling.is_number(cell)}
        if not present and self.live:
            self._unseen.add(name)
        if not others:
            return Column("number")
        # the first cell of a pipe decides, however many have arrived
        if all(cell.lower() in ("true", "false") for cell in list(present.values())[: 1 if self.live else None]):
            self._booleans.add(name)
            return Column("number")
        row, cell = next(iter(others.items()))
        if len(others) < len(present):
            return Column("text", cell, row)
        return Column("time" if is_time(cell) else "text", cell)

    def _parse(
        self,
        block: bytes,
        features: Sequence[str],
        carried: Sequence[str],
        done: int,
        *,
        by_position: bool = False,
        ragged: Any = None,
    ) -> tuple[dict[str, Any], int]:
        """Arrow columns of a block: features as numbers, carried columns as texts under their name and a blank."""
        where = {name: str(position) for position, name in enumerate(self.names)}
        number: Any = pa.string() if self._by_text else pa.float64()
        # every number is read as float64: a column may start with whole numbers or with nothing at all
        types = {where[name]: self._text_type(name) for name in carried if name not in features}
        types |= {where[name]: pa.bool_() if name in self._booleans else number for name in features}
        wanted = [str(i) for i in range(len(self.names))] if by_position else list(types)
        types = dict.fromkeys(wanted, pa.string()) if by_position else types
        try:
            table = self._read(block, wanted, types, ragged)
            again = [name for name in carried if name in features]
            as_texts = {where[name]: pa.string() for name in again}
            texts = self._read(block, list(as_texts), as_texts, ragged) if again else None
        except pa.ArrowInvalid as error:
            raise TableError(self._sentence(str(error), done)) from None
        if by_position:
            return {name: table.column(name).combine_chunks() for name in wanted}, table.num_rows
        arrays = {name: self._numbers(table.column(where[name]), name, done) for name in features}
        for name in carried:
            arrays[f"{name} "] = _whole(
                (texts if name in features and texts is not None else table).column(where[name])
            )
        return arrays, table.num_rows

    def _text_type(self, name: str) -> Any:
        return pa.dictionary(pa.int32(), pa.string()) if name in self.coded else pa.string()

    def _read(self, block: bytes, wanted: Sequence[str], types: Mapping[str, Any], ragged: Any) -> Any:
        return pa_csv.read_csv(
            pa.BufferReader(block),
            read_options=pa_csv.ReadOptions(
                use_threads=False,  # so that errors know their row
                block_size=max(len(block), 1 << 16) + 1,
                column_names=[str(i) for i in range(len(self.names))],
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter="\t" if self.delimiter == WHITESPACE else self.delimiter, invalid_row_handler=ragged
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(wanted) or ["0"],
                column_types=dict(types) or {"0": pa.string()},
                decimal_point="." if self._by_text else self.decimal,
                null_values=self.missing.texts,
                strings_can_be_null=False,
            ),
        )

    def _numbers(self, column: Any, name: str, done: int) -> Any:
        """A column of features; texts become numbers where thousands are grouped."""
        array = _whole(column)
        if not self._by_text or name in self._booleans:
            return array
        numbers = self.spelling.read(array)
        if numbers is None:
            row, cell = self.spelling.first_bad(array)
            raise TableError(self._not_a_number(name, done + row, cell))
        asks = not self.options.thousands and not self.live  # a pipe cannot be read again
        if self.thousands and asks and (cells := self._grouping.conflict(name, array)):
            raise marks.ask_about_groups(cells, self.thousands, f"{self.name}: column {name!r}")
        return pa.array(numbers, from_pandas=True)

    def _count_missing(self, block: bytes, features: Sequence[str], X: Any) -> None:
        """Count cells that say why they are missing."""
        gaps = [name for name, column in zip(features, X.T, strict=True) if np.isnan(column).any()]
        texts = [text for text in (*KNOWN, *self.options.missing) if text.encode() in block] if gaps else []
        if texts:
            arrays, _ = self._parse(block, (), gaps, 0, ragged=lambda row: "skip")
            for name in gaps:
                for item in pc.value_counts(arrays[f"{name} "]).to_pylist():
                    if item["values"] in texts:
                        self.missing_found[item["values"]] += item["counts"]

    def _blocks(self) -> Iterator[bytes]:
        """The lines of the rows, in blocks."""
        if self._pipe is not None:
            lines = Lines(
                self._pipe.read1, self.encoding, self.delimiter, self.name, len(self.names), _BLOCK, live=True
            )
            yield from self._skipping(lines, said=self._said)
            return
        with self._stream() as file:
            lines = Lines(file.read, self.encoding, self.delimiter, self.name, len(self.names), _BLOCK)
            yield from self._skipping(lines, said=self._said)

    def _skipping(self, lines: Lines, said: bool = False) -> Iterator[bytes]:
        left = self.layout.skip + said
        for block in lines:
            while left and block:
                line, block = _first_line(block)
                left -= bool(line.strip())
            if block and not block.isspace():
                yield block

    def _stream(self) -> Any:
        try:
            self._file = pa.OSFile(os.fsencode(str(self.path)), "rb")  # names need not be UTF-8
            packed = _PACKED.get(self.path.suffix.lower()) if self.path is not None else None
            return self._file if packed is None else _Unpacked(pa.CompressedInputStream(self._file, packed), self.name)
        except pa.ArrowException as error:
            raise TableError(f"{self.name}: {' '.join(str(error).split())[:200]}") from None

    def _sentence(self, message: str, done: int) -> str:
        """pyarrow's error message with names instead of numbers, and rows counted from 0."""
        if place := _PLACE.search(message):
            return self._not_a_number(self.names[int(place[1])], done + int(place[2] or 1) - 1, place[3])
        if ragged := _RAGGED.search(message):
            row = done + int(ragged[1] or 1) - 1
            return f"{self.name}: row {row} has {ragged[3]} cell(s), but the header has {ragged[2]}."
        return f"{self.name}: {' '.join(message.split())[:200]}"

    def _not_a_number(self, name: str, row: int, cell: str) -> str:
        return (
            f"{self.name}: column {name!r} contains {cell[:40]!r} in row {row}, which is not a number "
            f"(the delimiter is {self.delimiter!r}, the decimal mark is {self.decimal!r}). {take_as_missing(cell)}"
        )


class _UnreadableError(TableError):
    """A line of a pipe that is no text of the table."""


def _readable_lines(block: bytes) -> list[bytes]:
    marks = UNREADABLE.encode(), UNCLOSED.encode()
    return [line for line in block.splitlines(keepends=True) if not any(mark in line for mark in marks)]


def _as_it_is(array: Any) -> Any:
    return array


def _whole(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _cells(text: str, delimiter: str, most: int = 400) -> Iterator[list[str]]:
    """The cells of the first lines that are not blank."""
    lines = [line for line in dialect.lines_of(text)[:most] if line.strip()]
    if delimiter == WHITESPACE:
        yield from map(cut_line_at_blanks, lines)
        return
    try:
        yield from csv.reader(lines, delimiter=delimiter)
    except csv.Error:
        yield from (line.rstrip("\r\n").split(delimiter) for line in lines)


def _may_show_marks(text: str, delimiter: str) -> bool:
    """Whether a cell begins like a number with a decimal mark or a thousands separator."""
    return re.search(rf'(?:^|[\n\r"]|{re.escape(delimiter)})[ +-]*\d*[.,]\d', text) is not None


def _enough(seen: bytes) -> bool:
    """Whether a pipe has shown its header and a row with a number."""
    lines = [line for line in seen.splitlines()[:-1] if line.strip()] if b"\n" in seen else []
    whole = lines if not seen.endswith(b"\n") else [*lines, seen.splitlines()[-1]]
    return len(whole) > 1 and any(re.search(rb"(?<![\w])[+-]?\d", line) for line in whole[1:])


def _first_line(block: bytes) -> tuple[bytes, bytes]:
    found = re.match(rb"[^\r\n]*(?:\r\n|\n|\r|\Z)", block)
    assert found is not None
    return found[0], block[found.end() :]


class _Once:
    """Bytes that are read as a whole."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __call__(self, size: int) -> bytes:
        content, self.content = self.content, b""
        return content


class _Unpacked:
    """A compressed file; damage is a `TableError`."""

    def __init__(self, stream: Any, name: str) -> None:
        self.stream, self.name = stream, name

    def read(self, size: int) -> bytes:
        try:
            return bytes(self.stream.read(size))
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name} cannot be unpacked: {' '.join(str(error).split())[:160]}") from None

    def __enter__(self) -> "_Unpacked":
        return self

    def __exit__(self, *error: object) -> None:
        self.stream.close()
