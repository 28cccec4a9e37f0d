"""Measures one version of culpa when it is told to: see `benchmarks.compare`.

Uses only names that all versions have, one thread, and processor time, because the kernels are what is compared and other
processes are not. Reads the name of a job from each line of standard input and writes seconds.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from culpa import Explainer, LatentGaussian, PCADetector, scores, shapley
from culpa.games import Conditional

TINY = 1e-9
AT_LEAST = 0.05  # seconds measured per turn, so that short jobs are repeated
EXACT = ((11, 8, 1), (11, 8, 100), (20, 12, 1), (20, 12, 100), (25, 12, 1))
SAMPLED = ((33, 9), (166, 31))


@cache
def problem(d: int, p: int, n: int, noise: float) -> tuple[Any, np.ndarray, list[list[int]]]:
    rng = np.random.default_rng(0)
    game = Conditional(scores.spe(LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), noise)))
    return game, rng.normal(size=(n, d)), [[i] for i in range(d)]


def groups(d: int, p: int, n: int) -> tuple[Any, np.ndarray, list[list[int]]]:
    game, X, _ = problem(d, p, n, 0.3)
    return game, X, [list(part) for part in np.array_split(np.arange(d), d // 3)]


@cache
def normal_rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(100_000, 5)) @ rng.normal(size=(5, 20)) + rng.normal(size=(100_000, 20))


@cache
def forms(d: int, p: int) -> Any:
    game, _, players = problem(d, p, 1, 0.3)
    return shapley.compile_exact(game, players)


@cache
def sampling(d: int, p: int) -> Explainer:
    model = LatentGaussian(np.zeros(d), np.random.default_rng(0).normal(size=(d, p)), 0.3)
    return Explainer(model, tolerance=0.01, n_jobs=1)


@cache
def compiled(n_groups: int = 0) -> Explainer:
    named = {f"g{k}": [int(i) for i in part] for k, part in enumerate(np.array_split(np.arange(21), n_groups or 1))}
    model = LatentGaussian(np.zeros(21), np.random.default_rng(0).normal(size=(21, 13)), 0.3)
    return Explainer(model, groups=named if n_groups else None, n_jobs=1).compile()


@cache
def holey() -> Explainer:
    return Explainer(LatentGaussian(np.zeros(12), np.random.default_rng(0).normal(size=(12, 5)), 0.3), n_jobs=1)


@cache
def with_holes() -> np.ndarray:
    """Rows of which a third lack one of twelve pairs of cells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 12))
    for row in range(0, len(X), 3):
        X[row, [row % 12, (row + 5) % 12]] = np.nan
    return X


def jobs() -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for noise, kind in ((0.3, "elimination"), (TINY, "factored")):
        for d, p, n in EXACT:
            found[f"exact d={d} rows={n} {kind}"] = lambda key=(d, p, n, noise): shapley.exact(*problem(*key), n_jobs=1)
    found["exact d=54 in 18 groups rows=1"] = lambda: shapley.exact(*groups(54, 12, 1), n_jobs=1)
    for d, p in SAMPLED:
        for n in (1, 100):
            found[f"sampled d={d} rows={n}"] = lambda key=(d, p), n=n: sampling(*key).shares(problem(*key, n, 0.3)[1])
    found["forms exact d=14"] = lambda: shapley.compile_exact(*problem(14, 8, 1, 0.3)[::2], n_jobs=1)
    for d, p in ((11, 8), (21, 13)):
        found[f"forms of 100,000 rows d={d}"] = lambda key=(d, p): forms(*key)(problem(*key, 100_000, 0.3)[1], n_jobs=1)
    explainer = Explainer(LatentGaussian(np.zeros(11), np.random.default_rng(0).normal(size=(11, 8)), 0.3))
    row = np.ones((1, 11))
    found["explain one row d=11"] = lambda: explainer.explain(row)
    found["explain 100,000 rows d=21, compiled"] = lambda: compiled().explain(problem(21, 13, 100_000, 0.3)[1])
    found["explain one row d=21, compiled"] = lambda: compiled().explain(np.ones((1, 21)))
    found["explain 20,000 rows d=21 in 7 groups, compiled"] = lambda: compiled(7).explain(
        problem(21, 13, 20_000, 0.3)[1]
    )
    found["explain 2,000 rows d=12 with holes"] = lambda: holey().explain(with_holes())
    found["fit 100,000 x 20"] = lambda: PCADetector().fit(normal_rows())  # with whatever limit is the default
    return found


def measure(job: Callable[[], Any]) -> float:
    best, spent = float("inf"), 0.0
    while spent < AT_LEAST:
        start = time.process_time()
        job()
        seconds = time.process_time() - start
        best, spent = min(best, seconds), spent + seconds
    return best


def main() -> None:
    for kernel in [thing for thing in gc.get_objects() if type(thing).__name__ == "Kernel"]:
        kernel.worth = 0.0  # always the compiled walk
    todo = jobs()
    ready: set[str] = set()
    for line in sys.stdin:
        name = line.strip()
        if name == "jobs":
            print(json.dumps(list(todo)), flush=True)
            continue
        if name not in ready:
            todo[name]()  # compiles or reads kernels
            ready.add(name)
        print(json.dumps(measure(todo[name])), flush=True)


if __name__ == "__main__":
    main()
