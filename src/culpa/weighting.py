"""How rows with weights become a fitted detector: weighted moments of blocks, and limits from weighted held-out scores."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.fitted import FittedDetector
from culpa.learning import Recipe
from culpa.models import FittedModel, Moments
from culpa.models.blocks import BlockMoments, block_starts
from culpa.models.em import NothingVariesError
from culpa.monitoring.trimming import abnormal_rows
from culpa.scores import HeldOutScores, Limits
from culpa.training_scores import Judge, can_hold_out, range_of

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
    if (weights == np.rint(weights)).all():
        return weights
    return np.asarray(weights * (weights.sum() / (weights**2).sum()))


def fit_weighted(recipe: Recipe, X: Floats, weights: Floats, labels: NDArray[Any]) -> FittedDetector:
    """Learn from complete rows with positive weights; a row of weight 2 counts as two."""
    starts, by_rows = block_starts(len(X)), recipe.limit_kind == "empirical"
    parts = zip(np.split(X, starts[1:]), np.split(weights, starts[1:]), strict=True)
    blocks = BlockMoments(tuple(Moments.of(rows, X[0], own) for rows, own in parts))
    # a quantile of the rows' own scores needs the rows, each as often as it counts
    fitted = recipe.fit_blocks(blocks, [np.repeat(X, _times(weights)[0], axis=0)] if by_rows else None)
    fitted = replace(
        fitted,
        normal_range=range_of(fitted.model, X),
        abnormal_training_rows=abnormal_rows(fitted.model, X, np.ones(len(X), dtype=bool), labels, fitted.confidence),
    )
    if recipe.limit_kind != "auto" or recipe.columns.lags:
        return fitted

    def judge(k: int) -> Judge:
        return recipe.judge(recipe.model_without(blocks, k, fitted.components))

    limits = limits_by_blocks(fitted.model, X, judge, weights)
    if limits is None:
        return fitted
    return recipe.limited(replace(fitted, limits=limits))


def _times(weights: Floats) -> tuple[NDArray[np.int64], float]:
    """How often each row is counted, and how much it weighs each time."""
    whole = (weights == np.rint(weights)).all()
    unit = 1.0 if whole else float(weights.mean()) / _STEPS
    return np.rint(weights / unit).astype(np.int64), unit


def limits_by_blocks(
    model: FittedModel, X: Floats, judge: Callable[[int], Judge], weights: Floats | None = None
) -> Limits | None:
    """Limits from the scores of consecutive blocks, each by its own judge; ``None`` where there are too few rows."""
    starts = block_starts(len(X))
    sizes = np.diff(np.append(starts, len(X)))
    if not can_hold_out(sizes, model.columns.lags):
        return None
    try:
        found = [judge(k).scores(rows) for k, rows in enumerate(np.split(X, starts[1:]))]
    except NothingVariesError:  # but within one block, so that the model of the others does not exist
        return None
    block = np.repeat(np.arange(len(starts)), sizes)
    times, unit = _times(np.ones(len(X)) if weights is None else weights)
    scores = {}
    for name in found[0]:
        values = np.concatenate([part[name] for part in found])
        held = HeldOutScores.of(np.repeat(values, times), np.repeat(block, times))
        scores[name] = held if unit == 1.0 else replace(held, weights=np.full(len(held.n_per_block), unit))
    return Limits(model, "held-out", scores)
