"""Which detector finds the culprits most often in *your* data? Faults are injected into held-out normal rows to find out.

Rows are cut into consecutive folds, because rows that follow each other are alike and held-out ones should not be. Every
setting is fitted to all folds but one and ranks the spoiled rows of that one. The best setting is fitted to all rows.
Nothing but normal rows is used.

Where a criterion that is no Shapley value wins by less than one standard error, the best Shapley values are taken: then the
values that share out the score also rank the culprits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa._core.validation import frame_like, read_table
from culpa.calibration.evaluation import Entry, Progress, Setting, joined, ranked, settings, standard_error, verdicts
from culpa.calibration.injection import FAULT_KINDS, SIMULTANEOUS_FAULTS, inject
from culpa.detector import PCADetector

_FEWEST_ROWS = 20
MOST_ROWS = 20_000  # rows that take part in the choice


@dataclass(frozen=True)
class Calibration:
    """The setting to take, all that were tried, best Hits@1 first, and how many trials are behind them."""

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
            # numbers and words in one column suit no data frame
            columns[name] = [str(getattr(entry.setting, name)) for entry in self.entries]
        return frame_like(self.native, columns)


def calibrate(
    X: Any,
    detector: PCADetector | None = None,
    *,
    chosen: Sequence[Setting] | None = None,
    kinds: Sequence[str] = FAULT_KINDS,
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS,
    n_folds: int = 5,
    n_trials: int = 1800,
    seed: int = 0,
    progress: Progress = lambda share, doing: None,
) -> PCADetector:
    """A detector of these normal rows that finds culprits as often as possible; ``calibration_`` tells how often.

    Parameters
    ----------
    X
        Normal rows. Rows with missing cells take no part in the choice, only in the final fit.
    detector : PCADetector, optional
        Its scaling, confidence, limit and number of components are kept (with shrinkage, all components are).
    chosen : list of `culpa.calibration.evaluation.Setting`, optional
        Settings to choose from; by default `culpa.calibration.evaluation.settings`.
    kinds, at_once
        Kinds of faults (`culpa.calibration.injection.FAULT_KINDS`) and how many features they befall at once.
    n_folds, n_trials : int
        Folds, and how many faults are injected in all of them together.
    seed : int
        Same seed, same choice.
    progress : callable, optional
        Called with the share of the work done and what is being done.

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
    calibration = choose(
        table.array,
        detector,
        chosen=chosen,
        kinds=kinds,
        at_once=at_once,
        n_folds=n_folds,
        n_trials=n_trials,
        seed=seed,
        progress=progress,
    )
    best = calibration.best.applied_to(detector or PCADetector()).fit(X)
    best.calibration_ = replace(calibration, native=table.native)
    return best


def choose(
    rows: Floats,
    detector: PCADetector | None = None,
    *,
    chosen: Sequence[Setting] | None = None,
    kinds: Sequence[str] = FAULT_KINDS,
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS,
    n_folds: int = 5,
    n_trials: int = 1800,
    seed: int = 0,
    progress: Progress = lambda share, doing: None,
) -> Calibration:
    """The comparison behind `calibrate`, without the final fit."""
    detector = detector or PCADetector()
    if detector.lags:
        raise ValueError(
            f"lags={detector.lags} cannot be calibrated: faults are injected into single rows, without a past."
        )
    complete = thinned(rows[~np.isnan(rows).any(axis=1)], MOST_ROWS)
    if len(complete) < _FEWEST_ROWS:
        raise ValueError(f"{len(complete)} complete row(s) are too few to calibrate with: at least {_FEWEST_ROWS}.")
    if not 2 <= n_folds <= len(complete) // 2:
        raise ValueError(f"n_folds={n_folds} must be at least 2 and leave two rows or more in every fold.")
    chosen = settings(rows.shape[1], detector.n_components) if chosen is None else list(chosen)
    judged: list[list[Any]] = [[] for _ in chosen]
    sources = []
    for fold, held_out in enumerate(np.array_split(np.arange(len(complete)), n_folds)):
        training = np.delete(complete, held_out, axis=0)
        trials = inject(
            complete[held_out],
            training,
            kinds=kinds,
            at_once=at_once,
            n_trials=-(-n_trials // n_folds),
            seed=seed + fold,
        )
        sources.append(held_out[trials.source])
        for k, verdict in enumerate(verdicts(chosen, training, trials, detector=detector, seed=seed)):
            judged[k].append(verdict)
            progress((fold + (k + 1) / len(chosen)) / n_folds, chosen[k].label)
    source = np.concatenate(sources)
    together = [joined(parts) for parts in judged]
    entries = ranked(chosen, together, source, seed=seed)
    hits = {setting: verdict.hits1 for setting, verdict in zip(chosen, together, strict=True)}
    return Calibration(_preferred([entry.setting for entry in entries], hits, source), tuple(entries), len(source))


def _preferred(best_first: list[Setting], hits: dict[Setting, Floats], source: NDArray[np.intp]) -> Setting:
    """The first setting, or the first that ranks by Shapley values if that is as good up to one standard error."""
    first = best_first[0]
    shapley = next((setting for setting in best_first if setting.ranking == "shapley"), first)
    lost = hits[first] - hits[shapley]
    return shapley if lost.mean() <= standard_error(lost, source) else first


def thinned(rows: Floats, most: int) -> Floats:
    """At most ``most`` rows, evenly spaced."""
    return rows[:: -(-len(rows) // most)] if len(rows) else rows
