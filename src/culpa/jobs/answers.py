"""What is said about the rows of a table, of any size: ``culpa score``, ``culpa explain`` and their counterparts elsewhere.

A `Say` turns a scored batch into columns. The command line writes them, and `culpa.jobs.record_batches` hands them to
engines.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from culpa._core.json_values import to_json_value
from culpa._core.kinds import top_of
from culpa._core.parameters import EXPLAINER
from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats, Mask, Positions
from culpa.explaining.batch_explainer import BatchExplainer
from culpa.explaining.explanation import Explanation
from culpa.explaining.options import ExplainerOptions
from culpa.fitted import FittedDetector
from culpa.io.tables import Sink, Source, TableError
from culpa.jobs.batches import Progress, Report, ScoredBatch, Summary, joined, labels, scored_batches
from culpa.scores.held_out import discovery_level
from culpa.shapley.leading import on_command_line

Say = Callable[[ScoredBatch, Mask], dict[str, Any]]  # columns about some rows of a batch

_KNOWN = ("row", "score")  # columns of a table of culprits that the answer has already


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
            if level is not None:
                discovered = int((_p_values(fitted, scored.rows.score) <= level).sum())
                summary.discoveries = (summary.discoveries or 0) + discovered
            sink.write(Scores(fitted, level)(scored, scored.anomaly if flagged_only else scored.everything))
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
    summary = Summary()
    options: ExplainerOptions = {"upstream": upstream} if upstream else {}
    if tolerance != EXPLAINER["tolerance"].default:  # the explainer with all defaults may be compiled already
        options["tolerance"] = tolerance
    explainer = BatchExplainer(fitted.explainer(**options), live=source.live, note=note)
    say: Say = Inline(explainer, fitted.limit, top or 3)
    if not inline:
        say = blame(explainer, fitted.limit, top, shortest, counterfactual=counterfactual)
    with one_blas_thread():
        for scored in scored_batches(fitted, source, carried, summary, progress, report):
            sink.write(say(scored, scored.everything if all_rows else scored.anomaly))
    if text := explainer.doubts.sentence(top_of(tolerance)):
        report(f"{text} {on_command_line(top_of(tolerance))}")
    return summary


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
        return Lines(lambda rows: explainer.explain(rows, "score").counterfactual(limit).to_frame(), limit)
    if shortest is not None:
        return Lines(lambda rows: explainer.explain(rows).shortest(shortest).to_frame(), limit)
    if top is not None:
        return Lines(lambda rows: explainer.explain(rows).top(top), limit)
    return Values(explainer, limit)


@dataclass(frozen=True)
class Scores:
    """Score, limit, flag and p-value of each row; its mode, if there are modes; its discovery, where ``level`` is known."""

    fitted: FittedDetector
    level: float | None = None  # the largest p-value of a discovery

    def __call__(self, scored: ScoredBatch, keep: Mask) -> dict[str, Any]:
        """The columns of an answer."""
        at = np.flatnonzero(keep)
        found = _verdict(scored, at, self.fitted.limit)
        found["p_value"] = _p_values(self.fitted, found["score"])
        if self.fitted.n_modes is not None:
            found["mode"] = self.fitted.model.standard.mode_of(scored.rows.standard[at]) + 1
        if self.level is not None:
            found["discovery"] = found["p_value"] <= self.level
        return joined(labels(scored.batch, at), found)


@dataclass(frozen=True)
class Values:
    """Score, limit and flag of each row, and the Shapley value of every feature or group."""

    explainer: BatchExplainer
    limit: float

    def __call__(self, scored: ScoredBatch, keep: Mask) -> dict[str, Any]:
        """The columns of an answer."""
        names, at = self.explainer.explainer.player_names, np.flatnonzero(keep)
        values = self.explainer.values(scored.rows if keep.all() else scored.rows.choose(at))
        columns = joined(labels(scored.batch, at), _verdict(scored, at, self.limit), own=names)
        return columns | dict(zip(names, np.ascontiguousarray(values.T), strict=True))


@dataclass(frozen=True)
class Lines:
    """Several lines per row: score and limit, beside what ``table`` says; rows without a score have none."""

    table: Callable[[Any], Any]
    limit: float

    def __call__(self, scored: ScoredBatch, keep: Mask) -> dict[str, Any]:
        """The columns of an answer."""
        chosen = np.flatnonzero(keep & ~np.isnan(scored.rows.score))
        table = self.table(scored.rows.choose(chosen))
        at = table.column("row").to_numpy() if table.num_rows else chosen[:0]  # positions in the batch
        found = _verdict(scored, at, self.limit)
        del found["anomaly"]
        rest = {name: _cells(table.column(name)) for name in table.column_names if name not in _KNOWN}
        return joined(labels(scored.batch, at), found | rest)


@dataclass(frozen=True)
class Inline:
    """Every row, each with its score, limit and flag; those to be explained carry a list of their ``k`` worst culprits."""

    explainer: BatchExplainer
    limit: float
    k: int

    def __call__(self, scored: ScoredBatch, keep: Mask) -> dict[str, Any]:
        """The columns of an answer."""
        chosen, everything = np.flatnonzero(keep & ~np.isnan(scored.rows.score)), np.arange(len(keep))
        culprits: list[Any] = [...] * len(keep)
        if len(chosen):
            rows = scored.rows if len(chosen) == len(keep) else scored.rows.choose(chosen)
            for position, found in _by_row(self.explainer.explain(rows), self.k).items():
                culprits[position] = found
        verdict = _verdict(scored, everything, self.limit)
        return joined(labels(scored.batch, everything), verdict | {"culprits": culprits})


def _verdict(scored: ScoredBatch, at: Positions, limit: float) -> dict[str, Any]:
    return {"score": scored.rows.score[at], "limit": np.full(len(at), limit), "anomaly": scored.anomaly[at]}


def _cells(column: Any) -> Any:
    """Numbers as an array, of which sinks write NaN, which groups have for actual and expected, as a missing cell."""
    return column.to_numpy() if column.type == "double" else column.combine_chunks()


def _by_row(why: Explanation, k: int) -> dict[int, list[dict[str, Any]]]:
    """The worst culprits of each row, as plain dictionaries."""
    result: dict[int, list[dict[str, Any]]] = {}
    told = {name: to_json_value(cells) for name, cells in why.top_columns(k).items() if name != "score"}
    for row, *cells in zip(*told.values(), strict=True):
        result.setdefault(row, []).append(dict(zip(list(told)[1:], cells, strict=True)))
    return result


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
