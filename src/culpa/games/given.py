"""Games in which some features are always known: they are in every coalition, and are no players.

The value of a coalition S of the other features is v(S and G) - v(G), with G the given features. What the empty coalition
is worth, v(G), differs from row to row: see `Given.base_values`.
"""

import numpy as np

from culpa._core.types import Array, Floats, Mask, Positions
from culpa.games.bases import Relative
from culpa.games.game import Coalitions, Cost, Game
from culpa.games.marginals import Marginals

# Steps are taken with arrays, not by a compiled kernel; these are about the operations that take as long.
_SLOWER, _AT_LEAST = 12.0, 400.0


class Given(Relative):
    """Another game with some features always in."""

    def __init__(self, game: Game, known: Positions) -> None:
        self.game, self.known = game, np.asarray(known, dtype=np.intp)
        self.explains_score, self.is_simulated = game.explains_score, game.is_simulated

    @property
    def _likeness(self) -> Game:
        """The game itself; its features are those that are given, too."""
        return self.game

    def base_values(self, X: Floats) -> Floats:
        """What the given features alone are worth, (n,)."""
        return self.game.walked_value(X, self.known)

    def where(self, observed: Mask) -> "Given":
        """Given features that are missing are not known."""
        return Given(self.game.where(observed), self.known[observed[self.known]])

    def value(self, X: Floats, members: Positions) -> Floats:
        """Value of a coalition together with the features that are given."""
        everybody = np.union1d(members, self.known).astype(np.intp)
        return np.asarray(self.game.value(X, everybody) - self.game.value(X, self.known))

    def values(self, X: Array, members: Array) -> Array:
        """The same for many coalitions, as the game computes them."""
        known = np.zeros((1, self.n_features))
        known[:, self.known] = 1.0
        return self.game.values(X, np.maximum(members, known)) - self.game.values(X, known)

    def start(self, X: Array, queues: Positions, *, branching: bool) -> Coalitions:
        """The given features join first."""
        coalitions = self.game.start(X, self._behind(queues), branching=branching)
        for _ in self.known:
            coalitions, _ = coalitions.join()
        return coalitions

    @property
    def marginals(self) -> Marginals | None:
        """Those of the game: given features are in every coalition."""
        return self.game.marginals

    def total(self, X: Floats, observed: Positions) -> Floats:
        """That of the game, counted from nothing."""
        return self.game.total(X, observed)

    def deciding_order(self, players: list[list[int]]) -> list[int]:
        """The order in which the game underneath decides about features."""
        return self.game.deciding_order(players)

    @property
    def cost(self) -> Cost:
        """That of the game, walked with arrays."""
        return Cost(*(max(_SLOWER * cost, _AT_LEAST) for cost in self.game.cost))

    @property
    def quadratic(self) -> bool:
        """If the game's values are."""
        return self.game.quadratic

    def _behind(self, queues: Positions) -> Positions:
        """Queues with the given features in front."""
        return np.hstack([np.tile(self.known, (len(queues), 1)), queues]).astype(np.intp)
