"""How rows with weights become a fitted detector: weighted moments of blocks, and limits from weighted held-out scores."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.fitted import FittedDetector
from culpa.fitting.learning import Learned, Recipe
from culpa.fitting.limits import InOrder, Portion, limits_by_holding_out, range_of_pieces
from culpa.fitting.trimming import abnormal_rows
from culpa.models import Moments
from culpa.models.blocks import BlockMoments, block_starts
from culpa.models.normal_range import NormalRange
from culpa.scores import Limits

_PIECE = 1 << 16  # rows
_STEPS = 16  # of a mean weight, to which weights of scores that are no whole numbers are rounded


def read_weights(sample_weight: Any, n_rows: int) -> Floats:
    """Weights of rows, as numbers of rows.

    Whole numbers count rows. Other weights only have proportions, so they are scaled to the number of equally weighted
    rows that would determine a mean as well, (sum of weights)^2 / sum of squares.

    >>> read_weights([2, 1, 0], 3), read_weights([0.5, 0.5], 2)
    (array([2., 1., 0.]), array([1., 1.]))
    """
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected ({n_rows},): give one weight per row.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must hold finite numbers that are not negative.")
    if not weights.any():
        raise ValueError("sample_weight is zero for all rows: at least two rows must count.")
    if _are_whole(weights):
        return weights
    return np.asarray(weights * (weights.sum() / (weights**2).sum()))


def fit_weighted(
    recipe: Recipe, X: Floats, weights: Floats, labels: NDArray[Any], at: NDArray[np.intp]
) -> FittedDetector:
    """Learn from complete rows with positive weights; a row of weight 2 counts as two. ``at`` are the rows' places."""
    parts, (times, unit) = _parts(weights), _times(weights)

    def second_pass(recipe: Recipe, learned: Learned, blocks: BlockMoments) -> tuple[Limits, NormalRange]:
        p, lags = learned.model.standard.n_components, recipe.columns.lags
        sizes = blocks.sizes if unit == 1.0 else np.array([len(part.rows) for part in parts])
        limits = recipe.limits(
            learned.model,
            lambda: limits_by_holding_out(
                learned.model,
                lambda k: recipe.judge(recipe.model_without(blocks, k, p)),
                sizes,
                _portions(X, parts, at, lags, unit),
                unit,
            ),
            _repeated(X, times),  # a quantile of the rows' own scores needs each of them as often as it counts
        )
        counted = times if unit == 1.0 else np.ones(len(X), dtype=np.int64)
        return limits, range_of_pieces(learned.model, _repeated(X, counted), int(counted.sum()))

    blocks = BlockMoments(tuple(Moments.of(X[part.rows], X[0], part.weights) for part in parts))
    fitted = recipe.fit_blocks(blocks, second_pass)
    everything = np.ones(len(X), dtype=bool)
    return replace(fitted, abnormal_training_rows=abnormal_rows(fitted.model, X, everything, labels, fitted.confidence))


def _repeated(X: Floats, times: NDArray[np.int64]) -> Iterator[InOrder]:
    """The rows in pieces, each row as often as it counts."""
    ends = np.cumsum(times)
    for start in range(0, int(ends[-1]), _PIECE):
        here = np.arange(start, min(start + _PIECE, int(ends[-1])))
        yield InOrder(X[np.searchsorted(ends, here, side="right")])


class _Part(NamedTuple):
    """A block: the rows that are in it, and what they weigh there."""

    rows: NDArray[np.intp]
    weights: Floats


def _parts(weights: Floats) -> list[_Part]:
    """Blocks of rows: where weights are whole numbers, those that the rows would have, each as often as it counts."""
    rows = np.arange(len(weights))
    if not _are_whole(weights):
        return [_Part(own, weights[own]) for own in np.split(rows, block_starts(len(rows))[1:])]
    ends = np.cumsum(weights)
    parts, cuts = [], np.append(block_starts(int(ends[-1])), ends[-1])
    for start, end in pairwise(cuts.tolist()):
        own = rows[np.searchsorted(ends, start, side="right") : np.searchsorted(ends, end, side="left") + 1]
        inside = np.minimum(ends[own], end) - np.maximum(ends[own] - weights[own], start)
        parts.append(_Part(own, inside))
    return parts


def _are_whole(weights: Floats) -> bool:
    return bool((weights == np.rint(weights)).all())


def _times(weights: Floats) -> tuple[NDArray[np.int64], float]:
    """How often each row is counted, and how much it weighs each time."""
    unit = 1.0 if _are_whole(weights) else float(weights.mean()) / _STEPS
    return np.rint(weights / unit).astype(np.int64), unit


def _portions(X: Floats, parts: list[_Part], at: NDArray[np.intp], lags: int, unit: float) -> Iterator[Portion]:
    """The rows of each block, as often as they count.

    ``at`` are the places of the rows in time: with lags, rows near another block share past values with its rows.
    """
    for k, (rows, weights) in enumerate(parts):
        times, here = np.rint(weights / unit).astype(np.int64), at[rows]
        before = at[parts[k - 1].rows[-1]] if k else -np.inf
        after = at[parts[k + 1].rows[0]] if k + 1 < len(parts) else np.inf
        if lags:
            times[(here - before <= lags) | (after - here <= lags)] = 0
        yield Portion(InOrder(X[rows]), np.full(len(rows), k), times)
