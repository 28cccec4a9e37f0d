"""Shapley values from sampled coalitions, for games that know the contributions of all players to a coalition.

`culpa.shapley.rules` says which coalitions, and `culpa.games.marginals` how contributions to one of them are found. The
first coalitions are tried on reference rows. They show which strata vary most, and how many coalitions are needed.

Contributions to different coalitions do not add up to the score. What an estimate leaves over goes to the players in
proportion to their variance over the reference rows. So players whose value is known without error keep it.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from culpa._core.threads import in_threads
from culpa._core.types import Array, Floats, Mask, Positions
from culpa._core.warning import warn
from culpa._kernels.contributions import CONTRIBUTIONS
from culpa._kernels.missing_cells import MISSING_CELLS
from culpa.games import Game
from culpa.games.arrays import as_array_like, row_chunks
from culpa.games.marginals import PlayersAtOnce
from culpa.shapley import on_gpu
from culpa.shapley.forms import QuadraticForms, coordinates_of, forms_from_probes, packed, unit_of
from culpa.shapley.plan import FormsCost
from culpa.shapley.rules import CoalitionRule
from culpa.shapley.sampling import Part, Sampling, relative_error
from culpa.shapley.shares import Progress, part_of, summarise

_MOST, _MOST_UNTIL_CERTAIN = 1 << 20, 1 << 15  # coalitions
_REPLICATES_UNTIL_CERTAIN = 16  # the more there are, the fewer standard errors make a value certain
_GROWTH = 16.0  # a sample tells how many coalitions are needed if they are at most so many times more
_MARGIN = 1.1  # more coalitions than the sample says
_NUMBERS, _NUMBERS_ON_GPU = 1 << 16, 1 << 25  # rows x features x coalitions held at a time
_MOST_TOGETHER = 32  # coalitions
_FEWEST_ROWS = 4  # for the kernel
_MOST_MISSING = 8  # cells of a row; with more of them, its pattern has coalitions of its own
_OF_MISSING = 3.0  # times as long as a complete row
_CELLS_PER_CHUNK = 1 << 17  # of rows


class Tried(NamedTuple):
    """What some coalitions of reference rows say."""

    error: float
    needs: Floats  # (strata,): how many coalitions each should have, relative to the others
    shares: Floats  # (players,): of what is left over


class SampledCoalitions(Sampling[CoalitionRule]):
    """Mean contributions to coalitions of all sizes."""

    def in_words(self, rule: CoalitionRule) -> str:
        """How many coalitions a rule has."""
        return f"{rule.n_coalitions:,} coalitions"

    def replicated(self, part: Part, rule: CoalitionRule) -> Array:
        """Estimates, with what they leave over of the score shared out."""
        operations = part.rows.shape[0] * self._per_row(rule, part.game.n_features)
        there = None if part.seen is not None else on_gpu.rows_there(part.rows, operations, self.settings.device)
        found = self._replicated(part if there is None else part._replace(rows=there), rule)
        return found if there is None else on_gpu.to_numpy(found)

    def _replicated(self, part: Part, rule: CoalitionRule) -> Array:
        xp, weights = array_namespace(part.rows), rule.weights
        found = self._by_stratum(part, rule, self.settings.progress)
        values = xp.sum(found * as_array_like(weights, part.rows)[None, :, None, None], axis=1)
        gap = as_array_like(self._total(part), part.rows)[None, :] - xp.sum(values, axis=2)
        seen = None if part.seen is None else part.seen[:, np.concatenate(part.players)]
        return values + gap[:, :, None] * as_array_like(self._shares(part.present, seen), part.rows)

    def serves(self, game: Game, rows: Floats) -> Mask:
        """Which rows with missing cells can be explained together, whatever their patterns, (n,)."""
        marginals, nobody = game.marginals, np.zeros(len(rows), dtype=bool)
        few = np.isnan(rows).sum(axis=1) <= min(_MOST_MISSING, len(self.players) - 1)
        alone = all(len(player) == 1 for player in self.players) and not len(game.known)
        same = game.where(np.zeros(game.n_features, dtype=bool)) is game
        if not same or not alone or marginals is None or marginals.leak is not None or self.settings.device == "gpu":
            return nobody
        operations = few.sum() * _OF_MISSING * self._per_row(self.rule, game.n_features)
        if not MISSING_CELLS.pays(operations):
            MISSING_CELLS.note_work_without(operations)
            few = nobody
        return np.asarray(few)

    def _total(self, part: Part) -> Floats:
        """What the values of each row add up to."""
        observed = np.zeros(part.game.n_features, dtype=bool)
        observed[np.concatenate([*part.players, part.game.known]).astype(np.intp)] = True
        rows = on_gpu.on_processor(part.rows)
        total = part.game.total(np.where(observed, rows, np.nan), np.flatnonzero(observed))
        return np.asarray(total - part.game.base_values(rows))

    def _shares(self, present: Sequence[int], seen: Mask | None = None) -> Floats:
        """Of the players that are present in what is left over, (1, players) or for each row."""
        everybody = np.ones((1, len(present))) if seen is None else seen.astype(np.float64)
        shares = self._first.shares[list(present)] * everybody
        shares = np.where(shares.any(axis=1, keepdims=True), shares, everybody)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _by_stratum(self, part: Part, rule: CoalitionRule, progress: Progress | None = None) -> Array:
        """Mean contributions in each stratum, (replicates, strata, n, players)."""
        xp, n_strata = array_namespace(part.rows), len(rule.sizes)
        tasks = [(replicate, stratum) for replicate in range(rule.n_replicates) for stratum in range(n_strata)]
        chunks = row_chunks(part.rows, max(64, _CELLS_PER_CHUNK // part.game.n_features))
        found = [xp.zeros((rule.n_replicates, n_strata, 0, len(part.players)), dtype=part.rows.dtype)]
        on_processor = isinstance(part.rows, np.ndarray)
        for done, rows in enumerate(chunks):
            at = _At(part._replace(rows=rows, seen=None if part.seen is None else ~np.isnan(rows)))

            def mean(task: tuple[int, int], at: _At = at) -> Array:
                return at.mean(rule.members(*task))

            report = part_of(progress, done, len(chunks))
            means = in_threads(mean, tasks, self.settings.n_jobs if on_processor else 1, report)
            found.append(xp.reshape(xp.stack(means), (rule.n_replicates, n_strata, *means[0].shape)))
        return found[1] if len(found) == 2 else xp.concat(found, axis=2)

    @cached_property
    def _first(self) -> Tried:
        """What a small rule says of reference rows."""
        return self._try(CoalitionRule.first(len(self.players), self.settings.seed))

    def _try(self, rule: CoalitionRule) -> Tried:
        found, weights = np.asarray(self._by_stratum(self.whole, rule)), rule.weights
        shares = summarise(np.einsum("k,rknp->rnp", weights, found), rule.n_coalitions)
        by_stratum = (weights**2)[:, None, None] * found.var(axis=0, ddof=1)  # (strata, n, players)
        in_all = by_stratum.sum(axis=(0, 2))
        relative = by_stratum / np.where(in_all > 0, in_all, 1.0)[:, None]
        needs = np.sqrt(np.median(relative.sum(axis=2), axis=1) * np.array(rule.sizes))
        return Tried(relative_error(shares), needs, relative.sum(axis=(0, 1)))

    def _find_rule(self) -> CoalitionRule:
        """For the number asked for, or for the tolerance."""
        settings, rule = self.settings, CoalitionRule.first(len(self.players), self.settings.seed)
        budget = settings.max_coalitions
        self._check_budget(rule)
        if settings.progress is not None:
            settings.progress(0.0, None)
        tried = self._first
        if settings.n_orders is not None:
            wanted = settings.n_orders if budget is None else min(budget, settings.n_orders)
            return rule.allocated(tried.needs, wanted).within(max(wanted, rule.least) if budget is None else budget)
        tolerance, most = float(settings.tolerance), float(budget or _MOST)
        while tried.error > tolerance and rule.n_coalitions < most:
            self._report(tried.error)
            growth = _MARGIN * (tried.error / tolerance) ** 2
            needed: float = rule.n_coalitions * min(growth, _GROWTH)
            larger = rule.allocated(tried.needs, min(needed, most)).within(most)
            if growth <= _GROWTH and needed <= most:
                return larger
            if larger.n_coalitions <= rule.n_coalitions:
                break
            rule, tried = larger, self._try(larger)
        self._report(tried.error)
        if tried.error > tolerance and budget is None:
            warn(
                f"the tolerance {tolerance:g} was not reached with {self.in_words(rule)} (error {tried.error:.2g}). Raise "
                "the tolerance, or put features into groups. std_error shows the error of each value.",
                UserWarning,
            )
        return rule.within(most)

    def _report(self, error: float) -> None:
        if self.settings.progress is not None:
            done = (float(self.settings.tolerance) / error) ** 2 if error else 1.0
            self.settings.progress(min(1.0, done), error)

    def _check_budget(self, rule: CoalitionRule) -> None:
        budget = self.settings.max_coalitions
        if budget is not None and budget < rule.least:
            raise ValueError(
                f"max_coalitions={budget} is too few for {rule.n_players} players: at least {rule.least} are needed."
            )

    @cached_property
    def rules_until_certain(self) -> list[CoalitionRule]:
        """Each with four times the coalitions of the one before."""
        first, budget = CoalitionRule.first(len(self.players), self.settings.seed), self.settings.max_coalitions
        more = CoalitionRule(first.n_players, first.sizes, first.seed, _REPLICATES_UNTIL_CERTAIN)
        self._check_budget(more)
        most = _MOST_UNTIL_CERTAIN if budget is None else budget
        sizes = [min(most, more.n_coalitions)]
        while sizes[-1] < most:
            sizes.append(min(most, 4 * sizes[-1]))
        return [more.allocated(self._first.needs, size).within(size) for size in sizes]

    def cost(self, n_features: int) -> FormsCost:
        """A coalition takes products with the loadings."""
        rule, d = self.rule, float(n_features)
        together, walk = rule.n_coalitions * 3.0 * self._p**2 * (d + self._p), self._per_row(rule, n_features)
        evaluate = rule.n_replicates * len(self.players) * d**2
        return FormsCost(together + d * walk + 2.0 * rule.n_coalitions * d**3, together, evaluate, walk)

    def _per_row(self, rule: CoalitionRule, n_features: int) -> float:
        return rule.n_coalitions * n_features * 6.0 * (self._p + 1)

    @property
    def _p(self) -> int:
        marginals = self.game.marginals
        assert marginals is not None  # the engine has looked
        return len(marginals.b)

    def forms(
        self, game: Game, players: Sequence[list[int]], present: Sequence[int], features: Positions | None
    ) -> QuadraticForms:
        """The same numbers as without forms, up to rounding."""
        unit, rule, marginals = unit_of(game, features), self.rule, game.marginals
        assert marginals is not None
        d, weights = len(unit), rule.weights
        at = _At(Part(game, unit, list(players), present))

        def add(replicate: int) -> tuple[Floats, Floats]:
            matrices, constants = np.zeros((len(players), d, d)), np.zeros(len(players))
            for stratum, size in enumerate(rule.sizes):
                more, constant = at.forms(rule.members(replicate, stratum))
                matrices += (weights[stratum] / size) * more
                constants += (weights[stratum] / size) * constant
            return packed(matrices), constants

        parts = in_threads(add, range(rule.n_replicates), self.settings.n_jobs, self.settings.progress)
        coefficients, constants = np.stack([part[0] for part in parts]), np.stack([part[1] for part in parts])
        observed = np.arange(game.n_features) if features is None else features
        total = forms_from_probes(game, lambda rows: self._total_of(game, rows, observed), features)
        shares = self._shares(present)
        coefficients += (total.coefficients - coefficients.sum(axis=1, keepdims=True)) * shares.T
        constants += (total.constants - constants.sum(axis=1, keepdims=True)) * shares
        return QuadraticForms(coefficients, constants, d, rule.n_coalitions, coordinates_of(game))

    def _total_of(self, game: Game, rows: Floats, observed: Positions) -> Floats:
        """Totals of probes, as values of one player, (1, probes, 1)."""
        return self._total(Part(game, rows, [observed.tolist()], [0]))[None, :, None]


class _At:
    """Contributions to coalitions, of rows in which the same features are observed."""

    def __init__(self, part: Part) -> None:
        marginals, d = part.game.marginals, part.game.n_features
        assert marginals is not None  # the engine has looked
        self.seen, rows = part.seen, part.rows if part.seen is None else np.where(part.seen, part.rows, 0.0)
        self.marginals, self.players = marginals, PlayersAtOnce(marginals, part.players, rows)
        self.rows = self.players.rows
        # which player each feature belongs to: nobody, or it is given
        n_players = len(part.players)
        self.owner, self.present = np.full(d, n_players, dtype=np.intp), np.array(part.present, dtype=np.intp)
        for k, player in enumerate(part.players):
            self.owner[player] = k
        self.owner[part.game.known] = n_players + 1

    def mean(self, bits: Mask) -> Array:
        """Of all coalitions (C, all players), (n, players)."""
        if self.seen is not None:
            return self._with_missing_cells(bits)
        n, k = self.rows.shape[0], len(self.players.sizes)
        on_processor, operations = isinstance(self.rows, np.ndarray), 4.0 * len(bits) * n * k * len(self.marginals.b)
        compiled = on_processor and n >= _FEWEST_ROWS and self.marginals.leak is None and not self.players.groups
        if compiled and not CONTRIBUTIONS.pays(operations):
            CONTRIBUTIONS.note_work_without(operations)
            compiled = False
        numbers = _NUMBERS if on_processor else _NUMBERS_ON_GPU
        together = _MOST_TOGETHER if compiled else max(1, numbers // max(1, n * self.rows.shape[1]))
        together = min(together, _MOST_TOGETHER) if on_processor else together
        return (self._compiled if compiled else self._by_arrays)(bits, together) / len(bits)

    def _with_missing_cells(self, bits: Mask) -> Floats:
        """The same for rows each of which misses some features."""
        assert self.seen is not None
        at, game = self.players, self.marginals
        of_row, features = np.nonzero(~self.seen)
        starts = np.searchsorted(of_row, np.arange(len(self.rows) + 1))
        lacking, places = np.unique(features, return_inverse=True)
        constant, found = (game.noise, game.alpha, game.b, game.trace), np.zeros(self.rows.shape)
        for start in range(0, len(bits), _MOST_TOGETHER):
            known = at.known(self._members(bits[start : start + _MOST_TOGETHER]))
            MISSING_CELLS(at.W, *constant, known.weights, known.V, self.rows, starts, places, lacking, found)
        return np.where(self.seen, found, 0.0)[:, at.who] / len(bits)

    def _by_arrays(self, bits: Mask, together: int) -> Array:
        total = 0.0
        for start in range(0, len(bits), together):
            members = self._members(bits[start : start + together])
            total = total + self.players.contributions(self.players.known(members), self.rows, members)
        return total

    def _compiled(self, bits: Mask, together: int) -> Array:
        at, columns = self.players, np.ascontiguousarray(self.rows.T)
        found, constants = np.zeros((len(at.who), len(self.rows))), 0.0
        for start in range(0, len(bits), together):
            known = at.known(self._members(bits[start : start + together]))
            CONTRIBUTIONS(at.W, at.who, known.weights, known.V, at.b, known.of_m, known.of_r, columns, found)
            constants = constants + known.constants.sum(axis=0)
        return found.T + constants

    def forms(self, bits: Mask) -> tuple[Floats, Floats]:
        """Matrices (players, n, n) and constants (players,), added up; rows are unit rows."""
        at, n = self.players, len(self.rows)
        matrices, constants = np.zeros((len(at.who), n, n)), np.zeros(len(at.sizes))
        together = max(1, min(_MOST_TOGETHER, (16 * _NUMBERS) // max(1, n * len(at.who))))
        for start in range(0, len(bits), together):
            members = self._members(bits[start : start + together])
            known = at.known(members)
            r, slope = at.factors(known, self.rows, members)
            matrices += r.transpose(2, 1, 0) @ slope.transpose(2, 0, 1)
            constants = constants + known.constants.sum(axis=0)
        return at.of_players(matrices.transpose(1, 2, 0)).transpose(2, 0, 1), constants

    def _members(self, bits: Mask) -> Array:
        """Coalitions of players as coalitions of features, (C, d) of 0 and 1."""
        everybody = np.concatenate([bits[:, self.present], np.zeros((len(bits), 1)), np.ones((len(bits), 1))], axis=1)
        return as_array_like(everybody[:, self.owner], self.rows)
