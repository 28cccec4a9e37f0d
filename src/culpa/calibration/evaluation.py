"""Evaluation of rankings: how often does a setting rank the faulty features first?

A `Setting` is a choice of parameters of a `PCADetector`. It ranks the features of rows with injected faults, and three
numbers measure the result: Hits@1, the share of trials in which the feature ranked first is faulty; Hits@3, the share of
faulty features among the first three; and the mean rank of the faulty features. Ties share their ranks.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from culpa._core.choices import GameName, Ranking, ScoreName
from culpa._core.types import Floats
from culpa.columns import Reading
from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.games import RETRAINABLE
from culpa.ranking.contributions import of_players, of_rows

Progress = Callable[[float, str], None]  # share of the work done, and the setting in progress

NOISE = (1.0, 3.0, 10.0)
SHRINKAGE = (0.001, 0.003, 0.01, 0.03, 0.1)
MOST_RETRAINED = 13  # features up to which the retraining game is compared: it solves an eigenproblem per coalition

_TIED = 1e-9  # difference, relative to the largest value of the row, that counts as rounding
_EXACT_UP_TO = 13  # features; beyond, ranking many trials by sampled Shapley values is precise enough
_ORDERS = 192
_RESAMPLES = 1000
_LEVEL = 0.95


class Setting(NamedTuple):
    """Parameters of a `PCADetector` that decide how it ranks features.

    Attributes
    ----------
    n_components : int, float or str
        Of the model, as for `PCADetector`.
    noise, shrinkage : float
        Of the model, as for `PCADetector`.
    statistic : str
        The score that is explained.
    game : str
        Whose Shapley values explain it.
    ranking : str
        "shapley", or the criterion that ranks features instead.

    Examples
    --------
    >>> Setting(3, 1.0, 0.0, "spe").label
    'spe, conditional Shapley'
    """

    n_components: int | float | str
    noise: float
    shrinkage: float
    statistic: ScoreName
    game: GameName = "conditional"
    ranking: Ranking = "shapley"

    @property
    def model(self) -> tuple[int | float | str, float, float]:
        """The parameters that need a fit; the others only use the fitted model."""
        return self[:3]

    @property
    def label(self) -> str:
        """Description for people: score, Shapley values or criterion, and kind of model."""
        shared = f"{self.game} Shapley" if self.ranking == "shapley" else self.ranking
        index = "" if self.ranking in ("z-score", "fault-odds") else f"{self.statistic}, "
        if self.shrinkage:
            return f"{index}{shared}; shrinkage {self.shrinkage:g}"
        return f"{index}{shared}" if self.noise == 1 else f"{index}{shared}; noise x{self.noise:g}"

    def applied_to(self, detector: PCADetector) -> PCADetector:
        """An unfitted copy of a detector with these parameters in place of its own.

        The limit "f", which is for T2 only, becomes "auto" where the statistic is another one.
        """
        limit = "auto" if detector.limit == "f" and self.statistic != "t2" else detector.limit
        return clone(detector).set_params(**self._asdict(), limit=limit)  # type: ignore[no-any-return]


class Estimate(NamedTuple):
    """A mean over trials with its 95% confidence interval."""

    value: float
    low: float
    high: float


class Verdict(NamedTuple):
    """Per trial: Hits@1, Hits@3 and mean rank of the culprits."""

    hits1: Floats
    hits3: Floats
    rank: Floats


def settings(n_features: int, n_components: int | float | str = 0.95) -> list[Setting]:
    """The settings that `calibrate` compares: scores, games and classical criteria, with several noise levels.

    Parameters
    ----------
    n_features
        Number of features of the detector.
    n_components
        As for `PCADetector`.

    Returns
    -------
    list of Setting
        With shrinkage the model is the whole covariance, which leaves no residual; only the Mahalanobis distance is
        used then.

    Examples
    --------
    >>> sorted({setting.statistic for setting in settings(10)})
    ['combined', 'mahalanobis', 'mse', 'spe', 't2']
    """
    plain = n_components, 1.0, 0.0
    result = [Setting(*plain, "spe", ranking="z-score")]
    for statistic in ("spe", "t2", "mahalanobis", "combined"):
        result += [Setting(*plain, statistic, game) for game in ("conditional", "interventional")]
        result += [Setting(*plain, statistic, ranking=name) for name in ("cdc", "pdc", "dc", "rbc", "relative")]
    if n_features <= MOST_RETRAINED:
        result += [Setting(*plain, statistic, "retraining") for statistic in RETRAINABLE]
    result.append(Setting(*plain, "mahalanobis", ranking="fault-odds"))
    for noise in NOISE[1:]:
        model = n_components, noise, 0.0
        result += [Setting(*model, statistic) for statistic in ("spe", "mahalanobis", "combined")]
        result += [Setting(*model, "mahalanobis", ranking=name) for name in ("rbc", "fault-odds")]
    for shrinkage in SHRINKAGE:
        model = n_features - 1, 1.0, shrinkage
        result += [Setting(*model, "mahalanobis", game) for game in ("conditional", "interventional")]
        result += [Setting(*model, "mahalanobis", ranking=name) for name in ("pdc", "rbc", "fault-odds")]
    return result


def blame_columns(setting: Setting, fitted: FittedDetector, features: Floats, seed: int = 0) -> Floats:
    """How strongly the setting blames each column, (rows, columns); features include past values with lags.

    ``fitted`` must agree with the setting in the fit.
    """
    columns = fitted.columns
    if setting.ranking != "shapley":
        standard, score = fitted.model.standardise(features), fitted.named(setting.statistic)
        return of_players(of_rows(fitted.model, standard, setting.ranking, score), columns.members)
    game = fitted.explainer(score=setting.statistic, game=setting.game, ranking="shapley").game
    exact = features.shape[1] <= _EXACT_UP_TO or game.has_closed_form
    explainer = fitted.explainer(
        score=setting.statistic,
        game=setting.game,
        ranking="shapley",
        groups=None,
        method="exact" if exact else "permutation",
        n_orders=None if exact else _ORDERS,
        seed=0 if exact else seed,
    )
    return explainer.explain(Reading(features, columns.decode(features), np.arange(len(features)))).values


def judge(blame: Floats, culprits: NDArray[np.bool_]) -> Verdict:
    """Hits and ranks of each trial. Blame is (..., n, d), where leading axes are several settings."""
    above, tied = places(blame, culprits)
    count = culprits.sum(axis=1)
    first, among_three, rank = (
        np.add.reduceat(cells, np.cumsum(count) - count, axis=-1)
        for cells in (within(above, tied, 1), within(above, tied, 3), above + (tied + 1) / 2)
    )
    return Verdict(first, among_three / count, rank / count)


def places(blame: Floats, culprits: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each culprit, row by row: how many features are blamed more, and how many as much (itself included)."""
    row, feature = culprits.nonzero()
    own, others = blame[..., row, feature][..., None], blame[..., row, :]
    rounding = _TIED * np.abs(others).max(axis=-1, keepdims=True)
    return (others > own + rounding).sum(axis=-1), (np.abs(others - own) <= rounding).sum(axis=-1)


def within(above: NDArray[np.intp], tied: NDArray[np.intp], n: int) -> Floats:
    """Probability of a rank among the first n, where ties are broken at random."""
    return np.clip((n - above) / tied, 0.0, 1.0)


def joined(parts: Sequence[Verdict]) -> Verdict:
    """The results of several sets of trials as one."""
    return Verdict(*(np.concatenate(cells, axis=-1) for cells in zip(*parts, strict=True)))


class Estimator:
    """Means over trials with their intervals; trials of one row are correlated, so rows are resampled."""

    def __init__(self, source: NDArray[np.intp], seed: int = 0) -> None:
        self._row, self._count = np.unique(source, return_inverse=True, return_counts=True)[1:]
        n, self.source = len(self._count), source
        drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
        self._draw = drawn.astype(np.float64)  # how often each row is drawn, (resamples, rows)

    def __call__(self, cells: Floats) -> Estimate:
        """Mean of a number per trial."""
        means = (self._draw @ np.bincount(self._row, cells)) / (self._draw @ self._count)
        low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
        return Estimate(float(cells.mean()), float(low), float(high))
