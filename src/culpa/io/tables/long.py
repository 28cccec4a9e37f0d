"""Long tables of historians, one reading per line (tag, time, value, quality), as wide tables with a column per tag.

Readings are averaged over intervals of equal length. Lines in the order of time pass through in a stream; a file that lists
tag after tag is averaged first, which needs memory for the result but not for the file.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from culpa._core.types import Floats, Mask
from culpa._core.words import span
from culpa.io.reading import UNIT_OF, Options
from culpa.io.tables.columns import find, find_for_model, take_as_missing, to_floats
from culpa.io.tables.columns import kind as kind_of
from culpa.io.tables.numbers import KNOWN, Missing, Spelling
from culpa.io.tables.qualities import Judge
from culpa.io.tables.table import LARGEST, Batch, Column, Source, Stage, TableError
from culpa.io.tables.text_table import TextTable
from culpa.io.tables.timed import TimedTable
from culpa.io.tables.times import UNITS, wall_clocks
from culpa.monitoring.times import read_gap

_OPEN = 16  # intervals behind the latest one that can still get readings
_ROWS = 1 << 15  # rows handed out at a time
_HOUR = 3600 * 10**9  # longer intervals are those of local clocks, also on days when clocks change
_NEVER = -(1 << 62)  # as a moment


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


@dataclass(frozen=True)
class _Readings:
    """Intervals, UTC offsets, positions of tags, moments and values (NaN if they are bad) of readings."""

    keys: NDArray[np.int64]
    offsets: NDArray[np.int64]
    tags: NDArray[np.int64]
    moments: NDArray[np.int64]
    values: Floats


class LongTable(Stage):
    """A long table as a wide one."""

    live = False
    units: Mapping[str, str] = MappingProxyType({})

    def __init__(self, inner: Source, options: Options) -> None:
        super().__init__(inner)
        self.roles = Roles.of(options.long, list(inner.columns()), inner.name)
        self.every = _nanoseconds(options.every, "--every")
        self.hold = _nanoseconds(options.hold, "--hold")
        clock = Options(time=self.roles.time, time_format=options.time_format, hints=options.hints)
        self.timed = TimedTable(inner, clock)
        self.good = frozenset(options.good)
        self._spelling = Spelling(
            Missing((*KNOWN, *options.missing))
        )  # of tables that do not say how they write numbers
        self.missing_found: Counter[str] = Counter()
        self._zone: Any = None
        for file in inner.files():
            if isinstance(file, TextTable):
                file.coded = frozenset(filter(None, (self.roles.tag, self.roles.time, self.roles.quality)))
                file.numbers = frozenset({self.roles.value})

    @property
    def time(self) -> str:
        """Name of the column of times."""
        return self.roles.time

    @property
    def hints(self) -> Mapping[str, str]:
        """How the file writes times and numbers, and the unit of the numbers."""
        format, unit = self.timed.time_format, self.inner.units.get(self.roles.value)
        units = {f"{UNIT_OF}{self.roles.value}": unit} if unit else {}
        return {**self.inner.hints, **({"time_format": format.name} if format.settled else {}), **units}

    @property
    def decisions(self) -> list[str]:
        """Those about the file, and how its lines become rows."""
        per = "one row per time" if self.every is None else f"means over {span(self.every / 1e9)}"
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
            numeric = self._has_numbers(batch, codes, len(names))
            for name, found in zip(names, numeric, strict=True):
                tags[name] = tags.get(name, False) or found
        return [name for name, numeric in tags.items() if numeric and name]

    def columns(self) -> Mapping[str, Column]:
        """The time, and a column per tag. A file is read once to find all tags."""
        return {self.roles.time: Column("time")} | {name: Column("number") for name in self._tags}

    def look(self, name: str) -> list[Any]:
        """The first times; tags are numbers."""
        if name != self.roles.time:
            return []
        import pandas as pd

        return [pd.Timestamp(0)]  # times have a type of their own here

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """One row per interval in which a tag has a good reading."""
        for name in carried:
            find(name, [self.roles.time], self.name)
        self.missing_found.clear()
        grid, done = _Grid(len(features), self.hold, self.every, local=self._local), 0
        seen: set[str] = set()
        for found in self._readings(features, seen):
            grid.add(found, self.name)
            if self._ordered:
                for keys, offsets, X in grid.finished(_OPEN):
                    yield self._batch(keys, offsets, X, done, carried)
                    done += len(X)
        find_for_model(features, (), sorted(seen), self.name)
        for keys, offsets, X in grid.finished(0):
            yield self._batch(keys, offsets, X, done, carried)
            done += len(X)

    @property
    def _local(self) -> bool:
        """Whether intervals are counted on local clocks. Shorter ones are not, because an hour comes twice in autumn."""
        return self.every is not None and self.every > _HOUR

    def _batch(
        self, keys: NDArray[np.int64], offsets: NDArray[np.int64], X: Floats, done: int, carried: Sequence[str]
    ) -> Batch:
        import pandas as pd

        moments, clocks = (keys - offsets, keys) if self._local else (keys, keys + offsets)
        step = self.every or 1
        unit = next(unit for unit in ("s", "us", "ns") if step % UNITS[unit] == 0)  # as fine as it needs to be
        times = pd.DatetimeIndex(moments, dtype="datetime64[ns]").as_unit(unit)
        times = times if self._zone is None else times.tz_localize("UTC").tz_convert(self._zone)
        cells = {name: pa.array(times) for name in carried}
        return Batch(np.arange(done, done + len(X)), X, cells, clocks=pd.DatetimeIndex(clocks, dtype="datetime64[ns]"))

    def _readings(self, features: Sequence[str], seen: set[str]) -> Iterator[_Readings]:
        """All good readings of some tags, in portions; bad ones, too, if readings are held, because they end that."""
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
            good = (tags >= 0) & ~np.isnan(values)
            if self.roles.quality is not None:
                good &= self._is_good(batch.carried[self.roles.quality], good)
            keep = good if self.hold is None else tags >= 0
            values = values if good.all() else np.where(good, values, np.nan)
            keys, offsets, moments = self._keys(batch)
            part = slice(None) if keep.all() else keep
            yield _Readings(keys[part], offsets[part], tags[part], moments[part], values[part])

    def _values(self, batch: Batch, tags: NDArray[np.int64], features: Sequence[str]) -> Floats:
        """The values; NaN where they are missing, and for tags that nobody asked for."""
        cells, spelling = self._cells(batch)
        if kind_of(cells.type) == "number":
            return self._checked(to_floats(cells), batch, tags, features)
        found = spelling.read(cells)
        if found is None:  # texts: of tags that nobody asked for, one hopes
            mine = np.flatnonzero(tags >= 0)
            part = cells.take(pa.array(mine))
            numbers = spelling.read(part)
            if numbers is None:
                at, cell = spelling.first_bad(part)
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
        missing = self._cells(batch)[1].missing
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

    def _cells(self, batch: Batch) -> tuple[Any, Spelling]:
        """The cells of values, and how these are written, in which files may differ."""
        cells = batch.carried[self.roles.value]
        return pa.array(cells) if isinstance(cells, list) else cells, batch.spelling or self._spelling

    def _has_numbers(self, batch: Batch, codes: NDArray[Any], n: int) -> list[bool]:
        """Which tags have at least one number among their cells."""
        cells, spelling = self._cells(batch)
        numbers = to_floats(cells) if kind_of(cells.type) == "number" else spelling.read(cells)
        if numbers is None:
            plain = cells.to_pylist()
            numbers = np.array([0.0 if cell and spelling.is_number(str(cell)) else np.nan for cell in plain])
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

    def _keys(self, batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The interval, the UTC offset and the moment of each line, in nanoseconds since 1970."""
        import pandas as pd

        codes, texts = _coded(batch.carried[self.roles.time], keep=True)
        first = int(batch.rows[0])
        try:
            read = self.timed.time_format.read(texts, self.roles.time, first)
            times = self._zones.settle(read, first)
        except (TypeError, ValueError) as error:
            raise TableError(f"{self.name}: {error}") from None
        if not isinstance(times, pd.DatetimeIndex):
            raise TableError(f"{self.name}: {self.roles.time!r} must contain times with dates.")
        self._zone = times.tz
        moments, clocks = times.as_unit("ns").asi8, wall_clocks(read, texts).as_unit("ns").asi8
        late = 0 if self.every is None else clocks % self.every  # since the interval began on local clocks
        keys = clocks - late if self._local else moments - late
        return keys[codes], (clocks - moments)[codes], moments[codes]

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


@dataclass(frozen=True)
class _Intervals:
    """Intervals that have readings: sums and counts of the good ones by tag; the last reading and its moment if it is held.

    ``offsets`` are the UTC offsets of their first readings.
    """

    keys: NDArray[np.int64]
    offsets: NDArray[np.int64]
    sums: Floats
    counts: Floats
    last: Floats  # NaN if it is bad
    when: NDArray[np.int64]

    @classmethod
    def of(cls, found: _Readings, n: int, n_held: int) -> "_Intervals":
        """From readings of ``n`` tags, of which the last are held if ``n_held`` is not 0."""
        keys, rows = _unique(found.keys)
        offsets = np.zeros(len(keys), dtype=np.int64)
        offsets[rows[::-1]] = found.offsets[::-1]
        flat, size, good = rows * n + found.tags, len(keys) * n, ~np.isnan(found.values)
        sums = np.asarray(np.bincount(flat, np.where(good, found.values, 0.0), size), dtype=np.float64)
        counts = np.asarray(np.bincount(flat, good, size), dtype=np.float64)
        last, when = np.full((len(keys), n_held), np.nan), np.full((len(keys), n_held), _NEVER)
        if n_held:
            order = np.argsort(found.moments, kind="stable")
            last.flat[flat[order]], when.flat[flat[order]] = found.values[order], found.moments[order]
        shape = (len(keys), n)
        return cls(keys, offsets, np.reshape(sums, shape), np.reshape(counts, shape), last, when)

    def __getitem__(self, part: slice) -> "_Intervals":
        return _Intervals(*(getattr(self, item.name)[part] for item in fields(self)))

    def joined(self, others: "_Intervals") -> "_Intervals":
        """Both, where ``others`` were read later."""
        if not len(self.keys) or others.keys[0] > self.keys[-1]:
            pairs = ((getattr(self, item.name), getattr(others, item.name)) for item in fields(self))
            return _Intervals(*map(np.concatenate, pairs))
        keys = np.union1d(self.keys, others.keys)
        old, new = np.searchsorted(keys, self.keys), np.searchsorted(keys, others.keys)

        def spread(cells: NDArray[Any], rows: NDArray[Any], empty: float) -> NDArray[Any]:
            whole = np.full((len(keys), *cells.shape[1:]), empty, dtype=cells.dtype)
            whole[rows] = cells
            return whole

        offsets = spread(others.offsets, new, 0)
        offsets[old] = self.offsets
        sums = spread(self.sums, old, 0) + spread(others.sums, new, 0)
        counts = spread(self.counts, old, 0) + spread(others.counts, new, 0)
        when, later = spread(self.when, old, _NEVER), spread(others.when, new, _NEVER)
        last = np.where(later >= when, spread(others.last, new, np.nan), spread(self.last, old, np.nan))
        return _Intervals(keys, offsets, sums, counts, last, np.maximum(when, later))


class _Grid:
    """The intervals that are not finished, and what is held of those before. ``local`` keys are on local clocks."""

    def __init__(self, n_tags: int, hold: int | None, every: int | None, *, local: bool = False) -> None:
        self.n, self.hold, self.every, self.local = n_tags, hold, every, local
        self.n_held = 0 if hold is None else n_tags
        self.open: _Intervals | None = None
        self.last: tuple[int, int] | None = None  # the latest interval that was handed out, and its UTC offset
        self.held = np.full(n_tags, np.nan), np.full(n_tags, _NEVER)  # last readings, and their moments

    def add(self, found: _Readings, table: str) -> None:
        """Take readings of the next lines."""
        if not len(found.keys):
            return
        more = _Intervals.of(found, self.n, self.n_held)
        if self.last is not None and more.keys[0] <= self.last[0]:
            raise TableError(
                f"{table}: the lines go far back in time after the beginning of the file. Sort them by time."
            )
        self.open = more if self.open is None else self.open.joined(more)

    def finished(self, left: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Floats]]:
        """Hand out keys, UTC offsets and means of all intervals but the last ``left``."""
        n = 0 if self.open is None else len(self.open.keys) - left
        if self.open is None or n <= 0:
            return
        done, self.open = self.open[:n], self.open[n:]
        if self.hold is not None:
            yield from self._with_held(done)
        else:
            for start in range(0, n, _ROWS):
                part = done[start : start + _ROWS]
                yield part.keys, part.offsets, _means(part)
        self.last = int(done.keys[-1]), int(done.offsets[-1])

    def _with_held(self, done: _Intervals) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Floats]]:
        """Intervals with held readings, and those in between in which something is held but nothing was read."""
        first = (int(done.keys[0]), int(done.offsets[0])) if self.last is None else self.last
        before = np.concatenate([[first[0]], done.keys[:-1]])
        offsets = np.concatenate([[first[1]], done.offsets[:-1]])
        between = np.zeros(len(before), dtype=np.int64)
        if self.every is not None and self.hold is not None:
            between = np.clip((done.keys - before - 1) // self.every, 0, self.hold // self.every + 1)
        ends = np.cumsum(between + 1)
        for start in range(0, int(ends[-1]), _ROWS):
            places = np.arange(start, min(start + _ROWS, int(ends[-1])))
            at = np.searchsorted(ends, places, side="right")
            own = places == ends[at] - 1
            step = between[at] + 1 - (ends[at] - 1 - places)
            keys = np.where(own, done.keys[at], before[at] + step * (self.every or 0))
            shifts = np.where(own, done.offsets[at], offsets[at])
            X = self._filled(done, at, own, keys - shifts if self.local else keys)
            some = ~np.isnan(X).all(axis=1)
            yield keys[some], shifts[some], X[some]

    def _filled(self, done: _Intervals, at: NDArray[Any], own: Mask, moments: NDArray[np.int64]) -> Floats:
        """Means, or the last reading if it is good and not too old at the beginning of the interval."""
        shape = (len(at), self.n)
        means, last, when = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, _NEVER)
        part = done[slice(at[0], at[-1] + 1)]
        rows = at[own] - at[0]
        means[own], last[own], when[own] = _means(part)[rows], part.last[rows], part.when[rows]
        last, since = np.vstack([self.held[0], last]), np.vstack([self.held[1], when])
        latest = np.maximum.accumulate(np.where(since == _NEVER, 0, np.arange(len(since))[:, None]), axis=0)
        last, since = np.take_along_axis(last, latest, axis=0), np.take_along_axis(since, latest, axis=0)
        self.held = last[-1], since[-1]
        valid = (when == _NEVER) & (moments[:, None] - since[1:] <= self.hold)
        return np.where(np.isnan(means) & valid, last[1:], means)


def _means(part: _Intervals) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(part.sums / part.counts)


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
