"""Columns that number the rows or hold their dates: an unnamed index, ids that count up, 20240229, Excel's 45351.

They rise from row to row, so every later row is outside what was learned. A column is recognised by all its cells, by its
name only together with them: counters whose steps vary, and columns that start again, are features like others.
"""

import re
from collections.abc import Sequence

import numpy as np

from culpa._core.types import Floats, Mask

FEWEST = 20  # rows that show how a column continues
_OFF_THE_LINE = 0.01  # of a step, which rounded times may be
_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__|index|level_\d+", re.IGNORECASE)
_ID = re.compile(r"(.*[\W_])?(id|idx|index|row|no|nr|seq|sequence|record|sample|#)\.?", re.IGNORECASE)
_TIME = re.compile(
    r"(.*[\W_])?(time|timestamp|date|datetime|zeit|zeitstempel|datum|epoch|ts|t)([\W_].*)?", re.IGNORECASE
)
_EXCEL = (29_221, 73_051)  # days from 1980 to 2100


def is_called_time(name: str) -> bool:
    """Whether a column of numbers may hold times, by its name.

    >>> [is_called_time(name) for name in ("time", "Zeit [s]", "time_stamp", "epoch", "temp", "estimate")]
    [True, True, True, True, False, False]
    """
    return _TIME.fullmatch(name.strip()) is not None


def row_number(name: str, cells: Floats, *, so_far: bool = False) -> str:
    """What shows that a column numbers or dates the rows, in words; nothing if it does not.

    ``so_far`` means that these are its first cells, which may all be of one day.

    >>> n = np.arange(30.0)
    >>> row_number("a", n + 7), row_number("flow", n**2), row_number("day", 20240201 + n % 28)
    ('rises by 1 with each row', '', 'holds dates such as 20240201')
    """
    if not len(cells) or not np.isfinite(cells).all():
        return ""
    whole, steps = bool((cells == np.floor(cells)).all()), np.diff(cells)
    if whole and _INDEX.fullmatch(name.strip()) and len(cells) > 1 and len(np.unique(cells)) == len(cells):
        return "is an index"
    if len(cells) < FEWEST or not (so_far or (steps != 0).any()):
        return ""
    if whole and _are_dates(cells):
        return f"holds dates such as {cells[0]:.0f}"
    if not (steps >= 0).all():
        return ""
    if is_called_time(name) and cells[0] >= _EXCEL[0] and cells[-1] <= _EXCEL[1]:
        return "holds days, as Excel counts them"
    if not (steps > 0).all():
        return ""
    line = np.linspace(cells[0], cells[-1], len(cells))
    step = float(cells[-1] - cells[0]) / len(steps)
    if (np.abs(cells - line) <= _OFF_THE_LINE * step).all():
        return f"rises by {float(f'{step:.3g}'):g} with each row"
    return "counts up" if is_called_time(name) or (whole and _ID.fullmatch(name.strip())) else ""


def row_numbers(names: Sequence[str], X: Floats, *, so_far: bool = False) -> dict[str, str]:
    """The columns that number or date the rows, and what shows it."""
    may = _may_be(X)
    found = {name: row_number(name, X[:, j], so_far=so_far) for j, name in enumerate(names) if may[j]}
    return {name: why for name, why in found.items() if why}


def _may_be(X: Floats) -> Mask:
    """Which columns rise or differ in their first rows, so that it is worth looking at the others."""
    head = X[:FEWEST]
    with np.errstate(invalid="ignore"):
        rise = (np.diff(head, axis=0) >= 0).all(axis=0)
        return np.asarray(rise | (head == np.floor(head)).all(axis=0))


def _are_dates(cells: Floats) -> bool:
    """Whether all cells read as year, month and day, maybe with the time of day, without marks in between."""
    for scale, hours in ((1, None), (10**2, 1), (10**4, 10**2), (10**6, 10**4)):
        days = np.floor(cells / scale)
        if days[0] < 19_000_101 or days[0] > 21_001_231:
            continue
        year, month, day = days // 10_000, days // 100 % 100, days % 100
        good = (year >= 1900) & (year <= 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        clock = cells % scale
        good &= hours is None or (clock // hours < 24)
        return bool(good.all())
    return False
