"""What the training rows showed, feature by feature: how far they went, and how alike successive rows are.

A standard deviation says how far a feature strays in a typical row. An incident is a stretch of rows, and what counts is
how far the feature strays in a *stretch* of normal rows: its **reach**. The rows are cut into fifty consecutive stretches,
and the reach is the mean, over the stretches, of the largest distance from the mean. A metric that spikes once an hour
has a long reach, a level that is always steady has a short one, and the two may have the same standard deviation.

A deviation delta is compared with sqrt(reach^2 + delta^2 / (n + 1)): a value never seen in n rows is at most sqrt(n + 1)
times as far as normal, even in a column that never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from culpa._core import probability as stats
from culpa._core.types import Floats, Mask
from culpa.models.fitted_model import FittedModel

_STRETCHES = 50
_FEWEST_PER_STRETCH = 5
_MARGIN = 0.25  # of the range that values may exceed it by
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class NormalRange:
    """Ranges of standardised features in normal rows.

    ``dependence`` is how many successive rows are worth one independent row. ``inflation`` is the mean squared Mahalanobis
    distance of the rows over what the model expects: 1, but more where rows are averages of rows that follow each other.
    """

    low: Floats
    high: Floats
    reach: Floats
    n: float
    dependence: float = 1.0
    inflation: float = 1.0

    @classmethod
    def of_model(cls, model: FittedModel) -> Self:
        """What a Gaussian model expects of its training rows, where nobody looked at them."""
        sd = model.spread
        n = float(model.n_samples or 1000.0)
        per_stretch = max(n / _STRETCHES, _FEWEST_PER_STRETCH)
        farthest = float(stats.norm.isf(0.5 * (1 - 0.5 ** (1 / per_stretch))))  # the median of the largest
        largest = float(stats.norm.isf(0.5 * (1 - 0.5 ** (1 / max(n, 2)))))
        return cls(-largest * sd, largest * sd, farthest * sd, n)

    def to_arrays(self) -> dict[str, Floats]:
        """Plain arrays from which a model file makes the range again."""
        return {
            "features": np.stack([self.low, self.high, self.reach]),
            "rows": np.array([self.n, self.dependence, self.inflation]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self:
        """Inverse of `to_arrays`."""
        return cls(*arrays["features"], *arrays["rows"].tolist())

    def movement(self, Z: Floats) -> Floats:
        """Distance of standardised rows from the mean, in units of what normal stretches reach; NaN stays NaN.

        >>> import numpy as np
        >>> normal = NormalRange(-np.ones(2), np.ones(2), np.array([1.0, 0.0]), n=99)
        >>> normal.movement(np.array([[2.0, 0.001], [0.0, 0.0]])).round(2)
        array([[ 1.96, 10.  ],
               [ 0.  ,  0.  ]])
        """
        against = np.sqrt(self.reach**2 + Z**2 / (self.n + 1))
        return np.divide(np.abs(Z), against, out=np.where(np.isnan(Z), np.nan, 0.0), where=against > 0)

    def is_outside(self, Z: Floats, since: NDArray[np.int64] | int = 0) -> Mask:
        """Whether values lie outside what training rows showed, by more than a quarter of that range; NaN does not.

        In a stretch as long as the training rows, half of the range: the rows ``since`` its beginning count.
        """
        by = _MARGIN * (1 + np.minimum(since / self.n, 1.0))
        margin = np.maximum(np.multiply.outer(by, self.high - self.low), _ROUNDING)
        return np.asarray((self.low - margin > Z) | (self.high + margin < Z))

    def of_columns(self, at: NDArray[np.intp]) -> "NormalRange":
        """The range of some features."""
        return replace(self, low=self.low[at], high=self.high[at], reach=self.reach[at])

    def rescaled(self, before: FittedModel, after: FittedModel) -> "NormalRange":
        """The same range where a new model standardises differently."""
        factor = before.scale / after.scale
        shift = (before.centre - after.centre) / after.scale
        return NormalRange(
            self.low * factor + shift,
            self.high * factor + shift,
            self.reach * factor,
            self.n,
            self.dependence,
            self.inflation,
        )

    def faded(self, left: float, other: "NormalRange") -> "NormalRange":
        """The range of rows of which a share ``left`` of the weight is left, on its way to that of later ones."""
        return replace(
            self,
            low=other.low + left * (self.low - other.low),
            high=other.high + left * (self.high - other.high),
            n=self.n * left,
        )

    def joined(self, other: "NormalRange") -> "NormalRange":
        """The range of both sets of rows; reaches are weighted by numbers of rows."""
        n = self.n + other.n
        share = other.n / n
        return NormalRange(
            np.fmin(self.low, other.low),
            np.fmax(self.high, other.high),
            self.reach + share * (other.reach - self.reach),
            n,
            self.dependence + share * (other.dependence - self.dependence),
            self.inflation + share * (other.inflation - self.inflation),
        )


def count_stretches(n_rows: int) -> int:
    """How many consecutive stretches rows are cut into, to learn how far features go in each."""
    return max(min(_STRETCHES, n_rows // _FEWEST_PER_STRETCH), 1)


class RangeGatherer:
    """Takes the standardised training rows in order, and learns their range."""

    def __init__(self, n_rows: int, n_features: int) -> None:
        self._n_stretches = count_stretches(n_rows)
        self._n_rows, self._seen = n_rows, 0
        self._farthest = np.full((self._n_stretches, n_features), np.nan)
        self._low, self._high = np.full(n_features, np.nan), np.full(n_features, np.nan)
        self._pairs = np.zeros(5)  # sums of x, y, x^2, y^2 and xy over successive log scores
        self._n_pairs, self._last = 0, np.nan
        self._distance, self._n_distances = 0.0, 0

    def add(self, Z: Floats, distance: Floats | None = None) -> None:
        """Look at the next rows, and their squared Mahalanobis distances."""
        if not len(Z):
            return
        at = (np.arange(self._seen, self._seen + len(Z)) * self._n_stretches) // max(self._n_rows, 1)
        at = np.minimum(at, self._n_stretches - 1)
        cuts = np.flatnonzero(np.diff(at, prepend=-1))
        low, high = np.fmin.reduceat(Z, cuts), np.fmax.reduceat(Z, cuts)
        here = at[cuts]
        self._farthest[here] = np.fmax(self._farthest[here], np.fmax(np.abs(low), np.abs(high)))
        self._low = np.fmin(self._low, np.fmin.reduce(low))
        self._high = np.fmax(self._high, np.fmax.reduce(high))
        self._seen += len(Z)
        if distance is not None:
            self._add_pairs(distance)
            self._distance += float(np.nansum(distance))
            self._n_distances += int((~np.isnan(distance)).sum())

    def _add_pairs(self, score: Floats) -> None:
        sums, self._last = sums_of_pairs(score, self._last)
        self._n_pairs += int(sums[0])
        self._pairs += sums[1:]

    def finish(self) -> NormalRange:
        """The range of all rows."""
        known = np.nan_to_num(self._farthest)
        counted = max(int((~np.isnan(self._farthest)).any(axis=1).sum()), 1)
        return NormalRange(
            np.nan_to_num(self._low),
            np.nan_to_num(self._high),
            known.sum(axis=0) / counted,
            self._seen,
            worth_of_rows(self._n_pairs, self._pairs),
            max(self._distance / max(self._n_distances, 1) / len(self._low), 1.0),
        )


def sums_of_pairs(score: Floats, last: float = np.nan) -> tuple[Floats, float]:
    """Number of pairs of successive log scores, and the sums of x, y, x^2, y^2 and xy; and the last log score.

    ``last`` is the log score before the first.
    """
    logs = np.log(np.maximum(score, np.finfo(np.float64).tiny))
    x, y = np.concatenate([[last], logs[:-1]]), logs
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    return np.array([len(x), x.sum(), y.sum(), x @ x, y @ y, x @ y]), float(logs[-1])


def worth_of_rows(n_pairs: int, sums: Floats) -> float:
    """(1 + r) / (1 - r) with the correlation r of successive scores, as if these were autoregressive."""
    if n_pairs < 30:
        return 1.0
    x, y, xx, yy, xy = sums / n_pairs
    spread = np.sqrt(max(xx - x * x, 0.0) * max(yy - y * y, 0.0))
    r = float(np.clip((xy - x * y) / spread, 0.0, 0.95)) if spread > 0 else 0.0
    return (1 + r) / (1 - r)
