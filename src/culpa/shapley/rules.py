"""Sampling rules: orders, and the weight of each step of each order for the player who joins.

A linear estimator of Shapley values is a set of coalitions and weights that depend neither on the model nor on the rows.
Here the coalitions are the prefixes of orders. A rule holds several replicates of the weights. Each replicate is an
estimate of its own, their mean is the result, and their spread gives its standard error.

The default rule reduces the variance in two ways:

- Orders come from independently scrambled Sobol nets, which distribute players evenly over positions.
- Control variates correct what the nets leave uneven. They are functions of the order (a player's position, and who comes
  before it) whose means and covariances over all orders are known. A player's marginal contributions are regressed on
  them, and the part that their imbalance explains is subtracted. The result is still a weighted sum of contributions.
  With hundreds of players, only the position is used. The orders needed are then fewer than the other players, so that
  controls for each of these would add more noise than they remove.

A net's replicate is the estimate from all nets, plus the net's mean of what the controls leave unexplained.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.stats import qmc

from culpa._core import memory
from culpa._core.threads import in_threads
from culpa._core.types import Floats

Orders = NDArray[np.intp]

N_NETS = 6
_DEGREE = 4  # of the polynomial in the position
_ORDERS_PER_CONTROL = 2  # fewer, and estimating the controls' covariance adds more noise than it removes
_MOST_CONTROLS = 400  # estimating their covariance takes players x orders x controls^2 operations
_MOST_SOBOL = qmc.Sobol.MAXDIM


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
    """Nets of 2^log2_net Sobol orders each, with what they leave uneven corrected."""
    memory.claim_orders(n_nets << log2_net, n_players, n_nets)
    nets = sobol_nets(n_players, log2_net, np.random.default_rng(seed), n_nets)
    if n_players < 3:
        return averaging_rule(nets)
    positions = np.argsort(np.concatenate(nets), axis=1).astype(np.int32)  # small numbers are compared faster
    weights = np.empty((n_nets, *positions.shape))
    curves = _curves(n_players)

    def correct(player: int) -> None:
        weights[:, :, player] = _corrected_weights(_controls(positions, player, curves), n_nets)

    in_threads(correct, range(n_players), -1)
    return Rule(np.concatenate(nets), weights)


def smallest_regression_net(n_players: int) -> int:
    """log2 of the smallest net from which on the default rule is at its best."""
    n_controls = n_players + _DEGREE if _pairs_are_controls(n_players) else _DEGREE
    return math.ceil(math.log2(_ORDERS_PER_CONTROL * n_controls / (N_NETS - 1)))


def sobol_nets(n_players: int, log2_net: int, rng: np.random.Generator, n_nets: int = N_NETS) -> list[Orders]:
    """Independently scrambled nets of 2^log2_net orders each."""
    return [np.argsort(_points(n_players, log2_net, rng), axis=1) for _ in range(n_nets)]


def _points(n_players: int, log2_net: int, rng: np.random.Generator) -> Floats:
    """A scrambled Sobol net (points, players); independent points where players are more than Sobol's dimensions."""
    if n_players > _MOST_SOBOL:
        return rng.random((1 << log2_net, n_players))
    return np.asarray(qmc.Sobol(n_players, scramble=True, rng=rng).random_base2(log2_net), dtype=np.float64)


def _pairs_are_controls(n_players: int) -> bool:
    return n_players + _DEGREE <= _MOST_CONTROLS


def _corrected_weights(controls: Floats, n_nets: int) -> Floats:
    """Weights (nets, Q) of a mean, given controls (Q, m) of mean 0 and covariance I over all orders.

    With control means z and covariance S over the Q orders, regression corrects the mean of y for z to
    sum_q (1 - u . (z_q - z)) y_q / Q with u = S^-1 z. Where S would be too noisy or too dear, I serves. A net's replicate
    is that, plus the net's mean of what the regression leaves unexplained.
    """
    Q, m = controls.shape
    by_net = controls.reshape(n_nets, Q // n_nets, m).mean(axis=1)
    mean = by_net.mean(axis=0)
    slopes = means = np.vstack([mean, by_net - mean])
    if m <= _MOST_CONTROLS and Q - Q // n_nets >= _ORDERS_PER_CONTROL * m:
        # the ridge stands in for the direction in which the controls always add up to 0
        spread = controls.T @ controls / Q - np.outer(mean, mean) + 1e-9 * np.eye(m)
        slopes = linalg.solve(spread, means.T, assume_a="pos").T
    explained = (controls @ slopes.T - slopes @ mean).T / Q
    estimate = 1 / Q - explained[0]
    own = np.arange(n_nets)[:, None] == np.repeat(np.arange(n_nets), Q // n_nets)
    apart = (n_nets * own - 1) / Q - explained[1:]
    # The slopes are fitted to the same orders, so too little is left unexplained. For contributions that are pure noise,
    # the variance of the estimate and what the nets say about it are known up to the same factor.
    claimed = (apart**2).sum() / (n_nets * (n_nets - 1))
    return np.asarray(estimate + np.sqrt((estimate**2).sum() / claimed) * apart)


# Controls are functions of each order that have mean 0 and variance 1 over all orders. They are uncorrelated, except that
# those of pairs add up to 0, which a common factor accounts for.


def _curves(n_players: int) -> Floats:
    """Controls by a player's position, (positions, degree): orthonormal polynomials, without the constant."""
    places = 2 * np.arange(n_players) / (n_players - 1) - 1
    curves = np.linalg.qr(np.vander(places, min(_DEGREE, n_players - 1) + 1, increasing=True))[0][:, 1:]
    return np.asarray(curves * np.sqrt(n_players))


def _controls(positions: NDArray[np.integer], player: int, curves: Floats) -> Floats:
    """Controls by a player's position and, unless there are too many, by who comes before it, (Q, m)."""
    n_players = positions.shape[1]
    mine = positions[:, player]
    if not _pairs_are_controls(n_players):
        return np.asarray(curves[mine])
    share = np.arange(n_players) / (n_players - 1)
    # Who comes before me: given my position, everybody with the same probability. The covariance of these indicators is
    # v (I - J / (P - 1)) (P - 1) / (P - 2), which on vectors that add up to 0 is a multiple of I.
    v = (share * (1 - share)).mean() * (n_players - 1) / (n_players - 2)
    n_curves = curves.shape[1]
    controls = np.empty((len(positions), n_curves + n_players - 1))
    controls[:, :n_curves] = curves[mine]
    # in place, because copies of such an array would take longer than the regression
    before = controls[:, n_curves:]
    before[:, :player] = positions[:, :player] < mine[:, None]
    before[:, player:] = positions[:, player + 1 :] < mine[:, None]
    before -= share[mine][:, None]
    before /= np.sqrt(v)
    return controls
