"""Scores of training rows: limits from scores by models that did not see the row, and the range of the rows.

Rows are cut into consecutive blocks, and a block is scored by the model of the others.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.columns.smoothing import clustering, dependence, settling_rows
from culpa.fitted import charted
from culpa.models import FittedModel, Moments
from culpa.models.blocks import FEWEST_PER_BLOCK
from culpa.models.em import NothingVariesError
from culpa.models.normal_range import NormalRange, RangeGatherer
from culpa.scores import HeldOutScores, Limits, QuadraticScore, Score, named_score
from culpa.scores.held_out import FEWEST_ROWS

_ROWS_PER_CHUNK = 1 << 16


def standardiser(model: FittedModel) -> Callable[[Floats], Floats]:
    """A function that turns the next rows of a table into what the model judges: standardised, and smoothed if it is so."""
    if model.columns.smooth is None:
        return model.standardise
    arrange = model.columns.stream()  # as new rows are, also where cells are missing
    return lambda X: model.standardise(arrange(X).features)


class Judge:
    """Scores the rows of a block, in order, by the model of the others."""

    def __init__(self, model: FittedModel, own: QuadraticScore) -> None:
        self.model, self.statistics = model, _quadratic(charted(model, own))
        self._standardise = standardiser(model)

    def scores(self, rows: Floats) -> dict[str, Floats]:
        """Of the next rows of the block, by statistic."""
        standard = self._standardise(rows)
        return {name: statistic(standard) for name, statistic in self.statistics.items()}

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
        return seen.scaled(model.location, model.scale)


def _quadratic(statistics: Mapping[str, Score]) -> dict[str, QuadraticScore]:
    """Statistics of a model with one mode."""
    return {name: one for name, one in statistics.items() if isinstance(one, QuadraticScore)}


def can_hold_out(sizes: NDArray[np.integer], lags: int) -> bool:
    """Whether blocks of these sizes are enough for limits from held-out scores."""
    return bool(sizes.sum() >= FEWEST_ROWS and sizes.min() >= FEWEST_PER_BLOCK + 2 * lags)


def limits_from_blocks(
    model: FittedModel,
    judge_without: Callable[[int], Judge],
    starts: NDArray[np.int64],
    n: int,
    portions: Iterable[tuple[Floats, NDArray[np.integer]]],
) -> Limits:
    """Limits from ``n`` rows in portions, with their positions; blocks begin at ``starts``.

    ``judge_without`` returns the judge of a block, which knows the others. Where that is impossible, limits are formulas.
    """
    ends = np.append(starts[1:], n)
    if not can_hold_out(ends - starts, model.columns.lags):
        return Limits(model, "formula")
    try:
        scores, block = _scores_by_blocks(model, judge_without, starts, ends, portions)
    except NothingVariesError:  # but within one block, so that the model of the others does not exist
        return Limits(model, "formula")
    return held_out_limits(model, scores, block)


def _scores_by_blocks(
    model: FittedModel,
    judge_without: Callable[[int], Judge],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    portions: Iterable[tuple[Floats, NDArray[np.integer]]],
) -> tuple[dict[str, Floats], NDArray[np.integer]]:
    """Scores by statistic, and the block of each."""
    lags, settling = model.columns.lags, settling_rows(model.columns.smooth, int((ends - starts).min()))
    judges: dict[int, Judge] = {}
    found: dict[str, list[Floats]] = {}
    where: list[NDArray[np.int64]] = []
    for rows, positions in portions:
        block = np.searchsorted(starts, positions, side="right") - 1
        # rows next to another block share past values with its rows
        inner = (positions - starts[block] >= lags * (block > 0)) & (
            ends[block] - positions > lags * (block < len(starts) - 1)
        )
        for k in np.unique(block[inner]).tolist():
            if k not in judges:
                judges[k] = judge_without(k)
            here = np.flatnonzero(inner & (block == k))
            settled = positions[here] - starts[k] >= settling
            for name, values in judges[k].scores(rows[here]).items():
                found.setdefault(name, []).append(values[settled])
            where.append(np.full(int(settled.sum()), k))
    return {name: np.concatenate(parts) for name, parts in found.items()}, np.concatenate(where)


def held_out_limits(model: FittedModel, scores: Mapping[str, Floats], block: NDArray[np.integer]) -> Limits:
    """Limits from scores of rows, by statistic, each by the model of the blocks that the row is not in."""
    smooth = model.columns.smooth
    tails = {
        name: HeldOutScores.of(values, block, clustering=clustering(smooth), dependence=dependence(smooth, values))
        for name, values in scores.items()
    }
    return Limits(model, "held-out", tails)


def limits_from_rows(model: FittedModel, statistic: Score, kind: str, batches: Iterable[Floats]) -> Limits:
    """Limits that are quantiles of the scores of some rows, "empirical" or "conformal"."""
    rows = map(standardiser(model), batches)
    return Limits(model, kind, Limits.tails_of(charted(model, statistic).values(), rows))


class RangeWatcher:
    """Looks at training rows as they pass, with the model of all of them, to learn their range."""

    def __init__(self, model: FittedModel, n_rows: int) -> None:
        self._standardise, self._distance = standardiser(model), named_score("mahalanobis", model)
        self.range, self.rows_seen = RangeGatherer(n_rows, model.gaussian.n_features), 0

    def add(self, X: Floats) -> None:
        """Look at the next rows."""
        for start in range(0, len(X), _ROWS_PER_CHUNK):
            Z = self._standardise(X[start : start + _ROWS_PER_CHUNK])
            self.range.add(Z, self._distance(Z))
        self.rows_seen += len(X)

    def watch(self, batches: Iterable[Floats]) -> Iterator[Floats]:
        """Pass batches on, and look at them."""
        for batch in batches:
            self.add(batch)
            yield batch


def range_of(model: FittedModel, X: Floats) -> NormalRange:
    """The range of rows at hand, as a model standardises them."""
    watcher = RangeWatcher(model, len(X))
    watcher.add(X)
    found = watcher.range.finish()
    # the mean distance of Student-t rows is that of the farthest ones, and their model expects them
    return replace(found, inflation=1.0) if model.gaussian.tail else found
