"""Chooses the detector that finds culprits best in the user's data, by injecting faults into held-out normal rows.

Settings are compared at the same rate of false alarms (`culpa.calibration.comparison`) and chosen by one rule:

Among the settings whose detection rate ties with the highest one, those whose Hits@1 ties with the highest one among them
are tied; of these, the setting with the fewest changes to the detector given is chosen.

Two settings tie where their 95% intervals overlap. The chosen setting is fitted to all rows. Only normal rows are used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from culpa._core.native import emptied
from culpa._core.parameter import documented, known_keywords, signed
from culpa._core.parameters import CALIBRATION
from culpa._core.types import DataFrame, Floats
from culpa._core.validation import default_names, frame_like, read_table
from culpa._core.words import kind_of
from culpa.calibration.changes import Change, Side, as_columns, changes, with_intervals
from culpa.calibration.comparison import Outcome, Standing, by_position, compare, n_judged, own_setting, with_own_limit
from culpa.calibration.evaluation import Setting
from culpa.calibration.injection import past_of
from culpa.calibration.plan import FEWEST_ROWS, Plan, PlanOptions, windows_of
from culpa.detecting.detector import PCADetector

RULE = (
    "First keep the settings whose detection rate ties with the highest; among these, those whose Hits@1 ties with the "
    "highest. Of the settings that are left, choose the one that changes the detector least. Two settings tie if their 95% "
    "intervals overlap. Among equally many changes, those that leave the flagged rows as they are come first, "
    "then rankings by Shapley values, then more hits."
)

_BEST_FIRST: tuple[Standing, ...] = ("chosen", "tied", "fewer hits", "detects less")


@dataclass(frozen=True)
class Calibration:
    """What `calibrate` compared, and what it chose.

    Attributes
    ----------
    best, given : Setting
        The chosen setting, and that of the detector given.
    entries : tuple of Outcome
        All that were compared: the chosen setting and those tied with it first, then the best Hits@1 first.
    changes : tuple of Change
        The detector given compared with the one chosen.
    n_trials : int
        Number of injected faults.
    rule : str
        How the setting was chosen, in words.

    Examples
    --------
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant(400, 400)
    >>> detector = calibrate(plant.normal, chosen=[Setting(3, 1.0, 0.0, "spe")], n_trials=60)
    >>> detector.calibration_.best in [entry.setting for entry in detector.calibration_.entries]
    True
    """

    best: Setting
    given: Setting
    entries: tuple[Outcome, ...]
    changes: tuple[Change, ...]
    n_trials: int
    native: Any = field(default=None, repr=False, compare=False)
    rule: str = field(default=RULE, repr=False)

    def to_frame(self) -> DataFrame:
        """One line per setting: detection rate, false alarms, Hits@1, Hits@3, mean rank, with intervals, and parameters."""
        columns: dict[str, Any] = {
            "setting": [entry.setting.label for entry in self.entries],
            "standing": [entry.standing for entry in self.entries],
            "chosen": [entry.standing == "chosen" for entry in self.entries],
        }
        columns |= with_intervals(self.entries, "detection", "false_alarms", "hits1", "hits3", "rank")
        for name in Setting._fields:
            # a column of a data frame holds one type
            columns[name] = [str(getattr(entry.setting, name)) for entry in self.entries]
        return frame_like(self.native, columns)

    def changes_to_frame(self) -> DataFrame:
        """What changed compared with the detector given, and what that did: one line each, before and after."""
        return frame_like(self.native, as_columns(self.changes))


@documented(CALIBRATION)
@known_keywords
@signed(CALIBRATION)
def calibrate(
    X: Any,
    detector: PCADetector | None = None,
    *,
    chosen: Sequence[Setting] | None = None,
    **options: Unpack[PlanOptions],
) -> PCADetector:
    """Fit the detector that finds culprits best in these normal rows; ``calibration_`` says how well.

    Settings are compared at the same rate of false alarms. Among those whose detection rate ties with the highest one,
    those whose Hits@1 ties with the highest one among them are tied; of these, the setting with the fewest changes to the
    detector given is chosen. Two settings tie where their 95% intervals overlap.

    Parameters
    ----------
    X
        Normal rows. Rows with missing cells are used only for the final fit, not for the choice. With lags, rows must be
        consecutive, and faults begin some rows before the row that is judged. Given columns have no faults.
    detector : PCADetector or Pipeline, optional
        What to start from. Only statistic, noise, shrinkage, game and ranking change; the number of components does where
        it is "auto" (with shrinkage, all of them are used). The limit "f" becomes "auto" where the statistic is not T2.
        Of a Pipeline, the last step is calibrated, and the result is a Pipeline.
    chosen : list of `culpa.calibration.Setting`, optional
        Settings to choose from; `culpa.calibration.settings` gives the default, to which the detector's own is added.
    {parameters}

    Returns
    -------
    PCADetector or Pipeline
        A fitted copy with ``calibration_``.

    Examples
    --------
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant(400, 400)
    >>> detector = calibrate(plant.normal, n_trials=300)
    >>> detector.calibration_.entries[0].hits1.value > 0.8
    True
    >>> detector.calibration_.changes_to_frame().columns.tolist()
    ['what', 'before', 'after']
    >>> why = detector.explain(plant.new[detector.predict(plant.new) == -1])
    """
    if isinstance(detector, Pipeline):
        whole: PCADetector = _calibrate_pipeline(X, detector, partial(calibrate, chosen=chosen, **options))
        return whole
    detector = detector or PCADetector()
    table = read_table(X, min_rows=FEWEST_ROWS, min_features=2)
    plan = Plan(chosen, **options)
    comparable = by_position(detector, table.feature_names())
    calibration = choose(windows_of(table, detector.lags), comparable, plan)
    best = calibrated(detector, calibration.best, table.array.shape[1]).fit(X)
    best.calibration_ = replace(calibration, native=emptied(table.native))
    return best


def _calibrate_pipeline(X: Any, pipeline: Pipeline, choose: Callable[[Any, PCADetector], PCADetector]) -> Any:
    """The same steps with the detector that ``choose`` finds, fitted to ``X``; its last step has ``calibration_``."""
    name, detector = pipeline.steps[-1]
    if not isinstance(detector, PCADetector):
        raise TypeError(f"calibrate needs a Pipeline whose last step is a PCADetector, but got {kind_of(detector)}.")
    steps = clone(pipeline[:-1])
    best = choose(steps.fit_transform(X) if len(steps) else X, detector)
    result = Pipeline([*steps.steps, (name, clone(best))]).fit(X)
    result[-1].calibration_ = best.calibration_
    return result


def calibrated(detector: PCADetector, best: Setting, n_columns: int) -> PCADetector:
    """An unfitted detector with the chosen setting: the one given, where nothing is to change."""
    own = own_setting(detector, n_columns * (detector.lags + 1))
    return clone(detector) if best == own else best.applied_to(detector)


def choose(windows: Floats, detector: PCADetector | None = None, plan: Plan | None = None) -> Calibration:
    """The comparison behind `calibrate`, without the final fit; ``windows`` are those of `windows_of`."""
    detector, plan = detector or PCADetector(), plan or Plan()
    lags = detector.lags
    plan.check_detector(detector)
    plan.check(len(windows), lags)
    n_columns = windows.shape[1] // (past_of(lags) + 1)
    detector = by_position(detector, default_names(n_columns))
    n_features = n_columns * (lags + 1)
    own = own_setting(detector, n_features)
    chosen = plan.settings(n_judged(detector, n_columns), detector)
    everything = list(dict.fromkeys([own, *chosen]))
    outcomes, n_trials = compare(everything, windows, detector, plan)
    # the detector's own setting is always compared, but not chosen where others are listed
    candidates = outcomes if plan.chosen is None or own in chosen else outcomes[1:]
    entries = ordered(candidates, own)
    after = next(outcome for outcome in outcomes if outcome.setting == entries[0].setting)
    sides = []
    for outcome in (outcomes[0], after):
        version = calibrated(detector, outcome.setting, n_columns)
        sides.append(Side(version, outcome, with_own_limit(version, windows, plan)))
    table = changes(sides[0], sides[1], windows[:, :n_features])
    return Calibration(entries[0].setting, own, tuple(entries), table, n_trials)


def ordered(outcomes: Sequence[Outcome], own: Setting) -> list[Outcome]:
    """The settings with their standings, the chosen one first."""
    most_detected = max(outcomes, key=lambda outcome: outcome.detection.value).detection
    detecting = [outcome for outcome in outcomes if outcome.detection.high >= most_detected.low]
    most_hits = max(detecting, key=lambda outcome: outcome.hits1.value).hits1
    tied = [outcome for outcome in detecting if outcome.hits1.high >= most_hits.low]
    best = min(tied, key=lambda outcome: (*complexity(outcome.setting, own), -outcome.hits1.value))

    def standing(outcome: Outcome) -> Standing:
        if outcome is best:
            return "chosen"
        if outcome in tied:
            return "tied"
        return "fewer hits" if outcome in detecting else "detects less"

    entries = [outcome._replace(standing=standing(outcome)) for outcome in outcomes]
    return sorted(entries, key=lambda entry: (_BEST_FIRST.index(entry.standing), -entry.hits1.value))


def complexity(setting: Setting, own: Setting) -> tuple[int, bool, bool]:
    """How many parameters differ from the detector given, whether other rows are flagged, and whether by Shapley values.

    >>> own = Setting("auto", 1.0, 0.0, "mahalanobis")
    >>> complexity(own, own), complexity(Setting("auto", 3.0, 0.0, "spe", ranking="rbc"), own)
    ((0, False, False), (3, True, True))
    """
    changed = sum(a != b for a, b in zip(setting, own, strict=True))
    flags_others = (setting.model, setting.statistic) != (own.model, own.statistic)
    return changed, flags_others, setting.ranking != "shapley"
