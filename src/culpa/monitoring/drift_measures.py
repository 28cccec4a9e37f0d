"""Measures of drift: recent rows and blocks of training rows against models, and the test between them.

Four measures compare some rows with a model: the angle between their main directions of variation and the model's, how far
their variances are from the model's, how far their mean is, and their mean score. What these measures are where nothing
has changed is known from the training rows themselves: each of their consecutive blocks is measured against the model of
the other blocks. On a logarithmic scale, the measures of recent rows, cut into pieces as long as a block, are compared
with those of the K blocks by a one-sided t test with K - 1 degrees of freedom:

    t = (mean of m pieces - mean of K blocks) / (standard deviation of the blocks * sqrt(1 / m + 1 / K))

So the number that is reported and tested is a geometric mean of pieces. The mean score of all rows is reported beside it.

Blocks bring their own autocorrelation and their own ups and downs with them, so a plant that always wanders a little
does not count as drifting. The overall p-value is four times the smallest of the four (Bonferroni), unless a column changed
that was constant, which no measure can weigh: then it is that of this change, if smaller.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np

from culpa._core import probability as stats
from culpa._core.types import Floats
from culpa._core.words import count_are
from culpa.fitted import FittedDetector
from culpa.models import PPCA, FittedModel, Moments
from culpa.models.context import Context
from culpa.monitoring.drift import SIGNIFICANCE, Drift, FeatureDrift, Measure
from culpa.scores import QuadraticScore, mahalanobis, named_score

_FEWEST_ROWS = 8  # of a block and of recent rows: fewer rows do not determine variances
_FEWEST_BLOCKS = 3
_SHARE_COMPARED = 0.99  # components beyond this share of the variance are not compared: they are rounding or noise
_TINY = 1e-12
_ROUNDING = 1e-12  # of a constant, by which its rows may seem to vary


class DriftGatherer:
    """Measures the drift of rows that come batch by batch, in memory that does not grow with their number."""

    def __init__(self, fitted: FittedDetector, blocks: Sequence[Moments]) -> None:
        self.fitted = fitted
        self._reference = _Reference(fitted, _long_enough(blocks))
        self._pieces: list[Floats] = []
        self._sizes: list[float] = []
        self._open: list[Moments] = []  # the last full piece, which may take in what is left at the end, and a part
        self._total = Moments.of(np.empty((0, blocks[0].n_features)))
        self._n_incomplete = 0

    @classmethod
    def of(cls, fitted: FittedDetector) -> Self:
        """Against the blocks of training rows that a fitted detector has kept."""
        if fitted.model.margins is not None:
            raise ValueError(
                "drift compares means and covariances, which a copula does not describe: use model='ppca'."
            )
        if fitted.blocks is None or len(fitted.blocks) == 1:
            raise ValueError(
                "drift needs a model that was fitted to complete rows with this version of culpa, because it compares "
                "recent rows with blocks of training rows."
            )
        return cls(fitted, fitted.blocks.blocks)

    def add(self, features: Floats) -> Self:
        """The next rows, as they are learned from: with given features and past values, not smoothed.

        Rows with missing cells are counted only.
        """
        complete = ~np.isnan(features).any(axis=1)
        self._n_incomplete += int((~complete).sum())
        rows = features[complete]
        size = math.ceil(self._reference.block_rows)
        while len(rows):
            if not self._open or self._open[-1].n >= size:
                if len(self._open) == 2:
                    self._close(self._open.pop(0))
                self._open.append(Moments.of(rows[:0]))
            room = size - round(self._open[-1].n)
            part = Moments.of(rows[:room])
            self._open[-1] = self._open[-1].merge(part)
            self._total = self._total.merge(part)
            rows = rows[room:]
        return self

    @property
    def enough(self) -> bool:
        """Whether there are rows enough to see drift."""
        return self._total.n >= _FEWEST_ROWS

    def finish(self, native: Any = None) -> Drift:
        """The drift of all rows so far."""
        if not self.enough:
            raise ValueError(
                f"{count_are(self._total.n, 'complete row')} too few to measure drift: at least {_FEWEST_ROWS} are needed."
            )
        last = self._open
        if len(last) == 2 and last[1].n < self._reference.block_rows / 2:
            last = [last[0].merge(last[1])]
        for piece in last:
            self._close(piece)
        self._open = []
        return self._reference.drift(
            self._total, np.array(self._pieces), np.array(self._sizes), self._n_incomplete, native
        )

    def _close(self, piece: Moments) -> None:
        self._pieces.append(self._reference.whole.measure(piece))
        self._sizes.append(piece.n)


@dataclass(frozen=True, eq=False)
class _Yardstick:
    """A model that rows are measured against.

    A measurement is the logarithms of the four measures, then every feature's shift of the mean in standard deviations,
    then the logarithm of every feature's variance ratio.
    """

    moments: Moments  # adjusted
    context: Context | None
    model: FittedModel
    statistic: QuadraticScore
    axes: Floats  # (features, directions): main directions of variation

    @classmethod
    def of(cls, fitted: FittedDetector, moments: Moments, n_directions: int) -> "_Yardstick":
        """A model of other rows, with the settings of a fitted detector."""
        context = None
        if fitted.model.context is not None:
            context = Context.of_moments(moments, fitted.model.context.given)
            moments = context.adjust_moments(moments)
        scale, d = fitted.model.scale, moments.n_features
        scaled = moments.scaled(moments.mean, scale)
        p = min(fitted.n_components, d - 1 if fitted.ppca.shrinkage else min(round(moments.n), d) - 1)
        ppca = PPCA(p, noise=fitted.ppca.noise, shrinkage=fitted.ppca.shrinkage)._fit_moments(scaled)
        model = FittedModel(ppca.gaussian_, moments.mean, scale, ppca.sample_, moments.n)
        statistic = named_score(fitted.statistic.name, model, confidence=fitted.confidence)
        return cls(moments, context, model, statistic, _axes(scaled.covariance)[:, :n_directions])

    def adjusted(self, rows: Moments) -> Moments:
        """Moments of rows as the model sees them: of what the given features leave open, if there are any."""
        return rows if self.context is None else self.context.adjust_moments(rows)

    def measure(self, rows: Moments) -> Floats:
        """Angle, variance, mean and score of some rows against the model."""
        scaled = self.adjusted(rows).scaled(self.model.centre, self.model.scale)
        covariance, q = scaled.covariance, self.axes.shape[1]
        overlap = np.linalg.norm(self.axes.T @ _axes(covariance)[:, :q]) ** 2
        sine = math.sqrt(max(1 - overlap / q, _TINY))
        score = _mean_of(self.statistic, scaled)
        shift = float(mahalanobis(self.model.gaussian)(scaled.mean[None])[0])
        usual = np.diag(self._covariance)
        varies = usual > _TINY * usual.max()
        ratio = np.where(varies, np.maximum(np.diag(covariance), _TINY) / np.where(varies, usual, 1.0), 1.0)
        change = math.sqrt(max(float((np.log(ratio) ** 2).mean()), _TINY))
        four = np.log([sine, change, max(math.sqrt(shift), _TINY), max(score, _TINY)])
        return np.concatenate([four, scaled.mean / np.sqrt(np.where(varies, usual, 1.0)), np.log(ratio)])

    @cached_property
    def _covariance(self) -> Floats:
        return self.moments.scaled(self.model.centre, self.model.scale).covariance


class _Reference:
    """What the measures are for blocks of training rows, each against the model of the others."""

    def __init__(self, fitted: FittedDetector, blocks: Sequence[Moments]) -> None:
        self.fitted = fitted
        total = reduce(Moments.merge, blocks)
        self.block_rows = float(np.mean([block.n for block in blocks]))
        q = _n_directions(fitted, total, min(block.n for block in blocks))
        self.whole = _Yardstick.of(fitted, total, q)
        others = (reduce(Moments.merge, [b for b in blocks if b is not block]) for block in blocks)
        self._blocks = np.array(
            [_Yardstick.of(fitted, other, q).measure(block) for other, block in zip(others, blocks, strict=True)]
        )

    def drift(self, total: Moments, pieces: Floats, sizes: Floats, n_incomplete: int, native: Any) -> Drift:
        """Compare the measures of recent pieces with those of blocks."""
        K, m = len(self._blocks), len(pieces)
        usual, spread_of = self._blocks.mean(axis=0), self._blocks.std(axis=0, ddof=1)
        # what chance alone does to a short piece: distances grow with 1 / sqrt(rows), and means spread likewise; that
        # distances spread more, too, is for blocks that differ by more than chance
        shorter = np.sqrt(np.maximum(self.block_rows / sizes, 1.0))
        pieces = pieces.copy()
        pieces[:, :3] -= np.log(shorter)[:, None]
        noisier = np.sqrt((shorter**2).mean())
        error = spread_of * np.sqrt(1 / m + 1 / K) * noisier
        # blocks that agree to rounding must not make a rounding error significant
        excess = (pieces.mean(axis=0) - usual) / np.maximum(error, 1e-9)
        p = stats.t.sf(excess, K - 1)
        limit = usual + stats.t.isf(SIGNIFICANCE, K - 1) * error
        mean_score = _mean_score(self.fitted, total)
        total = self.whole.adjusted(total)
        d = total.n_features
        both = np.minimum(1.0, 2 * stats.t.sf(np.abs(excess[4:]), K - 1) * len(self.fitted.columns.names))
        values = pieces.mean(axis=0)
        names = (("angle", "degrees"), ("variance", "times"), ("mean", ""), ("score", ""))
        angle, variance, mean, score = (
            Measure(
                name,
                _shown(name, float(values[k])),
                _shown(name, float(usual[k])),
                _shown(name, float(limit[k])),
                float(p[k]),
                unit,
            )
            for k, (name, unit) in enumerate(names)
        )
        features = self._features(total, both[:d], both[d:])
        of_constants = min(each.of_constant_p_value() for each in features)
        return Drift(
            angle,
            variance,
            mean,
            score,
            p_value=min(1.0, len(names) * float(p[:4].min()), 2 * of_constants),
            mean_score=mean_score,
            features=features,
            n_rows=round(total.n),
            n_incomplete=n_incomplete,
            n_stretches=m,
            n_components=self.whole.axes.shape[1],
            block_rows=self.block_rows,
            native=native,
        )

    def _features(self, total: Moments, shift_p: Floats, variance_p: Floats) -> tuple[FeatureDrift, ...]:
        """Present values only, where there are lags."""
        trained = self.whole.moments
        means, stds = (trained.mean, total.mean), [np.sqrt(np.diag(each.covariance)) for each in (trained, total)]
        tiny = _ROUNDING * np.maximum(np.abs(means[0]), np.abs(means[1]))
        constant = stds[0] <= _ROUNDING * np.abs(means[0])  # such a column has no unit
        varies = stds[1] > tiny
        moved = np.where(constant & (np.abs(means[1] - means[0]) <= tiny), 0.0, means[1] - means[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(moved == 0, 0.0, moved / np.where(constant, 0.0, stds[0]))
            ratio = np.where(constant & ~varies, 1.0, (stds[1] / np.where(constant, 0.0, stds[0])) ** 2)
        variance_p = np.where(constant & varies, 0.0, variance_p)
        return tuple(
            FeatureDrift(
                name,
                float(means[0][i]),
                float(means[1][i]),
                float(shift[i]),
                float(shift_p[i]),
                float(stds[0][i]),
                float(stds[1][i]),
                float(ratio[i]),
                float(variance_p[i]),
            )
            for i, name in enumerate(self.fitted.columns.names)
        )


def _mean_score(fitted: FittedDetector, rows: Moments) -> float | None:
    """Mean score of rows as the detector itself scores them; ``None`` if it smooths them first."""
    model, statistic = fitted.model, fitted.statistic
    quadratic = statistic.as_quadratic
    if fitted.columns.smooth is not None or quadratic is None:
        return None
    if model.context is not None:
        rows = model.context.adjust_moments(rows)
    return _mean_of(quadratic, rows.scaled(model.centre, model.scale))


def _mean_of(statistic: QuadraticScore, scaled: Moments) -> float:
    root = statistic.root
    return float(((root @ scaled.second) * root).sum())


def _long_enough(blocks: Sequence[Moments]) -> list[Moments]:
    """Blocks joined with their neighbours until each has rows enough."""
    joined: list[Moments] = []
    for block in blocks:
        if joined and joined[-1].n < _FEWEST_ROWS:
            joined[-1] = joined[-1].merge(block)
        else:
            joined.append(block)
    if len(joined) > 1 and joined[-1].n < _FEWEST_ROWS:
        joined[-2:] = [joined[-2].merge(joined[-1])]
    if len(joined) < _FEWEST_BLOCKS:
        n = sum(block.n for block in blocks)
        raise ValueError(
            f"{n:.0f} training rows are too few to measure drift: it needs at least {_FEWEST_BLOCKS * _FEWEST_ROWS}."
        )
    return joined


def _n_directions(fitted: FittedDetector, total: Moments, block_rows: float) -> int:
    """How many components to compare: at most the model's, cut where so many rows determine them best.

    Sampling mixes the directions j and k by l_j l_k / (l_j - l_k)^2 / n; beside it stands what directions drawn at
    random would be apart.
    """
    if fitted.model.context is not None:
        total = fitted.model.context.adjust_moments(total)
    scaled = total.scaled(total.mean, fitted.model.scale)
    eigenvalues = np.maximum(np.linalg.eigvalsh(scaled.covariance)[::-1], _TINY)
    d = len(eigenvalues)
    enough = int(np.searchsorted(np.cumsum(eigenvalues) / eigenvalues.sum(), _SHARE_COMPARED)) + 1
    most = max(1, min(fitted.n_components, enough, d - 1, int(block_rows) - 1))
    gap = eigenvalues[:, None] - eigenvalues[None, :]
    with np.errstate(divide="ignore"):
        mixing = np.outer(eigenvalues, eigenvalues) / gap**2
    blurred = [mixing[:q, q:].sum() / (q * (d - q)) for q in range(1, most + 1)]
    return int(np.argmin(blurred)) + 1


def _axes(covariance: Floats) -> Floats:
    """Eigenvectors in columns, those of the largest eigenvalues first."""
    return np.asarray(np.linalg.eigh(covariance)[1][:, ::-1])


def _shown(name: str, logarithm: float) -> float:
    """A measure as people read it, from its logarithm."""
    value = math.exp(min(logarithm, 700.0))
    if name == "angle":
        return math.degrees(math.asin(min(value, 1.0)))
    return math.exp(min(value, 700.0)) if name == "variance" else value
