"""Sheets of Excel files (.xlsx), read row by row with openpyxl."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
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
_NO_TEXTS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "n/a", "-")

Row = tuple[Any, ...]


class ExcelTable:
    """One sheet of an Excel file."""

    kind = "excel"
    time = None
    hints: Mapping[str, str] = MappingProxyType({})
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
        self._sheet = self._choose_sheet()
        head = [row for _, row in zip(range(_HEAD), self._rows(), strict=False)]
        if not head:
            raise TableError(f"{self.name}: the sheet {self._sheet!r} is empty.")
        texts = [[_text(cell) for cell in row] for row in head]
        cells = [cell for row in head[1:] for cell in row if isinstance(cell, str)]
        found = marks.detect(cells, ";")
        decimal = options.decimal or ("." if found.unsure else found.decimal)
        missing = Missing((*_NO_TEXTS, *KNOWN, *options.missing), decimal)
        self.missing = missing
        self.spelling = Spelling(missing, decimal, options.thousands or (None if found.unsure else found.thousands))
        self._choose_layout(texts)
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
            if isinstance(cell, (int, float)):
                result[i] = cell
            elif self._is_missing(cell):
                result[i] = np.nan
                if cell and cell.strip() not in _NO_TEXTS:
                    self.missing_found[cell.strip()] += 1
            elif isinstance(cell, str) and self.spelling.is_number(cell):
                number = self.spelling.read(pa.array([cell]))
                result[i] = np.nan if number is None else number[0]
            else:
                raise TableError(
                    f"{self.name}: column {name!r} contains {_text(cell)[:40]!r} in row {self._done + i}, which is not a "
                    f"number. {take_as_missing(_text(cell))}"
                )
        large = np.abs(result) > LARGEST
        if large.any():
            at = int(np.argmax(large))
            raise TableError(
                f"{self.name}: column {name!r} contains {result[at]:g} in row {self._done + at}, which is too large."
            )
        return result

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
        with self._book() as book:
            names = list(book.sheetnames)
        if not names:
            raise TableError(f"{self.name}: the workbook has no sheets.")
        wanted = self.options.sheet
        if wanted is not None and wanted not in names:
            raise TableError(f"{self.name}: there is no sheet {wanted!r}{near_miss(wanted, names)}")
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
                f"{self.name}: the first row contains only numbers. If it is not a header, add --no-header. If these are "
                "the names, add --header-rows 1."
            )

    def _rows(self, skip: int = 0) -> Iterator[Row]:
        """The rows that are not blank."""
        with self._book() as book:
            sheet = book[self._sheet]
            self._total = sheet.max_row or 0
            for row in sheet.iter_rows(values_only=True):
                if any(cell is not None and cell != "" for cell in row):
                    if skip:
                        skip -= 1
                        continue
                    yield row

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
        import warnings

        self.file = self.path.open("rb")  # which openpyxl would leave open if it is damaged
        try:
            with warnings.catch_warnings():  # of styles and extensions that do not matter here
                warnings.simplefilter("ignore")
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
    if len(kinds) == 1:
        return pa.array(cells)
    return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())
