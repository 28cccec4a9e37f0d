"""Rows on their way from a table to an explanation: read, standardised and scored once."""

from dataclasses import dataclass, replace
from typing import Any, Self

from culpa._core.types import Floats
from culpa.columns import Reading
from culpa.models import FittedModel
from culpa.scores.score import Score


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
