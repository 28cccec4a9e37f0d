"""A report on the table in a file or a pipe."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from culpa._core.continuity import RowOrder
from culpa._core.validation import Table
from culpa.fitted import FittedDetector
from culpa.io.tables import Source, TableError
from culpa.jobs.batches import judged_batches
from culpa.jobs.following import Following, advice_on_order, time_of
from culpa.monitoring.incidents import Search
from culpa.monitoring.times import read_times, saying_utc
from culpa.report.content import content


def content_of_table(
    fitted: FittedDetector,
    source: Source,
    *,
    time: str | None = None,
    id: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    report: Callable[[str], None] = lambda text: None,
    note: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> dict[str, Any]:
    """Read all rows and say what there is to say; ``time`` and ``id`` are columns with the rows' times and names."""
    carried = list(dict.fromkeys(name for name in (time, id) if name is not None))
    rows, parts, cuts = [], [], []
    missing: list[Any] = []
    cells: dict[str, list[Any]] = {name: [] for name in carried}
    times: list[Any] = []
    columns, timed = fitted.columns, time is not None
    ordered = Following(source, time or time_of(source, columns), ascending=timed, report=report, step=columns.step)
    for batch in judged_batches(fitted, ordered, carried, report):
        rows.append(batch.rows)
        parts.append(batch.X)
        missing.append(batch.missing)
        cuts.append(np.zeros(len(batch.rows), dtype=bool) if batch.cut is None else batch.cut)
        times += [] if time is None or batch.times is None else [batch.times()]
        for name in carried:
            cells[name].append(pd.Series(batch.carried[name]))
        progress(sum(map(len, rows)))
    if text := ordered.about_steps():
        report(text)
    if not sum(map(len, rows)):
        raise TableError(f"{source.name}: there are no rows to report on.")
    joined = {name: pd.concat(pieces, ignore_index=True) for name, pieces in cells.items()}
    order = RowOrder(np.concatenate(missing), np.concatenate(cuts), np.concatenate(rows))
    index = order.places if id is None else joined[id]
    table = Table(np.concatenate(parts), fitted.columns.known_inputs, pd.DataFrame(index=pd.Index(index)), order)
    note("explaining")
    try:
        if len({str(getattr(piece, "tz", None)) for piece in times}) > 1:  # the UTC offset changed
            times = [piece.tz_convert("UTC") for piece in times]
        known = times[0].append(times[1:]) if times else None
        when = known if known is not None or time is None else read_times(joined[time], time)
        when = saying_utc(when, joined[time]) if time is not None else when
        search = Search.taken_from(options, when, time or "time")
        return content(fitted, table, search, source=source.name, **options)
    except ValueError as error:
        raise TableError(f"{source.name}: {error}{advice_on_order(error)}") from None
