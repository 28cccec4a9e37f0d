"""What several games have in common."""

from abc import abstractmethod
from typing import Generic, TypeVar

from culpa._core.types import Floats
from culpa.games.game import Axes, Game
from culpa.scores.score import Score

AboutScore = TypeVar("AboutScore", bound=Score)


class Expected(Game, Generic[AboutScore]):
    """A game of a score, in which nothing is known about the row at first."""

    def __init__(self, score: AboutScore) -> None:
        self.score = score

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self.score.distribution.n_features

    @property
    def base_value(self) -> float:
        """What the score is expected to be before anything is known."""
        return self.score.expectation


class Relative(Game):
    """A game whose values are counted from what the empty coalition is worth in each row. Otherwise it is like another."""

    @property
    @abstractmethod
    def _likeness(self) -> Game:
        """The other game, which has the same features and is as easy to compile."""

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self._likeness.n_features

    @abstractmethod
    def base_values(self, X: Floats) -> Floats:
        """What the empty coalition is worth in each row, (n,)."""

    @property
    def base_varies(self) -> bool:
        """Yes."""
        return True

    @property
    def base_value(self) -> float:
        """Values are counted from `base_values`."""
        return 0.0

    @property
    def axes(self) -> Axes | None:
        """As in the other game."""
        return self._likeness.axes

    @property
    def forms_keep_digits(self) -> bool:
        """As in the other game."""
        return self._likeness.forms_keep_digits

    @property
    def scale(self) -> Floats:
        """As in the other game."""
        return self._likeness.scale
