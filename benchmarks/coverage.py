"""How often intervals of sampled values contain the exact value: ``python -m benchmarks --only coverage``.

Many random models are explained by the default rule, with as few orders as ``tolerance`` ever uses for so many features,
and their intervals are compared with the truth: exact values of 26 features, and values from 32 times as many orders
beyond. The errors of these are a sixth of those that are judged.

Players of random models are much alike. `MIXED` has models in which they differ: some matter much, others little or not at
all, some join only after others, and some are groups of many features. Their intervals are judged kind by kind.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, stats

from culpa import LatentGaussian, scores, shapley
from culpa._core.types import Floats
from culpa.games import Conditional
from culpa.shapley.extensions import extension_rule
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.rules import Rule, default_rule, smallest_regression_net
from culpa.shapley.shares import Players

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


def _in_clusters(sizes: Sequence[int], seed: int) -> tuple[LatentGaussian, Floats]:
    """A model of clusters of features, each with two components of its own, and rows in which one in ten is an outlier."""
    rng = np.random.default_rng([*sizes, seed])
    blocks = [rng.normal(size=(size, 2)) if size > 1 else np.zeros((size, 0)) for size in sizes]
    loadings = linalg.block_diag(*blocks)
    model = LatentGaussian(np.zeros(len(loadings)), loadings, 0.1 + rng.random())
    outliers = (
        3 * np.sqrt(model.variances) * rng.normal(size=(4, len(loadings))) * (rng.random((4, len(loadings))) < 0.1)
    )
    return model, model.sample(4, rng) + outliers


class Mixed(NamedTuple):
    """A model whose players differ: which features belong together, and which kind each player is of."""

    clusters: Sequence[int]  # sizes; a cluster of one is an independent feature
    players: Players
    kinds: Sequence[str]
    chains: Sequence[Sequence[int]] = ()  # players that join one after the other


def _singles(n: int) -> Players:
    return [[i] for i in range(n)]


MIXED = {
    "20 correlated, 130 independent": Mixed(
        [20] + [1] * 130, _singles(150), ["correlated"] * 20 + ["independent"] * 130
    ),
    "6 correlated, 24 independent": Mixed([6] + [1] * 24, _singles(30), ["correlated"] * 6 + ["independent"] * 24),
    "clusters of 16, 8 and 4, 12 independent": Mixed(
        [16, 8, 4] + [1] * 12, _singles(40), ["16"] * 16 + ["8"] * 8 + ["4"] * 4 + ["independent"] * 12
    ),
    "chains beside free features": Mixed([30], _singles(30), ["chain"] * 12 + ["free"] * 18, [range(6), range(6, 12)]),
    "groups of 12, 6 and 1": Mixed(
        [36],
        [list(range(12)), list(range(12, 18)), *([i] for i in range(18, 36))],
        ["group", "group"] + ["feature"] * 18,
    ),
}


def errors_of_kinds(case: Mixed, n_models: int, n_seeds: int) -> tuple[dict[str, Floats], int]:
    """Errors in standard errors of each kind of player, and the degrees of freedom of these."""
    n, found, freedom = len(case.players), [], 0
    order = PartialOrder.from_chains(case.chains, [f"x{i}" for i in range(n)]) if case.chains else None
    net = max(5, smallest_regression_net(n))

    def rule(log2_net: int, seed: int) -> Rule:
        return default_rule(n, log2_net, seed) if order is None else extension_rule(order, log2_net, seed)

    for seed in range(n_models):
        model, rows = _in_clusters(case.clusters, seed)
        game = Conditional(scores.spe(model))
        truth = shapley.permutation(game, rows, case.players, rule(net + MORE, 10**6)).values
        for rule_seed in range(n_seeds):
            sampled = shapley.permutation(game, rows, case.players, rule(net, rule_seed))
            found.append((sampled.values - truth) / sampled.std_error)
            freedom = sampled.n_replicates - 1
    errors, kinds = np.concatenate(found), np.array(case.kinds)
    return {kind: errors[:, kinds == kind].ravel() for kind in dict.fromkeys(case.kinds)}, freedom


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
    """One line per number of features and of components, and per kind of player where these differ."""
    lines, size = [], {"n_models": 4 if quick else 12, "n_seeds": 2 if quick else 4}
    for d, p in product(FEATURES, COMPONENTS):
        if p < d:
            errors, freedom = errors_in_standard_errors(d, p, **size)
            lines.append({"features": d, "components": p} | _line(errors, freedom))
    for name, case in MIXED.items():
        by_kind, freedom = errors_of_kinds(case, **size)
        lines += [{"features": f"{name}: {kind}"} | _line(errors, freedom) for kind, errors in by_kind.items()]
    return lines


def _line(errors: Floats, freedom: int) -> dict[str, Any]:
    line: dict[str, Any] = {"values": len(errors)}
    for level in LEVELS:
        line[f"{level:.0%}"] = float(np.mean(np.abs(errors) <= stats.t.ppf((1 + level) / 2, freedom)))
    return line | {"standard deviation": float(errors.std()), "beyond 3": float(np.mean(np.abs(errors) > 3))}
