"""Processor seconds for a given precision, by two rules side by side: ``python -m benchmarks --only precision``."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problems import Problem
from culpa import shapley
from culpa.shapley.rules import N_NETS

ROWS = 100
GOALS = {0.01: 8, 0.001: 10}  # and log2 of the orders per net from which they are extrapolated
N_SEEDS = 4
RULES = {
    "default": shapley.default_rule.__wrapped__,  # made anew each time, as in a new process
    "independent": lambda d, net, seed: shapley.independent_rule(d, N_NETS << net, seed),
}


def precision(problem: Problem, goal: float) -> dict[str, Any]:
    """Orders and seconds of one core after which the median relative error of 100 rows is below the goal.

    Errors are the spread between seeds, so no reference is needed that is more precise than they are. They fall at least
    with the square root of the number of orders, by which they are extrapolated. The rules take turns, and the shortest
    time of each counts.
    """
    rows = problem.rows[np.linspace(0, len(problem.rows) - 1, ROWS).astype(int)]
    values: dict[str, list[np.ndarray]] = {name: [] for name in RULES}
    making, walking = ({name: float("inf") for name in RULES} for _ in range(2))
    for seed in range(N_SEEDS):
        for name, make in RULES.items():
            seconds, rule = _processor_time(lambda make=make, seed=seed: make(problem.d, GOALS[goal], seed))
            making[name] = min(making[name], seconds)
            seconds, shares = _processor_time(
                lambda rule=rule: shapley.permutation(problem.game, rows, problem.players, rule, n_jobs=1)
            )
            walking[name] = min(walking[name], seconds)
            values[name].append(shares.values)
    line: dict[str, Any] = {"problem": problem.name, "d": problem.d, "rows": ROWS, "goal": goal}
    times = {name: (_spread(np.array(values[name])) / goal) ** 2 for name in RULES}  # as many orders as were measured
    for name in RULES:
        line |= {
            f"{name}, orders": (N_NETS << GOALS[goal]) * times[name],
            f"{name}, seconds": walking[name] * times[name],
        }
    line["times sooner"] = line["independent, seconds"] / line["default, seconds"]
    return line | {"seconds to make the default rule": making["default"] * times["default"]}


def _spread(values: np.ndarray) -> float:
    """Median over rows of the relative standard deviation between seeds, (seeds, n, players)."""
    deviation = np.sqrt(values.var(axis=0, ddof=1).sum(axis=1))
    return float(np.median(deviation / np.linalg.norm(values.mean(axis=0), axis=1)))


def _processor_time(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = run()
    return time.process_time() - start, result
