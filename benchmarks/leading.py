"""How many orders ``tolerance="top3"`` takes, row by row: ``python -m benchmarks --only leading``."""

import warnings
from typing import Any

import numpy as np

from benchmarks.problems import Problem
from culpa import shapley
from culpa._core.types import Floats
from culpa.shapley import Shares
from culpa.shapley.leading import certain_ranks, until_certain
from culpa.shapley.plan import nets_until_certain
from culpa.shapley.rules import N_NETS


def leading(problem: Problem, k: int) -> dict[str, Any]:
    """Orders per row, rows that stay uncertain, and how often the first k of the others are those of the reference."""
    rows, nets = problem.some_rows, nets_until_certain(problem.d, None)
    looks: list[tuple[int, int]] = []  # rows and orders of each sample

    def sample(some: Floats, net: int) -> Shares:
        looks.append((len(some), N_NETS << net))
        return shapley.permutation(problem.game, some, problem.players, shapley.default_rule(problem.d, net, 0))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        shares = until_certain(sample, rows, k, nets)
    first, wanted = (np.argsort(-values, axis=1)[:, :k] for values in (shares.values, problem.reference))
    certain = certain_ranks(shares.values, shares.std_error, shares.n_replicates - 1, k) == k
    return {
        "problem": problem.name,
        "k": k,
        "rows": len(rows),
        "orders of the median row": max(orders for n, orders in looks if 2 * n >= len(rows)),
        "mean orders": sum(n * orders for n, orders in looks) / len(rows),
        "not certain": int((~certain).sum()),
        "right where certain": float((first == wanted).all(axis=1)[certain].mean()),
    }
