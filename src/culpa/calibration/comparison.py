"""Settings compared on held-out rows, at the same rate of false alarms.

Every setting is fitted to all folds but one. It scores the held-out rows of that fold, and the same rows with faults. Its
limit is the level that the same share of held-out rows exceeds for every setting, so that no setting wins by flagging more.
The detection rate is the share of faults above this limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from culpa._core.parameters import DetectorSettings
from culpa._core.types import Floats
from culpa._core.validation import default_names, feature_positions
from culpa.calibration.evaluation import Estimate, Estimator, Setting, Verdict, blame_columns, joined, judge
from culpa.calibration.plan import Fold, Plan
from culpa.columns import Lagged
from culpa.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.fitting.learning import Recipe
from culpa.scores import HeldOutScores
from culpa.scores.held_out import Rate


class Outcome(NamedTuple):
    """A setting and its results; detection is at the asked rate of false alarms."""

    setting: Setting
    detection: Estimate
    false_alarms: Rate
    hits1: Estimate
    hits3: Estimate
    rank: Estimate


class WithOwnLimit(NamedTuple):
    """What a detector with its own kind of limit does: share of faults and of held-out rows that it flags."""

    detection: Estimate
    false_alarms: Rate


@dataclass
class Scores:
    """Scores of held-out rows and of faults, fold by fold."""

    normal: list[Floats] = field(default_factory=list)
    faulty: list[Floats] = field(default_factory=list)

    def add(self, normal: Floats, faulty: Floats) -> None:
        """The scores of the next fold."""
        self.normal.append(normal)
        self.faulty.append(faulty)

    def held_out(self) -> HeldOutScores:
        """The scores of held-out rows, by fold."""
        fold = np.repeat(np.arange(len(self.normal)), [len(part) for part in self.normal])
        return HeldOutScores.of(np.concatenate(self.normal), fold)

    def above(self, limit: float) -> Floats:
        """1 for every fault above a limit, 0 for the others."""
        return (np.concatenate(self.faulty) > limit).astype(np.float64)

    def detection(self, rate: float, estimate: Estimator) -> tuple[Estimate, Rate]:
        """Share of faults above the limit that a share ``rate`` of held-out rows exceeds, and the share that does."""
        held_out = self.held_out()
        limit = held_out.level(rate)
        return estimate(self.above(limit)), held_out.rate_above(limit)


class Fits:
    """Fits of settings to the rows of one fold, each made once."""

    def __init__(self, detector: PCADetector, training: Floats) -> None:
        self._detector, self._training = detector, training
        self._known: dict[object, FittedDetector] = {}

    def __call__(self, setting: Setting) -> FittedDetector:
        """The model of a setting; its limit means nothing."""
        recipe = recipe_of(setting.applied_to(self._detector).set_params(limit="formula"), self._training.shape[1])
        key = recipe.n_components, setting.noise, setting.shrinkage
        if key not in self._known:
            self._known[key] = fit_features(recipe, self._training)
        return self._known[key]


def recipe_of(detector: PCADetector, n_features: int) -> Recipe:
    """What an unfitted detector makes of rows with so many features, past values included."""
    n_columns = n_features // (detector.lags + 1)
    columns = Lagged(None, n_columns, detector.lags, given_positions(detector, default_names(n_columns)))
    settings = DetectorSettings(**detector.get_params(deep=False))
    return Recipe(replace(settings, groups=None), columns)  # faults are in single features


def given_positions(detector: PCADetector, names: Sequence[str]) -> list[int]:
    """Where the given columns are among columns with these names."""
    return [] if detector.given is None else sorted(set(feature_positions(detector.given, names, "given")))


def by_position(detector: PCADetector, names: Sequence[str]) -> PCADetector:
    """A detector that calls given columns by position, since windows have no names; others as they are.

    Whoever cannot be compared is refused here.
    """
    if detector.smooth not in (None, 1):
        raise ValueError(
            "calibrate injects faults into single rows, so it does not work with smooth. Calibrate without "
            "smooth, and set smooth on the result afterwards."
        )
    if detector.given is None:
        return detector
    copy: PCADetector = clone(detector).set_params(given=given_positions(detector, names))
    return copy


def n_judged(detector: PCADetector, n_columns: int) -> int:
    """Number of features that are judged: those that are not given, with their past values."""
    return (n_columns - len(given_positions(detector, default_names(n_columns)))) * (detector.lags + 1)


def fit_features(recipe: Recipe, features: Floats) -> FittedDetector:
    """Fit to features, which with lags include past values."""
    return recipe.fit_rows(features, np.arange(len(features)))


def own_setting(detector: PCADetector, n_features: int) -> Setting:
    """The setting that a detector has, with the statistic that "auto" stands for."""
    columns = Lagged(None, n_features // (detector.lags + 1), detector.lags)
    statistic: Any = Recipe(DetectorSettings(**detector.get_params(deep=False)), columns).statistic
    model = detector.n_components, detector.noise, detector.shrinkage
    return Setting(*model, statistic, detector.game, detector.ranking)


def compare(chosen: Sequence[Setting], windows: Floats, detector: PCADetector, plan: Plan) -> tuple[list[Outcome], int]:
    """The results of every setting, in the order given, and the number of trials."""
    judged: list[list[Verdict]] = [[] for _ in chosen]
    scores = [Scores() for _ in chosen]
    sources: list[NDArray[np.intp]] = []
    given = given_positions(detector, default_names(windows.shape[1]))
    for at, fold in enumerate(plan.folds(windows, detector.lags, given)):
        fits = Fits(detector, fold.training)
        sources.append(fold.trials.source)
        for k, setting in enumerate(chosen):
            fitted = fits(setting)
            scores[k].add(*(score(fitted, setting.statistic, rows) for rows in (fold.held_out, fold.trials.rows)))
            judged[k].append(judge(blame_columns(setting, fitted, fold.trials.rows, plan.seed), fold.trials.culprits))
            if plan.progress is not None:
                plan.progress((at + (k + 1) / len(chosen)) / plan.n_folds, setting.label)
    source = np.concatenate(sources)
    estimate = Estimator(source, plan.seed)
    outcomes = [
        Outcome(setting, *found.detection(1 - detector.confidence, estimate), *map(estimate, joined(parts)))
        for setting, found, parts in zip(chosen, scores, judged, strict=True)
    ]
    return outcomes, len(source)


def score(fitted: FittedDetector, statistic: str, features: Floats) -> Floats:
    """A statistic of features, which with lags include past values."""
    return fitted.named(statistic)(fitted.model.standardise(features))


def with_own_limit(detector: PCADetector, windows: Floats, plan: Plan) -> WithOwnLimit | None:
    """What the detector does with its own limit on held-out rows; ``None`` where folds are too small for the limit."""
    scores, sources = Scores(), []
    given = given_positions(detector, default_names(windows.shape[1]))
    for fold in plan.folds(windows, detector.lags, given):
        try:
            fitted = fit_features(recipe_of(detector, fold.training.shape[1]), fold.training)
        except ValueError:  # a conformal limit asks for many rows
            return None
        sources.append(fold.trials.source)
        scores.add(*_in_limits(fitted, fold))
    estimate = Estimator(np.concatenate(sources), plan.seed)
    return WithOwnLimit(estimate(scores.above(1.0)), scores.held_out().rate_above(1.0))


def _in_limits(fitted: FittedDetector, fold: Fold) -> tuple[Floats, Floats]:
    """Scores of held-out rows and of faults, in units of the limit."""
    normal, faulty = (score(fitted, fitted.statistic.name, rows) for rows in (fold.held_out, fold.trials.rows))
    return normal / fitted.limit, faulty / fitted.limit
