"""Scores of normal rows by models that did not see them: limits that hold, p-values, rates of false alarms.

The training rows are cut into consecutive blocks, and every block is scored by the model of the others. A quantile of these
scores, with the finite-sample correction of conformal prediction, is a limit that new normal rows exceed as often as
asked, for any distribution, if they come from where the training rows came from.

Four things need more than a quantile:

- **Too few rows.** Where the quantile lies beyond the largest score, the tail is extrapolated: a geometric mean of an
  exponential and a Pareto tail, or a generalised Pareto distribution where 400 rows or more are there.
- **Rows that come later.** When a model learns from more rows, these are scored by the model of the other blocks, too, and
  join the scores of before, which count less and less if the model is told to forget.
- **Rows that resemble each other.** Averages of successive rows then resemble each other even more, and a few of them
  are worth one. The correction is that of so many fewer scores.
- **Blocks that differ.** Where some blocks have many more rows above the limit than chance allows, normal operation
  itself changes, and the next stretch of rows may differ, too. The limit is then raised until the mean rate of the blocks
  plus twice its standard error is what was asked, at most to half the asked rate, and users are warned.

References
----------
Vovk (2015), "Cross-conformal predictors". Zhang and Stephens (2009), "A new and efficient estimation method for the
generalized Pareto distribution".
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core import probability as stats
from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats
from culpa.scores.tails import Levels, levels_beyond, rates_of

FEWEST_ROWS = 30  # below that, a limit is better left to a formula
_FEWEST_OF_ONE_BLOCK = 200

Counts = NDArray[np.int64]

# of the scores, the largest are kept: all of a small table, an eighth of a huge one
_FEWEST_KEPT = 1 << 14
_SHARE_KEPT = 1 / 8
_TAIL_SHARE, _FEWEST_IN_TAIL = 0.25, 8  # scores that the extrapolated tail is fitted to
_DIFFER, _CLEARLY = 0.95, 0.995  # confidence at which blocks are said to differ, and at which users are warned
_STANDARD_ERRORS = 2.0  # by which the limit is raised where they do
_LARGEST_RAISE = 0.5  # of the asked rate
_TESTED_ROWS = 20  # above the level at which blocks are compared, at least
_LEAST_WEIGHT = 1e-3  # of a row that is not dropped


class Rate(NamedTuple):
    """A share of rows, with a 95% confidence interval."""

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        """The share itself, which is also what comparisons with numbers and other rates compare."""
        return self.value

    def __lt__(self, other: Any) -> bool:
        return self.value < float(other)

    def __le__(self, other: Any) -> bool:
        return self.value <= float(other)

    def __gt__(self, other: Any) -> bool:
        return self.value > float(other)

    def __ge__(self, other: Any) -> bool:
        return self.value >= float(other)


def binomial(share: float, n: float, beyond: float = 0.025) -> Rate:
    """A share of n independent rows, with its exact interval (Clopper and Pearson, 1934); ``beyond`` each end of it."""
    above = share * n
    low = float(stats.beta.ppf(beyond, above, n - above + 1)) if share > 0 else 0.0
    high = float(stats.beta.ppf(1 - beyond, above + 1, n - above)) if share < 1 else 1.0
    return Rate(share, low, high)


class HeldOutLimit(NamedTuple):
    """A limit, the rate of held-out rows that it was set to, and what made it more than a plain quantile."""

    value: float
    rate: float
    blocks_differ: bool
    extrapolated: bool


@dataclass(frozen=True, eq=False)
class HeldOutScores(CopiedInUse):
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
    weights: Floats | None = None  # of a row of each block; 1 unless old rows were to be forgotten
    dependence: float = 1.0  # by how much more the scores resemble each other, because rows do

    @classmethod
    def of(
        cls,
        values: Floats,
        block: NDArray[np.integer] | None = None,
        *,
        clustering: float = 1.0,
        dependence: float = 1.0,
    ) -> Self:
        """Scores of rows and their blocks, or of one block; NaN, for rows without any observed feature, does not count."""
        seen = ~np.isnan(values)
        block = np.zeros(len(values), dtype=np.int64) if block is None else np.asarray(block)
        values, block = values[seen], block[seen].astype(np.int64)
        counts = np.bincount(block)
        order = _largest(values, _kept(len(values)))
        places = (np.cumsum(counts > 0) - 1)[block[order]]
        return cls(counts[counts > 0], values[order], places, clustering, dependence=dependence)

    @classmethod
    def none(cls, n_blocks: int, clustering: float = 1.0) -> Self:
        """Of blocks whose scores are not known."""
        return cls(np.zeros(n_blocks, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.int64), clustering)

    def then(
        self, values: Floats, place: NDArray[np.integer], moved: NDArray[np.integer], forget: float = 0.0
    ) -> "HeldOutScores":
        """With the scores of later rows, each of which takes a share ``forget`` off the weight of every row before it.

        ``place`` are the blocks of the later rows, and ``moved`` where the blocks so far are now. Rows of almost no weight
        are dropped.
        """
        seen = ~np.isnan(values)
        m = len(values)
        fresh = np.power(1 - forget, np.arange(m - 1.0, -1.0, -1.0))[seen]
        values, place = values[seen], np.asarray(place)[seen].astype(np.int64)
        n_blocks = 1 + max([-1, *place.tolist(), *moved.tolist()])
        old = self._weights * (1 - forget) ** m
        lasting = np.where(old >= _LEAST_WEIGHT, self.n_per_block, 0)
        counts = np.bincount(place, minlength=n_blocks) + _sums(moved, lasting, n_blocks).astype(np.int64)
        rows = np.bincount(place, fresh, minlength=n_blocks) + _sums(moved, lasting * old, n_blocks)
        here = lasting[self.block] > 0
        everything = np.concatenate([self.largest[here], values])
        block = np.concatenate([moved[self.block[here]], place])
        # below what was kept so far, only the later scores are known
        floor = self.largest.min(initial=np.inf) if self.n_per_block.sum() > len(self.largest) else -np.inf
        order = np.argsort(everything, kind="stable")
        order = order[everything[order] >= floor][-_kept(rows.sum()) :]
        weights = rows / np.maximum(counts, 1) if forget or self.weights is not None else None
        return HeldOutScores(counts, everything[order], block[order], self.clustering, weights, self.dependence)

    def restated(self, shift_from: Floats, shift_to: Floats, factor: Floats) -> "HeldOutScores":
        """The scores as another model sees them: for each block, the mean before and after, and the ratio of spreads."""
        changed = np.maximum(shift_to[self.block] + (self.largest - shift_from[self.block]) * factor[self.block], 0.0)
        if self.n_per_block.sum() > len(self.largest):  # what was not kept may now be higher than what was
            floor = (shift_to + (self.largest[0] - shift_from) * factor)[self.n_per_block > 0].max()
            changed = np.where(changed >= floor, changed, np.nan)
        order = np.argsort(changed, kind="stable")[: int((~np.isnan(changed)).sum())]
        return replace(self, largest=changed[order], block=self.block[order])

    @property
    def n(self) -> float:
        """Number of rows; where old rows are forgotten, the sum of their weights."""
        return int(self.n_per_block.sum()) if self.weights is None else float(self._rows.sum())

    @property
    def are_enough(self) -> bool:
        """Whether a limit should rest on these scores: with one block, there is a model of many more rows."""
        return self.n >= (FEWEST_ROWS if len(self.n_per_block) > 1 else _FEWEST_OF_ONE_BLOCK)

    def reaches(self, confidence: float) -> bool:
        """Whether enough of the largest scores were kept for so little confidence."""
        return bool(len(self.largest)) and self._n_above(1 - confidence) < len(self.largest)

    def limit(self, confidence: float) -> HeldOutLimit:
        """The limit that a share 1 - ``confidence`` of normal rows exceeds."""
        if not self.reaches(confidence):
            raise _unknown(self)
        asked = 1 - confidence
        if not self._blocks_differ(asked):
            return HeldOutLimit(self.level(asked), asked, False, self._n_above(asked) < 0)
        rate = self._lowered_rate(asked)
        return HeldOutLimit(self.level(rate), rate, True, self._n_above(rate) < 0)

    def rate_above(self, limit: float, alike: float = 1.0) -> Rate:
        """Share of held-out rows above a limit; the interval is as wide as the spread over blocks demands.

        Where rows resemble those before them, so many rows are ``alike`` that they count as one.
        """
        rates = self._rates(limit)
        value = _pooled(self._rows, rates)
        value, low, high = binomial(value, self.n / max(self.clustering * self.dependence, alike))
        if _n_blocks(self.n_per_block) > 1:
            variance, n_blocks = self._between(rates)
            half = float(stats.t.ppf(0.975, _n_blocks(self.n_per_block) - 1)) * math.sqrt(variance / n_blocks)
            low, high = min(low, max(value - half, 0.0)), max(high, min(value + half, 1.0))
        return Rate(value, low, high)

    def above(self, score: Floats) -> Floats:
        """How many held-out rows score as high or higher; of scores below all that were kept, how many were kept."""
        return np.asarray(self._from_top[len(self.largest) - np.searchsorted(self.largest, score, side="left")])

    @property
    def n_kept(self) -> float:
        """How many rows the largest scores stand for."""
        return float(self._from_top[-1])

    def p_values(self, score: Floats, *, extrapolate: bool = False) -> Floats:
        """How often a normal row scores as high or higher, by rank: (1 + number of held-out scores as high) / (n + 1).

        A score below all that were kept gets the p-value of the lowest of these. ``extrapolate`` goes on below 1 / (n + 1)
        with the fitted tail, for display; only p-values by rank control the false discovery rate for any distribution.
        """
        score = np.asarray(score, dtype=np.float64)
        result = np.asarray((1.0 + self.above(score)) / (self.n + 1))
        if extrapolate and len(self.largest):
            beyond = score > self.largest[-1]
            result[beyond] = rates_of(score[beyond], self._tail_levels, 1 / (self.n + 1))
        return np.where(np.isnan(score), np.nan, result)

    @property
    def _alike(self) -> float:
        """Scores that count as one when a limit is set.

        A quantile of scores that resemble each other varies as that of fewer ones does, and so lies too low on average, by
        half as much as if scores were equal in groups. Where the rows themselves resemble each other, nobody knows how
        much, and all of it counts.
        """
        return 1 + (self.clustering * self.dependence - 1) * (1 - 0.5 / self.dependence)

    @cached_property
    def _weights(self) -> Floats:
        return np.where(self.n_per_block > 0, 1.0, 0.0) if self.weights is None else self.weights

    @cached_property
    def _rows(self) -> Floats:
        """Of each block, the sum of the weights."""
        return np.asarray(self._weights * self.n_per_block)

    @cached_property
    def _from_top(self) -> Floats:
        """Sum of the weights of the 0, 1, 2, ... largest scores."""
        return np.concatenate([[0.0], np.cumsum(self._weights[self.block][::-1])])

    def _n_above(self, rate: float) -> int:
        """How many of the largest scores lie above the level of a rate; -1 if even the largest is below it."""
        return (
            int(np.searchsorted(self._from_top, (self.n + self._alike) * rate - self._alike + 1e-9, side="right")) - 1
        )

    def level(self, rate: float) -> float:
        """The level that a share ``rate`` of rows exceeds, as far as whole rows and the tail allow."""
        if self._n_above(rate) < 0:
            return float(self._tail_levels(np.array(rate)))
        return float(self.largest[max(len(self.largest) - 1 - self._n_above(rate), 0)])

    def _rates(self, level: float) -> Floats:
        above = np.bincount(self.block[self.largest > level], minlength=len(self.n_per_block))
        return np.asarray(above / np.maximum(self.n_per_block, 1))

    def _between(self, rates: Floats) -> tuple[float, float]:
        """Variance of the rate over blocks, and how many blocks it rests on."""
        weights = self._weights[self.n_per_block > 0]
        n_blocks = float(weights.sum() ** 2 / (weights**2).sum())
        return float(np.cov(rates[self.n_per_block > 0], aweights=weights)), n_blocks

    def differing_block(self, confidence: float) -> tuple[float, float, float] | None:
        """Where blocks clearly differ: the one with the most rows above the limit, and its rate.

        It is told by the shares of all rows that come before it and up to its end. Raising the limit takes less of a
        difference: that does little harm where the rows are alike after all, but a warning would.
        """
        if not self._blocks_differ(1 - confidence, _CLEARLY):
            return None
        rates = self._rates(self.level(_tested(self.n, 1 - confidence)))
        worst, ends = int(np.argmax(rates)), np.cumsum(self.n_per_block) / self.n_per_block.sum()
        return float(ends[worst - 1]) if worst else 0.0, float(ends[worst]), float(rates[worst])

    def _blocks_differ(self, asked: float, confidence: float = _DIFFER) -> bool:
        n_blocks = _n_blocks(self.n_per_block)
        tested = _tested(self.n, asked)
        if n_blocks < 2 or not self.reaches(1 - tested):
            return False
        rates = self._rates(self.level(tested))
        pooled = _pooled(self._rows, rates)
        spread = float((self._rows * (rates - pooled) ** 2).sum()) / max(pooled * (1 - pooled), 1e-12)
        return spread > self.clustering * float(stats.chi2.ppf(confidence, n_blocks - 1))

    def _lowered_rate(self, asked: float) -> float:
        """The largest rate at which the blocks' mean rate plus two standard errors is at most what was asked."""
        for factor in np.arange(1.0, _LARGEST_RAISE - 0.01, -0.05).tolist():
            rates = self._rates(self.level(asked * factor))
            pooled = _pooled(self._rows, rates)
            chance = self.clustering * pooled * (1 - pooled)
            chance *= float(np.average(1 / np.maximum(self.n_per_block, 1), weights=self._weights))
            variance, n_blocks = self._between(rates)
            between = max(0.0, variance - chance)
            if pooled + _STANDARD_ERRORS * math.sqrt(between / n_blocks) <= asked * (1 + 1e-9):
                return float(asked * factor)
        return asked * _LARGEST_RAISE

    @cached_property
    def _tail_levels(self) -> Levels:
        """Levels as a function of rates, by a distribution that is fitted once."""
        wanted = max(float(_FEWEST_IN_TAIL), float(round(_TAIL_SHARE * self.n)))
        m = min(int(np.searchsorted(self._from_top, wanted - 1e-9)), len(self.largest) - 1)
        threshold, top, rows = (
            float(self.largest[-m - 1]),
            self.largest[len(self.largest) - m :],
            float(self._from_top[m]),
        )
        return levels_beyond(threshold, top, rows / (self.n + self._alike), len(top) / self._alike)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_tail_levels", None)  # functions that are defined in functions cannot be pickled
        return state


def _sums(label: NDArray[np.integer], values: Floats, n: int) -> Floats:
    """Sums of values with the same label, 0 to n - 1."""
    return np.asarray(np.bincount(label, values, minlength=n))


def _largest(values: Floats, n: int) -> NDArray[np.intp]:
    """Positions of the largest values, ascending; equal ones by position. Sorting all of them would take ten times as long.

    >>> import numpy as np
    >>> _largest(np.array([3.0, 1.0, 2.0, 3.0, 2.0]), 3).tolist()
    [4, 0, 3]
    """
    least = np.partition(values, -n)[-n] if 0 < n < len(values) else -np.inf
    at = np.flatnonzero(values >= least)
    return at[np.argsort(values[at], kind="stable")][-n:]


def _kept(n: float) -> int:
    """How many of the scores are kept."""
    return max(_FEWEST_KEPT, math.ceil(_SHARE_KEPT * n))


def discoveries(p_values: Floats, rate: float) -> NDArray[np.bool_]:
    """Which rows to report so that the expected share of false discoveries is at most ``rate``.

    >>> import numpy as np
    >>> discoveries(np.array([0.001, 0.2, 0.01, 0.9]), 0.05)
    array([ True, False,  True, False])

    References
    ----------
    Benjamini and Hochberg (1995), "Controlling the false discovery rate".
    """
    return np.asarray(p_values <= discovery_level(p_values, rate))


def discovery_level(p_values: Floats, rate: float) -> float:
    """The largest p-value that `discoveries` reports, or -1; NaN, for rows without a score, does not count."""
    ordered = np.sort(p_values[~np.isnan(p_values)])
    n = len(ordered)
    small = np.flatnonzero(ordered <= rate * np.arange(1, n + 1) / max(n, 1))
    return float(ordered[small[-1]]) if len(small) else -1.0


def empirical(tail: HeldOutScores, confidence: float) -> float:
    """The quantile of the scores, by linear interpolation."""
    place = confidence * (tail.n - 1)
    below, above = (_with_below(tail, round_(place)) for round_ in (math.floor, math.ceil))
    return below + (place - math.floor(place)) * (above - below)


def conformal(tail: HeldOutScores, confidence: float) -> float:
    """A limit that a new row exceeds with probability 1 - confidence at most, whatever the distribution.

    The ceil((n + 1) confidence)-th smallest score. It needs rows that the model was not fitted to, and new rows that
    come from where those came from (Vovk, Gammerman and Shafer, 2005).
    """
    rank = math.ceil((tail.n + 1) * confidence - 1e-9)
    if rank > tail.n:
        needed = math.ceil(confidence / (1 - confidence) - 1e-9)
        raise ValueError(
            f"a conformal limit with confidence={confidence:g} needs at least {needed:,} held-out rows, "
            f"got {tail.n:,}. Pass more rows, hold out a larger share, or choose a lower confidence."
        )
    return _with_below(tail, rank - 1)


def _with_below(tail: HeldOutScores, n_below: int) -> float:
    """The score with so many scores below it, where none has a weight."""
    place = n_below - (int(tail.n) - len(tail.largest))
    if not 0 <= place < len(tail.largest):
        raise _unknown(tail)
    return float(tail.largest[place])


def _unknown(tail: HeldOutScores) -> ValueError:
    if not len(tail.largest):
        return ValueError("no training row has a score, so there is no limit: pass rows with observed cells.")
    return ValueError(
        f"only the largest {len(tail.largest):,} of {tail.n:,.0f} scores were kept. Choose a higher confidence."
    )


def _n_blocks(n_per_block: Counts) -> int:
    """Number of blocks that have rows."""
    return int((n_per_block > 0).sum())


def _pooled(rows: Floats, rates: Floats) -> float:
    """The rate of all blocks together, each as heavy as its rows."""
    return float((rates * rows).sum() / rows.sum())


def _tested(n: float, asked: float) -> float:
    """The rate at whose level blocks are compared."""
    return max(asked, min(0.2, _TESTED_ROWS / max(n, 1)))
