"""Exponentially weighted rows: persistent small faults add up, and noise averages out.

With weight l, deviations from a reference (the mean of normal rows) are averaged,

    z_t = l (x_t - reference) + (1 - l) z_(t-1),   z_0 = 0,

so that, if rows are independent, the covariance of z_t is f_t^2 = l / (2 - l) (1 - (1 - l)^(2t)) times that of a single
row. Divided by f_t, smoothed rows have the covariance of single rows. So scores, games and engines need no change.

References
----------
Lowry, Woodall, Champ and Rigdon (1992), "A multivariate exponentially weighted moving average control chart".
"""

import math
import sys
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats

_FEW_ROWS = 10_000  # which a loop averages before SciPy's filters are loaded
_MOST_ALIKE = 0.98  # correlation of successive scores that is still believed


def clustering(weight: float | None) -> float:
    """How many scores of smoothed rows count as one: they are correlated by (1 - l)^2k at a distance of k rows.

    >>> clustering(None), round(clustering(0.2), 2)
    (1.0, 4.56)
    """
    return _worth_one(0.0 if weight is None else (1 - weight) ** 2)


def dependence(weight: float | None, scores: Floats) -> float:
    """By how much more the scores of successive smoothed rows resemble each other than if the rows were independent.

    Averaging makes more of what successive rows have in common, so that it matters only for smoothed rows.
    """
    if weight is None or weight == 1:
        return 1.0
    found = min(_successive_correlation(scores), _MOST_ALIKE)
    return max(_worth_one(found) / clustering(weight), 1.0)


def _worth_one(correlation: float) -> float:
    """Scores that count as one where successive ones are correlated, as if they were autoregressive."""
    return (1 + correlation) / (1 - correlation)


def _successive_correlation(scores: Floats) -> float:
    logs = np.log(np.maximum(scores[~np.isnan(scores)], np.finfo(np.float64).tiny))
    if len(logs) < 3 or not np.ptp(logs):
        return 0.0
    return float(np.corrcoef(logs[:-1], logs[1:])[0, 1])


def settling_rows(weight: float | None, available: int) -> int:
    """Rows after which the start of an average hardly matters; at most a quarter of the rows that are available.

    Where successive rows resemble each other, averages vary less at their start than later on.

    >>> settling_rows(0.2, 50), settling_rows(0.1, 50), settling_rows(None, 50)
    (10, 12, 0)
    """
    return 0 if weight is None or weight == 1 else min(math.ceil(2 / weight), available // 4)


class Smoothed(NamedTuple):
    """Smoothed rows, rescaled to the covariance of single rows, and the factors that undo the rescaling."""

    rows: Floats
    shrink: Floats


class Smoother:
    """Smooths a table that comes in pieces.

    A missing cell stays missing, and the average of its column goes on with the next observed cell. ``memory`` holds the
    averages of the columns, and how many cells of each were observed so far.

    >>> import numpy as np
    >>> smoother = Smoother(0.5, np.array([10.0]))
    >>> rows, shrink = smoother.join(np.array([[12.0], [12.0]]))
    >>> 10.0 + shrink * (rows - 10.0)  # the averages themselves
    array([[11. ],
           [11.5]])
    """

    def __init__(self, weight: float, reference: Floats) -> None:
        self.weight, self.reference = weight, reference
        self.memory: tuple[Floats, NDArray[np.int64]] = _nothing(len(reference))

    def join(self, X: Floats, missing: Floats | None = None) -> Smoothed:
        """The next rows; averages start anew where as many rows are missing as they look back (2 / weight)."""
        restarts = np.zeros(0) if missing is None else np.flatnonzero(missing >= 2 / self.weight)
        if not len(restarts):
            return self._join(X)
        parts = []
        for start, end in pairwise([*dict.fromkeys([0, *restarts.tolist()]), len(X)]):
            if start in restarts:
                self.memory = _nothing(len(self.reference))
            parts.append(self._join(X[start:end]))
        return Smoothed(*map(np.concatenate, zip(*parts, strict=True)))

    def _join(self, X: Floats) -> Smoothed:
        deviation = X - self.reference
        observed, before = ~np.isnan(X), self.memory[0].copy()
        level, seen = np.full(X.shape, np.nan), self.memory[1] + np.cumsum(observed, axis=0)
        whole = observed.all(axis=0)
        if len(X) and whole.any():
            level[:, whole] = running_average(deviation[:, whole], before[whole], self.weight)
            before[whole] = level[-1, whole]
        for j in np.flatnonzero(~whole & observed.any(axis=0)):
            at = observed[:, j]
            level[at, j] = running_average(deviation[at, j, None], before[[j]], self.weight)[:, 0]
            before[j] = level[at, j][-1]
        if len(X):
            self.memory = before, seen[-1]
        shrink = _shrinking(self.weight, np.maximum(seen, 1))
        return Smoothed(self.reference + level / shrink, shrink)


def running_average(rows: Floats, before: Floats, weight: float) -> Floats:
    """The exponentially weighted average after each row; ``before`` is that before the first.

    >>> import numpy as np
    >>> running_average(np.array([[8.0], [0.0]]), np.array([0.0]), 0.5)
    array([[4.],
           [2.]])
    """
    kept = 1 - weight
    if len(rows) < _FEW_ROWS and "scipy.signal" not in sys.modules:
        averages, level = np.empty_like(rows), before
        for k, row in enumerate(weight * rows):
            averages[k] = level = row + kept * level
        return averages
    from scipy.signal import lfilter

    # columns that are contiguous take half the time
    return np.asarray(lfilter([weight], [1.0, -kept], np.ascontiguousarray(rows.T), zi=kept * before[:, None])[0].T)


def averaged(rows: Floats, before: Floats, weight: float) -> Floats:
    """The same where cells may be missing (NaN), which change nothing."""
    seen = ~np.isnan(rows)
    if seen.all():
        return running_average(rows, before, weight)
    result, complete = np.empty_like(rows), seen.all(axis=0)
    result[:, complete] = running_average(rows[:, complete], before[complete], weight)
    for j in np.flatnonzero(~complete):
        here = seen[:, j]
        known = np.append(before[j], running_average(rows[here, j, None], before[[j]], weight)[:, 0])
        result[:, j] = known[np.cumsum(here)]
    return result


def _nothing(n_columns: int) -> tuple[Floats, NDArray[np.int64]]:
    return np.zeros(n_columns), np.zeros(n_columns, dtype=np.int64)


def _shrinking(weight: float, seen: Floats) -> Floats:
    """f_t after so many cells."""
    start = -np.expm1(2 * seen * np.log1p(-weight)) if weight < 1 else np.ones(np.shape(seen))
    return np.asarray(np.sqrt(weight / (2 - weight) * start))
