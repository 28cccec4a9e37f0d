"""How many false alarms does the default detector raise, beside formula limits? And what does it detect?

Real normal rows are cut into five folds, consecutive and shuffled; each fold is judged by the detector of the others.
A rate holds if it is between 0.3 and 2 times what was asked, or inside the 95% binomial interval around it.
"""

import math
import os
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from culpa._core.types import Floats, Mask
from culpa.datasets import ODDS_NAMES, load_cars04, load_odds
from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.paper.pages import table
from culpa.paper.published import Progress, silent
from culpa.scores import Score
from culpa.scores.following import Follower
from studies.culprits import MACHINES
from studies.recorded import load_tennessee_eastman, read_machine

CONFIDENCES = (0.99, 0.95)
_FOLDS = 5
_LOWEST, _HIGHEST = 0.3, 2.0  # of the asked rate
_NEW = 2000  # simulated rows to judge
KINDS = ("independent", "Gaussian", "t4", "lognormal", "low rank")
SIZES = ((30, 10), (60, 10), (60, 100), (100, 50), (300, 20), (300, 500))
_FAULT_ROWS = slice(160, None)
DETECTORS = ("spe", "t2", "mahalanobis", "default")
_GAP = 10  # rows at most from one flagged row of a stretch to the next
_FOLLOWED = (0.3, 2.0)  # percent of normal rows flagged at 99% that are what was asked for
LIMITS = ("fixed", "follows")
ALIKE, LENGTHS = (0.0, 0.5, 0.9, 0.98), (100, 200, 500, 1000)  # of autoregressive rows

# false alarms of one set of rows at one confidence: rows judged, flagged by default, flagged by the formula
Line = dict[str, Any]


def holds(k: int, n: int, asked: float) -> bool:
    """Whether k alarms among n normal rows are as many as were asked for.

    >>> holds(10, 1000, 0.01), holds(0, 100, 0.01), holds(50, 1000, 0.01)
    (True, True, False)
    """
    low, high = stats.binom.ppf([0.025, 0.975], n, asked)
    return bool(_LOWEST <= k / n / asked <= _HIGHEST or low <= k <= high)


def run(
    data: str | os.PathLike[str] | None = None, *, n_seeds: int = 20, progress: Progress = silent
) -> dict[str, Any]:
    """Measure; simulated rows are drawn ``5 n_seeds`` times, the largest ones less often."""
    real, sets = [], list(_real_sets(data))
    for k, (name, rows) in enumerate(sets):
        progress(0.5 * k / len(sets), name)
        real += real_alarms(name, rows)
    progress(0.5, "Tennessee Eastman")
    tep = load_tennessee_eastman(data)
    real += _alarms("Tennessee Eastman", "another run", [(tep.normal, tep.normal_later)])
    simulated = []
    for k, (kind, size) in enumerate((kind, size) for kind in KINDS for size in SIZES):
        progress(0.55 + 0.45 * k / (len(KINDS) * len(SIZES)), f"{kind}, {size[0]} x {size[1]}")
        n_runs = max(2, 5 * n_seeds // (20 if size[0] * size[1] > 10_000 else 1))
        simulated += _alarms(f"{kind}, {size[0]} x {size[1]}", "simulated", _simulated(kind, *size, n_runs))
    progress(0.97, "stated rates")
    stated = {"machines": machines(data), "autoregressive": list(_autoregressive(n_seeds))}
    detection = [_detection(tep.normal, tep.normal_later, name, rows) for name, rows in tep.faults.items()]
    progress(1.0, "done")
    return {
        "real": real,
        "simulated": simulated,
        "detection": detection,
        "stated": stated,
        "in_order": in_order(data),
    }


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """Tables, and how many rates hold."""
    columns = [
        column for level in CONFIDENCES for column in (f"{level:.0%}: default, %", "formula, %", "default in tolerance")
    ]
    real, simulated = [], []
    for (name, folds), lines in _grouped(found["real"]).items():
        real.append((name, folds, f"{lines[0]['n']:,} x {lines[0]['n_features']}", *_cells(lines)))
    for (name, _), lines in _grouped(found["simulated"]).items():
        simulated.append((*name.rsplit(", ", 1), f"{lines[0]['n']:,}", *_cells(lines)))
    detection = [(line["fault"], *(f"{100 * line[name]:.1f}" for name in DETECTORS)) for line in found["detection"]]
    means = (100 * np.mean([line[name] for line in found["detection"]]) for name in DETECTORS)
    detection.append(("mean", *(f"{mean:.1f}" for mean in means)))
    return {
        "n_real": sum(map(in_tolerance, found["real"])),
        "n_simulated": sum(map(in_tolerance, found["simulated"])),
        "real": table(("rows", "folds", "judged", *columns), real),
        "simulated": table(("rows", "fitted to", "judged", *columns), simulated),
        "detection": detection,
        **_stated_shown(found["stated"]),
        **_in_order_shown(found),
    }


def in_tolerance(line: Line) -> bool:
    """Whether the default's rate is what was asked, up to chance and a factor."""
    return holds(line["flagged"], line["n"], 1 - line["confidence"])


def machines(data: str | os.PathLike[str] | None) -> list[Line]:
    """What the default states of each recorded machine, and how many of its later normal rows exceed the limit."""
    tep = load_tennessee_eastman(data)
    lines = [_stated("Tennessee Eastman", tep.normal, tep.normal_later)]
    for folder, names in MACHINES.items():
        for name in names:
            machine = read_machine(folder, name, data)
            faulty = np.zeros(len(machine.new), dtype=np.bool_)
            for start, stop in zip(machine.start, machine.stop, strict=True):
                faulty[start:stop] = True
            lines.append(_stated(f"{folder}, {name}", machine.normal, machine.new[~faulty]))
    return lines


def _stated(name: str, training: Floats, new: Floats) -> Line:
    detector = PCADetector().fit(training)
    rate, found = detector.false_alarm_rate_, detector.fitted.stated
    return {
        "name": name,
        "n": len(training),
        "stated": None if rate is None else list(rate),
        "held_out": None if found is None else found.held_out.value,
        "realised": float((detector.predict(new) == -1).mean()),
    }


def _autoregressive(n_seeds: int, d: int = 10) -> Iterator[Line]:
    """Rows whose columns have the correlation phi with themselves one row later; new rows have the same distribution."""
    for phi, n in product(ALIKE, LENGTHS):
        lines = []
        for seed in range(n_seeds):
            rng = np.random.default_rng([seed, n, int(100 * phi)])
            X, mix = rng.normal(size=(n, d)), rng.normal(size=(d, d))
            for t in range(1, n):
                X[t] = phi * X[t - 1] + np.sqrt(1 - phi**2) * X[t]
            lines.append(_stated("", X @ mix, rng.normal(size=(2 * _NEW, d)) @ mix))
        promised = [line for line in lines if line["stated"] is not None]
        yield {
            "phi": phi,
            "n": n,
            "fits": n_seeds,
            "promised": len(promised),
            "covered": sum(map(covers, promised)),
            "high": float(np.median([line["stated"][2] for line in promised])) if promised else None,
            "realised": float(np.median([line["realised"] for line in lines])),
        }


def covers(line: Line) -> bool:
    """Whether the stated interval contains the realised rate."""
    return line["stated"] is not None and bool(line["stated"][1] <= line["realised"] <= line["stated"][2])


def _stated_shown(found: dict[str, list[Line]]) -> dict[str, Any]:
    percent = "{:.2f}".format
    rows = []
    for line in found["machines"]:
        value, low, high = (percent(100 * share) for share in line["stated"] or (math.nan,) * 3)
        told = (value, f"{low} to {high}") if line["stated"] else ("nothing", "")
        held_out, realised = percent(100 * line["held_out"]), percent(100 * line["realised"])
        rows.append((line["name"], f"{line['n']:,}", held_out, *told, realised, "yes" if covers(line) else "**no**"))
    simulated = [
        (
            f"{line['phi']:g}",
            f"{line['n']:,}",
            f"{line['promised']} of {line['fits']}",
            f"{line['covered']} of {line['promised']}" if line["promised"] else "",
            percent(100 * line["high"]) if line["promised"] else "",
            percent(100 * line["realised"]),
        )
        for line in found["autoregressive"]
    ]
    return {
        "n_covered": sum(map(covers, found["machines"])),
        "machines": table(
            ("rows", "fitted to", "held out, %", "stated, %", "interval, %", "realised, %", "inside"), rows
        ),
        "autoregressive": table(
            ("correlation", "rows", "fits that promise", "intervals that cover", "median upper end, %", "realised, %"),
            simulated,
        ),
    }


def in_order(data: str | os.PathLike[str] | None = None) -> list[Line]:
    """Rows of each recorded machine in order of time, by the fixed limit and by the limit that follows."""
    tep = load_tennessee_eastman(data)
    fitted = PCADetector().fit(tep.normal).fitted
    normal, whole = np.zeros(len(tep.normal_later), dtype=np.bool_), _by_limit(fitted, tep.normal_later)
    faults = [_by_limit(fitted, rows) for rows in tep.faults.values()]
    lines = [{"name": "Tennessee Eastman", "n": len(normal), "events": len(faults)}]
    for name in LIMITS:
        found = sum(bool(fault[name][_FAULT_ROWS].any()) for fault in faults)
        lines[0][name] = {**_flagged_normal(whole[name], normal), "found": found}
    for folder, names in MACHINES.items():
        for name in names:
            machine = read_machine(folder, name, data)
            events, faulty = (
                list(zip(machine.start, machine.stop, strict=True)),
                np.zeros(len(machine.new), dtype=np.bool_),
            )
            for start, stop in events:
                faulty[start:stop] = True
            line = {"name": f"{folder}, {name}", "n": int((~faulty).sum()), "events": len(events)}
            for limit, flagged in _by_limit(PCADetector().fit(machine.normal).fitted, machine.new).items():
                found = sum(bool(flagged[start:stop].any()) for start, stop in events)
                line[limit] = {**_flagged_normal(flagged, faulty), "found": found}
            lines.append(line)
    return lines


PARTS = {"in_order": in_order}  # that can be measured alone


def _by_limit(fitted: FittedDetector, rows: Floats) -> dict[str, Mask]:
    assert fitted.views is not None
    return {
        "fixed": fitted.is_flagged(fitted.score(rows)),
        "follows": Follower(fitted.views).add(np.asarray(rows, dtype=np.float64)).flagged,
    }


def _flagged_normal(flagged: Mask, faulty: Mask) -> dict[str, int]:
    """Flagged rows that are normal, and stretches of flagged rows in which no row is faulty.

    >>> flagged = np.isin(np.arange(100), [3, 5, 50, 90])
    >>> _flagged_normal(flagged, np.arange(100) == 50)
    {'flagged': 3, 'stretches': 2}
    """
    at = np.flatnonzero(flagged)
    stretches = np.split(at, np.flatnonzero(np.diff(at) > _GAP) + 1) if len(at) else []
    normal = sum(not faulty[stretch[0] : stretch[-1] + 1].any() for stretch in stretches)
    return {"flagged": int((flagged & ~faulty).sum()), "stretches": normal}


def realised(line: Line, limit: str) -> float:
    """Percentage of the normal rows that a limit flags."""
    return float(100 * line[limit]["flagged"] / line["n"])


def _in_order_shown(found: dict[str, Any]) -> dict[str, Any]:
    lines = found["in_order"]
    servers = {f"all of {folder}": [line for line in lines if line["name"].startswith(folder)] for folder in MACHINES}
    sums = [{"name": name, **_summed(each)} for name, each in servers.items()]
    rows = [
        (
            line["name"],
            *(f"{realised(line, limit):.2f}" for limit in LIMITS),
            *(f"{line[limit]['found']} of {line['events']}" for limit in LIMITS),
            *(f"{1000 * line[limit]['stretches'] / line['n']:.1f}" for limit in LIMITS),
        )
        for line in [*lines, *sums]
    ]
    low, high = _FOLLOWED
    machines = lines[1:]
    stated = {line["name"]: line for line in found["stated"]["machines"]}
    return {
        "in_order": table(
            (
                "rows",
                *("normal rows flagged, %: fixed limit", "limit that follows"),
                *("events found: fixed", "follows"),
                *("stretches per 1,000 normal rows: fixed", "follows"),
            ),
            rows,
        ),
        "n_machines": len(machines),
        "n_as_asked": {limit: sum(low <= realised(line, limit) <= high for line in machines) for limit in LIMITS},
        "ranges": {limit: _range([realised(line, limit) for line in machines]) for limit in LIMITS},
        "n_covered_following": sum(
            covers({**stated[line["name"]], "realised": realised(line, "follows") / 100}) for line in lines
        ),
    }


def _range(percentages: list[float]) -> str:
    return f"{min(percentages):.2f} to {max(percentages):.2f}%"


def _summed(lines: list[Line]) -> Line:
    return {
        "n": sum(line["n"] for line in lines),
        "events": sum(line["events"] for line in lines),
        **{limit: {key: sum(line[limit][key] for line in lines) for key in lines[0][limit]} for limit in LIMITS},
    }


def _grouped(lines: list[Line]) -> dict[tuple[str, str], list[Line]]:
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["name"], line["folds"]), []).append(line)
    return groups


def _cells(lines: list[Line]) -> list[str]:
    """Default, formula and verdict for every confidence."""
    return [
        cell
        for line in lines
        for cell in (
            f"{100 * (line['flagged'] / line['n']):.2f}",
            f"{100 * (line['by_formula'] / line['n']):.2f}",
            "yes" if in_tolerance(line) else "**no**",
        )
    ]


def real_alarms(name: str, rows: Floats) -> list[Line]:
    """Five folds of normal rows, consecutive and shuffled."""
    shuffled = rows[np.random.default_rng(0).permutation(len(rows))]
    return [
        *_alarms(name, "consecutive", _folds(rows)),
        *_alarms(name, "shuffled", _folds(shuffled)),
    ]


def _folds(rows: Floats) -> Iterator[tuple[Floats, Floats]]:
    for fold in np.array_split(np.arange(len(rows)), _FOLDS):
        yield np.delete(rows, fold, axis=0), rows[fold]


def _alarms(name: str, folds: str, pairs: Iterator[tuple[Floats, Floats]] | list[tuple[Floats, Floats]]) -> list[Line]:
    n, d, flagged = 0, 0, np.zeros((2, len(CONFIDENCES)), dtype=np.int64)
    for training, new in pairs:
        n, d = n + len(new), new.shape[1]
        flagged[0] += _flagged(PCADetector().fit(training).fitted, new)
        flagged[1] += _flagged(PCADetector(0.95, statistic="spe", limit="formula").fit(training).fitted, new)
    return [
        {
            "name": name,
            "folds": folds,
            "n_features": d,
            "confidence": confidence,
            "n": n,
            "flagged": int(flagged[0, k]),
            "by_formula": int(flagged[1, k]),
        }
        for k, confidence in enumerate(CONFIDENCES)
    ]


def _flagged(fitted: FittedDetector, new: Floats) -> list[int]:
    score = fitted.score(new)
    return [int((score > fitted.limits(fitted.statistic, confidence)).sum()) for confidence in CONFIDENCES]


def _real_sets(data: str | os.PathLike[str] | None) -> Iterator[tuple[str, Floats]]:
    for name in ODDS_NAMES:
        dataset = load_odds(name, data)
        yield name, dataset.X[dataset.y == 0]
    cars = load_cars04(data).X
    yield "cars", cars[~np.isnan(cars).any(axis=1)]
    yield "wine, all three sorts", load_wine().data
    breast = load_breast_cancer()
    yield "breast cancer, benign", breast.data[breast.target == 1]
    yield "diabetes", load_diabetes().data


def _simulated(kind: str, n: int, d: int, n_runs: int) -> Iterator[tuple[Floats, Floats]]:
    for seed in range(n_runs):
        X = simulate(kind, n + _NEW, d, seed)
        yield X[:n], X[n:]


def simulate(kind: str, n: int, d: int, seed: int) -> Floats:
    """Rows of one of `KINDS`: with d / 3 hidden states but for independent rows, and three of low rank."""
    rng = np.random.default_rng([seed, n, d, KINDS.index(kind)])
    if kind == "independent":
        return rng.normal(size=(n, d))
    p = 3 if kind == "low rank" else max(1, d // 3)
    W, noise = rng.normal(size=(p, d)), 0.1 if kind == "low rank" else 1.0
    X = rng.normal(size=(n, p)) @ W + noise * rng.normal(size=(n, d))
    if kind == "t4":
        return np.asarray(X / np.sqrt(rng.chisquare(4, size=(n, 1)) / 4))
    return np.exp(0.5 * X / np.sqrt(p)) if kind == "lognormal" else X


def _detection(normal: Floats, later: Floats, fault: str, rows: Floats) -> dict[str, Any]:
    """Share of faulty rows detected when the limit is set so that 1% of other normal rows exceed it."""
    classic = PCADetector(0.95, limit="formula").fit(normal).fitted
    default = PCADetector().fit(normal).fitted
    statistics = {name: (classic, classic.named(name)) for name in ("spe", "t2", "mahalanobis")}
    statistics["default"] = default, default.statistic
    return {"fault": fault, **{name: _detected(*each, later, rows) for name, each in statistics.items()}}


def _detected(fitted: FittedDetector, statistic: Score, later: Floats, rows: Floats) -> float:
    normal, faulty = (statistic(fitted.model.standardise(X)) for X in (later, rows[_FAULT_ROWS]))
    return float((faulty > np.sort(normal)[-1 - int(0.01 * len(normal))]).mean())
