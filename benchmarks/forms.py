"""Compiled forms where they are hard to come by: latent scores and collinear columns, and rows with missing cells."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from culpa import Explainer, LatentGaussian, PCADetector


def processor_time(run: Callable[[], Any], repeat: int = 3) -> float:
    """Shortest processor time of several runs: other people's work on the machine does not count."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def collinear(d: int, p: int, ratio: float) -> LatentGaussian:
    """A model with two copies and two sums among its columns, and noise of that share of the largest eigenvalue."""
    W = np.random.default_rng(6).normal(size=(d, p))
    W[3], W[4], W[5], W[6] = W[0], W[1], W[0] + W[1], W[1] + W[2]
    return LatentGaussian(np.zeros(d), W / np.linalg.norm(W, 2), ratio)


def compiled_t2(quick: bool) -> list[dict[str, Any]]:
    """How far compiled values are from those of the exact engine, and what rows cost either way."""
    lines = []
    d, p, n = (10, 4, 200) if quick else (16, 6, 1000)
    for score in ("t2", "combined", "spe", "mahalanobis"):
        for ratio in (1e-3, 1e-6, 1e-9, 1e-12):
            gaussian = collinear(d, p, ratio)
            rows = gaussian.sample(n, 7)
            rows[::2] += 3.0 * (np.random.default_rng(8).random(rows[::2].shape) < 0.1)
            walked, compiled = Explainer(gaussian, score=score), Explainer(gaussian, score=score)
            walked.explain(rows[:50])  # so that the kernel is there
            walk = processor_time(lambda e=walked, x=rows[:50]: e.explain(x), 1) / 50
            compiled.compile()
            expected, found = walked.explain(rows[:50]).values, compiled.explain(rows[:50]).values
            size = np.abs(expected).max(axis=1) + compiled.game.base_value / d
            lines.append(
                {
                    "score": score,
                    "noise": ratio,
                    "compiled": str(compiled.forms is not None),
                    "largest difference": float((np.abs(found - expected).max(axis=1) / size).max()),
                    "us a row, not compiled": 1e6 * walk,
                    "us a row, compiled": 1e6 * processor_time(lambda e=compiled, x=rows: e.explain(x)) / n,
                }
            )
    return lines


def missing_patterns(quick: bool) -> list[dict[str, Any]]:
    """Tables with missing cells and tables of complete rows, in turns, explained in whole by a compiled detector."""
    lines = []
    for d, p, n, calls in ((11, 4, 100_000, 6), (16, 6, 100_000, 12), (40, 2, 3_000, 6), (40, 8, 3_000, 6)):
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(2000 + n, p)) @ rng.normal(size=(p, d)) + 0.5 * rng.normal(size=(2000 + n, d))
        detector = PCADetector(n_components=p).fit(rows[:2000])
        new = rows[2000 : 2000 + (n // 10 if quick else n)]
        detector.fitted.explainer().compile()
        # so that kernels are there
        method = "exact" if d < 20 else "permutation"
        warm_up = new[: 4000 if d < 16 else 200].copy()
        if method == "permutation":
            warm_up[1::2, 1] = np.nan
        Explainer(detector, method=method, n_orders=3072).explain(warm_up, parts="values")
        for share in (0.02,) if quick else (0.02, 0.05):
            holed = np.where(rng.random(new.shape) < share, np.nan, new)
            holed[:, 0] = new[:, 0]  # no row is empty
            complete, missing = [], []
            for _ in range(calls):  # patterns that occur often are compiled from call to call
                complete.append(processor_time(lambda det=detector, x=new: det.explain(x), 1))
                missing.append(processor_time(lambda det=detector, x=holed: det.explain(x), 1))
            usual, later = float(np.median(complete)), float(np.median(missing[-3:]))
            lines.append(
                {
                    "d": d,
                    "method": detector.fitted.explainer().chosen.split(" in ")[0],
                    "rows": len(new),
                    "missing cells": share,
                    "rows with missing cells": float(np.isnan(holed).any(axis=1).mean()),
                    "patterns": len(np.unique(np.isnan(holed), axis=0)),
                    "us a row, complete": 1e6 * usual / len(new),
                    "us a row, missing cells": 1e6 * missing[0] / len(new),
                    "later": 1e6 * later / len(new),
                    "ratio": missing[0] / usual,
                    "ratio later": later / usual,
                }
            )
    return lines
