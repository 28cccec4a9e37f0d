"""What judges rows in order of time, learned from training rows in order: see `culpa.scores.following`.

Residuals have no mean. Their columns are scaled by the standard deviation, at least by a hundredth of the range of the
rows, and their covariance is drawn towards the identity. The scores of the rows themselves are too low, by the median of
what ten blocks gain that are judged by the residuals of the others; of few rows, the scores of these blocks count.

The level serves where a fixed limit holds: learned from the first 40, 55 and 70% of the rows, it flags at most eight times
as many of the rest as was asked. Parts with few rows for their columns do not count, and long tables are thinned for this.
What flagged rows add up to is learned from the last rows.

More rows to learn from are later ones: the average goes on to their end, and the level serves no more where it flags more
than eight times as many of them as was asked.

Where departures of most columns last for more than half the half-life of the average, rows follow each other more closely
than the rule was made for: all lengths are doubled until that is so no more.
"""

from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.missing import any_missing
from culpa._core.types import Floats
from culpa.columns.smoothing import averaged
from culpa.fitted import FittedDetector, why_fixed
from culpa.fitting.limits import InOrder
from culpa.models import FittedModel
from culpa.models.normal_range import NormalRange, RangeGatherer
from culpa.scores.excess import NormalExcess
from culpa.scores.following import MOST_STRIDE, Follower, Lengths, View, Views, residual_model
from culpa.scores.grouping import Profiles, learn

FEWEST_ROWS = 200
_SHARES = (0.25, 0.6, 0.15)  # of the rows to flag: departure, jump, level
_SHRINKAGES = (0.01, 0.01, 0.005)  # of the covariances towards the identity
_FLOOR = 0.01  # of scales, as a share of the range
_BLOCKS = 10
_FEW = 10  # rows per column, below which the scores of held-out rows count as they are
_CUTS, _STEADY = (0.4, 0.55, 0.7), 8.0  # times the rows asked for that a fixed limit flags later on, at most
_FEWEST_OFF = 5  # rows, from which more of them than asked for are no chance
_ENOUGH = 5  # rows per column that tell something
_STEADY_ROWS = 8_000  # of a long table that tell it, or up to twice as many
_REPLAYED = 32_000  # last rows for each stride, whose flagged ones are added up
_START, _BURN = 50, 100  # rows of the first average, and rows that it then takes to settle
_ROWS_PER_STRIDE = 2400  # at least: twenty half-lives
_SLOWEST = 0.25  # share of the columns that may move faster than rows follow each other closely
_PRIOR = (0.4,) * 5  # evidence of stretches, as long as few are known: of several views, excesses differ more
_LEAST, _LEAST_UNIT = 1e-12, 0.02


class _Whitened(NamedTuple):
    """Scaled residuals without missing cells, the scales of their columns, and the covariance of scaled ones."""

    residuals: Floats
    scale: Floats
    covariance: Floats
    shrinkage: float

    @classmethod
    def of(cls, residuals: Floats, spread: Floats, shrinkage: float) -> Self:
        """``spread`` is the range of the rows; missing cells (NaN) do not count."""
        filled, centred, counts = residuals, residuals - residuals.mean(axis=0), np.full(len(spread), len(residuals))
        if any_missing(residuals):
            seen = ~np.isnan(residuals)
            counts = np.maximum(seen.sum(axis=0), 1)
            filled = np.where(seen, residuals, 0.0)
            centred = np.where(seen, residuals - filled.sum(axis=0) / counts, 0.0)
        scale = np.maximum(np.sqrt(np.einsum("ij,ij->j", centred, centred) / counts), _FLOOR * spread)
        moving = (spread > 0) & (scale > 0)
        scale = np.where(moving, scale, np.median(scale[moving]) if moving.any() else 1.0)
        Z = filled / (scale * np.sqrt(counts / len(residuals)))
        return cls(Z, scale, _shrunk(Z.T @ Z / len(Z), shrinkage), shrinkage)

    def log_scores(self) -> tuple[Floats, Floats]:
        """Of each row, and as if it had not been seen."""
        Z, (n, d) = self.residuals, self.residuals.shape
        blocks = np.array_split(Z, _BLOCKS)
        products = [block.T @ block for block in blocks]
        own, total = _distances(Z, self.covariance), np.sum(products, axis=0)
        others = [
            _shrunk((total - product) / (n - len(block)), self.shrinkage)
            for block, product in zip(blocks, products, strict=True)
        ]
        held_out = np.concatenate(list(map(_distances, blocks, others)))
        few = min(_FEW * d / n, 1.0)
        return own, few * held_out + (1 - few) * (own + float(np.median(held_out - own)))


def _shrunk(covariance: Floats, shrinkage: float) -> Floats:
    return (1 - shrinkage) * covariance + shrinkage * np.eye(len(covariance))


def _distances(Z: Floats, covariance: Floats) -> Floats:
    """Logarithms of squared distances."""
    whitened = Z @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    return np.asarray(np.log(np.maximum(np.einsum("ij,ij->i", whitened, whitened), _LEAST)))


class _Residuals(NamedTuple):
    """Departures and jumps of the rows ``at``, and averages after the first rows and after all of them."""

    at: NDArray[np.int64]
    departure: Floats
    jump: Floats
    first: Floats
    last: Floats

    @classmethod
    def of(cls, table: InOrder, stride: int) -> Self:
        """Rows in order; the average begins anew after holes, and its first rows do not count."""
        lengths = Lengths.of(stride)
        X, missing = table.rows, np.zeros(len(table.rows)) if table.missing is None else table.missing
        starts = [0, *(k for k in np.flatnonzero(missing >= lengths.half_life).tolist() if k)]
        parts, averages, last = [], [], _mean(X)
        for start, end in zip(starts, [*starts[1:], len(X)], strict=True):
            rows = X[start:end]
            before = _first_average(rows, _START * stride, last)
            course = averaged(rows, before, lengths.slow_weight)
            last = course[-1]
            averages += [before, last]
            burn = min(_BURN * stride, len(rows) // 5)
            jump = np.where(missing[start + 1 : end, None] > 0, np.nan, np.diff(rows, axis=0))
            at = np.arange(start + 1, end)
            parts.append((at[burn:], (rows[1:] - course[:-1])[burn:], jump[burn:]))
        at, departure, jump = (np.concatenate(each) for each in zip(*parts, strict=True))
        return cls(at, departure, jump, averages[0], averages[-1])

    def are_slow(self, stride: int) -> bool:
        """Whether rows hardly depart from the row before in most columns, for their departures from the average.

        Departures of autoregressive rows last 2 / (1 - r) rows, with the correlation r of successive ones.
        """
        departure, jump = (_mean(part**2) for part in (self.departure, self.jump))
        lasts = 2 * departure[departure > 0] / np.maximum(jump, _LEAST * departure)[departure > 0]
        return bool(np.quantile(lasts, _SLOWEST) > Lengths.of(stride).half_life / 2)


def _first_average(rows: Floats, most: int, otherwise: Floats) -> Floats:
    """Of the first rows, at most so many; of columns that begin later, of their first cells, ``otherwise`` without any."""
    result = _mean(rows[:most])
    for j in np.flatnonzero(np.isnan(rows[:most]).all(axis=0)):
        cells = rows[~np.isnan(rows[:, j]), j]
        result[j] = cells[:most].mean() if len(cells) else otherwise[j]
    return result


def _mean(rows: Floats) -> Floats:
    """Of the observed cells; 0 without any."""
    seen = ~np.isnan(rows)
    return np.asarray(np.where(seen, rows, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))


def learn_views(fitted: FittedDetector, table: InOrder) -> tuple[Views, NormalExcess] | None:
    """What judges rows in order of time, and what flagged training rows add up to; ``None`` where rows are too few."""
    X = table.rows
    if why_fixed(fitted) or len(X) < max(FEWEST_ROWS, X.shape[1]):
        return None
    spread, model, stride = np.nanmax(X, axis=0) - np.nanmin(X, axis=0), fitted.model, 1
    residuals = _Residuals.of(table, stride)
    while 2 * stride <= min(MOST_STRIDE, len(X) / _ROWS_PER_STRIDE) and residuals.are_slow(stride):
        stride *= 2
        residuals = _Residuals.of(table, stride)
    if len(residuals.at) < FEWEST_ROWS // 2 or not (spread > 0).any():
        return None
    alpha, none = 1 - fitted.confidence, np.zeros(X.shape[1])
    learned = [(residuals.departure, none), (residuals.jump, none)]
    if _is_steady(X[:: max(1, len(X) // _STEADY_ROWS)], spread, alpha):
        learned.append((X[residuals.at] - model.centre, model.centre))
    shares = np.array(_SHARES[: len(learned)]) / sum(_SHARES[: len(learned)])
    views, worst, replayed = list[View](), list[Floats](), list[View]()
    for (rows, centre), share, shrinkage in zip(learned, shares.tolist(), _SHRINKAGES, strict=False):
        whitened = _Whitened.of(rows, spread, shrinkage)
        own, unseen = whitened.log_scores()
        own_model = residual_model(model, centre, whitened.scale, whitened.covariance, float(len(rows)))
        seen = _range(own_model, rows + centre, np.exp(unseen))
        (quantile, unit), of_seen = _scale(unseen, share * alpha), _scale(own, share * alpha)
        views.append(View(own_model, quantile, unit, seen))
        replayed.append(View(own_model, *of_seen, seen))
        worst.append((unseen - quantile) / unit)
    theta = float(np.quantile(np.max(worst, axis=0), 1 - alpha))
    last, first = table, residuals.first
    if len(X) > _REPLAYED * stride:
        end = slice(-_REPLAYED * stride, None)
        last = InOrder(X[end], None if table.missing is None else table.missing[end])
        first = _first_average(last.rows, _START * stride, residuals.last)
    again = Views.of(replayed, alpha, theta, first, stride)
    return Views.of(views, alpha, theta, residuals.last, stride), _excess(again, last)


def views_after(views: Views, X: Floats) -> Views:
    """After more normal rows, which need not follow those before."""
    lengths, level = views.lengths, views.level
    if len(X) >= lengths.half_life:  # else they are few, perhaps one of many portions
        views = replace(views, average=_mean(X[: _START * views.stride]))
    if level is not None and (level(X) > 0).sum() > max(_STEADY * views.alpha * len(X), _FEWEST_OFF):
        level = None
    return replace(views, level=level, average=averaged(X, views.average, lengths.slow_weight)[-1])


def _scale(log_scores: Floats, share: float) -> tuple[float, float]:
    """The quantile that a share exceeds, and its distance from the median."""
    quantile, median = np.quantile(log_scores, [1 - share, 0.5]).tolist()
    return quantile, max(quantile - median, _LEAST_UNIT)


def _range(model: FittedModel, rows: Floats, distance: Floats) -> NormalRange:
    gatherer = RangeGatherer(*rows.shape)
    gatherer.add(model.standardise(rows), distance)
    return gatherer.finish()


def _is_steady(X: Floats, spread: Floats, alpha: float) -> bool:
    """Whether a fixed limit that is learned from the first part of the rows holds on the rest, at three cuts."""
    cuts = [int(share * len(X)) for share in _CUTS if share * len(X) >= _ENOUGH * X.shape[1]]
    for cut in cuts:
        first, rest = np.split(X, [cut])
        mean = _mean(first)
        whitened = _Whitened.of(first - mean, spread, _SHRINKAGES[2])
        limit = np.quantile(whitened.log_scores()[1], 1 - _SHARES[2] * alpha)
        later = np.nan_to_num((rest - mean) / whitened.scale)
        if (_distances(later, whitened.covariance) > limit).mean() > _STEADY * alpha:
            return False
    return bool(cuts)


def _excess(views: Views, table: InOrder) -> NormalExcess:
    """What flagged rows add up to when the training rows are replayed."""
    judged = Follower(views).add(*table)
    at = np.flatnonzero(judged.flagged)
    missing = np.zeros(len(table.rows)) if table.missing is None else np.minimum(table.missing, len(table.rows))
    places = at + np.cumsum(missing)[at].astype(np.int64)
    residuals, profiles = table.rows[at] - judged.reference, np.zeros(table.rows[at].shape)
    for number, view in views.all.items():
        here = judged.view[at] == number
        profiles[here] = Profiles(view.model)(view.model.standardise(residuals[here]))
    return learn(views.largest_unit, views.alpha, [(places, judged.excess[at], profiles)], len(table.rows), _PRIOR)
