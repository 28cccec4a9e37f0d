"""A table whose rows have times: their column is found, their format recognised, and a part of the rows can be chosen."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from culpa.columns.row_numbers import FEWEST, is_called_time, row_numbers
from culpa.io.reading import Options
from culpa.io.tables.columns import find, without_zeros
from culpa.io.tables.selection import Selection
from culpa.io.tables.table import Batch, Column, Source, Stage, TableError, take
from culpa.io.tables.times import (
    UNITS,
    TimeFormat,
    Zones,
    ask,
    epoch_unit,
    first_open,
    readings,
    wall_clocks,
)

_CLOCK = re.compile(r"\d{1,3}:\d\d(:\d\d(\.\d+)?)?")
_MOST_ROWS = 1_000_000  # that are looked at, to see whether a column numbers them
NONE = "none"  # says that there is no time column


class TimedTable(Stage):
    """A table, the column of its times, and the part of it that is wanted."""

    def __init__(self, inner: Source, options: Options, selection: Selection = Selection()) -> None:  # noqa: B008
        super().__init__(inner)
        self.options, self.selection = options, selection
        self.left_out_columns: dict[str, str] = {}  # that number or date the rows, and what shows it
        self.left_out = 0  # rows that the selection left out
        self._row_before: tuple[Any, Any] | None = None  # its time, and that on local clocks
        self.copies_times = False  # whether times are only labels of rows, so that it does not matter what they mean
        if selection and self.time is None:
            raise TableError(f"{self.name}: no column of times was found. Name it with --time.")

    @cached_property
    def _columns(self) -> Mapping[str, Column]:
        return self.inner.columns()  # asked for once, not once per column

    @cached_property
    def time(self) -> str | None:
        """The column of the rows' times: the one given, the one of the training table, or the only one that there is."""
        if self.inner.time is not None:
            return self.inner.time
        given, before = self.options.time, self.options.hints.get("time")
        if given is not None:
            names = list(self._columns)
            day, _, clock = given.rpartition(",")
            return None if given == NONE else day if {day, clock} <= set(names) else find(given, names, self.name)
        if before == NONE:
            return None
        try:
            columns = self._columns
        except TableError:
            if self.live:  # a pipe without lines has an answer without lines
                return None
            raise
        known = [] if before is None else [name for name in (before, before.rpartition(",")[0]) if name in columns]
        return known[0] if known else next((name for name in columns if self.holds_times(name)), None)

    @cached_property
    def clock(self) -> str | None:
        """A second column with the times of day, if the column of times holds days only."""
        names = list(self._columns) if self.time is not None else []
        told = self.options.time if self.options.time is not None else self.options.hints.get("time", "")
        day, comma, clock = told.rpartition(",")
        if comma and day == self.time and clock in names:
            return str(clock)
        if self.time is None or self.inner.time is not None or self.options.time is not None:
            return None
        after, cells = names[names.index(self.time) + 1 :][:1], self.inner.look(self.time)
        are_days = bool(cells) and not any(":" in str(cell).removesuffix(" 00:00:00") for cell in cells)
        return after[0] if after and are_days and _are_clocks(self.inner.look(after[0])) else None

    @property
    def time_columns(self) -> list[str]:
        """The columns of the times."""
        return [name for name in (self.time, self.clock) if name is not None]

    @cached_property
    def not_features(self) -> list[str]:
        """The columns of the times, also if rows are numbered instead. They are not features."""
        if self.options.time != NONE:
            return self.time_columns
        return TimedTable(self.inner, replace(self.options, time=None, hints={})).time_columns

    def holds_times(self, name: str) -> bool:
        """Whether a column holds nothing but times."""
        kind = self._columns[name].kind
        if kind == "number" and is_called_time(name):
            numbers = _numbers(self.inner.look(name))
            return numbers is not None and epoch_unit(numbers) is not None
        cells = self.inner.look(name) if kind in ("time", "text") else []
        if kind == "time":
            return not (cells and isinstance(cells[0], str)) or bool(readings(cells)) or _are_clocks(cells)
        return bool(cells) and bool(readings(cells))

    def leave_out_row_numbers(self, names: Sequence[str]) -> list[str]:
        """Those of some columns that do not number or date the rows of every file; `decisions` says the others."""
        left, found = [name for name in names if self._columns[name].kind == "number"], dict[str, str]()
        ends: dict[str, list[float]] = {name: [] for name in left}
        files = list(self.inner.files()) if self.again and self.inner.time is None else []
        short: list[Any] = []
        n = len(files)
        while files and left:
            file = files.pop(0)
            head = _cells(file, left, FEWEST)
            if len(head) < FEWEST and len(short) < n:  # too few rows to show anything, if others show it
                short.append(file)
                files = short[:] if len(short) == n else files
                continue
            left = list(row_numbers(left, head, so_far=True))
            cells = _cells(file, left, _MOST_ROWS)
            found = {name: found.get(name, why) for name, why in row_numbers(left, cells, so_far=True).items()}
            for name, column in zip(left, cells.T, strict=True):
                ends[name] += [column.min(), column.max()]
            left = [name for name in left if name in found]
        self.left_out_columns = {
            name: why for name, why in found.items() if name in left and min(ends[name]) < max(ends[name])
        }
        return [name for name in names if name not in self.left_out_columns]

    @cached_property
    def time_format(self) -> TimeFormat:
        """How the times are written."""
        if self.options.time_format is not None:
            return TimeFormat(self.options.time_format)
        cells = self.inner.look(str(self.time))
        if cells and all(isinstance(cell, str) for cell in cells) and (orders := readings(cells)):
            return TimeFormat(orders[0]) if len(orders) == 1 else self._order(orders, cells)
        before = self.options.hints.get("time_format", "")
        if "%" in before:
            return TimeFormat(before)
        numbers = _numbers(cells)
        # the reader of ISO 8601 knows durations and types, and says what is no time
        usual = before if before in UNITS else "number"  # as it was said of the training table
        return TimeFormat("iso" if numbers is None else epoch_unit(numbers) or usual)

    def _order(self, orders: Sequence[str], cells: Sequence[str]) -> TimeFormat:
        """The order of day and month: the one of the training table, or the only one that fits all rows.

        It stays open if day and month are equal in all rows.
        """
        before = self.options.hints.get("time_format")
        if before in orders:
            return TimeFormat(str(before))
        left, cell = list(orders), first_open(cells)
        for times in self._all_times() if self.inner.again else ():
            fits = [fit for fit in (readings([time]) for time in times) if fit and {*fit} <= {*orders}]
            left = [order for order in left if all(order in fit for fit in fits)]
            cell = cell or first_open(times)
            if len(left) == 1:
                return TimeFormat(left[0])
            if not left:
                raise TableError(
                    f"{self.name}: neither order of day and month fits all times in column {self.time!r}. Choose with "
                    "--time-format, or number the rows with --time none."
                )
        if cell is not None:
            raise ask(str(self.time), cell, self.name, orders)
        return TimeFormat(orders[0], settled=False)

    def _all_times(self) -> Iterator[list[str]]:
        """The different texts in the column of times, batch by batch."""
        for batch in self.inner.batches([], [str(self.time)]):
            cells = batch.carried[str(self.time)]
            texts = dict.fromkeys(cells) if isinstance(cells, list) else cells.unique().to_pylist()
            yield [text for text in texts if isinstance(text, str) and text.strip()]

    @cached_property
    def zones(self) -> Zones:
        """The UTC offsets of the times."""
        return Zones(self.name, str(self.time), [] if self.time is None else self.inner.look(self.time))

    @property
    def decisions(self) -> list[str]:
        """How the table is read, and its times where they were looked for."""
        told = list(self.inner.decisions)
        name = self.__dict__.get("time")
        if name is not None and self.options.time is None:
            typed = self._columns[name].kind == "time" and self.kind not in ("csv", "ndjson")
            what = f"column {name!r}" if self.clock is None else f"columns {name!r} and {self.clock!r}"
            plain = typed or not self._reads_times
            told.append(f"times in {what}" + ("" if plain else f", written as {self.time_format.words}"))
        if name is not None and self.inner.time is None and self._reads_times and len(self.zones.offsets) > 1:
            told.append(f"times with the UTC offsets {' and '.join(self.zones.offsets[:3])} are shown in UTC")
        for name, why in self.left_out_columns.items():
            told.append(f"column {name!r} {why}, so it is left out (name all features with --columns to keep it)")
        return told

    @property
    def _reads_times(self) -> bool:
        return bool(self.selection) or not self.copies_times

    def detected(self) -> dict[str, str]:
        """Decisions that later tables may need: how times and numbers are written."""
        found = {"time": ",".join(self.time_columns)} if self.time else {}
        if self.time and self.inner.time is None and self.time_format.settled:
            found["time_format"] = self.time_format.name
        if self.options.time == NONE:
            found["time"] = NONE
        return found | dict(self.inner.hints)

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """The rows that are wanted; ``Batch.times`` reads their times if the column of times is carried."""
        self.left_out, self._row_before = 0, None
        if not self.selection and (not carried or self.time not in carried):
            yield from self.inner.batches(features, carried)
            return
        if self._reads_times:
            _ = self.time_format, self.zones  # which look at the first cells, so before a pipe is read
        waiting = False  # whether rows were left out since the last row that was not
        for batch in self.inner.batches(features, list(dict.fromkeys((*carried, *self.time_columns)))):
            cells = batch.carried[str(self.time)]
            if self.clock is not None:
                cells = _joined(cells, batch.carried[self.clock])
            kept = {name: cells if name == self.time else batch.carried[name] for name in carried}
            batch = replace(batch, carried=kept)
            if not self.selection:
                yield replace(batch, times=partial(self._times, cells, batch.rows) if self._reads_times else None)
                continue
            found, keep = self._kept(batch, cells)
            self.left_out += int((~keep).sum())
            if keep.any():
                cut = np.diff(np.flatnonzero(keep), prepend=-1) > 1
                cut[0] |= waiting
                yield replace(batch.some(keep), times=partial(_of, found[keep]), cut=cut)
                waiting = False
            waiting |= len(keep) > 0 and not keep[-1]

    def _times(self, cells: Any, rows: Any, at: Any = None) -> Any:
        """The times of some cells, or of all."""
        if at is not None:
            cells, rows = take(cells, at), rows[at]
        first = int(rows[0]) if len(rows) else 0
        try:
            return self.zones.settle(self.time_format.read(cells, str(self.time), first), first)
        except (TypeError, ValueError) as error:
            raise TableError(f"{self.name}: {error}") from None

    def _kept(self, batch: Batch, cells: Any) -> tuple[Any, Any]:
        """The times of all rows of a batch, and which of the rows are wanted."""
        first = int(batch.rows[0]) if len(batch.rows) else 0
        try:
            times = self.time_format.read(cells, str(self.time), first)
            clocks = wall_clocks(times, cells) if batch.clocks is None else batch.clocks
            settled = self.zones.settle(times, first)
            # numbers since 1970 are in UTC, by definition
            moments = settled.tz_localize("UTC") if self.time_format.name in UNITS else settled
            before = self._row_before or (moments[:0], clocks[:0])
            self._row_before = moments[-1:], clocks[-1:]
            keep = self.selection.keep(moments, clocks)
            self.selection.refuse_repeated(before[0].append(moments), before[1].append(clocks))
            return settled, keep
        except (TypeError, ValueError) as error:
            raise TableError(f"{self.name}: {error}") from None


def _of(times: Any, at: Any = None) -> Any:
    return times if at is None else times[at]


def _cells(file: Source, names: Sequence[str], most: int) -> Any:
    """The rows of some columns, as far as they can be read, up to a batch with which there are enough."""
    parts, n = [np.empty((0, len(names)))], 0
    with suppress(TableError):  # whoever learns from the rows says what is wrong
        for batch in file.batches(names, []):
            parts.append(batch.X)
            n += len(batch.X)
            if n >= most:
                break
    return np.concatenate(parts)


def _are_clocks(cells: Sequence[Any]) -> bool:
    return bool(cells) and all(_CLOCK.fullmatch(str(cell).strip()) for cell in cells)


def _joined(days: Any, clocks: Any) -> Any:
    """Days and times of day as one text each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [pa.array(cells) if isinstance(cells, list) else cells for cells in (days, clocks)]
    day, clock = (part if pa.types.is_string(part.type) else without_zeros(part).cast(pa.string()) for part in parts)
    if not pa.types.is_string(parts[0].type):
        day = pc.utf8_slice_codeunits(day, 0, 10)  # without the midnight
    return pc.binary_join_element_wise(day, clock, " ")


def _numbers(cells: Sequence[Any]) -> Any:
    """Cells as numbers, if all of them are."""
    if not cells or any(isinstance(cell, bool) for cell in cells):
        return None
    try:
        return np.array([float(cell) for cell in cells])
    except (TypeError, ValueError):
        return None
