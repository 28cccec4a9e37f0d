"""How many later rows do fits to earlier rows flag?

The rows are cut into tenths. What is learned from the first 1, 2, 4 and 7 of them judges the tenths that follow, so that
each but the first is judged once. Long tables are thinned, because rates need no more rows, and only fits that need no
iteration are repeated.
"""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats, Mask
from culpa.fitted import FittedDetector
from culpa.fitting.learning import Recipe
from culpa.fitting.limits import InOrder, standardiser
from culpa.models.moments import mean_and_spread
from culpa.scores.held_out import FEWEST_ROWS
from culpa.scores.stated import OverTime, worth_of

_ROWS = 16_000  # that take part of a long table, or up to twice as many
_TENTHS = 10
_CUTS = (1, 2, 4, 7)
_FEWEST_ROWS, _ROWS_PER_FEATURE = 100, 5  # to learn from: few rows flag more, whether or not anything changes
_MOST_ALIKE = 0.99
_ROUNDING = 1e-9


class Thinned(NamedTuple):
    """Every ``spacing``-th row, and which of them are ``normal``: the others are faults that were left out of the fit."""

    table: InOrder
    spacing: int
    normal: Mask


def spacing_of(n_rows: int) -> int:
    """Every how many-th row takes part."""
    return max(1, n_rows // _ROWS)


def alike(X: Floats) -> float:
    """How many successive rows are worth one independent row for covariances, as if columns were autoregressive.

    For a column with correlation r of successive values this is (1 + r^2) / (1 - r^2); r^2 is averaged over columns.

    >>> alike(np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]))
    1.0
    """
    mean, scale = mean_and_spread(X)
    Z = (X - mean) / scale
    Z = Z[:, (np.abs(np.nan_to_num(Z)) > _ROUNDING).any(axis=0)]  # columns that vary
    pairs = Z[1:] * Z[:-1]
    known = ~np.isnan(pairs)
    if not known.any():
        return 1.0
    r = np.where(known, pairs, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    squared = float((np.clip(r, 0.0, _MOST_ALIKE) ** 2).mean())
    return (1 + squared) / (1 - squared)


def with_later_rows(over_time: OverTime, fitted: FittedDetector, rows: Thinned, recipe: Recipe) -> OverTime:
    """And how fits to earlier rows judge later ones, unless rows are few, or fits take long or depend on every row."""
    settings, X = fitted.settings, rows.table.rows
    iterates = settings.modes is not None or settings.model == "student" or np.isnan(X).any()
    every_row = settings.contamination is not None or (settings.smooth is not None and rows.spacing > 1)
    if iterates or every_row or fitted.limits.held_out(fitted.statistic) is None:
        return over_time
    ends, fewest = len(X) * np.arange(_TENTHS + 1) // _TENTHS, max(_FEWEST_ROWS, _ROWS_PER_FEATURE * X.shape[1])
    cuts = [
        cut
        for cut in _CUTS
        if ends[cut] >= fewest and worth_of(ends[cut] * rows.spacing, over_time.alike) >= FEWEST_ROWS
    ]
    at, n, flagged = np.arange(len(X)), [], []
    for cut, until in pairwise([*cuts, _TENTHS]):
        try:
            earlier = recipe.fit_rows(rows.table.pick(at < ends[cut]), at[: ends[cut]])
        except ValueError:  # nothing varies, or the limit needs more rows
            continue
        judged = (at >= ends[cut]) & (at < ends[until]) & rows.normal
        above = earlier.is_flagged(earlier.statistic(standardiser(earlier.model)(rows.table.pick(judged))))
        parts = np.split(above, np.searchsorted(at[judged], ends[cut + 1 : until]))
        n += [float(len(part)) for part in parts if len(part)]
        flagged += [float(part.sum()) for part in parts if len(part)]
    return replace(over_time, n=np.array(n), flagged=np.array(flagged), spacing=rows.spacing)
