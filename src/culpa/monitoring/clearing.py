"""Which features, fixed together, would have cleared the alarm of a row?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from culpa._core.comparing import exceeds
from culpa._core.types import Floats
from culpa.scores import Score

MOST = 8  # players; more of them are no explanation
_MANY = 3  # players above which another way is tried


class Fix(NamedTuple):
    """Players to fix together, and the score then."""

    players: tuple[int, ...]
    score: float


@dataclass(frozen=True, eq=False)
class Around:
    """A score of rows that are given by their distances from ``offset``, the mean of their mode."""

    score: Score
    offset: Floats

    def __call__(self, X: Floats) -> Floats:
        """The score of each row."""
        return self.score(X + self.offset)

    def fix(self, X: Floats, block: Sequence[int]) -> tuple[Floats, Floats]:
        """What the other observed features imply for a whole block, and the score with all of it there."""
        expected, score = self.score.fix(X + self.offset, block)
        return expected - self.offset[list(block)], score


class RowFixer:
    """Fixes sets of players in one standardised row: each at the value that the remaining features imply jointly."""

    def __init__(self, row: Floats, score: Around, precision: Floats, players: Sequence[Sequence[int]]) -> None:
        self.row, self.score, self.players = row, score, players
        self._precision, self._complete = precision, not np.isnan(row).any()

    def features(self, players: Sequence[int]) -> list[int]:
        """Positions of the features behind some players."""
        return sorted(j for player in players for j in self.players[player])

    def score_without(self, players: Sequence[int]) -> float:
        """The score with these players fixed."""
        if not self._complete:
            return float(self.score.fix(self.row[None], self.features(players))[1][0])
        return float(self.score(self.fixed(players)[None])[0])

    def fixed(self, players: Sequence[int]) -> Floats:
        """The row with these players at the values that the remaining features imply."""
        block, row = self.features(players), self.row.copy()
        if not self._complete:
            row[block] = self.score.fix(self.row[None], block)[0][0]
            return row
        # by the precision, a small system of equations; the present values play no part, however large they are
        row[block] = 0.0
        row[block] = -np.linalg.solve(self._precision[np.ix_(block, block)], self._precision[block] @ row)
        return row

    def clear(self, ranked: Sequence[int], limit: float) -> Fix | None:
        """Players that bring the score down to the limit when they are fixed together, none of whom can be left out.

        They are found among the first of ``ranked``: as many as it takes, and then without those that are not needed. A
        healthy feature may rank above two broken ones that imply each other. Where many would be needed, those are tried
        instead whose fix helps most, one after the other.
        """
        found = self._from_the_top(ranked, limit)
        if found is None or len(found.players) > _MANY:
            other = self._one_by_one(ranked, limit)
            if other is not None and (found is None or len(other.players) < len(found.players)):
                return other
        return found

    def _from_the_top(self, ranked: Sequence[int], limit: float) -> Fix | None:
        for k in range(1, min(len(ranked), 2 * MOST) + 1):
            players = tuple(ranked[:k])
            score = self.score_without(players)
            if not exceeds(score, limit):
                return self._pruned(Fix(players, score), limit)
        return None

    def _pruned(self, fix: Fix, limit: float) -> Fix | None:
        while len(fix.players) > 1:
            for left_out in reversed(range(len(fix.players))):  # the lowest ranked first
                players = fix.players[:left_out] + fix.players[left_out + 1 :]
                score = self.score_without(players)
                if not exceeds(score, limit):
                    fix = Fix(players, score)
                    break
            else:
                break
        return fix if len(fix.players) <= MOST else None

    def _one_by_one(self, ranked: Sequence[int], limit: float) -> Fix | None:
        chosen: tuple[int, ...] = ()
        while len(chosen) < min(MOST, len(ranked)):
            tried = [
                Fix((*chosen, player), self.score_without((*chosen, player)))
                for player in ranked
                if player not in chosen
            ]
            best = min(tried, key=lambda fix: fix.score)
            chosen = best.players
            if not exceeds(best.score, limit):
                order = {player: place for place, player in enumerate(ranked)}
                return best._replace(players=tuple(sorted(chosen, key=order.__getitem__)))
        return None
