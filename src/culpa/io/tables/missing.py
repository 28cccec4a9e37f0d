"""What means a missing cell, beside an empty one: texts such as 'Bad Input', and numbers such as -9999."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from culpa._core.types import Floats
from culpa.io.tables.dialect import is_number

# what historians write in place of a reading
_STATES = (
    "Bad Input",
    "I/O Timeout",
    "No Data",
    "Shutdown",
    "Configure",
    "Comm Fail",
    "Bad",
    "Bad Data",
    "Bad Quality",
    "Bad Output",
    "Bad Total",
    "Calc Failed",
    "Calc Off",
    "Pt Created",
    "Scan Off",
    "Scan Timeout",
    "Scan Timed Out",
    "Intf Shut",
    "Not Connect",
    "Out of Serv",
    "Over Range",
    "Under Range",
    "Arc Off-line",
    "Arc Offline",
    "Inp OutRange",
    "Invalid Data",
    "No Result",
    "No Sample",
    "Set to Bad",
    "Unit Down",
    "DCS failed",
    "Equip Fail",
    "[-11059] No Good Data For Calculation",
    "No Good Data For Calculation",
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
