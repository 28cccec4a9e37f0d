"""What is said about the rows of a table, of any size: ``culpa score``, ``culpa explain`` and their counterparts elsewhere.

A `Say` turns some rows of a scored batch into columns, and `answers` goes through a table. The command line writes its
answers to files and pipes, and `culpa.jobs.record_batches` hands them to engines.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from culpa._core.json_values import to_json_value
from culpa._core.kinds import top_of
from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats, Positions
from culpa.explaining.batch_explainer import BatchExplainer
from culpa.explaining.lines import top_columns
from culpa.fitted import FittedDetector
from culpa.io.tables import Sink, Source, TableError
from culpa.jobs.batches import NOBODY, Listener, ScoredBatch, Summary, joined, labels, scored_batches
from culpa.jobs.following import RowSource
from culpa.scores.held_out import discovery_level
from culpa.shapley.leading import on_command_line

Columns = dict[str, Any]
Say = Callable[[ScoredBatch, Positions], Columns]  # what is said about some rows of a batch, which are to be answered


def answers(
    fitted: FittedDetector,
    source: RowSource,
    say: Say,
    *,
    carried: Sequence[str] = (),
    flagged_only: bool = False,
    summary: Summary | None = None,
    told: Listener = NOBODY,
) -> Iterator[Columns]:
    """The answers to all rows of a table, or to those that are flagged, batch by batch."""
    with one_blas_thread():
        for scored in scored_batches(fitted, source, carried, summary or Summary(), told):
            yield say(scored, np.flatnonzero(scored.anomaly if flagged_only else np.ones(len(scored.rows))))


def score(
    fitted: FittedDetector,
    source: Source,
    sink: Sink,
    *,
    carried: Sequence[str] = (),
    flagged_only: bool = False,
    fdr: float | None = None,
    told: Listener = NOBODY,
) -> Summary:
    """Write score, limit, flag and p-value of every row; p-values are missing where the limit is a formula.

    With operating modes, there is a column for the mode of each row, counted from 1.

    ``fdr`` is a false discovery rate. It adds a column that marks discoveries among all rows, which are read twice for it.
    """
    summary, level = Summary(), None
    if fdr is not None:
        level, summary.discoveries = _discoveries(fitted, source, fdr)
    say = scores(fitted, level)
    for columns in answers(fitted, source, say, carried=carried, flagged_only=flagged_only, summary=summary, told=told):
        sink.write(columns)
    return summary


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
    inline: bool = False,
    options: Mapping[str, Any] | None = None,
    told: Listener = NOBODY,
) -> Summary:
    """Write which features are to blame, for flagged rows or for all.

    By default a column of Shapley values per feature, or group of features; with ``top``, a line for each of the worst
    culprits of a row; with ``shortest``, a line for as many as account for that share of the score; with
    ``counterfactual``, a line for each feature to change; with ``inline``, every row is answered, and those to be
    explained carry a list of their worst culprits. ``options`` are those of `culpa.Explainer`.
    """
    summary, chosen = Summary(), dict(options or {})
    explainer = BatchExplainer(fitted.explainer(**chosen), live=source.live, note=told.step)
    if inline:
        say = inline_culprits(explainer, fitted.limit, top or 3, all_rows=all_rows)
    else:
        say = blame(explainer, fitted.limit, top, shortest, counterfactual=counterfactual)
    flagged_only = not (all_rows or inline)
    for columns in answers(fitted, source, say, carried=carried, flagged_only=flagged_only, summary=summary, told=told):
        sink.write(columns)
    leading = top_of(chosen.get("tolerance"))
    if text := explainer.doubts.sentence(leading):
        told.warning(f"{text} {on_command_line(leading)}")
    return summary


def scores(fitted: FittedDetector, level: float | None = None) -> Say:
    """Score, limit, flag and p-value of each row; its mode, if there are modes; its discovery, below p-value ``level``."""

    def say(scored: ScoredBatch, at: Positions) -> Columns:
        found = _verdict(scored, at, fitted.limit)
        found["p_value"] = _p_values(fitted, found["score"])
        if fitted.n_modes is not None:
            found["mode"] = fitted.model.standard.mode_of(scored.rows.standard[at]) + 1
        if level is not None:
            found["discovery"] = found["p_value"] <= level
        return joined(labels(scored.batch, at), found)

    return say


def blame(
    explainer: BatchExplainer,
    limit: float,
    top: int | None = None,
    shortest: float | None = None,
    *,
    counterfactual: bool = False,
) -> Say:
    """Shapley values by default, else several lines per row."""
    if counterfactual:
        return _lines(lambda rows: explainer.explain(rows, "score").counterfactual(limit).to_frame(), limit)
    samples = "exact" not in explainer.explainer.chosen
    if shortest is not None:
        return _lines(lambda rows: explainer.explain(rows).shortest(shortest).to_frame(), limit, samples=samples)
    if top is not None:
        return _lines(lambda rows: explainer.explain(rows).top(top), limit, samples=samples)
    return _values(explainer, limit)


def _values(explainer: BatchExplainer, limit: float) -> Say:
    """Score, limit and flag of each row, and the Shapley value of every feature or group."""
    names = explainer.explainer.player_names

    def say(scored: ScoredBatch, at: Positions) -> Columns:
        values = explainer.values(scored.some(at))
        columns = joined(labels(scored.batch, at), _verdict(scored, at, limit), own=names)
        return columns | dict(zip(names, np.ascontiguousarray(values.T), strict=True))

    return say


def _lines(table_of: Callable[[Any], Any], limit: float, *, samples: bool = False) -> Say:
    """Several lines per row: score and limit, beside what a table says; rows without a score have none.

    Where values are sampled, all batches have standard errors, also those whose rows are exact, or that have none.
    """

    def say(scored: ScoredBatch, at: Positions) -> Columns:
        table = table_of(scored.rows.choose(chosen := at[~np.isnan(scored.rows.score[at])]))
        places = table.column("row").to_numpy() if table.num_rows else chosen[:0]  # positions in the batch
        found = _verdict(scored, places, limit)
        del found["anomaly"]
        rest: Columns = {}
        for name, cells in zip(table.column_names, table.columns, strict=True):
            if name == "actual" and samples:
                rest.setdefault("std_error", np.zeros(len(places)))
            # numbers as an array: sinks write its NaN, which groups have for actual and expected, as a missing cell
            if name not in ("row", "score"):
                rest[name] = cells.to_numpy() if cells.type == "double" else cells.combine_chunks()
        return joined(labels(scored.batch, places), found | rest)

    return say


def inline_culprits(explainer: BatchExplainer, limit: float, k: int, *, all_rows: bool) -> Say:
    """Score, limit and flag of each row; the flagged rows, or all, carry a list of their ``k`` worst culprits."""

    def say(scored: ScoredBatch, at: Positions) -> Columns:
        explained = at[(scored.anomaly | all_rows)[at] & ~np.isnan(scored.rows.score[at])]
        culprits: list[Any] = [...] * len(at)
        if len(explained):
            found = top_columns(explainer.explain(scored.some(explained)), k)
            told = {name: to_json_value(cells) for name, cells in found.items() if name != "score"}
            for row, *cells in zip(*told.values(), strict=True):
                culprits[row] = [
                    *([] if culprits[row] is ... else culprits[row]),
                    dict(zip(list(told)[1:], cells, strict=True)),
                ]
        return joined(labels(scored.batch, at), _verdict(scored, at, limit) | {"culprits": culprits})

    return say


def _verdict(scored: ScoredBatch, at: Positions, limit: float) -> Columns:
    return {"score": scored.rows.score[at], "limit": np.full(len(at), limit), "anomaly": scored.anomaly[at]}


def _discoveries(fitted: FittedDetector, source: Source, fdr: float) -> tuple[float, int]:
    """The largest p-value of a discovery, and how many there are."""
    if fitted.p_values(np.empty(0)) is None:
        raise TableError(
            "a false discovery rate needs p-values, but a formula limit does not provide them. Fit with --limit auto."
        )
    if not source.again:
        raise TableError(f"--fdr reads the rows twice, which is not possible with {source.name}. Pass a file.")
    read = answers(fitted, source, lambda scored, at: {"p_value": _p_values(fitted, scored.rows.score)})
    found = np.concatenate([columns["p_value"] for columns in read])
    level = discovery_level(found, fdr)
    return level, int((found <= level).sum())


def _p_values(fitted: FittedDetector, score: Floats) -> Floats:
    found = fitted.p_values(score)
    return np.full(len(score), np.nan) if found is None else found
