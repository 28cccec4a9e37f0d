"""Settings compared on held-out rows, at the same rate of false alarms.

Every setting is fitted to all folds but one. It scores the held-out rows of that fold, and the same rows with faults. Its
limit is the level that the same share of held-out rows exceeds for every setting, so that no setting wins by flagging more.
The detection rate is the share of faults above this limit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from sklearn.base import clone

from culpa._core.parameters import DetectorSettings
from culpa._core.progress import as_progress
from culpa._core.types import Floats
from culpa._core.validation import default_names, feature_positions
from culpa.calibration.evaluation import Estimate, Estimator, Setting, Verdict, blame_columns, joined, judge
from culpa.calibration.plan import Fold, Plan
from culpa.columns import Lagged
from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.fitting.learning import Recipe
from culpa.fitting.limits import InOrder
from culpa.scores import HeldOutScores
from culpa.scores.held_out import Rate

Standing = Literal["chosen", "tied", "fewer hits", "detects less"]
T = TypeVar("T")


class Outcome(NamedTuple):
    """A setting and its results; detection is at the asked rate of false alarms."""

    setting: Setting
    detection: Estimate
    false_alarms: Rate
    hits1: Estimate
    hits3: Estimate
    rank: Estimate
    standing: Standing = "tied"  # by the rule of `culpa.calibrate`


class Scores(NamedTuple):
    """Scores of held-out rows and of faults, fold by fold."""

    normal: Sequence[Floats]
    faulty: Sequence[Floats]

    @classmethod
    def of(cls, folds: Iterable[tuple[Floats, ...]]) -> "Scores":
        """From the scores of every fold."""
        return cls(*zip(*folds, strict=True))

    def above(self, limit: float, estimate: Estimator) -> tuple[Estimate, Rate]:
        """Share of faults and of held-out rows above a limit."""
        detected = (np.concatenate(self.faulty) > limit).astype(np.float64)
        return estimate(detected), self._held_out.rate_above(limit)

    def at_rate(self, rate: float, estimate: Estimator) -> tuple[Estimate, Rate]:
        """The same for the limit that a share ``rate`` of held-out rows exceeds."""
        return self.above(self._held_out.level(rate), estimate)

    @property
    def _held_out(self) -> HeldOutScores:
        fold = np.repeat(np.arange(len(self.normal)), [len(part) for part in self.normal])
        return HeldOutScores.of(np.concatenate(self.normal), fold)


class Fits:
    """Fits of settings to the rows of one fold after the other, each made once."""

    def __init__(self, detector: PCADetector) -> None:
        self._detector, self._training = detector, np.empty(0)
        self._known: dict[object, FittedDetector] = {}

    def __call__(self, setting: Setting, training: Floats) -> FittedDetector:
        """The model of a setting; its limit means nothing."""
        if training is not self._training:
            self._training, self._known = training, {}
        recipe = recipe_of(setting.applied_to(self._detector).set_params(limit="formula"), training.shape[1])
        key = recipe.n_components, setting.noise, setting.shrinkage
        if key not in self._known:
            self._known[key] = fit_features(recipe, training)
        return self._known[key]


def over_folds(
    plan: Plan,
    windows: Floats,
    detector: PCADetector,
    chosen: Sequence[Setting],
    look: Callable[[Setting, Fold], T],
) -> tuple[list[list[T]], Estimator]:
    """What ``look`` finds for every setting in every fold, and what estimates means over all trials."""
    found: list[list[T]] = [[] for _ in chosen]
    sources, report = [], as_progress(plan.progress)
    given = given_positions(detector, default_names(windows.shape[1]))
    for at, fold in enumerate(plan.folds(windows, detector.lags, given)):
        sources.append(fold.trials.source)
        for k, setting in enumerate(chosen):
            found[k].append(look(setting, fold))
            if report is not None:
                report((at + (k + 1) / len(chosen)) / plan.n_folds, setting.label)
    return found, Estimator(np.concatenate(sources), plan.seed)


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
    return (n_columns - len(given_positions(detector, default_names(n_columns)))) * int(detector.lags + 1)


def fit_features(recipe: Recipe, features: Floats) -> FittedDetector:
    """Fit to features, which with lags include past values."""
    return recipe.fit_rows(InOrder(features), np.arange(len(features)))


def own_setting(detector: PCADetector, n_features: int) -> Setting:
    """The setting that a detector has, with the statistic that "auto" stands for."""
    columns = Lagged(None, n_features // (detector.lags + 1), detector.lags)
    statistic: Any = Recipe(DetectorSettings(**detector.get_params(deep=False)), columns).statistic
    model = detector.n_components, detector.noise, detector.shrinkage
    return Setting(*model, statistic, detector.game, detector.ranking)


def compare(chosen: Sequence[Setting], windows: Floats, detector: PCADetector, plan: Plan) -> tuple[list[Outcome], int]:
    """The results of every setting, in the order given, and the number of trials."""
    fits = Fits(detector)

    def look(setting: Setting, fold: Fold) -> tuple[tuple[Floats, ...], Verdict]:
        fitted = fits(setting, fold.training)
        blamed = blame_columns(setting, fitted, fold.trials.rows, plan.seed)
        return scores(fitted, setting.statistic, fold), judge(blamed, fold.trials.culprits)

    found, estimate = over_folds(plan, windows, detector, chosen, look)
    outcomes = []
    for setting, folds in zip(chosen, found, strict=True):
        by_fold, verdicts = zip(*folds, strict=True)
        detection = Scores.of(by_fold).at_rate(1 - detector.confidence, estimate)
        hits1, hits3, rank = map(estimate, joined(verdicts))
        outcomes.append(Outcome(setting, *detection, hits1, hits3, rank))
    return outcomes, len(estimate.source)


def scores(fitted: FittedDetector, statistic: str, fold: Fold) -> tuple[Floats, ...]:
    """A statistic of the held-out rows of a fold, and of its faults."""
    score = fitted.named(statistic)
    return tuple(score(fitted.model.standardise(rows)) for rows in (fold.held_out, fold.trials.rows))


def with_own_limit(detector: PCADetector, windows: Floats, plan: Plan) -> tuple[Estimate, Rate] | None:
    """What the detector flags with its own limit, of faults and of held-out rows.

    ``None`` where folds are too small for the limit.
    """

    def look(_: Setting, fold: Fold) -> tuple[Floats, ...]:
        fitted = fit_features(recipe_of(detector, fold.training.shape[1]), fold.training)
        return tuple(part / fitted.limit for part in scores(fitted, fitted.statistic.name, fold))

    own = [own_setting(detector, windows.shape[1])]
    try:
        found, estimate = over_folds(replace(plan, progress=None), windows, detector, own, look)
    except ValueError:  # a conformal limit asks for many rows
        return None
    return Scores.of(found[0]).above(1.0, estimate)
