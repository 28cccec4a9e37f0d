"""What an explanation says about rows, all of it in one pass over the rows.

A few rows at a time are standardised, scored, explained and fixed while they are in the processor's cache, and threads
share these chunks. Two things are put off until many rows are together, because rows share work there:

- Rows with missing cells. Those that miss the same features are one small problem of linear algebra.
- Shapley values that are not compiled.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from culpa._core import memory
from culpa._core.choices import GameName, PartName, Parts, Ranking, parts_of
from culpa._core.copies import CopiedInUse
from culpa._core.kinds import top_of
from culpa._core.missing import any_missing, patterns, warn_about_empty_rows
from culpa._core.threads import in_threads, one_blas_thread
from culpa._core.types import Floats, Mask, Positions
from culpa.columns import Columns, Reading
from culpa.explaining.explanation import FIELDS_OF_PARTS, Explanation
from culpa.explaining.origin import Origin
from culpa.games import Game
from culpa.models import FittedModel
from culpa.ranking import contributions
from culpa.scores import Score, ScoredRows
from culpa.shapley import Players, Shares
from culpa.shapley.engine import Engine
from culpa.shapley.leading import Doubts, warn_about_doubts
from culpa.shapley.shares import fewest
from culpa.shapley.simulated import Simulation

_ROWS_TOGETHER = 1 << 16  # so that memory beyond the result does not grow with the number of rows
_CELLS_IN_CACHE, _FEWEST_ROWS = 90_000, 256  # of a chunk: the cache is that which cores share

_SUM_MAY_DIFFER = 1e-4  # relative; networks may compute with short numbers, in batches of other sizes

Wanted = Collection[PartName | Literal["suspicion"]]


class Answer(NamedTuple):
    """Fields of an `Explanation` with an entry per row, what the values took, and the rows without any observed feature."""

    fields: dict[str, Any]
    n_replicates: int
    n_evaluations: int
    n_uncertain: int
    empty: Positions


@dataclass
class _Job:
    """Some rows, the fields to fill in for them, and what that took so far."""

    rows: ScoredRows
    fields: dict[str, Any]
    known: bool  # whether the rows are standardised and scored already
    compiled: bool  # whether Shapley values are, and a few rows cost no more than their share of many
    n_replicates: int = 0
    n_evaluations: int = 0
    n_uncertain: int = 0

    def takes(self, shares: Shares, others: int = 0) -> None:
        self.n_replicates = fewest(self.n_replicates, shares.n_replicates)
        self.n_evaluations = max(self.n_evaluations, shares.n_evaluations + others)
        self.n_uncertain += shares.n_uncertain


@dataclass(frozen=True, eq=False)
class OnePass(CopiedInUse):
    """Computes what an explainer says about rows, in any number of batches.

    ``whole_game`` is the game in which no feature is given. If its total is not the score, the explained score is that
    total.
    """

    model: FittedModel
    columns: Columns
    score: Score
    game: Game
    whole_game: Game
    engine: Engine | Simulation
    players: Players
    groups: tuple[tuple[str, tuple[int, ...]], ...] | None
    game_name: GameName
    ranking: Ranking
    tolerance: float | str
    n_jobs: int | None

    def explain(self, reading: Reading, parts: Parts = None, limit: float | None = None) -> Explanation:
        """Rows that were read; compiles if enough of them have come. ``limit`` is that of the detector, if there is one."""
        wanted = parts_of(parts)
        if "values" in wanted:
            self.count_rows(reading.features)
            if self.compiling_is_due:
                self.engine.compile()
        answer = self._answer(reading, self._with_suspicion(wanted))
        if answer.n_uncertain:
            self.tell_doubts(Doubts(len(reading.labels), answer.n_uncertain, answer.n_evaluations))
        return self._explanation(reading, answer, limit)

    def explain_scored(self, rows: ScoredRows, parts: Parts = None, doubts: Doubts | None = None) -> Explanation:
        """Rows that are scored already, without ever compiling; ``doubts`` are counted, or else told."""
        if rows.statistic is not self.score:
            rows = ScoredRows.of(rows.reading, self.model, self.score)
        answer = self._answer_scored(rows, self._with_suspicion(parts_of(parts)), doubts)
        return self._explanation(rows.reading, answer)

    def values_of_scored(self, rows: ScoredRows, doubts: Doubts | None = None) -> Floats:
        """Shapley values alone, (rows, players), without ever compiling; NaN for rows without any observed feature."""
        return np.asarray(self._answer_scored(rows, parts_of("values"), doubts).fields["values"])

    def count_rows(self, features: Floats) -> None:
        """Note that these rows are being explained: enough of them make compiling worth while."""
        if self.engine.forms is None:
            incomplete = np.isnan(features).any(axis=1).sum() if any_missing(features) else 0
            self.engine.count_rows(len(features) - int(incomplete))

    @property
    def compiling_is_due(self) -> bool:
        """Whether compiling would have paid for the complete rows counted so far."""
        return self.engine.compiling_is_due

    def tell_doubts(self, found: Doubts, doubts: Doubts | None = None) -> None:
        """Add them to those of other rows, or tell them."""
        if doubts is None:
            warn_about_doubts(found, top_of(self.tolerance))
        else:
            doubts.add(found.n_rows, found.n_uncertain, found.n_evaluations)

    def _with_suspicion(self, wanted: Sequence[PartName]) -> Wanted:
        """The parts, together with whatever else ranks players."""
        return (*wanted, "suspicion") if "values" in wanted and self.ranking != "shapley" else wanted

    def _explanation(self, reading: Reading, answer: Answer, limit: float | None = None) -> Explanation:
        if len(answer.empty):
            warn_about_empty_rows(reading.labels[answer.empty], context=self.model.context is not None)
        sampled, reading = answer.n_replicates > 0, reading.owned()
        left_out: dict[str, Any] = dict.fromkeys(FIELDS_OF_PARTS)
        base = {"base_value": None if self.game.base_varies else self.game.base_value}
        return Explanation(
            **(left_out | base | answer.fields),
            data=reading.cells,
            feature_names=self.columns.known_names or reading.names or self.columns.names,
            row_labels=reading.labels,
            groups=self.groups,
            exact=not sampled,
            n_evaluations=answer.n_evaluations,
            n_replicates=answer.n_replicates,
            score_name=self.score.name,
            game=self.game_name,
            ranking=self.ranking,
            method=self.engine.method_used(exact=not sampled),
            native=reading.native,
            origin=Origin(self, reading, np.arange(len(reading.labels)), limit),
        )

    def _answer(self, reading: Reading, wanted: Wanted) -> Answer:
        """Rows that were read, of any number."""
        n = len(reading.labels)
        if n * self.game.n_features > _CELLS_IN_CACHE:
            per_row = sum(array.nbytes for array in self._fields(1, wanted).values())
            memory.claim_explanation(n, self.game.n_features, per_row, _ROWS_TOGETHER)
        standard, score = np.empty((min(n, _ROWS_TOGETHER), self.game.n_features)), np.empty(min(n, _ROWS_TOGETHER))
        fields = self._fields(n, wanted)
        replicates, evaluations, uncertain, empty = 0, 0, 0, [np.empty(0, dtype=np.intp)]
        with one_blas_thread(n):
            for start in range(0, n, _ROWS_TOGETHER):
                piece = reading if n <= _ROWS_TOGETHER else reading.choose(slice(start, start + _ROWS_TOGETHER))
                stop = start + len(piece.labels)
                rows = ScoredRows(piece, standard[: stop - start], score[: stop - start], self.score)
                here = {name: array[start:stop] for name, array in fields.items()}
                job = _Job(rows, here, known=False, compiled=self.engine.evaluates_few_rows(len(piece.labels)))
                empty.append(start + self._fill(job))
                replicates, evaluations = fewest(replicates, job.n_replicates), max(evaluations, job.n_evaluations)
                uncertain += job.n_uncertain
        return Answer(fields, replicates, evaluations, uncertain, np.concatenate(empty))

    def _answer_scored(self, rows: ScoredRows, wanted: Wanted, doubts: Doubts | None) -> Answer:
        compiled = self.engine.evaluates_few_rows(len(rows))
        job = _Job(rows, self._fields(len(rows), wanted), known=True, compiled=compiled)
        with one_blas_thread(len(rows)):
            empty = self._fill(job)
        self.tell_doubts(Doubts(len(rows), job.n_uncertain, job.n_evaluations), doubts)
        return Answer(job.fields, job.n_replicates, job.n_evaluations, job.n_uncertain, empty)

    def expected(self, standard: Floats) -> Floats:
        """What the other players imply each cell of standardised rows should have been."""
        return self.score.distribution.expected(standard, self._blocks)

    @cached_property
    def _blocks(self) -> Players | None:
        """Features that are left out together; ``None`` if each is left out alone."""
        return None if all(len(player) == 1 for player in self.players) else self.players

    @cached_property
    def _chunk(self) -> int | None:
        """Rows that stay in cache together; ``None`` if a function of the user's scores them, which gets all at once."""
        if self.score.evaluations(complete=True):
            return None
        return max(_FEWEST_ROWS, _CELLS_IN_CACHE // self.game.n_features)

    @cached_property
    def _kind_of_cells(self) -> tuple[int, Any]:
        """Number and type of the cells that a row has for the user."""
        shown = self.columns.decode(self.model.centre[None])
        return shown.shape[1], shown.dtype

    def _fields(self, n: int, wanted: Wanted) -> dict[str, Any]:
        """Arrays to be filled in."""
        shape, (n_cells, dtype) = (n, len(self.players)), self._kind_of_cells
        fields: dict[str, Any] = {}
        if "values" in wanted:
            fields |= {"values": np.empty(shape), "std_error": np.zeros(shape)}
            if self.game.base_varies:
                fields["base_value"] = np.full(n, np.nan)
        if "suspicion" in wanted:
            fields["suspicion"] = np.empty(shape)
        if "score" in wanted:
            fields["score"] = np.empty(n)
        if "expected" in wanted:
            fields["expected"] = np.empty((n, n_cells), dtype=dtype)
            if self.groups is not None:
                fields["furthest"] = np.empty(shape, dtype=np.intp)
        if "score_if_fixed" in wanted:
            fields["score_if_fixed"] = np.empty(shape)
        return fields

    def _fill(self, job: _Job) -> Positions:
        """Fill in the fields; returns the positions of rows without any observed feature."""
        n = len(job.rows.standard)
        n_chunks = max(1, -(-n // (self._chunk or max(1, n))))
        step = max(1, -(-n // n_chunks))  # chunks of the same size, so that threads end together
        chunks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
        others = in_threads(lambda chunk: self._fill_complete(job, chunk), chunks, self.n_jobs)
        incomplete = others[0] if len(others) == 1 else np.concatenate([np.empty(0, dtype=np.intp), *others])
        if len(incomplete):
            self._fill_all_but_values(job, incomplete)
        if "suspicion" in job.fields:
            job.fields["suspicion"][:] = contributions.of_players(
                contributions.of_rows(self.model, job.rows.standard, self.ranking, self.score), self.players
            )
        return self._fill_by_pattern(job, np.arange(n) if self._has_shared_work(job) else incomplete)

    def _has_shared_work(self, job: _Job) -> bool:
        """Whether complete rows, too, have fields in which they share work."""
        other_total = "score" in job.fields and not self.game.explains_score
        return ("values" in job.fields and not job.compiled) or "base_value" in job.fields or other_total

    def _fill_complete(self, job: _Job, chunk: slice) -> Positions:
        """Fill in what needs no other rows, of rows without missing cells; returns the positions of the others."""
        rows = job.rows
        if not job.known:
            rows.standard[chunk] = self.model.standardise(rows.reading.features[chunk])
        complete: slice | Positions = chunk
        others = np.empty(0, dtype=np.intp)
        if any_missing(rows.standard[chunk]):
            some = np.isnan(rows.standard[chunk]).any(axis=1)
            complete, others = chunk.start + np.flatnonzero(~some), chunk.start + np.flatnonzero(some)
        self._fill_all_but_values(job, complete)
        if "values" in job.fields and job.compiled:
            shares = self.engine.share_out(rows.standard[complete], self.players)
            job.fields["values"][complete] = shares.values
            if shares.n_replicates:
                job.fields["std_error"][complete] = shares.std_error
            job.takes(shares)
        return others

    def _fill_all_but_values(self, job: _Job, at: slice | Positions) -> None:
        """Scores, expected values and scores after fixing."""
        rows, fields = job.rows, job.fields
        standard = rows.standard[at]
        if not job.known and ("score" in fields or "score_if_fixed" in fields):
            rows.score[at] = self.score(standard)
        if "score" in fields and self.game.explains_score:
            fields["score"][at] = rows.score[at]
        if "expected" not in fields and "score_if_fixed" not in fields:
            return
        expected = self.expected(standard)
        if "score_if_fixed" in fields:
            fields["score_if_fixed"][at] = self.score.if_fixed(standard, rows.score[at], expected, self.players)
        if "expected" in fields:
            reading = rows.reading if len(standard) == len(rows) else rows.reading.choose(at)
            fields["expected"][at] = self.model.to_cells(expected, reading, self.columns)
        if "furthest" in fields:
            fields["furthest"][at] = self._furthest(standard - expected)

    def _furthest(self, off: Floats) -> Positions:
        """Of each player, the column furthest from its expected value, in standard deviations: (rows, players)."""
        away = np.abs(off.T, order="C")  # by column, so that each step goes through contiguous numbers
        away /= self.model.spread[:, None]  # which is not 1 where columns are not scaled
        if any_missing(away):
            away[np.isnan(away)] = -1.0
        of_columns = [
            away[members[0]] if len(members) == 1 or self.columns.lags else away[members].max(axis=0)
            for members in map(list, self.columns.members)
        ]
        result = np.empty((len(self.players), len(off)), dtype=np.intp)
        for k, (_, columns) in enumerate(self.groups or ()):
            # column by column: there are few of them, and argmax would go through the rows one by one
            largest = of_columns[columns[0]].copy()
            result[k] = columns[0]
            for column in columns[1:]:
                np.copyto(result[k], column, where=of_columns[column] > largest)
                np.maximum(largest, of_columns[column], out=largest)
        return result.T

    def _fill_by_pattern(self, job: _Job, at: Positions) -> Positions:
        """Fill in what rows with the same features observed share; returns the positions of rows with none."""
        empty, fields = np.empty(0, dtype=np.intp), job.fields
        if not len(at):
            return empty
        served = self._fill_incomplete(job, at)
        if self.game.explains_score and "base_value" not in fields:
            at, served = at[~served], served[~served]  # nothing else is to be done for the others
        for some, observed in patterns(job.rows.standard[at]):
            where = at[some]
            if not len(observed):
                empty = where
                for name in fields.keys() & {"values", "std_error", "score"}:
                    fields[name][where] = np.nan
                continue
            standard = job.rows.standard[where]
            if "score" in fields and not self.game.explains_score:
                fields["score"][where] = self.whole_game.total(standard, observed)
            if "base_value" in fields:
                game = self.game.where(~np.isnan(standard[0]))
                fields["base_value"][where] = game.base_values(np.nan_to_num(standard, nan=0.0))
            compiled, left = job.compiled and len(observed) == standard.shape[1], ~served[some]
            if "values" in fields and not compiled and left.any():
                self._fill_values(job, where[left], standard[left], set(observed.tolist()))
        return empty

    def _fill_incomplete(self, job: _Job, at: Positions) -> Mask:
        """Fill in values of rows with missing cells that are served many patterns at a time; returns which these are."""
        served = np.zeros(len(at), dtype=bool)
        if "values" not in job.fields:
            return served
        incomplete = np.isnan(job.rows.standard[at]).any(axis=1)
        if not incomplete.any():
            return served
        shares, rows = self.engine.share_out_incomplete(job.rows.standard[at[incomplete]])
        served[incomplete] = rows
        job.fields["values"][at[served]] = shares.values[rows]
        job.fields["std_error"][at[served]] = shares.std_error[rows]
        job.takes(shares)
        return served

    def _fill_values(self, job: _Job, where: Positions, standard: Floats, observed: set[int]) -> None:
        """Shapley values of rows with the same features observed."""
        values, std_error = job.fields["values"], job.fields["std_error"]
        members = [[feature for feature in player if feature in observed] for player in self.players]
        present = [k for k, player in enumerate(members) if player]
        values[where] = 0.0
        if not present:  # nothing but given features
            job.n_evaluations = max(job.n_evaluations, self._other_evaluations(job, 0, observed))
            return
        shares = self.engine.share_out(standard, [members[k] for k in present], present)
        values[where[:, None], present] = shares.values
        if shares.n_replicates:
            std_error[where[:, None], present] = shares.std_error
        job.takes(shares, self._other_evaluations(job, len(present), observed))
        self._check_sums(job, where)

    def _other_evaluations(self, job: _Job, n_present: int, observed: set[int]) -> int:
        """How often a function is called for a row beside its Shapley values."""
        wanted, each = job.fields.keys(), self.score.evaluations(complete=len(observed) == self.game.n_features)
        scored = not job.known and bool(wanted & {"score", "score_if_fixed"})
        given = "base_value" in wanted and not observed.isdisjoint(self.game.known.tolist())
        return each * (scored + n_present * ("score_if_fixed" in wanted)) + given * self.score.evaluations(
            complete=False
        )

    def _check_sums(self, job: _Job, where: Positions) -> None:
        """Raise an error if values of a function do not add up to its score, because it does not stay the same."""
        if not self.score.evaluations(complete=True) or "score" not in job.fields:
            return
        values, score = job.fields["values"][where], job.fields["score"][where]
        base = job.fields["base_value"][where] if "base_value" in job.fields else self.game.base_value
        size = np.abs(values).sum(axis=1) + np.abs(base) + np.abs(score)
        if not (np.abs(values.sum(axis=1) + base - score) <= _SUM_MAY_DIFFER * size).all():
            raise ValueError(
                "score returned different numbers for the same rows, so Shapley values do not add up to it: give a "
                "function without randomness or memory."
            )
