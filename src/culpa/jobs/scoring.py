"""`culpa score`: score, limit, flag and p-value of every row of a table."""

from collections.abc import Sequence

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats
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
    """Write score, limit, flag and p-value of every row; p-values are missing where the limit is a formula."""
    summary = Summary()
    with one_blas_thread():
        for scored in scored_batches(fitted, source, carried, summary, progress, report):
            keep = scored.anomaly if flagged_only else np.ones(len(scored.rows), dtype=bool)
            found = verdict(scored, keep, fitted.limit)
            sink.write(joined(labels(scored.batch, keep), found | {"p_value": _p_values(fitted, found["score"])}))
    return summary


def _p_values(fitted: FittedDetector, score: Floats) -> Floats:
    found = fitted.p_values(score)
    return np.full(len(score), np.nan) if found is None else found
