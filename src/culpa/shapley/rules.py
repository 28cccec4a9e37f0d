"""Sampling rules: orders, and the weight of each step of each order for the player who joins.

A linear estimator of Shapley values is a set of coalitions and weights that depend neither on the model nor on the rows.
Here the coalitions are the prefixes of orders. A rule holds several replicates of the weights. Each replicate is an
estimate of its own, their mean is the result, and their spread gives its standard error.

The default rule reduces the variance in two ways:

- Orders come from Sobol nets, which distribute players evenly over positions. The nets are successive pieces of one
  scrambled sequence, so that they also complement each other.
- Control variates correct what the nets leave uneven. They are functions of the order (a player's position, and who comes
  before it) whose means and covariances over all orders are known. A player's marginal contributions are regressed on
  them, and the part that their imbalance explains is subtracted. The result is still a weighted sum of contributions.
  With hundreds of players, only the position is used. The orders needed are then fewer than the other players, so that
  controls for each of these would add more noise than they remove.

A net's replicate is the estimate from all nets, plus the net's mean of what the controls leave unexplained.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from scipy import linalg

from culpa._core import memory
from culpa._core.threads import in_own_thread, in_threads
from culpa._core.types import Floats
from culpa.shapley.controls import (
    MOST_CONTROLS,
    CompiledControls,
    Controls,
    Orders,
    compiling_pays,
    n_controls,
    position_curves,
)

N_NETS = 6
_ORDERS_PER_CONTROL = 2  # fewer, and estimating the controls' covariance adds more noise than it removes
_MOST_SOBOL = 21_201  # dimensions


@dataclass(frozen=True, eq=False)
class Rule:
    """Orders (Q, players) and weights (replicates, Q, players) of the step in which a player joins."""

    orders: Orders
    weights: Floats

    @property
    def n_replicates(self) -> int:
        """Independent estimates; with a single one the standard errors are unknown."""
        return len(self.weights)

    @property
    def n_evaluations(self) -> int:
        """Coalitions that are valued."""
        return int(self.orders.size)


def averaging_rule(nets: list[Orders]) -> Rule:
    """Each set of orders is a replicate: the plain mean over its orders."""
    orders = np.concatenate(nets)
    weights = np.zeros((len(nets), *orders.shape))
    ends = np.cumsum([len(net) for net in nets])
    for replicate, (end, net) in enumerate(zip(ends, nets, strict=True)):
        weights[replicate, end - len(net) : end] = 1 / len(net)
    return Rule(orders, weights)


def independent_rule(n_players: int, n_orders: int, seed: int, n_replicates: int = N_NETS) -> Rule:
    """Independent random orders: the textbook estimator, for comparison."""
    rng = np.random.default_rng(seed)
    each = np.tile(np.arange(n_players), (max(1, n_orders // n_replicates), 1))
    return averaging_rule([rng.permuted(each, axis=1) for _ in range(n_replicates)])


@lru_cache(maxsize=16)
def default_rule(n_players: int, log2_net: int, seed: int, n_nets: int = N_NETS) -> Rule:
    """Nets of 2^log2_net Sobol orders each, with what they leave uneven corrected; all orders of one or two players."""
    if n_players < 3:
        return averaging_rule([np.array(list(permutations(range(n_players))))] * n_nets)
    memory.claim_orders(n_nets << log2_net, n_players, n_nets)
    nets = sobol_nets(n_players, log2_net, np.random.default_rng(seed), n_nets)
    positions = np.argsort(np.concatenate(nets), axis=1).astype(np.int32)  # small numbers are compared faster
    orders, weights = np.concatenate(nets), np.empty((n_nets, *positions.shape))
    curves, compiled = position_curves(n_players), compiling_pays(n_players, len(positions), n_nets)
    places = np.ascontiguousarray(positions.T) if compiled else positions.T

    def correct(player: int) -> None:
        controls: Controls | CompiledControls
        if compiled:
            controls = CompiledControls(orders, places[player], player, curves, n_nets)
        else:
            controls = Controls(positions, player, curves)
        weights[:, :, player] = _corrected_weights(controls, len(orders), n_nets)

    in_threads(correct, range(n_players), -1)
    return Rule(orders, weights)


def smallest_regression_net(n_players: int) -> int:
    """log2 of the smallest net from which on the default rule is at its best."""
    return math.ceil(math.log2(_ORDERS_PER_CONTROL * n_controls(n_players) / (N_NETS - 1)))


def sobol_nets(n_players: int, log2_net: int, rng: np.random.Generator, n_nets: int = N_NETS) -> list[Orders]:
    """Nets of 2^log2_net orders each: pieces of one scrambled Sobol sequence.

    The error of their mean is up to 15% smaller than that of independently scrambled nets. If there are more players than
    Sobol has dimensions, orders are independent.
    """
    draw = points(n_players, rng)
    return [np.argsort(draw((1 << log2_net, n_players)), axis=1) for _ in range(n_nets)]


def points(n_dimensions: int, rng: np.random.Generator) -> Callable[[tuple[int, int]], Floats]:
    """Draws the next points of a scrambled Sobol sequence, given how many and their dimensions.

    Sobol has no more dimensions than `scipy.stats.qmc.Sobol.MAXDIM`. Beyond, points are independent.
    """
    if n_dimensions > _MOST_SOBOL:
        return rng.random
    sequence = in_own_thread(_sobol, n_dimensions, rng)  # SciPy would go on with wrong numbers after an interrupt
    return lambda shape: np.asarray(sequence.random(shape[0]), dtype=np.float64)


def _sobol(n_dimensions: int, rng: np.random.Generator) -> Any:
    from scipy.stats import qmc  # takes a third of a second to load

    return qmc.Sobol(n_dimensions, scramble=True, rng=rng)


def _corrected_weights(controls: Controls | CompiledControls, Q: int, n_nets: int) -> Floats:
    """Weights (nets, Q) of a mean, given m controls of mean 0 and covariance I over all orders.

    With control means z and covariance S over the Q orders, regression corrects the mean of y for z to
    sum_q (1 - u . (z_q - z)) y_q / Q with u = S^-1 z. Where S would be too noisy or too dear, I serves. A net's replicate
    is that, plus the net's mean of what the regression leaves unexplained.
    """
    by_net = controls.means(n_nets)
    mean, m = by_net.mean(axis=0), by_net.shape[1]
    slopes = means = np.vstack([mean, by_net - mean])
    if m <= MOST_CONTROLS and Q - Q // n_nets >= _ORDERS_PER_CONTROL * m:
        # the ridge stands in for the direction in which the controls always add up to 0
        spread = controls.squares() - np.outer(mean, mean) + 1e-9 * np.eye(m)
        slopes = linalg.solve(spread, means.T, assume_a="pos").T
    explained = (controls.combined(slopes) - slopes @ mean).T / Q
    estimate = 1 / Q - explained[0]
    own = np.arange(n_nets)[:, None] == np.repeat(np.arange(n_nets), Q // n_nets)
    apart = (n_nets * own - 1) / Q - explained[1:]
    # The slopes are fitted to the same orders, so too little is left unexplained. For contributions that are pure noise,
    # the variance of the estimate and what the nets say about it are known up to the same factor.
    claimed = (apart**2).sum() / (n_nets * (n_nets - 1))
    return np.asarray(estimate + np.sqrt((estimate**2).sum() / claimed) * apart)
