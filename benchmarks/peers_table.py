"""Seconds per row and error: culpa beside its peers."""

from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.problems import Problem
from benchmarks.timing import best_of, once
from culpa import Explainer


def compare(problem: Problem, quick: bool) -> list[dict[str, Any]]:
    """One line per tool, with the ratio of its time per row to ours."""
    lines = [_ours(problem, 1), _ours(problem, 100), _ours(problem, 100, compiled=True)]
    if problem.d <= 33:
        lines.append(_ours(problem, 100_000, compiled=True))
    for name, explain, rows in _others(problem, quick):
        explain(problem.some_rows[0]) if problem.d <= 11 else None
        seconds, values = once(
            lambda explain=explain, rows=rows: np.array([explain(x) for x in problem.some_rows[:rows]])
        )
        lines.append({"tool": name, "rows": rows, "seconds per row": seconds / rows, "error": problem.error(values)})
    ours = lines[1]["seconds per row"]
    for line in lines:
        line["times slower than culpa, 100 rows, walked"] = line["seconds per row"] / ours
    return [{"problem": problem.name, "d": problem.d, "p": problem.p} | line for line in lines]


def _ours(problem: Problem, n: int, compiled: bool = False) -> dict[str, Any]:
    """The whole of `explain`, warm: values, errors, expected values and scores; by forms found before, or without."""
    explainer = Explainer(problem.explainer.model, **{} if compiled else {"memory_bytes": 0.0})
    if compiled:
        explainer.compile()
    repeats = -(-n // len(problem.rows))
    rows = problem.explainer.model.to_user_units(np.tile(problem.rows, (repeats, 1))[:n])
    seconds = best_of(lambda: explainer.explain(rows), 3, 0.3)
    user_rows = problem.explainer.model.to_user_units(problem.some_rows)
    error = problem.error(explainer.explain(user_rows).values)
    name = f"culpa, {explainer.chosen.split(':')[0]}, {'compiled' if compiled else 'walked'}"
    return {"tool": name, "rows": n, "seconds per row": seconds / n, "error": error}


def _others(problem: Problem, quick: bool) -> list[tuple[str, peers.Explain, int]]:
    d = problem.d
    budget = min(2**d, 2048) if d <= 11 else 10_000
    few = 1 if d > 11 else 3
    n_orders = 1000 if d <= 33 else 100  # a thousand would take minutes a row
    others = [(f"Algorithm 1, Q={n_orders}", peers.algorithm1(problem, n_orders), 1)] if d <= 33 or not quick else []
    others += [(f"shapiq Gaussian imputer, {budget}", peers.shapiq_gaussian(problem, budget), few)] if d <= 33 else []
    if d <= 11 or (d <= 21 and not quick):
        others.append(("shapiq exact, closed form", peers.shapiq_exact(problem), few))
    if 11 < d <= 33:
        for kind in ("KernelSHAP, paired", "kADD-SHAP 2", "SVARM"):
            others.append((f"shapiq {kind}, 16000", peers.shapiq_approximator(problem, kind, 16_000), few))
    others.append(("shap (independence assumed)", peers.shap_permutation(problem), few))
    return others
