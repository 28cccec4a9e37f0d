"""`culpa score`: score, limit, flag and p-value of every row of a table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats, Mask
from culpa.fitted import FittedDetector
from culpa.io.tables import Sink, Source, TableError
from culpa.jobs.batches import Progress, Report, ScoredBatch, Summary, joined, labels, scored_batches, verdict
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
            keep = scored.anomaly if flagged_only else np.ones(len(scored.rows), dtype=bool)
            found = score_columns(fitted, scored, keep)
            if level is not None:
                discovery = _p_values(fitted, scored.rows.score) <= level
                summary.discoveries = (summary.discoveries or 0) + int(discovery.sum())
                found["discovery"] = discovery[keep]
            sink.write(joined(labels(scored.batch, keep), found))
    return summary


def score_columns(fitted: FittedDetector, scored: ScoredBatch, keep: Mask) -> dict[str, Any]:
    """What is said about some rows of a batch: score, limit, flag and p-value, and the mode of a detector with modes."""
    found = verdict(scored, keep, fitted.limit) | {"p_value": _p_values(fitted, scored.rows.score[keep])}
    if fitted.n_modes is not None:
        found["mode"] = fitted.model.modes_of(scored.rows.standard[keep]) + 1
    return found


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
