"""Incidents in a table of any size: written as soon as they are over."""

from collections.abc import Callable, Sequence
from typing import Any

from culpa._core.threads import one_blas_thread
from culpa.fitted import FittedDetector
from culpa.io.tables import Sink, TableError
from culpa.io.tables.columns import kind
from culpa.jobs.batch_explainer import BatchExplainer
from culpa.jobs.batches import Progress, Report, RowSource, ScoredBatch, Summary, advice_on_order, scored_batches
from culpa.monitoring.finder import Batch, Event, IncidentFinder
from culpa.monitoring.incidents import as_columns, units_of
from culpa.monitoring.running import RowNames
from culpa.monitoring.times import GapCheck, Times, check_order, only_days, read_gap, read_times
from culpa.monitoring.when import Clock


def incidents(
    fitted: FittedDetector,
    source: RowSource,
    sink: Sink,
    *,
    time: str | None = None,
    gap: Any = 0,
    min_length: int = 1,
    baseline: int = 0,
    events: bool = False,
    progress: Progress = lambda summary: None,
    report: Report = lambda text: None,
    note: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Write one line per incident; ``time`` names the column of the rows' times, ``gap``, ``min_length`` and ``baseline``
    are those of `PCADetector.incidents`. With ``events``, also a line when an incident opens and when it grows.
    """
    summary = Summary()
    explainer = BatchExplainer(fitted.explainer(), live=source.live, note=note)
    clock = _Clock(source, time, modes=fitted.n_modes is not None)
    finder: IncidentFinder | None = None
    check = GapCheck(0)
    with one_blas_thread():
        for scored in scored_batches(fitted, source, [] if time is None else [time], summary, progress, report):
            times = clock.read(scored)
            if finder is None:
                read = read_gap(gap, times) if len(scored.rows) else 0
                check = GapCheck(read)
                finder = IncidentFinder(
                    fitted,
                    explainer.explainer,
                    # who reads a file later on wants to know the day
                    Clock(time, dated=True, daily=times is not None and only_days(times)),
                    gap=read,
                    min_length=min_length,
                    units=units_of(fitted),
                    baseline=baseline,
                    live=events,
                )
            if len(scored.rows) and (text := check.add(times)):
                report(text)
            if not (scored.anomaly.any() or finder.is_waiting or baseline):
                continue
            names = RowNames(scored.batch.rows, scored.batch.rows if times is None else times)
            batch = Batch(names, scored.rows, scored.anomaly, times)
            why = explainer.explain(scored.rows.choose(batch.flagged_at), "values") if scored.anomaly.any() else None
            if found := finder.add(batch, why):
                _write(found, clock, sink, summary, events=events)
        if text := check.finish():
            report(text)
        assert finder is not None
        found = finder.finish()
        if found or not summary.incidents:  # a table without incidents has an answer without lines
            _write(found, clock, sink, summary, events=events)
    return summary


def incident_schema(time: Any, *, modes: bool) -> Any:
    """The Arrow schema of the lines, where ``time`` is the type of the column of times."""
    import pyarrow as pa

    names = as_columns([])
    whole, texts = ("first", "last", "n_flagged"), ("kind", "culprit", *list(names)[list(names).index("unit") :])
    types = dict.fromkeys(names, pa.float64()) | dict.fromkeys(whole, pa.int64()) | dict.fromkeys(texts, pa.string())
    types |= dict.fromkeys(("start", "end", "peak"), time) | {"score_if_fixed": pa.float64()}
    return pa.schema({**types, **({"mode": pa.int64()} if modes else {})})


class _Clock:
    """The times of the rows, batch by batch; they must not go backwards."""

    def __init__(self, source: RowSource, column: str | None, *, modes: bool) -> None:
        self.source, self.column, self.modes = source, column, modes
        self.last: Times | None = None  # of the row before, alone
        self.as_text = False

    def read(self, scored: ScoredBatch) -> Times | None:
        if self.column is None or not len(scored.rows):
            return self.last
        rows, cells = scored.batch.rows, scored.batch.carried[self.column]
        self.as_text = isinstance(cells, list) or kind(cells.type) != "time"
        try:
            known_times = scored.batch.times
            times = read_times(cells, self.column, int(rows[0])) if known_times is None else known_times()
            known = times if self.last is None else self.last.append(times)
            check_order(known, self.column, int(rows[0]) - (len(known) - len(times)))
        except TableError:
            raise
        except (TypeError, ValueError) as error:
            raise TableError(f"{self.source.name}: {error}{advice_on_order(error)}") from None
        self.last = times[-1:]
        return times

    def schema(self, more: Sequence[str]) -> Any:
        """The Arrow schema of the lines, after columns of texts."""
        import pyarrow as pa

        fields = list(incident_schema(self.type(), modes=self.modes))
        if self.modes:
            names = [field.name for field in fields]
            fields.insert(names.index("unit"), fields.pop())  # as tables of incidents have it
        return pa.schema([*((name, pa.string()) for name in more), *fields])

    def type(self) -> Any:
        """The Arrow type of the times: that of the table, or timestamps where they are written as texts."""
        import pyarrow as pa

        if self.column is None:
            return pa.int64()
        if self.last is None:  # a table without rows
            return pa.timestamp("us")
        if self.last.dtype.kind != "M":
            return pa.string() if self.last.dtype.kind == "m" else pa.array(self.last[:0].to_numpy()).type
        zone = getattr(self.last, "tz", None)
        return pa.timestamp("us", None if zone is None else "UTC") if self.as_text else pa.array(self.last[:0]).type

    def labels(self, cells: Sequence[Any]) -> Any:
        """Times as the table has them: as Arrow times, or as texts."""
        import pyarrow as pa

        if self.last is None or self.last.dtype.kind not in "mM":
            return cells
        if self.as_text or self.last.dtype.kind == "m":  # CSV knows no spans of time
            return [str(cell) for cell in cells]
        return pa.array(self.last[:0].append(type(self.last)(cells).as_unit(self.last.unit)))


def _write(found: Sequence[Event], clock: _Clock, sink: Sink, summary: Summary, *, events: bool) -> None:
    summary.incidents += sum(one.event == "closed" for one in found)
    columns: dict[str, Any] = as_columns([one.incident for one in found])
    times = {name: clock.labels(columns[name]) for name in ("start", "end", "peak")}
    news = {"event": [one.event for one in found], "new": [", ".join(one.new) for one in found]} if events else {}
    if declare := getattr(sink, "declare", None):  # the format has types
        declare(clock.schema(list(news)))
    sink.write(news | columns | times)
