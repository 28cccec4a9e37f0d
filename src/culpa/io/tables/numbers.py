"""Texts as numbers, for cells that pyarrow's CSV reader cannot convert by itself."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from culpa._core.types import Floats
from culpa.io.tables import dialect
from culpa.io.tables.missing import Missing


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
        return dialect.is_number(cell, self.decimal)

    def is_bad(self, cell: str) -> bool:
        """Whether a cell is neither a number nor missing."""
        return bool(cell.strip()) and not self.missing.has(cell.strip()) and not self.is_number(cell)

    @property
    def _grouping(self) -> str:
        mark, decimal = re.escape(self.thousands or ""), re.escape(self.decimal)
        return rf"[+-]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{decimal}\d*)?(?:[eE][+-]?\d+)?"

    def read(self, texts: Any) -> Floats | None:
        """An Arrow array of texts as numbers, NaN where cells are missing; ``None`` if a cell is no number."""
        if not self.thousands and self.decimal == ".":
            try:
                return _floats(texts.cast(pa.float64()))
            except pa.ArrowInvalid:
                pass  # blanks or missing cells
        array = pc.utf8_trim_whitespace(texts)
        missing = pc.is_in(array, value_set=pa.array([*self.missing.texts, ""], pa.string()))
        plain, wrong = array, pc.match_substring(array, "." if self.decimal != "." != self.thousands else "_")
        if self.thousands:
            right = pc.match_substring_regex(array, f"^(?:{self._grouping})$")
            wrong = pc.or_(wrong, pc.and_not(pc.match_substring(array, self.thousands), right))
            plain = pc.replace_substring(plain, self.thousands, "")
        if pc.any(pc.and_not(wrong, missing)).as_py():
            return None
        plain = plain if self.decimal == "." else pc.replace_substring(plain, self.decimal, ".")
        try:
            return _floats(pc.if_else(missing, pa.scalar(None, pa.string()), plain).cast(pa.float64()))
        except pa.ArrowInvalid:
            return None

    def first_bad(self, texts: Any) -> tuple[int, str]:
        """The first cell that is neither a number nor missing, and its position."""
        cells = texts.to_pylist()
        return next((i, cell) for i, cell in enumerate(cells) if cell is not None and self.is_bad(cell))


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


def _floats(array: Any) -> Floats:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
