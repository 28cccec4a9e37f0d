"""How rows with a few missing cells differ from filled-in rows, by orders of the players.

`culpa.shapley.few_missing` says what is estimated. This serves every game that can be walked, and groups of features.
"""

from functools import lru_cache
from itertools import cycle, islice, permutations
from math import comb
from typing import NamedTuple

import numpy as np

from culpa._core.threads import in_threads
from culpa._core.types import Floats, Positions
from culpa.games import Game
from culpa.shapley.permutation import usable_order_walk, weighted_changes
from culpa.shapley.rules import Rule, averaging_rule, sobol_nets
from culpa.shapley.shares import Players


@lru_cache(maxsize=6)
def contrast(n_present: int, n_missing: int, log2_net: int, seed: int) -> Rule:
    """Orders and weights of the difference, by Sobol nets of 2^log2_net orders each.

    Players are those present and then the missing ones. Weighted contributions add up to the difference by replicate.
    """
    rule = averaging_rule(sobol_nets(n_present, log2_net, np.random.default_rng([seed, n_missing])))
    n_orders, position = len(rule.orders), np.argsort(rule.orders, axis=1)
    missing = np.array(list(islice(cycle(permutations(range(n_missing))), n_orders))) + n_present
    orders, weights = [], []
    for r in range(n_missing + 1):
        share = share_before(r, n_present, n_missing)[position]
        pay = rule.weights * ((1 - share) if r == 0 else -share)
        orders.append(np.hstack([missing[:, :r], rule.orders, missing[:, r:]]))
        weights.append(pay)
    of_missing = np.zeros((rule.n_replicates, n_orders * (n_missing + 1), n_missing))
    return Rule(np.concatenate(orders), np.concatenate([np.concatenate(weights, axis=1), of_missing], axis=2))


def share_before(r: int, n_present: int, n_missing: int) -> Floats:
    """Probability that r missing players come before a present one, by its position among those present."""
    o, k = n_present, n_missing
    return np.array([comb(t + r, r) * comb(o - 1 - t + k - r, k - r) / comb(o + k, k) for t in range(o)])


class MissingOrders(NamedTuple):
    """Estimates the differences of rows that miss few players, by orders and weights of `contrast`."""

    game: Game
    players: Players
    n_jobs: int | None

    def differences(self, filled: Floats, sizes: list[int], order: Positions, rule: Rule) -> Floats:
        """By replicate, (replicates, n, players in order).

        The first so many rows have the first order of players (patterns, players), with those first who are present.
        """
        ends = np.cumsum(sizes).tolist()
        found = np.empty((rule.n_replicates, len(filled), len(self.players)))
        operations = rule.n_evaluations * (
            len(sizes) * self.game.cost.order_coalition + len(filled) * self.game.cost.order_row
        )
        walk = usable_order_walk(self.game, filled, operations)
        alone = all(len(player) == 1 for player in self.players)
        features = np.array([player[0] for player in self.players])

        def differ(pattern: int) -> None:
            here = slice(ends[pattern] - sizes[pattern], ends[pattern])
            if walk is None or not alone:
                players = [self.players[i] for i in order[pattern]]
                changes = weighted_changes(self.game, filled[here], players, rule, 1)[0]
            else:  # with as little as possible around the kernel
                queues = features[order[pattern]][rule.orders]
                changes = walk._replace(rows=filled[here]).changes(queues, rule.orders, rule.weights)[0]
            found[:, here] = changes.transpose(0, 2, 1)

        in_threads(differ, range(len(sizes)), self.n_jobs)
        return found
