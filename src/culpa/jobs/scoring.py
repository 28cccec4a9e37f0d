"""`culpa score`: score, limit, flag and p-value of every row of a table."""

from collections.abc import Sequence

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats
from culpa.fitted import FittedDetector
from culpa.io.tables import Sink, Source, TableError
from culpa.jobs.batches import Progress, Report, Summary, joined, labels, scored_batches, verdict
from culpa.scores.held_out import discovery_level


def score(
    fitted: FittedDetector,
    source: Source,
    sink: Sink,
    *,
    carried: Sequence[str] = (),
    flagged_only: bool = False,
    fdr: float | None = None,
    progress: Progress = lambda summary: None,
    report: Report = lambda text: None,
) -> Summary:
    """Write score, limit, flag and p-value of every row; p-values are missing where the limit is a formula.

    With operating modes, there is a column for the mode of each row, counted from 1.

    ``fdr`` is a false discovery rate. It adds a column that marks discoveries among all rows, which are read twice for it.
    """
    summary = Summary()
    with one_blas_thread():
        level = None if fdr is None else _level(fitted, source, fdr)
        for scored in scored_batches(fitted, source, carried, summary, progress, report):
            p_value = _p_values(fitted, scored.rows.score)
            keep = scored.anomaly if flagged_only else np.ones(len(scored.rows), dtype=bool)
            found = verdict(scored, keep, fitted.limit) | {"p_value": p_value[keep]}
            if fitted.n_modes is not None:
                found["mode"] = fitted.model.modes_of(scored.rows.standard[keep]) + 1
            if level is not None:
                discovery = p_value <= level
                summary.discoveries = (summary.discoveries or 0) + int(discovery.sum())
                found["discovery"] = discovery[keep]
            sink.write(joined(labels(scored.batch, keep), found))
    return summary


def _level(fitted: FittedDetector, source: Source, fdr: float) -> float:
    """The largest p-value of a discovery."""
    if fitted.p_values(np.empty(0)) is None:
        raise TableError(
            "a false discovery rate needs p-values, but a formula limit does not provide them. Fit with --limit auto."
        )
    if not source.again:
        raise TableError(f"--fdr reads the rows twice, which is not possible with {source.name}. Pass a file.")
    batches = scored_batches(fitted, source, (), Summary(), lambda summary: None, lambda text: None)
    return discovery_level(np.concatenate([_p_values(fitted, scored.rows.score) for scored in batches]), fdr)


def _p_values(fitted: FittedDetector, score: Floats) -> Floats:
    found = fitted.p_values(score)
    return np.full(len(score), np.nan) if found is None else found
