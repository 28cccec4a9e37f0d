"""Times, row labels and names as sentences show them."""

import sys
from collections.abc import Sequence
from typing import Any

from culpa._core.words import cut
from culpa.monitoring.times import clocks_of

LONGEST_LABEL = 40  # characters of a row's label


class Clock:
    """Says when rows were: at which time, or in which row.

    ``time_name`` is what the rows' times are called, ``None`` if they have none; ``dated`` says that the day must be
    mentioned, ``daily`` that the day is all there is to mention.
    """

    def __init__(self, time_name: str | None, *, dated: bool = False, daily: bool = False) -> None:
        self.time_name, self.dated, self.daily = time_name, dated, daily

    def span(self, first: Any, last: Any, others: Sequence[Any] = ()) -> str:
        """The beginning of a sentence: "From 10:00 to 11:30"; ``others`` are labels that the same sentence mentions."""
        if not _is_time(first):
            first, last = _shown(first), _shown(last)
            if self.time_name is None:
                return f"In row {first}" if first == last else f"In rows {first} to {last}"
            return f"At {self.time_name} {first}" if first == last else f"From {self.time_name} {first} to {last}"
        return _span_of_times([first, last, *others], dated=self.dated or self.daily, daily=self.daily)

    def until(self, label: Any, beside: Sequence[Any]) -> str:
        """The end of something: "11:30", "2024-03-05 11:30", "row 7"."""
        if not _is_time(label):
            return f"row {_shown(label)}" if self.time_name is None else f"{self.time_name} {_shown(label)}"
        days, clocks = _days_and_clocks([label, *beside], dated=self.dated or self.daily, daily=self.daily)
        return days[0] if not clocks[0] else clocks[0] if len(set(days)) == 1 else f"{days[0]} {clocks[0]}"

    def at(self, label: Any, beside: Sequence[Any], *, first: bool = False) -> str:
        """One row: "at 10:20", "in row 7". The day is left out where rows ``beside`` share it, except at the ``first``."""
        if not _is_time(label):
            return f"in row {_shown(label)}" if self.time_name is None else f"at {self.time_name} {_shown(label)}"
        days, clocks = _days_and_clocks([label, *beside], dated=self.dated or self.daily, daily=self.daily)
        if not clocks[0]:
            return f"on {days[0]}"
        same_day = not first and len(set(days)) == 1
        return f"at {clocks[0]}" if same_day or not days[0] else f"on {days[0]} at {clocks[0]}"


def _is_time(label: Any) -> bool:
    pandas = sys.modules.get("pandas")  # whoever made such a label has imported it
    return pandas is not None and isinstance(label, (pandas.Timestamp, pandas.Timedelta))


def _shown(label: Any) -> str:
    """A label; a number with the digits that it has: seconds and microseconds since 1970 have 16 of them.

    >>> _shown(45356.123456), _shown(1709634000.0), _shown(0.1 + 0.2), _shown("batch 7")
    ('45356.123456', '1709634000', '0.3', 'batch 7')
    >>> _shown(1709634000.123456), _shown(1709634000000001.0)
    ('1709634000.123456', '1709634000000001')
    """
    if not isinstance(label, float):
        return cut(str(label), LONGEST_LABEL)
    return f"{label:.{16 if 1e9 <= abs(label) < 1e16 else 15}g}"


def _span_of_times(labels: Sequence[Any], *, dated: bool, daily: bool) -> str:
    days, clocks = _days_and_clocks(labels, dated=dated, daily=daily)
    single = labels[0] == labels[1]
    if not any(clocks):
        return f"On {days[0]}" if single else f"From {days[0]} to {days[1]}"
    if len(set(days)) == 1:  # one day need be mentioned only once
        day = f"On {days[0]} " if days[0] else ""
        when = f"{day}at {clocks[0]}" if single else f"{day}from {clocks[0]} to {clocks[1]}"
    elif single:
        when = f"on {days[0]} at {clocks[0]}"
    else:
        when = f"from {days[0]} {clocks[0]} to {days[1]} {clocks[1]}"
    return when[0].upper() + when[1:]


def _days_and_clocks(labels: Sequence[Any], *, dated: bool, daily: bool) -> tuple[list[str], list[str]]:
    """Days (empty if nobody needs them) and times of day (empty if they are not), as precise as necessary."""
    import pandas as pd

    if isinstance(labels[0], pd.Timedelta):
        dated = any(label.days for label in labels)
        days = [f"day {label.days}" if dated else "" for label in labels]
        since_midnight = [label - pd.Timedelta(days=label.days) for label in labels]
    else:
        days = [f"{label:%Y-%m-%d}" if dated else "" for label in labels]
        since_midnight = [_wall_clock(label) for label in labels]
    if daily:
        return days, [""] * len(labels)
    nanoseconds = [span.value for span in (clock.as_unit("ns") for clock in since_midnight)]
    finest = next(
        (k for k, unit in enumerate((60 * 10**9, 10**9, 10**6, 10**3)) if not any(n % unit for n in nanoseconds)), 4
    )
    return days, [_clock(n, finest) + zone for n, zone in zip(nanoseconds, _zones(labels), strict=True)]


def _zones(labels: Sequence[Any]) -> list[str]:
    """What the clocks were set to, where they were set anew in between or show a time twice, as 02:30 in autumn."""
    import pandas as pd

    if isinstance(labels[0], pd.Timedelta) or labels[0].tz is None:
        return [""] * len(labels)
    told = len({label.utcoffset() for label in labels}) > 1 or clocks_of(pd.DatetimeIndex(labels)) is not None
    return [f" {label:%Z}" if told else "" for label in labels]


def _wall_clock(label: Any) -> Any:
    """Time of day as clocks show it, also on days when they change."""
    local = label.tz_localize(None)
    return local - local.normalize()


def _clock(nanoseconds: int, finest: int) -> str:
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    if finest:
        text += f":{rest // 10**9:02d}"
    return text + (f".{rest % 10**9:09d}"[: 3 * finest - 2] if finest > 1 else "")
