"""How many coalitions ``tolerance="top3"`` takes, row by row: ``python -m benchmarks --only leading``."""

import warnings
from typing import Any

import numpy as np

from benchmarks.problems import Problem
from culpa import Explainer


def leading(problem: Problem, k: int) -> dict[str, Any]:
    """Coalitions per row, rows that stay uncertain, and how often the first k of the others are those of the reference."""
    explainer = Explainer(problem.detector, method="permutation", tolerance=f"top{k}")
    model = problem.detector.fitted.deciding_model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        each = [explainer.explain((row * model.scale + model.centre)[None]) for row in problem.some_rows]
    values = np.concatenate([why.values for why in each])
    first, wanted = (np.argsort(-found, axis=1)[:, :k] for found in (values, problem.reference))
    certain = np.array([why.certain_ranks(k)[0] == k for why in each])
    coalitions = [why.n_evaluations for why in each]
    return {
        "problem": problem.name,
        "k": k,
        "rows": len(each),
        "coalitions of the median row": float(np.median(coalitions)),
        "mean coalitions": float(np.mean(coalitions)),
        "not certain": int((~certain).sum()),
        "right where certain": float((first == wanted).all(axis=1)[certain].mean()),
    }
