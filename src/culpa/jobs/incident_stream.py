"""Incidents in a table of any size: written as soon as they are over."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa.fitted import FittedDetector
from culpa.io.tables import Sink, Source, TableError
from culpa.io.tables.columns import kind
from culpa.jobs.batch_explainer import BatchExplainer
from culpa.jobs.batches import Progress, Report, ScoredBatch, Summary, scored_batches
from culpa.monitoring.grouping import Grouping, Incident
from culpa.monitoring.incidents import as_columns, units_of
from culpa.monitoring.times import Times, check_order, only_days, read_gap, read_times


def incidents(
    fitted: FittedDetector,
    source: Source,
    sink: Sink,
    *,
    time: str | None = None,
    gap: Any = 0,
    min_length: int = 1,
    progress: Progress = lambda summary: None,
    report: Report = lambda text: None,
    note: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Write one line per incident; ``time`` names the column of the rows' times, ``gap`` and ``min_length`` are those
    of `PCADetector.incidents`.
    """
    summary = Summary()
    explainer = BatchExplainer(fitted.explainer(), live=source.live, note=note)
    clock = _Clock(source, time)
    grouping: Grouping | None = None
    with one_blas_thread():
        for scored in scored_batches(fitted, source, [] if time is None else [time], summary, progress, report):
            times = clock.read(scored)
            if grouping is None:
                grouping = Grouping(
                    explainer.explainer,
                    fitted.limit,
                    gap=read_gap(gap, times) if len(scored.rows) else 0,
                    min_length=min_length,
                    units=units_of(fitted),
                    noun=fitted.noun,
                    time_name=time,
                    dated=True,  # a file may be read on another day
                    daily=times is not None and only_days(times),
                )
            at = np.flatnonzero(scored.anomaly)
            if not len(at):
                continue
            positions, rows = scored.batch.rows[at], scored.rows.choose(at)
            here = None if times is None else times[at]
            if found := grouping.add(
                positions, rows, explainer.explain(rows), positions if here is None else here, here
            ):
                _write(found, clock, sink, summary)
        assert grouping is not None
        found = grouping.finish()
        if found or not summary.incidents:  # a table without incidents has an answer without lines
            _write(found, clock, sink, summary)
    return summary


class _Clock:
    """The times of the rows, batch by batch; they must not go backwards."""

    def __init__(self, source: Source, column: str | None) -> None:
        self.source, self.column = source, column
        self.last: Times | None = None  # of the row before, alone
        self.as_text = False

    def read(self, scored: ScoredBatch) -> Times | None:
        if self.column is None or not len(scored.rows):
            return self.last
        rows, cells = scored.batch.rows, scored.batch.carried[self.column]
        self.as_text = isinstance(cells, list) or kind(cells.type) != "time"
        try:
            times = read_times(cells, self.column, int(rows[0]))
            known = times if self.last is None else self.last.append(times)
            check_order(known, self.column, int(rows[0]) - (len(known) - len(times)))
        except (TypeError, ValueError) as error:
            raise TableError(f"{self.source.name}: {error}") from None
        self.last = times[-1:]
        return times

    def labels(self, cells: Sequence[Any]) -> Any:
        """Times as the table has them: as Arrow times, or as texts."""
        import pyarrow as pa

        if self.last is None or self.last.dtype.kind not in "mM":
            return cells
        if self.as_text or self.last.dtype.kind == "m":  # CSV knows no spans of time
            return [str(cell) for cell in cells]
        return pa.array(self.last[:0].append(type(self.last)(cells).as_unit(self.last.unit)))


def _write(found: Sequence[Incident], clock: _Clock, sink: Sink, summary: Summary) -> None:
    summary.incidents += len(found)
    columns: dict[str, Any] = as_columns(found)
    times = {name: clock.labels(columns[name]) for name in ("start", "end", "peak")}
    sink.write(columns | times)
