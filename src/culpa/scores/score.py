"""What the rest of the code asks of a score, and what follows for any score.

A new score says what normal rows are like, how abnormal a row is, what it is on average, and which games explain it. It may
say more, so that more can be asked about it, or faster.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from culpa._core.choices import GameName, RetrainingRank
from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats, Mask, Positions
from culpa.columns import Reading
from culpa.games import Game
from culpa.models import FittedModel
from culpa.models.draws import Expecting

if TYPE_CHECKING:
    from culpa.scores.quadratic import QuadraticForm, QuadraticScore

CELLS_PER_CHUNK = 1 << 22  # numbers held at a time


class GameSettings(NamedTuple):
    """What a game may depend on beside the score; see the parameters of `culpa.Explainer`."""

    model: FittedModel
    locality: float = 0.01
    retraining_rank: RetrainingRank = "components"


class InPlace(NamedTuple):
    """Some rows, and the quadratic score that stands for another score of them, under a model with one mode."""

    at: Positions
    model: FittedModel
    rows: Floats  # as this model standardises them
    score: "QuadraticScore"


class Score(CopiedInUse, ABC):
    """How abnormal a standardised row is; larger is more abnormal."""

    name: str  # what users call it

    @abstractmethod
    def __call__(self, X: Floats) -> Floats:
        """Score of each row; with missing cells, what the observed ones are worth; NaN where nothing is observed."""

    @property
    @abstractmethod
    def distribution(self) -> Expecting:
        """Distribution of standardised normal rows."""

    @property
    @abstractmethod
    def expectation(self) -> float:
        """Value of the empty coalition: what the score is expected to be before anything is known about a row."""

    @abstractmethod
    def game(self, name: GameName, settings: GameSettings) -> Game:
        """The game of this name that explains the score, or a ValueError that says in one sentence why there is none."""

    @property
    def is_quadratic(self) -> bool:
        """Whether it is a quadratic form of the row in each mode, smallest at the mean of the mode."""
        return False

    @property
    def as_quadratic(self) -> "QuadraticScore | None":
        """Itself, if it is one quadratic form of rows of one mode; others have no limits by formulas, and no forms."""
        return None

    def evaluations(self, complete: bool) -> int:
        """How often a function of the user's is called for the score of a row."""
        return 0

    def with_draws(self, n_draws: int, *, independent: bool) -> Self:
        """The same score, where unknown features are drawn so often, and whether as if the known ones told nothing."""
        return self

    def if_fixed(self, X: Floats, score: Floats, expected: Floats, blocks: Sequence[Sequence[int]]) -> Floats:
        """Score of each row with one block of features moved to its expected values, (n, blocks).

        ``score`` is what the rows have now. NaN where nothing of the block was observed.
        """
        seen = ~np.isnan(X).astype(np.bool_)
        row, k = np.nonzero(seen.astype(np.float64) @ memberships(blocks, X.shape[1]).T)
        result = np.full((len(X), len(blocks)), np.nan)
        result[row, k] = self.rescored(X, expected, blocks, row, k)
        return result

    def rescored(
        self, X: Floats, expected: Floats, blocks: Sequence[Sequence[int]], row: Positions, k: Positions
    ) -> Floats:
        """Scores of rows with the observed cells of a block each at their expected values."""
        members, result = memberships(blocks, X.shape[1]), np.empty(len(row))
        step = max(1, CELLS_PER_CHUNK // X.shape[1])
        for some in (slice(start, start + step) for start in range(0, len(row), step)):
            fixed = X[row[some]]
            moves = members[k[some]] & ~np.isnan(fixed)
            result[some] = self(np.where(moves, expected[row[some]], fixed))
        return result

    def fix(self, X: Floats, block: Sequence[int]) -> tuple[Floats, Floats]:
        """What the other observed features imply for a whole block, (n, block), and the score with all of it there, (n,).

        Cells of the block that are missing stay missing in the score.
        """
        at = list(block)
        expected = self.distribution.expected(X, [at])[:, at]
        fixed = X.copy()
        fixed[:, at] = np.where(np.isnan(X[:, at]), np.nan, expected)
        return expected, self(fixed)

    def given_observed(self, observed: Positions) -> "QuadraticForm":
        """The score of rows with these features only, as a quadratic form of them."""
        raise ValueError("counterfactual() is for quadratic scores, and this one is a function.")

    def in_place(self, model: FittedModel, X: Floats) -> Iterator[InPlace]:
        """Quadratic scores that rank features in place of this one, each for some of the rows."""
        raise ValueError(f"score={self.name!r} has no classical contributions.")


def memberships(blocks: Sequence[Sequence[int]], n_features: int) -> Mask:
    """Which features belong to each block, (blocks, d)."""
    result = np.zeros((len(blocks), n_features), dtype=bool)
    for k, block in enumerate(blocks):
        result[k, list(block)] = True
    return result


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows as the user has them, as the model sees them, and their scores by one statistic."""

    reading: Reading
    standard: Floats  # (rows, features): centred and scaled; NaN is missing
    score: Floats  # (rows,): NaN where no feature was observed
    statistic: Score

    @classmethod
    def of(cls, reading: Reading, model: FittedModel, statistic: Score) -> Self:
        """Standardise and score rows that were read."""
        standard = model.standardise(reading.features)
        return cls(reading, standard, statistic(standard), statistic)

    def __len__(self) -> int:
        return len(self.score)

    def choose(self, rows: Any) -> Self:
        """Some of the rows, by positions, a mask or a slice."""
        return replace(self, reading=self.reading.choose(rows), standard=self.standard[rows], score=self.score[rows])
