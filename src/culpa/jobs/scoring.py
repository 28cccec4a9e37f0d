"""`culpa score`: the score, limit and flag of every row of a table."""

from collections.abc import Sequence

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa.fitted import FittedDetector
from culpa.io.tables import Sink, Source
from culpa.jobs.batches import Progress, Report, Summary, joined, labels, scored_batches, verdict


def score(
    fitted: FittedDetector,
    source: Source,
    sink: Sink,
    *,
    carried: Sequence[str] = (),
    flagged_only: bool = False,
    progress: Progress = lambda summary: None,
    report: Report = lambda text: None,
) -> Summary:
    """Write score, limit and flag of every row."""
    summary = Summary()
    with one_blas_thread():
        for scored in scored_batches(fitted, source, carried, summary, progress, report):
            keep = scored.anomaly if flagged_only else np.ones(len(scored.rows), dtype=bool)
            sink.write(joined(labels(scored.batch, keep), verdict(scored, keep, fitted.limit)))
    return summary
