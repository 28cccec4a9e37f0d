"""How many false alarms does each kind of limit raise on simulated and real normal rows? What does trimming change?

In simulated rows, 12 features follow 3 hidden states. Real rows are the normal rows of the ODDS data sets, split at random:
two thirds to fit (of which the conformal limit holds out its share) and one third to count alarms.
"""

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa import scores
from culpa._core.types import Floats
from culpa.datasets import ODDS_NAMES, load_odds, make_plant
from culpa.detecting.detector import PCADetector
from culpa.paper.pages import percent, table
from culpa.paper.published import Progress, silent
from culpa.scores.by_name import named_score
from culpa.scores.limits import Limits, beta_limit, f_limit

Draw = Callable[[int], tuple[Floats, Floats]]  # training rows and new normal rows, by seed

CONFIDENCES = (0.95, 0.99)
# kinds of limit by score; conformal limits hold out rows, so they need a separate model
KINDS = {
    "spe": ("jackson-mudholkar", "box", "empirical", "conformal"),
    "t2": ("f", "empirical", "conformal"),
    "combined": ("box", "empirical", "conformal"),
}
_MOST_ROWS = 6000  # of a real data set, drawn again in every run
_HELD_OUT = 0.2
_D, _P = 12, 3
_NEW = 2000


def run(
    data: str | os.PathLike[str] | None = None, *, n_seeds: int = 20, progress: Progress = silent
) -> dict[str, Any]:
    """Measure; simulated rows are drawn ``5 n_seeds`` times, real rows are split ``n_seeds`` times."""
    jobs = [*_simulated(5 * n_seeds), *_real(data, n_seeds)]
    sources = []
    for k, (name, real, draw, components, n_runs) in enumerate(jobs):
        progress(k / (len(jobs) + 2), name)
        sources.append(_measure(name, real, draw, components, n_runs))
    progress(1 - 2 / (len(jobs) + 2), "training rows")
    training = [line for n in (20, 50, 200) for line in _training(n, 50 * n_seeds)]
    progress(1 - 1 / (len(jobs) + 2), "dirty training rows")
    trimmed = [_trimmed(dirty, trim, n_seeds) for dirty in (0.0, 0.02, 0.05, 0.1) for trim in (0.0, 0.05, 0.1)]
    progress(1.0, "done")
    return _rounded({"sources": sources, "training": training, "trimmed": trimmed})  # type: ignore[no-any-return]


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """Tables, and a function that looks up the false alarms of one limit."""
    real = [source["name"] for source in found["sources"] if source["real"]]
    by_formula, conformal = (
        [rate for name in real if (rate := alarms(found, name, "spe", kind, 0.99)) is not None]
        for kind in ("jackson-mudholkar", "conformal")
    )
    return {
        "alarms": lambda name, kind, score="spe": percent(alarms(found, name, score, kind, 0.99)),
        "n_real": len(real),
        "by_formula": _from_to(by_formula),
        "conformal": _from_to(conformal),
        "n_conformal": len(conformal),
        "clean": {line["trim"]: line for line in found["trimmed"] if not line["dirty"]},
        "rates": lambda score: _rates(found, score),
        "training": [
            (f"{line['n_fit']}", f"{line['confidence']:.0%}", percent(line["f"]), percent(line["beta"]))
            for line in found["training"]
        ],
        "trimmed": [_trimmed_line(line) for line in found["trimmed"]],
    }


def alarms(found: dict[str, Any], name: str, score: str, kind: str, confidence: float) -> float | None:
    """The share of false alarms of one limit on one kind of rows."""
    rates = next(source["rates"] for source in found["sources"] if source["name"] == name)
    wanted = {"score": score, "kind": kind, "confidence": confidence}
    return next(rate["alarms"] for rate in rates if wanted.items() <= rate.items())  # type: ignore[no-any-return]


def _from_to(shares: list[float]) -> str:
    return f"{percent(min(shares, default=None))} to {percent(max(shares, default=None))}"


def _rates(found: dict[str, Any], score: str) -> str:
    rows = []
    for source in found["sources"]:
        rates = [
            " / ".join(percent(alarms(found, source["name"], score, kind, confidence)) for confidence in CONFIDENCES)
            for kind in KINDS[score]
        ]
        rows.append((source["name"], f"{source['n_fit']:,} x {source['n_features']}", *rates))
    return table(("normal rows", "training rows x features", *KINDS[score]), rows)


def _trimmed_line(line: dict[str, Any]) -> list[str]:
    return [
        f"{line['dirty']:.0%}",
        f"{line['trim']:.2f}",
        percent(line["found"], 0),
        percent(line["alarms"]),
        f"{line['detected']:.0%}",
        f"{line['limit']:.2f}",
    ]


def _rounded(value: Any) -> Any:
    """Numbers rounded to significant digits, so that another machine writes the same file."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _simulated(n_runs: int) -> Iterator[tuple[str, bool, Draw, int | float, int]]:
    def gaussian(n: int) -> Draw:
        return lambda seed: _split(_rows(n + _NEW, seed), n)

    def heavy(seed: int) -> tuple[Floats, Floats]:
        rng = np.random.default_rng([seed, 1])
        X = _rows(1000 + _NEW, seed)
        return _split(X / np.sqrt(rng.chisquare(4, size=(len(X), 1)) / 4), 1000)

    def plant(seed: int) -> tuple[Floats, Floats]:
        simulated = make_plant(1000, _NEW, faults=(), seed=seed)
        return simulated.normal, simulated.new

    yield "Gaussian, 100 rows", False, gaussian(100), _P, n_runs
    yield "Gaussian, 1000 rows", False, gaussian(1000), _P, n_runs
    yield "Gaussian, one component too few", False, gaussian(1000), _P - 1, n_runs
    yield "simulated plant, states with memory", False, plant, _P, n_runs
    yield "heavy tails (t, 4 degrees of freedom)", False, heavy, _P, n_runs


def _real(data: str | os.PathLike[str] | None, n_runs: int) -> Iterator[tuple[str, bool, Draw, int | float, int]]:
    for name in ODDS_NAMES:
        dataset = load_odds(name, data)
        normal = dataset.X[dataset.y == 0]

        def draw(seed: int, normal: Floats = normal) -> tuple[Floats, Floats]:
            order = np.random.default_rng(seed).permutation(len(normal))[:_MOST_ROWS]
            return _split(normal[order], len(order) * 2 // 3)

        yield name, True, draw, 0.95, n_runs


def _rows(n: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(42).normal(size=(_P, _D))
    return np.asarray(rng.normal(size=(n, _P)) @ W + 0.4 * rng.normal(size=(n, _D)))


def _split(X: Floats, n: int) -> tuple[Floats, Floats]:
    return X[:n], X[n:]


def _measure(name: str, real: bool, draw: Draw, components: int | float, n_runs: int) -> dict[str, Any]:
    """Rates of false alarms of one kind of rows; ``None`` if there are too few rows for a limit."""
    alarms: dict[tuple[str, str, float], list[float]] = {}
    for seed in range(n_runs):
        fitted, new = draw(seed)
        n_learn = len(fitted) - math.ceil(_HELD_OUT * len(fitted))
        for learn, calibrate in ((fitted, fitted), (fitted[:n_learn], fitted[n_learn:])):
            for at, share in _alarms(learn, calibrate, new, components):
                alarms.setdefault(at, []).append(share)
    rates = [
        {
            "score": score,
            "kind": kind,
            "confidence": confidence,
            "alarms": float(np.mean(alarms[at])) if (at := (score, kind, confidence)) in alarms else None,
        }
        for score, kinds in KINDS.items()
        for kind in kinds
        for confidence in CONFIDENCES
    ]
    n, d = fitted.shape
    return {"name": name, "real": real, "n_fit": n, "n_features": d, "n_runs": n_runs, "rates": rates}


def _alarms(
    learn: Floats, calibrate: Floats, new: Floats, components: int | float
) -> Iterator[tuple[tuple[str, str, float], float]]:
    """Share of new rows above each limit with enough rows; only conformal limits use held-out rows."""
    normal = _detector(components).fit(learn).fitted.deciding_model
    charted = [named_score(name, normal) for name in KINDS]
    tails = Limits.tails_of(charted, [normal.standardise(calibrate)])
    for score in charted:
        values = score(normal.standardise(new))
        for kind in KINDS[score.name]:
            limits = Limits(normal, kind, tails)
            for confidence in CONFIDENCES if (kind == "conformal") == (calibrate is not learn) else ():
                if limits.knows(score, confidence):
                    yield (score.name, kind, confidence), float((values > limits(score, confidence)).mean())


def _training(n: int, n_runs: int) -> list[dict[str, Any]]:
    """T2 of the training rows themselves: share above the limit for new rows (F) and for training rows (Beta)."""
    above = np.zeros((len(CONFIDENCES), 2))
    for seed in range(n_runs):
        X = _rows(n, seed)
        detector = _detector(_P).fit(X)
        normal = detector.fitted.deciding_model
        t2 = scores.t2(normal.gaussian)(normal.standardise(X))
        for k, confidence in enumerate(CONFIDENCES):
            above[k] += [(t2 > formula(_P, n, confidence)).mean() for formula in (f_limit, beta_limit)]
    return [
        {"n_fit": n, "confidence": confidence, "f": float(f), "beta": float(beta)}
        for confidence, (f, beta) in zip(CONFIDENCES, above / n_runs, strict=True)
    ]


def _trimmed(dirty: float, trim: float, n_runs: int) -> dict[str, Any]:
    """A detector fitted to rows of which a share ``dirty`` has one feature off by 6 standard deviations.

    ``found`` is the share of these rows that the list of abnormal training rows contains. ``alarms`` is the share of false
    alarms on clean new rows. ``detected`` is the share of alarms on new rows with one feature off by 3 standard deviations.
    ``limit`` is the limit of SPE, relative to that of a detector fitted to the clean rows.
    """
    new = _rows(10 * _NEW, 10**6)
    faulty = _corrupted(new[:_NEW], np.arange(_NEW), 3.0, 10**6)
    found, sums = [], np.zeros(3)
    for seed in range(n_runs):
        clean = _rows(500, seed)
        at = np.random.default_rng([seed, 2]).choice(500, int(dirty * 500), replace=False)
        detector = _detector(_P, trim).fit(_corrupted(clean, at, 6.0, seed))
        flagged = [(detector.predict(rows) == -1).mean() for rows in (new, faulty)]
        sums += [*flagged, _limit_in_feature_units(detector) / _limit_in_feature_units(_detector(_P).fit(clean))]
        if len(at):
            found.append(np.isin(at, detector.abnormal_training_rows_["position"]).mean())
    alarms, detected, limit = (sums / n_runs).tolist()
    return {
        "dirty": dirty,
        "trim": trim,
        "alarms": alarms,
        "detected": detected,
        "found": float(np.mean(found)) if found else None,
        "limit": limit,
    }


def _detector(components: int | float, trim: float = 0.0) -> PCADetector:
    """A detector by SPE and its formula: limits from held-out rows are measured in `studies.false_alarms`."""
    return PCADetector(components, statistic="spe", limit="formula", trim=trim)


def _limit_in_feature_units(detector: PCADetector) -> float:
    """The limit without the detector's scale, so that detectors can be compared: all features vary alike."""
    return float(detector.limit_ * (detector.scale_**2).mean())


def _corrupted(X: Floats, at: NDArray[np.int64], size: float, seed: int) -> Floats:
    """Rows with one of the first three features off by ``size`` standard deviations."""
    rng = np.random.default_rng([seed, 3])
    X = X.copy()
    which = rng.integers(3, size=len(at))
    X[at, which] += size * X.std(axis=0)[which]
    return X
