"""Tables of which only the cells are known: CSV and sheets. What cells mean is decided here, once for all formats.

The first rows settle names, units, decimal mark, thousands separator and kinds of columns. Columns that pyarrow can convert
by itself come as numbers; others come as texts, and are converted here.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from culpa.io.reading import Options
from culpa.io.tables import layout, marks
from culpa.io.tables.columns import check_each, check_numeric, find_for_model, take_as_missing, to_matrix
from culpa.io.tables.csv_cells import CsvBlock, UnreadableError
from culpa.io.tables.numbers import KNOWN, Grouping, Missing, Spelling, plain_numbers
from culpa.io.tables.problems import explained
from culpa.io.tables.table import Batch, Block, Cells, Column, FileTable, TableError, Wanted, as_text
from culpa.io.tables.times import is_time

_MOST_MARKED = 20_000  # numbers with a mark that are looked at to learn which mark it is


class TextTable(FileTable):
    """A table whose cells are texts, such as CSV and Excel."""

    def __init__(self, cells: Cells, options: Options, report: Callable[[str], None] = print) -> None:
        super().__init__(cells.path)
        self.raw, self.options, self.report = cells, options, report
        self.kind, self.live = cells.kind, cells.live
        found = marks.choose(self.name, cells, options, Missing((*cells.nulls, *KNOWN, *options.missing)).has)
        self.decimal, self.thousands, self.hints, self._late = found.decimal, found.thousands, found.hints, found.late
        self.missing = Missing((*KNOWN, *options.missing), self.decimal, silent=cells.nulls)
        self.spelling = Spelling(self.missing, self.decimal, self.thousands)
        self._grouping = Grouping(self.spelling)
        lines = [[as_text(cell) for cell in row] for row in cells.head()]
        self.layout = layout.find(self.name, lines, self.spelling.is_number, self.missing.has, options)
        self.names, self.units = self.layout.names, self.layout.units
        self.decisions = [
            *(*cells.decisions, *found.decisions, *layout.in_words(self.layout, options.header_rows)),
            *cells.about([*self.names, *self.units.values()]),
        ]
        self.ragged: list[tuple[int, int]] = []  # rows with too few or too many cells, and how many they have
        self.coded: frozenset[str] = frozenset()  # carried columns that may be dictionaries, because few texts repeat
        self.numbers: frozenset[str] = frozenset()  # carried columns whose texts are read as numbers later
        self._refused, self._told_unreadable = 0, False  # rows of a pipe
        self.flags: set[str] = set()  # columns of true and false
        self._unseen: set[str] = set()  # columns of a pipe without any cell so far
        self._odd: set[str] = set()  # columns with cells that pyarrow cannot convert
        self._at = {name: j for j, name in enumerate(self.names)}
        self._head = cells.sample(len(self.names), self.layout.skip)
        self._columns = self._look(self.names, self._head)

    def columns(self) -> Mapping[str, Column]:
        """Kinds as the first rows suggest."""
        return self._checked_columns

    @cached_property
    def _checked_columns(self) -> Mapping[str, Column]:
        self._check_header()
        check_each(self._columns, self.names, self.name)
        return self._columns

    def look(self, name: str) -> list[Any]:
        """The first cells of a column."""
        (cells,) = self._head.read(Wanted(texts=[self._at[name]]), self.spelling)[1]
        return [cell for cell in cells.to_pylist() if cell is not None and cell != "" and not self.missing.has(cell)]

    def share(self) -> float | None:
        """Share of the file that has been read."""
        return self.raw.share()

    @property
    def skipped(self) -> int:
        """Rows with too few or too many cells, and rows of a pipe that could not be read."""
        return self._refused + (len(self.ragged) if self.options.skip_ragged else 0)

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows; carried columns stay what they are."""
        if not {*features, *carried} <= {*self.names}:
            self._check_header()
        find_for_model(features, carried, self.names, self.name)
        self.missing_found.clear()
        try:
            if not self.live or self.options.strict:  # rows of a pipe are refused one by one
                for name in features:
                    check_numeric(name, self._columns[name], self.name)
            yield from self._batches(features, carried)
        except marks.UnclearMarkError:
            raise
        except TableError as error:
            raise (explained(error, self, features) if self.again else error) from None

    def _batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        self.ragged, self._refused, done = [], 0, 0
        for block in self.raw.blocks(len(self.names), self.layout.skip):
            try:
                batch = self._batch(block, features, carried, done)
            except TableError:
                if not (self.live and isinstance(block, CsvBlock)):
                    raise
                for row in block.rows():
                    yield from self._if_usable(row, features, carried, done)
                    done += 1
            else:
                done += self._note(block, done)
                yield batch
        if self._refused and self._refused == done:
            raise TableError(f"{self.name}: no row could be used.")

    def _if_usable(self, row: Block, features: Sequence[str], carried: Sequence[str], done: int) -> Iterator[Batch]:
        """A row of a pipe. A bad one is reported and skipped, so that it does not stop the answers, unless it shall."""
        try:
            batch = self._batch(row, features, carried, done)
        except TableError as error:
            if self.options.strict:
                raise
            self._refused += 1
            self._tell(error)
        else:
            self._note(row, done)
            yield batch

    def _note(self, block: Block, done: int) -> int:
        """Note rows with another number of cells; returns the number of all rows."""
        self.ragged += [(done + at, n) for at, n in block.ragged]
        return block.n + len(block.ragged)

    def _tell(self, error: TableError) -> None:
        """Report a row that is skipped; of those that are no text of the table, only the first."""
        text = str(error).rstrip(".")
        if not isinstance(error, UnreadableError):
            self.report(f"{text}. The row is skipped.")
        elif not self._told_unreadable:
            self._told_unreadable = True
            self.report(f"{text}. Such rows are skipped and counted, and not reported again.")

    def _batch(self, block: Block, features: Sequence[str], carried: Sequence[str], done: int) -> Batch:
        row = block if self.live and isinstance(block, CsvBlock) else None
        if row is not None:
            row.check(f"{self.name}, row {done}")
        if self._late.is_open:
            wanted = dict.fromkeys((*features, *(name for name in carried if name in self.numbers)))
            for part in [block] if row is None else row.rows():  # the same, however lines arrive
                self._check_marks(part, list(wanted), done)
        if not self._unseen.isdisjoint(features):
            self._columns |= self._look([name for name in features if name in self._unseen], block)
        single = None if row is None or self._is_special else self._plain(row, features, carried, done)
        return self._parsed(block, features, carried, done) if single is None else single

    def _plain(self, row: CsvBlock, features: Sequence[str], carried: Sequence[str], done: int) -> Batch | None:
        """A single row without anything special; ``None`` if there is more to a block."""
        cells = row.plain()
        X = None if cells is None else plain_numbers([cells[self._at[name]] for name in features], self.decimal)
        if cells is None or X is None:
            return None
        texts = {name: pa.array([cells[self._at[name]].decode()], pa.string()) for name in carried}
        return Batch(np.arange(done, done + 1), X, texts)

    def _parsed(self, block: Block, features: Sequence[str], carried: Sequence[str], done: int) -> Batch:
        spelled = [name for name in carried if name in self.numbers and self.raw.typed]  # as the numbers of a table are
        wanted = [*features, *spelled], carried, self._odd, self.coded
        numbers, texts = block.read(Wanted(*([self._at[name] for name in names] for names in wanted)), self.spelling)
        if block.ragged and not self.options.skip_ragged:
            at, n = block.ragged[0]
            raise TableError(f"{self.name}: row {done + at} has {n} cell(s), but the header has {len(self.names)}.")
        rows = places(block, done)
        gone: Counter[str] = Counter()  # counted once the rows are good; those of a pipe may be read again one by one
        found = [self._floats(cells, name, rows, gone) for cells, name in zip(numbers, features, strict=False)]
        X = to_matrix(found, features, self.name, rows, self.missing, gone)
        self.missing_found.update(gone)
        as_numbers = dict(zip(spelled, numbers[len(features) :], strict=True))
        return Batch(rows, X, dict(zip(carried, texts, strict=True)) | as_numbers, spelling=self.spelling)

    @property
    def _is_special(self) -> bool:
        """Whether single rows, too, need a parser."""
        by_text = self.thousands or self.decimal == self.raw.delimiter
        return bool(by_text or self.coded or self.flags or self.missing.numbers)

    def _floats(self, cells: Any, name: str, rows: Any, gone: Counter[str]) -> Any:
        """Numbers of a column, which may have come as texts; texts of missing cells are counted."""
        if not pa.types.is_string(cells.type):
            return cells
        numbers = self.spelling.read(cells, flags=name in self.flags)
        if numbers is None:
            at, cell = self.spelling.first_bad(cells, flags=name in self.flags)
            found = f" (the delimiter is {self.raw.delimiter!r}, the decimal mark is {self.decimal!r})"
            raise TableError(
                f"{self.name}: column {name!r} contains {cell[:40]!r} in row {rows[at]}, which is not a number"
                f"{'' if self.raw.typed else found}. {take_as_missing(cell)}"
            )
        asks = not self.options.thousands and not self.live  # a pipe cannot be read again
        if self.thousands and asks and (pair := self._grouping.conflict(name, cells)):
            raise marks.ask_about_groups(pair, self.thousands, f"{self.name}: column {name!r}")
        if np.isnan(numbers).any():
            self._odd.add(name)
            gone.update(self.spelling.count_missing(cells, numbers))
        return numbers

    def _check_marks(self, block: Block, names: Sequence[str], done: int) -> None:
        """Ask about the first decimal mark or thousands separator of the table, if it is unclear which of them it is."""
        if not self._late.is_open or not names:
            return

        def row_of(name: str, cell: str) -> int:
            (texts,) = block.read(Wanted(texts=[self._at[name]]), self.spelling)[1]
            return int(places(block, done)[texts.to_pylist().index(cell)])

        marked = block.marked([self._at[name] for name in names], max(20, _MOST_MARKED // len(names)), self.spelling)
        columns = {
            name: [cell for cell in cells if not self.missing.has(cell)]
            for name, cells in zip(names, marked, strict=True)
        }
        self._late.check(columns, row_of)

    def cells(self, names: Sequence[str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        """All cells of some columns, block by block, with their rows. Ragged rows are left out and noted."""
        self.ragged, done = [], 0
        wanted = [self._at[name] for name in names]
        for block in self.raw.blocks(len(self.names), self.layout.skip):
            arrays, _ = block.read(Wanted(wanted, odd=wanted), self.spelling)
            yield places(block, done), dict(zip(names, arrays, strict=True))
            done += self._note(block, done)

    def _check_header(self) -> None:
        """Ask about a header that looks like a row."""
        if self.layout.doubtful:
            first = ", ".join(self.names[:4]) + (", ..." if len(self.names) > 4 else "")
            raise TableError(
                f"{self.name}: the first row contains numbers instead of names ({first}). If it is not a header, "
                "add --no-header (columns are then called c1, c2, ...) or --names a,b,c. If these are the names, "
                "add --header-rows 1."
            )

    def _look(self, names: Sequence[str], block: Block) -> dict[str, Column]:
        """Kinds of columns by their first cells."""
        arrays, _ = block.read(Wanted([self._at[name] for name in names]), self.spelling)
        rows = places(block, 0)
        return {name: self._column(name, cells, rows) for name, cells in zip(names, arrays, strict=True)}

    def _column(self, name: str, cells: Any, rows: Any) -> Column:
        numbers = self.spelling.read(cells) if pa.types.is_string(cells.type) else cells
        self._unseen.discard(name)
        if numbers is not None:
            if self.live and np.isnan(numbers).all():
                self._unseen.add(name)
            return Column("number")
        present = {
            row: cell
            for row, cell in zip(rows.tolist(), cells.to_pylist(), strict=True)
            if cell.strip() and not self.missing.has(cell)
        }
        others = {row: cell for row, cell in present.items() if not self.spelling.is_number(cell)}
        # the first cell of a pipe decides, however many have arrived
        if all(cell.lower() in ("true", "false") for cell in list(present.values())[: 1 if self.live else None]):
            self.flags.add(name)
            self._odd.add(name)
            return Column("number")
        row, cell = next(iter(others.items()))
        if len(others) < len(present):
            return Column("text", cell, row)
        return Column("time" if is_time(cell) else "text", cell)


def places(block: Block, done: int) -> Any:
    """The rows of a block after so many rows, counted in the table."""
    out = [at for at, _ in block.ragged]
    rows = np.arange(done, done + block.n + len(out))
    return np.delete(rows, out) if out else rows
