"""What several games have in common, and what they ask of the score that they share out."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np

from culpa._core.types import Array, Floats, Positions
from culpa.games.game import Axes, Game
from culpa.models import LatentGaussian
from culpa.models.draws import Expecting


class Scored(Protocol):
    """Any score; see `culpa.scores.Score`."""

    def __call__(self, X: Floats) -> Floats:
        """Score of each row, (n,)."""
        ...

    @property
    def distribution(self) -> Expecting:
        """Distribution of standardised normal rows."""
        ...

    @property
    def expectation(self) -> float:
        """Value of the empty coalition."""
        ...


class Quadratic(Scored, Protocol):
    """A quadratic score of centred rows, q(x) = x^T A x; see `culpa.scores.QuadraticScore`."""

    @property
    def gaussian(self) -> LatentGaussian:
        """Gaussian distribution of centred normal rows."""
        ...

    @property
    def residual_weights(self) -> Floats:
        """Weights of squared residuals, (d,)."""
        ...

    @property
    def latent_weights(self) -> Floats:
        """Weights of squared latent variables, (p,)."""
        ...

    @property
    def root(self) -> Floats:
        """F with q(x) = |F x|^2."""
        ...

    @property
    def matrix(self) -> Floats:
        """The matrix A of the score, (d, d)."""
        ...

    @property
    def diagonal(self) -> Floats:
        """Diagonal of the matrix A, (d,)."""
        ...

    def complete(self, X: Floats) -> Floats:
        """Score of rows without missing cells, (n,)."""
        ...

    def response(self, X: Array, convert: Callable[[Floats], Array] = np.asarray) -> Array:
        """A x of each row."""
        ...

    def given_observed(self, observed: Positions) -> "Quadratic":
        """The score of rows with these features only."""
        ...


AboutScore = TypeVar("AboutScore", bound=Scored)


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
        """Whether rows have base values of their own: they do, with features that are given."""
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
