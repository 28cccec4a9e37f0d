"""Shapley values from sampled orders, for any game that can be walked.

One order serves all players: they join in turn, and each is paid its marginal contribution. With a flow sheet, orders are
random admissible ones (`culpa.shapley.extensions`).
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from array_api_compat import array_namespace

from culpa._core.threads import in_threads
from culpa._core.types import Array, Floats, Positions
from culpa.games import Game
from culpa.games.arrays import as_array_like, row_chunks
from culpa.shapley.extensions import extension_rule
from culpa.shapley.forms import QuadraticForms, forms_from_probes
from culpa.shapley.plan import FormsCost, cost_of_probes
from culpa.shapley.rules import N_REPLICATES, OrderRule, order_rule
from culpa.shapley.sampling import Part, Sampling
from culpa.shapley.shares import Players, Progress, Shares, summarise
from culpa.shapley.tolerance import Effort, size_for_tolerance

# Numbers of coalitions' state held at a time by arrays. On a GPU a step takes as long for few orders as for many.
_CELLS_PER_CHUNK, _CELLS_PER_CHUNK_ON_GPU = 1 << 18, 1 << 26
_ROWS_PER_TASK = 256
_SMALLEST, _LARGEST = 4, 14  # log2 of orders in a replicate
_LARGEST_CERTAIN = 11  # for rows whose most blamed players may never be certain, since they are equal


class SampledOrders(Sampling[OrderRule]):
    """Mean contributions over orders, of all players or of those that a flow sheet admits."""

    def in_words(self, rule: OrderRule) -> str:
        """How many orders a rule has."""
        kind = "orders" if self.order is None else "random orders"
        return f"{rule.orders.shape[0] * rule.orders.shape[1]:,} {kind}"

    def replicated(self, part: Part, rule: OrderRule) -> Array:
        """Means over the orders of each replicate, among the players that are present."""
        among, settings = self._among(rule, part.present), self.settings
        return _replicated(part.game, part.rows, part.players, among, settings.n_jobs, settings.progress)

    def _among(self, rule: OrderRule, present: Sequence[int]) -> OrderRule:
        """Orders of the players that are present. Admissible ones are drawn anew, so that all are equally likely."""
        if self.order is None or len(present) == len(self.players):
            return rule.among(present)
        log2_orders = rule.orders.shape[1].bit_length() - 1
        return extension_rule(self.order.among(present), log2_orders, self.settings.seed)

    def forms(self, game: Game, players: Players, present: Sequence[int], features: Positions | None) -> QuadraticForms:
        """From the values of the rows that determine a quadratic function."""

        def values(rows: Floats) -> Array:
            return self.replicated(Part(game, rows, players, present), self.rule)

        return forms_from_probes(game, values, features, self.rule.n_coalitions)

    def cost(self, n_features: int) -> FormsCost:
        """Every step values a coalition."""
        n, cost = self.rule.n_coalitions, self.game.cost
        walk = n * (cost.order_row + 2.0)
        return cost_of_probes(len(self.players), n_features, N_REPLICATES, n * cost.order_coalition, walk)

    @cached_property
    def rules_until_certain(self) -> list[OrderRule]:
        """Each with four times the orders of the one before."""
        first, largest = self._first_and_largest(_LARGEST if self.settings.max_coalitions else _LARGEST_CERTAIN)
        return [self._of_size(size) for size in [*range(first, largest, 2), largest]]

    def _of_size(self, log2_orders: int) -> OrderRule:
        if self.order is not None:
            return extension_rule(self.order, log2_orders, self.settings.seed)
        return order_rule(len(self.players), log2_orders, self.settings.seed)

    def _first_and_largest(self, largest: int) -> tuple[int, int]:
        budget, n_players = self.settings.max_coalitions, len(self.players)
        if budget is not None:
            least = N_REPLICATES * n_players
            if budget < least:
                raise ValueError(
                    f"max_coalitions={budget} is too few for {n_players} players: at least {least} are needed. Or put "
                    "features into groups."
                )
            largest = min(largest, int(math.log2(budget / least)))
        return min(_SMALLEST, largest), largest

    def _find_rule(self) -> OrderRule:
        settings = self.settings
        first, largest = self._first_and_largest(_LARGEST)
        if settings.n_orders is not None:
            wanted = max(0, round(math.log2(max(1, settings.n_orders / N_REPLICATES))))
            return self._of_size(wanted if settings.max_coalitions is None else min(wanted, largest))
        size = size_for_tolerance(
            lambda size: summarise(self.replicated(self.whole, self._of_size(size)), 0),
            # errors fall at least with the square root of the number of orders
            Effort(first, largest, lambda size, ratio: size + max(1, math.floor(2 * math.log2(ratio) - 0.5))),
            float(settings.tolerance),
            settings.progress,
            warning=None if settings.max_coalitions is not None else self._taken,
        )
        return self._of_size(size)

    def _taken(self, size: int) -> tuple[str, str]:
        return self.in_words(self._of_size(size)), "Raise the tolerance, or put features into groups."


def permutation(game: Game, X: Array, players: Players, rule: OrderRule, *, n_jobs: int | None = -1) -> Shares:
    """Shapley values by the orders of a rule, with standard errors from its replicates."""
    return summarise(_replicated(game, X, players, rule, n_jobs), rule.n_coalitions)


def _replicated(
    game: Game, X: Array, players: Players, rule: OrderRule, n_jobs: int | None, progress: Progress | None = None
) -> Array:
    """Values by each replicate, (replicates, n, players)."""
    xp = array_namespace(X)
    replicates = [xp.zeros((len(rule.orders), 0, len(players)), dtype=X.dtype, device=X.device)]
    chunks = row_chunks(X, _ROWS_PER_TASK)
    for done, rows in enumerate(chunks):
        replicates.append(_means(game, rows, players, rule, n_jobs))
        if progress is not None:
            progress((done + 1) / len(chunks), None)
    return xp.concat(replicates, axis=1)


def _means(game: Game, X: Array, players: Players, rule: OrderRule, n_jobs: int | None) -> Array:
    xp, n_orders = array_namespace(X), rule.orders.shape[1]
    cells = _CELLS_PER_CHUNK if isinstance(X, np.ndarray) else _CELLS_PER_CHUNK_ON_GPU
    batch = max(1, cells // (game.n_features * (X.shape[0] + game.n_features)))
    tasks = [orders[start : start + batch] for orders in rule.orders for start in range(0, n_orders, batch)]
    parts = in_threads(
        lambda orders: _walk(game, X, players, orders), tasks, n_jobs if isinstance(X, np.ndarray) else 1
    )
    each = len(tasks) // len(rule.orders)
    sums = [sum(parts[at : at + each]) for at in range(0, len(tasks), each)]
    return xp.stack(sums, axis=0) / n_orders


def _walk(game: Game, X: Array, players: Players, orders: Positions) -> Array:
    """Changes of value by player, added up over some orders, (n, players). A group's features join one after the other."""
    xp, sizes = array_namespace(X), np.array([len(player) for player in players])
    paid = np.stack([np.repeat(order, sizes[order]) for order in orders])
    queues = np.stack([np.concatenate([players[i] for i in order]) for order in orders]).astype(np.intp)
    coalitions = game.start(X, queues, branching=False)
    total = xp.zeros((len(players), X.shape[0]), dtype=X.dtype, device=X.device)
    for step in range(paid.shape[1]):
        coalitions, change = coalitions.join()
        to = as_array_like((np.arange(len(players))[:, None] == paid[:, step]).astype(np.float64), X)
        total = total + to @ change
    return xp.permute_dims(total, (1, 0))
