"""`culpa explain`: which features are to blame for the score of each row of a table."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from culpa._core.choices import Parts
from culpa._core.json_values import to_json_value
from culpa._core.kinds import top_of
from culpa._core.parameters import EXPLAINER
from culpa._core.threads import one_blas_thread
from culpa._core.types import Mask
from culpa.explaining.options import ExplainerOptions
from culpa.explanation import Explanation
from culpa.fitted import FittedDetector
from culpa.io.tables import Sink, Source
from culpa.jobs.batch_explainer import BatchExplainer
from culpa.jobs.batches import (
    Progress,
    Report,
    ScoredBatch,
    Summary,
    joined,
    labels,
    scored_batches,
    take,
    verdict,
)
from culpa.scores import ScoredRows
from culpa.shapley.leading import on_command_line

_KNOWN = ("row", "score")  # columns of a table of culprits that the answer has already


def explain(
    fitted: FittedDetector,
    source: Source,
    sink: Sink,
    *,
    carried: Sequence[str] = (),
    all_rows: bool = False,
    top: int | None = None,
    shortest: float | None = None,
    counterfactual: bool = False,
    upstream: Sequence[Sequence[str]] = (),
    tolerance: float | str = EXPLAINER["tolerance"].default,
    inline: bool = False,
    progress: Progress = lambda summary: None,
    report: Report = lambda text: None,
    note: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Write which features are to blame, for flagged rows or for all.

    By default a column of Shapley values per feature, or group of features; with ``top``, a line for each of the worst
    culprits of a row; with ``shortest``, a line for as many as account for that share of the score; with
    ``counterfactual``, a line for each feature to change; with ``inline``, every row is answered, and those to be
    explained carry a list of their worst culprits. ``upstream`` and ``tolerance`` are those of `culpa.Explainer`.
    """
    lines = lines_of(top, shortest, fitted.limit if counterfactual else None)
    parts: Parts = "score" if counterfactual else None
    summary = Summary()
    options: ExplainerOptions = {"upstream": upstream} if upstream else {}
    if tolerance != EXPLAINER["tolerance"].default:  # the explainer with all defaults may be compiled already
        options["tolerance"] = tolerance
    explainer = BatchExplainer(fitted.explainer(**options), live=source.live, note=note)
    with one_blas_thread():
        for scored in scored_batches(fitted, source, carried, summary, progress, report):
            keep = ~np.isnan(scored.rows.score) if all_rows else scored.anomaly
            if inline:
                sink.write(_inline(scored, keep, explainer, fitted.limit, top or 3))
            elif lines is None:
                sink.write(wide_columns(scored, keep | all_rows, explainer, fitted.limit))
            else:
                sink.write(long_columns(scored, keep, partial(explainer.explain, parts=parts), fitted.limit, lines))
    if text := explainer.doubts.sentence(top_of(tolerance)):
        report(f"{text} {on_command_line(top_of(tolerance))}")
    return summary


def lines_of(top: int | None, shortest: float | None, limit: float | None) -> Callable[[Explanation], Any] | None:
    """What makes the lines of an answer with several per row; ``None`` if it has one per row."""
    if limit is not None:
        return lambda why: why.counterfactual(limit).to_frame()
    if shortest is not None:
        return lambda why: why.shortest(shortest).to_frame()
    return None if top is None else lambda why: why.top(top)


def wide_columns(scored: ScoredBatch, keep: Mask, explainer: BatchExplainer, limit: float) -> dict[str, Any]:
    """An answer with one line per row: labels, score, limit, flag, and the Shapley value of every feature or group."""
    names = explainer.explainer.player_names
    values = explainer.values(scored.rows if keep.all() else scored.rows.choose(keep))
    columns = joined(labels(scored.batch, keep), verdict(scored, keep, limit), own=names)
    return columns | dict(zip(names, np.ascontiguousarray(values.T), strict=True))


def long_columns(
    scored: ScoredBatch,
    keep: Mask,
    explain: Callable[[ScoredRows], Explanation],
    limit: float,
    lines: Callable[[Explanation], Any],
) -> dict[str, Any]:
    """An answer with several lines per row: labels, score and limit, beside what ``lines`` says about the row."""
    which = np.flatnonzero(keep)
    table = lines(explain(scored.rows.choose(which)))
    at = table.column("row").to_numpy() if table.num_rows else which[:0]  # positions in the batch
    labels = {"row": scored.batch.rows[at]}
    if scored.batch.carried:
        labels = {name: take(cells, at) for name, cells in scored.batch.carried.items()}
    verdict = {"score": scored.rows.score[at], "limit": np.full(len(at), limit)}
    rest = {name: _cells(table.column(name)) for name in table.column_names if name not in _KNOWN}
    return joined(labels, verdict | rest)


def _cells(column: Any) -> Any:
    """Numbers as an array, of which sinks write NaN, which groups have for actual and expected, as a missing cell."""
    return column.to_numpy() if column.type == "double" else column.combine_chunks()


def _inline(scored: ScoredBatch, keep: Mask, explainer: BatchExplainer, limit: float, k: int) -> dict[str, Any]:
    everything = np.ones(len(scored.rows), dtype=bool)
    columns = joined(labels(scored.batch, everything), verdict(scored, everything, limit))
    culprits: list[Any] = [...] * len(keep)
    if keep.any():
        rows = scored.rows if keep.all() else scored.rows.choose(np.flatnonzero(keep))
        for position, found in _by_row(explainer.explain(rows), k).items():
            culprits[position] = found
    return joined(columns, {"culprits": culprits})


def _by_row(why: Explanation, k: int) -> dict[int, list[dict[str, Any]]]:
    """The worst culprits of each row, as plain dictionaries."""
    result: dict[int, list[dict[str, Any]]] = {}
    columns = {name: to_json_value(cells) for name, cells in why.top_columns(k).items()}
    rows, told = columns["row"], {name: cells for name, cells in columns.items() if name not in _KNOWN}
    for row, *cells in zip(rows, *told.values(), strict=True):
        result.setdefault(row, []).append(dict(zip(told, cells, strict=True)))
    return result
