"""How precise sampled values of rows with missing cells are: ``python -m benchmarks --only 'missing errors'``.

Rows with missing cells are explained in two ways: as `explain` does it, from the filled-in row and few coalitions, and by
all orders of the features that are present. Errors of both are compared with the truth: exact values of 24 features, and
values from 16 times as many orders beyond. Intervals of the first are checked, too.
"""

from typing import Any

import numpy as np
from scipy import stats

from benchmarks.coverage import LEVELS, model_and_rows
from culpa import Explainer, LatentGaussian, scores, shapley
from culpa._core.types import Floats
from culpa.games import Conditional
from culpa.shapley.plan import net_for_orders

CASES = ((24, 4, 192), (33, 9, 768), (40, 2, 384), (40, 8, 1536), (60, 15, 1536), (100, 12, 1536))
MOST_MISSING = 8
EXACT_FEATURES = 24
MORE = 4  # log2 of how many times more orders the truth takes


def compare(model: LatentGaussian, rows: Floats, n_orders: int, seed: int) -> tuple[Floats, Floats, Floats, int]:
    """Errors as `explain` has them and by all orders, relative to the values of a row; errors in standard errors."""
    game, present = Conditional(scores.spe(model)), np.flatnonzero(~np.isnan(rows[0]))
    players, filled, net = [[i] for i in present], game.filled_in(rows), net_for_orders(n_orders)
    if rows.shape[1] <= EXACT_FEATURES:
        truth = shapley.exact(game, filled, players).values
    else:
        truth = shapley.permutation(game, filled, players, shapley.default_rule(len(players), net + MORE, 10**6)).values
    by_all = shapley.permutation(game, filled, players, shapley.default_rule(len(players), net, seed)).values
    why = Explainer(model, score="spe", method="permutation", n_orders=n_orders, seed=seed).explain(rows)
    size = np.linalg.norm(truth, axis=1)
    errors = why.values[:, present] - truth
    return (
        np.linalg.norm(errors, axis=1) / size,
        np.linalg.norm(by_all - truth, axis=1) / size,
        (errors / why.std_error[:, present]).ravel(),
        why.n_replicates - 1,
    )


def missing_errors(quick: bool) -> list[dict[str, Any]]:
    """One line per kind of model and number of missing cells."""
    lines = []
    for d, p, n_orders in CASES[:3] if quick else CASES:
        for n_missing in (1, 2, 3, 5, MOST_MISSING):
            found = []
            for seed in range(4 if quick else 16):
                model, rows = model_and_rows(d, p, seed)
                rng = np.random.default_rng([seed, n_missing])
                rows[:, rng.choice(d, n_missing, replace=False)] = np.nan
                found.append(compare(model, rows, n_orders, seed))
            ours, by_all, in_errors = (np.concatenate([part[i] for part in found]) for i in range(3))
            line = {"features": d, "components": p, "orders": n_orders, "missing": n_missing}
            line |= {"error": float(np.median(ours)), "by all orders": float(np.median(by_all))}
            line["ratio"] = float(np.exp(np.median(np.log(ours / by_all))))
            for level in LEVELS:
                inside = np.abs(in_errors) <= stats.t.ppf((1 + level) / 2, found[0][3])
                line[f"{level:.0%}"] = float(inside.mean())
            lines.append(line)
    return lines
