"""The setting with the most hits: a choice by ranking alone, for comparisons of ranking criteria.

Where another criterion beats the best Shapley values by less than one standard error, the Shapley values are chosen: then
the values that add up to the score also rank the culprits. `culpa.calibrate` also looks at which faults are detected.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import FAULT_KINDS, FaultKind
from culpa._core.types import Floats
from culpa.calibration.comparison import Fits, over_folds
from culpa.calibration.evaluation import (
    Estimate,
    Estimator,
    Setting,
    Verdict,
    blame_columns,
    joined,
    judge,
    settings,
)
from culpa.calibration.injection import SIMULTANEOUS_FAULTS, Trials, inject
from culpa.calibration.plan import MOST_ROWS, Fold, Plan, thinned
from culpa.detecting.detector import PCADetector


class Entry(NamedTuple):
    """A setting and its results."""

    setting: Setting
    hits1: Estimate
    hits3: Estimate
    rank: Estimate


class MostHits(NamedTuple):
    """The setting with the most hits, all settings (best Hits@1 first), and the number of trials."""

    best: Setting
    entries: tuple[Entry, ...]
    n_trials: int


def most_hits(rows: Floats, n_components: int | float = 0.95, plan: Plan | None = None) -> MostHits:
    """Compare all settings by Hits@1 of faults injected into held-out rows."""
    detector, plan = PCADetector(n_components), plan or Plan()
    complete = thinned(rows[~np.isnan(rows).any(axis=1)], MOST_ROWS)
    plan.check(len(complete))
    chosen = settings(rows.shape[1], n_components) if plan.chosen is None else list(plan.chosen)
    fits = Fits(detector)

    def look(setting: Setting, fold: Fold) -> Verdict:
        blamed = blame_columns(setting, fits(setting, fold.training), fold.trials.rows, plan.seed)
        return judge(blamed, fold.trials.culprits)

    found, estimate = over_folds(plan, complete, detector, chosen, look)
    source, all_folds = estimate.source, [joined(parts) for parts in found]
    entries = ranked(chosen, all_folds, source, seed=plan.seed)
    hits = {setting: verdict.hits1 for setting, verdict in zip(chosen, all_folds, strict=True)}
    return MostHits(preferred([entry.setting for entry in entries], hits, source), tuple(entries), len(source))


def preferred(best_first: list[Setting], hits: dict[Setting, Floats], source: NDArray[np.intp]) -> Setting:
    """The best setting, or the best one with Shapley values if it is at most one standard error worse."""
    first = best_first[0]
    shapley = next((setting for setting in best_first if setting.ranking == "shapley"), first)
    lost = hits[first] - hits[shapley]
    return shapley if lost.mean() <= standard_error(lost, source) else first


def blame(setting: Setting, detector: PCADetector, rows: Floats, seed: int = 0) -> Floats:
    """How strongly the setting blames each feature, (rows, features); ``detector`` must agree with it in the fit."""
    return blame_columns(setting, detector.fitted, detector.fitted.read(rows).features, seed)


def ranked(
    chosen: Sequence[Setting], judged: Iterable[Verdict], source: NDArray[np.intp], *, seed: int = 0
) -> list[Entry]:
    """Settings with their means over trials, best Hits@1 first."""
    estimate = Estimator(source, seed)
    entries = [Entry(s, *map(estimate, verdict)) for s, verdict in zip(chosen, judged, strict=True)]
    return sorted(entries, key=lambda entry: (-entry.hits1.value, -entry.hits3.value, entry.rank.value))


def standard_error(cells: Floats, source: NDArray[np.intp]) -> float:
    """Standard error of a mean over trials, where trials of the same row are correlated."""
    row = np.unique(source, return_inverse=True)[1]
    off = np.bincount(row, cells - cells.mean())
    return float(np.sqrt(len(off) / max(len(off) - 1, 1) * (off**2).sum()) / len(cells))


def verdicts(
    chosen: Sequence[Setting], training: Floats, trials: Trials, detector: PCADetector | None = None, seed: int = 0
) -> Iterator[Verdict]:
    """The results of each setting, fitted to the training rows; ``detector`` has the other parameters."""
    fits = Fits(detector or PCADetector())
    for setting in chosen:
        yield judge(blame_columns(setting, fits(setting, training), trials.rows, seed), trials.culprits)


def leaderboard(
    training: Floats,
    held_out: Floats,
    chosen: Sequence[Setting] | None = None,
    *,
    kinds: Sequence[FaultKind] = FAULT_KINDS,
    at_once: Sequence[int] = SIMULTANEOUS_FAULTS,
    n_trials: int = 1800,
    seed: int = 0,
) -> list[Entry]:
    """Fit settings to training rows and compare them on held-out rows with injected faults, best first.

    >>> from culpa.datasets import make_plant
    >>> plant = make_plant(300, 100, faults=())
    >>> best, *others = leaderboard(plant.normal, plant.new, n_trials=300)
    >>> best.hits1.value > 0.9
    True
    """
    trials = inject(held_out, training, kinds=kinds, at_once=at_once, n_trials=n_trials, seed=seed)
    chosen = settings(training.shape[1]) if chosen is None else chosen
    return ranked(chosen, verdicts(chosen, training, trials, seed=seed), trials.source, seed=seed)
