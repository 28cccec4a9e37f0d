"""Wide tables: fits of few rows, the sampling rule, closed forms, and many rows of hundreds of features."""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import peak_memory
from culpa import PCADetector


def wide_tables(quick: bool = False) -> list[dict[str, Any]]:
    """Seconds by the clock and of processor time, and the most memory in units of the table, for each step."""
    warnings.simplefilter("ignore")
    return [*_fits(quick), *_explanations(quick), *_many_rows(quick)]


def rows_of(n: int, d: int) -> Any:
    """Ten factors and noise."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 10)) @ rng.normal(size=(10, d)) + rng.normal(size=(n, d))


def _fits(quick: bool) -> list[dict[str, Any]]:
    from sklearn.decomposition import PCA

    lines = []
    for n, d in ((200, 2_000), (200, 6_000), *(() if quick else ((200, 20_000),))):
        X = rows_of(n, d)
        lines.append(_line(f"fit, {n:,} x {d:,}", partial(PCADetector().fit, X), X))
        lines.append(_line(f"PCA of scikit-learn, {n:,} x {d:,}", partial(PCA().fit, X), X))
    return lines


def _explanations(quick: bool) -> list[dict[str, Any]]:
    lines = []
    for d in (1_000, *(() if quick else (2_000, 5_000))):
        row = rows_of(200, d)[:1]
        detector = PCADetector().fit(rows_of(200, d))
        lines += [
            _line(f"chosen, {d:,} features", partial(getattr, detector.explainer(), "chosen")),
            _line(f"one row, {d:,} features", partial(detector.explain, row)),
            _line(f"one row, interventional, {d:,} features", partial(detector.explain, row, game="interventional")),
        ]
    return lines


def _many_rows(quick: bool) -> list[dict[str, Any]]:
    n = 1_000 if quick else 10_000
    X = rows_of(2_000, 500)
    detector = PCADetector(10, statistic="mahalanobis").fit(X)
    detector.explain(X[:1])
    new = np.tile(X, (n // len(X) + 1, 1))[:n]
    return [_line(f"{n:,} rows, 500 features", lambda: detector.explain(new), new)]


def _line(what: str, run: Callable[[], Any], table: Any = None) -> dict[str, Any]:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    measured = table is not None and table.nbytes < 1e7  # tracing allocations of more would take too long
    copies = peak_memory(run) / table.nbytes if measured else float("nan")
    return {"what": what, "seconds": wall, "processor, s": processor, "memory, tables": copies}
