"""Tables of any size, scored batch by batch: what scoring, explaining and finding incidents share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from culpa._core.continuity import RowOrder
from culpa._core.types import Floats, Mask, Positions
from culpa.columns import Reading
from culpa.columns.columns import Arrange
from culpa.fitted import FittedDetector
from culpa.io.tables import Batch, TableError
from culpa.io.tables.columns import take_as_missing
from culpa.io.tables.table import take
from culpa.jobs.following import Following, RowSource, following_of
from culpa.monitoring.fill_values import Advice, Codes
from culpa.scores import ScoredRows


@dataclass
class Summary:
    """What a run has seen so far."""

    rows: int = 0
    anomalies: int = 0
    empty: int = 0  # rows without any observed feature, which get no score
    incidents: int = 0
    unconfirmed: int = 0  # stretches of flagged rows with too little evidence
    expected: str = ""  # how many false incidents
    skipped: int = 0  # rows that came late or without a time
    discoveries: int | None = None  # where a false discovery rate was asked for


@dataclass(frozen=True)
class ScoredBatch:
    """A batch of a table, its rows with their scores, and which of them are flagged."""

    batch: Batch
    rows: ScoredRows
    anomaly: Mask

    def some(self, at: Positions) -> ScoredRows:
        """Some of the rows; as they are, if these are all."""
        return self.rows if len(at) == len(self.rows) else self.rows.choose(at)


@dataclass(frozen=True)
class Listener:
    """Who is told how a job gets on: the number of rows read so far, warnings, and the current step."""

    rows: Callable[[int], None] = lambda n: None
    warning: Callable[[str], None] = lambda text: None
    step: Callable[[str], None] = lambda text: None


NOBODY = Listener()
ADVICE = Advice(take_as_missing, "leave out such rows with --trim")


def codes_for(fitted: FittedDetector) -> Codes:
    """Looks for numbers like -9999 in rows that the detector judges."""
    n, model = len(fitted.columns.names), fitted.model
    if model.margins is not None:
        return Codes(model.usual[:n], model.usual_spread[:n])
    variance = model.scale**2 * fitted.ppca.sample_.diagonal
    if model.context is not None:
        variance = variance + np.diag(
            model.context.coefficients @ model.context.covariance @ model.context.coefficients.T
        )
    std = np.sqrt(variance)
    return Codes(model.centre[:n], std[:n])


def judged_batches(
    fitted: FittedDetector, following: Following, carried: Sequence[str], report: Callable[[str], None]
) -> Iterator[Batch]:
    """The rows of a table that a detector judges; ``report`` receives warnings about numbers like -9999 among them."""
    columns, codes = fitted.columns, codes_for(fitted)
    for batch in following.batches(columns.inputs, carried):
        codes.add(batch.rows, batch.X[:, columns.positions])
        for row in codes.first_rows() - codes.moments.keys():
            if moment := moment_of(batch, batch.rows == row, following.source):
                codes.moments[row] = moment
        yield batch
    for text in codes.sentences(columns.names, following.source.name, ADVICE.missing):
        report(text)


def scored_batches(
    fitted: FittedDetector,
    source: RowSource,
    carried: Sequence[str],
    summary: Summary,
    told: Listener = NOBODY,
    following: Following | None = None,
) -> Iterator[ScoredBatch]:
    """All rows with their scores and flags; one batch without rows for a table without any.

    Rows are those of ``following``, if there is one.
    """
    columns, arrange = fitted.columns, fitted.columns.stream()
    following = following or following_of(source, columns)
    for batch in judged_batches(fitted, following, carried, told.warning):
        scored = _score_batch(fitted, batch, arrange, source)
        summary.rows += len(scored.rows)
        summary.anomalies += int(scored.anomaly.sum())
        summary.empty += int(np.isnan(scored.rows.score).sum())
        summary.skipped = following.skipped
        yield scored
        told.rows(summary.rows)
    if text := following.about_steps():
        told.warning(text)
    if not summary.rows:  # a table without rows has an answer without rows
        batch = _no_rows(len(columns.inputs), carried)
        yield _score_batch(fitted, batch, arrange, source)


def in_memory(batches: Sequence[Batch], n_columns: int) -> tuple[Floats, RowOrder]:
    """The rows of all batches as one matrix, and how they follow each other."""
    X = np.concatenate([np.empty((0, n_columns)), *(batch.X for batch in batches)])
    missing = np.concatenate([np.zeros(0), *(batch.missing for batch in batches if batch.missing is not None)])
    cuts = (np.zeros(len(batch.rows), dtype=bool) if batch.cut is None else batch.cut for batch in batches)
    places = np.concatenate([np.zeros(0, dtype=np.int64), *(batch.rows for batch in batches)])
    return X, RowOrder(missing, np.concatenate([np.zeros(0, dtype=bool), *cuts]), places)


def moment_of(batch: Batch, which: Mask, source: RowSource) -> str:
    """The time of a row of a batch as its table has it, if the batch has one: people know times, not numbers of rows."""
    cells, at = batch.carried.get(getattr(source, "time", None) or ""), np.flatnonzero(which)
    if cells is None or not len(at):
        return ""
    cell = take(cells, at[:1])[0]
    return str(cell.as_py() if hasattr(cell, "as_py") else cell)


def _score_batch(fitted: FittedDetector, batch: Batch, arrange: Arrange, source: RowSource) -> ScoredBatch:
    """Score and flag the rows of a batch; ``arrange`` turns cells into features."""
    import pyarrow as pa

    # labels are positions in the batch, and answers are Arrow tables
    features, cells, shrink = arrange(batch.X, batch.missing)
    reading = Reading(features, cells, np.arange(len(batch.X)), native=pa.table({}), shrink=shrink)
    with np.errstate(over="ignore", invalid="ignore"):  # checked right after
        rows = fitted.rows(reading)
    _check_finite(rows, batch, source)
    return ScoredBatch(batch, rows, fitted.is_flagged(rows.score))


def _check_finite(rows: ScoredRows, batch: Batch, source: RowSource) -> None:
    """Only a row without any number may lack a score: a row whose score overflows must not count as normal."""
    if np.isfinite(rows.score).all():
        return
    lost = ~np.isfinite(rows.score) & ~np.isnan(rows.standard).all(axis=1)
    if lost.any():
        moment = moment_of(batch, lost, source)
        where = f"the row of {moment}" if moment else f"row {batch.rows[lost][0]}"
        raise TableError(f"{source.name}: {where} contains a number that is too large to score.")


def _no_rows(n_features: int, carried: Sequence[str]) -> Batch:
    import pyarrow as pa

    empty = {name: pa.array([], pa.string()) for name in carried}
    return Batch(np.empty(0, dtype=np.int64), np.empty((0, n_features)), empty)


def labels(batch: Batch, at: Positions) -> dict[str, Any]:
    """Labels of some rows: the carried columns, else positions in the table."""
    return {name: take(cells, at) for name, cells in batch.carried.items()} or {"row": batch.rows[at]}


def joined(first: Mapping[str, Any], second: Mapping[str, Any], own: Sequence[str] = ()) -> dict[str, Any]:
    """Both sets of columns. A name that is taken, also by one of the features ``own``, gets an underscore at its end."""
    result: dict[str, Any] = {}
    for name, cells in [*first.items(), *second.items()]:
        while name in result or name in own:
            name += "_"
        result[name] = cells
    return result
