"""Times of rows, in any common type, as an index that can be compared and subtracted."""

import datetime as dt
import re
import sys
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from culpa._core import words
from culpa._core.continuity import RowOrder, Step, order_of, usual_step
from culpa._core.optional import require
from culpa._core.types import Mask
from culpa._core.validation import Table
from culpa._core.words import count

Times = Any  # a pandas DatetimeIndex, TimedeltaIndex, or Index of numbers
Span = Any  # a pandas Timedelta

_STEPS_TO_KNOW = 10  # from one row to the next, after which it is known how far apart rows are
_SAID = "Etc/UTC"  # the zone of times that are shown in UTC although nobody wrote them so
_OFFSET = re.compile(r"[T\s]\d\d.*?([Zz]|[+-]\d\d(?::?\d\d)?)\s*$")
_ADVICE = (
    "Write times like 2024-03-05 10:42 (ISO 8601), or convert them with pandas.to_datetime. If the column contains labels "
    "and not times, make it the index."
)


def read_times(cells: Any, name: str, first_row: int = 0, advice: str = _ADVICE) -> Times:
    """Times from an array, list, Series or Arrow array of dates, durations, times of day, ISO 8601 texts or numbers.

    ``advice`` says what to do about cells that are not times.
    """
    pd = require("pandas", "Reading times")
    if hasattr(cells, "to_pandas"):  # polars, Arrow
        cells = cells.to_pandas()
    if np.ndim(cells) != 1:
        raise ValueError(f"time must be the name of a column or one value per row, got {np.ndim(cells)} dimensions.")
    index = pd.Index(cells)
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    known = isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)) or pd.api.types.is_any_real_numeric_dtype(index)
    index = index if known else _parsed(index, name, first_row, advice)
    if index.hasnans:
        raise ValueError(
            f"{name!r} has no time in row {first_row + int(np.argmax(index.isna()))}. Drop rows without a time."
        )
    return index


def _are_dates(times: Times | None) -> bool:
    pandas = sys.modules.get("pandas")  # whoever made them has imported it
    return pandas is not None and isinstance(times, pandas.DatetimeIndex)


def over_several_days(times: Times) -> bool:
    """Whether ascending times span several days, so that their dates must be shown."""
    return _are_dates(times) and len(times) > 0 and times[0].date() != times[-1].date()


def only_days(times: Times) -> bool:
    """Whether all times are days, so that the time of day need not be shown."""
    return bool(are_days(times).all())


def are_days(times: Times) -> Mask:
    """Which times are at midnight, so that a date says all."""
    if not _are_dates(times):
        return np.zeros(len(times), dtype=bool)
    local = times.tz_localize(None)
    return np.asarray(local == local.normalize())


def check_order(times: Times, name: str, first_row: int = 0) -> None:
    """Refuse times that go backwards."""
    if times.is_monotonic_increasing:
        return
    row = int(np.argmax(np.asarray(times[1:] < times[:-1]))) + 1
    raise ValueError(
        f"{name!r} goes backwards: row {first_row + row} is at {times[row]}, the row before at {times[row - 1]}. "
        "Sort the rows by time. Times of day that pass midnight need their dates."
    )


def in_order(table: Table, times: Times | None, step: Step | None = None) -> Table:
    """A table that knows which of its rows follow each other, by their times; ``step`` is as for `order_of`."""
    missing = None if times is None or len(times) != len(table.array) else order_of(times, step)
    return table if missing is None else replace(table, order=RowOrder(missing, step=usual_step(times)))


def refuse_times(n_times: int, n_rows: int) -> NoReturn:
    """The error for times that are not those of the rows."""
    have = f"time has {count(n_times, 'value')}, but X has {count(n_rows, 'row')}"
    raise ValueError(f"{have}. Pass one time per row.")


def read_gap(gap: Any) -> int | Span:
    """A number of rows, or a time span such as ``"5min"`` or a timedelta."""
    if isinstance(gap, (int, np.integer)) and not isinstance(gap, (bool, np.timedelta64)):  # NumPy's spans are integers
        if gap < 0:
            raise ValueError(f"gap must not be negative, got {gap}.")
        return int(gap)
    pd = require("pandas", "A gap that is a time span")
    try:
        if not isinstance(gap, (str, dt.timedelta, np.timedelta64)):
            raise TypeError
        if isinstance(gap, str) and not re.search("[A-Za-z:]", gap):  # pandas would read a bare number as nanoseconds
            raise ValueError
        span = pd.Timedelta(gap)
    except (TypeError, ValueError):
        raise ValueError(f"gap must be a whole number of rows or a time span such as '5min', got {gap!r}.") from None
    if not span >= pd.Timedelta(0):
        raise ValueError(f"gap must not be negative, got {gap!r}.")
    return span


def check_gap(gap: Any, times: Times | None) -> int | Span:
    """`read_gap`, where a time span needs rows with dates or durations."""
    read = read_gap(gap)
    if isinstance(read, int):
        return read
    import pandas as pd

    if not isinstance(times, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        raise ValueError(
            f"gap={gap!r} is a time span, so the rows need times. Name the column with the times (time= in Python, --time)."
        )
    return read


class GapCheck:
    """Warns if a gap is a time span that is shorter than the time between two rows, so that it joins no rows.

    Rows come in batches, which may have one row each. The check is done once a few rows were seen.
    """

    def __init__(self, gap: int | Span) -> None:
        self._gap = None if isinstance(gap, int) else gap
        self._last: Times | None = None  # of the row before, alone
        self._steps: list[Times] = []

    def add(self, times: Times | None) -> str | None:
        """Take the times of the next rows; returns the warning, once, as soon as there is one."""
        if self._gap is None or times is None or not len(times):
            return None
        known = times if self._last is None else self._last.append(times)
        self._last = times[-1:]
        if len(known) > 1:
            self._steps.append(known[1:] - known[:-1])
        return self.finish() if sum(map(len, self._steps)) >= _STEPS_TO_KNOW else None

    def finish(self) -> str | None:
        """The warning, if there are no more rows."""
        gap, steps = self._gap, self._steps
        self._gap, self._steps = None, []
        if gap is None or not steps:
            return None
        step = (steps[0].append(steps[1:]) if len(steps) > 1 else steps[0]).to_series()
        usual = step.median()
        if not usual > gap:
            return None
        every = bool((step > gap).all())
        apart, short = in_words(usual, gap)
        return (
            f"rows are {'' if every else 'usually '}{apart} apart, so a gap of {short} ends an incident after "
            f"{'every row' if every else 'most rows'}. Use a longer gap."
        )


def in_words(*spans: Span) -> list[str]:
    """Spans of time with as few digits as tell them apart.

    >>> import pandas as pd
    >>> in_words(pd.Timedelta("10min"), pd.Timedelta("90s")), in_words(pd.Timedelta("5.0012min"), pd.Timedelta("5min"))
    (['10 min', '1.5 min'], ['5.001 min', '5 min'])
    """
    texts: list[str] = []
    for digits in (3, 4, 6, 9, 15):
        texts = [words.span(span.total_seconds(), digits) for span in spans]
        if len(set(texts)) == len(set(spans)):
            break
    return texts


def _parsed(index: Any, name: str, first_row: int, advice: str) -> Times:
    """Times from texts and Python objects."""
    import pandas as pd

    first = next((cell for cell in index if not pd.isna(cell)), None)
    if isinstance(first, dt.time):
        return pd.to_timedelta([None if pd.isna(cell) else cell.isoformat() for cell in index])
    spans = isinstance(first, str) and re.fullmatch(r"\d{1,3}:\d\d(:\d\d(\.\d+)?)?", first) is not None
    try:
        if not isinstance(first, (str, dt.date, type(None))):
            raise ValueError
        return _spans(index) if spans else _dates(index, name, first_row)
    except MixedZonesError:
        raise
    except (TypeError, ValueError):
        row = _first_bad(index, spans)
        raise ValueError(
            f"{name!r} contains {_brief(index[row])} in row {first_row + row}, which is not a time. {advice}"
        ) from None


def _first_bad(index: Any, spans: bool) -> int:
    """The position of the first cell that is not a time; of the first cell at all if each of them could be one."""
    import pandas as pd

    there = ~np.asarray(pd.isna(index))
    try:
        times = _spans(index, "coerce") if spans else pd.to_datetime(index, format="ISO8601", errors="coerce", utc=True)
        bad = there & np.asarray(times.isna())
    except (TypeError, ValueError):  # objects that are something else
        bad = there
    return int(np.argmax(bad if bad.any() else there))


def _brief(cell: Any) -> str:
    return repr(cell if len(str(cell)) <= 40 else f"{str(cell)[:37]}...")


def _spans(index: Any, errors: Any = "raise") -> Times:
    import pandas as pd

    return pd.to_timedelta([f"{cell}:00" if str(cell).count(":") == 1 else cell for cell in index], errors=errors)


def _dates(index: Any, name: str, first_row: int) -> Times:
    import pandas as pd

    try:
        return pd.DatetimeIndex(pd.to_datetime(index, format="ISO8601"))
    except ValueError as error:
        if "timezone" not in str(error).lower() and "offset" not in str(error).lower():
            raise
        times = pd.DatetimeIndex(pd.to_datetime(index, format="ISO8601", utc=True))  # offsets change with summer time
        zoned = np.array([utc_offset(cell) is not None for cell in index]) | np.asarray(times.isna())
        if not zoned.all():
            raise MixedZonesError(str(index[np.argmin(zoned)]), name, first_row, int(np.argmin(zoned))) from None
        return times


def saying_utc(times: Times, cells: Any) -> Times:
    """Times that say that they are in UTC, where they were written with UTC offsets that change."""
    if not _are_dates(times) or str(times.tz) != "UTC":
        return times
    import pandas as pd

    written = pd.Index(cells.to_pandas() if hasattr(cells, "to_pandas") else cells)
    several = not _are_dates(written) and len(set(map(utc_offset, written))) > 1
    return times.tz_convert(_SAID) if several else times


def clocks_of(times: Times) -> NDArray[Any] | None:
    """What clocks were set to where they show a time twice, as 02:30 in autumn, else ""; ``None`` if they never do.

    >>> import pandas as pd
    >>> clocks_of(pd.date_range("2024-10-27 01:00", periods=4, freq="h", tz="Europe/Berlin"))
    array(['', ' CEST', ' CET', ''], dtype=object)
    """
    if not _are_dates(times) or times.tz is None:
        return None
    local = times.tz_localize(None)
    summer, winter = (local.tz_localize(times.tz, ambiguous=np.full(len(times), dst)) for dst in (True, False))
    twice = np.asarray(summer != winter) | (str(times.tz) == _SAID)
    return np.where(twice, times.strftime(" %Z"), "") if twice.any() else None


class MixedZonesError(ValueError):
    """A time without a time zone among times that have one; ``position`` is its place."""

    def __init__(self, cell: str, name: str, first_row: int, position: int) -> None:
        self.cell, self.position = cell, position
        super().__init__(
            f"{name!r} contains {cell[:40]!r} in row {first_row + position} without a UTC offset, but other times have "
            "one. Write all times with an offset, or none."
        )


def utc_offset(cell: Any) -> str | None:
    """The UTC offset with which a time is written, if it has one.

    >>> utc_offset("2024-03-05 10:42+0200"), utc_offset("2024-03-05T10:42Z"), utc_offset("2024-03-05")
    ('+02:00', '+00:00', None)
    """
    if isinstance(cell, dt.datetime):
        return None if cell.tzinfo is None else str(cell.isoformat()[-6:])
    found = _OFFSET.search(cell) if isinstance(cell, str) else None
    if found is None:
        return None
    digits = re.sub(r"\D", "", found[1]).ljust(4, "0")
    return f"{found[1][0]}{digits[:2]}:{digits[2:]}" if int(digits) else "+00:00"
