"""How often intervals of sampled values contain the exact value: ``python -m benchmarks --only coverage``.

Many random models are explained by the default rule, with as few orders as ``tolerance`` ever uses for so many features,
and their intervals are compared with the truth: exact values of 26 features, and values from 32 times as many orders
beyond. The errors of these are a sixth of those that are judged.
"""

from itertools import product
from typing import Any

import numpy as np
from scipy import stats

from culpa import LatentGaussian, scores, shapley
from culpa._core.types import Floats
from culpa.games import Conditional
from culpa.shapley.rules import smallest_regression_net

FEATURES, COMPONENTS = (26, 50, 100, 200), (2, 5, 12, 30)
EXACT_FEATURES = 26
LEVELS = (0.95, 0.99)
MORE = 5  # log2 of how many times more orders the truth takes


def model_and_rows(d: int, p: int, seed: int) -> tuple[LatentGaussian, Floats]:
    """A random model, and four rows: without outliers, and with about one, a tenth and a fifth of outliers.

    Components of every other model differ much in strength, and its noise may be small.
    """
    rng = np.random.default_rng([d, p, seed])
    strength = 2 * np.sqrt(rng.gamma(1.0, size=p)) if seed % 2 else np.ones(p)
    noise = 10 ** rng.uniform(-1.5, 0.3) if seed % 2 else 0.05 + rng.random()
    model = LatentGaussian(np.zeros(d), rng.normal(size=(d, p)) * strength, noise)
    shares = np.array([0.0, 1 / d, 0.1, 0.2])[:, None]
    outliers = 3 * np.sqrt(np.diag(model.covariance)) * rng.normal(size=(4, d)) * (rng.random((4, d)) < shares)
    return model, model.sample(4, rng) + outliers


def errors_in_standard_errors(d: int, p: int, n_models: int, n_seeds: int) -> tuple[Floats, int]:
    """Errors of sampled values, each divided by its standard error, and the degrees of freedom of these."""
    players, net = [[i] for i in range(d)], max(5, smallest_regression_net(d))
    found, freedom = [], 0
    for seed in range(n_models):
        model, rows = model_and_rows(d, p, seed)
        game = Conditional(scores.spe(model))
        if d <= EXACT_FEATURES:
            truth = shapley.exact(game, rows, players).values
        else:
            truth = shapley.permutation(game, rows, players, shapley.default_rule(d, net + MORE, 10**6)).values
        for rule_seed in range(n_seeds):
            sampled = shapley.permutation(game, rows, players, shapley.default_rule(d, net, rule_seed))
            found.append(((sampled.values - truth) / sampled.std_error).ravel())
            freedom = sampled.n_replicates - 1
    return np.concatenate(found), freedom


def coverage(quick: bool) -> list[dict[str, Any]]:
    """One line per number of features and of components."""
    lines = []
    for d, p in product(FEATURES, COMPONENTS):
        if p >= d:
            continue
        errors, freedom = errors_in_standard_errors(d, p, n_models=4 if quick else 12, n_seeds=2 if quick else 4)
        line = {"features": d, "components": p, "values": len(errors)}
        for level in LEVELS:
            line[f"{level:.0%}"] = float(np.mean(np.abs(errors) <= stats.t.ppf((1 + level) / 2, freedom)))
        line |= {"standard deviation": float(errors.std()), "beyond 3": float(np.mean(np.abs(errors) > 3))}
        lines.append(line)
    return lines
