"""The engine against the machine: rates, growth, first use, a busy machine, and kernel regression."""

import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import product
from typing import Any

import numpy as np

from benchmarks.problems import Problem
from benchmarks.timing import best_of, once, peak_memory, product_rate
from culpa import LatentGaussian, scores, shapley
from culpa._kernels.contributions import CONTRIBUTIONS
from culpa._kernels.elimination_steps import ELIMINATION
from culpa._kernels.factored_steps import FACTORED
from culpa.games import Conditional

TINY = 1e-9  # noise against which elimination would lose digits


def synthetic(d: int, p: int, n: int, noise: float = 0.3) -> tuple[Conditional, np.ndarray, list[list[int]]]:
    rng = np.random.default_rng(0)
    game = Conditional(scores.spe(LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), noise)))
    return game, rng.normal(size=(n, d)), [[i] for i in range(d)]


def warm_up() -> None:
    """Have the kernels ready: what they cost the first time is measured by `first_use`."""
    for kernel in (ELIMINATION.kernel, FACTORED.kernel, CONTRIBUTIONS):
        kernel.worth = 0.0


def exact_walks(quick: bool) -> list[dict[str, Any]]:
    """Exact values: seconds, and operations as counted for a p-dimensional walk, as a share of the product rate."""
    lines = []
    sizes = ((11, 8, 100), (20, 12, 1), (20, 12, 100), (25, 12, 1), (28, 16, 1), (30, 12, 1))
    for (d, p, n), noise in product(sizes, (0.3, TINY)):
        if quick and d > 25:
            continue
        game, X, players = synthetic(d, p, n, noise)
        rate = product_rate()
        seconds = best_of(lambda g=game, x=X, pl=players: shapley.exact(g, x, pl), 1 if d >= 28 else 3, at_least=0.3)
        counted = 2.0**d * (3 * p**2 + 6 * p * n)
        line = {"d": d, "p": p, "rows": n, "noise": noise, "seconds": seconds}
        line |= {"share of product rate": counted / seconds / rate}
        lines.append(line | {"kilobytes": peak_memory(lambda g=game, x=X, pl=players: shapley.exact(g, x, pl)) / 1e3})
    return lines


def compiled_rows(quick: bool) -> list[dict[str, Any]]:
    """Compiled evaluation: time per row is constant, and a fair share of the product rate."""
    lines = []
    for d, p in ((11, 8), (21, 13)):
        game, X, players = synthetic(d, p, 100_000 if quick else 1_000_000)
        shapley.compile_exact(game, players)  # so that the kernel is there
        prepare, forms = once(lambda g=game, pl=players: shapley.compile_exact(g, pl))
        for n in (1_000, 10_000, 100_000, 1_000_000):
            if n > len(X):
                continue
            rate = product_rate()
            seconds = best_of(lambda f=forms, x=X[:n]: f(x), 7, at_least=0.3)
            share = d**2 * (d + 1) * n / seconds / rate
            line = {"d": d, "rows": n, "seconds to compile": prepare, "seconds": seconds}
            lines.append(line | {"microseconds per row": seconds / n * 1e6, "share of product rate": share})
    return lines


def how_few(problem: Problem, goal: float, quick: bool) -> dict[str, Any]:
    """Coalitions after which the median relative error of kernel regression is below ``goal``, and its seconds.

    Errors fall with the square root of the number of coalitions once the surrogate has as many pairs as it can take, so
    they are followed from there.
    """
    n_pairs, lines = 2_000 if quick else 8_000, []
    for seed in range(2 if quick else 4):
        preparing, rule = once(lambda s=seed: shapley.paired_rule(problem.d, n_pairs, s))
        seconds, shares = once(lambda r=rule: shapley.kernel(problem.game, problem.some_rows, problem.players, r))
        lines.append((problem.error(shares.values), preparing, seconds))
    error, preparing, seconds = np.median(lines, axis=0)
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(problem.d), (6, 64, 1)), axis=2)
    independent = shapley.OrderRule(orders)
    by_orders = problem.error(shapley.permutation(problem.game, problem.some_rows, problem.players, independent).values)
    ahead = independent.n_coalitions * (by_orders / error) ** 2 / rule.n_evaluations
    return {
        "problem": problem.name,
        "d": problem.d,
        "coalitions": rule.n_evaluations,
        "error": float(error),
        "seconds": float(seconds),
        "seconds to prepare the rule": float(preparing),
        "times fewer coalitions than independent orders": float(ahead),
        f"coalitions for {goal:.0%}": float(rule.n_evaluations * (error / goal) ** 2),
    }


FIRST_USE = """
import sys, time
import numpy as np
from culpa import PCADetector
d, p, n = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
X = rng.normal(size=(500, p)) @ rng.normal(size=(p, d)) + 0.3 * rng.normal(size=(500, d))
detector = PCADetector(p).fit(X)
start = time.perf_counter()
detector.explain(X[:n])
first = time.perf_counter() - start
start = time.perf_counter()
detector.explain(X[:n])
print(first, time.perf_counter() - start)
"""
FIRST_USE_SIZES = ((13, 8, 100), (25, 12, 10), (166, 31, 100))  # features, components, rows


def first_use() -> list[dict[str, Any]]:
    """The first explanation after installation, with nothing compiled yet; then in a new process; then in the same one."""
    lines = []
    for d, p, n in FIRST_USE_SIZES:
        with tempfile.TemporaryDirectory() as fresh:
            environment = os.environ | {"NUMBA_CACHE_DIR": fresh}
            runs = [
                subprocess.run(
                    [sys.executable, "-c", FIRST_USE, *map(str, (d, p, n))],
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout.split()
                for _ in range(2)
            ]
        times = {"first": float(runs[0][0]), "new process": float(runs[1][0]), "same process": float(runs[1][1])}
        lines.append({"d": d, "rows": n} | times)
    return lines


def busy_machine() -> list[dict[str, Any]]:
    """Slowdown with every core loaded by another process; half the machine is lost, so 2 is fair."""
    game, X, players = synthetic(21, 13, 100_000)
    forms = shapley.compile_exact(game, players)
    exact = synthetic(20, 12, 20)
    jobs = {
        "compiled, 100,000 rows at d=21": lambda: forms(X),
        "exact, 20 rows at d=20": lambda: shapley.exact(*exact),
    }
    idle = {name: best_of(job, 5) for name, job in jobs.items()}
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        time.sleep(1)
        busy = {name: float(np.median([once(job)[0] for _ in range(9)])) for name, job in jobs.items()}
    finally:
        for process in load:
            process.kill()
    return [{"job": name, "idle": idle[name], "busy": busy[name], "slowdown": busy[name] / idle[name]} for name in jobs]


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    import platform

    import numba
    import scipy
    import sklearn

    model = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    versions = {module.__name__: module.__version__ for module in (np, scipy, sklearn, numba)}
    return {"processor": model, "cores": os.cpu_count(), "python": platform.python_version()} | versions


def to_json(results: dict[str, Any]) -> str:
    return json.dumps(results, indent=1, default=float) + "\n"
