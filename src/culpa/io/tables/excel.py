"""Sheets of Excel files (.xlsx), read row by row with openpyxl."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from culpa._core.types import Floats
from culpa.io.tables import layout, marks
from culpa.io.tables.columns import check_each, check_numeric, find_for_model, near_miss, take_as_missing
from culpa.io.tables.missing import KNOWN, Missing
from culpa.io.tables.numbers import Spelling
from culpa.io.tables.reading import Options
from culpa.io.tables.table import LARGEST, Batch, Column, Source, TableError

_ROWS = 1 << 13  # rows at a time
_HEAD = 400  # rows looked at
_MOST_NAMED = 5  # columns in a message
_CHUNK = 1 << 22  # bytes of XML at a time
_FORMULA = re.compile(  # the beginning of its cell, and its value if that is empty
    rb"<c\b([^>]*)>\s*<f\b(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(<v\s*/>|<v>\s*</v>|)\s*</c>"
)
_COLUMN = re.compile(rb'\br="([A-Z]+)\d+"')
_NO_TEXTS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "n/a", "-")

Row = tuple[Any, ...]


class ExcelTable:
    """One sheet of an Excel file."""

    kind = "excel"
    time = None
    live = False
    again = True
    skipped = 0

    def __init__(self, path: Path | None, options: Options) -> None:
        if path is None:
            raise TableError("Excel files cannot be read from a pipe. Pass a file.")
        self.path, self.options, self.name = path, options, str(path)
        self.decisions: list[str] = []
        self.missing_found: Counter[str] = Counter()
        self._done, self._total = 0, 0
        self._uncomputed: Counter[int] = Counter()  # formulas without a value, by the position of their column
        self._sheet = self._choose_sheet()
        head = [row for _, row in zip(range(_HEAD), self._rows(), strict=False)]
        if not head:
            raise TableError(f"{self.name}: the sheet {self._sheet!r} is empty.")
        texts = [[_text(cell) for cell in row] for row in head]
        decimal, thousands = self._choose_marks(head)
        self.missing = Missing((*_NO_TEXTS, *KNOWN, *options.missing), decimal)
        self.spelling = Spelling(self.missing, decimal, thousands)
        self._choose_layout(texts)
        self._tell_formulas()
        body = head[self.layout.skip :]
        self._head = {
            name: [row[j] if j < len(row) else None for row in body] for j, name in enumerate(self.layout.names)
        }
        self._columns = {name: self._column(cells) for name, cells in self._head.items()}

    @property
    def units(self) -> Mapping[str, str]:
        """Units of columns, from a row below their names."""
        return self.layout.units

    def columns(self) -> Mapping[str, Column]:
        """Kinds as the first rows suggest."""
        return self._checked_columns

    @cached_property
    def _checked_columns(self) -> Mapping[str, Column]:
        check_each(self._columns, self.layout.names, self.name)
        return self._columns

    def files(self) -> Sequence[Source]:
        """Itself."""
        return [self]

    def look(self, name: str) -> list[Any]:
        """The first cells of a column."""
        return [cell for cell in self._head[name] if not self._is_missing(cell)]

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows; dates stay dates."""
        find_for_model(features, carried, self.layout.names, self.name)
        for name in features:
            check_numeric(name, self._columns[name], self.name)
        where = {name: j for j, name in enumerate(self.layout.names)}
        self.missing_found.clear()
        self._done, rows = 0, []
        for row in self._rows(self.layout.skip):
            rows.append(row)
            if len(rows) == _ROWS:
                yield self._batch(rows, features, carried, where)
                rows = []
        if rows:
            yield self._batch(rows, features, carried, where)

    def share(self) -> float | None:
        """Rows read of all rows."""
        return min(self._done / self._total, 1.0) if self._total else None

    def _batch(
        self, rows: list[Row], features: Sequence[str], carried: Sequence[str], where: Mapping[str, int]
    ) -> Batch:
        def column(name: str) -> list[Any]:
            return [row[where[name]] if where[name] < len(row) else None for row in rows]

        X = np.empty((len(rows), len(features)), order="F")
        for j, name in enumerate(features):
            X[:, j] = self._numbers(column(name), name)
        self.missing_found.update(self.missing.blank(X))
        start, self._done = self._done, self._done + len(rows)
        return Batch(np.arange(start, self._done), X, {name: _array(column(name)) for name in carried})

    def _numbers(self, cells: Sequence[Any], name: str) -> Floats:
        result = np.empty(len(cells))
        for i, cell in enumerate(cells):
            if isinstance(cell, float):
                result[i] = cell
            elif isinstance(cell, int):
                result[i] = cell if abs(cell) <= LARGEST else np.inf
            elif self._is_missing(cell):
                result[i] = np.nan
                if cell and cell.strip() not in _NO_TEXTS:
                    self.missing_found[cell.strip()] += 1
            elif isinstance(cell, str) and self.spelling.is_number(cell):
                self._check_marks(cell, name, self._done + i)
                number = self.spelling.read(pa.array([cell]))
                if number is None:
                    raise self._not_a_number(cell, name, self._done + i)
                result[i] = number[0]
            else:
                raise self._not_a_number(cell, name, self._done + i)
        large = np.abs(result) > LARGEST
        if large.any():
            at = int(np.argmax(large))
            raise TableError(
                f"{self.name}: column {name!r} contains {_short(cells[at])} in row {self._done + at}, which is too large. "
                "Correct the cell, or make it empty."
            )
        return result

    def _not_a_number(self, cell: Any, name: str, row: int) -> TableError:
        return TableError(
            f"{self.name}: column {name!r} contains {_text(cell)[:40]!r} in row {row}, which is not a number. "
            f"{take_as_missing(_text(cell))}"
        )

    def _check_marks(self, cell: str, name: str, row: int) -> None:
        """Ask about the first text with a mark after the rows that were looked at, if it is unclear what it means."""
        if self._late.is_open and ("." in cell or "," in cell):
            self._late.check({name: [cell]}, lambda *_: row)

    def _choose_marks(self, head: Sequence[Row]) -> tuple[str, str | None]:
        """Decimal mark and thousands separator of numbers that are written as texts."""
        given, hints = self.options, self.options.hints
        decimal, thousands = given.decimal, given.thousands
        self.hints: Mapping[str, str] = {}
        if decimal is None and thousands in (".", ","):
            decimal = "," if thousands == "." else "."
        if decimal is not None:
            self._late = marks.LateMarks(self.name, ";", decimal, is_open=False)
            return decimal, thousands
        known = Missing((*_NO_TEXTS, *KNOWN, *given.missing))
        lines = [[cell if isinstance(cell, str) else _place_of(cell) for cell in row] for row in head[1:]]
        found = marks.detect(marks.cells_of_numbers(lines, known.has, or_all=False), ";")
        before = hints.get("decimal")
        if found.unsure is not None and not before:
            raise marks.ask(found, self.name)
        if before and (found.unsure is not None or found.bare):
            decimal, group = before, hints.get("thousands")
        else:
            decimal, group = found.decimal, found.thousands
            self.hints = {"decimal": decimal} | ({"thousands": group} if group else {}) if found.seen else {}
        thousands = thousands or (group if group != decimal else None)
        shown = found.unsure is not None or not found.bare or found.thousands
        self.decisions += [f"decimal mark {decimal!r} in texts"] if shown and decimal != "." else []
        self.decisions += [f"thousands separator {thousands!r} in texts"] if shown and group and thousands else []
        self._late = marks.LateMarks(self.name, ";", decimal, is_open=found.bare and not before)
        return decimal, thousands

    def _tell_formulas(self) -> None:
        """State formulas whose values the file does not contain, because no spreadsheet program computed them."""
        counts = {name: self._uncomputed[j] for j, name in enumerate(self.layout.names) if self._uncomputed[j]}
        if counts:
            listed = ", ".join(f"{name!r} ({n:,})" for name, n in list(counts.items())[:_MOST_NAMED])
            self.decisions.append(
                f"formulas without saved values are read as missing, in column{'s' * (len(counts) > 1)} {listed}"
                f"{', ...' * (len(counts) > _MOST_NAMED)} (open the workbook in Excel and save it to compute them)"
            )

    def _is_missing(self, cell: Any) -> bool:
        return cell is None or (isinstance(cell, str) and (not cell.strip() or self.missing.has(cell.strip())))

    def _column(self, cells: Sequence[Any]) -> Column:
        present = {row: cell for row, cell in enumerate(cells) if not self._is_missing(cell)}
        others = {
            row: cell
            for row, cell in present.items()
            if not (isinstance(cell, (int, float)) or (isinstance(cell, str) and self.spelling.is_number(cell)))
        }
        if not others:
            return Column("number")
        row, cell = next(iter(others.items()))
        if len(others) < len(present):
            return Column("text", _text(cell), row)
        return Column("time" if isinstance(cell, (dt.date, dt.time)) else "text", _text(cell))

    def _choose_sheet(self) -> str:
        wanted = self.options.sheet
        with self._book() as book:
            names = list(book.sheetnames)
            if not names:
                raise TableError(f"{self.name}: the workbook has no sheets.")
            if wanted is not None and wanted not in names:
                raise TableError(f"{self.name}: there is no sheet {wanted!r}{near_miss(wanted, names)}")
            xml = getattr(book[wanted or names[0]], "_get_source", None)  # sheets of charts have none
            if xml is not None:
                with xml() as file:
                    self._uncomputed = _formulas_without_values(file)
        if wanted is None and len(names) > 1:
            self.decisions.append(f"sheet {names[0]!r}, the first of {len(names)}")
        return wanted or names[0]

    def _choose_layout(self, texts: Sequence[Sequence[str]]) -> None:
        width = max((j + 1 for row in texts for j, cell in enumerate(row) if cell), default=0)
        lines = [[*row[:width], *[""] * (width - len(row))] for row in texts]
        self.layout = layout.find_in(self.name, lines, self.spelling.is_number, self.missing.has, self.options)
        self.decisions += layout.in_words(self.layout, self.options.header_rows)
        if self.layout.doubtful:
            raise TableError(
                f"{self.name}: the first row contains numbers instead of names. If it is not a header, add --no-header. "
                "If these are the names, add --header-rows 1."
            )

    def _rows(self, skip: int = 0) -> Iterator[Row]:
        """The rows that are not blank."""
        with self._book() as book:
            sheet = book[self._sheet]
            self._total = sheet.max_row or 0
            for row in self._all_rows(sheet):
                if any(cell is not None and cell != "" for cell in row):
                    if skip:
                        skip -= 1
                        continue
                    yield row

    def _all_rows(self, sheet: Any) -> Iterator[Row]:
        """The rows as the XML lists them. What a sheet says about its size may be stale, so it does not matter here.

        `openpyxl` itself would leave out rows beyond that size, rows and cells out of order, and repeated ones.
        """
        from openpyxl.worksheet._reader import WorkSheetParser

        book, before = sheet.parent, 0
        formats = {"date_formats": book._date_formats, "timedelta_formats": book._timedelta_formats}
        with sheet._get_source() as xml:
            parser = WorkSheetParser(xml, sheet._shared_strings, data_only=True, epoch=book.epoch, **formats)
            for number, cells in parser.parse():
                by_column = {cell["column"]: cell["value"] for cell in cells if cell["row"] == number}
                if number <= before or len(by_column) < len(cells):
                    raise TableError(
                        f"{self.name}: the rows or cells of the sheet {self._sheet!r} are out of order or repeated at row "
                        f"{number}. Open the workbook in a spreadsheet program, check it, and save it."
                    )
                before = number
                yield tuple(by_column.get(column) for column in range(1, max(by_column, default=0) + 1))

    def _book(self) -> "_Book":
        return _Book(self.path)


class _Book:
    """An open file; what is wrong with it is one sentence."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Any:
        try:
            import openpyxl
        except ImportError:
            raise TableError(
                f"{self.path}: Excel files need openpyxl. Install it with: pip install 'culpa[excel]'"
            ) from None

        self.file = self.path.open("rb")  # which openpyxl would leave open if it is damaged
        try:
            self.book = openpyxl.load_workbook(self.file, read_only=True, data_only=True)
        except Exception as error:  # openpyxl raises many kinds for damaged files
            self.file.close()
            raise self._damaged(error) from None
        return self.book

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.book.close()
        self.file.close()
        if error is not None and not isinstance(error, (TableError, GeneratorExit, KeyboardInterrupt)):
            raise self._damaged(error) from None

    def _damaged(self, error: BaseException) -> TableError:
        return TableError(f"{self.path} cannot be read as an Excel file: {' '.join(str(error).split())[:160]}")


def _formulas_without_values(file: Any) -> Counter[int]:
    """The number of such cells by column, counted from 0, in the XML of a sheet."""
    found: Counter[int] = Counter()
    rest = b""
    while chunk := file.read(_CHUNK):
        rest += chunk
        end = rest.rfind(b"</c>") + 4
        if end > 3:
            for cell, value in _FORMULA.findall(rest, 0, end) if b"<f" in rest else ():
                place = _COLUMN.search(cell)
                if place is not None and not (value and b't="str"' in cell):  # which is an empty text
                    found[_position(place[1])] += 1
            rest = rest[end:]
    return found


def _position(letters: bytes) -> int:
    """The position of a column, from 0.

    >>> _position(b"A"), _position(b"AB")
    (0, 27)
    """
    return reduce(lambda number, letter: 26 * number + letter - 64, letters, 0) - 1


def _place_of(cell: Any) -> str:
    """A text that stands for a cell that is none: numbers show no mark."""
    return "0" if isinstance(cell, (int, float)) else "" if cell is None else "time"


def _short(cell: Any) -> str:
    if isinstance(cell, int) and not -LARGEST <= cell <= LARGEST:
        return f"{str(cell)[:12]}... ({len(str(abs(cell)))} digits)"
    return f"{cell:g}" if isinstance(cell, float) else _text(cell)


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell)
    return repr(cell) if isinstance(cell, float) else str(cell)


def _array(cells: Sequence[Any]) -> Any:
    """Carried cells: dates as times, anything mixed as texts."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {dt.datetime, dt.date} and kinds:
        cells = [dt.datetime(*cell.timetuple()[:3]) if type(cell) is dt.date else cell for cell in cells]
        return pa.array(cells, pa.timestamp("us"))
    if len(kinds) == 1 and not (kinds == {int} and any(abs(cell or 0) >= 1 << 63 for cell in cells)):
        return pa.array(cells)
    return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())
