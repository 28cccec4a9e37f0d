"""Long tables of historians, one reading per line (tag, time, value, quality), as wide tables with a column per tag.

Readings are averaged over intervals of equal length. Lines in the order of time pass through in a stream; a file that lists
tag after tag is averaged first, which needs memory for the result but not for the file.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.io.tables.columns import find, find_for_model, take_as_missing, to_floats
from culpa.io.tables.columns import kind as kind_of
from culpa.io.tables.csv_table import CsvTable
from culpa.io.tables.missing import KNOWN, Missing
from culpa.io.tables.numbers import Spelling
from culpa.io.tables.qualities import Judge
from culpa.io.tables.reading import Options
from culpa.io.tables.table import LARGEST, Batch, Column, Source, TableError
from culpa.io.tables.timed import TimedTable
from culpa.monitoring.times import read_gap

_OPEN = 16  # intervals behind the latest one that can still get readings
_ROWS = 1 << 15  # rows handed out at a time


@dataclass(frozen=True)
class Roles:
    """Which columns hold the tag, the time, the value and, if there is one, the quality."""

    tag: str
    time: str
    value: str
    quality: str | None = None

    @classmethod
    def of(cls, names: Sequence[str], known: Sequence[str], table: str) -> "Roles":
        """Roles from the names that a user gave, in this order."""
        if len(names) not in (3, 4):
            raise TableError(
                f"--long needs the columns of tag, time, value and (optional) quality, got {len(names)} names."
            )
        for name in names:
            find(name, known, table)
        return cls(*names)


class LongTable:
    """A long table as a wide one."""

    live = False
    units: Mapping[str, str] = MappingProxyType({})

    def __init__(self, inner: Source, options: Options) -> None:
        self.inner, self.name, self.kind, self.again = inner, inner.name, inner.kind, inner.again
        self.roles = Roles.of(options.long, list(inner.columns()), inner.name)
        self.every = _nanoseconds(options.every, "--every")
        self.hold = _nanoseconds(options.hold, "--hold")
        clock = Options(time=self.roles.time, time_format=options.time_format, hints=options.hints)
        self.timed = TimedTable(inner, clock)
        self.good = frozenset(options.good)
        self.spelling = Spelling(Missing((*KNOWN, *options.missing)))
        self.missing_found: Counter[str] = Counter()
        self._zone: Any = None
        for file in inner.files():
            if isinstance(file, CsvTable):
                file.coded = frozenset({self.roles.tag, self.roles.time, self.roles.quality or ""})
                file.numbers = frozenset({self.roles.value})
                self.spelling = file.spelling

    @property
    def time(self) -> str:
        """The column of times."""
        return self.roles.time

    @property
    def hints(self) -> Mapping[str, str]:
        """How the file writes times and numbers."""
        format = self.timed.time_format
        return {**self.inner.hints, **({"time_format": format.name} if format.settled else {})}

    @property
    def decisions(self) -> list[str]:
        """Those about the file, and how its lines become rows."""
        per = "one row per time" if self.every is None else f"the mean of each {_span(self.every)}"
        order = "" if self._ordered else ", in memory, because lines are not in the order of time"
        return [*self.inner.decisions, f"long table, {per}{order}"]

    @cached_property
    def _tags(self) -> list[str]:
        """All tags that have a number, in the order of the file."""
        if not self.inner.again:
            return sorted({str(cell) for cell in self.inner.look(self.roles.tag)})
        tags: dict[str, bool] = {}
        for batch in self.inner.batches([], [self.roles.tag, self.roles.value]):
            codes, names = _coded(batch.carried[self.roles.tag])
            numeric = self._has_numbers(batch.carried[self.roles.value], codes, len(names))
            for name, found in zip(names, numeric, strict=True):
                tags[name] = tags.get(name, False) or found
        self._texts_only = [name for name, numeric in tags.items() if not numeric]
        return [name for name, numeric in tags.items() if numeric and name]

    def columns(self) -> Mapping[str, Column]:
        """The time, and a column per tag. A file is read once to find all tags."""
        return {self.roles.time: Column("time")} | {name: Column("number") for name in self._tags}

    def files(self) -> Sequence[Source]:
        """Of the long table."""
        return self.inner.files()

    def look(self, name: str) -> list[Any]:
        """The first times; tags are numbers."""
        if name != self.roles.time:
            return []
        import pandas as pd

        return [pd.Timestamp(0)]  # times have a type of their own here

    def share(self) -> float | None:
        """Of the file."""
        return self.inner.share()

    @property
    def skipped(self) -> int:
        """Of the file."""
        return self.inner.skipped

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """One row per interval in which a tag has a good reading."""
        for name in carried:
            find(name, [self.roles.time], self.name)
        self.missing_found.clear()
        grid, done = _Grid(len(features), self.hold, self.every), 0
        seen: set[str] = set()
        for keys, tags, values in self._readings(features, seen):
            grid.add(keys, tags, values, self.name)
            if self._ordered:
                for out_keys, X in grid.finished(_OPEN):
                    yield self._batch(out_keys, X, done, carried)
                    done += len(X)
        find_for_model(features, (), sorted(seen), self.name)
        for out_keys, X in grid.finished(0):
            yield self._batch(out_keys, X, done, carried)
            done += len(X)

    def _batch(self, keys: NDArray[np.int64], X: Floats, done: int, carried: Sequence[str]) -> Batch:
        import pandas as pd

        unit = "s" if self.every is not None and self.every % 10**9 == 0 else "us"  # as fine as it needs to be
        times = pd.DatetimeIndex(keys * (self.every or 1), dtype="datetime64[ns]").as_unit(unit)
        times = times if self._zone is None else times.tz_localize("UTC").tz_convert(self._zone)
        cells = {name: pa.array(times) for name in carried}
        return Batch(np.arange(done, done + len(X)), X, cells)

    def _readings(
        self, features: Sequence[str], seen: set[str]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Floats]]:
        """Interval, position of the tag and value of all good readings of some tags, in portions."""
        where = {name: position for position, name in enumerate(features)}
        self._zones = self.timed.zones  # which looks at the first cells, so before a pipe is read
        wanted = [name for name in (self.roles.tag, self.roles.time, self.roles.value, self.roles.quality) if name]
        for batch in self.inner.batches([], wanted):
            if not len(batch.rows):
                continue
            codes, names = _coded(batch.carried[self.roles.tag])
            seen.update(names)
            tags = np.array([where.get(name, -1) for name in names] or [-1])[codes]
            values = self._values(batch, tags, features)
            keep = (tags >= 0) & ~np.isnan(values)
            if self.roles.quality is not None:
                keep &= self._is_good(batch.carried[self.roles.quality], keep)
            keys = self._keys(batch)
            yield (keys, tags, values) if keep.all() else (keys[keep], tags[keep], values[keep])

    def _values(self, batch: Batch, tags: NDArray[np.int64], features: Sequence[str]) -> Floats:
        """The values; NaN where they are missing, and for tags that nobody asked for."""
        cells = batch.carried[self.roles.value]
        cells = pa.array(cells) if isinstance(cells, list) else cells
        if kind_of(cells.type) == "number":
            return self._checked(to_floats(cells, self.roles.value, self.name), batch, tags, features)
        found = self.spelling.read(cells)
        if found is None:  # texts: of tags that nobody asked for, one hopes
            mine = np.flatnonzero(tags >= 0)
            part = cells.take(pa.array(mine))
            numbers = self.spelling.read(part)
            if numbers is None:
                at, cell = self.spelling.first_bad(part)
                row = int(batch.rows[mine[at]])
                raise TableError(
                    f"{self.name}: tag {features[tags[mine[at]]]!r} contains {cell[:40]!r} in row {row}, which is not a "
                    f"number. {take_as_missing(cell)} Otherwise leave out the tag (--drop)."
                )
            found = np.full(len(cells), np.nan)
            found[mine] = numbers
        if np.isnan(found).any():
            self._count(cells, (tags >= 0) & np.isnan(found))
        return self._checked(found, batch, tags, features)

    def _checked(self, values: Floats, batch: Batch, tags: NDArray[np.int64], features: Sequence[str]) -> Floats:
        missing = self.spelling.missing
        if missing.numbers:
            values = np.where(tags >= 0, values, np.nan)  # only wanted tags are counted
            self.missing_found.update(missing.blank(values))
        large = (np.abs(values) > LARGEST) & (tags >= 0)
        if large.any():
            at = int(np.argmax(large))
            raise TableError(
                f"{self.name}: tag {features[tags[at]]!r} contains {values[at]:g} in row {batch.rows[at]}, which is too "
                f"large. {take_as_missing(f'{values[at]:g}')}"
            )
        return values

    def _has_numbers(self, cells: Any, codes: NDArray[Any], n: int) -> list[bool]:
        """Which tags have at least one number among their cells."""
        cells = pa.array(cells) if isinstance(cells, list) else cells
        numbers = to_floats(cells, "", self.name) if kind_of(cells.type) == "number" else self.spelling.read(cells)
        if numbers is None:
            plain = cells.to_pylist()
            numbers = np.array([0.0 if cell and self.spelling.is_number(str(cell)) else np.nan for cell in plain])
        return [bool(found) for found in np.bincount(codes[~np.isnan(numbers)], minlength=n) > 0][:n]

    def _count(self, cells: Any, which: Any) -> None:
        import pyarrow.compute as pc

        for item in pc.value_counts(cells.filter(pa.array(which))).to_pylist():
            if item["values"]:
                self.missing_found[item["values"]] += item["counts"]

    def _is_good(self, cells: Any, counted: Any) -> Any:
        """Which readings have a good quality; others are counted."""
        codes, texts = _coded(cells)
        good = np.array([self._judge.is_good(text) for text in texts] or [True])
        result = good[codes]
        for position, n in enumerate(np.bincount(codes[counted & ~result], minlength=len(texts))):
            if n:
                self.missing_found[f"quality {texts[position]}"] += int(n)
        return result

    @cached_property
    def _judge(self) -> Judge:
        assert self.roles.quality is not None
        return Judge.of(
            [str(cell) for cell in self.inner.look(self.roles.quality)], self.good, self.roles.quality, self.name
        )

    def _keys(self, batch: Batch) -> NDArray[np.int64]:
        """The interval of each line, counted from 1970."""
        import pandas as pd

        codes, texts = _coded(batch.carried[self.roles.time], keep=True)
        first = int(batch.rows[0])
        try:
            times = self._zones.settle(self.timed.time_format.read(texts, self.roles.time, first), first)
        except (TypeError, ValueError) as error:
            raise TableError(f"{self.name}: {error}") from None
        if not isinstance(times, pd.DatetimeIndex):
            raise TableError(f"{self.name}: {self.roles.time!r} must contain times with dates.")
        self._zone = times.tz
        unique = times.as_unit("ns").asi8 // (self.every or 1)
        return np.asarray(unique[codes], dtype=np.int64)

    @cached_property
    def _ordered(self) -> bool:
        """Whether lines are in the order of time, as far as the first ones show."""
        tags, times = self.inner.look(self.roles.tag), self.inner.look(self.roles.time)
        if not times:
            return True
        try:
            found = self.timed.time_format.read(times, self.roles.time).as_unit("ns").asi8
        except (TypeError, ValueError, AttributeError):
            return True  # whoever reads the lines says what is wrong
        late = np.maximum.accumulate(found) - found
        return len(set(tags)) > 1 and bool((late <= _OPEN // 2 * (self.every or 0)).all())


class _Grid:
    """Sums and counts of readings by interval and tag, for the intervals that are not finished."""

    def __init__(self, n_tags: int, hold: int | None, every: int | None) -> None:
        self.n, self.keys = n_tags, np.empty(0, dtype=np.int64)
        self.sums, self.counts = np.empty((0, n_tags)), np.empty((0, n_tags))
        self.last: int | None = None  # the latest interval that was handed out
        self.hold = None if hold is None else hold // (every or 1)
        self.held, self.held_since = np.full(n_tags, np.nan), np.zeros(n_tags, dtype=np.int64)

    def add(self, keys: NDArray[np.int64], tags: NDArray[np.int64], values: Floats, table: str) -> None:
        """Add readings."""
        if not len(keys):
            return
        unique, rows = _unique(keys)
        if self.last is not None and unique[0] <= self.last:
            raise TableError(
                f"{table}: the lines go far back in time after the beginning of the file. Sort them by time."
            )
        flat, size = rows * self.n + tags, len(unique) * self.n
        sums = np.bincount(flat, weights=values, minlength=size).reshape(-1, self.n)
        counts = np.bincount(flat, minlength=size).reshape(-1, self.n).astype(np.float64)
        if not len(self.keys) or unique[0] > self.keys[-1]:
            self.keys = np.concatenate([self.keys, unique])
            self.sums, self.counts = np.concatenate([self.sums, sums]), np.concatenate([self.counts, counts])
            return
        merged = np.union1d(self.keys, unique)
        old, new = np.searchsorted(merged, self.keys), np.searchsorted(merged, unique)
        for name, more in (("sums", sums), ("counts", counts)):
            whole = np.zeros((len(merged), self.n))
            whole[old] = getattr(self, name)
            whole[new] += more
            setattr(self, name, whole)
        self.keys = merged

    def finished(self, left: int) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Hand out all intervals but the last ``left``."""
        n = len(self.keys) - left
        for start in range(0, max(n, 0), _ROWS):
            part = slice(start, min(start + _ROWS, n))
            with np.errstate(invalid="ignore"):
                X = self.sums[part] / self.counts[part]
            yield self.keys[part], X if self.hold is None else self._held(self.keys[part], X)
        if n > 0:
            self.last = int(self.keys[n - 1])
            self.keys, self.sums, self.counts = self.keys[n:], self.sums[n:], self.counts[n:]

    def _held(self, keys: NDArray[np.int64], X: Floats) -> Floats:
        """Gaps filled by the last reading, for as long as it is held."""
        assert self.hold is not None
        padded = np.vstack([self.held, X])
        when = np.vstack([self.held_since, np.broadcast_to(keys[:, None], X.shape)])
        rows = np.where(np.isnan(padded), 0, np.arange(len(padded))[:, None])
        rows = np.maximum.accumulate(rows, axis=0)
        columns = np.arange(self.n)
        values, since = padded[rows, columns], when[rows, columns]
        self.held, self.held_since = values[-1], since[-1]
        young = keys[:, None] - since[1:] <= self.hold
        return np.where(young, values[1:], np.nan)


def _coded(cells: Any, *, keep: bool = False) -> tuple[NDArray[np.int64], Any]:
    """Cells as codes and the texts, or with ``keep`` the values, that they stand for."""
    array = pa.array(cells) if isinstance(cells, list) else cells
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode(null_encoding="encode")
    codes = array.indices.to_numpy(zero_copy_only=False)
    if keep:
        return codes, array.dictionary
    return codes, ["" if cell is None else str(cell).strip() for cell in array.dictionary.to_pylist()]


def _unique(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct keys in ascending order, and where each key is among them; fast for keys that ascend."""
    steps = np.diff(keys)
    if (steps >= 0).all():
        starts = np.concatenate([[True], steps > 0])
        return keys[starts], np.cumsum(starts) - 1
    unique, rows = np.unique(keys, return_inverse=True)
    return unique, rows.astype(np.int64)


def _nanoseconds(text: str | None, option: str) -> int | None:
    """A span such as 1min."""
    if text is None:
        return None
    import pandas as pd

    try:
        span = read_gap(text)
        nanoseconds = int(pd.Timedelta(span).value)
    except (TypeError, ValueError):
        nanoseconds = 0
    if nanoseconds <= 0 or str(text).strip().isdigit():
        raise TableError(f"{option} must be a time span such as '1min' or '10s', got {text!r}.")
    return nanoseconds


def _span(nanoseconds: int) -> str:
    for size, unit in ((86400 * 10**9, "day"), (3600 * 10**9, "hour"), (60 * 10**9, "minute"), (10**9, "second")):
        if nanoseconds % size == 0:
            n = nanoseconds // size
            return unit if n == 1 else f"{n} {unit}s"
    return f"{nanoseconds / 1e6:g} milliseconds"
