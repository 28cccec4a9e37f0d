"""How rows with weights become a fitted detector: weighted moments of blocks, and limits from weighted held-out scores."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.fitted import FittedDetector
from culpa.fitting.learning import Recipe
from culpa.fitting.training_scores import Judge, can_hold_out, range_of
from culpa.models import FittedModel, Moments
from culpa.models.blocks import BlockMoments, block_starts
from culpa.models.em import NothingVariesError
from culpa.monitoring.trimming import abnormal_rows
from culpa.scores import HeldOutScores, Limits
from culpa.scores.held_out import FEWEST_ROWS

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
    blocks = BlockMoments(tuple(Moments.of(X[part.rows], X[0], part.weights) for part in _parts(weights)))
    # a quantile of the rows' own scores needs the rows, each as often as it counts
    by_rows = recipe.limit_kind == "empirical"
    fitted = recipe.fit_blocks(blocks, [np.repeat(X, _times(weights)[0], axis=0)] if by_rows else None)
    fitted = replace(
        fitted,
        normal_range=range_of(fitted.model, X),
        abnormal_training_rows=abnormal_rows(fitted.model, X, np.ones(len(X), dtype=bool), labels, fitted.confidence),
    )
    if recipe.limit_kind != "auto":
        return fitted

    def judge(k: int) -> Judge:
        return recipe.judge(recipe.model_without(blocks, k, fitted.n_components))

    limits = limits_by_blocks(fitted.model, X, judge, weights, at)
    if limits is None:
        return fitted
    return recipe.limited(replace(fitted, limits=limits))


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


def limits_by_blocks(
    model: FittedModel,
    X: Floats,
    judge: Callable[[int], Judge],
    weights: Floats | None = None,
    at: NDArray[np.intp] | None = None,
) -> Limits | None:
    """Limits from the scores of consecutive blocks, each by its own judge; ``None`` where there are too few rows.

    ``at`` are the places of the rows in time: with lags, rows near another block share past values with its rows.
    """
    weights, at = np.ones(len(X)) if weights is None else weights, np.arange(len(X)) if at is None else at
    parts, lags, unit = _parts(weights), model.columns.lags, _times(weights)[1]
    sizes = [part.weights.sum() if unit == 1.0 else len(part.rows) for part in parts]
    if not can_hold_out(np.array(sizes), lags):
        return None
    found: dict[str, list[Floats]] = {}
    block = []
    try:
        for k, part in enumerate(parts):
            before = at[parts[k - 1].rows[-1]] if k else -np.inf
            after = at[parts[k + 1].rows[0]] if k + 1 < len(parts) else np.inf
            alone = (at[part.rows] - before > lags) & (after - at[part.rows] > lags) if lags else slice(None)
            times = np.rint(part.weights[alone] / unit).astype(np.int64)
            for name, values in judge(k).scores(X[part.rows[alone]]).items():
                found.setdefault(name, []).append(np.repeat(values, times))
            block.append(np.full(times.sum(), k))
    except NothingVariesError:  # but within one block, so that the model of the others does not exist
        return None
    if sum(map(len, block)) * unit < FEWEST_ROWS:
        return None
    scores = {}
    for name, pieces in found.items():
        held = HeldOutScores.of(np.concatenate(pieces), np.concatenate(block))
        scores[name] = held if unit == 1.0 else replace(held, weights=np.full(len(held.n_per_block), unit))
    return Limits(model, "held-out", scores)
