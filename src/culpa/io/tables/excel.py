"""Cells of sheets in Excel files (.xlsx), read row by row with openpyxl."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from culpa.io.reading import Options
from culpa.io.tables.columns import near_miss
from culpa.io.tables.numbers import Spelling
from culpa.io.tables.table import TableError, Wanted, as_text

_ROWS = 1 << 13  # rows at a time
_HEAD = 400  # rows looked at
_MOST_NAMED = 5  # columns in a message
_CHUNK = 1 << 22  # bytes of XML at a time
_FORMULA = re.compile(  # the beginning of its cell, and its value if that is empty
    rb"<c\b([^>]*)>\s*<f\b(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(<v\s*/>|<v>\s*</v>|)\s*</c>"
)
_COLUMN = re.compile(rb'\br="([A-Z]+)\d+"')

Row = tuple[Any, ...]


@dataclass
class SheetBlock:
    """Some rows of a sheet."""

    content: Sequence[Row]
    ragged: list[tuple[int, int]] = field(default_factory=list)  # none: cells that are not there are empty

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.content)

    def _column(self, j: int) -> list[Any]:
        return [row[j] if j < len(row) else None for row in self.content]

    def read(self, wanted: Wanted, spelling: Spelling) -> tuple[list[Any], list[Any]]:
        """Columns of numbers, as texts if other cells are among them, and columns as they are."""
        numbers = [_numbers(self._column(j), spelling.decimal) for j in wanted.numbers]
        return numbers, [_array(self._column(j)) for j in wanted.texts]

    def marked(self, columns: Sequence[int], most: int, spelling: Spelling) -> list[list[str]]:
        """Texts of columns with a mark that may be part of a number."""
        texts = ([cell for cell in self._column(j) if isinstance(cell, str)] for j in columns)
        return [[cell for cell in cells if "." in cell or "," in cell][:most] for cells in texts]


class ExcelCells:
    """One sheet of an Excel file."""

    kind, delimiter, live, typed = "excel", ";", False, True
    nulls: Sequence[str] = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "n/a", "-")

    def __init__(self, path: Path | None, options: Options) -> None:
        if path is None:
            raise TableError("Excel files cannot be read from a pipe. Pass a file.")
        self.path: Path | None = path
        self.name = str(path)
        self.decisions: list[str] = []
        self._done, self._total = 0, 0
        self._uncomputed: Counter[int] = Counter()  # formulas without a value, by the position of their column
        self._sheet = self._choose_sheet(options.sheet)
        self._first = list(islice(self._rows(), _HEAD))
        if not self._first:
            raise TableError(f"{self.name}: the sheet {self._sheet!r} is empty.")

    def head(self, *, whole: bool = False) -> list[list[Any]]:
        """The first rows, all as wide as the widest; no more are looked at for marks."""
        filled = (j for row in self._first for j, cell in enumerate(row, 1) if cell is not None and cell != "")
        width = max(filled, default=0)
        return [] if whole else [[*row[:width], *[None] * (width - len(row))] for row in self._first]

    def about(self, names: Sequence[str]) -> list[str]:
        """Formulas whose values the file does not contain, because no spreadsheet program computed them."""
        counts = {name: self._uncomputed[j] for j, name in enumerate(names) if self._uncomputed[j]}
        if not counts:
            return []
        listed = ", ".join(f"{name!r} ({n:,})" for name, n in list(counts.items())[:_MOST_NAMED])
        return [
            f"formulas without saved values are read as missing, in column{'s' * (len(counts) > 1)} {listed}"
            f"{', ...' * (len(counts) > _MOST_NAMED)} (open the workbook in Excel and save it to compute them)"
        ]

    def sample(self, width: int, skip: int) -> SheetBlock:
        """Cells of the first rows of the sheet."""
        return SheetBlock(self._first[skip:])

    def blocks(self, width: int, skip: int) -> Iterator[SheetBlock]:
        """Cells of all rows of the sheet, block by block."""
        self._done, rows = skip, islice(self._rows(), skip, None)
        while part := list(islice(rows, _ROWS)):
            self._done += len(part)
            yield SheetBlock(part)

    def share(self) -> float | None:
        """Rows read of all rows."""
        return min(self._done / self._total, 1.0) if self._total else None

    def _choose_sheet(self, wanted: str | None) -> str:
        with _open_book(self.name) as book:
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

    def _rows(self) -> Iterator[Row]:
        """The rows that are not blank."""
        with _open_book(self.name) as book:
            sheet = book[self._sheet]
            self._total = sheet.max_row or 0
            yield from (row for row in self._all_rows(sheet) if any(cell is not None and cell != "" for cell in row))

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


@contextmanager
def _open_book(name: str) -> Iterator[Any]:
    """An open file; what is wrong with it is one sentence."""
    try:
        import openpyxl
    except ImportError:
        raise TableError(f"{name}: Excel files need openpyxl. Install it with: pip install 'culpa[excel]'") from None
    with Path(name).open("rb") as file:  # which openpyxl would leave open if it is damaged
        try:
            with closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as book:
                yield book
        except (TableError, GeneratorExit, KeyboardInterrupt):
            raise
        except Exception as error:  # openpyxl raises many kinds for damaged files
            raise TableError(f"{name} cannot be read as an Excel file: {' '.join(str(error).split())[:160]}") from None


def _formulas_without_values(file: Any) -> Counter[int]:
    """The number of such cells by column, counted from 0, in the XML of a sheet."""
    from openpyxl.utils import column_index_from_string

    found: Counter[int] = Counter()
    rest = b""
    while chunk := file.read(_CHUNK):
        rest += chunk
        end = rest.rfind(b"</c>") + 4
        if end > 3:
            for cell, value in _FORMULA.findall(rest, 0, end) if b"<f" in rest else ():
                place = _COLUMN.search(cell)
                if place is not None and not (value and b't="str"' in cell):  # which is an empty text
                    found[column_index_from_string(place[1].decode()) - 1] += 1
            rest = rest[end:]
    return found


def _numbers(cells: Sequence[Any], decimal: str) -> Any:
    """Cells as numbers, or as texts in which numbers are written with the decimal mark of other texts."""
    try:
        return pa.array(cells, pa.float64())
    except (pa.ArrowException, OverflowError):
        texts = (str(int(cell)) if isinstance(cell, bool) else as_text(cell) for cell in cells)
        pairs = zip(texts, cells, strict=True)
        return pa.array([text.replace(".", decimal) if isinstance(cell, float) else text for text, cell in pairs])


def _array(cells: Sequence[Any]) -> Any:
    """Carried cells: dates as times, anything mixed as texts."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {dt.datetime, dt.date} and kinds:
        cells = [dt.datetime(*cell.timetuple()[:3]) if type(cell) is dt.date else cell for cell in cells]
        return pa.array(cells, pa.timestamp("us"))
    if len(kinds) == 1 and not (kinds == {int} and any(abs(cell or 0) >= 1 << 63 for cell in cells)):
        return pa.array(cells)
    return pa.array([None if cell is None else as_text(cell) for cell in cells], pa.string())
