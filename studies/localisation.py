"""Which criterion finds the features at fault in twelve data sets with injected faults?

The data sets are the cars as in Table I, the simulated plant without its own faults, and the normal rows of the ten ODDS
sets (shuffled, at most 3,000, two thirds to train). Everything is chosen and fitted on training rows. Faults are injected
into the other rows.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from culpa._core.choices import FAULT_KINDS, MODEL_NAMES, ModelName, ScoreName
from culpa._core.types import Floats
from culpa.calibration.evaluation import (
    MOST_RETRAINED,
    Estimator,
    Setting,
    Verdict,
    judge,
    settings,
)
from culpa.calibration.injection import Trials, inject
from culpa.calibration.plan import Plan
from culpa.datasets import ODDS_NAMES, load_cars04, load_odds, make_plant
from culpa.detecting.detector import PCADetector
from culpa.paper.cars import EXTREMES, N_COMPONENTS, corrupt, culprits, split
from culpa.paper.pages import number, table
from culpa.paper.published import Progress, silent
from studies.by_hits import Entry, blame, most_hits, ranked, verdicts

NAMES = ("cars", "plant", *ODDS_NAMES)
SIMULTANEOUS_FAULTS = (1, 2, 3)
_MOST_ROWS = 3_000  # normal rows of an ODDS set
_SHRINKAGE = 0.01  # of the minimal game with a shrunk model
MOST_FEATURES_OF_MODELS = 21  # of data sets on which other models are compared, so that it takes minutes
# model of normal rows and statistic of each line of the table that compares models; a mixture has modes
MODELS: dict[str, tuple[str, ScoreName]] = {
    **{name: (name, "mahalanobis") for name in (*MODEL_NAMES, "mixture")},
    "mixture, nll": ("mixture", "nll"),
}
_DIGITS = 4  # few enough that rounding errors of the machine do not show
_WITHIN = 0.03  # of the best criterion, where a calibrated choice counts as good
_PAPER = "spe, conditional Shapley"
# Lines of the tables that compare a few criteria: what people use, what the paper proposes, what does well here.
_SHOWN = (
    "z-score",
    "spe, cdc",
    "spe, rbc",
    "spe, pdc",
    _PAPER,
    "spe, minimal Shapley",
    "combined, conditional Shapley",
    "mahalanobis, pdc; shrinkage 0.01",
    "mahalanobis, conditional Shapley; shrinkage 0.01",
    "mahalanobis, rbc; shrinkage 0.01",
    "fault-odds; shrinkage 0.01",
)
_LINES_OF_CARS = 12

Result = dict[str, Any]


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
        "about": "Written by 'python -m studies localisation'. Estimates are [value, low, high] of a 95% interval.",
        "trials": n_trials,
        "sets": sets,
        "breakdown": _mean_breakdown(broken_down),
        "cars": protocol,
        "models": models,
    }


def shown(found: Result) -> Result:
    """Tables, and what the text needs to know."""
    sets, cars, short = found["sets"], found["cars"]["entries"], gaps(found)
    odds = [name for name in short if name not in ("cars", "plant")]
    several = [part for part in found["models"] if part["modes"] > 1]
    return {
        "winner": _best_first(found)[0],
        "hits1": lambda label: _mean(sets, label)[0],
        "gaps": short,
        "within": _WITHIN,
        "n_close": sum(short[name] <= _WITHIN for name in odds),
        "n_odds": len(odds),
        "n_sets": "twelve" if len(sets) == 12 else len(sets),
        "kinds": FAULT_KINDS,
        "at_once": SIMULTANEOUS_FAULTS,
        "most_retrained": MOST_RETRAINED,
        "most_features": MOST_FEATURES_OF_MODELS,
        "overall": _overall(found),
        "sets": [_set_line(part, short[part["name"]]) for part in sets],
        "by_set": _by_set(found),
        "by_fault": _by_fault_table(found),
        "models": _models(found["models"]) if found["models"] else "",
        "several": several,
        "with_modes": lambda line: _mean(several, line)[0],
        "cars": cars,
        "cars_best": max(cars, key=lambda label: cars[label]["MAX"][0] + cars[label]["MIN"][0]),
        "cars_chosen": found["cars"]["calibrated"],
        # the choice for all kinds of faults: naming the expected faults pays off
        "mixed_choice": next((part["calibrated"] for part in sets if part["name"] == "cars"), None),
        "lines_of_cars": _LINES_OF_CARS,
        "cars_table": _cars_table(found),
    }


def gaps(found: Result) -> dict[str, float]:
    """Per data set, how far the Hits@1 of the calibrated choice fall short of the best criterion's."""
    return {part["name"]: round(_best(part)[1][0] - _calibrated(part)[0], 4) for part in found["sets"]}


def _overall(found: Result) -> str:
    """Means over data sets of every setting that all of them have, best first."""
    rows = []
    for label in _best_first(found):
        hits1, hits3, rank = (_mean(found["sets"], label, measure) for measure in ("hits1", "hits3", "rank"))
        hits = (f"{number(mean)} ± {number(half)}" for mean, half in (hits1, hits3))
        rows.append((label, *hits, f"{rank[0]:.2f} ± {rank[1]:.2f}"))
    strong = [k for k, row in enumerate(rows) if row[0] == _PAPER]
    return table(("criterion", "Hits@1", "Hits@3", "mean rank"), rows, strong)


def _set_line(part: Result, gap: float) -> list[str]:
    """Best criterion and calibrated choice of a data set."""
    label, best = _best(part)
    return [
        part["name"],
        str(part["features"]),
        f"{part['training']:,}",
        f"{part['trials']:,}",
        label,
        _interval(best),
        part["calibrated"],
        _interval(_calibrated(part)),
        number(gap),
    ]


def _by_set(found: Result) -> str:
    rows = [
        (label, *(number(part["entries"].get(label, {"hits1": [None]})["hits1"][0]) for part in found["sets"]))
        for label in (*_SHOWN, "spe, retraining Shapley")
    ]
    return table(("criterion", *(part["name"] for part in found["sets"])), rows)


def _by_fault_table(found: Result) -> str:
    faults = (*FAULT_KINDS, *map(str, SIMULTANEOUS_FAULTS))
    rows = [
        (label, *(number(found["breakdown"][label][fault]) for fault in faults))
        for label in _SHOWN
        if label in found["breakdown"]
    ]
    counts = (f"{k} feature{'s' * (k > 1)}" for k in SIMULTANEOUS_FAULTS)
    return table(("criterion", *FAULT_KINDS, *counts), rows)


def _models(sets: list[Result]) -> str:
    rows = []
    for line in MODELS:
        mean, half = _mean(sets, line)
        each = (number(part["entries"][line]["hits1"][0]) for part in sets)
        rows.append((line, f"{number(mean)} ± {number(half)}", *each))
    return table(("model", "mean", *(part["name"] for part in sets)), rows)


def _cars_table(found: Result) -> str:
    entries = found["cars"]["entries"]
    best = sorted(entries, key=lambda label: -entries[label]["MAX"][0] - entries[label]["MIN"][0])
    labels = best[:_LINES_OF_CARS] + [label for label in best[_LINES_OF_CARS:] if label in _SHOWN]
    rows = [(label, *(number(value) for extreme in EXTREMES for value in entries[label][extreme])) for label in labels]
    strong = [k for k, label in enumerate(labels) if label == found["cars"]["calibrated"]]
    return table(("criterion", "MAX @1", "@3", "MIN @1", "@3"), rows, strong)


def _best(part: Result) -> tuple[str, list[float]]:
    label = max(part["entries"], key=lambda label: part["entries"][label]["hits1"][0])
    return label, part["entries"][label]["hits1"]


def _calibrated(part: Result) -> list[float]:
    return part["entries"][part["calibrated"]]["hits1"]  # type: ignore[no-any-return]


def _best_first(found: Result) -> list[str]:
    """Criteria that all data sets have."""
    first, *others = (part["entries"] for part in found["sets"])
    common = [label for label in first if all(label in entries for entries in others)]
    return sorted(common, key=lambda label: -_mean(found["sets"], label)[0])


def _mean(sets: Sequence[Result], label: str, measure: str = "hits1") -> tuple[float, float]:
    """Mean over data sets, which are independent of each other, and half its 95% interval."""
    each = np.array([part["entries"][label][measure] for part in sets])
    return float(each[:, 0].mean()), float(np.sqrt((((each[:, 2] - each[:, 1]) / 2) ** 2).sum()) / len(each))


def _interval(estimate: list[float]) -> str:
    value, low, high = estimate
    return f"{number(value)} ({number(low)}-{number(high)})"


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


def _detector(model: str, training: Floats) -> PCADetector:
    # Nothing is flagged here, so a formula will do. Scores of several modes are in units of limits, so these take theirs.
    if model == "mixture":
        return PCADetector(modes="auto").fit(training)
    return PCADetector(model=cast(ModelName, model), limit="formula").fit(training)


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
