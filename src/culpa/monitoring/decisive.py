"""Does a change of the mean score depend on few rows? Then it is not clear, however large it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats, Mask
from culpa._core.words import listed
from culpa.monitoring.intervals import CONFIDENCE, Interval, batch_variance, margin_of
from culpa.monitoring.when import Clock

_FAR = 10.0  # robust standard deviations from the median of all stretches
_FEWEST = 4  # stretches, from which a median says what is usual
_DECISIVE = 0.5  # share of the change that depends on the outlying stretches
_FEW = 0.25  # share of the rows
_SPANS_NAMED = 2


@dataclass(frozen=True)
class Decisive:
    """Stretches of rows with mean scores far from those of the other stretches, which account for most of a change.

    ``period`` is "first" or "second", ``spans`` are the labels of the first and the last row of each stretch, and ``share``
    is their share of the rows of the period. ``mean_without`` is the mean score of its other rows, and ``change_without``
    the change of the mean score without these stretches.
    """

    period: str
    spans: tuple[tuple[Any, Any], ...]
    share: float
    mean_without: float
    change_without: Interval

    @property
    def sentence(self) -> str:
        """Why the change is not clear, and what it is without these rows."""
        named = [_when(first, last) for first, last in self.spans[:_SPANS_NAMED]]
        more = len(self.spans) - len(named)
        named += [f"{more} more stretch{'es' * (more > 1)}"] if more else []
        change = self.change_without
        interval = f"{CONFIDENCE:.0%} interval {change.low:.3g} to {change.high:.3g}"
        verdict = "clear" if change.excludes_zero else "no clear change"
        return (
            f"This is not clear, because it depends on {'few' if self.share < _FEW else 'part of the'} rows. Without those "
            f"{listed(named)} of the {self.period} period, the mean score of this period is {self.mean_without:.4g}, a "
            f"change of {change.value:+.3g} ({interval}), which is {verdict}."
        )


class Stretches(NamedTuple):
    """The stretches of a period: their numbers of rows, mean scores, and labels of their first and last rows."""

    n: Floats
    scores: Floats
    labels: Sequence[tuple[Any, ...]]

    @property
    def mean(self) -> float:
        """Mean score of all rows."""
        return float(self.n @ self.scores / self.n.sum())

    def far(self) -> Mask:
        """Which stretches have mean scores far from the median."""
        distance = np.abs(self.scores - np.median(self.scores))
        return np.asarray(distance > _FAR * 1.4826 * np.median(distance)) & (len(self.n) >= _FEWEST)

    def choose(self, which: Mask) -> "Stretches":
        """The sums of some of the stretches only."""
        return Stretches(self.n[which], self.scores[which], [self.labels[k] for k in np.flatnonzero(which).tolist()])

    def spans(self, which: Mask) -> tuple[tuple[Any, Any], ...]:
        """First and last rows of some of the stretches; neighbours are joined."""
        spans: list[tuple[Any, Any]] = []
        for k in np.flatnonzero(which).tolist():
            first = spans.pop()[0] if k and which[k - 1] else self.labels[k][0]
            spans.append((first, self.labels[k][1]))
        return tuple(spans)

    def change_to(self, other: "Stretches") -> Interval:
        """Change of the mean score from this period to another one."""
        variances = [batch_variance(each.n, each.scores[:, None]) for each in (self, other)]
        change, margin = other.mean - self.mean, float(margin_of(variances[0], variances[1], 0.0)[0])
        return Interval(change, change - margin, change + margin)


def decisive_stretches(before: Stretches, after: Stretches) -> Decisive | None:
    """The stretches that decide the change of the mean score, if there are any."""
    periods = (before, after)
    far = [period.far() for period in periods]
    rest = [period.choose(~each) for period, each in zip(periods, far, strict=True)]
    effects = [abs(period.mean - other.mean) for period, other in zip(periods, rest, strict=True)]
    k, change = int(np.argmax(effects)), abs(after.mean - before.mean)
    # much more than the change would mean that outlying stretches of both periods cancel
    if not (far[k].any() and _DECISIVE * change < effects[k] < change / _DECISIVE):
        return None
    first, second = (rest[0], after) if k == 0 else (before, rest[1])
    name, share = ("first", "second")[k], 1 - float(rest[k].n.sum() / periods[k].n.sum())
    return Decisive(name, periods[k].spans(far[k]), share, rest[k].mean, first.change_to(second))


def _when(first: Any, last: Any) -> str:
    if isinstance(first, np.datetime64):
        import pandas as pd

        first, last = pd.Timestamp(first), pd.Timestamp(last)
    told = Clock(None, dated=True).span(first, last)
    return told[0].lower() + told[1:]
