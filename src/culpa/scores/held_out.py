"""Scores of normal rows by models that did not see them: limits that hold, p-values, rates of false alarms.

The training rows are cut into consecutive blocks, and every block is scored by the model of the others. A quantile of these
scores, with the finite-sample correction of conformal prediction, is a limit that new normal rows exceed as often as
asked, for any distribution, if they come from where the training rows came from.

Two things need more than a quantile:

- **Too few rows.** Where the quantile lies beyond the largest score, the tail is extrapolated: a geometric mean of an
  exponential and a Pareto tail, or a generalised Pareto distribution where 400 rows or more are there.
- **Blocks that differ.** Where some blocks have many more rows above the limit than chance allows, normal operation
  itself changes, and the next stretch of rows may differ, too. The limit is then raised until the mean rate of the blocks
  plus twice its standard error is what was asked, at most to half the asked rate, and users are warned.

References
----------
Vovk (2015), "Cross-conformal predictors". Zhang and Stephens (2009), "A new and efficient estimation method for the
generalized Pareto distribution".
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from culpa._core.types import Floats

Counts = NDArray[np.int64]

# of the scores, the largest are kept: all of a small table, an eighth of a huge one
_FEWEST_KEPT = 1 << 14
_SHARE_KEPT = 1 / 8
_TAIL_SHARE, _FEWEST_IN_TAIL = 0.25, 8  # scores that the extrapolated tail is fitted to
_PARETO_WEIGHT = 0.25  # of the Pareto tail against the exponential one
_GENERALISED_FROM = 100  # scores in the tail from which a generalised Pareto distribution is fitted
_PRIOR_SHAPE, _PRIOR_WEIGHT = 0.25, 10  # towards which, and by how many scores, its shape is shrunk
_DIFFER = 0.95  # confidence at which blocks are said to differ
_STANDARD_ERRORS = 2.0  # by which the limit is raised where they do
_LARGEST_RAISE = 0.5  # of the asked rate
_TESTED_ROWS = 20  # above the level at which blocks are compared, at least


class Rate(NamedTuple):
    """A share of rows, with a 95% confidence interval."""

    value: float
    low: float
    high: float


class HeldOutLimit(NamedTuple):
    """A limit, the rate of held-out rows that it was set to, and what made it more than a plain quantile."""

    value: float
    rate: float
    blocks_differ: bool
    extrapolated: bool


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Held-out scores of one statistic: how many rows each block has, and the largest scores with their blocks.

    >>> import numpy as np
    >>> scores = HeldOutScores.of(np.arange(1.0, 200.0), np.arange(199) % 10)
    >>> scores.limit(0.99).value, scores.limit(0.95).value
    (198.0, 190.0)
    """

    n_per_block: Counts
    largest: Floats  # ascending
    block: Counts  # of each of the largest
    clustering: float = 1.0  # scores that count as one, because each resembles those before it

    @classmethod
    def of(
        cls, values: Floats, block: NDArray[np.integer], n_blocks: int | None = None, *, clustering: float = 1.0
    ) -> Self:
        """Scores of rows and their blocks; NaN, for rows without any observed feature, does not count."""
        seen = ~np.isnan(values)
        values, block = values[seen], np.asarray(block)[seen].astype(np.int64)
        counts = np.bincount(block, minlength=n_blocks or 0)
        kept = max(_FEWEST_KEPT, math.ceil(_SHARE_KEPT * len(values)))
        order = np.argsort(values, kind="stable")[-kept:] if len(values) else np.empty(0, dtype=np.intp)
        return cls(counts[counts > 0], values[order], (np.cumsum(counts > 0) - 1)[block[order]], clustering)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.n_per_block.sum())

    def reaches(self, confidence: float) -> bool:
        """Whether enough of the largest scores were kept for so little confidence."""
        return math.ceil((self.n + 1) * confidence - 1e-9) - 1 >= self.n - len(self.largest)

    def limit(self, confidence: float) -> HeldOutLimit:
        """The limit that a share 1 - ``confidence`` of normal rows exceeds."""
        if not self.reaches(confidence):
            raise ValueError(
                f"only the largest {len(self.largest):,} of {self.n:,} scores were kept. Choose a higher confidence."
            )
        asked = 1 - confidence
        if not self._blocks_differ(asked):
            return HeldOutLimit(self._at(asked), asked, False, self._is_beyond(asked))
        rate = self._lowered_rate(asked)
        return HeldOutLimit(self._at(rate), rate, True, self._is_beyond(rate))

    def level(self, rate: float) -> float:
        """The level that exactly a share ``rate`` of these rows exceeds, as far as whole rows and the tail allow."""
        return self._at(rate)

    def rate_above(self, limit: float) -> Rate:
        """Share of held-out rows above a limit; the interval is as wide as the spread over blocks demands."""
        above = np.bincount(self.block[self.largest > limit], minlength=len(self.n_per_block))
        n, k = self.n, int(above.sum())
        above_alone, n_alone = k / self.clustering, n / self.clustering
        low = float(stats.beta.ppf(0.025, above_alone, n_alone - above_alone + 1)) if k else 0.0
        high = float(stats.beta.ppf(0.975, above_alone + 1, n_alone - above_alone)) if k < n else 1.0
        rates, n_blocks = above / self.n_per_block, len(self.n_per_block)
        if n_blocks > 1:
            half = float(stats.t.ppf(0.975, n_blocks - 1) * rates.std(ddof=1) / math.sqrt(n_blocks))
            low, high = min(low, max(k / n - half, 0.0)), max(high, min(k / n + half, 1.0))
        return Rate(k / n, low, high)

    def p_values(self, score: Floats, *, extrapolate: bool = False) -> Floats:
        """How often a normal row scores as high or higher, by rank: (1 + number of held-out scores as high) / (n + 1).

        A score below all that were kept gets the p-value of the lowest of these. ``extrapolate`` goes on below 1 / (n + 1)
        with the fitted tail, for display; only p-values by rank control the false discovery rate for any distribution.
        """
        above = len(self.largest) - np.searchsorted(self.largest, score, side="left")
        result = (1.0 + above) / (self.n + 1)
        if extrapolate and len(self.largest):
            beyond = score > self.largest[-1]
            result[beyond] = [self._tail_rate(float(value)) for value in score[beyond]]
        return np.where(np.isnan(score), np.nan, result)

    def _is_beyond(self, rate: float) -> bool:
        return math.ceil((self.n + 1) * (1 - rate) - 1e-9) > self.n

    def _at(self, rate: float) -> float:
        """The level that a share ``rate`` of new rows exceeds."""
        if self._is_beyond(rate):
            return self._tail_level(rate)
        place = math.ceil((self.n + 1) * (1 - rate) - 1e-9) - 1
        return float(self.largest[max(place - (self.n - len(self.largest)), 0)])

    def _rates(self, level: float) -> Floats:
        above = np.bincount(self.block[self.largest > level], minlength=len(self.n_per_block))
        return np.asarray(above / self.n_per_block)

    def _pooled(self, rates: Floats) -> float:
        return float((rates * self.n_per_block).sum() / self.n)

    def _blocks_differ(self, asked: float) -> bool:
        n_blocks = len(self.n_per_block)
        tested = max(asked, min(0.2, _TESTED_ROWS / max(self.n, 1)))
        if n_blocks < 2 or not self.reaches(1 - tested):
            return False
        rates = self._rates(self._at(tested))
        pooled = self._pooled(rates)
        spread = float((self.n_per_block * (rates - pooled) ** 2).sum()) / max(pooled * (1 - pooled), 1e-12)
        return spread > self.clustering * float(stats.chi2.ppf(_DIFFER, n_blocks - 1))

    def _lowered_rate(self, asked: float) -> float:
        """The largest rate at which the blocks' mean rate plus two standard errors is at most what was asked."""
        for factor in np.arange(1.0, _LARGEST_RAISE - 0.01, -0.05).tolist():
            rates = self._rates(self._at(asked * factor))
            pooled = self._pooled(rates)
            chance = self.clustering * pooled * (1 - pooled) * float((1 / self.n_per_block).mean())
            between = max(0.0, float(rates.var(ddof=1)) - chance)
            if pooled + _STANDARD_ERRORS * math.sqrt(between / len(rates)) <= asked * (1 + 1e-9):
                return float(asked * factor)
        return asked * _LARGEST_RAISE

    def _tail(self) -> tuple[float, Floats]:
        """The threshold of the tail and the scores above it."""
        most = min(self.n, len(self.largest)) - 1
        m = min(max(_FEWEST_IN_TAIL, round(_TAIL_SHARE * self.n)), most)
        return float(self.largest[-m - 1]), self.largest[-m:]

    def _tail_level(self, rate: float) -> float:
        """The level of a rate beyond what the rows resolve."""
        threshold, top = self._tail()
        m, largest = len(top), float(self.largest[-1])
        share = rate * (self.n + 1) / m
        if threshold <= 0:
            return largest
        if m >= _GENERALISED_FROM:
            shape, scale = _generalised_pareto(np.maximum(top - threshold, 1e-12 * largest))
            return max(float(threshold + scale / shape * (share**-shape - 1)), largest)
        steps = m * (share ** (-1 / m) - 1)  # the predictive exponential distribution, not the one with a known mean
        return max(_blended(threshold, top, steps), largest)

    def _tail_rate(self, level: float) -> float:
        """The rate of a level beyond the largest score: `_tail_level` inverted."""
        low, high = math.log(1e-12), -math.log(self.n + 1)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self._tail_level(math.exp(middle)) < level else (middle, high)
        return math.exp(low)


def discoveries(p_values: Floats, rate: float) -> NDArray[np.bool_]:
    """Which rows to report so that the expected share of false discoveries is at most ``rate``.

    >>> import numpy as np
    >>> discoveries(np.array([0.001, 0.2, 0.01, 0.9]), 0.05)
    array([ True, False,  True, False])

    References
    ----------
    Benjamini and Hochberg (1995), "Controlling the false discovery rate".
    """
    known = ~np.isnan(p_values)
    ordered = np.sort(p_values[known])
    n = len(ordered)
    small = np.flatnonzero(ordered <= rate * np.arange(1, n + 1) / max(n, 1))
    return np.asarray(known & (p_values <= (ordered[small[-1]] if len(small) else -1.0)))


def _blended(threshold: float, top: Floats, steps: float) -> float:
    """Geometric mean of an exponential and a Pareto tail, ``steps`` mean excesses above the threshold."""
    exponential = math.log(threshold + float((top - threshold).mean()) * steps)
    pareto = math.log(threshold) + float(np.log(top / threshold).mean()) * steps
    return math.exp((1 - _PARETO_WEIGHT) * exponential + _PARETO_WEIGHT * pareto)


def _generalised_pareto(excess: Floats) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution, the shape shrunk towards a moderately heavy tail."""
    y = np.sort(excess)
    n = len(y)
    grid = 30 + int(math.sqrt(n))
    quarter = y[int(n / 4 + 0.5) - 1]
    theta = 1 / y[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quarter)
    shapes = np.log1p(-theta[:, None] * y).mean(axis=1)
    likelihood = n * (np.log(-theta / shapes) - shapes - 1)
    weight = np.exp(likelihood - likelihood.max())
    estimate = float((theta * weight).sum() / weight.sum())
    shape = float(np.log1p(-estimate * y).mean())
    shape = (n * shape + _PRIOR_WEIGHT * _PRIOR_SHAPE) / (n + _PRIOR_WEIGHT)
    if abs(shape) < 1e-6:
        shape = 1e-6
    scales = float(y.mean()) * np.exp(np.linspace(-1.5, 1.0, 120))
    scales = scales[scales > -shape * y[-1] * 1.0001] if shape < 0 else scales
    if not len(scales):
        return shape, -shape * float(y[-1]) * 1.001
    cost = [n * math.log(s) + (1 + 1 / shape) * float(np.log1p(shape * y / s).sum()) for s in scales]
    return shape, float(scales[int(np.argmin(cost))])
