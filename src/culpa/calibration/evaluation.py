"""How often does a way of blaming features find the ones that are at fault?

A way of blaming is a `Setting`: parameters of a `PCADetector`. Rows with injected faults are ranked by it, and three
numbers say how well: Hits@1, the share of trials whose most blamed feature is a culprit; Hits@3, the share of culprits
among the three most blamed; and the mean rank of the culprits. Features that are blamed equally share their places.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from culpa._core.types import Floats
from culpa.calibration.injection import FAULT_KINDS, SIMULTANEOUS_FAULTS, Trials, inject
from culpa.detector import PCADetector
from culpa.games import RETRAINABLE

Progress = Callable[[float, str], None]  # share of the work done, and what is being worked on

NOISE = (1.0, 3.0, 10.0)
SHRINKAGE = (0.001, 0.003, 0.01, 0.03, 0.1)
MOST_RETRAINED = 13  # features up to which the retraining game is tried: it solves an eigenproblem per coalition

_TIED = 1e-9  # difference, relative to the row's largest blame, that is rounding
_EXACT_UP_TO = 13  # features; beyond, ranking many trials by sampled Shapley values is precise enough
_ORDERS = 192
_RESAMPLES = 1000
_LEVEL = 0.95


class Setting(NamedTuple):
    """Parameters of a `PCADetector` that decide whom it blames."""

    n_components: int | float | str
    noise: float
    shrinkage: float
    statistic: str
    game: str = "conditional"
    ranking: str = "shapley"

    @property
    def model(self) -> tuple[int | float | str, float, float]:
        """What has to be fitted; the other parameters only look at it."""
        return self[:3]

    @property
    def label(self) -> str:
        """For people: score, how it is shared out, and what kind of model."""
        shared = f"{self.game} Shapley" if self.ranking == "shapley" else self.ranking
        index = "" if self.ranking in ("z-score", "fault-odds") else f"{self.statistic}, "
        if self.shrinkage:
            return f"{index}{shared}; shrinkage {self.shrinkage:g}"
        return f"{index}{shared}" if self.noise == 1 else f"{index}{shared}; noise x{self.noise:g}"

    def applied_to(self, detector: PCADetector) -> PCADetector:
        """An unfitted copy of a detector with these parameters; it keeps its others.

        A limit that is for T2 only gives way to "auto" where the statistic is another one.
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


class Entry(NamedTuple):
    """How well a setting does."""

    setting: Setting
    hits1: Estimate
    hits3: Estimate
    rank: Estimate


def settings(n_features: int, n_components: int | float | str = 0.95) -> list[Setting]:
    """Everything worth trying: scores, games and classical criteria under models that trust themselves more or less.

    With shrinkage the model is the whole covariance, where nothing is left over to be a residual: it goes with the
    Mahalanobis distance only.
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


def leaderboard(
    training: Floats,
    held_out: Floats,
    chosen: Sequence[Setting] | None = None,
    *,
    kinds: Sequence[str] = FAULT_KINDS,
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS,
    n_trials: int = 1800,
    seed: int = 0,
) -> list[Entry]:
    """Fit to training rows, spoil held-out normal rows, and tell which settings find the culprits, best first.

    >>> from culpa.datasets import make_plant
    >>> plant = make_plant(300, 100, faults=())
    >>> best, *others = leaderboard(plant.normal, plant.new, n_trials=300)
    >>> best.hits1.value > 0.9
    True
    """
    trials = inject(held_out, training, kinds=kinds, at_once=at_once, n_trials=n_trials, seed=seed)
    chosen = settings(training.shape[1]) if chosen is None else chosen
    return ranked(chosen, verdicts(chosen, training, trials, seed=seed), trials.source, seed=seed)


def verdicts(
    chosen: Sequence[Setting],
    training: Floats,
    trials: Trials,
    *,
    detector: PCADetector | None = None,
    seed: int = 0,
) -> Iterator[Verdict]:
    """What each setting, fitted to the training rows, makes of the trials; ``detector`` has the other parameters."""
    fitted: dict[object, PCADetector] = {}
    for setting in chosen:
        if setting.model not in fitted:
            # nobody is flagged here, and a share of the rows may be too few for the detector's own limit
            fitted[setting.model] = setting.applied_to(detector or PCADetector()).set_params(limit="auto").fit(training)
        yield judge(blame(setting, fitted[setting.model], trials.rows, seed), trials.culprits)


def blame(setting: Setting, detector: PCADetector, rows: Floats, seed: int = 0) -> Floats:
    """Whom the setting blames, (rows, features); ``detector`` may differ from it in what needs no fitting."""
    if setting.ranking != "shapley":
        return np.asarray(detector.contributions(rows, setting.ranking, statistic=setting.statistic))
    exact = rows.shape[1] <= _EXACT_UP_TO or setting.game == "interventional"  # which has a closed form
    options = {"method": "exact"} if exact else {"method": "permutation", "n_orders": _ORDERS, "seed": seed}
    why = detector.explain(rows, score=setting.statistic, game=setting.game, ranking="shapley", **options)
    return why.values


def judge(blame: Floats, culprits: NDArray[np.bool_]) -> Verdict:
    """Hits and ranks, trial by trial. Blame is (..., n, d): leading axes are several ways of blaming."""
    above, tied = places(blame, culprits)
    count = culprits.sum(axis=1)
    first, among_three, rank = (
        np.add.reduceat(cells, np.cumsum(count) - count, axis=-1)
        for cells in (within(above, tied, 1), within(above, tied, 3), above + (tied + 1) / 2)
    )
    return Verdict(first, among_three / count, rank / count)


def places(blame: Floats, culprits: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """How many features are blamed more than each culprit, and how many as much, itself included; row by row."""
    row, feature = culprits.nonzero()
    own, others = blame[..., row, feature][..., None], blame[..., row, :]
    rounding = _TIED * np.abs(others).max(axis=-1, keepdims=True)
    return (others > own + rounding).sum(axis=-1), (np.abs(others - own) <= rounding).sum(axis=-1)


def within(above: NDArray[np.intp], tied: NDArray[np.intp], n: int) -> Floats:
    """Chance of a place among the first n, when those who tie draw lots."""
    return np.clip((n - above) / tied, 0.0, 1.0)


def joined(parts: Sequence[Verdict]) -> Verdict:
    """Verdicts on several sets of trials as one."""
    return Verdict(*(np.concatenate(cells, axis=-1) for cells in zip(*parts, strict=True)))


def ranked(
    chosen: Sequence[Setting], judged: Iterable[Verdict], source: NDArray[np.intp], *, seed: int = 0
) -> list[Entry]:
    """Settings with their means over trials, best Hits@1 first."""
    draw = _resamples(source, seed)
    entries = [Entry(s, *(_estimate(cells, source, draw) for cells in v)) for s, v in zip(chosen, judged, strict=True)]
    return sorted(entries, key=lambda entry: (-entry.hits1.value, -entry.hits3.value, entry.rank.value))


def standard_error(cells: Floats, source: NDArray[np.intp]) -> float:
    """Of a mean over trials, when trials of one row are alike."""
    row = np.unique(source, return_inverse=True)[1]
    off = np.bincount(row, cells - cells.mean())
    return float(np.sqrt(len(off) / max(len(off) - 1, 1) * (off**2).sum()) / len(cells))


def _resamples(source: NDArray[np.intp], seed: int) -> Floats:
    """How often each normal row is drawn, (resamples, rows). Trials of one row are alike, so rows are drawn, not trials."""
    n = len(np.unique(source))
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES).astype(np.float64)


def _estimate(cells: Floats, source: NDArray[np.intp], draw: Floats) -> Estimate:
    row = np.unique(source, return_inverse=True)[1]
    total, count = np.bincount(row, cells), np.bincount(row)
    low, high = np.quantile((draw @ total) / (draw @ count), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(float(cells.mean()), float(low), float(high))
