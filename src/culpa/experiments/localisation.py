"""Beyond the paper: which criterion finds the features at fault in twelve data sets with injected faults?

The data sets are the cars as in Table I, the simulated plant without its own faults, and the normal rows of the ten ODDS
sets (shuffled, at most 3,000, two thirds to train). Everything is chosen and fitted on training rows. Faults are injected
into the other rows.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from culpa._core.choices import FAULT_KINDS, MODEL_NAMES, ModelName, ScoreName
from culpa._core.fit_warning import FitWarning
from culpa._core.types import Floats
from culpa._core.warning import without_warnings
from culpa.calibration.by_hits import most_hits
from culpa.calibration.evaluation import Entry, Estimator, Setting, Verdict, blame, judge, ranked, settings, verdicts
from culpa.calibration.injection import Trials, inject
from culpa.calibration.plan import Plan
from culpa.datasets import ODDS_NAMES, load_cars04, load_odds, make_plant
from culpa.detector import PCADetector
from culpa.experiments.cars import EXTREMES, N_COMPONENTS, corrupt, culprits, split
from culpa.experiments.published import Progress, silent

NAMES = ("cars", "plant", *ODDS_NAMES)
SIMULTANEOUS_FAULTS = (1, 2, 3)
_MOST_ROWS = 3_000  # normal rows of an ODDS set
_SHRINKAGE = 0.01  # of the minimal game with a shrunk model
MOST_FEATURES_OF_MODELS = 21  # of data sets on which other models are compared, so that it takes minutes
# model of normal rows and statistic of each line of the table that compares models
MODELS: dict[str, tuple[ModelName, ScoreName]] = {
    **{name: (name, "mahalanobis") for name in MODEL_NAMES},
    "mixture, nll": ("mixture", "nll"),
}
_DIGITS = 4  # few enough that rounding errors of the machine do not show


class Part(NamedTuple):
    """One data set: training rows and held-out normal rows."""

    training: Floats
    held_out: Floats


def run(
    data: str | os.PathLike[str] | None = None,
    *,
    names: Sequence[str] = NAMES,
    n_trials: int = 1800,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run the benchmark on all or some of the data sets; the result can be written as JSON.

    ``n_trials`` is the number of faults per data set, once for the comparison and once for calibration.
    """
    sets, broken_down = [], []
    for done, name in enumerate(names):
        here = _share_of(progress, done, len(names) + 2)
        result, breakdown = _one_set(name, load(name, data), n_trials, here)
        sets.append(result)
        broken_down.append(breakdown)
    protocol = _cars_protocol(data, n_trials, _share_of(progress, len(names), len(names) + 2))
    models = other_models(data, names, n_trials, _share_of(progress, len(names) + 1, len(names) + 2))
    return {
        "about": "Written by 'culpa reproduce localisation'. Estimates are [value, low, high] of a 95% interval.",
        "trials": n_trials,
        "sets": sets,
        "breakdown": _mean_breakdown(broken_down),
        "cars": protocol,
        "models": models,
    }


def load(name: str, data: str | os.PathLike[str] | None = None) -> Part:
    """Training and held-out normal rows of a data set."""
    if name == "cars":
        return Part(*split(load_cars04(data)))
    if name == "plant":
        plant = make_plant(1000, 400, faults=())
        return Part(plant.normal, plant.new)
    dataset = load_odds(name, data)
    normal = dataset.X[dataset.y == 0]
    kept = normal[np.random.default_rng(0).permutation(len(normal))[:_MOST_ROWS]]
    return Part(*np.split(kept, [2 * len(kept) // 3]))


def compared(n_features: int, n_components: int | float | str = 0.95) -> list[Setting]:
    """The settings of the tables: those that `calibrate` compares, and the minimal game, which it leaves out."""
    plain = n_components, 1.0, 0.0
    minimal = [Setting(*plain, statistic, "minimal") for statistic in ("spe", "t2", "mahalanobis", "combined")]
    shrunk = Setting(n_features - 1, 1.0, _SHRINKAGE, "mahalanobis", "minimal")
    return [*settings(n_features, n_components), *minimal, shrunk]


def _one_set(name: str, part: Part, n_trials: int, progress: Progress) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of one data set, and Hits@1 by kind of fault and by number of faulty features."""
    chosen = compared(part.training.shape[1])
    trials = inject(part.held_out, part.training, n_trials=n_trials)
    judged = _with_progress(verdicts(chosen, part.training, trials), chosen, _half(progress, 0.0), name)
    entries = ranked(chosen, judged, trials.source)
    calibration = most_hits(part.training, plan=Plan(n_trials=n_trials, progress=_half(progress, 0.5, name)))
    result = {
        "name": name,
        "features": part.training.shape[1],
        "training": len(part.training),
        "held_out": len(part.held_out),
        "trials": len(trials),
        "calibrated": calibration.best.label,
        "promised": _rounded(next(entry.hits1 for entry in calibration.entries if entry.setting == calibration.best)),
        "entries": {entry.setting.label: _estimates(entry) for entry in entries},
    }
    return result, {s.label: _by_fault(v, trials) for s, v in zip(chosen, judged, strict=True)}


def _cars_protocol(data: str | os.PathLike[str] | None, n_trials: int, progress: Progress) -> dict[str, Any]:
    """Table I's own trials: one cell at its maximum or minimum over the test cars; Hits@1 and Hits@3."""
    train, test = split(load_cars04(data))
    chosen = compared(train.shape[1], N_COMPONENTS)
    found: dict[str, dict[str, list[float]]] = {setting.label: {} for setting in chosen}
    for extreme in EXTREMES:
        rows, changed = corrupt(test, extreme)
        trials = Trials(rows, culprits(changed, rows.shape[1]), np.arange(len(rows)), np.full(len(rows), extreme))
        for setting, verdict in zip(chosen, verdicts(chosen, train, trials), strict=True):
            found[setting.label][extreme] = _rounded((verdict.hits1.mean(), verdict.hits3.mean()))
    plan = Plan(kinds=("maximum", "minimum"), at_once=(1,), n_trials=n_trials, progress=_half(progress, 0.5, "cars"))
    calibration = most_hits(train, N_COMPONENTS, plan)
    return {"calibrated": calibration.best.label, "entries": found}


def other_models(
    data: str | os.PathLike[str] | None,
    names: Sequence[str],
    n_trials: int,
    progress: Progress = silent,
    *,
    lines: Sequence[str] = tuple(MODELS),
) -> list[dict[str, Any]]:
    """The same faults, blamed by other models of normal rows: Shapley values of a detector with its defaults."""
    parts = {name: load(name, data) for name in names}
    small = {name: part for name, part in parts.items() if part.training.shape[1] <= MOST_FEATURES_OF_MODELS}
    result, done = [], 0
    for name, part in small.items():
        trials = inject(part.held_out, part.training, n_trials=n_trials)
        estimate, entries, fitted = Estimator(trials.source), {}, dict[str, PCADetector]()
        for line in lines:
            model, statistic = MODELS[line]
            if model not in fitted:
                fitted[model] = _detector(model, part.training)
            verdict = judge(blame(Setting("auto", 1.0, 0.0, statistic), fitted[model], trials.rows), trials.culprits)
            entries[line] = dict(zip(Verdict._fields, (_rounded(estimate(cells)) for cells in verdict), strict=True))
            done += 1
            progress(done / len(small) / len(lines), f"{name}: {line}")
        n_modes = max(detector.fitted.model.n_modes for detector in fitted.values())
        result.append({"name": name, "features": part.training.shape[1], "modes": n_modes, "entries": entries})
    return result


def _detector(model: ModelName, training: Floats) -> PCADetector:
    # Nothing is flagged here, so a formula will do. Scores of several modes are in units of limits, so these take theirs.
    with without_warnings(FitWarning):
        return PCADetector(model=model, limit="auto" if model == "mixture" else "formula").fit(training)


def _with_progress(
    judged: Iterator[Verdict], chosen: Sequence[Setting], progress: Progress, name: str
) -> list[Verdict]:
    result = []
    for k, verdict in enumerate(judged):
        result.append(verdict)
        progress((k + 1) / len(chosen), f"{name}: {chosen[k].label}")
    return result


def _by_fault(verdict: Verdict, trials: Trials) -> dict[str, float]:
    """Mean Hits@1 by kind of fault and by number of faulty features."""
    count = trials.culprits.sum(axis=1)
    parts = {kind: trials.kind == kind for kind in FAULT_KINDS} | {str(k): count == k for k in SIMULTANEOUS_FAULTS}
    return {part: float(verdict.hits1[where].mean()) for part, where in parts.items() if where.any()}


def _mean_breakdown(per_set: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Means over data sets, of the settings that all of them have."""
    common = [label for label in per_set[0] if all(label in part for part in per_set)]
    return {
        label: {
            fault: _rounded([np.mean([part[label][fault] for part in per_set if fault in part[label]])])[0]
            for fault in (*FAULT_KINDS, *map(str, SIMULTANEOUS_FAULTS))
        }
        for label in common
    }


def _estimates(entry: Entry) -> dict[str, list[float]]:
    return {"hits1": _rounded(entry.hits1), "hits3": _rounded(entry.hits3), "rank": _rounded(entry.rank)}


def _rounded(values: Any) -> list[float]:
    return [round(float(value), _DIGITS) for value in values]


def _half(progress: Progress, start: float, name: str = "") -> Progress:
    """Progress of one half of the work."""
    prefix = f"{name}, calibrating: " if name else ""
    return lambda share, doing: progress(start + share / 2, prefix + doing)


def _share_of(progress: Progress, done: int, parts: int) -> Progress:
    return lambda share, doing: progress((done + share) / parts, doing)
