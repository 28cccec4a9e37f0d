"""What the checked limit costs: `fit` with its defaults beside a fit with a limit by formula, in turns."""

from typing import Any

import numpy as np

from benchmarks.timing import once
from culpa import PCADetector

_REPEAT = 3


def fit_times(quick: bool = False) -> list[dict[str, Any]]:
    """Both ways of fitting, alternately; the shortest time of each."""
    sizes = ((10_000, 20), (1_000_000, 20)) if not quick else ((10_000, 20), (100_000, 20))
    return [_line(n, d) for n, d in (*sizes, (1_000, 100))]


def _line(n: int, d: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) @ rng.normal(size=(5, d)) + rng.normal(size=(n, d))
    default, formula = [], []
    for _ in range(_REPEAT):
        default.append(once(lambda: PCADetector().fit(X))[0])
        formula.append(once(lambda: PCADetector(0.95, statistic="spe", limit="formula").fit(X))[0])
    return {
        "rows": n,
        "features": d,
        "default, s": min(default),
        "formula, s": min(formula),
        "ratio": min(default) / min(formula),
    }
