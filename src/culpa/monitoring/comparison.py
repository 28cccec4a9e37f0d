"""Two periods compared: which features account for the change of the mean score, and which correlations changed.

The mean of Shapley values over a period is exact. Where values are quadratic forms, phi_i(x) = x^T F_i x + c_i, their mean
is tr(F_i M) + c_i with M the mean of x x^T, so that one pass over a table of any size gathers all there is to know; other
rows are explained one by one. Rows of one period depend on each other, so intervals come from the means of consecutive
stretches (batch means), and from a jackknife over stretches for correlations. Where few rows with very high scores decide
the mean, intervals are wide, and `decisive` says so.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from culpa._core import probability as stats
from culpa._core.comparing import ranked
from culpa._core.native import emptied
from culpa._core.result import Result
from culpa._core.threads import one_blas_thread
from culpa._core.types import DataFrame, Floats, TableT
from culpa._core.words import count, cut, listed
from culpa.columns import Reading
from culpa.explaining.explainer import Explainer
from culpa.fitted import FittedDetector
from culpa.models import Moments
from culpa.monitoring.decisive import Decisive, Stretches, decisive_stretches
from culpa.monitoring.intervals import CONFIDENCE, Interval, batch_variance, margin_of, welch
from culpa.monitoring.own_changes import OwnChange, own_changes, score_without
from culpa.monitoring.periods import Period

_ROWS_PER_CHUNK = 1 << 14  # rows explained at a time
_PAIRS_KEPT = 100
_NAMED = 3  # features that the sentence names at most
_MUCH = 0.25  # of the change, from which parts of what is left are told
_LARGEST_CORRELATION = 1 - 1e-12  # Fisher's z of 1 is infinite


@dataclass(frozen=True)
class FeatureChange:
    """What one feature has to do with the change of the mean score.

    ``before`` and ``after`` are its mean Shapley values, ``change`` their difference and ``share`` its part of the change
    of the mean score. ``mean_before`` and ``mean_after`` are the means of the feature's own cells; NaN for a group.
    """

    feature: str
    change: Interval
    share: float
    before: float
    after: float
    mean_before: float
    mean_after: float


@dataclass(frozen=True)
class CorrelationChange:
    """The change of one correlation; ``change`` is that of Fisher's z, its interval holds for all pairs together."""

    first: str
    second: str
    before: float
    after: float
    change: Interval
    p_value: float  # corrected for the number of pairs


@dataclass(frozen=True, eq=False)
class Comparison(Result[TableT]):
    """Two periods compared by one detector.

    Attributes
    ----------
    score : Interval
        Change of the mean score.
    score_before, score_after : float
        Mean scores.
    features : tuple of FeatureChange
        Every feature's part in it, those that account for most of it first; the parts add up to the change.
    correlations : tuple of CorrelationChange
        The 100 pairs of features whose correlations changed most clearly, clearest first.
    n_before, n_after : int
        Rows with a score.
    decisive : Decisive or None
        Stretches of rows on which most of the change depends, because their scores are far from all others.
    n_clear : int
        How many of all pairs have correlations that changed clearly.
    own : tuple of OwnChange
        One to three features that changed by themselves, if that explains the change of the means: how much more each
        reads than before for the same readings of all others, such as after a recalibration.
    left : Interval or None
        Change of the mean score without these changes, where the score is quadratic and hardly a row incomplete.

    statistic : str
        The score that is compared.
    confidence : float
        Of the intervals.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> comparison = detector.compare(plant.normal, plant.new)
    >>> comparison.score_after > comparison.score_before, comparison.n_after
    (True, 400)
    """

    score: Interval
    score_before: float
    score_after: float
    features: tuple[FeatureChange, ...]
    correlations: tuple[CorrelationChange, ...]
    n_before: int
    n_after: int
    statistic: str
    decisive: Decisive | None = None
    n_clear: int = 0
    confidence: float = CONFIDENCE  # of intervals
    own: tuple[OwnChange, ...] = ()
    left: Interval | None = None

    @property
    def sentence(self) -> str:
        """The comparison in plain words."""
        told = f"{self._own}The mean score went from {self.score_before:.4g} to {self.score_after:.4g}{self._judged}"
        if not self.n_clear:
            return f"{told} No correlation changed clearly."
        pair = self.correlations[0]
        more = f" ({count(self.n_clear - 1, 'more pair')} changed clearly)" if self.n_clear > 1 else ""
        return (
            f"{told} The correlation of {cut(pair.first)} and {cut(pair.second)} went from {pair.before:.2f} to "
            f"{pair.after:.2f}{more}."
        )

    @property
    def _own(self) -> str:
        """What changed in features by themselves."""
        if not self.own:
            return ""
        told = listed([f"{cut(one.feature)} reads {one}" for one in self.own])
        return f"Compared with the other features, {told} than before. "

    @property
    def _judged(self) -> str:
        """Whether the mean score changed clearly, and why or why not."""
        change = self.score
        if math.isnan(change.low):
            return ". Each period needs at least 2 rows to tell whether this is a clear change."
        told = f", a change of {change.value:+.3g} ({CONFIDENCE:.0%} interval {change.low:.3g} to {change.high:.3g})"
        if change.excludes_zero:
            if self.left is None:
                return f"{told}: {self._parts}."
            told = f"{told}. Without this, it would have changed by {self.left}"
            small = not self.left.excludes_zero or abs(self.left.value) < _MUCH * abs(change.value)
            return f"{told}." if small else f"{told}: {self._parts}."
        if self.decisive is None:
            return f"{told}, which is no clear change."
        return f"{told}. {self.decisive.sentence}"

    @property
    def _parts(self) -> str:
        """The features whose parts of the change are clear, and the largest part if it is not."""
        clear = [each for each in self.features if each.change.excludes_zero and each.share > 0]
        parts = [f"{cut(each.feature)} accounts for {each.change}" for each in clear[:_NAMED]]
        if not clear:
            parts = ["no feature accounts for a clear part of it"]
        largest = self.features[0]
        if not largest.change.excludes_zero:
            parts.append(f"the largest part is that of {cut(largest.feature)}, {largest.change}, which is not clear")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<Comparison of {self.n_before:,} and {count(self.n_after, 'row')}: {self.sentence}>"

    def __str__(self) -> str:
        return self.sentence

    @property
    def _lines(self) -> tuple[FeatureChange, ...]:
        """One line per feature: its part in the change of the mean score, largest first."""
        return self.features

    def correlations_to_frame(self) -> DataFrame:
        """One line per pair of features, the clearest change of correlation first."""
        return self._frame_of(self.correlations)


def compare(fitted: FittedDetector, before: Reading, after: Reading, **options: Any) -> Comparison:
    """What `PCADetector.compare` does; see there."""
    explainer = fitted.explainer(**options)
    first, second = periods = (Period(explainer), Period(explainer))
    explainer._one_pass.count_rows(before.features)
    explainer._one_pass.count_rows(after.features)
    with one_blas_thread(len(before.labels) + len(after.labels)):
        for period, reading in zip(periods, (before, after), strict=True):
            for start in range(0, len(reading.labels), _ROWS_PER_CHUNK):
                period.add(reading.choose(slice(start, start + _ROWS_PER_CHUNK)), count=False)
    return compare_periods(first, second, emptied(before.native))


def compare_periods(before: Period, after: Period, native: Any = None) -> Comparison:
    """Two periods that have been gathered with the same explainer."""
    explainer = before.explainer
    for period, name in ((before, "before"), (after, "after")):
        if not period.means()[0].sum():
            raise ValueError(f"no row of {name!r} has a score: pass rows with observed cells.")
    (n1, means1), (n2, means2) = before.means(), after.means()
    y1, y2 = n1 @ means1 / n1.sum(), n2 @ means2 / n2.sum()
    margin = margin_of(batch_variance(n1, means1), batch_variance(n2, means2), np.append(_sampled(before, after), 0.0))
    change = y2 - y1
    intervals = [Interval(float(c), float(c - m), float(c + m)) for c, m in zip(change, margin, strict=True)]
    own_means = [_column_means(period, explainer) for period in (before, after)]
    own, moved = own_changes(before, after)
    left = score_without(after, moved) if own else None
    order = ranked(np.sign(change[-1] or 1.0) * change[:-1])
    names = explainer.player_names
    features = tuple(
        FeatureChange(
            names[i],
            intervals[i],
            float(change[i] / change[-1]) if change[-1] else float("nan"),
            float(y1[i]),
            float(y2[i]),
            *(float(means[i]) for means in own_means),
        )
        for i in order
    )
    pairs, n_clear = _correlations(before, after, explainer.columns.names)
    return Comparison(
        intervals[-1],
        float(y1[-1]),
        float(y2[-1]),
        features,
        pairs,
        before.total.n_rows,
        after.total.n_rows,
        explainer.score.name,
        decisive_stretches(
            Stretches(n1, means1[:, -1], before.labels),
            Stretches(n2, means2[:, -1], after.labels),
        ),
        n_clear,
        own=own,
        left=None if left is None else Stretches(n1, means1[:, -1], ()).change_to(Stretches(n2, left, ())),
        native=native,
    )


def _column_means(period: Period, explainer: Explainer) -> Floats:
    """Means of the players' cells; NaN for groups of several columns."""
    total = period.total
    means = np.divide(total.cells, total.n_cells, out=np.full(len(total.cells), np.nan), where=total.n_cells > 0)
    if explainer.groups is None:
        return np.asarray(means)
    return np.array([means[at[0]] if len(at) == 1 else np.nan for _, at in explainer.groups])


def _sampled(before: Period, after: Period) -> Floats:
    """Standard error of the change of every mean Shapley value that sampled orders leave."""
    (forms1, rows1), (forms2, rows2) = before.sampling(), after.sampling()
    change = forms2 - forms1
    if len(change) < 2:
        return np.asarray(rows1 + rows2)
    return np.asarray(change.std(axis=0, ddof=1) / np.sqrt(len(change)) + rows1 + rows2)


def _correlations(before: Period, after: Period, names: Sequence[str]) -> tuple[tuple[CorrelationChange, ...], int]:
    """The pairs whose correlation changed most clearly, of columns that vary in both periods, and how many did clearly."""
    d = len(names)
    (z1, v1), (z2, v2) = (_fisher(period.complete, d) for period in (before, after))
    variance, freedom = welch(v1, v2)
    first, second = np.triu_indices(d, 1)
    known = np.isfinite(z1 + z2 + variance)
    change, n_pairs = z2 - z1, max(int(known.sum()), 1)
    t = np.divide(change, np.sqrt(variance), out=np.zeros_like(change), where=known & (variance > 0))
    p = np.minimum(1.0, n_pairs * 2 * stats.t.sf(np.abs(t), freedom))
    margin = stats.t.isf((1 - CONFIDENCE) / (2 * n_pairs), freedom) * np.sqrt(variance)
    order = np.lexsort((-np.abs(t), p))
    pairs = tuple(
        CorrelationChange(
            names[first[k]],
            names[second[k]],
            float(np.tanh(z1[k])),
            float(np.tanh(z2[k])),
            Interval(float(change[k]), float(change[k] - margin[k]), float(change[k] + margin[k])),
            float(p[k]),
        )
        for k in [k for k in order if known[k]][:_PAIRS_KEPT]
    )
    return pairs, int((known & (p < 1 - CONFIDENCE)).sum())


def _fisher(stretches: Iterable[Moments], d: int) -> tuple[Floats, tuple[Floats, int]]:
    """Fisher's z of every pair of the first d columns, and its variance by a jackknife over stretches.

    The variance is that of independent rows at least: a few stretches may agree by chance.
    """
    stretches = list(stretches)
    B = len(stretches)
    unknown = np.full(d * (d - 1) // 2, np.nan)
    if B < 2:
        return unknown, (unknown, 1)
    total = reduce(Moments.merge, stretches)
    if total.n < 4:
        return unknown, (unknown, 1)
    z = _z(total, d)
    shifts = [_z(total.without(stretch), d) - z for stretch in stretches]
    mean = sum(shifts) / B
    jackknife = (B - 1) / B * sum((shift - mean) ** 2 for shift in shifts)
    return z, (np.maximum(jackknife, 1 / (total.n - 3)), B - 1)


def _z(moments: Moments, d: int) -> Floats:
    scatter = moments.scatter[:d, :d]
    size = np.sqrt(np.diag(scatter).clip(0.0))
    with np.errstate(divide="ignore", invalid="ignore"):  # a constant column has no correlations
        r = (scatter / np.outer(size, size))[np.triu_indices(d, 1)]
    return np.asarray(np.arctanh(np.clip(r, -_LARGEST_CORRELATION, _LARGEST_CORRELATION)))
