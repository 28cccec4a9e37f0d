"""Scores and explanations of a table of any size, a batch at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.json_values import plain
from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats
from culpa.columns import History, Reading
from culpa.detector import PCADetector
from culpa.explanation import Explanation
from culpa.io.fill_values import Codes
from culpa.io.tables import Batch, Sink, Source, TableError
from culpa.jobs.batch_explainer import Blame

Mask = NDArray[np.bool_]

_KNOWN = ("row", "score")  # columns of a table of culprits that the answer has already


@dataclass
class Summary:
    """What a run has seen so far."""

    rows: int = 0
    anomalies: int = 0
    empty: int = 0  # rows without any observed feature, which get no score
    incidents: int = 0


@dataclass(frozen=True)
class Scored:
    """A batch with its rows as the model takes them, their scores and flags."""

    batch: Batch
    features: Floats
    score: Floats
    anomaly: Mask

    def reading(self, which: Any) -> Reading:
        """Some of the rows, to be explained in Arrow tables."""
        import pyarrow as pa

        features = self.features[which]
        return Reading(features, self.batch.X[which], np.arange(len(features)), native=pa.table({}))


Progress = Callable[[Summary], None]
Report = Callable[[str], None]  # told what is odd about the table


def score(
    detector: PCADetector,
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
        for scored in scored_batches(detector, source, carried, summary, progress, report):
            keep = scored.anomaly if flagged_only else np.ones(len(scored.score), dtype=bool)
            sink.write(_joined(_labels(scored.batch, keep), _verdict(scored, keep, detector.limit_)))
    return summary


def explain(
    detector: PCADetector,
    source: Source,
    sink: Sink,
    *,
    carried: Sequence[str] = (),
    all_rows: bool = False,
    top: int | None = None,
    inline: bool = False,
    progress: Progress = lambda summary: None,
    report: Report = lambda text: None,
    note: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Write who is to blame, for flagged rows or for all.

    By default a column of Shapley values per feature; with ``top``, a line for each of the worst culprits of a row; with
    ``inline``, every row is answered, and those to be explained carry a list of their worst culprits.
    """
    summary = Summary()
    blame = Blame(detector.explainer(), feature_names(detector), live=source.live, note=note)
    with one_blas_thread():
        for scored in scored_batches(detector, source, carried, summary, progress, report):
            keep = ~np.isnan(scored.score) if all_rows else scored.anomaly
            if inline:
                sink.write(_inline(scored, keep, blame, detector.limit_, top or 3))
            elif top is None:
                sink.write(_wide(scored, keep | all_rows, blame, detector.limit_))
            else:
                sink.write(_long(scored, keep, blame, detector.limit_, top))
    return summary


def feature_names(detector: PCADetector) -> tuple[str, ...]:
    """Names of the columns that a detector looks for."""
    return detector.to_fitted_model().columns.names


def codes_for(detector: PCADetector) -> Codes:
    """To look for numbers like -9999 in rows that the detector judges."""
    n, std = len(feature_names(detector)), detector.scale_ * np.sqrt(np.diag(detector.model_.covariance_))
    return Codes(detector.mean_[:n], std[:n])


def scored_batches(
    detector: PCADetector, source: Source, carried: Sequence[str], summary: Summary, progress: Progress, report: Report
) -> Iterator[Scored]:
    """All rows with their scores and flags; one batch without rows for a table without any."""
    normal, statistic = detector.to_fitted_model(), detector._score
    names, codes = feature_names(detector), codes_for(detector)
    history = History(normal.columns.lags, len(names))
    for batch in source.batches(names, carried):
        features = history.join(batch.X)
        with np.errstate(over="ignore", invalid="ignore"):  # looked for in the next line
            values = statistic(normal.standardise(features))
        _check_finite(values, features, batch, source)
        anomaly = values > detector.limit_  # false for NaN
        summary.rows += len(values)
        summary.anomalies += int(anomaly.sum())
        summary.empty += int(np.isnan(values).sum())
        codes.add(batch.rows, batch.X)
        yield Scored(batch, features, values, anomaly)
        progress(summary)
    for text in codes.sentences(names, source.name):
        report(text)
    if not summary.rows:  # a table without rows has an answer without rows
        nothing = np.empty((0, len(detector.mean_)))
        yield Scored(_no_rows(len(names), carried), nothing, np.empty(0), np.empty(0, dtype=bool))


def _check_finite(values: Floats, features: Floats, batch: Batch, source: Source) -> None:
    """Only a row without any number may go without a score: one that overflows must not pass for normal."""
    if np.isfinite(values).all():
        return
    lost = ~np.isfinite(values) & ~np.isnan(features).all(axis=1)
    if lost.any():
        raise TableError(f"{source.name}: row {batch.rows[lost][0]} holds a number too large to be scored.")


def _no_rows(n_features: int, carried: Sequence[str]) -> Batch:
    import pyarrow as pa

    empty = {name: pa.array([], pa.string()) for name in carried}
    return Batch(np.empty(0, dtype=np.int64), np.empty((0, n_features)), empty)


def _labels(batch: Batch, keep: Mask) -> dict[str, Any]:
    """What the user calls the rows: the carried columns, else positions in the table."""
    if not batch.carried:
        return {"row": batch.rows[keep]}
    return {name: _take(cells, np.flatnonzero(keep)) for name, cells in batch.carried.items()}


def _take(cells: Any, positions: NDArray[np.intp]) -> Any:
    if isinstance(cells, list):
        return [cells[i] for i in positions]
    return cells if len(positions) == len(cells) and _ascending(positions) else cells.take(_index(positions))


def _ascending(positions: NDArray[np.intp]) -> bool:
    return bool((np.diff(positions) > 0).all())


def _index(positions: NDArray[np.intp]) -> Any:
    import pyarrow as pa

    return pa.array(positions)


def _verdict(scored: Scored, keep: Mask, limit: float) -> dict[str, Any]:
    values = scored.score[keep]
    return {"score": values, "limit": np.full(len(values), limit), "anomaly": scored.anomaly[keep]}


def _joined(first: Mapping[str, Any], second: Mapping[str, Any], own: Sequence[str] = ()) -> dict[str, Any]:
    """Both sets of columns; names that are taken, by ``own`` first of all, get an underscore."""
    result: dict[str, Any] = {}
    for name, cells in [*first.items(), *second.items()]:
        while name in result or name in own:
            name += "_"
        result[name] = cells
    return result


def _wide(scored: Scored, keep: Mask, blame: Blame, limit: float) -> dict[str, Any]:
    values = blame.values(scored.reading(slice(None) if keep.all() else keep))
    columns = _joined(_labels(scored.batch, keep), _verdict(scored, keep, limit), own=blame.names)
    return columns | dict(zip(blame.names, np.ascontiguousarray(values.T), strict=True))


def _long(scored: Scored, keep: Mask, blame: Blame, limit: float, k: int) -> dict[str, Any]:
    which = np.flatnonzero(keep)
    table = blame.explain(scored.reading(which)).top(k)
    at = which[table.column("row").to_numpy()] if table.num_rows else which[:0]
    labels = {"row": scored.batch.rows[at]}
    if scored.batch.carried:
        labels = {name: _take(cells, at) for name, cells in scored.batch.carried.items()}
    verdict = {"score": scored.score[at], "limit": np.full(len(at), limit)}
    rest = {name: table.column(name).combine_chunks() for name in table.column_names if name not in _KNOWN}
    return _joined(labels, verdict | rest)


def _inline(scored: Scored, keep: Mask, blame: Blame, limit: float, k: int) -> dict[str, Any]:
    everything = np.ones(len(scored.score), dtype=bool)
    columns = _joined(_labels(scored.batch, everything), _verdict(scored, everything, limit))
    culprits: list[Any] = [...] * len(keep)
    which = np.flatnonzero(keep)
    if len(which):
        for position, found in _by_row(blame.explain(scored.reading(which)), k).items():
            culprits[which[position]] = found
    return _joined(columns, {"culprits": culprits})


def _by_row(why: Explanation, k: int) -> dict[int, list[dict[str, Any]]]:
    """The worst culprits of each row, as plain dictionaries."""
    result: dict[int, list[dict[str, Any]]] = {}
    for line in why.top(k).to_pylist():
        culprit = {name: plain(cell) for name, cell in line.items() if name not in _KNOWN}
        result.setdefault(line["row"], []).append(culprit)
    return result
