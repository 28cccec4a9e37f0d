"""Limits from scores of training rows: each by a model that did not see the row, or all of them by one model.

Rows are cut into blocks, and a block is scored by the model of the others.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from culpa._core.continuity import missing_between
from culpa._core.types import Floats, Mask
from culpa.columns import Columns
from culpa.columns.smoothing import clustering, dependence, settling_rows
from culpa.fitted import charted
from culpa.fitting.trimming import GROSS
from culpa.models import FittedModel, Moments
from culpa.models.blocks import FEWEST_PER_BLOCK
from culpa.models.em import NothingVariesError
from culpa.models.mixture_em import StarvedModeError
from culpa.models.normal_range import NormalRange, RangeGatherer
from culpa.scores import HeldOutScores, Limits, Score, control_limit, named_score
from culpa.scores.held_out import FEWEST_ROWS
from culpa.scores.quadratic import scores_of

_ROWS_PER_CHUNK = 1 << 16
_GROSS_LIMIT = 0.99  # confidence of the limit that gross faults exceed by far
Places = NDArray[np.integer[Any]]


class InOrder(NamedTuple):
    """Rows in order, and how many rows are missing before each; ``None`` where that does not matter."""

    rows: Floats
    missing: Floats | None = None

    def pick(self, chosen: Mask) -> "InOrder":
        """Some of the rows, without a copy where these are all; those that were left out are missing before the next."""
        if chosen.all():
            return self
        return InOrder(self.rows[chosen], None if self.missing is None else missing_between(self.missing, chosen))


def standardiser(model: FittedModel) -> Callable[[InOrder], Floats]:
    """A function that turns the next rows of a table into what the model judges: standardised, and smoothed if it is so."""
    if model.columns.smooth is None:
        return lambda table: model.standardise(table.rows)
    arrange = model.columns.stream()  # as new rows are, also where cells are missing
    return lambda table: model.standardise(arrange(*table).features)


class Scorer(Protocol):
    """Scores rows that its model did not see."""

    def scores(self, table: InOrder) -> Mapping[str, Floats]:
        """Of the next rows, by statistic."""
        ...


class Judge:
    """Scores the rows of a block, in order, by the model of the others."""

    def __init__(self, model: FittedModel, own: Score) -> None:
        statistics = charted(model, own)
        self.model = model
        quadratic = {name: one.as_quadratic for name, one in statistics.items()}
        self.statistics = {name: one for name, one in quadratic.items() if one is not None}
        self._standardise = standardiser(model)

    def scores(self, table: InOrder) -> dict[str, Floats]:
        """Of the next rows of the block, by statistic."""
        standard = self._standardise(table)
        return scores_of(self.statistics, standard)

    def mean_scores(self, rows: Moments) -> dict[str, float]:
        """Of some rows, from their moments; as if they were not smoothed."""
        second = self._standardised(rows).second
        return {name: float(((one.root @ second) * one.root).sum()) for name, one in self.statistics.items()}

    def spreads(self, rows: Moments) -> dict[str, float]:
        """Standard deviations of the scores of Gaussian rows with the covariance of these."""
        covariance = self._standardised(rows).covariance
        return {
            name: math.sqrt(2) * float(np.linalg.norm(one.root @ covariance @ one.root.T))
            for name, one in self.statistics.items()
        }

    def _standardised(self, rows: Moments) -> Moments:
        model = self.model
        seen = rows if model.context is None else model.context.adjust_moments(rows)
        return seen.scaled(model.centre, model.scale)


class Portion(NamedTuple):
    """Rows in order, the block of each, and how often it counts: 0 times where it shares values with another block."""

    table: InOrder
    block: Places
    times: Places


def in_blocks(
    batches: Iterable[tuple[InOrder, Places]], sizes: NDArray[np.int64], columns: Columns
) -> Iterator[Portion]:
    """Rows and their positions, in consecutive blocks of these sizes."""
    ends, lags = np.cumsum(sizes), columns.lags
    starts, settling = ends - sizes, settling_rows(columns.smooth, int(sizes.min()))
    for table, at in batches:
        block = np.searchsorted(starts, at, side="right") - 1
        after, before = at - starts[block], ends[block] - at
        counts = (after >= np.maximum(lags * (block > 0), settling)) & (before > lags * (block < len(starts) - 1))
        yield Portion(table, block, counts.astype(np.int64))


def can_hold_out(sizes: Places, lags: int) -> bool:
    """Whether blocks of these sizes are enough for limits from held-out scores."""
    return bool(sizes.sum() >= FEWEST_ROWS and sizes.min() >= FEWEST_PER_BLOCK + 2 * lags)


def held_out_scores(
    judge_without: Callable[[int], Scorer], portions: Iterable[Portion]
) -> tuple[dict[str, Floats], Places] | None:
    """Scores by statistic, NaN where a row does not count, and the block of each; `None` without a model of the others."""
    judges: dict[int, Scorer] = {}
    found: dict[str, list[Floats]] = {}
    where: list[Places] = []
    for table, block, times in portions:
        for k in np.unique(block).tolist():
            if k not in judges:
                try:
                    judges[k] = judge_without(k)
                except (NothingVariesError, StarvedModeError):  # but within one block
                    return None
            here = block == k
            count = np.maximum(times[here], 1)
            for name, values in judges[k].scores(table.pick(here)).items():
                values[times[here] == 0] = np.nan
                found.setdefault(name, []).append(np.repeat(values, count, axis=0))
            where.append(np.full(count.sum(), k))
    return {name: np.concatenate(parts) for name, parts in found.items()}, np.concatenate(where)


def held_out_limits(model: FittedModel, scores: Mapping[str, Floats], block: Places, unit: float = 1.0) -> Limits:
    """Limits from scores of rows, by statistic, each by the model of the blocks that the row is not in.

    ``unit`` is what each of them weighs.
    """
    smooth = model.columns.smooth
    tails = {
        name: HeldOutScores.of(values, block, clustering=clustering(smooth), dependence=dependence(smooth, values))
        for name, values in scores.items()
    }
    if unit != 1.0:
        tails = {name: replace(tail, weights=np.full(len(tail.n_per_block), unit)) for name, tail in tails.items()}
    return Limits(model, "held-out", tails)


def limits_by_holding_out(
    model: FittedModel,
    judge_without: Callable[[int], Scorer],
    sizes: Places,
    portions: Iterable[Portion],
    unit: float = 1.0,
) -> Limits:
    """Limits from blocks of these sizes; where they are too few, or the others have no model, limits are formulas."""
    if not can_hold_out(sizes, model.columns.lags):
        return Limits(model, "formula")
    found = held_out_scores(judge_without, portions)
    return Limits(model, "formula") if found is None else held_out_limits(model, *found, unit)


def limits_from_rows(model: FittedModel, statistic: Score, kind: str, batches: Iterable[InOrder]) -> Limits:
    """Limits that are quantiles of the scores of some rows, "empirical" or "conformal"."""
    rows = map(standardiser(model), batches)
    return Limits(model, kind, Limits.tails_of(charted(model, statistic).values(), rows))


def gross_distance(model: FittedModel) -> float:
    """Squared distance beyond which a training row is a fault, which says nothing about normal rows.

    Only Student models are for such rows: what they learn hardly depends on them. Other models take all rows as normal.
    """
    if not model.gaussian.tail:
        return math.inf
    return GROSS * control_limit(named_score("mahalanobis", model), model, _GROSS_LIMIT)


class RangeWatcher:
    """Looks at training rows as they pass, with the model of all of them, to learn their range."""

    def __init__(self, model: FittedModel, n_rows: int) -> None:
        self._standardise, self._distance = standardiser(model), named_score("mahalanobis", model)
        self.range, self.rows_seen = RangeGatherer(n_rows, model.gaussian.n_features), 0
        self._most = gross_distance(model)

    def add(self, table: InOrder) -> None:
        """Look at the next rows."""
        for start in range(0, len(table.rows), _ROWS_PER_CHUNK):
            here = slice(start, start + _ROWS_PER_CHUNK)
            Z = self._standardise(InOrder(table.rows[here], None if table.missing is None else table.missing[here]))
            distance = self._distance(Z)
            gross = distance > self._most
            self.range.add(np.where(gross[:, None], np.nan, Z) if gross.any() else Z, distance)
        self.rows_seen += len(table.rows)

    def watch(self, batches: Iterable[InOrder]) -> Iterator[InOrder]:
        """Pass batches on, and look at them."""
        for batch in batches:
            self.add(batch)
            yield batch


def range_of(model: FittedModel, table: InOrder) -> NormalRange:
    """The range of rows at hand, as a model standardises them."""
    return range_of_pieces(model, [table], len(table.rows))


def range_of_pieces(model: FittedModel, tables: Iterable[InOrder], n_rows: int) -> NormalRange:
    """The same of rows that come in pieces."""
    watcher = RangeWatcher(model, n_rows)
    for table in tables:
        watcher.add(table)
    found = watcher.range.finish()
    # the mean distance of Student-t rows is that of the farthest ones, and their model expects them
    return replace(found, inflation=1.0) if model.gaussian.tail else found
