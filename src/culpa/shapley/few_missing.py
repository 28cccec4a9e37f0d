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

This holds for whatever the missing cells are filled in with. The better that is, the smaller the differences. There are two
ways to estimate the mean. `culpa.shapley.missing_coalitions` draws coalitions S, which all rows share. It needs a game
that knows the contributions of all features to a coalition. `culpa.shapley.missing_orders` walks orders, for every other
game and for groups. What the estimates leave over of the score is shared out equally, as everywhere.

Some filled-in rows differ much. If a missing cell nearly follows from a few others, one of which is wrong, the cell that is
filled in contradicts them, and coalitions with it are worth far more than those without. The standard errors show that.
Values of such rows come from all orders. So do those of rows with few players, for which all orders are almost exact.

Values by replicate are quadratic in the observed cells, so patterns with many rows get forms of their own. The estimator
does not depend on whether complete rows or patterns are compiled, so values do not depend on what else was explained.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from culpa._core.missing import kinds_of_rows, sorted_by_pattern
from culpa._core.types import Floats, Mask, Positions
from culpa.games import Game
from culpa.shapley.form_evaluation import n_products
from culpa.shapley.forms import QuadraticForms, forms_from_probes
from culpa.shapley.missing_coalitions import MissingCoalitions, n_sets_paid
from culpa.shapley.missing_orders import MissingOrders, contrast
from culpa.shapley.pattern_forms import PatternCost
from culpa.shapley.permutation import summarise
from culpa.shapley.rules import N_NETS
from culpa.shapley.shares import Players, Served, Shares

# By how many powers of 2 nets of orders are smaller than those of complete rows, by the number of missing players. With
# more of them, the difference takes about as many orders as the values themselves.
_SMALLER = {1: 4, 2: 3, 3: 3}
# Coalitions for each missing feature and each order of complete rows, and how many features may be missing: with more, the
# difference takes about as long as all orders. docs/performance.md has the errors.
_COALITIONS_PER_MISSING, _MOST_MISSING_FROM_COALITIONS = 1 / 32, 8
# In a table with more patterns than this, only patterns with so many rows may get forms: looking for those of others takes
# too long.
_ROWS_THAT_COUNT = 8
SMALLEST_NET = 4  # log2 of the nets of complete rows
_FEWEST_PRESENT = 20
_ROWS_PER_TASK = 64
_CELLS_TOGETHER = 1 << 17  # values by each replicate that are held at a time


class Task(NamedTuple):
    """Rows in which the same players are absent."""

    pattern: int  # the same number for the same pattern
    absent: Mask  # (players,)
    rows: Positions


def tasks_of(missing: Mask, players: Players, most_missing: int) -> dict[int, list[Task]]:
    """Rows by how many players they miss, given by missing cells (n, d): at most so many, and none that misses a part."""
    kinds, kind_of_row = kinds_of_rows(missing)
    cells = np.stack([kinds[:, player].sum(axis=1) for player in players], axis=1)
    absent = cells == np.array([len(player) for player in players])
    n_absent, whole = absent.sum(axis=1), ((cells > 0) == absent).all(axis=1)
    rows, starts = sorted_by_pattern(kind_of_row, len(kinds))
    return {
        n_missing: [
            Task(kind, absent[kind], rows[start : min(start + _ROWS_PER_TASK, starts[kind + 1])])
            for kind in np.flatnonzero(whole & (n_absent == n_missing)).tolist()
            for start in range(starts[kind], starts[kind + 1], _ROWS_PER_TASK)
        ]
        for n_missing in range(1, most_missing + 1)
    }


def _batches(tasks: list[Task], n_rows: int) -> Iterator[list[Task]]:
    """Tasks with about so many rows at a time."""
    batch = np.cumsum([len(task.rows) for task in tasks]) // max(1, n_rows)
    for _, some in groupby(zip(batch.tolist(), tasks, strict=True), key=itemgetter(0)):
        yield [task for _, task in some]


def _relative_error(shares: Shares) -> Floats:
    """By row; NaN if all values are 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.linalg.norm(shares.std_error, axis=1) / np.linalg.norm(shares.values, axis=1))


FormsIfDue = Callable[[Mask, PatternCost, int, Callable[[], QuadraticForms]], QuadraticForms | None]


class FewMissing(NamedTuple):
    """Shares out rows in which a few players are missing.

    ``complete`` computes the values of complete rows by each replicate of a rule with nets of 2^``log2_net`` orders,
    (replicates, n, players), or exactly, (1, n, players). ``coalitions`` estimates differences; without, orders do.
    ``forms_if_due`` returns the forms of features that are observed, given what they cost, for how many more rows, and how
    to find them, or ``None`` if it is too early for that.
    """

    game: Game
    players: Players
    complete: Callable[[Floats], Floats]
    log2_net: int
    seed: int
    n_jobs: int | None
    coalitions: MissingCoalitions | None = None
    forms_if_due: FormsIfDue | None = None

    @property
    def most_missing(self) -> int:
        """How many players may be missing."""
        most = max(_SMALLER) if self.coalitions is None else _MOST_MISSING_FROM_COALITIONS
        return min(most, len(self.players) - _FEWEST_PRESENT)

    def share_out(self, rows: Floats, served_otherwise: Callable[[int], bool] = lambda n_missing: False) -> Served:
        """Rows with missing cells, those in which a few players are missing, unless so many are served otherwise."""
        served = Served.none(len(rows), len(self.players))
        filled = self.game.filled_in(rows) if self.most_missing > 0 else None
        if filled is None:
            return served
        score = self.game.total(rows, np.arange(rows.shape[1])) - self.game.base_value
        for n_missing, tasks in tasks_of(np.isnan(rows), self.players, self.most_missing).items():
            if served_otherwise(n_missing):
                continue
            often, rest = self._often_and_rest(tasks)
            for same in often:
                at = np.concatenate([task.rows for task in same])
                present = np.flatnonzero(~same[0].absent)
                forms = self._forms(present, len(at), n_missing)
                if forms is None:
                    rest.extend(same)
                    continue
                values = forms.by_replicate(rows[at][:, present], self.n_jobs)
                shares, good = self._judged(values, filled[at], forms.n_evaluations)
                served = served.with_rows(at[good], shares, present)
            for some in _batches(rest, _CELLS_TOGETHER // len(self.players)):
                at = np.concatenate([task.rows for task in some])
                # those present first
                order = np.argsort(np.stack([task.absent for task in some]), axis=1, kind="stable")
                sizes = [len(task.rows) for task in some]
                values, n_evaluations = self._values(filled[at], score[at], sizes, order, n_missing)
                shares, good = self._judged(values, filled[at], n_evaluations)
                present = np.repeat(order[:, :-n_missing], sizes, axis=0)
                served = served.with_rows(at[good], shares, present[good])
        return served

    def _often_and_rest(self, tasks: list[Task]) -> tuple[list[list[Task]], list[Task]]:
        """Tasks by pattern, of patterns that may have forms, and all other tasks."""
        if self.forms_if_due is None or self.coalitions is None:
            return [], tasks
        few = len({task.pattern for task in tasks}) <= _ROWS_THAT_COUNT
        often = [task for task in tasks if few or len(task.rows) >= _ROWS_THAT_COUNT]
        rest = [] if few else [task for task in tasks if len(task.rows) < _ROWS_THAT_COUNT]
        return [list(same) for _, same in groupby(often, key=lambda task: task.pattern)], rest

    def _forms(self, present: Positions, n_rows: int, n_missing: int) -> QuadraticForms | None:
        """Of a pattern, by the features that are present; these are all players."""
        assert self.forms_if_due is not None
        assert self.coalitions is not None  # `_often_and_rest` has looked
        d, n_probes = len(self.players), n_products(len(present)) + 1
        each = self.coalitions.operations(n_missing, self._net(n_missing), d) + N_NETS * d * 2.0 * n_products(d)
        cost = PatternCost(n_probes * each, 0.0, each)
        observed = np.isin(np.arange(d), present)

        def values(probes: Floats) -> Floats:
            rows = np.where(observed, probes, np.nan)
            filled = self.game.filled_in(rows)
            assert filled is not None  # share_out has asked before
            order = np.concatenate([present, np.flatnonzero(~observed)])[None]
            score = self.game.total(rows, present) - self.game.base_value
            return self._values(filled, score, [len(rows)], order, n_missing)[0]

        def find() -> QuadraticForms:
            return forms_from_probes(self.game, values, present, self._n_evaluations(n_missing))

        return self.forms_if_due(observed, cost, n_rows, find)

    def _values(
        self, filled: Floats, score: Floats, sizes: list[int], order: Positions, n_missing: int
    ) -> tuple[Floats, int]:
        """By replicate, (replicates, n, players present), and how many coalitions were valued.

        The first so many rows have the first order of players (patterns, players), with those first who are present.
        """
        present = np.repeat(order[:, :-n_missing], sizes, axis=0)
        difference, n_evaluations = self._differences(filled, sizes, order, n_missing)
        values = np.take_along_axis(self.complete(filled), present[None], axis=2) + difference
        values += ((score - values.sum(axis=2)) / present.shape[1])[:, :, None]
        return values, n_evaluations

    def _judged(self, values: Floats, filled: Floats, n_evaluations: int) -> tuple[Shares, Mask]:
        """Shares of the rows that filled-in rows help with, and which rows these are.

        Their relative errors are as small as usual, or not much larger than those of the filled-in rows.
        """
        shares = summarise(values, n_evaluations)
        error = _relative_error(shares)
        usual = (N_NETS << self.log2_net) ** -0.5  # all orders leave about a third of that
        good: Mask = error <= usual
        if not good.all():
            complete = self.complete(filled[~good])
            if len(complete) > 1:
                of_filled = _relative_error(summarise(complete, 0))
                good[~good] = error[~good] <= np.minimum(2 * of_filled, 4 * usual)
        return shares._replace(values=shares.values[good], std_error=shares.std_error[good]), good

    def _net(self, n_missing: int) -> int:
        """Coalitions of a net."""
        return max(1, round(_COALITIONS_PER_MISSING * n_missing * (1 << self.log2_net)))

    def _n_evaluations(self, n_missing: int) -> int:
        """Coalitions that are valued: each with sets of the missing features, for every feature, and complete rows."""
        n_sets = N_NETS * self._net(n_missing) * n_sets_paid(n_missing)
        return ((N_NETS << self.log2_net) + n_sets) * len(self.players)

    def _differences(self, filled: Floats, sizes: list[int], order: Positions, n_missing: int) -> tuple[Floats, int]:
        """By replicate, (replicates, n, players present), and how many coalitions were valued."""
        if self.coalitions is None:
            net = self.log2_net - _SMALLER[n_missing]
            rule = contrast(order.shape[1] - n_missing, n_missing, net, self.seed)
            walk = MissingOrders(self.game, self.players, self.n_jobs)
            n_evaluations = (N_NETS << self.log2_net) * len(self.players) + rule.n_evaluations
            return walk.differences(filled, sizes, order, rule)[:, :, :-n_missing], n_evaluations
        everybody = np.repeat(order, sizes, axis=0)
        found = self.coalitions.differences(filled, everybody[:, -n_missing:], self._net(n_missing), self.n_jobs)
        return np.take_along_axis(found, everybody[None, :, :-n_missing], axis=2), self._n_evaluations(n_missing)
