"""Rows in order of time, judged by the limit that follows, beside the fixed limit and bare scores.

Seconds are those of the processor, so that other work on the machine does not matter.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from culpa import PCADetector
from culpa._core.types import Floats
from culpa.monitoring.judged import RowJudge

_BATCH = 1 << 14  # as jobs read rows
_TIMES = 5


def in_order(quick: bool) -> list[dict[str, Any]]:
    """Correlated rows, of which about 1% are flagged."""
    sizes = ((100_000, 20),) if quick else ((1_000_000, 20), (1_000_000, 5), (200_000, 100))
    return [_line(*size) for size in sizes]


def _line(n: int, d: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    hidden = max(d // 5, 1)
    X = rng.normal(size=(n, hidden)) @ rng.normal(size=(hidden, d)) + 0.5 * rng.normal(size=(n, d))
    detector = PCADetector().fit(X[:20_000])
    jobs: dict[str, Callable[[], Any]] = {
        "score_samples": lambda: detector.score_samples(X),
        "fixed limit": lambda: _judged(detector, X, follows=False),
        "limit that follows": lambda: _judged(detector, X, follows=True),
    }
    for job in jobs.values():
        job()
    runs = [{name: _seconds(job) for name, job in jobs.items()} for _ in range(_TIMES)]  # in turn
    seconds = {name: min(run[name] for run in runs) for name in jobs}
    times = {
        f"times {name}": seconds["limit that follows"] / seconds[name] for name in ("score_samples", "fixed limit")
    }
    flagged = _judged(detector, X, follows=True)
    return {
        "rows": f"{n:,} x {d}",
        **{f"{name}, s": value for name, value in seconds.items()},
        **times,
        "flagged": flagged,
    }


def _judged(detector: PCADetector, X: Floats, *, follows: bool) -> float:
    """Read and judge rows as `culpa incidents` does; the share that is flagged."""
    fitted = detector.fitted
    judge = RowJudge(fitted, follows=follows)
    batches = (X[start : start + _BATCH] for start in range(0, len(X), _BATCH))
    return sum(int(judge.judge(fitted.rows(rows)).flagged.sum()) for rows in batches) / len(X)


def _seconds(job: Callable[[], Any]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start
