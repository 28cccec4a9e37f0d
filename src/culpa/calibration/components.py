"""How many components detect most faults, at a fixed rate of false alarms?

``n_components="auto"`` takes the number that makes new normal rows most likely. This is another answer: faults are injected
into held-out rows, and each number of components is judged by the share of them above the limit that a share
1 - confidence of the held-out rows exceeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Unpack

import numpy as np
from sklearn.base import clone

from culpa._core.native import emptied
from culpa._core.parameter import documented, known_keywords, signed
from culpa._core.parameters import CALIBRATION
from culpa._core.types import Floats
from culpa._core.validation import default_names, frame_like, read_table
from culpa.calibration.changes import with_intervals
from culpa.calibration.comparison import Fits, Scores, by_position, n_judged, over_folds, own_setting, scores
from culpa.calibration.evaluation import Estimate, Setting
from culpa.calibration.injection import past_of
from culpa.calibration.plan import FEWEST_ROWS, Plan, PlanOptions, windows_of
from culpa.detecting.detector import PCADetector
from culpa.scores.held_out import Rate

_MOST_NUMBERS = 40  # numbers of components that are compared by default, at most


class ComponentsEntry(NamedTuple):
    """A number of components, and how many faults it detects at which rate of false alarms."""

    n_components: int
    detection: Estimate
    false_alarms: Rate


@dataclass(frozen=True)
class ComponentsByDetection:
    """The number of components that detects most faults, all numbers compared, and the statistic they were compared by."""

    best: int
    entries: tuple[ComponentsEntry, ...]
    statistic: str
    n_trials: int
    native: Any = field(default=None, repr=False, compare=False)

    @property
    def tied(self) -> tuple[int, ...]:
        """The numbers whose detection rate ties with the highest one: their 95% intervals overlap."""
        highest = next(entry.detection for entry in self.entries if entry.n_components == self.best)
        return tuple(entry.n_components for entry in self.entries if entry.detection.high >= highest.low)

    def applied_to(self, detector: PCADetector) -> PCADetector:
        """An unfitted copy of a detector with the best number of components, and the statistic it was found for."""
        copy = clone(detector).set_params(n_components=self.best, statistic=self.statistic)
        return copy  # type: ignore[no-any-return]

    def to_frame(self) -> Any:
        """One line per number of components: detection rate and false alarms with intervals, whether best, whether tied."""
        columns: dict[str, Any] = {"n_components": [entry.n_components for entry in self.entries]}
        columns |= with_intervals(self.entries, "detection", "false_alarms")
        columns["tied"] = [entry.n_components in self.tied for entry in self.entries]
        columns["best"] = [entry.n_components == self.best for entry in self.entries]
        return frame_like(self.native, columns)


@documented(CALIBRATION)
@known_keywords
@signed(CALIBRATION)
def components_by_detection(
    X: Any,
    detector: PCADetector | None = None,
    *,
    numbers: Sequence[int] | None = None,
    **options: Unpack[PlanOptions],
) -> ComponentsByDetection:
    """The number of components that detects most injected faults, at the detector's rate of false alarms.

    Parameters
    ----------
    X
        Normal rows; only complete ones are used.
    detector : PCADetector, optional
        Whose statistic, confidence, scaling, trimming, lags, noise and shrinkage are used.
    numbers : list of int, optional
        Numbers of components to compare; by default all, or 40 evenly spaced ones where there are more.
    {parameters}

    Returns
    -------
    ComponentsByDetection
        With the ``best`` number, and those ``tied`` with it.

    Examples
    --------
    >>> from culpa.datasets import make_plant
    >>> found = components_by_detection(make_plant(400, 1, faults=()).normal, n_trials=300)
    >>> found.best in found.tied
    True
    """
    detector = detector or PCADetector()
    table = read_table(X, min_rows=FEWEST_ROWS, min_features=2)
    plan = Plan(**options)
    comparable = by_position(detector, table.feature_names())
    found = compare_components(windows_of(table, detector.lags), comparable, plan, numbers)
    return replace(found, native=emptied(table.native))


def compare_components(
    windows: Floats, detector: PCADetector, plan: Plan, numbers: Sequence[int] | None = None
) -> ComponentsByDetection:
    """The comparison behind `components_by_detection`; ``windows`` are those of `windows_of`."""
    plan.check_detector(detector)
    plan.check(len(windows), detector.lags)
    n_columns = windows.shape[1] // (past_of(detector.lags) + 1)
    detector = by_position(detector, default_names(n_columns))
    numbers = _numbers(n_judged(detector, n_columns), numbers)
    statistic = own_setting(detector, n_columns * (detector.lags + 1)).statistic
    chosen = [Setting(p, detector.noise, detector.shrinkage, statistic) for p in numbers]
    fits = Fits(detector)
    found, estimate = over_folds(
        plan,
        windows,
        detector,
        chosen,
        lambda setting, fold: scores(fits(setting, fold.training), statistic, fold),
    )
    rate = 1 - detector.confidence
    entries = [ComponentsEntry(p, *Scores.of(by).at_rate(rate, estimate)) for p, by in zip(numbers, found, strict=True)]
    best = max(entries, key=lambda entry: entry.detection.value).n_components
    return ComponentsByDetection(best, tuple(entries), statistic, len(estimate.source))


def _numbers(n_features: int, given: Sequence[int] | None) -> list[int]:
    most = n_features - 1
    if given is None:
        return sorted({round(p) for p in np.linspace(1, most, min(most, _MOST_NUMBERS)).tolist()})
    wrong = [p for p in given if not 1 <= p <= most]
    if wrong or not len(given):
        raise ValueError(f"numbers must contain numbers of components between 1 and {most}, got {list(given)}.")
    return sorted(set(given))
