"""Alarms that hold while the process moves: three views of a row in order of time, and one limit that follows.

With x_t a row, b_t a slow average of the rows and c the mean of the training rows, a row is judged by

| view | residual | what a flag says |
| --- | --- | --- |
| level | x_t - c | it is off its usual level |
| departure | x_t - b_(t-1) | it left its recent level |
| jump | x_t - x_(t-1) | it jumped |

The level counts only where a fixed limit holds forward in time (`culpa.fitting.views`). A view is a Gaussian of its
residuals, with a score s, a quantile q of log s over normal rows, and a unit u = q - median. So all views have one scale,

    v = (log s - q) / u,

and a row is flagged if the largest v exceeds the limit, theta. The first ten flagged rows of an incident raise theta by
0.0175 (1 - alpha) each, and rows that are not flagged lower it by 0.0175 alpha, so that about a share alpha of normal rows
is flagged in the long run. An incident ends after ten rows that are not flagged. One of 25 flagged rows is hardly a false
alarm: what it raised is taken back, so that incidents that repeat do not blunt the limit.

Rows whose departure exceeds theta + 0.2 do not move the average. After 500 flagged rows of an incident, the average begins
anew at the new level and remembers the old one, until rows that depart fit it or the average has wandered back to it (half
of normal rows depart more from theirs): until then, the level is *shifted*. A level view that has been off for 500 rows
does not flag rows any more until it is over: this is a shift, too.
These numbers of rows are multiplied by a ``stride`` where rows follow each other more closely, and steps of theta divided.

After missing rows, there is no jump. After many of them, the average begins anew, and there is no departure until it is
settled.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats, Mask
from culpa.columns.smoothing import averaged
from culpa.models.fitted_model import FittedModel
from culpa.models.latent import LatentGaussian
from culpa.models.normal_range import NormalRange
from culpa.models.scatter import Scatter
from culpa.scores.quadratic import QuadraticScore, mahalanobis

ViewName = Literal["level", "departure", "jump"]
LEVEL, DEPARTURE, JUMP = 0, 1, 2  # the first that exceeds the limit explains a row
VIEWS: tuple[ViewName, ...] = ("level", "departure", "jump")
FOLLOWING = "following"  # what scores in units of the limit that follows are called

_STEP = 0.0175  # by which flagged rows move the limit
_HOLD = 0.2  # above the limit, from which a row does not move the average
_HALF_LIFE, _QUICK = 120, 15  # of the average, and where it takes up a new level
_GAP, _COUNTED, _CLEAR, _LONGEST, _SETTLING = 10, 10, 25, 500, 50
_LEAST = 1e-12  # of scores
_MEDIAN = -1.0  # v of the median of normal rows
MOST_STRIDE = 64
_FEWEST, _CELLS = 16, 1 << 15  # rows judged at a time, at least, and cells


class Lengths(NamedTuple):
    """How many rows things take."""

    half_life: int
    quick: int
    gap: int
    counted: int
    clear: int
    longest: int
    settling: int

    @classmethod
    def of(cls, stride: int) -> Self:
        """Where so many rows hold as much as one of those that the rule was made for."""
        return cls(*(stride * rows for rows in (_HALF_LIFE, _QUICK, _GAP, _COUNTED, _CLEAR, _LONGEST, _SETTLING)))

    @property
    def slow_weight(self) -> float:
        """Of a row in the average."""
        return -math.expm1(-math.log(2) / self.half_life)

    @property
    def quick_weight(self) -> float:
        """The same where it takes up a new level."""
        return -math.expm1(-math.log(2) / self.quick)


@dataclass(frozen=True, eq=False)
class View(CopiedInUse):
    """A Gaussian of residuals, and the scale of its scores."""

    model: FittedModel
    quantile: float
    unit: float
    normal_range: NormalRange

    @cached_property
    def score(self) -> QuadraticScore:
        """The Mahalanobis distance of standardised residuals."""
        return mahalanobis(self.model.gaussian)

    def limit(self, theta: Any) -> Any:
        """The score that is at the limit."""
        return np.exp(self.quantile + self.unit * theta)

    def moved(self, shift: Floats, stretch: Floats, model: FittedModel) -> Self:
        """Of residuals shift + stretch * residual, for the columns of a model."""
        own = replace(
            self.model,
            centre=shift + stretch * self.model.centre,
            scale=stretch * self.model.scale,
            feature_names=model.feature_names,
            encoding=model.encoding,
        )
        return replace(self, model=own)

    @cached_property
    def root(self) -> Floats:
        """F, whose |F r|^2 is the score of a residual r without missing cells, from the centre."""
        return np.asarray(np.linalg.cholesky(self.score.matrix).T / self.model.scale)

    def __call__(self, residuals: Floats) -> Floats:
        """How far rows of residuals are out; not at all where nothing was observed."""
        centre = self.model.centre
        whitened = (residuals - centre if centre.any() else residuals) @ self.root.T
        score = np.einsum("ij,ij->i", whitened, whitened)
        missing = np.isnan(score)
        if missing.any():
            score[missing] = np.nan_to_num(self.score(self.model.standardise(residuals[missing])), nan=0.0)
        return np.asarray((np.log(np.maximum(score, _LEAST)) - self.quantile) / self.unit)


@dataclass(frozen=True, eq=False)
class Views:
    """What judges rows in order of time: the views, the limit and the average after the training rows.

    There is no ``level`` where a fixed limit does not hold forward in time.
    """

    departure: View
    jump: View
    level: View | None
    alpha: float
    theta: float
    average: Floats
    stride: int = 1

    @classmethod
    def of(cls, views: Sequence[View], alpha: float, theta: float, average: Floats, stride: int) -> Self:
        """The views of departures, of jumps and, if there are three, of levels."""
        level = views[2] if len(views) > 2 else None
        return cls(views[0], views[1], level, alpha, theta, average, stride)

    @property
    def lengths(self) -> Lengths:
        """How many rows things take."""
        return Lengths.of(self.stride)

    @property
    def all(self) -> dict[int, View]:
        """Those that serve, by number."""
        known = {LEVEL: self.level, DEPARTURE: self.departure, JUMP: self.jump}
        return {number: view for number, view in known.items() if view is not None}

    @property
    def largest_unit(self) -> float:
        """Of a view."""
        return max(view.unit for view in self.all.values())

    def moved(self, shift: Floats, stretch: Floats, model: FittedModel) -> Self:
        """Of the same rows in other units: shift + stretch * cell, for the columns of a model."""
        return replace(
            self,
            departure=self.departure.moved(np.zeros_like(shift), stretch, model),
            jump=self.jump.moved(np.zeros_like(shift), stretch, model),
            level=None if self.level is None else self.level.moved(shift, stretch, model),
            average=shift + stretch * self.average,
        )

    def to_arrays(self) -> dict[str, Floats]:
        """Plain arrays from which a model file makes the same again."""
        views = [view for view in (self.departure, self.jump, self.level) if view is not None]
        ranges = [view.normal_range.to_arrays() for view in views]
        return {
            "centre": np.stack([view.model.centre for view in views]),
            "scale": np.stack([view.model.scale for view in views]),
            "covariance": np.stack([view.model.scatter.matrix for view in views]),
            "range.features": np.stack([one["features"] for one in ranges]),
            "range.rows": np.stack([one["rows"] for one in ranges]),
            "quantile": np.array([view.quantile for view in views]),
            "unit": np.array([view.unit for view in views]),
            "average": self.average,
            "rule": np.array([self.alpha, self.stride]),
            "theta": np.array([self.theta]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats], model: FittedModel) -> Self:
        """Inverse of `to_arrays`, beside the detector's own model."""
        ranges = [
            NormalRange.from_arrays({"features": features, "rows": rows})
            for features, rows in zip(arrays["range.features"], arrays["range.rows"], strict=True)
        ]
        views = [
            View(residual_model(model, centre, scale, covariance, seen.n), quantile, unit, seen)
            for centre, scale, covariance, seen, quantile, unit in zip(
                *(arrays[name] for name in ("centre", "scale", "covariance")),
                ranges,
                arrays["quantile"].tolist(),
                arrays["unit"].tolist(),
                strict=True,
            )
        ]
        alpha, stride = arrays["rule"].tolist()
        return cls.of(views, alpha, float(arrays["theta"][0]), arrays["average"], int(stride))


def residual_model(model: FittedModel, centre: Floats, scale: Floats, covariance: Floats, n_rows: float) -> FittedModel:
    """A model of residuals, from the covariance of scaled ones, for the columns of a model."""
    standard = LatentGaussian.from_covariance(covariance, len(covariance) - 1)
    sample = Scatter.of_matrix(covariance)
    return FittedModel(standard, centre, scale, sample, n_rows, model.feature_names, model.encoding)


class Judged(NamedTuple):
    """What follows of rows: which are flagged, and by which view; how far they are out, beside the limit of each.

    ``out`` has the largest v, and ``theta`` the limit, before the row moved it. ``shifted`` says that the level is another
    one for so long that this is no alarm any more. ``average`` is that before each flagged row, ``before`` the row before.
    """

    flagged: Mask
    view: NDArray[np.int64]
    out: Floats
    theta: Floats
    shifted: Mask
    average: Floats
    before: Floats

    @classmethod
    def of(cls, n: int, d: int) -> Self:
        """Of rows that are still to be judged."""
        flags, nothing = np.zeros((2, n), dtype=bool), np.empty((0, d))
        return cls(flags[0], np.full(n, -1), np.empty(n), np.empty(n), flags[1], nothing, nothing)

    def rows(self, start: int, end: int) -> Self:
        """Of some of the rows, to be filled in."""
        return self._replace(**{name: getattr(self, name)[start:end] for name in self._fields[:6]})

    def at(self, row: int, flagged: bool, view: int, out: float, shifted: bool) -> None:
        """Fill in one row."""
        self.flagged[row], self.view[row], self.out[row], self.shifted[row] = flagged, view, out, shifted

    @property
    def excess(self) -> Floats:
        """How far rows exceed the limit."""
        return self.out - self.theta

    @property
    def reference(self) -> Floats:
        """What each flagged row is compared with in its view."""
        return reference(self.view[self.flagged], self.average, self.before)


def reference(view: Any, average: Floats, before: Floats) -> Floats:
    """What rows are compared with, each in its view or all in one, in the user's units; 0 for the level."""
    number = np.broadcast_to(view, len(average))[:, None]
    return np.where(number == LEVEL, 0.0, np.where(number == DEPARTURE, average, before))


class _Step(NamedTuple):
    """What a row did: its weight in the average, the average ``before`` it, and ``after`` it where that begins anew.

    It ``is_news`` where the next rows must be looked at again.
    """

    weight: float
    before: Floats
    after: Floats | None
    is_news: bool


class Follower:
    """Takes rows of features in order, in any number of batches; ``memory`` is what matters of those so far.

    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> fitted = PCADetector().fit(plant.normal).fitted
    >>> follower = Follower(fitted.views)
    >>> judged = follower.add(plant.new[:100])
    >>> bool(judged.flagged[50])  # where the first fault begins
    True
    """

    def __init__(self, views: Views) -> None:
        self.views, self._lengths = views, views.lengths
        self._slow, self._quick = self._lengths.slow_weight, self._lengths.quick_weight
        self._step = _STEP / views.stride
        self._average, self._old = views.average, np.zeros(0)  # no old level
        self._last = np.full(len(views.average), np.nan)  # the row before
        self._ups = self._downs = 0  # rows that raised and lowered the limit
        self._age = self._quiet = 0  # flagged rows of the incident, and rows since the last of them
        self._off = self._level_quiet = 0  # the same of rows whose level is off
        self._settling = 0  # rows until the average is settled
        # only for speed: what rows did to the average before, and how many are looked at together
        self._weight, self._most = self._slow, max(_FEWEST, _CELLS // max(len(views.average), 1))
        self._chunk = dict.fromkeys((self._slow, self._quick, 0.0), _FEWEST)

    _STATE = (
        *("_average", "_old", "_last", "_ups", "_downs"),
        *("_age", "_quiet", "_off", "_level_quiet", "_settling"),
    )

    @property
    def memory(self) -> tuple[Any, ...]:
        """Set it to go on from there."""
        return tuple(getattr(self, name) for name in self._STATE)

    @memory.setter
    def memory(self, memory: tuple[Any, ...]) -> None:
        for name, value in zip(self._STATE, memory, strict=True):
            setattr(self, name, value)

    @property
    def theta(self) -> float:
        """The limit of the next row."""
        return float(self._theta(self._ups, self._downs))

    def _theta(self, ups: Any, downs: Any) -> Any:
        """After so many rows that raised and lowered it."""
        alpha = self.views.alpha
        return self.views.theta + self._step * ((1 - alpha) * ups - alpha * downs)

    @property
    def is_shifted(self) -> bool:
        """Whether the level is another one for so long that this is no alarm any more."""
        return len(self._old) > 0 or self._is_level_shifted

    @property
    def _is_level_shifted(self) -> bool:
        return self._off > self._lengths.longest

    def add(self, X: Floats, missing: Floats | None = None, course: Floats | None = None) -> Judged:
        """Judge the next rows; ``missing`` are missing before each. The average before each of them goes to ``course``."""
        n, longest = len(X), self._lengths.half_life
        missing = np.zeros(n) if missing is None else missing
        v, judged, ups, downs = self._without_departure(X, missing), Judged.of(n, X.shape[1]), self._ups, self._downs
        judged = judged if course is None else judged._replace(average=course)
        cuts = [*dict.fromkeys([0, *np.flatnonzero(missing >= longest).tolist()]), n]
        averages, raised = list[Floats](), np.zeros(n, dtype=np.int64)
        for start, end in pairwise(cuts if n else []):
            if missing[start] >= longest:
                self._begin_anew(X[start])
            while start < end:
                start += self._some(X[start:end], v[:, start:end], judged.rows(start, end), raised[start:end], averages)
        at, lowered = np.flatnonzero(judged.flagged), ~judged.flagged
        judged.theta[:] = self._theta(ups + np.cumsum(raised) - raised, downs + np.cumsum(lowered) - lowered)
        before = np.where(at[:, None] > 0, X[at - 1], self._last)
        if n:
            self._last = X[-1].copy()
        return judged._replace(average=np.array(averages).reshape(-1, X.shape[1]), before=before)

    def _without_departure(self, X: Floats, missing: Floats) -> Floats:
        """How far rows are out in each view, but for departures."""
        v, level = np.full((len(VIEWS), len(X)), -np.inf), self.views.level
        for start in range(0, len(X), self._most):
            rows = X[start : start + self._most]
            at = slice(start, start + len(rows))
            if level is not None:
                v[LEVEL, at] = level(rows)
            jumps = np.empty_like(rows)
            jumps[0] = rows[0] - (X[start - 1] if start else self._last)
            np.subtract(rows[1:], rows[:-1], out=jumps[1:])
            jumps[missing[at] > 0] = np.nan
            v[JUMP, at] = self.views.jump(jumps)
        return v

    def _begin_anew(self, x: Floats) -> None:
        """Nothing is known of the recent level before this row."""
        self._average, self._old, self._age, self._off = self._anew(x, self._average), self._old[:0], 0, 0

    def _anew(self, x: Floats, average: Floats) -> Floats:
        """An average that begins in a row, and is still to settle."""
        self._settling = self._lengths.settling
        return np.where(np.isnan(x), average, x)

    def _some(self, X: Floats, v: Floats, judged: "Judged", raised: NDArray[np.int64], averages: list[Floats]) -> int:
        """Judge as many of the rows as move the average in the same way, and return how many these are."""
        settling = self._settling > 0
        weight = self._quick if settling else self._weight
        n = min(len(X), self._settling or self._chunk[weight])
        course = self._moved(self._average, X[:n], weight)
        v[DEPARTURE, :n] = -np.inf if settling else self.views.departure(X[:n] - course[:-1])
        out, done, is_slow, is_back = v[:, :n].max(axis=0), 0, weight == self._slow, np.zeros(n, dtype=bool)
        if len(self._old) and not settling:
            is_back = self.views.departure(course[:-1] - self._old) <= _MEDIAN
        judged.out[:n] = out
        if len(judged.average):
            judged.average[:n] = course[:-1]
        # where rows move the average slowly, those within the limit need no look
        lowest = self.theta - self._step * self.views.alpha * n if is_slow else -np.inf
        for k in np.flatnonzero((out >= lowest) | is_back).tolist():
            is_over = bool(is_back[k])
            if is_slow and not is_over and out[k] <= self._theta(self._ups, self._downs + k - done):
                continue
            self._pass(judged, done, k)
            done, ups = k + 1, self._ups
            if is_over:
                self._old, self._age = self._old[:0], 0
            step = self._take(X[k], v[:, k].tolist(), course[k], judged, k)
            self._weight, raised[k] = step.weight, self._ups - ups
            if judged.flagged[k]:
                averages.append(step.before.copy())
            if len(judged.average):
                judged.average[k] = step.before
            if step.weight != weight or step.is_news or is_over:
                moved = self._moved(step.before, X[k:done], step.weight)[1]
                self._average = moved if step.after is None else step.after
                self._chunk[weight] = min(max(_FEWEST, 2 * done), self._most)
                break
        else:
            self._pass(judged, done, n)
            done, self._average = n, course[n].copy()
            self._chunk[weight] = min(2 * self._chunk[weight], self._most)
        if settling:
            self._settling -= done
        return done

    @staticmethod
    def _moved(average: Floats, X: Floats, weight: float) -> Floats:
        """The average before the rows, and after each."""
        if not weight:
            return np.broadcast_to(average, (len(X) + 1, len(average)))
        return np.concatenate([average[None], averaged(X, average, weight)])

    def _pass(self, judged: "Judged", start: int, end: int) -> None:
        """Rows that are not flagged, and not off their usual level."""
        if self.is_shifted:
            until_over = max(self._lengths.gap - self._level_quiet, 0)
            judged.shifted[start : end if len(self._old) else min(end, start + until_over)] = True
        n = end - start
        self._downs, self._quiet, self._level_quiet = self._downs + n, self._quiet + n, self._level_quiet + n
        self._forget()

    def _forget(self) -> None:
        """Incidents end after some rows that are not flagged."""
        if self._quiet > self._lengths.gap:
            self._age = 0
        if self._level_quiet > self._lengths.gap:
            self._off = 0

    def _take(self, x: Floats, v: list[float], average: Floats, judged: "Judged", row: int) -> _Step:
        """Judge one row, with the average before it."""
        theta, lengths, after, is_other = self.theta, self._lengths, None, False
        if len(self._old) and v[DEPARTURE] > theta:
            back = float(self.views.departure((x - self._old)[None])[0])
            if back <= theta:
                average, self._old, self._age, v[DEPARTURE], is_other = self._old, self._old[:0], 0, back, True
        off = bool(v[LEVEL] > theta)
        self._level_quiet = 0 if off else self._level_quiet + 1
        self._off += off
        level, departure, jump = v
        out = max(-math.inf if self._is_level_shifted else level, departure, jump)
        flagged, view = out > theta, -1
        if flagged:
            self._age, self._quiet = self._age + 1, 0
            self._ups += (self._age <= lengths.counted) - lengths.counted * (self._age == lengths.clear)
            is_level = level > theta and not self._is_level_shifted
            view = LEVEL if is_level else DEPARTURE if departure > theta else JUMP
        else:
            self._quiet, self._downs = self._quiet + 1, self._downs + 1
        self._forget()
        weight = self._quick if self._settling else 0.0 if departure > theta + _HOLD else self._slow
        if departure > theta and self._age > lengths.longest:  # take up a new level, and remember the old one
            self._old, after = self._old if len(self._old) else average.copy(), self._anew(x, average)
        judged.at(row, flagged, view, out, self.is_shifted)
        fell = flagged and self._age == lengths.clear
        return _Step(weight, average, after, is_other or after is not None or fell)
