"""Which part of a table to read, by time: from, to, and periods to leave out such as stops of the plant."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from culpa._core.types import Mask
from culpa.io.tables.table import TableError
from culpa.io.tables.times import TimeFormat, first_open, readings
from culpa.monitoring.times import Times

Period = tuple[Any, Any]  # its beginning, and its end, which is not part of it


@dataclass(frozen=True)
class Selection:
    """Rows to keep: those from ``start`` on, before ``end``, and in none of the ``excluded`` periods."""

    start: Any = None
    end: Any = None
    excluded: tuple[Period, ...] = ()

    def __bool__(self) -> bool:
        return self.start is not None or self.end is not None or bool(self.excluded)

    def keep(self, times: Times, clocks: Times | None = None) -> Mask:
        """Which rows are to be kept; ``clocks`` are their times on the clocks of the table, without a zone.

        Moments without a UTC offset are asked of the clocks, so that days are local days. Others are asked of the times.
        """
        import pandas as pd

        if not isinstance(times, pd.DatetimeIndex):
            raise ValueError("rows can be chosen by time only if their times have dates.")
        clocks = times.tz_localize(None) if clocks is None else clocks

        def since(moment: Any) -> Mask:
            if moment.tz is not None and times.tz is None:
                raise ValueError(
                    f"the times have no UTC offset, so they cannot be compared with {moment}. Write --from, --to and "
                    "--exclude without an offset."
                )
            return np.asarray(clocks >= moment if moment.tz is None else times >= moment)

        result = np.ones(len(times), dtype=bool) if self.start is None else since(self.start)
        for start, end in [*([] if self.end is None else [(self.end, None)]), *self.excluded]:
            result &= ~since(start) if end is None else ~(since(start) & ~since(end))
        return result

    def refuse_repeated(self, times: Times, clocks: Times) -> None:
        """Refuse moments that the clocks of successive rows passed twice, because they were set back in between."""
        import pandas as pd

        if not isinstance(times, pd.DatetimeIndex) or times.tz is None:
            return
        moments = [self.start, self.end, *(moment for period in self.excluded for moment in period)]
        back = np.flatnonzero(np.asarray((clocks[1:] < clocks[:-1]) & (times[1:] >= times[:-1])))
        for at in back:
            for moment in moments:
                if moment is not None and moment.tz is None and clocks[at + 1] < moment <= clocks[at]:
                    raise ValueError(
                        f"{moment} comes twice, because clocks were set back. Write it with its UTC offset in --from, --to "
                        f"or --exclude, as in {times[at].isoformat()}."
                    )


def select(since: str | None, until: str | None, excluded: Sequence[str], periods: Sequence[Period] = ()) -> Selection:
    """A selection from the texts of a user; an end without a time of day includes that day."""
    start = None if since is None else moment(since, "--from")
    end = None if until is None else moment(until, "--to", end=True)
    if start is not None and end is not None and not _before(start, end):
        raise TableError(f"--from {since} is not before --to {until}.")
    return Selection(start, end, (*(period(text) for text in excluded), *periods))


def period(text: str) -> Period:
    """A period such as ``2024-02-03T08:00/2024-02-03T12:00``, or a day.

    >>> period("2024-02-03")
    (Timestamp('2024-02-03 00:00:00'), Timestamp('2024-02-04 00:00:00'))
    """
    first, slash, last = text.partition("/")
    if text.count("/") > 1:
        raise TableError(f"--exclude must be START/END with times such as 2024-02-03T08:00, got {text!r}.")
    start, end = moment(first, "--exclude"), moment(last if slash else first, "--exclude", end=True)
    if not _before(start, end):
        raise TableError(f"--exclude {text} ends before it begins.")
    return start, end


def moment(text: str, option: str, *, end: bool = False) -> Any:
    """A time that a user typed; the end of the day if it is an ``end`` without a time of day."""
    import pandas as pd

    orders = readings([text.strip()])
    if not orders or first_open([text.strip()]):
        raise TableError(f"{option} must be a time such as 2024-02-03 or 2024-02-03T08:00, got {text!r}.")
    try:
        found = TimeFormat(orders[0]).read([text.strip()], option)[0]
    except ValueError:
        raise TableError(f"{option} must be a time such as 2024-02-03T08:00, got {text!r}.") from None
    return found + pd.Timedelta(days=1) if end and not re.search(r"\d:\d", text) else found


def _before(start: Any, end: Any) -> bool:
    """Whether a moment is before another; if only one of them has a UTC offset, nobody knows without the table."""
    return bool((start.tz is None) != (end.tz is None) or start < end)
