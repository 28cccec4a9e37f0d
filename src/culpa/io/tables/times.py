"""How a column writes its times: recognised over its cells, or told with ``--time-format``.

The order of day and month is asked about where both readings fit all cells. If day and month are equal in all cells, the
order is open: these cells need no question, but nothing is concluded about other cells.
"""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from culpa._core.warning import warn
from culpa.io.tables.table import TableError
from culpa.monitoring.times import MixedZonesError, Times, read_times, utc_offset

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # of numbers since 1970, in nanoseconds
_FARTHEST = 9.2e18  # nanoseconds from 1970; times of 64 bits do not reach much further
_EPOCH = (3.15e8, 4.1e9)  # 1980 to 2100 in seconds; the ranges of the four units do not overlap
_ADVICE = (
    "Write times like 2024-03-05 10:42 (ISO 8601), name their format with --time-format, or number the rows with "
    "--time none."
)
_WORDS = {
    "iso": "year-month-day",
    "ymd": "year, month, day",
    "dmy": "day, month, year",
    "mdy": "month, day, year",
    "s": "seconds since 1970",
    "ms": "milliseconds since 1970",
    "us": "microseconds since 1970",
    "ns": "nanoseconds since 1970",
    "number": "numbers",
}
_MONTHS = {
    name: month
    for month, names in enumerate(
        ["jan", "feb", "mar mrz mär", "apr", "may mai", "jun", "jul", "aug", "sep sept", "oct okt", "nov", "dec dez"],
        start=1,
    )
    for name in names.split()
}
_CLOCK = r"(?P<h>\d{1,2}):(?P<min>\d\d)(?::(?P<s>\d\d(?:[.,]\d{1,9})?))?(?:\s*(?P<half>[AaPp]\.?[Mm]\.?))?"
_TEXT = re.compile(
    rf"""\s*(?:
        (?P<year>\d{{4}})(?P<mark1>[-/.])(?P<month>\d{{1,2}})(?P=mark1)(?P<day>\d{{1,2}})
      | (?P<a>\d{{1,2}})(?P<mark>[-/.\ ])(?P<b>\d{{1,2}}|[A-Za-zä]{{3,4}}\.?)(?P=mark)(?P<y>\d{{4}}|\d\d)
    )(?:(?:\s*T\s*|,?\s+){_CLOCK}\s*(?P<zone>Z|[+-]\d\d:?\d\d)?)?\s*""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class TimeFormat:
    """How times are written: "iso", "dmy", "mdy", a unit of numbers since 1970 such as "ms", or a strptime pattern.

    ``settled`` is false if the cells that were seen do not show the order of day and month.

    >>> TimeFormat("dmy").read(["29.02.2024 23:00", "01.03.2024"], "Zeit")[1]
    Timestamp('2024-03-01 00:00:00')
    """

    name: str
    settled: bool = True

    def __post_init__(self) -> None:
        if self.name not in _WORDS and "%" not in self.name:
            raise TableError(
                f"--time-format must be a pattern such as '%d.%m.%Y %H:%M', or one of {', '.join(_WORDS)}, "
                f"got {self.name!r}."
            )

    @property
    def words(self) -> str:
        """The format in words."""
        if not self.settled:
            return "days and months, in an order that these rows leave open"
        return _WORDS.get(self.name, self.name)

    def read(self, cells: Any, column: str, first_row: int = 0) -> Times:
        """Times of cells: Arrow arrays, lists, texts or numbers. Times with types of their own stay what they are."""
        import pandas as pd

        index = _plain(cells)
        if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)) or (self.name == "iso"):
            return read_times(index, column, first_row, _ADVICE)
        codes, texts = pd.factorize(index, use_na_sentinel=False)
        format = self if self.settled else _order_of(texts, column)
        try:
            return format._read_unique(pd.Index(texts))[codes]
        except MixedZonesError as error:
            row = int(np.argmax(codes == error.position))
            raise MixedZonesError(str(texts[error.position]), column, first_row, row) from None
        except _BadTime as error:
            cell, row = _as_text(texts[error.position])[:40], first_row + int(np.argmax(codes == error.position))
            if error.number is None:
                raise ValueError(
                    f"{column!r} contains {cell!r} in row {row}, which is not a time written as {self.words}. Name the "
                    "format with --time-format, or drop rows without a time."
                ) from None
            unit = epoch_unit(np.array([error.number]))
            advice = "Correct the cell, or name another format with --time-format."
            advice = f"If times are {_WORDS[unit]}, use --time-format {unit}." if unit else advice
            raise ValueError(
                f"{column!r} contains {cell!r} in row {row}, which is not between the years 1678 and 2261 if times are "
                f"{self.words}. {advice}"
            ) from None

    def _read_unique(self, cells: Any) -> Times:
        import pandas as pd

        if self.name in UNITS or self.name == "number":
            numbers = pd.to_numeric(cells, errors="coerce")
            _refuse_gaps(np.asarray(np.isfinite(numbers.to_numpy(dtype=np.float64, na_value=np.nan))))
            return _from_epoch(numbers, UNITS[self.name]) if self.name in UNITS else numbers
        texts = pd.Index([cell if isinstance(cell, str) else _as_text(cell) for cell in cells], dtype=object)
        if "%" in self.name:
            found = pd.to_datetime(texts, format=self.name, errors="coerce")
            _refuse_gaps(~np.asarray(found.isna()))
            return pd.DatetimeIndex(found)
        isos = [_to_iso(text, self.name) for text in texts]
        _refuse_gaps(np.array([iso is not None for iso in isos], dtype=bool))
        return read_times(pd.Index(isos), "time")


class Zones:
    """The time zones of a table's times, batch by batch: all times have one or none has, and several become UTC."""

    def __init__(self, table: str, column: str, cells: Sequence[Any]) -> None:
        self.table, self.column = table, column
        found = {utc_offset(cell) for cell in cells if isinstance(cell, str)} - {None}
        self.offsets = sorted(offset for offset in found if offset)  # that the first cells show
        self._several, self._told = len(self.offsets) > 1, len(self.offsets) > 1
        self._start()

    def _start(self) -> None:
        self._known = len(self.offsets) == 1
        self._zone = dt.datetime.fromisoformat(f"2000-01-01T00:00{self.offsets[0]}").tzinfo if self._known else None

    def settle(self, times: Times, first_row: int) -> Times:
        """The times of the next rows, in UTC after the offset changed, which is told once."""
        import pandas as pd

        if not isinstance(times, pd.DatetimeIndex) or not len(times):
            return times
        if first_row == 0:  # it is read once more
            self._start()
        if self._known and (self._zone is None) != (times.tz is None):
            has, had = ("no UTC offset", "have one") if times.tz is None else ("a UTC offset", "have none")
            raise ValueError(
                f"{self.column!r} contains {str(times[0])!r} in row {first_row} with {has}, but the times before {had}. "
                "Write all times with an offset, or none."
            )
        self._several |= self._known and self._zone != times.tz
        self._known, self._zone = True, times.tz
        if not self._several or times.tz is None:
            return times
        if not self._told:
            self._told = True
            warn(
                f"{self.table}: the UTC offset of the times in column {self.column!r} changes. They are shown in UTC from "
                f"row {first_row} on.",
            )
        return times.tz_convert("UTC")


def wall_clocks(times: Times, cells: Any) -> Times:
    """Times as the clocks beside the table showed them: without a zone, each with the UTC offset that its cell has."""
    import pandas as pd

    if not isinstance(times, pd.DatetimeIndex) or times.tz is None:
        return times
    texts = _plain(cells)
    if isinstance(texts, pd.DatetimeIndex):
        return texts.tz_localize(None)
    if str(times.tz) != "UTC":
        return times.tz_localize(None)
    offsets = [utc_offset(cell) or "+00:00" for cell in texts]  # several, or the times would have one zone
    codes, known = pd.factorize(pd.Index(offsets))
    spans = pd.to_timedelta([f"{offset[0]}{offset[1:]}:00".removeprefix("+") for offset in known])
    return times.tz_localize(None) + spans[codes]


class _BadTime(Exception):
    """The cell at a position is no time; a ``number`` is too far from today."""

    def __init__(self, position: int, number: float | None = None) -> None:
        self.position, self.number = position, number


def _refuse_gaps(good: Any) -> None:
    if not good.all():
        raise _BadTime(int(np.argmin(good)))


def _plain(cells: Any) -> Any:
    import pandas as pd

    if hasattr(cells, "to_pandas"):
        cells = cells.to_pandas()
    return pd.Index(cells)


def _as_text(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _from_epoch(numbers: Any, unit: int) -> Times:
    import pandas as pd

    values = np.asarray(numbers, dtype=np.float64)
    far = np.abs(values) * unit > _FARTHEST
    if far.any():
        raise _BadTime(int(np.argmax(far)), float(values[np.argmax(far)]))
    if np.issubdtype(numbers.dtype, np.integer):
        return pd.DatetimeIndex(np.asarray(numbers, dtype=np.int64) * unit, dtype="datetime64[ns]")
    whole = np.floor(values)
    rest = np.round((values - whole) * 1e6) * (unit / 1e6)  # a double keeps microseconds of the present
    return pd.DatetimeIndex((whole.astype(np.int64) * unit) + rest.astype(np.int64), dtype="datetime64[ns]")


def _to_iso(text: str, order: str) -> str | None:
    """A text as ISO 8601, or ``None`` if it is not a time in this order of day and month."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    if found["year"]:
        year, month, day = int(found["year"]), int(found["month"]), int(found["day"])
    else:
        middle = found["b"]
        named = not middle.isdigit()
        month_of = _MONTHS.get(middle.rstrip(".").lower(), 0) if named else int(middle)
        day, month = (int(found["a"]), month_of) if named or order != "mdy" else (month_of, int(found["a"]))
        short = len(found["y"]) == 2
        year = int(found["y"]) + (0 if not short else 2000 if int(found["y"]) < 69 else 1900)
    try:
        date = dt.date(year, month, day).isoformat()
    except ValueError:
        return None
    clock = _clock(found)
    return None if clock is None else f"{date}{clock}{found['zone'] or ''}"


def _clock(found: "re.Match[str]") -> str | None:
    if found["h"] is None:
        return ""
    hour, half = int(found["h"]), (found["half"] or "").replace(".", "").lower()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half == "pm")
    second = (found["s"] or "00").replace(",", ".")
    if hour > 23 or int(found["min"]) > 59 or float(second) >= 60:
        return None
    return f"T{hour:02d}:{found['min']}:{second}"


def _order_of(texts: Iterable[Any], column: str) -> TimeFormat:
    """The format of cells whose order of day and month is open; asked about if it matters."""
    orders = readings(texts)
    cell = first_open(texts) if len(orders) > 1 else None
    if cell is not None:
        raise ValueError(_question(column, cell, orders))
    return TimeFormat(orders[0] if orders else "dmy")


def readings(cells: Iterable[Any]) -> list[str]:
    """All formats in which every cell is a time: one if it is certain, two if it is open, none if they are not times.

    >>> readings(["29.02.2024 23:00"]), readings(["02/03/2024"]), readings(["02/03/2024", "02/29/2024"]), readings(["x"])
    (['dmy'], ['dmy', 'mdy'], ['mdy'], [])
    """
    cells = list(cells)
    if not all(isinstance(cell, str) for cell in cells):
        return []
    cells = list(dict.fromkeys(cells))
    left = list(_WORDS)
    for cell in cells:
        found = _TEXT.fullmatch(cell)
        if found is None:
            return []
        left = [order for order in left if order in _orders(found) and _to_iso(cell, order) is not None]
    return [] if not cells else ["iso"] if "iso" in left else left


def first_open(cells: Iterable[Any]) -> str | None:
    """The first cell that is another time if day and month change places.

    >>> first_open(["01/01/2024", "29/02/2024", "02/03/2024"])
    '02/03/2024'
    """
    for cell in dict.fromkeys(cells):
        orders = readings([cell])
        if len({_to_iso(cell, order) for order in orders}) > 1:
            return str(cell)
    return None


def _orders(found: "re.Match[str]") -> tuple[str, ...]:
    """The orders of year, month and day that the shape of a text allows."""
    if found["year"]:
        plain = found["mark1"] == "-" and len(found["month"]) == len(found["day"]) == 2
        return ("iso", "ymd") if plain else ("ymd",)
    return ("dmy", "mdy") if found["b"].isdigit() and found["mark"] in "/-" else ("dmy",)


def epoch_unit(numbers: Any) -> str | None:
    """The unit in which all numbers are times between 1980 and 2100, if there is one.

    >>> epoch_unit(np.array([1.7e9])), epoch_unit(np.array([1.7e12])), epoch_unit(np.array([20.5]))
    ('s', 'ms', None)
    """
    values = np.asarray(numbers, dtype=np.float64)
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    for unit, nanoseconds in UNITS.items():
        low, high = (bound * 1e9 / nanoseconds for bound in _EPOCH)
        if ((values >= low) & (values <= high)).all():
            return unit
    return None


def is_time(cell: str) -> bool:
    """Whether a cell reads as a time.

    >>> is_time("2024-02-29 23:00"), is_time("23:00:10"), is_time("north")
    (True, True, False)
    """
    return bool(readings([cell])) or re.fullmatch(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?", cell.strip()) is not None


def ask(column: str, cell: str, table: str, orders: Sequence[str]) -> TableError:
    """The question which of two readings is meant."""
    return TableError(f"{table}: {_question(column, cell, orders)}")


def _question(column: str, cell: str, orders: Sequence[str]) -> str:
    both = [(order, str(_to_iso(cell, order)).replace("T", " ")) for order in orders]
    shown = " or ".join(f"{iso} ({_WORDS[order]})" for order, iso in both)
    return (
        f"{cell!r} in column {column!r} may mean {shown}. "
        f"Choose with {' or '.join(f'--time-format {order}' for order in orders)}."
    )
