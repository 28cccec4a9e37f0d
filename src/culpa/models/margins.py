"""Margins: each column's own distribution, as an increasing function from its values to normal scores, and back.

With the margins F_j of the columns, rows of a Gaussian copula have normal scores z_j = Phi^-1(F_j(x_j)) that follow a
Gaussian. F_j is the empirical distribution of the training values:

- A value that c of n training values share has the score Phi^-1((number below + c / 2) / n). Scores of values in between
  are interpolated, so the function is increasing and continuous, for discrete columns, too.
- Beyond the smallest and the largest training value, a tail goes on: a generalised Pareto distribution with the scale and
  shape of the outer 5% of the values. Every number has a finite score, and larger numbers have larger ones.
- A column that never varied has the score x minus its value, in its own units, so that any change of it shows.

References
----------
Hosking and Wallis (1987), "Parameter and quantile estimation for the generalized Pareto distribution".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from scipy import special

from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats, Positions

_MOST_KNOTS = 513  # per column; scores between them are interpolated
_TAIL_SHARE, _FEWEST_IN_TAIL = 0.05, 5  # training values that a tail is fitted to
_HEAVIEST = 0.9  # shape
_CERTAIN = 10  # values by which the shape of a tail is drawn towards 0, that of an exponential tail
_LARGEST = np.finfo(np.float64).max / 4


class Tail(NamedTuple):
    """What lies beyond the outermost training value: P(beyond by y) ~ (1 + shape y / scale)^(-1 / shape)."""

    scale: float
    shape: float

    @classmethod
    def of(cls, values: Floats) -> Self:
        """The tail above sorted values, at least two of which differ."""
        n = len(values)
        k = max(1, min(max(_FEWEST_IN_TAIL, int(np.ceil(_TAIL_SHARE * n))), n // 4))
        threshold = values[n - k - 1]
        if threshold == values[-1]:  # more equal values than the tail has: take all that are smaller
            threshold = values[np.searchsorted(values, values[-1]) - 1]
        above = values[values > threshold] - threshold
        mean = float(above.mean())
        # probability-weighted moments
        rank = (np.arange(1, len(above) + 1) - 0.35) / len(above)
        weighted = float((above * (1 - rank)).mean())
        shape = 2 - mean / (mean - 2 * weighted) if mean > 2 * weighted else _HEAVIEST
        shape = float(np.clip(shape, 0.0, _HEAVIEST)) * len(above) / (len(above) + _CERTAIN)
        # the scale at the largest value, if the tail has its scale at the threshold
        return cls(mean * (1 - shape) + shape * float(above[-1]), shape)

    def log_survival(self, beyond: Floats) -> Floats:
        """Log of the share that lies even further out."""
        steps = beyond / self.scale
        return np.asarray(-steps if self.shape == 0 else -np.log1p(self.shape * steps) / self.shape)

    def beyond(self, log_survival: Floats) -> Floats:
        """Inverse of `log_survival`."""
        if self.shape == 0:
            return np.asarray(-log_survival * self.scale)
        with np.errstate(over="ignore"):
            far = np.expm1(-self.shape * log_survival) / self.shape * self.scale
        return np.minimum(far, _LARGEST)


@dataclass(frozen=True, eq=False)
class Margin:
    """One column: training values and their scores, both increasing, and the tails below and above them."""

    values: Floats
    scores: Floats
    lower: Tail
    upper: Tail

    @classmethod
    def of(cls, x: Floats) -> Self:
        """The margin of a column, whose missing values do not count."""
        x = np.sort(x[~np.isnan(x)])
        values, counts = np.unique(x, return_counts=True)
        if len(values) < 2:
            return cls(values, np.zeros(len(values)), Tail(1.0, 0.0), Tail(1.0, 0.0))
        share = (np.cumsum(counts) - counts / 2) / len(x)
        scores = special.ndtri(share)
        at = _knots(scores)
        return cls(values[at], scores[at], Tail.of(-x[::-1]), Tail.of(x))

    def moved(self, shift: float, stretch: float) -> "Margin":
        """The margin of ``shift`` plus ``stretch`` times the values."""
        lower, upper = (tail._replace(scale=stretch * tail.scale) for tail in (self.lower, self.upper))
        return Margin(shift + stretch * self.values, self.scores, lower, upper)

    def to_normal(self, x: Floats) -> Floats:
        """Normal scores of cells."""
        if len(self.values) < 2:
            return np.asarray((x - self.values[0]) / self.upper.scale if len(self.values) else x / self.upper.scale)
        z = np.interp(x, self.values, self.scores)
        low, high = x < self.values[0], x > self.values[-1]
        below = special.log_ndtr(self.scores[0]) + self.lower.log_survival(self.values[0] - x[low])
        above = special.log_ndtr(-self.scores[-1]) + self.upper.log_survival(x[high] - self.values[-1])
        # rounding must not bring a value beyond the ends back inside
        z[low] = np.minimum(special.ndtri_exp(below), self.scores[0])
        z[high] = np.maximum(-special.ndtri_exp(above), self.scores[-1])
        return np.asarray(z)

    def to_user(self, z: Floats) -> Floats:
        """Cells that have these normal scores."""
        if len(self.values) < 2:
            return np.asarray(z * self.upper.scale + (self.values[0] if len(self.values) else 0.0))
        x = np.interp(z, self.scores, self.values)
        low, high = z < self.scores[0], z > self.scores[-1]
        below = special.log_ndtr(z[low]) - special.log_ndtr(self.scores[0])
        x[low] = self.values[0] - np.maximum(self.lower.beyond(below), 0.0)
        above = special.log_ndtr(-z[high]) - special.log_ndtr(-self.scores[-1])
        x[high] = self.values[-1] + np.maximum(self.upper.beyond(above), 0.0)
        return np.asarray(x)


@dataclass(frozen=True, eq=False)
class Margins(CopiedInUse):
    """The margins of all features, from training rows.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).exponential(size=(1000, 1))
    >>> margins = Margins.of(X)
    >>> margins.to_normal(np.array([[np.log(2.0)], [100.0]])).round(1)  # about the median, and far beyond all rows
    array([[-0.1],
           [ 6.1]])
    """

    margins: tuple[Margin, ...]

    @classmethod
    def of(cls, X: Floats) -> Self:
        """From rows, some of whose cells may be missing."""
        return cls(tuple(Margin.of(x) for x in X.T))

    def to_normal(self, X: Floats) -> Floats:
        """Normal scores of rows; NaN stays NaN."""
        return self._applied([margin.to_normal for margin in self.margins], X)

    def to_user(self, Z: Floats) -> Floats:
        """Rows that have these normal scores."""
        return self._applied([margin.to_user for margin in self.margins], Z)

    def moved(self, shift: Floats, stretch: Floats) -> "Margins":
        """The margins of ``shift`` plus ``stretch`` times the values."""
        return Margins(tuple(map(Margin.moved, self.margins, shift.tolist(), stretch.tolist())))

    @staticmethod
    def _applied(functions: Sequence[Callable[[Floats], Floats]], rows: Floats) -> Floats:
        result = np.empty(rows.shape)
        for j, function in enumerate(functions):
            result[:, j] = function(np.ascontiguousarray(rows[:, j]))
        return result

    def to_arrays(self) -> dict[str, Floats]:
        """For model files: knots of all margins one after the other, their numbers, and the tails."""
        return {
            "values": np.concatenate([margin.values for margin in self.margins]),
            "scores": np.concatenate([margin.scores for margin in self.margins]),
            "sizes": np.array([len(margin.values) for margin in self.margins], dtype=np.float64),
            "tails": np.array([[*margin.lower, *margin.upper] for margin in self.margins], dtype=np.float64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self:
        """Inverse of `to_arrays`."""
        cuts = np.cumsum([0, *arrays["sizes"].astype(np.int64).tolist()])
        parts = [slice(start, stop) for start, stop in pairwise(cuts)]
        return cls(
            tuple(
                Margin(arrays["values"][part], arrays["scores"][part], Tail(*tails[:2]), Tail(*tails[2:]))
                for part, tails in zip(parts, arrays["tails"].tolist(), strict=True)
            )
        )

    @cached_property
    def are_increasing(self) -> bool:
        """Whether values and scores of all margins increase and all tails are possible: what a file must hold."""
        return all(
            len(margin.values) == len(margin.scores)
            and bool((np.diff(margin.values) > 0).all() and (np.diff(margin.scores) > 0).all())
            and all(tail.scale > 0 and 0 <= tail.shape < 1 for tail in (margin.lower, margin.upper))
            for margin in self.margins
        )


def _knots(scores: Floats) -> Positions:
    """Positions of scores to keep: all, or evenly spread ones with both ends, so that the tails keep each value."""
    if len(scores) <= _MOST_KNOTS:
        return np.arange(len(scores))
    wanted = np.linspace(scores[0], scores[-1], _MOST_KNOTS)
    return np.unique(np.searchsorted(scores, wanted).clip(0, len(scores) - 1))
