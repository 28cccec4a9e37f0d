"""Texts as numbers, and what means a missing cell: texts such as 'Bad Input', and numbers such as -9999."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from culpa._core.types import Floats
from culpa.io.tables.table import LARGEST

_PLAIN = {mark: re.compile(rb"-?\d+(?:%s\d+)?(?:[eE][+-]?\d+)?" % re.escape(mark.encode())) for mark in ".,"}
_FLAGS = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}
# what historians write in place of a reading
_STATES = re.split(
    r"\|",
    "Bad Input|I/O Timeout|No Data|Shutdown|Configure|Comm Fail|Bad|Bad Data|Bad Quality|Bad Output|Bad Total|Calc Failed|"
    "Calc Off|Pt Created|Scan Off|Scan Timeout|Scan Timed Out|Intf Shut|Not Connect|Out of Serv|Over Range|Under Range|"
    "Arc Off-line|Arc Offline|Inp OutRange|Invalid Data|No Result|No Sample|Set to Bad|Unit Down|DCS failed|Equip Fail|"
    "[-11059] No Good Data For Calculation|No Good Data For Calculation",
)
KNOWN: tuple[str, ...] = (
    *dict.fromkeys(form for state in _STATES for form in (state, state.upper(), state.lower())),
    *("#N/A", "#NV", "#VALUE!", "#REF!", "#DIV/0!", "#WERT!", "#BEZUG!"),
)


class Missing:
    """Texts that mean a missing cell. One that is a number means that number, however a table writes it.

    ``silent`` texts say no more than that a cell is empty, so they are not counted.

    >>> missing = Missing(["-9999", "-"])
    >>> missing.has("-"), missing.has(-9999.0), missing.has(9999.0)
    (True, True, False)
    """

    def __init__(self, texts: Sequence[str] = (), decimal: str = ".", silent: Sequence[str] = ()) -> None:
        self.counted = frozenset(texts)
        self.silent = tuple(text for text in silent if text not in self.counted)
        self._set = self.counted.union(silent)
        self.texts = tuple(self._set)
        numbers = {float(text.replace(decimal, ".")): text for text in texts if is_number(text, decimal)}
        rounded = {
            _float32(number): text for number, text in numbers.items()
        }  # what is left of -9999.9 in such a column
        self._by_number = {number: text for number, text in (rounded | numbers).items() if not math.isnan(number)}
        self.numbers = frozenset(self._by_number)

    def has(self, cell: Any) -> bool:
        """Whether a single cell is missing."""
        if isinstance(cell, str):
            return cell.strip() in self._set
        return isinstance(cell, (int, float)) and cell in self.numbers

    def text_of(self, number: float) -> str:
        """The text that stands for a number that means a missing cell."""
        return self._by_number[number]

    def blank(self, X: Floats) -> Counter[str]:
        """Make NaN of the numbers that mean missing cells, in place, and count them."""
        if not self.numbers:
            return Counter()
        gone = np.isin(X, list(self.numbers))
        numbers, counts = np.unique(X[gone], return_counts=True)
        X[gone] = np.nan
        found: Counter[str] = Counter()
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            found[self.text_of(number)] += count
        return found


def _float32(number: float) -> float:
    """The nearest number of 32 bits, if there is one nearby."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(np.float32(number))
    return rounded if math.isclose(rounded, number, rel_tol=1e-6) else number


@dataclass(frozen=True, eq=False)
class Spelling:
    """How a table writes numbers and missing cells."""

    missing: Missing
    decimal: str = "."
    thousands: str | None = None

    def is_number(self, cell: str) -> bool:
        """Whether a cell is a number."""
        cell = cell.strip()
        if self.thousands and self.thousands in cell:
            if not re.fullmatch(self._grouping, cell):
                return False
            cell = cell.replace(self.thousands, "")
        return is_number(cell, self.decimal)

    def is_bad(self, cell: str, *, flags: bool = False) -> bool:
        """Whether a cell is neither a number, or one of ``flags``, nor missing."""
        is_good = cell.strip().lower() in _FLAGS if flags else self.is_number(cell)
        return bool(cell.strip()) and not is_good and not self.missing.has(cell)

    @cached_property
    def _grouping(self) -> str:
        mark, decimal = re.escape(self.thousands or ""), re.escape(self.decimal)
        return rf"[+-]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{decimal}\d*)?(?:[eE][+-]?\d+)?"

    @cached_property
    def _nothing(self) -> Any:
        return pa.array([*self.missing.texts, ""], pa.string())

    def read(self, texts: Any, *, flags: bool = False) -> Floats | None:
        """An Arrow array of texts as numbers, or as ``flags``; NaN where cells are missing, ``None`` if one is neither."""
        if flags:
            return self._read_flags(texts)
        try:
            return _floats(self._plain(texts))
        except pa.ArrowInvalid:
            pass  # missing cells, or blanks beside numbers
        for cells in (texts, None):
            cells = pc.utf8_trim_whitespace(texts) if cells is None else cells
            missing = pc.is_in(cells, value_set=self._nothing)
            try:
                return _floats(self._plain(pc.if_else(missing, pa.scalar(None, pa.string()), cells)))
            except pa.ArrowInvalid:
                continue
        return None

    def _plain(self, cells: Any) -> Any:
        """Cells as numbers, if all that are there are numbers."""
        if self.thousands:
            right = pc.match_substring_regex(cells, f"^(?:{self._grouping})$")
            if pc.any(pc.and_not(pc.match_substring(cells, self.thousands), right)).as_py():
                raise pa.ArrowInvalid("not groups of three digits")
        if self.decimal != "." != self.thousands and pc.any(pc.match_substring(cells, ".")).as_py():
            raise pa.ArrowInvalid("another decimal mark")
        cells = pc.replace_substring(cells, self.thousands, "") if self.thousands else cells
        cells = cells if self.decimal == "." else pc.replace_substring(cells, self.decimal, ".")
        return cells.cast(pa.float64())

    def _read_flags(self, texts: Any) -> Floats | None:
        cells = pc.utf8_trim_whitespace(texts)
        found = pc.index_in(pc.utf8_lower(cells), value_set=pa.array(list(_FLAGS)))
        known = pc.or_(found.is_valid(), pc.is_in(cells, value_set=self._nothing))
        if not pc.all(known, min_count=0).as_py():  # there may be no cells
            return None
        return _floats(pa.array(list(_FLAGS.values())).take(found))

    def first_bad(self, texts: Any, *, flags: bool = False) -> tuple[int, str]:
        """The first cell that is neither a number nor missing, and its position."""
        return next((i, cell) for i, cell in enumerate(texts.to_pylist()) if self.is_bad(cell or "", flags=flags))

    def count_missing(self, texts: Any, numbers: Floats) -> Counter[str]:
        """What stands in the cells that are no numbers, where it says why they are missing."""
        counts = pc.value_counts(pc.utf8_trim_whitespace(texts.filter(pa.array(np.isnan(numbers))))).to_pylist()
        return Counter({item["values"]: item["counts"] for item in counts if item["values"] in self.missing.counted})


class Grouping:
    """Whether the large numbers of a column agree on how thousands are written: ``610,678`` beside ``1328.901`` do not.

    If nobody said that there is a thousands separator, it may then be a decimal mark or a slip.
    """

    def __init__(self, spelling: Spelling) -> None:
        mark, decimal = re.escape(spelling.thousands or ""), re.escape(spelling.decimal)
        self._patterns = (rf"^\s*[+-]?\d+{mark}\d", rf"^\s*[+-]?\d{{4,}}\s*(?:{decimal}|$)")
        self._first: dict[str, list[str | None]] = {}  # by column: the first number with and without the separator

    def conflict(self, name: str, texts: Any) -> tuple[str, str] | None:
        """Two cells of a column that disagree, after these texts; the column may come in pieces."""
        first = self._first.setdefault(name, [None, None])
        for kind, pattern in enumerate(self._patterns):
            if first[kind] is None:
                where = pc.index(pc.match_substring_regex(texts, pattern), True).as_py()
                first[kind] = None if where < 0 else texts[where].as_py().strip()
        grouped, plain = first
        return None if grouped is None or plain is None else (grouped, plain)


def plain_numbers(cells: Sequence[bytes], decimal: str = ".") -> Floats | None:
    """One row of numbers; ``None`` if a cell is anything else than what every parser reads as the same number."""
    if decimal not in _PLAIN or not all(map(_PLAIN[decimal].fullmatch, cells)):
        return None
    cells = cells if decimal == "." else [cell.replace(b",", b".") for cell in cells]
    numbers = np.array([[float(cell) for cell in cells]])
    return numbers if (np.abs(numbers) <= LARGEST).all() else None


def _floats(array: Any) -> Floats:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def is_number(cell: str, decimal: str) -> bool:
    """Whether a cell reads as a number.

    >>> [is_number(cell, ",") for cell in ("1,5", "-2e3", "1.5", "Bad Input")]
    [True, True, False, False]
    """
    other = "_" in cell or not cell.strip().isascii()  # float() accepts more than files mean, such as '１２'
    if other or (decimal != "." and "." in cell):
        return False
    try:
        float(cell.replace(decimal, "."))
    except ValueError:
        return False
    return True
