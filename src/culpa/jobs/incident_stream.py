"""Incidents in a table of any size: written as soon as they are over."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa.explaining.batch_explainer import BatchExplainer
from culpa.explaining.explainer import Explainer
from culpa.explaining.explanation import Explanation
from culpa.fitted import FittedDetector
from culpa.io.tables import Sink
from culpa.io.tables.columns import kind
from culpa.jobs.batches import NOBODY, Listener, ScoredBatch, Summary, scored_batches
from culpa.jobs.following import Following, RowSource
from culpa.monitoring.finder import Batch, Event, IncidentFinder
from culpa.monitoring.incidents import as_columns, units_of
from culpa.monitoring.judged import Blamer, RowJudge, about_movement
from culpa.monitoring.rules import chosen_rule, expected_false
from culpa.monitoring.running import RowNames
from culpa.monitoring.times import GapCheck, Times, are_days, read_gap
from culpa.monitoring.when import Clock
from culpa.scores import ScoredRows

_STEPS_TO_KNOW = 10  # from one row to the next, after which it is known how far apart rows are


def incidents(
    fitted: FittedDetector,
    source: RowSource,
    sink: Sink,
    *,
    time: str | None = None,
    gap: Any = None,
    min_length: int | None = None,
    false_incidents: str | None = None,
    baseline: int = 0,
    events: bool = False,
    options: Mapping[str, Any] | None = None,
    told: Listener = NOBODY,
) -> Summary:
    """Write one line per incident; ``time`` names the column of times, and ``options`` are those of `culpa.Explainer`.

    The other options are those of `PCADetector.incidents`. With ``events``, also a line when an incident opens, and when it
    grows.
    """
    summary = Summary()

    def explain(explainer: Explainer) -> Callable[[ScoredRows], Explanation]:
        return partial(BatchExplainer(explainer, live=source.live, note=told.step).explain, parts="values")

    own = dict(options or {})
    clock, finder, check = _Clock(time, modes=fitted.n_modes is not None), None, GapCheck(0)
    following = Following(source, time, ascending=True, report=told.warning, step=fitted.columns.step)
    with one_blas_thread():
        batches = scored_batches(fitted, source, [] if time is None else [time], summary, told, following)
        wait = _STEPS_TO_KNOW if time is not None and false_incidents is not None else 0
        for scored, times, n_before in _timed(batches, clock, summary, wait):
            if finder is None:
                rule = chosen_rule(fitted, gap, min_length, false_incidents, clock.first)
                check = GapCheck(read_gap(gap) if rule.by_time else 0)
                shown = Clock(time, dated=True)  # who reads a file later on wants to know the day
                finder = IncidentFinder(
                    fitted, fitted.explainer(**own), shown, rule, units=units_of(fitted), baseline=baseline, live=events
                )
                blamer = Blamer(finder.judge, explain, **own)
            if text := check.add(times):
                told.warning(text)
            finder.n_days = clock.n_days
            batch = _batch(finder.judge, scored, times, n_before)
            summary.anomalies += int(batch.flagged.sum()) - int(scored.anomaly.sum())
            if found := finder.add(batch, blamer.blame(batch.judged.seen)):
                _write(found, clock, sink, summary, events=events)
        if text := check.finish():
            told.warning(text)
        moved = "" if finder is None else about_movement(finder.judge.moved)
        found = [] if finder is None else finder.finish()
        if found or not summary.incidents:  # a table without incidents has an answer without lines
            _write(found, clock, sink, summary, events=events)
    if finder is not None:
        summary.unconfirmed = finder.n_unconfirmed
        summary.expected = f"{expected_false(fitted, finder.rule, following.found)} {moved}".strip()
    return summary


def _timed(
    batches: Iterable[ScoredBatch], clock: "_Clock", summary: Summary, wait: int
) -> Iterator[tuple[ScoredBatch, Times | None, int]]:
    """Batches with their times and the number of rows before; the first ones ``wait`` for so many steps between rows."""
    waiting: list[tuple[ScoredBatch, Times | None, int]] = []
    for scored in batches:
        if len(scored.rows):
            waiting.append((scored, clock.read(scored), summary.rows - len(scored.rows)))
        if summary.rows > wait:
            yield from waiting
            waiting = []
    yield from waiting


def _batch(judge: RowJudge, scored: ScoredBatch, times: Times | None, n_before: int) -> Batch:
    rows = scored.batch
    names = RowNames(rows.rows, rows.rows if times is None else times, n_before + np.arange(len(scored.rows)))
    return Batch(names, scored.rows, judge.judge(scored.rows, rows.missing), times, rows.cut, rows.missing)


def incident_schema(time: Any, *, modes: bool) -> Any:
    """The Arrow schema of the lines, where ``time`` is the type of the column of times."""
    import pyarrow as pa

    names = as_columns([])
    whole, texts = (
        ("first", "last", "n_flagged"),
        ("status", "kind", "culprit", *list(names)[list(names).index("unit") :]),
    )
    types = dict.fromkeys(names, pa.float64()) | dict.fromkeys(whole, pa.int64()) | dict.fromkeys(texts, pa.string())
    types |= dict.fromkeys(("start", "end", "peak"), time) | {"score_if_fixed": pa.float64()}
    return pa.schema({**types, **({"mode": pa.int64()} if modes else {})})


class _Clock:
    """The times of the rows, batch by batch, and how many rows have come before the first one with a time of day."""

    def __init__(self, column: str | None, *, modes: bool) -> None:
        self.column, self.modes = column, modes
        self.last: Times | None = None  # of the row before, alone
        self.first: Times | None = None  # of the first rows
        self.as_text = False
        self.n_days, self._days = 0, True

    def read(self, scored: ScoredBatch) -> Times | None:
        if self.column is None:
            return None
        cells, times = scored.batch.carried[self.column], scored.batch.times
        assert times is not None
        self.as_text = isinstance(cells, list) or kind(cells.type) != "time"
        self.last = times()[-1:]
        if self.first is None or len(self.first) <= _STEPS_TO_KNOW:
            self.first = times() if self.first is None else self.first.append(times())
        if self._days:
            days = are_days(times())
            if self.as_text:  # midnight that is written as such is a time of day
                days &= np.array([":" not in str(cell) for cell in cells], dtype=bool)
            self.n_days += len(days) if days.all() else int(np.argmin(days))
            self._days = bool(days.all())
        return times()

    def schema(self, more: Sequence[str]) -> Any:
        """The Arrow schema of the lines, after columns of texts."""
        import pyarrow as pa

        fields = list(incident_schema(self.type(), modes=self.modes))
        if self.modes:
            names = [field.name for field in fields]
            fields.insert(names.index("unit"), fields.pop())  # as tables of incidents have it
        return pa.schema([*((name, pa.string()) for name in more), *fields])

    def type(self) -> Any:
        """The Arrow type of the times: whatever their source and their digits, one for dates, and one for numbers."""
        import pyarrow as pa

        if self.column is None:
            return pa.int64()
        kind = "M" if self.last is None else self.last.dtype.kind  # None: a table without rows
        if kind != "M":
            return pa.string() if kind == "m" else pa.float64()
        return pa.timestamp("ns", None if getattr(self.last, "tz", None) is None else "UTC")

    def labels(self, cells: Sequence[Any]) -> Any:
        """Times as the table has them: as Arrow times, or as texts."""
        import pyarrow as pa

        if self.last is None or self.last.dtype.kind not in "mM":
            return cells
        if self.as_text or self.last.dtype.kind == "m":  # CSV knows no spans of time
            return [str(cell) for cell in cells]
        return pa.array(self.last[:0].append(type(self.last)(cells).as_unit(self.last.unit)))


def _write(found: Sequence[Event], clock: _Clock, sink: Sink, summary: Summary, *, events: bool) -> None:
    summary.incidents += sum(one.event in ("closed", "open") for one in found)
    columns: dict[str, Any] = as_columns([one.incident for one in found])
    times = {name: clock.labels(columns[name]) for name in ("start", "end", "peak")}
    news = {"event": [one.event for one in found], "new": [", ".join(one.new) for one in found]} if events else {}
    if declare := getattr(sink, "declare", None):  # the format has types
        declare(clock.schema(list(news)))
    sink.write(news | columns | times)
