"""Chooses the detector that finds culprits most often in the user's data, by injecting faults into held-out normal rows.

Folds are consecutive, because neighbouring rows resemble each other and held-out rows should be new. Every setting is
fitted to all folds but one, and ranks the features of the faulty rows of that fold. The best setting is fitted to all rows.
Only normal rows are used.

Where another criterion beats the best Shapley values by less than one standard error, the Shapley values are chosen: then
the values that add up to the score also rank the culprits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import FAULT_KINDS, FaultKind
from culpa._core.parameters import CALIBRATION, documented, known_keywords
from culpa._core.types import Floats
from culpa._core.validation import frame_like, read_table
from culpa.calibration.evaluation import (
    Entry,
    Progress,
    Setting,
    Verdict,
    joined,
    ranked,
    settings,
    standard_error,
    verdicts,
)
from culpa.calibration.injection import SIMULTANEOUS_FAULTS, Trials, inject
from culpa.detector import PCADetector

_FEWEST_ROWS = 20
MOST_ROWS = 20_000  # that are used for the choice


@dataclass(frozen=True)
class Calibration:
    """The chosen setting, all settings that were compared (best Hits@1 first), and the number of trials."""

    best: Setting
    entries: tuple[Entry, ...]
    n_trials: int
    native: Any = field(default=None, repr=False, compare=False)

    def to_frame(self) -> Any:
        """One line per setting: its parameters, Hits@1 with its confidence interval, Hits@3, mean rank."""
        columns: dict[str, Any] = {
            "setting": [entry.setting.label for entry in self.entries],
            "chosen": [entry.setting == self.best for entry in self.entries],
        }
        for name in ("hits1", "hits3", "rank"):
            estimates = [getattr(entry, name) for entry in self.entries]
            columns[name] = [estimate.value for estimate in estimates]
            if name == "hits1":
                columns |= {"hits1_low": [e.low for e in estimates], "hits1_high": [e.high for e in estimates]}
        for name in Setting._fields:
            # a column of a data frame holds one type
            columns[name] = [str(getattr(entry.setting, name)) for entry in self.entries]
        return frame_like(self.native, columns)


@dataclass(frozen=True)
class Plan:
    """How settings are compared: which ones, with which faults, in how many folds and trials."""

    chosen: Sequence[Setting] | None = None
    kinds: Sequence[FaultKind] = FAULT_KINDS
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS
    n_folds: int = 5
    n_trials: int = 1800
    seed: int = 0
    progress: Progress | None = None

    def __post_init__(self) -> None:
        CALIBRATION.check({name: value for name, value in vars(self).items() if name in CALIBRATION})

    def settings(self, n_features: int, detector: PCADetector) -> list[Setting]:
        """The settings to compare, which must be at least one."""
        chosen = settings(n_features, detector.n_components) if self.chosen is None else list(self.chosen)
        if not chosen:
            raise ValueError("chosen is empty: give at least one setting, or None for all.")
        return chosen

    def inject(self, held_out: Floats, training: Floats, fold: int) -> Trials:
        """The trials of one fold."""
        n_trials = -(-self.n_trials // self.n_folds)
        return inject(
            held_out, training, kinds=self.kinds, at_once=self.at_once, n_trials=n_trials, seed=self.seed + fold
        )


@documented(CALIBRATION)
@known_keywords
def calibrate(
    X: Any,
    detector: PCADetector | None = None,
    *,
    chosen: Sequence[Setting] | None = None,
    kinds: Sequence[FaultKind] = FAULT_KINDS,
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS,
    n_folds: int = 5,
    n_trials: int = 1800,
    seed: int = 0,
    progress: Progress | None = None,
) -> PCADetector:
    """Fit the detector that finds culprits most often in these normal rows; ``calibration_`` says how often.

    Parameters
    ----------
    X
        Normal rows. Rows with missing cells are used only for the final fit, not for the choice.
    detector : PCADetector, optional
        Its scaling, confidence, limit and number of components are kept (with shrinkage, all components are used).
    chosen : list of `culpa.calibration.Setting`, optional
        Settings to choose from; `culpa.calibration.settings` gives the default.
    {parameters}

    Examples
    --------
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant(400, 400)
    >>> detector = calibrate(plant.normal, n_trials=300)
    >>> detector.calibration_.entries[0].hits1.value > 0.9
    True
    >>> why = detector.explain(plant.new[detector.predict(plant.new) == -1])
    """
    table = read_table(X, min_rows=_FEWEST_ROWS, min_features=2)
    plan = Plan(chosen, kinds, at_once, n_folds, n_trials, seed, progress)
    calibration = choose(table.array, detector, plan)
    best = calibration.best.applied_to(detector or PCADetector()).fit(X)
    best.calibration_ = replace(calibration, native=table.native)
    return best


def choose(rows: Floats, detector: PCADetector | None = None, plan: Plan | None = None) -> Calibration:
    """The comparison behind `calibrate`, without the final fit."""
    detector, plan = detector or PCADetector(), plan or Plan()
    complete = _complete(rows, detector, plan)
    chosen = plan.settings(rows.shape[1], detector)
    judged: list[list[Verdict]] = [[] for _ in chosen]
    sources = []
    for fold, held_out in enumerate(np.array_split(np.arange(len(complete)), plan.n_folds)):
        training = np.delete(complete, held_out, axis=0)
        trials = plan.inject(complete[held_out], training, fold)
        sources.append(held_out[trials.source])
        for k, verdict in enumerate(verdicts(chosen, training, trials, detector=detector, seed=plan.seed)):
            judged[k].append(verdict)
            if plan.progress is not None:
                plan.progress((fold + (k + 1) / len(chosen)) / plan.n_folds, chosen[k].label)
    source = np.concatenate(sources)
    all_folds = [joined(parts) for parts in judged]
    entries = ranked(chosen, all_folds, source, seed=plan.seed)
    hits = {setting: verdict.hits1 for setting, verdict in zip(chosen, all_folds, strict=True)}
    return Calibration(_preferred([entry.setting for entry in entries], hits, source), tuple(entries), len(source))


def _complete(rows: Floats, detector: PCADetector, plan: Plan) -> Floats:
    """The rows that are used for the choice, or an error where calibration is not possible."""
    if detector.lags:
        raise ValueError(
            f"lags={detector.lags} cannot be calibrated: faults are injected into single rows, without preceding rows."
        )
    if detector.given is not None or detector.smooth is not None:
        what = "given columns" if detector.given is not None else "smoothed rows"
        raise ValueError(f"a detector with {what} cannot be calibrated: calibrate without, and set the parameter then.")
    complete = thinned(rows[~np.isnan(rows).any(axis=1)], MOST_ROWS)
    if len(complete) < _FEWEST_ROWS:
        raise ValueError(
            f"{len(complete)} complete row(s) are too few to calibrate with: at least {_FEWEST_ROWS} are needed."
        )
    if plan.n_folds > len(complete) // 2:
        raise ValueError(
            f"n_folds={plan.n_folds} leaves less than two rows in a fold: use at most {len(complete) // 2} folds."
        )
    return complete


def _preferred(best_first: list[Setting], hits: dict[Setting, Floats], source: NDArray[np.intp]) -> Setting:
    """The best setting, or the best one with Shapley values if it is at most one standard error worse."""
    first = best_first[0]
    shapley = next((setting for setting in best_first if setting.ranking == "shapley"), first)
    lost = hits[first] - hits[shapley]
    return shapley if lost.mean() <= standard_error(lost, source) else first


def thinned(rows: Floats, most: int) -> Floats:
    """At most ``most`` rows, evenly spaced."""
    return rows[:: -(-len(rows) // most)] if len(rows) else rows
