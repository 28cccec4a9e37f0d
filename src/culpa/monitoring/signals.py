"""Signals that are wrong by themselves: frozen readings, stopped recordings, values that cannot be.

What is normal follows from the normal rows, column by column: how long a column stands still, how often it changes, and
between which values. A run of equal values is too long if it exceeds both

- the longest normal run, by a quarter and two cells more, and
- what chance reaches once in 10^8 runs at the slowest pace of the column: in normal rows, or in the 30 or 100 rows before.

Columns that change rarely or rest for long are not judged. Nor are runs at an end of the normal range where the column
rests, such as a valve that is shut, or runs while a third of the other columns stand still, too. If nearly all stand still,
the recording stopped.

The state is small, and does not depend on how rows are cut into batches.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats, Mask
from culpa.columns.units import physical_range
from culpa.models.normal_signals import NormalSignals

Wrong = Literal["frozen", "limit", "stopped", "range"]
Counts = NDArray[np.int64]

_FACTOR, _EXTRA = 1.25, 2  # times the longest normal run, and so many cells more
_CHANCE = 18.4  # -log of the probability of a run that is too long
_PACES = (30, 100)  # rows before a run that show the pace
_FEWEST_STEPS = 19  # of them
_STILL, _FEWEST_RUNS = 15.0, 50  # usual steps of the longest run, and runs, of columns that are judged
_MOVING, _FEWEST_MOVING = 3.0, 2  # cells per change of columns that show whether everything stands still; of the others
_QUIET, _STOPPED = 1 / 3, 0.9  # share of them: a quiet time, a stopped recording
_BEYOND = 0.05  # of the normal range, by which a value leaves the physical range
_ROWS_PER_PIECE = 1 << 11


class Finding(NamedTuple):
    """A signal that is wrong by itself, reported when it is found and again when it ends.

    ``since`` and ``row`` count the rows that were read before the first wrong row and before the one that showed it.
    ``until`` is the first row after it; ``None`` while it lasts. ``column`` is -1 where the recording of all columns
    stopped. ``usual`` is the longest normal run, or the end of the physical range.
    """

    kind: Wrong
    column: int
    since: int
    row: int
    until: int | None
    value: float
    usual: float


class State(NamedTuple):
    """What `Signals.look` remembers of the rows so far."""

    rows: int  # so far
    value: Floats  # last cell of each column
    need: Floats  # size at which its run is too long
    size: Counts  # of its run so far
    since: Counts  # row in which the run began
    reported: Counts  # row that showed that the run is too long, or -1
    outside: Counts  # first row outside the physical range, or -1
    changes: Mask  # in the last rows, (rows, d)
    stopped: tuple[int, int] | None = None  # since when nearly all columns stand still, and the row that showed it


class Signals:
    """Judges the columns of rows in order, each by itself.

    ``normal`` are the columns in normal rows, ``units`` are theirs ("" where unknown).
    """

    def __init__(self, normal: NormalSignals, units: Sequence[str] = ()) -> None:
        self.normal, self.d = normal, len(normal.low)
        self.judged = (normal.longest <= _STILL * normal.usual) & (normal.n_runs >= _FEWEST_RUNS)
        self.moving = self.judged & (normal.usual <= _MOVING)
        self.least = np.ceil(_FACTOR * normal.longest) + _EXTRA
        self.low, self.high = np.array([physical_range(unit) for unit in units or [""] * self.d]).T
        self.bounded = (normal.low >= self.low) & (normal.high <= self.high)
        self.margin = _BEYOND * (normal.high - normal.low)

    def start(self) -> State:
        """The state before the first row."""
        none, never = np.zeros(self.d, dtype=np.int64), np.full(self.d, -1, dtype=np.int64)
        value, need = np.full(self.d, np.nan), np.full(self.d, np.inf)
        return State(0, value, need, none, none, never, never, np.zeros((0, self.d), dtype=np.bool_))

    def look(self, state: State, X: Floats) -> tuple[State, list[Finding]]:
        """The next rows: the state after them, and what was found or ended in them.

        >>> noise = np.random.default_rng(0).normal(size=(400, 3))
        >>> signals = Signals(NormalSignals.of(noise[:200]))
        >>> noise[250:, 1] = noise[249, 1]
        >>> [(one.kind, one.column, one.since) for one in signals.look(signals.start(), noise[200:])[1]]
        [('frozen', 1, 49)]
        """
        found: list[Finding] = []
        for start in range(0, len(X), _ROWS_PER_PIECE):
            state, more = _Piece(self, state, X[start : start + _ROWS_PER_PIECE]).result()
            found += more
        return state, found


class _Run(NamedTuple):
    """A run of equal cells of a column: the rows of this piece that it has, and its cells before them."""

    first: int
    end: int
    since: int
    before: int
    need: float
    value: float


class _Piece:
    """The next rows of a table."""

    def __init__(self, signals: Signals, state: State, X: Floats) -> None:
        self.signals, self.state, self.X = signals, state, X
        seen = ~np.isnan(X)
        cells = np.vstack([state.value, X])
        if not seen.all():
            last = np.maximum.accumulate(np.where(~np.isnan(cells), np.arange(len(cells))[:, None], 0), axis=0)
            cells = np.take_along_axis(cells, last, axis=0)
        self.before, self.cells = cells[:-1], cells[1:]
        self.changed = (self.cells != self.before) & seen
        places = state.rows + np.arange(len(X))[:, None]
        self.since = np.maximum.accumulate(np.where(self.changed, places, state.since), axis=0)
        count = np.cumsum(seen, axis=0)
        self.size = count - np.maximum.accumulate(np.where(self.changed, count - 1, -state.size), axis=0)
        self.changes = np.vstack([state.changes, self.changed & ~np.isnan(self.before)])
        self._n_changes = np.cumsum(np.vstack([np.zeros_like(self.changes[:1]), self.changes]), axis=0, dtype=np.int32)

    def result(self) -> tuple[State, list[Finding]]:
        """The state after the rows, and what was found or ended in them."""
        state, n = self.state, len(self.X)
        begun, since = self.changed.any(axis=0), self.since[-1]
        start = np.maximum(since - state.rows, 0)
        need = np.where(begun, self._needed(start, np.arange(len(start))), state.need)
        reported, found, stops = np.where(begun, -1, state.reported), list[Finding](), list[tuple[int, int]]()
        for j in np.flatnonzero(
            (self.signals.judged & (self.size >= self.signals.least).any(axis=0)) | (state.reported >= 0)
        ).tolist():
            for run in self._runs(j):
                row, news = self._judge(j, run, stops)
                found += news
                if run.end == n:
                    reported[j] = row
        stopped, halts = self._recording(sorted(stops))
        outside, beyond = self._beyond()
        last = self.cells[-1], need, self.size[-1], since, reported, outside, self.changes[-max(_PACES) :]
        news = sorted([*found, *halts, *beyond], key=lambda one: (one.until or one.row, one.column))
        return State(state.rows + n, *last, stopped), news

    def _needed(self, at: Counts, columns: Counts) -> Floats:
        """Sizes from which runs that begin at these rows are too long."""
        pace, row = 1 / self.signals.normal.usual[columns], len(self.state.changes) + at
        for width in _PACES:
            steps = np.minimum(row, width)
            changes = self._n_changes[row + 1, columns] - self._n_changes[row + 1 - steps, columns]
            pace = np.where(steps >= _FEWEST_STEPS, np.minimum(pace, changes / np.maximum(steps, 1)), pace)
        with np.errstate(divide="ignore"):
            by_chance = np.ceil(1 + _CHANCE / -np.log1p(-np.minimum(pace, 0.999)))
        resting = self.signals.normal.rests_at(columns, self.cells[at, columns])
        return np.where(
            self.signals.judged[columns] & ~resting, np.maximum(self.signals.least[columns], by_chance), np.inf
        )

    def _runs(self, j: int) -> Iterator[_Run]:
        """The runs of a column that may be too long, and the one that goes on from before."""
        state, starts = self.state, np.flatnonzero(self.changed[:, j])
        ends = np.append(starts, len(self.X))
        size, need, value = int(state.size[j]), float(state.need[j]), float(state.value[j])
        yield _Run(0, int(ends[0]), int(state.since[j]), size, need, value)
        for k in np.flatnonzero(self.size[ends[1:] - 1, j] >= self.signals.least[j]).tolist():
            first = int(starts[k])
            need = float(self._needed(starts[k : k + 1], np.array([j]))[0])
            yield _Run(first, int(ends[k + 1]), state.rows + first, 0, need, float(self.cells[first, j]))

    def _judge(self, j: int, run: _Run, stops: list[tuple[int, int]]) -> tuple[int, list[Finding]]:
        """The row that shows that a run is too long, or -1, and what to report; rows that show a stop join ``stops``."""
        row = int(self.state.reported[j]) if run.first == 0 and run.before else -1
        normal = self.signals.normal
        kind: Wrong = "frozen" if normal.low[j] < run.value < normal.high[j] else "limit"
        known, news = row >= 0, list[Finding]()
        for t in [] if known else self._too_long(j, run):
            others = np.flatnonzero(self.signals.moving & (np.arange(len(self.signals.moving)) != j))
            still = self.size[t, others] > run.need // 2
            if len(others) >= _FEWEST_MOVING and still.mean() >= _STOPPED:
                stops.append((t, int(self.since[t, others[still]].max())))
            elif len(others) < _FEWEST_MOVING or still.mean() < _QUIET:
                row = self.state.rows + t
                break
        if row >= 0:
            told = Finding(kind, j, run.since, row, None, run.value, float(normal.longest[j]))
            news += [] if known else [told]
            news += [told._replace(until=self.state.rows + run.end)] if run.end < len(self.X) else []
        return row, news

    def _too_long(self, j: int, run: _Run) -> list[int]:
        """The rows in which a run is once, twice, three times ... as long as it may be."""
        sizes = self.size[run.first : run.end, j]
        if not len(sizes) or sizes[-1] < run.need:
            return []
        whole = np.arange(run.before // run.need + 1, sizes[-1] // run.need + 1)
        return [run.first + int(k) for k in np.searchsorted(sizes, whole * run.need)]

    def _recording(self, stops: Sequence[tuple[int, int]]) -> tuple[tuple[int, int] | None, list[Finding]]:
        """Whether nearly all columns stand still at the end, and since when; what began and ended."""
        rows, stopped, news, free = self.state.rows, self.state.stopped, list[Finding](), 0
        moves = (
            self.changed[:, self.signals.moving].mean(axis=1) > 1 - _STOPPED
            if self.signals.moving.any()
            else self.changed[:, 0]
        )
        for t, since in [*([(-1, -1)] if stopped else []), *stops]:
            if t >= 0 and (stopped is not None or t < free):
                continue
            if stopped is None:
                stopped = since, rows + t
                news.append(_stop(stopped, None))
            if moves[t + 1 :].any():
                free = t + 1 + int(moves[t + 1 :].argmax())
                news.append(_stop(stopped, rows + free))
                stopped = None
        return stopped, news

    def _beyond(self) -> tuple[Counts, list[Finding]]:
        """Since when columns are outside their physical range at the end, or -1; what began and ended."""
        of, rows, since = self.signals, self.state.rows, self.state.outside.copy()
        outside = of.bounded & ((self.cells < of.low - of.margin) | (self.cells > of.high + of.margin))
        turns = np.diff(outside, axis=0, prepend=since[None] >= 0)
        news = []
        for t, j in zip(*(at.tolist() for at in np.nonzero(turns)), strict=True):
            begins = bool(outside[t, j])
            since[j] = rows + t if begins else since[j]
            value, until = float((self.cells if begins else self.before)[t, j]), None if begins else rows + t
            end = float(of.low[j] if value < of.low[j] else of.high[j])
            news.append(Finding("range", j, int(since[j]), int(since[j]), until, value, end))
            since[j] = since[j] if begins else -1
        return since, news


def _stop(stopped: tuple[int, int], until: int | None) -> Finding:
    return Finding("stopped", -1, *stopped, until, np.nan, np.nan)
