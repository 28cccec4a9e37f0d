"""Shapley values from sampled coalitions, for games that know the contributions of all players to a coalition.

`culpa.shapley.rules` says which coalitions, and `culpa.games.marginals` how contributions to one of them are found. The
first coalitions are tried on reference rows. They show which strata vary most, and how many coalitions are needed.

Contributions to different coalitions do not add up to the score. What an estimate leaves over goes to the players in
proportion to their variance over the reference rows. So players whose value is known without error keep it.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from culpa._core.threads import in_threads
from culpa._core.types import Array, Floats, Mask, Positions
from culpa._core.warning import warn
from culpa._kernels.contributions import CONTRIBUTIONS
from culpa._kernels.missing_cells import MISSING_CELLS
from culpa.games import Game
from culpa.games.arrays import as_array_like, row_chunks
from culpa.games.marginals import Known, PlayersAtOnce
from culpa.shapley import on_gpu
from culpa.shapley.forms import QuadraticForms, coordinates_of, forms_from_probes, packed, unit_of
from culpa.shapley.plan import FormsCost
from culpa.shapley.rules import CoalitionRule, Piece
from culpa.shapley.sampling import Part, Sampling, relative_error
from culpa.shapley.shares import Progress, part_of, summarise

_MOST, _MOST_UNTIL_CERTAIN = 1 << 20, 1 << 15  # coalitions
_REPLICATES_UNTIL_CERTAIN = 16  # the more there are, the fewer standard errors make a value certain
_GROWTH = 16.0  # a sample tells how many coalitions are needed if they are at most so many times more
_FALL, _MARGIN = 1.8, 1.05  # as many coalitions as the error is too large to that power, and some more
_NUMBERS, _NUMBERS_ON_GPU = 1 << 16, 1 << 25  # rows x features x coalitions held at a time
_MOST_TOGETHER = 128  # coalitions
_MOST_NUMBERS, _MOST_KEPT = 1 << 21, 1 << 23  # about coalitions: of some together, and of those of complete rows
_FEWEST_ROWS = 4  # for the kernel
_MOST_MISSING = 8  # cells of a row; with more of them, its pattern has coalitions of its own
_OF_MISSING = 3.0  # times as long as a complete row
_OF_FORMS = 4.0  # times as long as as many operations of the kernel
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
        values = self._sums(part, rule, progress=self.settings.progress)[:, 0, ...]
        gap = as_array_like(self._total(part), part.rows)[None, :] - array_namespace(part.rows).sum(values, axis=2)
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

    def _sums(
        self, part: Part, rule: CoalitionRule, *, by_stratum: bool = False, progress: Progress | None = None
    ) -> Array:
        """Weighted sums of contributions in each replicate, (replicates, 1 or strata, n, players)."""
        xp, players, n_sums = array_namespace(part.rows), self._players_of(part), len(rule.sizes) if by_stratum else 1
        pieces, found = rule.pieces(players.most_together), []
        chunks = row_chunks(part.rows, max(64, _CELLS_PER_CHUNK // part.game.n_features)) or [part.rows]
        for done, rows in enumerate(chunks):
            moved = players.marginals.moves(rows)

            def sums(piece: Piece, moved: Array = moved) -> list[tuple[int, Array]]:
                known, weights = self._known(players, rule, piece, keep=not by_stratum)
                parts = rule.strata(piece) if by_stratum else [(0, slice(None))]
                of = [(stratum, known.some(at), weights[at]) for stratum, at in parts]
                return [(stratum, players.sum(moved, some, by, part.seen is not None)) for stratum, some, by in of]

            totals: list[list[Array]] = [[0.0] * n_sums for _ in range(rule.n_replicates)]
            n_jobs = self.settings.n_jobs if isinstance(part.rows, np.ndarray) else 1
            for piece, each in zip(
                pieces, in_threads(sums, pieces, n_jobs, part_of(progress, done, len(chunks))), strict=True
            ):
                for stratum, total in each:
                    totals[piece.replicate][stratum] = totals[piece.replicate][stratum] + total
            found.append(xp.stack([xp.stack(one) for one in totals]))
        return found[0] if len(found) == 1 else xp.concat(found, axis=2)

    def _players_of(self, part: Part) -> "_Players":
        whole = part.game is self.game and part.players == self.players and isinstance(part.rows, np.ndarray)
        return self._whole_players if whole else _Players(part)

    @cached_property
    def _whole_players(self) -> "_Players":
        """Of complete rows."""
        return _Players(self.whole)

    def _known(self, players: "_Players", rule: CoalitionRule, piece: Piece, *, keep: bool) -> tuple[Known, Floats]:
        """What coalitions know, and their weights. That of complete rows is kept: finding it takes longer than a row."""
        kept = self._kept if keep and players is vars(self).get("_whole_players") else {}
        found = kept.get((rule, piece))
        if found is None:
            bits, weights = rule.members(piece)
            found = players.known(bits).weighed(as_array_like(weights, players.like)), weights
            if players.numbers * players.most_together * (len(kept) + 1) <= _MOST_KEPT:
                kept[rule, piece] = found
        return found

    @cached_property
    def _kept(self) -> dict[tuple[CoalitionRule, Piece], tuple[Known, Floats]]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in super().__getstate__().items() if name not in ("_kept", "_whole_players")
        }

    @cached_property
    def _first(self) -> Tried:
        """What a small rule says of reference rows."""
        return self._try(CoalitionRule.first(len(self.players), self.settings.seed))

    def _try(self, rule: CoalitionRule) -> Tried:
        found = np.asarray(self._sums(self.whole, rule, by_stratum=True))
        shares, by_stratum = summarise(found.sum(axis=1), rule.n_coalitions), found.var(axis=0, ddof=1)
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
            growth = _MARGIN * (tried.error / tolerance) ** _FALL
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
        prepare = _OF_FORMS * (d * walk + 2.0 * rule.n_coalitions * d**3)
        return FormsCost(together + prepare, together, evaluate, walk)

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
        unit, rule = unit_of(game, features), self.rule
        players_at_once = _Players(Part(game, unit, list(players), present))
        pieces = rule.pieces(players_at_once.most_together)
        moved = players_at_once.marginals.moves(unit)

        def add(replicate: int) -> tuple[Floats, Floats]:
            matrices, constants = np.zeros((len(players), len(unit), len(unit))), np.zeros(len(players))
            for piece in pieces:
                if piece.replicate == replicate:
                    known = self._known(players_at_once, rule, piece, keep=False)[0]
                    matrices += players_at_once.forms(moved, known)
                    constants += known.constants.sum(axis=0)
            return packed(matrices), constants

        parts = in_threads(add, range(rule.n_replicates), self.settings.n_jobs, self.settings.progress)
        coefficients, constants = np.stack([part[0] for part in parts]), np.stack([part[1] for part in parts])
        observed = np.arange(game.n_features) if features is None else features
        total = forms_from_probes(game, lambda rows: self._total_of(game, rows, observed), features)
        shares = self._shares(present)
        coefficients += (total.coefficients - coefficients.sum(axis=1, keepdims=True)) * shares.T
        constants += (total.constants - constants.sum(axis=1, keepdims=True)) * shares
        return QuadraticForms(coefficients, constants, len(unit), rule.n_coalitions, coordinates_of(game))

    def _total_of(self, game: Game, rows: Floats, observed: Positions) -> Floats:
        """Totals of probes, as values of one player, (1, probes, 1)."""
        return self._total(Part(game, rows, [observed.tolist()], [0]))[None, :, None]


class _Players:
    """Contributions of the players of a part to coalitions."""

    def __init__(self, part: Part) -> None:
        marginals, d, n_players = part.game.marginals, part.game.n_features, len(part.players)
        assert marginals is not None  # the engine has looked
        self.marginals, self.like = marginals, part.rows[:0, :]
        self.at_once = PlayersAtOnce(marginals, part.players, self.like)
        # which player each feature belongs to: nobody, or it is given
        self.owner, self.present = np.full(d, n_players, dtype=np.intp), np.array(part.present, dtype=np.intp)
        for k, player in enumerate(part.players):
            self.owner[player] = k
        self.owner[part.game.known] = n_players + 1

    @property
    def numbers(self) -> int:
        """How many numbers a coalition knows: matrices of latent variables and of groups, and some for each feature."""
        own, p, sizes = self.marginals, len(self.marginals.b), self.at_once.sizes
        pairs = p**2 * (1 if own.leak is None else 2) + 2 * int((sizes[sizes > 1] ** 2).sum())
        return pairs + 5 * len(own.loadings)

    @property
    def most_together(self) -> int:
        """Coalitions that are looked at together."""
        return max(1, min(_MOST_TOGETHER, _MOST_NUMBERS // self.numbers))

    def known(self, bits: Mask) -> Known:
        """What coalitions (C, all players) know."""
        everybody = np.concatenate([bits[:, self.present], np.zeros((len(bits), 1)), np.ones((len(bits), 1))], axis=1)
        return self.at_once.known(as_array_like(everybody[:, self.owner], self.like))

    def sum(self, rows: Array, known: Known, weights: Floats, missing: bool) -> Array:
        """Weighted contributions to coalitions, added up, (n, players)."""
        if missing:
            return self._with_missing_cells(rows, known, weights)
        (n, d), at, C = rows.shape, self.at_once, len(weights)
        operations = 4.0 * C * n * len(at.sizes) * len(self.marginals.b)
        if isinstance(rows, np.ndarray) and n >= _FEWEST_ROWS and self.marginals.leak is None and not at.groups:
            if CONTRIBUTIONS.pays(operations):
                columns, found = np.ascontiguousarray(rows.T), np.zeros((len(at.who), n))
                CONTRIBUTIONS(at.W, at.who, known.weights, known.V, at.b, known.of_m, known.of_r, columns, found)
                return found.T + known.constants.sum(axis=0)
            CONTRIBUTIONS.note_work_without(operations)
        together = max(1, (_NUMBERS if isinstance(rows, np.ndarray) else _NUMBERS_ON_GPU) // max(1, n * d))
        if together >= C:
            return at.contributions(known, rows)
        return sum(at.contributions(known.some(slice(i, i + together)), rows) for i in range(0, C, together))

    def _with_missing_cells(self, rows: Floats, known: Known, weights: Floats) -> Floats:
        """The same for rows each of which misses some features."""
        at, game, seen = self.at_once, self.marginals, ~np.isnan(rows)
        of_row, features = np.nonzero(~seen)
        starts = np.searchsorted(of_row, np.arange(len(rows) + 1))
        lacking, places = np.unique(features, return_inverse=True)
        constant, found = (game.noise, game.alpha, game.b, game.trace, weights), np.zeros(rows.shape)
        rows = np.where(seen, rows, 0.0)
        MISSING_CELLS(at.W, *constant, known.weights, known.V, rows, starts, places, lacking, found)
        return np.where(seen, found, 0.0)[:, at.who]

    def forms(self, unit: Floats, known: Known) -> Floats:
        """Matrices (players, n, n) of weighted contributions, added up; rows are unit rows."""
        at, n = self.at_once, len(unit)
        matrices = np.zeros((len(at.who), n, n))
        together = max(1, (16 * _NUMBERS) // max(1, n * len(at.who)))
        for start in range(0, len(known.members), together):
            r, slope = at.factors(known.some(slice(start, start + together)), unit)
            matrices += r.transpose(2, 1, 0) @ slope.transpose(2, 0, 1)
        return np.asarray(at.of_players(matrices.transpose(1, 2, 0)).transpose(2, 0, 1))
