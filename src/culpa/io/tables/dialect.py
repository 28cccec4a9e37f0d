"""How a CSV file is written: its delimiter and its decimal mark."""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Sequence

from culpa.io.tables.table import TableError

DELIMITERS = (",", ";", "\t", "|")

_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")


def decode(sample: bytes, encoding: str, table: str, *, complete: bool) -> str:
    """The beginning of a file as text, cut after its last whole line unless it is the whole file."""
    try:
        text = codecs.getincrementaldecoder(encoding)("strict").decode(sample, final=complete)
    except LookupError:
        raise TableError(f"unknown encoding {encoding!r}: try utf-8, latin-1 or cp1252.") from None
    except UnicodeError:
        raise TableError(
            f"{table}: the text is not encoded in {encoding}. Specify its encoding, for example --encoding latin-1."
        ) from None
    text = text.removeprefix("\ufeff")
    if not complete and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    return text


def detect_delimiter(text: str) -> str:
    """The delimiter that cuts the most lines into the same number of cells.

    >>> detect_delimiter("a;b\\n1,5;2,5\\n")
    ';'
    """
    lines = [line for line in text.splitlines()[:200] if line.strip()]
    best, best_rank = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        try:
            widths = Counter(len(cells) for cells in csv.reader(lines, delimiter=delimiter))
        except csv.Error:
            continue
        width, lines_of_width = widths.most_common(1)[0] if widths else (1, 0)
        header = len(next(csv.reader(lines[:1], delimiter=delimiter), []))
        if width < 2 or header != width:
            continue
        rank = (lines_of_width / len(lines), width)
        if rank > best_rank:
            best, best_rank = delimiter, rank
    return best


def detect_decimal(text: str, delimiter: str) -> str:
    """The decimal mark: a comma if some cells look like 1,5 and none like 1.5.

    >>> detect_decimal("a;b\\n1,5;2\\n", ";")
    ','
    """
    if delimiter == ",":
        return "."
    cells = [cell.strip() for cells in csv.reader(text.splitlines()[1:200], delimiter=delimiter) for cell in cells]
    return "," if _any(_COMMA, cells) and not _any(_POINT, cells) else "."


def is_number(cell: str, decimal: str) -> bool:
    """Whether a cell reads as a number.

    >>> [is_number(cell, ",") for cell in ("1,5", "-2e3", "1.5", "Bad Input")]
    [True, True, False, False]
    """
    if "_" in cell or (decimal != "." and "." in cell):  # float() accepts more than CSV files mean
        return False
    try:
        float(cell.replace(decimal, "."))
    except ValueError:
        return False
    return True


def _any(pattern: re.Pattern[str], cells: Sequence[str]) -> bool:
    return any(pattern.fullmatch(cell) for cell in cells)
