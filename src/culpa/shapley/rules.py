"""Sampling rules: orders to walk, and how much each step of each order counts for the player who joins.

Every linear estimator of Shapley values is a set of coalitions and weights that depend on neither model nor rows. Here the
coalitions are the prefixes of orders, and a rule holds several replicates of the weights: each replicate is an estimate of
its own, their mean is the answer and their spread its standard error.

The default rule combines two ways of leaving less to chance:

- orders come from independently scrambled Sobol nets, which spread players over positions evenly;
- what the nets leave uneven is taken out by regression: for each player, its changes of value are regressed on
  functions of the order whose means over all orders are known (its position, and who comes before it). The constant
  of that regression is a weighted sum of the changes.

The replicates are jackknife pseudo-values over the nets: all nets together, and all but one.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

Floats = NDArray[np.float64]
Orders = NDArray[np.intp]

N_NETS = 6
_DEGREE = 4  # of the polynomial in the position
_ORDERS_PER_CONTROL = 3  # fewer, and the regression would add more noise than it removes
_MOST_CONTROLS = 300  # the regressions cost players x controls^2 x orders


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
    """Nets of 2^log2_net Sobol orders each, evened out by regression where there are enough of them for it."""
    rng = np.random.default_rng(seed)
    nets = [
        np.argsort(qmc.Sobol(n_players, scramble=True, rng=rng).random_base2(log2_net), axis=1) for _ in range(n_nets)
    ]
    n_controls = n_players - 2 + min(_DEGREE, n_players - 1)
    enough = (n_nets - 1) << log2_net >= _ORDERS_PER_CONTROL * (1 + n_controls)
    if n_players < 3 or not enough or n_controls > _MOST_CONTROLS:
        return averaging_rule(nets)
    return Rule(np.concatenate(nets), _regression_weights(nets))


def _regression_weights(nets: list[Orders]) -> Floats:
    """Jackknife pseudo-value weights (nets, Q, players) of the constant in each player's regression."""
    orders = np.concatenate(nets)
    n_nets, (Q, n_players) = len(nets), orders.shape
    positions = np.argsort(orders, axis=1)
    weights = np.empty((n_nets, Q, n_players))
    for player in range(n_players):
        Z = _controls(positions, player).reshape(n_nets, Q // n_nets, -1)
        gram = np.matmul(Z.transpose(0, 2, 1), Z)
        everything = gram.sum(axis=0)
        # the ridge only guards against controls that happen to coincide
        ridge = 1e-9 * np.trace(everything) / len(everything) * np.eye(len(everything))
        constant = np.eye(len(everything))[:, :1]
        whole = np.linalg.solve(everything + ridge, constant)[:, 0]
        without = np.linalg.solve(everything - gram + ridge, constant)[:, :, 0]
        with_all = (Z @ whole).reshape(Q)
        for left_out in range(n_nets):
            partial = Z @ without[left_out]
            partial[left_out] = 0.0
            weights[left_out, :, player] = n_nets * with_all - (n_nets - 1) * partial.reshape(Q)
    return weights


def _controls(positions: Orders, player: int) -> Floats:
    """A constant, and functions of each order that average to zero over all orders, (Q, 1 + controls)."""
    Q, n_players = positions.shape
    mine = positions[:, player]
    degree = min(_DEGREE, n_players - 1)
    places = np.linspace(-1, 1, n_players)
    curves = np.polynomial.legendre.legvander(places, degree)[:, 1:]
    curves -= curves.mean(axis=0)
    before = np.delete(positions < mine[:, None], player, axis=1)
    # given my position, each of the others comes before me with the same probability; the last is determined
    precedence = before[:, :-1] - (mine / (n_players - 1))[:, None]
    return np.column_stack([np.ones(Q), curves[mine], precedence])
