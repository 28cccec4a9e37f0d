"""Sampled Shapley values of rows in which a few players are missing, from those of complete rows.

Walking hundreds of orders for each pattern of missing cells would take far longer than a complete row takes with compiled
forms. But a row with a few missing cells hardly differs from the row in which they are filled in. So the values of the
filled-in row serve as a control variate, and few orders have to tell the difference.

Take a player i, an order of the o players that are present, and let S be those before i, t = |S|. In a random order of all
players, given the order of those present, r of the k missing players come before i with probability

    share_r(t) = C(t + r, r) C(o - 1 - t + k - r, k - r) / C(o + k, k).

With D(S) the contribution of i that joins S, and R_r a random set of r missing players,

    value without the missing players = value of the filled-in row + mean over orders of
        D(S) - share_0(t) D(S) - share_1(t) D(S and R_1) - ... - share_k(t) D(S and R_k).

This holds for whatever the missing cells are filled in with. The better that is, the smaller the differences. R_1, R_2, ...
are the first players of an order of the missing ones, so an order takes k + 1 walks. What the estimates leave over of the
score is shared out equally, as everywhere.

The estimator does not depend on whether complete rows are compiled, so values do not depend on what else was explained.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import cycle, islice, permutations
from math import comb
from typing import NamedTuple

import numpy as np

from culpa._core.missing import kinds_of_rows, sorted_by_pattern
from culpa._core.threads import in_threads
from culpa._core.types import Floats, Mask, Positions
from culpa.games import Game
from culpa.shapley.permutation import summarise, weighted_changes
from culpa.shapley.rules import N_NETS, Rule, averaging_rule, sobol_nets
from culpa.shapley.shares import Players, Shares

# By how many powers of 2 nets are smaller than those of complete rows, by the number of missing players. With these, the
# standard errors are about those of as many orders as complete rows have: docs/sampling.md has the table.
_SMALLER = {1: 4, 2: 3, 3: 3}
FEW = tuple(_SMALLER)
SMALLEST_NET = max(_SMALLER.values())  # log2 of the nets of complete rows
_ROWS_PER_TASK, _TASKS_TOGETHER = 64, 256  # so that results fit into a cache, and all into little memory


@lru_cache(maxsize=16)
def contrast(n_present: int, n_missing: int, log2_net: int, seed: int) -> Rule:
    """Orders and weights of the difference, by Sobol nets of 2^log2_net orders each.

    Players are those present and then the missing ones. Weighted contributions add up to the difference by replicate. One
    more set of weights adds them up to the score without the missing players.
    """
    rule = averaging_rule(sobol_nets(n_present, log2_net, np.random.default_rng([seed, n_missing])))
    n_orders, position = len(rule.orders), np.argsort(rule.orders, axis=1)
    missing = np.array(list(islice(cycle(permutations(range(n_missing))), n_orders))) + n_present
    once = np.full((1, n_orders, n_present), 1 / n_orders)
    orders, weights = [], []
    for r in range(n_missing + 1):
        share = _share_before(r, n_present, n_missing)[position]
        pay = rule.weights * ((1 - share) if r == 0 else -share)
        orders.append(np.hstack([missing[:, :r], rule.orders, missing[:, r:]]))
        weights.append(np.concatenate([pay, once if r == 0 else np.zeros_like(once)]))
    of_missing = np.zeros((rule.n_replicates + 1, n_orders * (n_missing + 1), n_missing))
    return Rule(np.concatenate(orders), np.concatenate([np.concatenate(weights, axis=1), of_missing], axis=2))


def _share_before(r: int, n_present: int, n_missing: int) -> Floats:
    """Probability that r missing players come before a present one, by its position among those present."""
    o, k = n_present, n_missing
    return np.array([comb(t + r, r) * comb(o - 1 - t + k - r, k - r) / comb(o + k, k) for t in range(o)])


class Task(NamedTuple):
    """Rows in which the same players are absent."""

    absent: Mask  # (players,)
    rows: Positions


def tasks_of(missing: Mask, players: Players, n_missing: int) -> list[Task]:
    """Rows, given by the cells that they miss (n, d), in which so many players are missing, and none misses a part."""
    kinds, kind_of_row = kinds_of_rows(missing)
    cells = np.stack([kinds[:, player].sum(axis=1) for player in players], axis=1)
    absent = cells == np.array([len(player) for player in players])
    served = (absent.sum(axis=1) == n_missing) & ((cells > 0) == absent).all(axis=1)
    order, starts = sorted_by_pattern(kind_of_row, len(kinds))
    return [
        Task(absent[kind], order[start : min(start + _ROWS_PER_TASK, starts[kind + 1])])
        for kind in np.flatnonzero(served)
        for start in range(starts[kind], starts[kind + 1], _ROWS_PER_TASK)
    ]


class FewMissing(NamedTuple):
    """Shares out rows in which a few players are missing.

    ``complete`` computes the values of complete rows by each replicate of a rule with nets of 2^``log2_net`` orders,
    (replicates, n, players).
    """

    game: Game
    players: Players
    complete: Callable[[Floats], Floats]
    log2_net: int
    seed: int
    n_jobs: int | None

    def share_out(self, filled: Floats, tasks: list[Task]) -> Iterator[tuple[Positions, Positions, Shares]]:
        """Rows that are filled in, with equally many players missing: positions, who is present (n, present), shares."""
        for start in range(0, len(tasks), _TASKS_TOGETHER):
            here = tasks[start : start + _TASKS_TOGETHER]
            rows = np.concatenate([task.rows for task in here])
            present = np.concatenate([np.tile(np.flatnonzero(~task.absent), (len(task.rows), 1)) for task in here])
            yield rows, present, self._shares(filled, here, rows, present)

    def _shares(self, filled: Floats, tasks: list[Task], rows: Positions, present: Positions) -> Shares:
        n_present = present.shape[1]
        n_missing = len(self.players) - n_present
        rule = contrast(n_present, n_missing, self.log2_net - _SMALLER[n_missing], self.seed)

        def differ(task: Task) -> Floats:
            order = np.argsort(task.absent, kind="stable")  # those present first
            return np.asarray(
                weighted_changes(self.game, filled[task.rows], [self.players[i] for i in order], rule, 1)[0]
            )

        found = np.concatenate(in_threads(differ, tasks, self.n_jobs), axis=2)[:, :n_present].transpose(0, 2, 1)
        difference, score = found[:-1], found[-1].sum(axis=1)
        values = np.take_along_axis(self.complete(filled[rows]), present[None], axis=2) + difference
        values += ((score - values.sum(axis=2)) / n_present)[:, :, None]
        return summarise(values, (N_NETS << self.log2_net) * len(self.players) + rule.n_evaluations)
