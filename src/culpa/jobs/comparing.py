"""`culpa compare`: two tables of any size, each a period, compared by one detector."""

import math

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa.columns import Reading
from culpa.fitted import FittedDetector
from culpa.io.tables import Source, TableError
from culpa.jobs.batches import NOBODY, Listener, judged_batches
from culpa.jobs.following import following_of
from culpa.monitoring.comparison import Comparison, compare_periods
from culpa.monitoring.periods import Period


def compare(
    fitted: FittedDetector,
    before: Source,
    after: Source,
    *,
    told: Listener = NOBODY,
) -> Comparison:
    """What `PCADetector.compare` says, of rows that come in batches.."""
    explainer, periods, done = fitted.explainer(), [], 0
    with one_blas_thread():
        for source in (before, after):
            period, arrange = Period(explainer), fitted.columns.stream()
            for batch in judged_batches(fitted, following_of(source, fitted.columns), (), told.warning):
                features, cells, shrink = arrange(batch.X, batch.missing)
                with np.errstate(over="ignore", invalid="ignore"):  # checked at the end of the period
                    period.add(Reading(features, cells, batch.rows, shrink=shrink))
                done += len(batch.X)
                told.rows(done)
            _check(period, source)
            periods.append(period)
        return compare_periods(*periods)


def _check(period: Period, source: Source) -> None:
    n, means = period.means()
    if not n.sum():
        raise TableError(f"{source.name}: no row has a score, because all cells are missing.")
    if not math.isfinite(float(means.sum())):
        raise TableError(f"{source.name} contains a number that is too large to score.")
