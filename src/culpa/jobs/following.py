"""Rows of a table with their times, and how many rows are missing before each: the one way in which jobs read in order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from culpa._core.continuity import Continuity, Step, as_numbers, closer
from culpa._core.types import Floats, Mask
from culpa.columns import Columns, History
from culpa.io.tables import Batch, TableError
from culpa.io.tables.table import take
from culpa.monitoring.times import Times, check_order, in_words, read_times


class RowSource(Protocol):
    """What jobs ask of a table, which may be a `culpa.io.tables.Source`."""

    name: str
    live: bool  # whether rows come one by one and are to be answered at once

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows in order, with what is missing before each batch."""


def remembers(columns: Columns) -> bool:
    """Whether rows are judged with earlier ones."""
    return columns.lags > 0 or columns.smooth is not None


def time_of(source: RowSource, columns: Columns) -> str | None:
    """The column of times, where it matters for rows that are judged with earlier ones."""
    return getattr(source, "time", None) if remembers(columns) else None


def following_of(source: RowSource, columns: Columns) -> "Following":
    """Reads a table as the columns of a model need it."""
    return Following(source, time_of(source, columns), looks=remembers(columns), step=columns.step)


def advice_on_order(error: Exception) -> str:
    """What else a command line can do about times that go backwards."""
    return " Or number the rows instead, with --time none." if "goes backwards" in str(error) else ""


@dataclass
class Following:
    """Reads a table in order. Without times, places of rows show which of them are missing.

    ``ascending`` says that the order of times matters. A row that comes late, or that has no time, is then an error; on a
    pipe, it is skipped, counted and reported once, because a monitor must go on. ``looks`` says that somebody wants to know
    which rows are missing, and ``step`` how far apart rows must be to follow each other, where that is known.
    """

    source: RowSource
    time: str | None
    ascending: bool = False
    looks: bool = True
    report: Callable[[str], None] = lambda text: None
    step: Step | None = None
    skipped: int = 0
    continuity: Continuity | None = None
    in_time: bool = False  # whether rows have times, not numbers

    def batches(self, features: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        """All rows, with ``missing`` and ``times``; batches without rows are left out."""
        self.continuity, last, waiting, self.skipped = None, None, False, 0
        wanted = list(dict.fromkeys((*carried, *([] if self.time is None else [self.time]))))
        for whole in self.source.batches(features, wanted):
            batch, times = self._timed(whole, last) if self.time is not None and len(whole.rows) else (whole, None)
            if waiting and len(batch.rows):  # a row was skipped that was cut off from those before
                cut = np.zeros(len(batch.rows), dtype=bool) if batch.cut is None else batch.cut
                batch = replace(batch, cut=np.append(True, cut[1:]))
            waiting = _ends_cut_off(whole, batch) or (waiting and not len(batch.rows))
            if not len(batch.rows):
                continue
            numbers = _numbers(times) if self.looks else None
            if self.continuity is None:
                self.in_time = hasattr(times, "asi8")
                usual = self.step if self.step is not None and self.in_time and self.step.timed else None
                self.continuity = Continuity() if usual is None else Continuity(usual.size, always=True)
            missing = self.continuity.follow(batch.rows, numbers, batch.cut, batch.begins) if self.looks else None
            last = times if times is None else times[-1:]
            kept = {name: batch.carried[name] for name in carried}
            yield replace(batch, carried=kept, missing=missing, times=None if times is None else lambda t=times: t)

    @property
    def found(self) -> Step | None:
        """How far apart rows were, where they had times."""
        size = None if self.continuity is None or not self.in_time else self.continuity.usual
        return None if size is None else Step(size, timed=True)

    def about_steps(self) -> str | None:
        """What to say where the rows are clearly closer to each other, or farther apart, than those that a model knows."""
        found, step = self.found, self.step
        if found is None or step is None or not (closer(found, step) or closer(step, found)):
            return None
        import pandas as pd

        now, known = in_words(*(pd.Timedelta(each.size, "ns") for each in (found, step)))
        then = "the values before a row are not those" if closer(found, step) else "their past is unknown, as"
        return (
            f"{self.source.name}: rows are {now} apart, and those that the model was fitted to were {known} apart, so "
            f"{then} that lags mean. Pass rows that are as far apart."
        )

    def _timed(self, batch: Batch, last: Times | None) -> tuple[Batch, Times]:
        """A batch and its times; rows whose time is of no use may be left out."""
        skips = self.source.live and not getattr(getattr(self.source, "options", None), "strict", False)
        try:
            times = self._read(batch)
            if self.ascending:
                known = times if last is None else last.append(times)
                check_order(known, str(self.time), int(batch.rows[0]) - (len(known) - len(times)))
        except (TypeError, ValueError) as error:
            if self.ascending and not skips:
                prefix = "" if isinstance(error, TableError) else f"{self.source.name}: "
                raise TableError(f"{prefix}{error}{advice_on_order(error)}") from None
            return self._usable(batch, last)
        return batch, times

    def _read(self, batch: Batch, at: Sequence[int] | None = None) -> Times:
        if batch.times is not None:
            return batch.times() if at is None else batch.times(at)
        cells, first = batch.carried[str(self.time)], int(batch.rows[0 if at is None else at[0]])
        return read_times(cells if at is None else take(cells, at), str(self.time), first)

    def _usable(self, batch: Batch, last: Times | None) -> tuple[Batch, Times]:
        """Late rows and those without a time are skipped; times are unknown where their order does not matter."""
        import pandas as pd

        found = self._readable(batch, range(len(batch.rows)))
        if self.ascending:
            keep, latest = np.ones(len(found), dtype=bool), None if last is None else last[0]
            for k, moment in enumerate(found):
                keep[k] = moment is not pd.NaT and (latest is None or not moment < latest)
                latest = moment if keep[k] else latest
            self._say(batch, np.flatnonzero(~keep))
            batch, found = _chosen(batch, keep), [moment for moment, kept in zip(found, keep, strict=True) if kept]
        if len({str(getattr(moment, "tz", None)) for moment in found if moment is not pd.NaT}) > 1:
            found = [moment.tz_convert("UTC") if getattr(moment, "tz", None) else moment for moment in found]
        return batch, pd.Index(found)

    def _readable(self, batch: Batch, at: Sequence[int]) -> list[Any]:
        """The times of some rows, half by half, so that few cells that cannot be read cost little."""
        import pandas as pd

        try:
            return list(self._read(batch, list(at)))
        except (TypeError, ValueError):
            half = len(at) // 2
            return [*self._readable(batch, at[:half]), *self._readable(batch, at[half:])] if half else [pd.NaT]

    def _say(self, batch: Batch, at: Any) -> None:
        if len(at) and not self.skipped:
            self.report(
                f"{self.source.name}: row {batch.rows[at[0]]} has no time, or a time before that of the row above "
                f"({batch.carried[str(self.time)][int(at[0])]}). Such rows are skipped."
            )
        self.skipped += len(at)


def _numbers(times: Times | None) -> Any:
    if times is None:
        return None
    numbers = as_numbers(times)
    return np.full(len(times), np.nan) if numbers is None else numbers


def _chosen(batch: Batch, keep: Mask) -> Batch:
    """Some rows of a batch. A row after one that was skipped stays cut off if that one was."""
    at, cut = np.flatnonzero(keep), batch.cut
    if cut is not None and len(at):
        cut = np.logical_or.reduceat(cut[: at[-1] + 1], np.append(0, at[:-1] + 1))
    return replace(batch.some(keep), cut=cut)


def _ends_cut_off(batch: Batch, kept: Batch) -> bool:
    """Whether one of the rows of a batch after the last that was kept is cut off from those before."""
    if batch.cut is None:
        return False
    end = int(np.searchsorted(batch.rows, kept.rows[-1], side="right")) if len(kept.rows) else 0
    return bool(batch.cut[end:].any())


def with_past(source: RowSource, lags: int, step: Step | None = None) -> Following:
    """Reads a table whose rows are joined with the ``lags`` rows before them."""
    return Following(source, getattr(source, "time", None) if lags else None, looks=lags > 0, step=step)


def lagged(
    following: Following, names: Sequence[str], lags: int, progress: Callable[[int], None]
) -> Iterator[tuple[Any, Floats]]:
    """Places of the rows whose whole past is known, and these rows beside the ``lags`` rows before them."""
    history, done = History(lags, len(names)), 0
    for batch in following.batches(names):
        joined, whole = history.join_whole(batch.X, batch.missing)
        yield (batch.rows, joined) if whole.all() else (batch.rows[whole], joined[whole])
        done += len(batch.X)
        progress(done)
