"""The setting with the most hits: a choice by ranking alone, for comparisons of ranking criteria.

Where another criterion beats the best Shapley values by less than one standard error, the Shapley values are chosen: then
the values that add up to the score also rank the culprits. `culpa.calibrate` also looks at which faults are detected.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.calibration.comparison import Fits, over_folds
from culpa.calibration.evaluation import (
    Entry,
    Setting,
    Verdict,
    blame_columns,
    joined,
    judge,
    ranked,
    settings,
    standard_error,
)
from culpa.calibration.plan import MOST_ROWS, Fold, Plan, thinned
from culpa.detecting.detector import PCADetector


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
