"""What the rest of the code asks of a score, quadratic or not."""

from collections.abc import Sequence
from typing import Protocol

from culpa._core.types import Floats
from culpa.models.distribution import Expecting


class Score(Protocol):
    """How abnormal a standardised row is. `QuadraticScore` and the scores of `culpa.scores.mixture` are such."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    def __call__(self, X: Floats) -> Floats:
        """Score of each row; with missing cells, what the observed ones are worth; NaN where nothing is observed."""
        ...

    @property
    def distribution(self) -> Expecting:
        """Of standardised normal rows."""
        ...

    def if_fixed(self, X: Floats, score: Floats, expected: Floats, blocks: Sequence[Sequence[int]]) -> Floats:
        """Score of each row with one block of features moved to its expected values, (n, blocks)."""
        ...

    @property
    def expectation(self) -> float:
        """Value of the empty coalition: what the score is expected to be before anything is known about a row."""
        ...

    def fix(self, X: Floats, block: Sequence[int]) -> tuple[Floats, Floats]:
        """What the other observed features imply for a whole block, (n, block), and the score with all of it there."""
        ...
