"""Exponentially weighted rows: persistent small faults add up, and noise averages out.

With weight l, deviations from a reference (the mean of normal rows) are averaged,

    z_t = l (x_t - reference) + (1 - l) z_(t-1),   z_0 = 0,

so that, if rows are independent, the covariance of z_t is f_t^2 = l / (2 - l) (1 - (1 - l)^(2t)) times that of a single
row. Divided by f_t, smoothed rows have the covariance of single rows. So scores, games and engines need no change.

References
----------
Lowry, Woodall, Champ and Rigdon (1992), "A multivariate exponentially weighted moving average control chart".
"""

from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from culpa._core.types import Floats


def clustering(weight: float | None) -> float:
    """How many scores of smoothed rows count as one: they are correlated by (1 - l)^2k at a distance of k rows.

    >>> clustering(None), round(clustering(0.2), 2)
    (1.0, 4.56)
    """
    kept = 0.0 if weight is None else (1 - weight) ** 2
    return (1 + kept) / (1 - kept)


class Smoothed(NamedTuple):
    """Smoothed rows, rescaled to the covariance of single rows, and the factors that undo the rescaling."""

    rows: Floats
    shrink: Floats


class Smoother:
    """Smooths a table that comes in pieces.

    A missing cell stays missing, and the average of its column goes on with the next observed cell.

    >>> import numpy as np
    >>> smoother = Smoother(0.5, np.array([10.0]))
    >>> rows, shrink = smoother.join(np.array([[12.0], [12.0]]))
    >>> 10.0 + shrink * (rows - 10.0)  # the averages themselves
    array([[11. ],
           [11.5]])
    """

    def __init__(self, weight: float, reference: Floats) -> None:
        self.weight, self.reference = weight, reference
        self._level = np.zeros(len(reference))
        self._seen = np.zeros(len(reference), dtype=np.int64)  # observed cells so far

    def join(self, X: Floats) -> Smoothed:
        """The next rows."""
        deviation = X - self.reference
        observed = ~np.isnan(X)
        level, seen = np.full(X.shape, np.nan), self._seen + np.cumsum(observed, axis=0)
        whole = observed.all(axis=0)
        if len(X) and whole.any():
            level[:, whole] = self._filtered(deviation[:, whole], self._level[whole])
            self._level[whole] = level[-1, whole]
        for j in np.flatnonzero(~whole & observed.any(axis=0)):
            at = observed[:, j]
            level[at, j] = self._filtered(deviation[at, j, None], self._level[[j]])[:, 0]
            self._level[j] = level[at, j][-1]
        if len(X):
            self._seen = seen[-1]
        shrink = _shrinking(self.weight, np.maximum(seen, 1))
        return Smoothed(self.reference + level / shrink, shrink)

    def _filtered(self, deviation: Floats, before: Floats) -> Floats:
        kept = 1 - self.weight
        return np.asarray(lfilter([self.weight], [1.0, -kept], deviation, axis=0, zi=kept * before[None])[0])


def _shrinking(weight: float, seen: Floats) -> Floats:
    """f_t after so many cells."""
    start = -np.expm1(2 * seen * np.log1p(-weight)) if weight < 1 else np.ones(np.shape(seen))
    return np.asarray(np.sqrt(weight / (2 - weight) * start))
