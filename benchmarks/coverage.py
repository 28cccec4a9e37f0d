"""How often intervals of sampled values contain the exact value: ``python -m benchmarks --only coverage``.

Many random models are explained with a tolerance of 2%, and their intervals are compared with values from 32 times as many
coalitions. The errors of these are about a sixth of those that are judged.

Players of random models are much alike. `MIXED` has models in which they differ: some matter much, others little or not at
all, some join only after others, and some are groups of many features. Their intervals are judged kind by kind.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, stats

from culpa import Explainer, Explanation, LatentGaussian
from culpa._core.types import Floats
from culpa.shapley import Players

FEATURES, COMPONENTS = (26, 50, 100, 200), (2, 5, 12, 30)
LEVELS = (0.95, 0.99)
TOLERANCE, MORE = 0.02, 32  # how many times more coalitions the truth takes


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


def _explained(model: LatentGaussian, rows: Floats, case: Mixed | None, seed: int, **how: Any) -> Explanation:
    groups, upstream = None, None
    if case is not None:
        groups = {f"g{k}": player for k, player in enumerate(case.players) if len(player) > 1} or None
        upstream = list(case.chains) or None
    explainer = Explainer(model, "spe", method="permutation", groups=groups, upstream=upstream, seed=seed, **how)
    return explainer.explain(rows)


def errors_in_standard_errors(
    models: Callable[[int], tuple[LatentGaussian, Floats]], case: Mixed | None, n_models: int, n_seeds: int
) -> tuple[Floats, int]:
    """Errors in standard errors, (rows, players), NaN where values are exact; and the degrees of freedom."""
    found, freedom = [], 0
    for seed in range(n_models):
        model, rows = models(seed)
        truth = None
        for rule_seed in range(n_seeds):
            why = _explained(model, rows, case, rule_seed, tolerance=TOLERANCE)
            if truth is None:
                truth = _explained(model, rows, case, 10**6, n_orders=MORE * why.n_evaluations).values
            known = why.std_error < 1e-9 * np.abs(truth).max()  # exact in both, but for rounding
            found.append(np.where(known, np.nan, (why.values - truth) / np.where(known, 1.0, why.std_error)))
            freedom = why.n_replicates - 1
    return np.concatenate(found), freedom


def coverage(quick: bool) -> list[dict[str, Any]]:
    """One line per number of features and of components, and per kind of player where these differ."""
    lines, size = [], {"n_models": 4 if quick else 12, "n_seeds": 2 if quick else 4}
    for d, p in product(FEATURES, COMPONENTS):
        if p < d:
            errors, freedom = errors_in_standard_errors(partial(model_and_rows, d, p), None, **size)
            lines.append({"features": d, "components": p} | _line(errors, freedom))
    for name, case in MIXED.items():
        errors, freedom = errors_in_standard_errors(partial(_in_clusters, case.clusters), case, **size)
        for kind in dict.fromkeys(case.kinds):
            some = errors[:, np.array(case.kinds) == kind]
            if not np.isnan(some).all():
                lines.append({"features": f"{name}: {kind}"} | _line(some, freedom))
    return lines


def _line(errors: Floats, freedom: int) -> dict[str, Any]:
    errors = errors[~np.isnan(errors)]
    line: dict[str, Any] = {"values": len(errors)}
    for level in LEVELS:
        line[f"{level:.0%}"] = float(np.mean(np.abs(errors) <= stats.t.ppf((1 + level) / 2, freedom)))
    return line | {"standard deviation": float(errors.std()), "beyond 3": float(np.mean(np.abs(errors) > 3))}
