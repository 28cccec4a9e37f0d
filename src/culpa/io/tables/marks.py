"""Which character is the decimal mark of a CSV file, and which one groups thousands.

``1.234`` may be a bit more than one or more than a thousand. Other cells of the table may decide; if none does, the reader
asks.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from culpa.io.tables.table import TableError

_SPACES = " '\u00a0\u202f’"  # group thousands and mean nothing else


@dataclass(frozen=True)
class Marks:
    """Decimal mark and thousands separator; ``unsure`` is a cell that could be read in two ways.

    ``seen`` says that cells show the decimal mark.
    """

    decimal: str
    thousands: str | None = None
    unsure: str | None = None
    seen: bool = False


def detect(cells: Iterable[str], delimiter: str) -> Marks:
    """The marks that the cells of a sample use.

    >>> detect(["1.234,5"], ";"), detect(["1,5", "2"], ";").decimal, detect(["1.234"], ";").unsure
    (Marks(decimal=',', thousands='.', unsure=None, seen=True), ',', '1.234')
    """
    sure: set[str] = set()  # characters that are decimal marks
    groups: set[str] = set()  # that group thousands
    strong: set[str] = set()  # that do so beside a decimal mark; version numbers have groups, too
    unsure: dict[str, str] = {}  # the first cell that leaves a character open
    for cell in cells:
        if not ("." in cell or "," in cell or " " in cell or "'" in cell):
            continue  # whole numbers and words show no mark
        found = _look(cell.strip())
        if found is None:
            continue
        decimal, group, open_mark = found
        sure |= {decimal} - {""}
        groups |= {group} - {""}
        strong |= {group} - {""} if decimal else set()
        if open_mark:
            unsure.setdefault(open_mark, cell)
    sure -= strong
    return _decide(sure, (groups - sure) | strong, unsure, delimiter)


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
        return Marks(".", thousands)  # 1.234 in a file of commas or blanks: nobody groups thousands by points there
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


def ask(marks: Marks, table: str) -> TableError:
    """The question whether a mark is decimal or groups thousands."""
    cell = (marks.unsure or "").strip()
    mark = "." if "." in cell else ","
    as_decimal, as_group = cell.replace(mark, "."), cell.replace(mark, "")
    return TableError(
        f"{table}: {cell!r} may mean {as_decimal} or {as_group}, and no other cell tells. Choose with --decimal '{mark}' "
        f"or --thousands '{mark}'."
    )
