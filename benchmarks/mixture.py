"""Mixtures against one PPCA: exact and sampled values of the same rows, by modes, components and features."""

from typing import Any

import numpy as np

from benchmarks.timing import best_of
from culpa import LatentGaussian, LatentMixture, scores, shapley
from culpa.games import Conditional, ConditionalMixture

_SIZES = ((8, 4, 100), (12, 6, 100), (15, 8, 10), (18, 8, 1))
_SAMPLED = ((30, 8, 10), (60, 12, 10))


def modes_of(d: int, p: int, k: int) -> LatentMixture:
    """A mixture whose modes overlap."""
    rng = np.random.default_rng(0)
    modes = tuple(LatentGaussian(rng.normal(size=d), rng.normal(size=(d, p)), 0.3) for _ in range(k))
    return LatentMixture(np.full(k, 1 / k), modes)


def mixture_walks(quick: bool) -> list[dict[str, Any]]:
    """Seconds of mixtures, and how many times as long they take as one PPCA with as many components."""
    lines = []
    for d, p, n in _SIZES[:2] if quick else _SIZES:
        X, players = np.random.default_rng(1).normal(size=(n, d)), [[i] for i in range(d)]
        one = Conditional(scores.spe(modes_of(d, p, 1).modes[0]))
        alone = best_of(lambda g=one, x=X, pl=players: shapley.exact(g, x, pl), 3)
        for k in (1, 2, 3, 6):
            game = ConditionalMixture(scores.MixtureScore.weighted("spe", modes_of(d, p, k), scores.spe))
            seconds = best_of(lambda g=game, x=X, pl=players: shapley.exact(g, x, pl), 2)
            lines.append(_line("exact", d, p, k, n, seconds, alone))
    for d, p, n in () if quick else _SAMPLED:
        X, players = np.random.default_rng(1).normal(size=(n, d)), [[i] for i in range(d)]
        rule = shapley.order_rule(d, 6, 0)
        one = Conditional(scores.spe(modes_of(d, p, 1).modes[0]))
        alone = best_of(lambda g=one, x=X, pl=players, r=rule: shapley.permutation(g, x, pl, r), 3)
        for k in (1, 3):
            game = ConditionalMixture(scores.MixtureScore.weighted("spe", modes_of(d, p, k), scores.spe))
            seconds = best_of(lambda g=game, x=X, pl=players, r=rule: shapley.permutation(g, x, pl, r), 2)
            lines.append(_line(f"{rule.n_coalitions // d} orders", d, p, k, n, seconds, alone))
    return lines


def _line(how: str, d: int, p: int, k: int, n: int, seconds: float, alone: float) -> dict[str, Any]:
    return {"values": how, "d": d, "p": p, "modes": k, "rows": n, "seconds": seconds, "times one PPCA": seconds / alone}
