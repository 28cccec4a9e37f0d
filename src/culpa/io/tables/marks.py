"""Which character is the decimal mark of a CSV file, and which one groups thousands.

``1.234`` may be a bit more than one or more than a thousand. Other cells of the table may decide; if none does, the reader
asks.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from culpa.io.reading import Options
from culpa.io.tables.table import Cells, TableError

_SPACES = " '\u00a0\u202f’"  # group thousands and mean nothing else

_ANY_MARK = re.compile(rf"[.,{_SPACES}]")
_MOST_HEADERS = 5
_SHARE_OF_NUMBERS = 0.6  # in a column of numbers; there may be names, units and words for missing cells


@dataclass(frozen=True)
class Marks:
    """Decimal mark and thousands separator; ``unsure`` is a cell that could be read in two ways.

    ``seen`` says that cells show the decimal mark, and ``bare`` that no cell has a mark that could be one. ``lone`` is the
    only cell that speaks for a thousands separator.
    """

    decimal: str
    thousands: str | None = None
    unsure: str | None = None
    seen: bool = False
    bare: bool = False
    lone: str | None = None


def cells_of_numbers(
    lines: Sequence[Sequence[str]], is_missing: Callable[[str], bool], *, or_all: bool = True
) -> list[str]:
    """The cells of columns of numbers; a number in a column of texts tells nothing about the others.

    In short tables, names and units above the numbers may be half of a column, so they are left out one by one. If no
    column of numbers has a mark, all cells count, unless ``or_all`` is false.

    >>> cells_of_numbers([["1.234", "12,5"], ["2.345", "x"]], lambda cell: False)
    ['1.234', '2.345']
    """
    for above in range(_MOST_HEADERS):
        found: list[str] = []
        for column in zip_longest(*lines[above:], fillvalue=""):
            filled = [cell for cell in column if cell.strip() and not is_missing(cell.strip())]
            if sum(map(_is_like_a_number, filled)) >= _SHARE_OF_NUMBERS * len(filled):
                found += filled
        if any(re.search(r"\D", cell.strip("+-")) for cell in found):
            return found
    return [cell for cells in lines for cell in cells if or_all and not is_missing(cell.strip())]


def _is_like_a_number(cell: str) -> bool:
    """Whether a cell is a number, whichever marks it uses."""
    return re.fullmatch(r"\s*[+-]?\d+([eE][+-]?\d+)?\s*", cell) is not None or _look(cell.strip()) is not None


def detect(cells: Iterable[str], delimiter: str) -> Marks:
    """The marks that the cells of a sample use.

    >>> detect(["1.234,5"], ";"), detect(["1,5", "2"], ";").decimal, detect(["1.234"], ";").unsure
    (Marks(decimal=',', thousands='.', unsure=None, seen=True, bare=False, lone=None), ',', '1.234')
    """
    sure: set[str] = set()  # characters that are decimal marks
    groups: dict[str, set[str]] = {}  # that group thousands, and the cells in which they do
    strong: set[str] = set()  # that do so beside a decimal mark; version numbers have groups, too
    unsure: dict[str, str] = {}  # the first cell that leaves a character open
    for cell in cells:
        if not _ANY_MARK.search(cell):
            continue  # whole numbers and words show no mark
        found = _look(cell.strip())
        if found is None:
            continue
        decimal, group, open_mark = found
        sure |= {decimal} - {""}
        if group:
            groups.setdefault(group, set()).add(cell.strip())
        strong |= {group} - {""} if decimal else set()
        if open_mark:
            unsure.setdefault(open_mark, cell)
    sure -= strong
    thousands = (groups.keys() - sure) | strong
    if not sure and len(thousands) == 1 and delimiter not in (",", " "):
        (mark,) = thousands
        if mark in unsure and len(groups[mark]) == 1:  # two cells that lost what was between them look like that, too
            return Marks(mark, None, unsure[mark], lone=next(iter(groups[mark])))
    return _decide(sure, thousands, unsure, delimiter)


def _decide(sure: set[str], groups: set[str], unsure: dict[str, str], delimiter: str) -> Marks:
    decimal = "." if "." in sure else "," if "," in sure else None
    thousands = next((mark for mark in sorted(groups) if mark != decimal), None)
    if decimal is None and thousands in (".", ","):
        decimal = "," if thousands == "." else "."
    if decimal is not None:
        left = [mark for mark in unsure if mark != decimal]
        if thousands is None and left:  # the other mark is taken, so this one groups thousands
            thousands = left[0]
        return Marks(decimal, thousands, seen=True)
    if not unsure or (set(unsure) == {"."} and delimiter in (",", " ")):
        return Marks(
            ".", thousands, bare=not unsure
        )  # 1.234 in a file of commas or blanks: nobody groups thousands by points there
    if len(unsure) == 2:
        return Marks(".", None, next(iter(unsure.values())))
    mark, cell = next(iter(unsure.items()))
    return Marks(mark, thousands, cell)


def _look(cell: str) -> tuple[str, str, str] | None:
    """Decimal mark, thousands separator and open mark of a cell; ``None`` if it is no number."""
    body = cell.lstrip("+-").strip()
    if not body or (not body[0].isdigit() and body[0] not in ".,"):
        return None
    plain = re.fullmatch(r"(\d*)([.,])(\d+)([eE][+-]?\d+)?", body)
    if plain:
        before, mark, after, power = plain.groups()
        open_ = len(after) == 3 and 1 <= len(before) <= 3 and not before.startswith("0") and not power
        return ("", "", mark) if open_ else (mark, "", "")
    grouped = re.fullmatch(rf"\d{{1,3}}(?:([.,{_SPACES}])\d{{3}}(?:\1\d{{3}})*)(?:([.,])\d*)?", body)
    if grouped is None or grouped[2] == grouped[1]:
        return None
    return grouped[2] or "", grouped[1], ""


class UnclearMarkError(TableError):
    """A cell may mean two numbers. Its question comes first, because the answer changes what else is wrong."""


def ask(marks: Marks, table: str, others: str = "no other cell") -> UnclearMarkError:
    """The question whether a mark is decimal or groups thousands. ``others`` are the cells that do not answer it."""
    cell = (marks.unsure or "").strip()
    mark = "." if "." in cell else ","
    as_decimal, as_group = cell.replace(mark, "."), cell.replace(mark, "")
    tells = f"{others} tells" if marks.lone is None else f"only {marks.lone!r} tells, which may be a mistake"
    return UnclearMarkError(
        f"{table}: {cell!r} may mean {as_decimal} or {as_group}, and {tells}. Choose with --decimal '{mark}' "
        f"or --thousands '{mark}'."
    )


class LateMarks:
    """Marks in the rows after a sample in which no number had one: the first is asked about if it is unclear.

    ``is_open`` is true until a number shows the decimal mark with which the table is read.
    """

    def __init__(self, table: str, delimiter: str, decimal: str, *, is_open: bool) -> None:
        self.table, self.delimiter, self.decimal = table, delimiter, decimal
        self.is_open = is_open and delimiter not in (",", " ")  # no points group thousands in such files

    def check(self, columns: Mapping[str, Sequence[str]], row_of: Callable[[str, str], int]) -> None:
        """Cells of some rows, by column; ``row_of`` finds the row of a cell in a column."""
        found = detect((cell for cells in columns.values() for cell in cells), self.delimiter)
        if found.unsure is not None:
            name = next(name for name, cells in columns.items() if found.unsure in cells)
            place = f"column {name!r}, row {row_of(name, found.unsure)}"
            raise ask(found, f"{self.table}: {place}", "no cell before it")
        self.is_open = not (found.seen and found.decimal == self.decimal)


def ask_about_groups(cells: tuple[str, str], mark: str, column: str) -> TableError:
    """The question whether a mark groups thousands, if it stands in one large number of a column and not in another."""
    grouped, plain = cells
    return TableError(
        f"{column} contains {grouped!r} and {plain!r}, so it is not clear whether {mark!r} groups thousands. If it does, "
        f"choose it with --thousands '{mark}'. Otherwise, correct {grouped!r}."
    )


@dataclass(frozen=True)
class Chosen:
    """The marks with which a table is read, what cells have shown of them, and what is to be said."""

    decimal: str
    thousands: str | None
    late: LateMarks
    hints: Mapping[str, str]
    decisions: Sequence[str]


def choose(table: str, cells: Cells, given: Options, is_missing: Callable[[str], bool]) -> Chosen:
    """Decimal mark and thousands separator: those given, those that the first cells show, or those of an earlier table."""
    decimal, thousands, delimiter = given.decimal, given.thousands, cells.delimiter
    lines, hints, decisions, is_open = _texts(cells.head()[1:]), {}, [], False
    if decimal is None and thousands in (".", ","):
        decimal = "," if thousands == "." and delimiter != "," else "."
    if decimal is None:
        before = given.hints.get("decimal")
        found = detect(cells_of_numbers(lines, is_missing, or_all=not cells.typed), delimiter)
        if found.bare and not before and (more := cells.head(whole=True)):  # the mark may be further down
            found = detect(cells_of_numbers(_texts(more[1:]), is_missing, or_all=not cells.typed), delimiter)
        if found.unsure is not None and not before:
            raise ask(found, table)
        # whole numbers show no mark, so later rows are read as those of the training table
        recalled = found.unsure is not None or (found.bare and before not in (None, ".", delimiter))
        decimal = str(before) if recalled else found.decimal
        group = given.hints.get("thousands", found.thousands if found.bare else None) if recalled else found.thousands
        hints = {"decimal": decimal} | ({"thousands": group} if group else {}) if found.seen else {}
        where = " in texts" if cells.typed else ""
        shown = not (cells.typed and found.bare) or bool(group)
        decisions += [f"decimal mark {decimal!r}{where}"] if decimal != "." and shown else []
        if thousands is None and group != decimal and (thousands := group) and shown:
            decisions.append(f"thousands separator {thousands!r}{where}")
        is_open = found.bare and not before
    both = f"{table}: {decimal!r} cannot be both the {{}}"
    inside = detect((cell for line in lines for cell in line), "") if decimal == delimiter else None
    if inside is not None and inside.decimal != decimal and inside.unsure is None:  # not even in quoted cells
        raise TableError(both.format("delimiter and the decimal mark. Set --delimiter or --decimal."))
    if thousands == decimal:
        raise TableError(both.format("decimal mark and the thousands separator."))
    return Chosen(decimal, thousands, LateMarks(table, delimiter, decimal, is_open=is_open), hints, decisions)


def _texts(lines: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Cells as texts; numbers that are none show no mark."""
    return [[cell if isinstance(cell, str) else _stand_in(cell) for cell in line] for line in lines]


def _stand_in(cell: Any) -> str:
    return "0" if isinstance(cell, (int, float)) else "" if cell is None else "time"
