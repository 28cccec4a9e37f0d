"""A report on the table in a file or a pipe."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from culpa._core.validation import Table
from culpa.fitted import FittedDetector
from culpa.io.tables import Source, TableError
from culpa.jobs.batches import ADVICE, advice_on_order, codes_for
from culpa.monitoring.incidents import Search
from culpa.monitoring.times import read_times
from culpa.report.content import Content, content


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
) -> Content:
    """Read all rows and say what there is to say; ``time`` and ``id`` are columns with the rows' times and names."""
    names = fitted.columns.names
    carried = list(dict.fromkeys(name for name in (time, id) if name is not None))
    rows, parts, codes = [], [], codes_for(fitted)
    cells: dict[str, list[Any]] = {name: [] for name in carried}
    times: list[Any] = []
    for batch in source.batches(fitted.columns.inputs, carried):
        rows.append(batch.rows)
        parts.append(batch.X)
        codes.add(batch.rows, batch.X[:, fitted.columns.positions])
        times += [] if batch.times is None else [batch.times()]
        for name in carried:
            cells[name].append(pd.Series(batch.carried[name]))
        progress(sum(map(len, rows)))
    if not sum(map(len, rows)):
        raise TableError(f"{source.name}: there are no rows to report on.")
    for text in codes.sentences(names, source.name, ADVICE.missing):
        report(text)
    joined = {name: pd.concat(pieces, ignore_index=True) for name, pieces in cells.items()}
    index = np.concatenate(rows) if id is None else joined[id]
    table = Table(np.concatenate(parts), fitted.columns.known_inputs, pd.DataFrame(index=pd.Index(index)))
    note("explaining")
    try:
        if len({str(getattr(piece, "tz", None)) for piece in times}) > 1:  # the UTC offset changed
            times = [piece.tz_convert("UTC") for piece in times]
        known = times[0].append(times[1:]) if times else None
        when = known if known is not None or time is None else read_times(joined[time], time)
        search = Search.taken_from(options, when, time or "time")
        return content(fitted, table, search, source=source.name, **options)
    except ValueError as error:
        raise TableError(f"{source.name}: {error}{advice_on_order(error)}") from None
