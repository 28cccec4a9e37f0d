"""`culpa compare`: two tables of any size, each a period, compared by one detector."""

import math
from collections.abc import Callable

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa.columns import History, Reading
from culpa.fitted import FittedDetector
from culpa.io.tables import Source, TableError
from culpa.monitoring.comparison import Comparison, Period, compare_periods


def compare(
    fitted: FittedDetector,
    before: Source,
    after: Source,
    *,
    progress: Callable[[int], None] = lambda rows: None,
) -> Comparison:
    """What `PCADetector.compare` says, of rows that come in batches."""
    explainer, periods, done = fitted.explainer(), [], 0
    names = fitted.columns.names
    with one_blas_thread():
        for source in (before, after):
            period, history = Period(explainer), History(fitted.columns.lags, len(names))
            for batch in source.batches(names, ()):
                with np.errstate(over="ignore", invalid="ignore"):  # checked at the end of the period
                    period.add(Reading(history.join(batch.X), batch.X, batch.rows))
                done += len(batch.X)
                progress(done)
            _check(period, source)
            periods.append(period)
        return compare_periods(*periods)


def _check(period: Period, source: Source) -> None:
    n, means = period.means()
    if not n.sum():
        raise TableError(f"{source.name}: there is no row with a score.")
    if not math.isfinite(float(means.sum())):
        raise TableError(f"{source.name} holds a number too large to be scored.")
