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

Some filled-in rows differ much. If a missing cell nearly follows from a few others, one of which is wrong, the cell that is
filled in contradicts them, and coalitions with it are worth far more than those without. The standard errors show that.
Values of such rows come from all orders. So do those of rows with few players, for which all orders are almost exact.

The estimator does not depend on whether complete rows are compiled, so values do not depend on what else was explained.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import cycle, groupby, islice, permutations
from math import comb
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from culpa._core.missing import kinds_of_rows, sorted_by_pattern
from culpa._core.threads import in_threads
from culpa._core.types import Floats, Mask, Positions
from culpa.games import Game
from culpa.shapley.permutation import summarise, usable_order_walk, weighted_changes
from culpa.shapley.rules import N_NETS, Rule, averaging_rule, sobol_nets
from culpa.shapley.shares import Players, Served, Shares

# By how many powers of 2 nets are smaller than those of complete rows, by the number of missing players: see
# docs/performance.md for the errors. With more of them, the difference takes as many orders as the values themselves.
_SMALLER = {1: 4, 2: 3, 3: 3}
MOST_MISSING = max(_SMALLER)
SMALLEST_NET = max(_SMALLER.values())  # log2 of the nets of complete rows
_FEWEST_PRESENT = 20
_ROWS_PER_TASK = 64
_CELLS_TOGETHER = 1 << 17  # values by each replicate that are held at a time


@lru_cache(maxsize=6)
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


def tasks_of(missing: Mask, players: Players) -> dict[int, list[Task]]:
    """Rows by how many players they miss, given by missing cells (n, d): those with few, and none that misses a part."""
    kinds, kind_of_row = kinds_of_rows(missing)
    cells = np.stack([kinds[:, player].sum(axis=1) for player in players], axis=1)
    absent = cells == np.array([len(player) for player in players])
    n_absent, whole = absent.sum(axis=1), ((cells > 0) == absent).all(axis=1)
    rows, starts = sorted_by_pattern(kind_of_row, len(kinds))
    return {
        n_missing: [
            Task(absent[kind], rows[start : min(start + _ROWS_PER_TASK, starts[kind + 1])])
            for kind in np.flatnonzero(whole & (n_absent == n_missing))
            for start in range(starts[kind], starts[kind + 1], _ROWS_PER_TASK)
        ]
        for n_missing in _SMALLER
    }


def _batches(tasks: list[Task], n_rows: int) -> Iterator[list[Task]]:
    """Tasks with about so many rows at a time."""
    batch = np.cumsum([len(task.rows) for task in tasks]) // max(1, n_rows)
    for _, some in groupby(zip(batch.tolist(), tasks, strict=True), key=itemgetter(0)):
        yield [task for _, task in some]


class FewMissing(NamedTuple):
    """Shares out rows in which a few players are missing.

    ``complete`` computes the values of complete rows by each replicate of a rule with nets of 2^``log2_net`` orders,
    (replicates, n, players), or exactly, (1, n, players).
    """

    game: Game
    players: Players
    complete: Callable[[Floats], Floats]
    log2_net: int
    seed: int
    n_jobs: int | None

    def share_out(self, rows: Floats, most_missing: int) -> Served:
        """Rows with missing cells, those in which a few players are missing, and up to ``most_missing``."""
        served = Served.none(len(rows), len(self.players))
        most_missing = min(most_missing, len(self.players) - _FEWEST_PRESENT)
        filled = self.game.filled_in(rows) if most_missing > 0 else None
        if filled is None:
            return served
        for n_missing, tasks in tasks_of(np.isnan(rows), self.players).items():
            for some in _batches(tasks if n_missing <= most_missing else [], _CELLS_TOGETHER // len(self.players)):
                at = np.concatenate([task.rows for task in some])
                # those present first
                order = np.argsort(np.stack([task.absent for task in some]), axis=1, kind="stable")
                n_present = len(self.players) - n_missing
                present = np.repeat(order[:, :n_present], [len(task.rows) for task in some], axis=0)
                shares, good = self._shares(filled[at], some, order, present)
                served = served.with_rows(at[good], shares, present[good])
        return served

    def _shares(self, filled: Floats, tasks: list[Task], order: Positions, present: Positions) -> tuple[Shares, Mask]:
        """Of the rows of some tasks, and which rows these are: those that filled-in rows help with.

        Orders of players have those first who are present.
        """
        n_present = present.shape[1]
        n_missing = len(self.players) - n_present
        rule = contrast(n_present, n_missing, self.log2_net - _SMALLER[n_missing], self.seed)
        difference, score = self._differences(filled, tasks, order, rule)
        values = np.take_along_axis(self.complete(filled), present[None], axis=2) + difference[:, :, :n_present]
        values += ((score - values.sum(axis=2)) / n_present)[:, :, None]
        shares = summarise(values, (N_NETS << self.log2_net) * len(self.players) + rule.n_evaluations)
        most = (N_NETS << self.log2_net) ** -0.5  # relative error; all orders usually leave a third of that
        good = np.linalg.norm(shares.std_error, axis=1) <= most * np.linalg.norm(shares.values, axis=1)
        return shares._replace(values=shares.values[good], std_error=shares.std_error[good]), good

    def _differences(self, filled: Floats, tasks: list[Task], order: Positions, rule: Rule) -> tuple[Floats, Floats]:
        """By replicate, (replicates, n, players in order); and the score beyond what the empty coalition is worth, (n,)."""
        ends = np.cumsum([len(task.rows) for task in tasks]).tolist()
        found = np.empty((rule.n_replicates, len(filled), len(self.players)))
        operations = rule.n_evaluations * (
            len(tasks) * self.game.cost.order_coalition + len(filled) * self.game.cost.order_row
        )
        walk = usable_order_walk(self.game, filled, operations)
        alone = all(len(player) == 1 for player in self.players)
        features = np.array([player[0] for player in self.players])

        def differ(task: int) -> None:
            here = slice(ends[task] - len(tasks[task].rows), ends[task])
            if walk is None or not alone:
                players = [self.players[i] for i in order[task]]
                changes = weighted_changes(self.game, filled[here], players, rule, 1)[0]
            else:  # with as little as possible around the kernel
                queues = features[order[task]][rule.orders]
                changes = walk._replace(rows=filled[here]).changes(queues, rule.orders, rule.weights)[0]
            found[:, here] = changes.transpose(0, 2, 1)

        in_threads(differ, range(len(tasks)), self.n_jobs)
        return found[:-1], found[-1].sum(axis=1)
